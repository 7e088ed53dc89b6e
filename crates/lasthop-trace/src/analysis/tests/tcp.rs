use super::*;

#[test]
fn a_loss_free_transfer_has_one_duplicate_ack_and_nothing_else() {
    let mut trace = Trace::tcp();
    trace.loss_free(100);
    let record = trace.record();
    assert_eq!(record.outcome, Outcome::Closed);
    assert_eq!((record.sent_packets, record.received_packets, record.sent_bytes), (2, 2, 1072));
    assert_eq!((record.duplicate_acks, record.triple_duplicate_acks), (1, 0));
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (0, 0));
    assert_eq!(record.start_s, Some(0.1));
    assert_eq!(record.elapsed_s, Some(2.0));
    assert_eq!(record.data_transmit_s, Some(1.4));
    assert_eq!(record.throughput_Bps, Some(536.0));
}

#[test]
fn the_data_direction_is_that_of_the_announced_sender() {
    let mut trace = Trace::of(&[FlowInfo { sender: Host::Client, ..info("f", Protocol::Tcp) }]);
    trace.loss_free(0);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.duplicate_acks), (2, 1));
    assert_eq!(record.outcome, Outcome::Closed);
}

#[test]
fn events_of_the_receivers_endpoint_are_not_the_senders() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let (flow, timeout) = (trace.flow, TransportEvent::Timeout { seq: 0, backoff: 1 });
    trace.analysis.transport(ms(700), flow, Host::Client, timeout);
    trace.analysis.transport(ms(800), flow, Host::Client, TransportEvent::Closed);
    let record = trace.record();
    assert_eq!((record.timeouts, record.outcome), (0, Outcome::Unfinished));
}

#[test]
fn a_copy_of_an_ack_is_a_duplicate_ack_and_one_of_data_is_nothing() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let data = trace.sent(100, 0, 536);
    trace.delivered(300, &data);
    trace.event(300, PacketEvent::Duplicated, &data);
    let segment = Segment { seq: 1, ack: 537, flags: Flags::ACK, ..Segment::default() };
    let ack = trace.send(300, Direction::Up, segment);
    trace.delivered(500, &ack);
    trace.event(500, PacketEvent::Duplicated, &ack);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.received_packets, record.duplicate_acks), (1, 1, 1));
}

#[test]
fn a_third_duplicate_in_a_row_counts_once_and_again_after_an_advance() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    trace.ack(1000, 536);
    (0..5).for_each(|k| trace.ack(1100 + k, 536));
    trace.ack(1200, 1072);
    (0..2).for_each(|k| trace.ack(1300 + k, 1072));
    trace.ack(1400, 1608);
    (0..3).for_each(|k| trace.ack(1500 + k, 1608));
    let record = trace.record();
    assert_eq!((record.duplicate_acks, record.triple_duplicate_acks), (10, 2));
}

#[test]
fn data_with_the_same_ack_number_ends_a_row_of_duplicates() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    trace.ack(1000, 536);
    (0..2).for_each(|k| trace.ack(1100 + k, 536));
    let request = Segment { ack: 537, payload_bytes: 350, flags: Flags::ACK, ..Segment::default() };
    let request = trace.send(1200, Direction::Up, request);
    trace.delivered(1200, &request);
    (0..2).for_each(|k| trace.ack(1300 + k, 536));
    let record = trace.record();
    assert_eq!((record.duplicate_acks, record.triple_duplicate_acks), (4, 0));
}

#[test]
fn a_changed_window_still_repeats_but_data_resets_and_syn_acks_do_not() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    trace.ack(1000, 536);
    let update = Segment { ack: 537, flags: Flags::ACK, window_bytes: 4321, ..Segment::default() };
    let data = Segment { payload_bytes: 10, ..update };
    let reset = Segment { flags: Flags::ACK.with(Flags::RST), ..update };
    let syn_ack = Segment { flags: Flags::ACK.with(Flags::SYN), ..update };
    let old = Segment { ack: 1, ..update };
    for segment in [update, data, reset, syn_ack, old] {
        let packet = trace.send(1100, Direction::Up, segment);
        trace.delivered(1100, &packet);
    }
    assert_eq!(trace.record().duplicate_acks, 1);
}

#[test]
fn acks_that_carry_sack_and_their_blocks_are_counted_apart() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    trace.answer(1000, 0, Flags::ACK, &[(536, 1072)]);
    trace.answer(1100, 0, Flags::ACK, &[(2144, 2680), (536, 1072)]);
    trace.ack(1200, 2680);
    let lost = Segment { ack: 1, flags: Flags::ACK, ..Segment::default() };
    let lost = trace.send(1300, Direction::Up, lost);
    trace.dropped(1300, &lost, DropCause::QueueOverflow);
    let record = trace.record();
    assert_eq!((record.sack_blocks, record.sack_blocks_total), (2, 3));
    assert_eq!(record.duplicate_acks, 2, "the dropped ACK never reached the sender");
}

#[test]
fn a_repaired_loss_is_a_needed_retransmission() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let original = trace.sent(600, 0, MSS);
    trace.dropped(601, &original, DropCause::QueueOverflow);
    let again = trace.sent(1600, 0, MSS);
    trace.delivered(2000, &again);
    trace.ack(2300, 536);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.received_packets), (2, 1));
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (1, 0));
}

#[test]
fn after_a_spurious_timeout_the_retransmission_is_unnecessary() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let original = trace.sent(600, 0, MSS);
    trace.timeout(3600, 0);
    let again = trace.sent(3600, 0, MSS);
    trace.delivered(4000, &original);
    trace.delivered(4100, &again);
    trace.ack(4400, 536);
    let record = trace.record();
    assert_eq!((record.timeouts, record.spurious_timeouts), (1, 1));
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (1, 1));
}

#[test]
fn a_timeout_whose_segment_arrived_before_the_expiry_is_spurious() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let original = trace.sent(600, 0, MSS);
    trace.delivered(1000, &original);
    trace.timeout(3600, 0);
    trace.sent(3600, 0, MSS);
    let record = trace.record();
    assert_eq!((record.timeouts, record.spurious_timeouts), (1, 1));
    assert_eq!(record.unnecessary_retransmissions, 1, "the original had arrived when it was sent");
}

#[test]
fn a_timeout_after_a_loss_is_genuine_though_its_own_retransmission_arrives() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let original = trace.sent(600, 0, MSS);
    let next = trace.sent(610, 536, MSS);
    trace.dropped(611, &original, DropCause::ArqGivenUp);
    let again = trace.sent(3600, 0, MSS);
    trace.timeout(3600, 0);
    trace.delivered(4000, &next);
    trace.delivered(4100, &again);
    trace.ack(4400, 1072);
    let record = trace.record();
    assert_eq!((record.timeouts, record.spurious_timeouts), (1, 0));
    assert_eq!(record.unnecessary_retransmissions, 0);
}

#[test]
fn a_timeout_is_genuine_when_the_outstanding_copy_is_lost_after_the_expiry() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let original = trace.sent(600, 0, MSS);
    trace.timeout(3600, 0);
    let again = trace.sent(3600, 0, MSS);
    trace.dropped(3900, &original, DropCause::ArqGivenUp);
    trace.delivered(4100, &again);
    trace.ack(4400, 536);
    assert_eq!(trace.record().spurious_timeouts, 0);
}

#[test]
fn two_expiries_in_a_row_are_both_spurious_when_the_original_comes_late() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let original = trace.sent(600, 0, MSS);
    trace.timeout(3600, 0);
    let first = trace.sent(3600, 0, MSS);
    trace.timeout(9600, 0);
    let second = trace.sent(9600, 0, MSS);
    for packet in [original, first, second] {
        trace.delivered(9900, &packet);
    }
    let record = trace.record();
    assert_eq!((record.timeouts, record.spurious_timeouts), (2, 2));
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (2, 2));
}

#[test]
fn a_lost_retransmission_is_needed_unless_the_original_arrives() {
    let verdicts = |original_arrives: bool| {
        let mut trace = Trace::tcp();
        trace.handshake(0);
        let original = trace.sent(600, 0, MSS);
        let first = trace.sent(1600, 0, MSS);
        trace.dropped(1700, &first, DropCause::QueueOverflow);
        let second = trace.sent(2600, 0, MSS);
        if original_arrives {
            trace.delivered(2700, &original);
        } else {
            trace.dropped(2700, &original, DropCause::ArqGivenUp);
        }
        trace.delivered(3000, &second);
        trace.ack(3300, 536);
        trace.record().unnecessary_retransmissions
    };
    assert_eq!((verdicts(false), verdicts(true)), (0, 2));
}

#[test]
fn a_resegmented_retransmission_is_unnecessary_only_if_all_its_bytes_arrived() {
    let verdicts = |second_half_arrives: bool| {
        let mut trace = Trace::tcp();
        trace.handshake(0);
        let left = trace.sent(600, 0, 268);
        let right = trace.sent(610, 268, 268);
        trace.sent(1600, 0, MSS);
        trace.delivered(1700, &left);
        if second_half_arrives {
            trace.delivered(1800, &right);
        }
        let record = trace.record();
        assert_eq!(record.retransmitted_packets, 1);
        record.unnecessary_retransmissions
    };
    assert_eq!((verdicts(false), verdicts(true)), (0, 1));
}

#[test]
fn a_segment_that_goes_beyond_old_data_is_a_retransmission_but_not_unnecessary() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    let old = trace.sent(600, 0, 100);
    trace.delivered(900, &old);
    trace.sent(1600, 0, 200);
    let record = trace.record();
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (1, 0));
}

#[test]
fn drops_and_marks_are_counted_by_cause_and_direction() {
    let mut trace = Trace::tcp();
    let syn = trace.send(0, Direction::Down, Segment { flags: Flags::SYN, ..Segment::default() });
    trace.dropped(0, &syn, DropCause::QueueOverflow);
    trace.handshake(3000);
    let handshake_ack = Segment { seq: 1, ack: 1, flags: Flags::ACK, ..Segment::default() };
    let handshake_ack = trace.send(3600, Direction::Down, handshake_ack);
    trace.dropped(3600, &handshake_ack, DropCause::QueueOverflow);
    let causes = [DropCause::Red, DropCause::LinkError, DropCause::ArqGivenUp];
    for (k, cause) in (0..).zip(causes) {
        let packet = trace.sent(4000, k * 536, MSS);
        trace.dropped(4001, &packet, cause);
    }
    let ack = Segment { ack: 1, flags: Flags::ACK, ..Segment::default() };
    let causes = [DropCause::QueueOverflow, DropCause::Red, DropCause::Red, DropCause::ArqGivenUp];
    for cause in causes {
        let packet = trace.send(4100, Direction::Up, ack);
        trace.dropped(4101, &packet, cause);
    }
    let marked = trace.sent(4200, 1608, MSS);
    trace.event(4201, PacketEvent::Marked, &marked);
    let marked = trace.send(4300, Direction::Up, ack);
    trace.event(4301, PacketEvent::Marked, &marked);
    let record = trace.record();
    assert_eq!((record.data_drops_queue, record.data_drops_red, record.data_drops_error), (2, 1, 2));
    assert_eq!((record.ack_drops_queue, record.ack_drops_red, record.ack_drops_error), (1, 2, 1));
    assert_eq!((record.data_marks_ecn, record.ack_marks_ecn), (1, 1));
}

#[test]
fn sender_events_are_counted_and_sampled() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    for rtt in [800, 600, 1000] {
        let (rtt, rto) = (Duration::from_millis(rtt), Duration::from_secs(3));
        trace.tcp_event(1000, TransportEvent::RttSample { rtt, rto });
    }
    for cwnd in [2, 9, 4] {
        trace.tcp_event(1100, TransportEvent::Window { cwnd, ssthresh: u32::MAX, in_flight: 1 });
    }
    trace.tcp_event(1200, TransportEvent::RecoveryEntered { recovery_point: 537 });
    trace.tcp_event(1300, TransportEvent::Undone(lasthop_core::UndoCause::Timestamps));
    trace.tcp_event(1400, TransportEvent::Aborted);
    let record = trace.record();
    assert_eq!((record.rtt_min_s, record.rtt_median_s), (Some(0.6), Some(0.8)));
    assert_eq!((record.rtt_p95_s, record.rtt_max_s), (Some(0.98), Some(1.0)));
    assert_eq!((record.cwnd_max, record.fast_retransmits, record.undone), (Some(9), 1, 1));
    assert_eq!(record.outcome, Outcome::Aborted);
    assert_eq!(record.elapsed_s, None);
}

/// `tests/python/analysis/explain/test_explain.py` uses the same events.
#[test]
fn an_ack_with_data_ends_a_row_of_duplicates() {
    for (payloads, counted) in [(&[0, 0, 0, 10, 0][..], (4, 1)), (&[0, 0, 10, 0], (3, 0))] {
        let mut trace = Trace::tcp();
        trace.handshake(0);
        for (at, payload_bytes) in (700..).zip(payloads) {
            let flags = Flags::ACK;
            let segment =
                Segment { seq: 1, ack: 1, payload_bytes: *payload_bytes, flags, ..Segment::default() };
            let packet = trace.send(at, Direction::Up, segment);
            trace.delivered(at + 100, &packet);
        }
        let record = trace.record();
        assert_eq!((record.duplicate_acks, record.triple_duplicate_acks), counted);
    }
}

#[test]
fn tail_loss_probes_are_counted_apart_from_recoveries() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    trace.tcp_event(700, TransportEvent::TailLossProbe { seq: 1 });
    let kind = lasthop_core::RetransmissionKind::Probe;
    trace.tcp_event(700, TransportEvent::Retransmitted { seq: 1, kind });
    let record = trace.record();
    assert_eq!((record.tail_loss_probes, record.fast_retransmits, record.timeouts), (Some(1), 0, 0));
}

#[test]
fn queue_delay_is_the_time_in_the_router_queue_of_data_only() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    for (k, wait) in (0..).zip([0, 72, 144]) {
        let packet = trace.sent(600, k * 536, MSS);
        trace.event(600, PacketEvent::Enqueued(depth(1, f64::NAN)), &packet);
        trace.event(600 + wait, PacketEvent::Dequeued(depth(0, f64::NAN)), &packet);
    }
    let ack = trace.send(600, Direction::Up, Segment { flags: Flags::ACK, ..Segment::default() });
    trace.event(600, PacketEvent::Enqueued(depth(1, f64::NAN)), &ack);
    trace.event(9999, PacketEvent::Dequeued(depth(0, f64::NAN)), &ack);
    let record = trace.record();
    assert_eq!((record.queue_delay_min_s, record.queue_delay_median_s), (Some(0.0), Some(0.072)));
    assert_eq!(record.queue_delay_max_s, Some(0.144));
}

#[test]
fn a_flow_that_never_started_keeps_its_scheduled_start() {
    let record = Trace::tcp().record();
    assert_eq!((record.start_s, record.outcome), (None, Outcome::Unfinished));
    assert_eq!((record.elapsed_s, record.sent_packets), (None, 0));
}

#[test]
fn memory_is_that_of_a_flight_however_long_the_flow() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    for k in 0..50_000 {
        let packet = trace.sent(600 + k, k * 536, MSS);
        trace.event(600 + k, PacketEvent::Enqueued(depth(1, f64::NAN)), &packet);
        trace.event(600 + k, PacketEvent::Dequeued(depth(0, f64::NAN)), &packet);
        if k % 100 == 7 {
            trace.dropped(600 + k, &packet, DropCause::QueueOverflow);
            let again = trace.sent(600 + k, k * 536, MSS);
            trace.delivered(600 + k, &again);
        } else {
            trace.delivered(600 + k, &packet);
        }
        trace.ack(600 + k, (k + 1) * 536);
    }
    let flow = trace.analysis.flows[0].as_ref().unwrap();
    let Transport::Tcp(tcp) = &flow.transport else { panic!("a TCP flow") };
    assert_eq!(tcp.remembered_copies(), 0);
    let record = trace.record();
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (500, 0));
}

#[test]
fn one_way_delay_is_that_of_each_copy_of_the_data_whoever_sends_it() {
    for sender in [Host::Server, Host::Client] {
        let mut trace = Trace::of(&[FlowInfo { sender, ..info("f", Protocol::Tcp) }]);
        trace.handshake(0); // The SYN takes 300 ms, and carries no data.
        let first = trace.sent(600, 0, MSS);
        let again = trace.sent(1600, 0, MSS);
        trace.delivered(1700, &again);
        trace.delivered(1900, &first);
        let record = trace.record();
        assert_eq!(record.one_way_delay_p50_s, Some(0.7), "of 100 and 1300 ms");
        assert_eq!(record.received_packets, 2);
    }
}

#[test]
fn a_flow_without_data_has_no_one_way_delay() {
    let mut trace = Trace::tcp();
    trace.handshake(0);
    assert_eq!(trace.record().one_way_delay_p99_s, None);
}
