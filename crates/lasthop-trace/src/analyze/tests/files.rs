use super::*;
use crate::analyze::{analyze, packets::packets};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::io::{self, Read};
use std::time::Duration;

fn talk() -> Conversation {
    let mut talk = Conversation::open();
    talk.a(data(1, 101));
    talk.a(data(102, 99));
    talk.b(segment(1, 201));
    talk
}

/// The packets 10 ms apart from second 1 on, as `units` a second on an interface with these options.
fn pcapng(
    endianness: Endianness,
    options: Vec<InterfaceDescriptionOption<'static>>,
    units: u64,
    offset_s: u64,
) -> Vec<u8> {
    let mut file = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
    let description = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
    file.write_pcapng_block(description).unwrap();
    for (number, packet) in talk().0.iter().enumerate() {
        let ticks = (u128::from(units) * (100 + number as u128) / 100) as u64 - offset_s * units;
        let block = EnhancedPacketBlock {
            interface_id: 0,
            // The writer takes nanoseconds for the interface's units.
            timestamp: Duration::from_nanos(ticks),
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: vec![EnhancedPacketOption::Comment("as our captures have".into())],
        };
        file.write_pcapng_block(block).unwrap();
    }
    file.into_inner()
}

#[test]
fn pcapng_of_either_byte_order_and_every_clock_says_the_same() {
    use InterfaceDescriptionOption::{IfTsOffset, IfTsResol};
    let expected = good(&talk().capture());
    for endianness in [Endianness::Big, Endianness::Little] {
        for (options, units, offset_s) in [
            (vec![], 1_000_000, 0),
            (vec![IfTsResol(9)], 1_000_000_000, 0),
            (vec![IfTsResol(2)], 100, 0),
            (vec![IfTsResol(3), IfTsOffset(1)], 1000, 1),
        ] {
            let file = pcapng(endianness, options, units, offset_s);
            assert_eq!(good(&file), expected, "{endianness:?} {units}");
        }
    }
    // 2^20 ticks per second round the times.
    let (streams, _) = good(&pcapng(Endianness::Big, vec![IfTsResol(0x94)], 1 << 20, 0));
    assert!((streams[0].span_s - 0.05).abs() < 1e-6);
}

/// An interface statistics block with an `isb_ifdrop` and an `isb_osdrop`.
fn counters(if_drop: u64, os_drop: u64) -> Vec<u8> {
    let words = [5, 20 + 12 + 12 + 4 + 4, 0, 0, 0];
    let mut block: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for (code, count) in [(5_u16, if_drop), (7, os_drop)] {
        block.extend([code, 8].map(u16::to_le_bytes).concat());
        block.extend(count.to_le_bytes());
    }
    block.extend([0; 4]);
    block.extend(words[1].to_le_bytes());
    block
}

#[test]
fn counters_of_dropped_packets_are_those_of_the_last_block_of_each_section() {
    let section = pcapng(Endianness::Little, vec![], 1_000_000, 0);
    let dropped = |file: &[u8]| packets(file).unwrap().lacks.dropped;
    assert_eq!(dropped(&section), 0);
    let twice = [section.clone(), counters(3, 1), counters(5, 1)].concat();
    assert_eq!(dropped(&twice), 6, "they count since the beginning");
    assert_eq!(dropped(&[twice.clone(), twice].concat()), 12);
}

#[test]
fn headers_that_the_snap_length_cuts_are_counted() {
    let whole = packets(&talk().capture()[..]).unwrap();
    assert_eq!((whole.cut_headers, whole.flows[0].header), (0, [Some(20), None]));
    let cut = |snap: u32| {
        let file = talk().capture();
        let (mut short, mut at) = (file[..24].to_vec(), 24);
        while at < file.len() {
            let length = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap());
            let kept = length.min(snap);
            short.extend(&file[at..at + 8]);
            short.extend(kept.to_le_bytes());
            short.extend(&file[at + 12..at + 16 + kept as usize]);
            at += 16 + length as usize;
        }
        packets(&short[..]).unwrap()
    };
    // 20 bytes of IP and 20 of TCP.
    assert_eq!((cut(40).cut_headers, cut(40).time_ns.len()), (0, 6));
    assert_eq!((cut(39).cut_headers, cut(39).time_ns.len()), (6, 0));
}

#[test]
fn pcap_of_either_byte_order_and_resolution_says_the_same() {
    let micros = talk().capture();
    let expected = good(&micros);
    for (big, nanos) in [(true, false), (false, true), (true, true)] {
        assert_eq!(good(&rewritten(&micros, big, nanos)), expected, "big {big} nanos {nanos}");
    }
}

/// A pcap file in another byte order, or of nanoseconds.
fn rewritten(file: &[u8], big: bool, nanos: bool) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let bytes = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
    let mut out = bytes(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    out.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    (8..24).step_by(4).for_each(|at| out.extend(bytes(word(at))));
    let mut at = 24;
    while at < file.len() {
        let length = word(at + 8) as usize;
        let fraction = if nanos { word(at + 4) * 1000 } else { word(at + 4) };
        [word(at), fraction, word(at + 8), word(at + 12)].map(bytes).iter().for_each(|word| out.extend(word));
        out.extend(&file[at + 16..at + 16 + length]);
        at += 16 + length;
    }
    out
}

#[test]
fn a_second_section_may_have_the_other_byte_order() {
    let mut file = pcapng(Endianness::Big, vec![], 1_000_000, 0);
    file.extend(pcapng(Endianness::Little, vec![], 1_000_000, 0));
    let (_, capture) = good(&file);
    assert_eq!((capture.packets, capture.tcp_packets), (12, 12));
}

/// Returns one byte at a time, and occasionally an interruption.
struct Drip<'a>(&'a [u8], bool);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = 1.min(self.0.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn how_the_bytes_arrive_does_not_matter() {
    for file in [talk().capture(), pcapng(Endianness::Little, vec![], 1_000_000, 0)] {
        assert_eq!(analyze(Drip(&file, false)).unwrap(), analyze(&*file).unwrap());
    }
}

#[test]
fn a_read_error_is_told_with_its_place() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("bad sector"))
        }
    }
    let file = talk().capture();
    let error = analyze((&file[..50]).chain(Broken)).unwrap_err().to_string();
    assert_eq!(error, "cannot be read beyond byte 50: bad sector");
}

#[test]
fn a_cut_is_told_and_what_is_before_it_analysed() {
    for file in [talk().capture(), pcapng(Endianness::Big, vec![], 1_000_000, 0)] {
        let (whole, capture) = good(&file);
        assert_eq!((capture.packets, capture.cut_at), (6, None));
        for missing in 1..16 {
            let (streams, capture) = good(&file[..file.len() - missing]);
            assert_eq!(capture.packets, 5);
            assert!(capture.cut_at.is_some());
            assert_eq!(streams[0].packets, whole[0].packets);
            assert_eq!(streams[1].packets, whole[1].packets - 1);
        }
    }
    let file = talk().capture();
    let first = 24 + 16 + 40;
    assert_eq!(good(&file[..first]).1.cut_at, None, "between two packets nothing is missing");
    assert_eq!(good(&file[..=first]).1.cut_at, Some(first as u64));
}

#[test]
fn what_is_no_capture_is_told_apart() {
    let error_of = |file: &[u8]| bad(file);
    assert_eq!(error_of(b""), "neither pcap nor pcapng: it is empty");
    assert_eq!(error_of(b"GIF"), "neither pcap nor pcapng: it is too short for either");
    assert_eq!(
        error_of(&[0x1f, 0x8b, 8, 0]),
        "neither pcap nor pcapng: it is compressed by gzip, decompress it first"
    );
    assert_eq!(error_of(&[b'x'; 100]), "neither pcap nor pcapng: its first bytes match neither format");
    let section = pcapng(Endianness::Big, vec![], 1_000_000, 0);
    assert_eq!(error_of(&section[..20]), "neither pcap nor pcapng: it ends within its header");
    assert_eq!(error_of(&talk().capture()[..20]), "neither pcap nor pcapng: it is too short for either");
}

#[test]
fn damage_is_told_with_its_place() {
    let file = talk().capture();
    let second = 24 + 16 + 40;
    let damaged = |at: usize, byte: u8| {
        let mut file = file.clone();
        file[at] = byte;
        bad(&file)
    };
    assert_eq!(
        damaged(second + 11, 0x7f),
        "unreadable at byte 80, after 1 packets: a packet of 2130706472 captured bytes exceeds the maximum"
    );
    assert_eq!(
        damaged(second + 7, 0x7f),
        "unreadable at byte 80, after 1 packets: the time has 2130716432 of 1000000 parts of a second"
    );
    assert!(damaged(20, 147).starts_with(
        "unreadable at byte 24, after 0 packets: packets of link type 147; supported are raw IP"
    ));
}

#[test]
fn damaged_blocks_are_told_with_their_place() {
    let file = pcapng(Endianness::Little, vec![], 1_000_000, 0);
    let interface = 28;
    let packet = interface + 20;
    let damaged = |at: usize, word: u32| {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        bad(&file)
    };
    let at = |offset: usize, reason: &str| format!("unreadable at byte {offset}, after 0 packets: {reason}");
    assert_eq!(damaged(packet + 4, 7), at(packet, "a block cannot have 7 bytes"));
    assert_eq!(damaged(packet + 4, 1 << 30), at(packet, "a block cannot have 1073741824 bytes"));
    assert_eq!(damaged(packet + 4, 40), at(packet, "a block has two different lengths"));
    assert_eq!(
        damaged(packet + 8, 3),
        at(packet, "a packet of interface 3, for which there is no description")
    );
    assert_eq!(damaged(packet + 20, 4000), at(packet, "the content of a block of type 6 is broken"));
    assert_eq!(damaged(packet + 12, u32::MAX), at(packet, "a time before 1970 or after 2554"));
    assert_eq!(
        damaged(packet, 2),
        at(packet, "a packet block of the obsolete kind; rewrite the file with editcap")
    );
    assert_eq!(damaged(packet, 3), at(packet, "a simple packet block, which has no time"));
    assert_eq!(
        damaged(interface, 0x0a0d_0d0a),
        at(interface, "a section header without its byte-order mark")
    );
    assert!(
        good(&{
            let mut file = file.clone();
            file[packet] = 77;
            file
        })
        .1
        .packets
            == 5,
        "a block of a kind that is not known is skipped"
    );
}

/// A UDP datagram in an IPv4 packet, of which a capture has the first `snap` bytes.
fn datagram(hops: u8, payload: &[u8], snap: usize) -> Vec<u8> {
    let length = 28 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 0, hops, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1, 1, 187, 4, 210]);
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    let mut record = words(&[0, 0, packet.len().min(snap) as u32, packet.len() as u32]);
    packet.truncate(snap);
    record.extend(packet);
    record
}

#[test]
fn a_datagram_has_the_same_digest_wherever_it_is_captured() {
    let other = [&[7; 63][..], &[8; 100]].concat();
    let file = [
        pcap_header(101),
        datagram(64, &[7; 1200], 1500),
        datagram(63, &[7; 1200], 1500),
        datagram(63, &[7; 1200], 92),
        datagram(64, &other, 1500),
        datagram(64, &[], 1500),
    ]
    .concat();
    let digests = packets(&file[..]).unwrap().digest;
    assert_eq!(digests[0], digests[1], "routers count down the hops");
    assert_eq!(digests[0], digests[2], "64 bytes are enough");
    assert_ne!(digests[0], digests[3]);
    // FNV-1a of nothing.
    assert_eq!(digests[4], 0x811c_9dc5);
    let tcp = packets(&talk().capture()[..]).unwrap();
    assert!(tcp.digest.iter().all(|digest| *digest == 0));
}
