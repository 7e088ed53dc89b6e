use super::*;
use crate::CaptureAnalysis;
use proptest::collection::vec;
use proptest::prelude::*;

fn a_segment() -> impl Strategy<Value = (bool, Segment)> {
    let numbers = (any::<bool>(), 0..3000_u32, 0..3000_u32, 0..300_usize);
    let rest = (any::<u8>(), any::<u16>(), vec(any::<u8>(), 0..10), any::<bool>());
    (numbers, rest).prop_map(|((from_a, seq, ack, len), (flags, window, option, congestion))| {
        let mut options = vec![5, option.len() as u8 + 2];
        options.extend(option);
        (from_a, Segment { seq, ack, len, flags, window, options, congestion })
    })
}

fn a_capture() -> impl Strategy<Value = Vec<u8>> {
    (vec(a_segment(), 0..40), any::<bool>()).prop_map(|(segments, as_pcapng)| {
        let packets: Vec<Vec<u8>> =
            segments.iter().map(|(from_a, segment)| packet(*from_a, segment)).collect();
        if as_pcapng { pcapng(&packets) } else { pcap(RAW, &packets) }
    })
}

/// A little-endian pcapng file.
fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    file.extend(words(&[1, 20, RAW, 0, 20]));
    for (number, packet) in packets.iter().enumerate() {
        let (captured, padded) = (packet.len() as u32, packet.len().next_multiple_of(4));
        let length = 32 + padded as u32;
        file.extend(words(&[6, length, 0, 0, 1_000_000 + 10_000 * number as u32, captured, captured]));
        file.extend(packet);
        file.resize(file.len() + padded - packet.len(), 0);
        file.extend(words(&[length]));
    }
    file
}

/// This number of cases, or the number in `PROPTEST_CASES` if that is greater.
fn at_least(cases: u32) -> ProptestConfig {
    let stated = ProptestConfig::default();
    ProptestConfig { cases: stated.cases.max(cases), ..stated }
}

proptest! {
    #![proptest_config(at_least(2000))]

    #[test]
    fn arbitrary_bytes_are_an_error_or_a_result(bytes in vec(any::<u8>(), 0..600)) {
        let _ = analyze(&*bytes);
    }

    #[test]
    fn arbitrary_packets_of_every_link_type_are_counted(
        link in prop::sample::select(vec![0, 1, 9, 12, 50, 101, 108, 113, 228, 276]),
        packets in vec(vec(any::<u8>(), 0..120), 0..20),
    ) {
        let found = analyze(&*pcap(link, &packets)).unwrap();
        let all: u64 = packets.iter().map(|packet| packet.len() as u64).sum();
        let lowest = found.protocols.iter().filter(|record| !record.protocol.contains(':'));
        prop_assert_eq!(lowest.map(|record| record.packets).sum::<u64>(), packets.len() as u64);
        let lowest = found.protocols.iter().filter(|record| !record.protocol.contains(':'));
        prop_assert_eq!(lowest.map(|record| record.bytes).sum::<u64>(), all);
        prop_assert_eq!(found.sizes.iter().map(|range| range.packets).sum::<u64>(), packets.len() as u64);
        prop_assert_eq!(found.sizes.iter().map(|range| range.bytes).sum::<u64>(), all);
        let file = found.capture;
        let counted = file.tcp_packets + file.udp_packets + file.other_packets + file.fragments;
        prop_assert_eq!(file.packets, packets.len() as u64);
        prop_assert_eq!(counted + file.incomplete_packets, file.packets);
    }

    #[test]
    fn a_mutated_capture_is_an_error_or_a_result(
        capture in a_capture(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut capture = capture;
        for (place, byte) in changes {
            let place = place.index(capture.len());
            capture[place] = byte;
        }
        let _ = analyze(&*capture);
        capture.truncate(cut.index(capture.len()));
        let _ = analyze(&*capture);
    }

    #[test]
    fn counts_add_up_whatever_is_sent(capture in a_capture()) {
        let CaptureAnalysis { streams, capture, .. } = analyze(&*capture).unwrap();
        prop_assert_eq!(streams.iter().map(|stream| stream.packets).sum::<u64>(), capture.tcp_packets);
        for stream in streams {
            prop_assert!(stream.sent_packets <= stream.packets);
            prop_assert!(stream.retransmitted_packets <= stream.sent_packets);
            prop_assert!(stream.triple_duplicate_acks * 3 <= stream.duplicate_acks);
            prop_assert!(stream.dsacks <= stream.sack_blocks);
            prop_assert!(stream.unique_bytes + stream.retransmitted_bytes <= stream.sent_bytes);
            prop_assert!(stream.rtt_samples > 0 || stream.rtt_min_s.is_none());
        }
    }

    #[test]
    fn a_capture_cut_anywhere_says_what_its_whole_packets_say(
        capture in a_capture(),
        cut in any::<prop::sample::Index>(),
    ) {
        let length = cut.index(capture.len() + 1);
        if let Ok(CaptureAnalysis { capture: record, .. }) = analyze(&capture[..length]) {
            let end = record.cut_at.map_or(length, |cut_at| cut_at as usize);
            let whole = analyze(&capture[..end]).unwrap().capture;
            prop_assert_eq!(whole.cut_at, None);
            prop_assert_eq!(whole.packets, record.packets);
        }
    }
}
