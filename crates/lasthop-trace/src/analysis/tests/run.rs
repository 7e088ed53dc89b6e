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
fn an_unfinished_flow_leaves_the_fairness_open_and_lasts_to_the_end() {
    let mut trace = two_tcp();
    trace.loss_free(0);
    trace.flow = FlowId(1);
    trace.handshake(5000);
    let run = trace.records().run;
    assert_eq!((run.fairness_jain, run.duration_s), (None, 60.0));
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
fn without_red_there_is_no_average() {
    let mut trace = Trace::tcp();
    let packet = trace.sent(500, 0, MSS);
    trace.event(500, PacketEvent::Enqueued(depth(1, f64::NAN)), &packet);
    assert_eq!(trace.records().run.red_average_max, None);
}
