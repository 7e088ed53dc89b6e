use super::*;

fn two_tcp() -> Trace {
    Trace::of(&[info("f", Protocol::Tcp), info("g", Protocol::Tcp)])
}

#[test]
fn jain_is_one_for_equals_and_one_over_n_for_a_monopoly() {
    assert_eq!(jain(&[7.0, 7.0, 7.0]), Some(1.0));
    assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
    assert_eq!(jain(&[3.0, 1.0]), Some(0.8));
    assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (None, None));
}

#[test]
fn a_run_lasts_to_the_end_of_its_last_flow_and_shares_its_bottleneck() {
    let mut trace = two_tcp();
    trace.loss_free(0);
    trace.flow = FlowId(1);
    trace.loss_free(5000);
    let Records { flows, run, .. } = trace.records();
    assert_eq!(flows.iter().map(|flow| flow.flow.as_str()).collect::<Vec<_>>(), ["f", "g"]);
    assert_eq!(run.duration_s, 7.0);
    assert_eq!(run.fairness_jain, Some(1.0));
    assert_eq!((run.packets_sent, run.packets_delivered, run.packets_dropped), (14, 14, 0));
    assert_eq!(run.events, 28);
    // 2 x 1072 bytes in 7 s, against 8000 x 536 / 576 bytes a second.
    let efficiency = 2144.0 / 7.0 / (8000.0 * 536.0 / 576.0);
    assert!((run.efficiency.unwrap() - efficiency).abs() < 1e-12);
    // Per flow a SYN of 40 bytes and two segments of 576.
    assert_eq!(run.utilisation, Some(2.0 * 1192.0 / (8000.0 * 7.0)));
}

#[test]
fn a_cut_flow_counts_in_fairness_and_efficiency_and_lasts_to_the_end() {
    let mut trace = two_tcp();
    trace.loss_free(0);
    trace.flow = FlowId(1);
    trace.handshake(5000);
    let first = trace.sent(5600, 0, MSS);
    trace.delivered(6000, &first);
    trace.ack(6400, 536);
    let Records { flows, run, .. } = trace.records();
    assert_eq!(flows[1].outcome, Outcome::Unfinished);
    assert_eq!(flows[1].throughput_Bps, Some(536.0 / 55.0), "acknowledged bytes from the SYN to the cut");
    let (whole, cut) = (1072.0 / 2.0, 536.0 / 55.0);
    assert_eq!(flows[0].throughput_Bps, Some(whole));
    assert_eq!((run.fairness_jain, run.duration_s), (jain(&[whole, cut]), 60.0));
    let efficiency = (1072.0 + 536.0) / 60.0 / (8000.0 * 536.0 / 576.0);
    assert!((run.efficiency.unwrap() - efficiency).abs() < 1e-12);
}

#[test]
fn a_flow_that_sent_nothing_has_no_part_in_the_fairness() {
    let mut trace = two_tcp();
    trace.loss_free(0);
    let Records { flows, run, .. } = trace.records();
    assert_eq!((flows[1].throughput_Bps, run.fairness_jain), (None, Some(1.0)));
}

#[test]
fn an_aborted_flow_has_a_throughput_and_leaves_the_fairness_open() {
    let mut trace = two_tcp();
    trace.loss_free(0);
    trace.flow = FlowId(1);
    trace.handshake(5000);
    let first = trace.sent(5600, 0, MSS);
    trace.delivered(6000, &first);
    trace.ack(6400, 536);
    trace.tcp_event(9000, TransportEvent::Aborted);
    let Records { flows, run, .. } = trace.records();
    assert_eq!((flows[1].throughput_Bps, run.fairness_jain), (Some(536.0 / 4.0), None));
}

#[test]
fn udp_has_no_part_in_fairness_and_efficiency() {
    let mut trace = Trace::udp();
    for number in 0..3 {
        let datagram = trace.datagram(128 * number, number);
        trace.delivered(128 * number + 744, &datagram);
    }
    let run = trace.records().run;
    assert_eq!((run.fairness_jain, run.efficiency), (None, None));
    assert_eq!((run.duration_s, run.utilisation), (1.0, Some(3.0 * 540.0 / 8000.0)));
}

#[test]
fn the_queue_is_averaged_over_time_in_the_data_direction() {
    let mut trace = Trace::tcp();
    trace.loss_free(0);
    let packet = trace.sent(500, 0, MSS);
    let ack = trace.send(500, Direction::Up, Segment { flags: Flags::ACK, ..Segment::default() });
    trace.event(500, PacketEvent::Enqueued(depth(3, 0.5)), &packet);
    trace.event(600, PacketEvent::Enqueued(depth(99, 9.5)), &ack);
    trace.event(1000, PacketEvent::Dequeued(depth(2, 1.5)), &packet);
    trace.event(1250, PacketEvent::Dequeued(depth(0, 1.0)), &packet);
    let run = trace.records().run;
    assert_eq!(run.duration_s, 2.0);
    assert_eq!((run.queue_max_packets, run.red_average_max), (Some(3), Some(1.5)));
    assert_eq!(run.queue_mean_packets, Some(1.0), "(3 x 0.5 s + 2 x 0.25 s) / 2 s");
}

#[test]
fn a_drop_at_the_head_shortens_the_queue() {
    let mut trace = Trace::tcp();
    trace.loss_free(0);
    let (first, second) = (trace.sent(500, 0, MSS), trace.sent(500, 536, MSS));
    let full = trace.sent(500, 1072, MSS);
    trace.event(500, PacketEvent::Enqueued(depth(1, f64::NAN)), &first);
    trace.event(500, PacketEvent::Enqueued(depth(2, f64::NAN)), &second);
    trace.dropped(600, &full, DropCause::QueueOverflow); // it never was in the queue
    trace.dropped(1000, &first, DropCause::QueueOverflow);
    trace.dropped(1500, &second, DropCause::QueueOverflow);
    let run = trace.records().run;
    assert_eq!(run.duration_s, 2.0);
    assert_eq!(run.queue_mean_packets, Some(0.75), "(2 x 0.5 s + 1 x 0.5 s) / 2 s");
}

#[test]
fn a_drop_at_the_head_of_the_other_direction_changes_nothing() {
    let mut trace = Trace::tcp();
    trace.loss_free(0);
    let packet = trace.sent(500, 0, MSS);
    trace.event(500, PacketEvent::Enqueued(depth(1, f64::NAN)), &packet);
    let ack = trace.send(500, Direction::Up, Segment { flags: Flags::ACK, ..Segment::default() });
    trace.event(500, PacketEvent::Enqueued(depth(1, f64::NAN)), &ack);
    trace.dropped(500, &ack, DropCause::QueueOverflow);
    trace.event(1000, PacketEvent::Dequeued(depth(0, f64::NAN)), &packet);
    assert_eq!(trace.records().run.queue_mean_packets, Some(0.25));
}

#[test]
fn without_red_there_is_no_average() {
    let mut trace = Trace::tcp();
    let packet = trace.sent(500, 0, MSS);
    trace.event(500, PacketEvent::Enqueued(depth(1, f64::NAN)), &packet);
    assert_eq!(trace.records().run.red_average_max, None);
}
