//! Captures of hand-made packets, read by tshark.

use lasthop_core::{
    Body, Direction, Dscp, Ecn, EcnOption, Flags, FlowId, Instant, Observer, Packet, PacketEvent, Place,
    SackBlock, Segment, Timestamps,
};
use lasthop_trace::{Capture, CapturePoints, SNAP_LENGTH};
use std::num::NonZeroU16;
use std::process::Command;

fn packet(serial: u64, direction: Direction, segment: Segment) -> Packet {
    let body = Body::Tcp(segment);
    let ip_bytes = segment.ip_bytes();
    let (flow, dscp, server_port) = (FlowId(0), Dscp::default(), 30_001);
    Packet {
        serial,
        flow,
        direction,
        ip_bytes,
        ecn: Ecn::NotEct,
        is_copy: false,
        place: Place::from(direction),
        dscp,
        server_port,
        queued_at: Instant::MAX,
        body,
    }
}

/// A handshake with both shift counts and timestamps, and an ACK of the client with a large window.
fn handshake() -> [Packet; 3] {
    let syn = |flags, shift| Segment {
        flags,
        window_bytes: 5840,
        mss: NonZeroU16::new(536),
        sack_permitted: true,
        window_scale: Some(shift),
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        ..Segment::default()
    };
    let ack = Segment { seq: 1, ack: 1, flags: Flags::ACK, window_bytes: 1 << 20, ..Segment::default() };
    [
        packet(0, Direction::Down, syn(Flags::SYN, 2)),
        packet(1, Direction::Up, Segment { ack: 1, ..syn(Flags::SYN.with(Flags::ACK), 7) }),
        packet(2, Direction::Up, ack),
    ]
}

/// tshark's output for the server's packets.
fn read(name: &str, snap_length: u32, fields: &[&str]) -> Vec<String> {
    read_packets(name, snap_length, &handshake(), fields)
}

/// tshark's output for these packets, as the server sees them.
fn read_packets(name: &str, snap_length: u32, packets: &[Packet], fields: &[&str]) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("lasthop-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let create = |name: &str| std::fs::File::create(folder.join(name));
    let mut capture = Capture::new(CapturePoints::single(), create, "", snap_length).unwrap();
    for (nanos, packet) in (0..).zip(packets) {
        let event =
            if packet.direction == Direction::Down { PacketEvent::Sent } else { PacketEvent::Delivered };
        capture.packet(Instant::from_nanos(nanos), event, packet);
    }
    capture.finish().unwrap();
    let output = Command::new("tshark")
        .args(["-n", "-o", "tcp.check_checksum:TRUE", "-r"])
        .arg(folder.join("server.pcapng"))
        .args(["-T", "fields"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output()
        .expect("tshark; run 'scripts/setup-system --test' as root");
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_scales_windows_as_the_handshake_says() {
    let fields = [
        "tcp.options.wscale.shift",
        "tcp.window_size_scalefactor",
        "tcp.window_size",
        "tcp.checksum.status",
        "_ws.malformed",
    ];
    assert_eq!(
        read("wscale", SNAP_LENGTH, &fields),
        ["2\t\t5840\t1\t", "7\t\t5840\t1\t", "\t128\t1048576\t1\t"]
    );
}

#[test]
fn tshark_sees_how_much_of_a_packet_was_kept() {
    let fields = ["frame.len", "frame.cap_len", "ip.len", "tcp.flags.syn", "_ws.malformed"];
    assert_eq!(read("snaplen", 40, &fields), ["64\t40\t64\t1\t", "64\t40\t64\t1\t", "40\t40\t40\t0\t"]);
}

/// A handshake that agrees on accurate ECN, a marked segment and the ACK that counts it (RFC 9768).
#[test]
fn tshark_reads_the_flags_of_accurate_ecn() {
    let segment = |ace, flags| Segment {
        seq: 1,
        ack: 1,
        flags: Flags::from_ace(ace).with(flags),
        ..Segment::default()
    };
    let syn_ack = Flags::SYN.with(Flags::ACK);
    let sent = [
        packet(0, Direction::Down, Segment { seq: 0, ack: 0, ..segment(0b111, Flags::SYN) }),
        packet(1, Direction::Up, Segment { seq: 0, ..segment(0b010, syn_ack) }),
        Packet {
            ecn: Ecn::Ect1,
            ..packet(2, Direction::Down, Segment { payload_bytes: 100, ..segment(5, Flags::ACK) })
        },
        packet(3, Direction::Up, Segment { ack: 101, ..segment(6, Flags::ACK) }),
    ];
    let fields = ["tcp.flags", "ip.dsfield.ecn"];
    assert_eq!(
        read_packets("accurate-ecn", SNAP_LENGTH, &sent, &fields),
        ["0x01c2\t0", "0x0092\t0", "0x0150\t1", "0x0190\t0"]
    );
}

/// Both orders of the option of accurate ECN, and shorter ones whose end is in the padding of SACK blocks.
#[test]
fn tshark_reads_the_option_of_accurate_ecn() {
    let counts = [0x01_0203, 0x04_0506, 0x07_0809];
    let told = |serial, fields, is_order_1, blocks| {
        let timestamps = Some(Timestamps { value: 1, echo: 1 });
        let mut ack = Segment { seq: 1, ack: 1, flags: Flags::ACK, timestamps, ..Segment::default() };
        (0..blocks)
            .map(|block| 1_001 + 2_000 * block)
            .for_each(|start| ack.sack.push(SackBlock { start, end: start + 1_000 }));
        ack.set_ecn_option(&EcnOption { fields, is_order_1, counts });
        packet(serial, Direction::Up, ack)
    };
    let sent = [
        told(0, 3, true, 0),
        told(1, 3, false, 0),
        told(2, 3, true, 1),
        told(3, 2, true, 2),
        told(4, 1, true, 2),
        told(5, 0, true, 3),
    ];
    let option = "tcp.options.acc_ecn";
    let names = ["ee1b", "eceb", "ee0b"].map(|name| format!("{option}.{name}"));
    let fields = [&names[0], &names[1], &names[2], "tcp.options.sack.count", "tcp.hdr_len", "_ws.malformed"];
    assert_eq!(
        read_packets("ecn-option", SNAP_LENGTH, &sent, &fields),
        [
            "66051\t263430\t460809\t\t44\t",
            "460809\t263430\t66051\t\t44\t",
            "66051\t263430\t460809\t1\t56\t",
            "66051\t263430\t\t2\t60\t",
            "66051\t\t\t2\t56\t",
            "\t\t\t3\t60\t",
        ]
    );
}
