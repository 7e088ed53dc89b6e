use super::*;
use crate::analyze::Ending;

/// A sends three segments and both close; 110 ms from the first packet to the last.
fn transfer() -> Conversation {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.a(data(101, 100));
    talk.b(segment(1, 101));
    talk.b(segment(1, 201));
    talk.a(Segment { flags: ACK | FIN, ..data(201, 50) });
    talk.b(segment(1, 252));
    talk.b(Segment { flags: ACK | FIN, ..segment(1, 252) });
    talk.a(segment(252, 2));
    talk
}

#[test]
fn a_transfer_is_counted_for_either_direction() {
    let [a, b] = transfer().analyze();
    assert_eq!((a.source.as_str(), a.source_port, a.destination_port), ("10.0.0.1", 1000, 80));
    assert_eq!((b.source.as_str(), b.source_port, b.destination_port), ("10.0.0.2", 80, 1000));
    assert_eq!((a.packets, a.sent_packets, a.sent_bytes, a.unique_bytes), (6, 3, 250, 250));
    assert_eq!((b.packets, b.sent_packets, b.sent_bytes), (5, 0, 0));
    assert_eq!((a.syns, a.fins, a.resets), (1, 1, 0));
    assert_eq!((a.outcome, a.complete), (Ending::Closed, true));
    assert_eq!(a.start_ns, Some(1_000_000_000));
    // From the SYN to the ACK of the FIN, and to the last packet.
    assert_eq!((a.elapsed_s, b.elapsed_s), (Some(0.08), Some(0.09)));
    assert_eq!((a.span_s, b.span_s), (0.1, 0.1));
    assert_eq!((a.data_transmit_s, b.data_transmit_s), (Some(0.05), None));
    assert_eq!(a.throughput_Bps, Some(250.0 / 0.08));
    // The FIN of B repeats its last ACK.
    assert_eq!((a.duplicate_acks, a.triple_duplicate_acks, b.duplicate_acks), (1, 0, 0));
}

#[test]
fn round_trip_times_run_from_a_segment_to_the_ack_of_its_last_byte() {
    let [a, b] = transfer().analyze();
    // SYN 10 ms, both segments 20 ms, the last one with its FIN 10 ms.
    assert_eq!((a.rtt_samples, a.rtt_min_s, a.rtt_max_s), (4, Some(0.01), Some(0.02)));
    assert_eq!((b.rtt_samples, b.rtt_median_s), (2, Some(0.01)));
}

#[test]
fn a_segment_that_was_sent_twice_gives_no_round_trip_time() {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.a(data(1, 100));
    talk.b(segment(1, 101));
    let [a, _] = talk.analyze();
    assert_eq!((a.retransmitted_packets, a.retransmitted_bytes, a.unique_bytes), (1, 100, 100));
    assert_eq!(a.rtt_samples, 1, "that of the SYN");
}

#[test]
fn an_ack_that_had_to_wait_for_a_retransmission_gives_no_round_trip_time() {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.a(data(101, 100));
    talk.a(data(1, 100));
    talk.b(segment(1, 201));
    assert_eq!(talk.analyze()[0].rtt_samples, 1, "that of the SYN");
}

#[test]
fn retransmissions_need_not_keep_to_segments() {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.a(data(101, 100));
    talk.a(data(51, 200));
    let [a, _] = talk.analyze();
    assert_eq!((a.retransmitted_packets, a.retransmitted_bytes, a.unique_bytes), (1, 150, 250));
    assert_eq!(a.out_of_order_packets, 0);
}

#[test]
fn what_fills_a_gap_is_out_of_order_and_no_retransmission() {
    let mut talk = Conversation::open();
    talk.a(data(101, 100));
    talk.a(data(1, 100));
    let [a, _] = talk.analyze();
    assert_eq!((a.out_of_order_packets, a.retransmitted_packets, a.unique_bytes), (1, 0, 200));
}

#[test]
fn syn_and_fin_sent_again_are_no_data() {
    let mut talk = Conversation::default();
    talk.a(Segment { flags: SYN, ..segment(0, 0) });
    talk.a(Segment { flags: SYN, ..segment(0, 0) });
    talk.b(Segment { flags: SYN | ACK, ..segment(0, 1) });
    talk.a(Segment { flags: ACK | FIN, ..data(1, 100) });
    talk.a(Segment { flags: ACK | FIN, ..data(1, 100) });
    talk.a(Segment { flags: ACK | FIN, ..segment(101, 1) });
    let [a, _] = talk.analyze();
    assert_eq!((a.retransmitted_packets, a.retransmitted_bytes, a.retransmitted_syns_fins), (1, 100, 2));
    assert_eq!((a.syns, a.fins, a.unique_bytes), (2, 3, 100));
    assert_eq!(a.outcome, Ending::Unfinished);
}

#[test]
fn duplicates_are_acks_that_change_nothing() {
    let mut talk = Conversation::open();
    for number in 0..6 {
        talk.a(data(1 + 100 * number, 100));
    }
    talk.b(segment(1, 101));
    talk.b(segment(1, 101));
    talk.b(segment(1, 101));
    talk.b(data(1, 10).acknowledging(101));
    let [a, _] = talk.analyze();
    assert_eq!((a.duplicate_acks, a.triple_duplicate_acks), (2, 0), "one with payload is none");
    talk.b(Segment { window: 9000, ..segment(11, 101) });
    assert_eq!(talk.analyze()[0].duplicate_acks, 2, "nor is one with another window");
    for count in 1..=4 {
        talk.b(Segment { window: 9000, ..segment(11, 101) });
        let [a, _] = talk.analyze();
        assert_eq!((a.duplicate_acks, a.triple_duplicate_acks), (2 + count, u64::from(count >= 3)));
    }
    talk.b(Segment { window: 9000, ..segment(11, 1) });
    assert_eq!(talk.analyze()[0].duplicate_acks, 6, "nor is an old one that comes late");
}

impl Segment {
    fn acknowledging(self, ack: u32) -> Self {
        Self { ack, ..self }
    }
}

fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for edge in blocks.iter().flat_map(|&(start, end)| [start, end]) {
        option.extend(A_ISN.wrapping_add(edge).to_be_bytes());
    }
    option
}

#[test]
fn sack_blocks_and_reported_duplicates_are_counted_across_the_wrap() {
    let mut talk = Conversation::open();
    for number in 0..4 {
        talk.a(data(1 + 100 * number, 100));
    }
    talk.b(Segment { options: sack(&[(101, 201)]), ..segment(1, 1) });
    talk.b(Segment { options: sack(&[(301, 401), (101, 201)]), ..segment(1, 1) });
    let [a, _] = talk.analyze();
    assert_eq!((a.sack_blocks, a.sack_blocks_total, a.dsacks), (2, 3, 0));
    talk.b(Segment { options: sack(&[(1, 101)]), ..segment(1, 201) });
    talk.b(Segment { options: sack(&[(301, 351), (301, 401)]), ..segment(1, 201) });
    let [a, b] = talk.analyze();
    assert_eq!((a.sack_blocks, a.sack_blocks_total, a.dsacks), (4, 6, 2));
    assert_eq!((b.sack_blocks, b.retransmitted_packets), (0, 0));
}

#[test]
fn an_option_that_is_not_known_hides_none_behind_it() {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    let mut options = vec![30, 4, 0, 0];
    options.extend(sack(&[(51, 101)]));
    talk.b(Segment { options, ..segment(1, 1) });
    assert_eq!(talk.analyze()[0].sack_blocks, 1);
}

#[test]
fn windows_are_scaled_when_both_ends_agree() {
    let scale = |shift| vec![2, 4, 5, 180, 3, 3, shift, 0];
    let mut talk = Conversation::default();
    talk.a(Segment { flags: SYN, options: scale(2), ..segment(0, 0) });
    talk.b(Segment { flags: SYN | ACK, options: scale(7), window: 256, ..segment(0, 1) });
    talk.a(segment(1, 1));
    // 256 bytes in the SYN, the same by 2 << 7 here.
    talk.b(Segment { window: 2, ..segment(1, 1) });
    let [a, b] = talk.analyze();
    assert_eq!((a.mss_bytes, a.window_scale, b.window_scale), (Some(1460), Some(2), Some(7)));
    assert_eq!(a.duplicate_acks, 1);
}

#[test]
fn probes_of_a_closed_window_are_no_retransmissions() {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.b(Segment { window: 0, ..segment(1, 101) });
    talk.a(data(100, 1));
    talk.b(segment(1, 101));
    talk.a(data(101, 100));
    let [a, _] = talk.analyze();
    assert_eq!((a.zero_windows, a.zero_window_probes, a.retransmitted_packets), (1, 1, 0));
}

#[test]
fn congestion_marks_and_echoes_are_counted_but_for_the_handshakes() {
    let mut talk = Conversation::default();
    talk.a(Segment { flags: SYN | ECE | CWR, ..segment(0, 0) });
    talk.b(Segment { flags: SYN | ACK | ECE, ..segment(0, 1) });
    talk.a(Segment { congestion: true, ..data(1, 100) });
    talk.b(Segment { flags: ACK | ECE, ..segment(1, 101) });
    talk.a(Segment { flags: ACK | CWR, ..data(101, 100) });
    let [a, b] = talk.analyze();
    assert_eq!((a.marks_ecn, a.ecn_echoes, a.cwr_packets), (1, 1, 1));
    assert_eq!((b.marks_ecn, b.ecn_echoes, b.cwr_packets), (0, 0, 0));
}

#[test]
fn a_reset_ends_a_connection_that_is_not_closed() {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.b(Segment { flags: RST, ..segment(1, 0) });
    let [a, b] = talk.analyze();
    assert_eq!((a.outcome, b.resets, a.complete, a.elapsed_s), (Ending::Reset, 1, false, None));
    let mut talk = transfer();
    talk.a(Segment { flags: RST, ..segment(252, 0) });
    assert_eq!(talk.analyze()[0].outcome, Ending::Closed);
}

#[test]
fn a_capture_that_begins_in_the_middle_counts_what_it_has() {
    let mut talk = Conversation::default();
    talk.b(segment(1, 1001));
    talk.a(data(1001, 100));
    talk.a(data(1101, 100));
    talk.b(segment(1, 1101));
    let [b, a] = talk.analyze();
    assert_eq!((a.source_port, a.unique_bytes, a.rtt_samples), (1000, 200, 1));
    assert_eq!((a.elapsed_s, a.span_s, b.outcome), (None, 0.03, Ending::Unfinished));
    assert_eq!(a.throughput_Bps, Some(200.0 / 0.03));
}

#[test]
fn a_syn_with_another_number_begins_another_connection() {
    let mut talk = transfer();
    talk.a(Segment { flags: SYN, ..segment(70_000, 0) });
    talk.a(Segment { flags: SYN, ..segment(70_000, 0) });
    let (streams, _) = good(&talk.capture());
    let numbers: Vec<_> = streams.iter().map(|stream| (stream.connection, stream.syns)).collect();
    assert_eq!(numbers, [(1, 1), (1, 1), (2, 2), (2, 0)]);
}

#[test]
fn memory_is_bounded_without_acks_and_with_gaps_that_are_never_filled() {
    let mut sent = crate::analyze::sent::Sent::default();
    for number in 0..200_000 {
        sent.segment(number, 100 * number..100 * number + 100);
    }
    assert!(sent.len() <= 65_536);
    let mut sent = crate::analyze::sent::Sent::default();
    for number in 0..10_000 {
        sent.segment(number, 200 * number..200 * number + 100);
        sent.acknowledged(number, 200 * number + 100);
    }
    assert!(sent.len() <= 66, "{} islands", sent.len());
}
