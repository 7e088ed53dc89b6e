//! Captures made by hand, byte by byte, and the results of their analysis.

mod composition;
mod connections;
mod files;
mod layers;
mod properties;

use super::{CaptureError, CaptureRecord, StreamRecord, analyze};
use etherparse::{PacketBuilder, TcpHeader};

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;
pub(super) const ECE: u8 = 0x40;
pub(super) const CWR: u8 = 0x80;

pub(super) const RAW: u32 = 101;
pub(super) const ETHERNET: u32 = 1;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
/// Initial sequence numbers, just below the wrap.
const A_ISN: u32 = u32::MAX - 150;
const B_ISN: u32 = 5000;

/// A segment as the tests write it. Numbers count from the SYN of its sender, or of the end that it
/// acknowledges.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) len: usize,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) options: Vec<u8>,
    pub(super) congestion: bool,
}

/// A bare ACK.
pub(super) fn segment(seq: u32, ack: u32) -> Segment {
    Segment { seq, ack, len: 0, flags: ACK, window: 8000, options: Vec::new(), congestion: false }
}

pub(super) fn data(seq: u32, len: usize) -> Segment {
    Segment { len, ..segment(seq, 1) }
}

/// The IP packet.
pub(super) fn packet(from_a: bool, segment: &Segment) -> Vec<u8> {
    let (source, destination, isn, peer_isn, ports) =
        if from_a { (A, B, A_ISN, B_ISN, (1000, 80)) } else { (B, A, B_ISN, A_ISN, (80, 1000)) };
    let mut header = TcpHeader::new(ports.0, ports.1, isn.wrapping_add(segment.seq), segment.window);
    header.acknowledgment_number = peer_isn.wrapping_add(segment.ack);
    let has = |flag| segment.flags & flag != 0;
    (header.fin, header.syn, header.rst, header.ack, header.ece, header.cwr) =
        (has(FIN), has(SYN), has(RST), has(ACK), has(ECE), has(CWR));
    header.set_options_raw(&segment.options).expect("options of up to 40 bytes");
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(source, destination, 64)
        .tcp_header(header)
        .write(&mut bytes, &vec![0; segment.len])
        .expect("a vector takes everything");
    bytes[1] |= if segment.congestion { 3 } else { 0 };
    bytes
}

/// A conversation, one packet every 10 ms.
#[derive(Default)]
pub(super) struct Conversation(Vec<Vec<u8>>);

#[expect(clippy::needless_pass_by_value, reason = "segments are written where they are sent")]
impl Conversation {
    /// After the handshake: 30 ms have passed.
    pub(super) fn open() -> Self {
        let mut talk = Self::default();
        talk.a(Segment { flags: SYN, ..segment(0, 0) });
        talk.b(Segment { flags: SYN | ACK, ..segment(0, 1) });
        talk.a(segment(1, 1));
        talk
    }

    pub(super) fn a(&mut self, segment: Segment) {
        self.0.push(packet(true, &segment));
    }

    pub(super) fn b(&mut self, segment: Segment) {
        self.0.push(packet(false, &segment));
    }

    pub(super) fn capture(&self) -> Vec<u8> {
        pcap(RAW, &self.0)
    }

    /// The streams of its only connection, that of A first.
    pub(super) fn analyze(&self) -> [StreamRecord; 2] {
        let (streams, _) = good(&self.capture());
        streams.try_into().expect("one connection")
    }
}

/// A little-endian pcap file of microseconds, one packet every 10 ms.
pub(super) fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header(link);
    for (number, packet) in packets.iter().enumerate() {
        let micros = 10_000 * number as u32;
        file.extend(pcap_record(1 + micros / 1_000_000, micros % 1_000_000, packet));
    }
    file
}

pub(super) fn pcap_header(link: u32) -> Vec<u8> {
    let mut file = words(&[0xa1b2_c3d4]);
    file.extend([2, 0, 4, 0]);
    file.extend(words(&[0, 0, 65_535, link]));
    file
}

pub(super) fn pcap_record(seconds: u32, micros: u32, packet: &[u8]) -> Vec<u8> {
    let length = packet.len() as u32;
    let mut record = words(&[seconds, micros, length, length]);
    record.extend(packet);
    record
}

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The analysis of a file that must be valid.
pub(super) fn good(file: &[u8]) -> (Vec<StreamRecord>, CaptureRecord) {
    let found = analyze(file).expect("a good capture");
    (found.streams, found.capture)
}

/// The error of a file that must be invalid.
pub(super) fn bad(file: &[u8]) -> String {
    let error: CaptureError = analyze(file).expect_err("a bad capture");
    error.to_string()
}
