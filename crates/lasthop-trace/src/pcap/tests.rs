use super::packet::Seen;
use super::*;
use lasthop_core::{
    Body, Datagram, Direction, Dscp, Flags, FlowId, Place, QueueDepth, SackBlock, Segment, Timestamps,
};
use lasthop_scenario::Scenario;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;
use std::num::NonZeroU16;

const ENDS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 1, 1]];
const FRESH: Seen = Seen { routers: 0, ends: ENDS };
const ROUTED: Seen = Seen { routers: 1, ends: ENDS };

fn packet(serial: u64, direction: Direction, ecn: Ecn, segment: Segment) -> Packet {
    Packet {
        serial,
        flow: FlowId(0),
        direction,
        ip_bytes: segment.ip_bytes(),
        ecn,
        is_copy: false,
        place: Place::from(direction),
        queued_at: Instant::MAX,
        dscp: Dscp::default(),
        server_port: 30_001,
        body: Body::Tcp(segment),
    }
}

fn hex(packet: &Packet, seen: Seen) -> Vec<String> {
    let mut builder = Builder::default();
    let bytes = builder.build(packet, packet.ecn, seen).expect("a packet that can be written");
    bytes.chunks(4).map(|word| format!("{:08x}", u32::from_be_bytes(word.try_into().unwrap()))).collect()
}

/// RFC 1071: summed with its own checksum in place, correct data gives all ones.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Both checksums of a raw packet are right.
fn checksums_hold(bytes: &[u8]) -> bool {
    let transport = &bytes[20..];
    let mut pseudo = bytes[12..20].to_vec();
    pseudo.extend([0, bytes[9]]);
    pseudo.extend((transport.len() as u16).to_be_bytes());
    pseudo.extend(transport);
    ones_complement_sum(&bytes[..20]) == 0xffff && ones_complement_sum(&pseudo) == 0xffff
}

fn syn() -> Packet {
    let segment = Segment {
        flags: Flags::SYN.with(Flags::ECE).with(Flags::CWR),
        window_bytes: 5840,
        mss: NonZeroU16::new(536),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 258, echo: 0 }),
        ..Segment::default()
    };
    packet(1, Direction::Down, Ecn::NotEct, segment)
}

#[test]
fn the_code_point_stands_above_the_ecn_bits_and_the_stated_port_is_shown() {
    let dscp = "EF".parse().unwrap();
    let bytes = hex(&Packet { dscp, server_port: 80, ecn: Ecn::Ect0, ..syn() }, FRESH);
    assert_eq!(bytes[0], "45ba003c", "46 << 2 | 2");
    assert_eq!(bytes[5], "00504e21");
}

#[test]
fn a_syn_announces_mss_sack_timestamps_and_ecn() {
    #[rustfmt::skip]
    let expected = [
        "4500003c", "00014000", "400625ba", "0a000001", "0a000101",             // 60 bytes, TTL 64
        "75314e21", "3b9aca00", "00000000", "a0c216d0", "57230000",             // CWR, ECE, SYN; 5840
        "02040218", "01010402", "0101080a", "00000102", "00000000",             // MSS 536
    ];
    assert_eq!(hex(&syn(), FRESH), expected);
}

/// The bytes are those of a SYN of Linux 6.12 with the same values.
#[test]
fn a_compact_syn_has_its_options_as_linux_lays_them_out() {
    let Body::Tcp(segment) = syn().body else { unreachable!("a SYN is TCP") };
    let segment = Segment { compact: true, window_scale: Some(4), ..segment };
    let bytes = hex(&packet(1, Direction::Down, Ecn::NotEct, segment), FRESH);
    // MSS 536; SACK permitted with timestamps; a NOP and the shift.
    assert_eq!(bytes[10..], ["02040218", "0402080a", "00000102", "00000000", "01030304"]);
}

#[test]
fn a_sack_ack_reports_a_duplicate_first_and_clamps_its_window() {
    let mut segment = Segment {
        seq: 1,
        ack: 1609,
        flags: Flags::ACK,
        window_bytes: 100_000,
        timestamps: Some(Timestamps { value: 0x11, echo: 0x22 }),
        ..Segment::default()
    };
    segment.sack.push(SackBlock { start: 1, end: 537 });
    segment.sack.push(SackBlock { start: 2145, end: 2681 });
    #[rustfmt::skip]
    let expected = [
        "45000048", "23454000", "3f06036a", "0a000101", "0a000001",     // serial 0x12345, TTL 63
        "4e217531", "77359401", "3b9ad049", "d010ffff", "05940000",
        "0101080a", "00000011", "00000022",
        "01010512", "3b9aca01", "3b9acc19", "3b9ad261", "3b9ad479",     // blocks of the server's stream
    ];
    assert_eq!(hex(&packet(0x12345, Direction::Up, Ecn::NotEct, segment), ROUTED), expected);
}

#[test]
fn a_marked_segment_carries_ce_and_a_folded_sequence_number() {
    let segment = Segment {
        seq: (5 << 32) - 10,
        ack: 1,
        payload_bytes: 4,
        flags: Flags::ACK.with(Flags::PSH).with(Flags::CWR),
        window_bytes: 5840,
        ..Segment::default()
    };
    #[rustfmt::skip]
    let expected = [
        "4503002c", "00074000", "3f0626c1", "0a000001", "0a000101",             // CE
        "75314e21", "3b9ac9f6", "77359401", "509816d0", "af5c0000",             // CWR, PSH, ACK
        "00000000",
    ];
    assert_eq!(hex(&packet(7, Direction::Down, Ecn::Ce, segment), ROUTED), expected);
}

#[test]
fn what_headers_cannot_say_is_an_error() {
    let mut builder = Builder::default();
    let mut refuse = |packet: &Packet| builder.build(packet, packet.ecn, FRESH).unwrap_err().kind();
    let full = Segment { payload_bytes: 65_496, ..Segment::default() };
    assert_eq!(refuse(&packet(0, Direction::Down, Ecn::NotEct, full)), io::ErrorKind::InvalidData);
    let mut crowded = Segment { timestamps: Some(Timestamps::default()), ..Segment::default() };
    (0..4).for_each(|_| crowded.sack.push(SackBlock { start: 1, end: 2 }));
    assert_eq!(refuse(&packet(0, Direction::Down, Ecn::NotEct, crowded)), io::ErrorKind::InvalidData);
    let wrong_length = Packet { ip_bytes: 61, ..syn() };
    assert_eq!(refuse(&wrong_length), io::ErrorKind::InvalidData);
    let foreign = Packet { flow: FlowId(10_000), ..syn() };
    assert_eq!(refuse(&foreign), io::ErrorKind::InvalidData);
}

fn scaled_syn(direction: Direction, shift: Option<u8>) -> Packet {
    let flags = if direction == Direction::Up { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
    let segment = Segment {
        flags,
        window_bytes: 100_000,
        mss: NonZeroU16::new(536),
        window_scale: shift,
        ..Segment::default()
    };
    packet(0, direction, Ecn::NotEct, segment)
}

#[test]
fn a_syn_offers_its_shift_count_beside_an_unscaled_window() {
    let words = hex(&scaled_syn(Direction::Down, Some(7)), FRESH);
    assert_eq!(words[0], "45000030");
    assert_eq!(words[8][4..], *"ffff");
    assert_eq!(words[10..], ["02040218", "01030307"]);
}

#[test]
fn windows_are_scaled_by_the_senders_count_once_both_ends_offered_one() {
    let field = |syns: [Option<u8>; 2], direction| {
        let mut builder = Builder::default();
        let ack = Segment { seq: 1, ack: 1, flags: Flags::ACK, window_bytes: 100_000, ..Segment::default() };
        let [down, up] = syns;
        for packet in [scaled_syn(Direction::Down, down), scaled_syn(Direction::Up, up)] {
            builder.build(&packet, packet.ecn, FRESH).unwrap();
        }
        let ack = packet(2, direction, Ecn::NotEct, ack);
        let bytes = builder.build(&ack, ack.ecn, FRESH).unwrap();
        u16::from_be_bytes([bytes[34], bytes[35]])
    };
    assert_eq!(field([Some(3), Some(7)], Direction::Up), (100_000 >> 7) as u16);
    assert_eq!(field([Some(3), Some(7)], Direction::Down), (100_000 >> 3) as u16);
    assert_eq!(field([Some(3), None], Direction::Down), u16::MAX);
    assert_eq!(field([None, Some(7)], Direction::Up), u16::MAX);
    assert_eq!(field([Some(255), Some(0)], Direction::Down), (100_000 >> 14) as u16);
}

#[test]
fn a_datagram_begins_with_its_number() {
    let mut builder = Builder::default();
    let mut payload = |number, payload_bytes| {
        let body = Body::Udp(Datagram { number, payload_bytes });
        let ip_bytes = Datagram::HEADER_BYTES + payload_bytes;
        let empty = packet(0, Direction::Down, Ecn::NotEct, Segment::default());
        let sent = Packet { ip_bytes, body, ..empty };
        let bytes = builder.build(&sent, sent.ecn, FRESH).unwrap();
        assert!(checksums_hold(bytes));
        bytes[28..].to_vec()
    };
    assert_eq!(payload(0x0102_0304_0506, 10), [0, 0, 1, 2, 3, 4, 5, 6, 0, 0]);
    assert_eq!(payload(0x0102_0304_0506, 2), [5, 6]);
    assert!(payload(7, 0).is_empty());
}

#[test]
fn a_snap_length_cuts_what_is_kept_and_nothing_else() {
    let data = Segment { payload_bytes: 100, ..Segment::default() };
    let sent = packet(1, Direction::Down, Ecn::NotEct, data);
    let whole = Builder::default().build(&sent, sent.ecn, FRESH).unwrap().to_vec();
    for snap_length in [1, 60, 139, 140, SNAP_LENGTH] {
        let mut capture = Capture::new(CapturePoints::single(), |_| Ok(Vec::new()), "", snap_length).unwrap();
        capture.packet(Instant::ZERO, PacketEvent::Sent, &sent);
        let (files, _) = capture.finish().unwrap();
        let mut reader = PcapNgReader::new(&files[0][..]).unwrap();
        let mut seen = 0;
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => assert_eq!(interface.snaplen, snap_length),
                Block::EnhancedPacket(block) => {
                    assert_eq!(block.original_len, 140);
                    assert_eq!(*block.data, whole[..140.min(snap_length as usize)]);
                    seen += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, 1);
    }
}

proptest! {
    #[test]
    fn checksums_hold_and_the_length_is_the_modelled_one(
        seq: u64, ack: u64, payload_bytes in 0_u32..1500, flags in 0_u8..8, window_bytes: u64,
        mss: Option<u16>, sack_permitted: bool, window_scale: Option<u8>, stamps: Option<(u32, u32)>,
        blocks in 0_usize..4, compact: bool, serial: u64, flow in 0_u32..10_000, up: bool, udp: bool,
    ) {
        let flag = |bit: u8, flag| if flags & bit == 0 { Flags::default() } else { flag };
        let mut segment = Segment {
            seq,
            ack,
            payload_bytes,
            flags: flag(1, Flags::ACK).with(flag(2, Flags::ECE)).with(flag(4, Flags::FIN)),
            window_bytes,
            // Together with SACK blocks these would not fit.
            mss: mss.and_then(NonZeroU16::new).filter(|_| blocks == 0),
            sack_permitted: sack_permitted && blocks == 0,
            window_scale: window_scale.filter(|_| blocks == 0),
            compact,
            timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
            ..Segment::default()
        };
        (0..blocks as u64).for_each(|n| segment.sack.push(SackBlock { start: ack ^ n, end: seq ^ n }));
        let direction = if up { Direction::Up } else { Direction::Down };
        let mut sent = packet(serial, direction, Ecn::Ect0, segment);
        sent.flow = FlowId(flow);
        if udp {
            sent.body = Body::Udp(Datagram { number: serial, payload_bytes });
            sent.ip_bytes = Datagram::HEADER_BYTES + payload_bytes;
        }
        let mut builder = Builder::default();
        let bytes = builder.build(&sent, sent.ecn, FRESH).unwrap();
        prop_assert_eq!(bytes.len(), sent.ip_bytes as usize);
        prop_assert_eq!(usize::from(bytes[2]) << 8 | usize::from(bytes[3]), bytes.len());
        prop_assert!(checksums_hold(bytes));
    }
}

/// A record of a capture: nanoseconds since the epoch, the ECN field, the comments.
type Record = (u128, u8, Option<String>);

/// Instant 0 of a run on the captures' clock.
fn at(nanos: u128) -> u128 {
    946_684_800_000_000_000 + nanos
}

fn records(file: &[u8]) -> Vec<Record> {
    let mut reader = PcapNgReader::new(file).expect("a section header");
    let mut records = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(block) = block.expect("a whole block") {
            let comments = block.options.iter().filter_map(|option| match option {
                EnhancedPacketOption::Comment(text) => Some(text.as_ref()),
                _ => None,
            });
            let comments = comments.collect::<Vec<_>>().join("; ");
            let comments = (!comments.is_empty()).then_some(comments);
            records.push((block.timestamp.as_nanos(), block.data[1] & 3, comments));
        }
    }
    records
}

fn capture(events: &[(u64, PacketEvent, &Packet)]) -> ([Vec<Record>; 4], String) {
    let mut capture =
        Capture::new(CapturePoints::single(), |_| Ok(Vec::new()), "a test", SNAP_LENGTH).unwrap();
    for (nanos, event, packet) in events {
        capture.packet(Instant::from_nanos(*nanos), *event, packet);
    }
    let (files, drops) = capture.finish().unwrap();
    let files: [Vec<u8>; 4] = files.try_into().unwrap();
    (files.map(|file| records(&file)), String::from_utf8(drops).unwrap())
}

#[test]
fn each_point_sees_what_passes_it() {
    let plain = Segment { payload_bytes: 4, ..Segment::default() };
    let sent = packet(1, Direction::Down, Ecn::Ect0, plain);
    let marked = Packet { ecn: Ecn::Ce, ..sent.clone() };
    let up = packet(2, Direction::Up, Ecn::NotEct, plain);
    let depth = QueueDepth::default();
    let ([server, client, router_in, router_out], drops) = capture(&[
        (1, PacketEvent::Sent, &sent),
        (2, PacketEvent::Marked, &marked),
        (2, PacketEvent::Enqueued(depth), &marked),
        (3, PacketEvent::Dequeued(depth), &marked),
        (4, PacketEvent::LinkRetry, &marked),
        (5, PacketEvent::Delivered, &marked),
        (5, PacketEvent::Duplicated, &marked),
        (5, PacketEvent::Sent, &up),
        (6, PacketEvent::Enqueued(depth), &up),
    ]);
    assert_eq!(server, [(at(1), 2, None)]);
    assert_eq!(client, [(at(5), 3, None), (at(5), 3, None), (at(5), 0, None)]);
    let comment = Some("marked: congestion experienced".to_owned());
    assert_eq!(router_in, [(at(2), 2, comment), (at(6), 0, None)]);
    assert_eq!(router_out, [(at(3), 3, None)]);
    assert_eq!(drops.lines().count(), 1);
}

#[test]
fn a_single_point_can_be_captured() {
    let packets = [packet(1, Direction::Down, Ecn::Ect0, Segment::default())];
    let mut names = Vec::new();
    let open = |name: &str| {
        names.push(name.to_owned());
        Ok(Vec::new())
    };
    let points = CapturePoints::single().only(Some("client"));
    let mut capture = Capture::new(points, open, "", SNAP_LENGTH).unwrap();
    for event in [PacketEvent::Sent, PacketEvent::Delivered] {
        capture.packet(Instant::from_nanos(7), event, &packets[0]);
    }
    let (files, _) = capture.finish().unwrap();
    assert_eq!(names, ["client.pcapng", "drops.csv"]);
    assert_eq!(records(&files[0]).len(), 1);
}

#[test]
fn every_drop_is_a_row_and_those_at_the_queue_are_comments() {
    let sent = packet(65_537, Direction::Down, Ecn::NotEct, Segment::default());
    let marked = Packet { ecn: Ecn::Ce, ..sent.clone() };
    let events: Vec<_> = [
        DropCause::QueueOverflow,
        DropCause::Red,
        DropCause::EarlyPacket,
        DropCause::Selective,
        DropCause::LinkError,
        DropCause::ArqGivenUp,
    ]
    .into_iter()
    .zip(1_000_000_001..)
    .map(|(cause, nanos)| (nanos, PacketEvent::Dropped(cause), &sent))
    .chain([
        (2_000_000_000, PacketEvent::Marked, &marked),
        (2_000_000_000, PacketEvent::Dropped(DropCause::QueueOverflow), &marked),
    ])
    .collect();
    let ([server, client, router_in, router_out], drops) = capture(&events);
    let comments: Vec<_> = router_in.into_iter().map(|(_, ecn, comment)| (ecn, comment.unwrap())).collect();
    let full = "dropped: router queue full".to_owned();
    // A packet that RED marked and the full queue dropped arrived unmarked.
    let early =
        ["dropped: RED", "dropped: early packet discard", "dropped: more than its share of the buffer"];
    let early = early.map(|comment| (0, comment.to_owned()));
    let both = format!("{MARKED}; {full}");
    assert_eq!(comments, [&[(0, full)], &early[..], &[(2, both)]].concat());
    assert!(server.is_empty() && client.is_empty() && router_out.is_empty());
    let expected = "\
time_s,flow,direction,cause,ip_id,server_port,client_port
1.000000001,0,down,queue,1,30001,20001
1.000000002,0,down,red,1,30001,20001
1.000000003,0,down,epd,1,30001,20001
1.000000004,0,down,selective,1,30001,20001
1.000000005,0,down,error,1,30001,20001
1.000000006,0,down,arq,1,30001,20001
2.000000000,0,down,queue,1,30001,20001
";
    assert_eq!(drops, expected);
}

/// Of six packets the queue passes one, drops one, marks one, gives one up to the link and keeps two.
#[test]
fn what_the_queue_drops_or_marks_after_it_accepted_it_has_a_comment_in_its_place() {
    let arrived: Vec<Packet> =
        (1..=6).map(|serial| packet(serial, Direction::Down, Ecn::Ect0, Segment::default())).collect();
    let marked = Packet { ecn: Ecn::Ce, ..arrived[2].clone() };
    let depth = QueueDepth::default();
    let enqueued =
        arrived.iter().zip(1..).map(|(packet, nanos)| (nanos, PacketEvent::Enqueued(depth), packet));
    let fates = [
        // Another queue of the discipline is served first.
        (11, PacketEvent::Marked, &marked),
        (11, PacketEvent::Dequeued(depth), &marked),
        (12, PacketEvent::Dropped(DropCause::CoDel), &arrived[1]),
        (12, PacketEvent::Dequeued(depth), &arrived[0]),
        (13, PacketEvent::Dropped(DropCause::LinkError), &arrived[3]),
        (14, PacketEvent::Delivered, &marked),
    ];
    let ([_, client, router_in, router_out], drops) = capture(&enqueued.chain(fates).collect::<Vec<_>>());
    let dropped = Some("dropped: CoDel".to_owned());
    let comments = [None, dropped, Some(MARKED.to_owned()), None, None, None];
    let expected: Vec<Record> =
        comments.into_iter().zip(1..).map(|(comment, nanos)| (at(nanos), 2, comment)).collect();
    assert_eq!(router_in, expected);
    assert_eq!(router_out, [(at(11), 3, None), (at(12), 2, None)]);
    assert_eq!(client, [(at(14), 3, None)]);
    assert_eq!(drops.lines().count(), 3);
}

/// A custom queue may drop a packet on arrival, for its own reason.
#[test]
fn a_packet_that_was_never_accepted_is_captured_with_its_comment() {
    let arrived = packet(1, Direction::Down, Ecn::Ect0, Segment::default());
    let ([_, _, router_in, _], _) = capture(&[(1, PacketEvent::Dropped(DropCause::User), &arrived)]);
    assert_eq!(router_in, [(at(1), 2, Some("dropped: own discipline".to_owned()))]);
}

#[test]
fn the_first_failure_ends_the_capture_and_is_reported() {
    let mut capture = Capture::new(CapturePoints::single(), |_| Ok(Vec::new()), "", SNAP_LENGTH).unwrap();
    let foreign = Packet { flow: FlowId(10_000), ..syn() };
    capture.packet(Instant::ZERO, PacketEvent::Sent, &foreign);
    capture.packet(Instant::ZERO, PacketEvent::Sent, &syn());
    assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::InvalidData);
}

const HOME: &str = r#"
[hop.cable]
down.link = { rate = "10 Mbit/s", delay = "5 ms" }
[hop.wifi]
behind = "cable"
down.link = { rate = "20 Mbit/s", delay = "1 ms" }
[host.laptop]
behind = "wifi"
[host.tv]
behind = "cable"
[[flow]]
kind = "bulk-tcp"
host = "laptop"
bytes = "1 kB"
[[flow]]
kind = "bulk-tcp"
host = "tv"
peer = "laptop"
bytes = "1 kB"
"#;

fn home() -> Scenario {
    lasthop_scenario::Study::from_str(HOME, "home.toml").unwrap().cells.swap_remove(0).scenario
}

/// From the server to the laptop behind two hops, then from the laptop to the TV behind the first of them.
#[test]
fn in_a_tree_each_host_and_both_ends_of_each_hop_see_what_passes_them() {
    let scenario = home();
    let points = CapturePoints::of(&scenario);
    let names: Vec<String> = points.names().map(str::to_owned).collect();
    let mut capture = Capture::new(points, |_| Ok(Vec::new()), "", SNAP_LENGTH).unwrap();
    for (application, info) in (0..).zip(scenario.flows()) {
        capture.announce(&FlowInfo { application, ..info });
    }
    let (tree, queued, data) =
        (scenario.tree(), PacketEvent::Enqueued, Segment { payload_bytes: 4, ..Segment::default() });
    let mut nanos = 0;
    let mut cross = |flow: u32, way: &[(usize, Direction)]| {
        let mut sent = Packet { flow: FlowId(flow), ..packet(flow.into(), Direction::Down, Ecn::Ect0, data) };
        let mut tell = |event, sent: &Packet| {
            nanos += 1;
            capture.packet(Instant::from_nanos(nanos), event, sent);
        };
        sent.place = Place(99);
        tell(PacketEvent::Sent, &sent);
        for (index, (hop, direction)) in way.iter().enumerate() {
            sent.place = tree.place(*hop, *direction);
            tell(queued(QueueDepth::default()), &sent);
            tell(PacketEvent::Dequeued(QueueDepth::default()), &sent);
            let is_last = index + 1 == way.len();
            tell(if is_last { PacketEvent::Delivered } else { PacketEvent::Forwarded }, &sent);
        }
    };
    cross(0, &[(0, Direction::Down), (1, Direction::Down)]);
    cross(1, &[(1, Direction::Up)]);
    let (files, _) = capture.finish().unwrap();
    let seen: Vec<(&str, Vec<Passed>)> =
        names.iter().map(String::as_str).zip(files.iter().map(|file| passed(file))).collect();
    let [server, laptop, tv] = [[10, 0, 0, 1], [10, 0, 1, 1], [10, 0, 2, 1]];
    let expected = [
        ("server", vec![(1, server, laptop, 64)]),
        ("laptop", vec![(7, server, laptop, 62), (8, laptop, tv, 64)]),
        ("tv", vec![(11, laptop, tv, 63)]),
        ("cable-down-in", vec![(2, server, laptop, 64)]),
        ("cable-down-out", vec![(4, server, laptop, 63)]),
        ("cable-up-in", vec![]),
        ("cable-up-out", vec![]),
        ("wifi-down-in", vec![(5, server, laptop, 63)]),
        ("wifi-down-out", vec![(7, server, laptop, 62)]),
        ("wifi-up-in", vec![(9, laptop, tv, 64)]),
        ("wifi-up-out", vec![(11, laptop, tv, 63)]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_mark_is_a_comment_where_it_was_made_and_not_at_the_next_hop() {
    let scenario = home();
    let tree = scenario.tree();
    let at_hop = |hop| tree.place(hop, Direction::Down);
    let sent = Packet { place: at_hop(0), ..packet(1, Direction::Down, Ecn::Ect0, Segment::default()) };
    let marked = Packet { ecn: Ecn::Ce, ..sent.clone() };
    let behind = Packet { place: at_hop(1), ..marked.clone() };
    let depth = QueueDepth::default();
    let seen_at = |point: &str| {
        let points = CapturePoints::of(&scenario).only(Some(point));
        let mut capture = Capture::new(points, |_| Ok(Vec::new()), "", SNAP_LENGTH).unwrap();
        for (event, packet) in [
            (PacketEvent::Enqueued(depth), &sent),
            (PacketEvent::Marked, &marked),
            (PacketEvent::Dequeued(depth), &marked),
            (PacketEvent::Forwarded, &marked),
            (PacketEvent::Enqueued(depth), &behind),
            (PacketEvent::Dequeued(depth), &behind),
        ] {
            capture.packet(Instant::from_nanos(7), event, packet);
        }
        records(&capture.finish().unwrap().0[0])
    };
    assert_eq!(seen_at("cable-down-in"), [(at(7), 2, Some(MARKED.to_owned()))]);
    assert_eq!(seen_at("wifi-down-in"), [(at(7), 3, None)]);
}

/// Time, source, destination and TTL of a packet.
type Passed = (u128, [u8; 4], [u8; 4], u8);

/// The packets in a file.
fn passed(file: &[u8]) -> Vec<Passed> {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut found = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(block) = block.unwrap() {
            let address = |from: usize| <[u8; 4]>::try_from(&block.data[from..from + 4]).unwrap();
            let time = block.timestamp.saturating_sub(EPOCH).as_nanos();
            found.push((time, address(12), address(16), block.data[8]));
        }
    }
    found
}
