use etherparse::{TcpHeader, TcpOptionElement as Tcp};

use super::*;

fn read(segments: &mut Segments, sender: Host, header: &TcpHeader, payload_bytes: u32) -> (Segment, bool) {
    let bytes = header.to_bytes();
    segments.read(sender, &TcpHeaderSlice::from_slice(&bytes).unwrap(), payload_bytes)
}

fn header(seq: u32, ack: Option<u32>) -> TcpHeader {
    TcpHeader {
        sequence_number: seq,
        acknowledgment_number: ack.unwrap_or(0),
        ack: ack.is_some(),
        window_size: 100,
        ..TcpHeader::default()
    }
}

fn syn(seq: u32, ack: Option<u32>, shift: Option<u8>) -> TcpHeader {
    let mut syn = TcpHeader { syn: true, ..header(seq, ack) };
    syn.set_options(&shift.map(Tcp::WindowScale).into_iter().collect::<Vec<_>>()).unwrap();
    syn
}

/// A connection whose server starts 1000 bytes before the numbers wrap.
fn open(shifts: [Option<u8>; 2]) -> Segments {
    let mut segments = Segments::default();
    let (first, again) = read(&mut segments, Host::Server, &syn(u32::MAX - 999, None, shifts[0]), 0);
    assert_eq!((first.seq, first.end(), again), (0, 1, false));
    let (answer, _) = read(&mut segments, Host::Client, &syn(5, Some(u32::MAX - 998), shifts[1]), 0);
    assert_eq!((answer.seq, answer.ack, answer.window_bytes), (0, 1, 100));
    segments
}

#[test]
fn offsets_go_on_where_sequence_numbers_wrap() {
    let mut segments = open([None, None]);
    let mut seq = u32::MAX - 998;
    for number in 0..5 {
        let (segment, again) = read(&mut segments, Host::Server, &header(seq, Some(6)), 536);
        assert_eq!((segment.seq, segment.ack, again), (1 + number * 536, 1, false));
        seq = seq.wrapping_add(536);
    }
    let (ack, again) = read(&mut segments, Host::Client, &header(6, Some(seq)), 0);
    assert_eq!((ack.seq, ack.ack, again), (1, 1 + 5 * 536, false));
}

#[test]
fn offsets_go_on_beyond_four_gigabytes() {
    let mut segments = open([None, None]);
    let mut seq = u32::MAX - 998;
    for number in 0..100_u64 {
        let (segment, _) = read(&mut segments, Host::Server, &header(seq, Some(6)), 100_000_000);
        assert_eq!(segment.seq, 1 + number * 100_000_000);
        seq = seq.wrapping_add(100_000_000);
    }
}

#[test]
fn what_was_sent_before_is_sent_again() {
    let mut segments = open([None, None]);
    let first = u32::MAX - 998;
    read(&mut segments, Host::Server, &header(first, Some(6)), 536);
    read(&mut segments, Host::Server, &header(first.wrapping_add(536), Some(6)), 536);
    let (segment, again) = read(&mut segments, Host::Server, &header(first, Some(6)), 536);
    assert_eq!((segment.seq, again), (1, true));
    // An ACK has no bytes that could be retransmitted.
    assert!(!read(&mut segments, Host::Server, &header(first, Some(6)), 0).1);
}

#[test]
fn sack_blocks_are_of_the_other_stream() {
    let mut segments = open([None, None]);
    let first = u32::MAX - 998;
    for number in 0..4 {
        read(&mut segments, Host::Server, &header(first.wrapping_add(number * 536), Some(6)), 536);
    }
    let mut ack = header(6, Some(first));
    let (start, end) = (first.wrapping_add(536), first.wrapping_add(3 * 536));
    ack.set_options(&[Tcp::Noop, Tcp::SelectiveAcknowledgement((start, end), [None; 3])]).unwrap();
    let (ack, _) = read(&mut segments, Host::Client, &ack, 0);
    assert_eq!(ack.sack.as_slice(), [SackBlock { start: 537, end: 1609 }]);
}

#[test]
fn windows_are_scaled_if_both_ends_said_so() {
    for (shifts, expected) in [([Some(3), Some(2)], 400), ([Some(3), None], 100), ([None, Some(2)], 100)] {
        let mut segments = open(shifts);
        let (segment, _) = read(&mut segments, Host::Client, &header(6, Some(u32::MAX - 998)), 0);
        assert_eq!(segment.window_bytes, expected);
    }
}

/// Linux puts the option of accurate ECN between timestamps and SACK.
#[test]
fn options_are_read_past_those_of_accurate_ecn_and_past_unknown_ones() {
    let mut segments = open([None, None]);
    let stamps = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
    let sack = [1, 1, 5, 10, 0, 0, 0, 6, 0, 0, 0, 16];
    for (kind, is_order_1) in [(174, true), (172, false)] {
        let ecn_option = [kind, 8, 0, 0, 5, 0, 1, 0];
        let mut ack = header(u32::MAX - 998, Some(6));
        ack.set_options_raw(&[&stamps[..], &ecn_option, &sack].concat()).unwrap();
        let (segment, _) = read(&mut segments, Host::Server, &ack, 0);
        let counters = EcnOption { fields: 2, is_order_1, counts: [5, 256, 0] };
        assert_eq!(segment.ecn_option(), Some(counters));
        assert_eq!((segment.timestamps.map(|stamps| stamps.echo), segment.sack.len()), (Some(9), 1));
        assert_eq!(segment.ip_bytes(), 40 + 12 + 8 + 12);
    }
    let mut unknown = header(u32::MAX - 998, Some(6));
    unknown.set_options_raw(&[&[253, 4, 0, 0][..], &sack].concat()).unwrap();
    assert_eq!(read(&mut segments, Host::Server, &unknown, 0).0.sack.len(), 1);
    unknown.set_options_raw(&[253, 0, 0, 0]).unwrap();
    assert_eq!(read(&mut segments, Host::Server, &unknown, 0).0.sack.len(), 0, "no length");
}
