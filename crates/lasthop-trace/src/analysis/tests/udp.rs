use super::*;

/// Datagrams every 128 ms from 0; each arrives after the given delay, or is dropped.
fn stream(delays: &[Option<u64>]) -> Trace {
    let mut trace = Trace::udp();
    for (number, delay) in (0..).zip(delays) {
        let at = 128 * number;
        let datagram = trace.datagram(at, number);
        match delay {
            Some(delay) => trace.delivered(at + delay, &datagram),
            None => trace.dropped(at, &datagram, DropCause::ArqGivenUp),
        }
    }
    trace
}

#[test]
fn spacing_ignores_pairs_with_a_loss_between() {
    let record = stream(&[Some(400), Some(400), None, Some(400), Some(420), Some(400)]).record();
    assert_eq!((record.sent_packets, record.received_packets, record.data_drops_error), (6, 5, 1));
    // Spacings 128, 148, 108 ms; jitter 0, 20, 20 ms.
    assert_eq!((record.spacing_p50_ms, record.spacing_max_ms), (Some(128.0), Some(148.0)));
    assert_eq!((record.spacing_p75_ms, record.spacing_p90_ms), (Some(138.0), Some(144.0)));
    assert_eq!((record.jitter_p50_ms, record.jitter_max_ms), (Some(20.0), Some(20.0)));
    assert_eq!((record.jitter_p75_ms, record.jitter_p90_ms), (Some(20.0), Some(20.0)));
}

#[test]
fn throughput_counts_the_udp_header_from_first_to_last_arrival() {
    let record = stream(&[Some(400), Some(400), None, Some(400), Some(400)]).record();
    assert_eq!(record.elapsed_s, Some(0.512));
    assert_eq!(record.throughput_Bps, Some(4.0 * 520.0 / 0.512));
    assert_eq!(record.outcome, Outcome::Closed);
    assert_eq!(record.cwnd_max, None);
}

#[test]
fn one_arrival_has_no_spacing_and_its_throughput_counts_from_the_start() {
    let record = stream(&[Some(400), None]).record();
    assert_eq!((record.elapsed_s, record.throughput_Bps), (Some(0.0), Some(520.0 / 0.4)));
    assert_eq!((record.spacing_p50_ms, record.jitter_max_ms), (None, None));
}

#[test]
fn a_stream_of_which_nothing_arrives_has_a_throughput_of_nothing() {
    assert_eq!(stream(&[None, None]).record().throughput_Bps, Some(0.0));
    assert_eq!(stream(&[]).record().throughput_Bps, None);
}

#[test]
fn a_flow_of_a_given_time_counts_what_arrives_within_it() {
    let known = FlowInfo { sends_for: Some(Duration::from_millis(300)), ..info("f", Protocol::Udp) };
    let mut trace = Trace::of(&[known]);
    // From the first packet at 0 ms: two arrive by 300 ms, one later, and one is sent later.
    for (number, sent, arrives) in [(0, 0, 50), (1, 100, 150), (2, 200, 320), (3, 310, 360)] {
        let datagram = trace.datagram(sent, number);
        trace.delivered(arrives, &datagram);
    }
    let record = trace.record();
    assert_eq!((record.sent_packets, record.received_packets), (3, 2));
    assert_eq!(record.throughput_Bps, Some(2.0 * 520.0 / 0.3));
    assert_eq!((record.elapsed_s, record.outcome), (None, Outcome::Closed));
}

#[test]
fn a_stream_with_datagrams_inside_or_unsent_is_unfinished() {
    let mut inside = stream(&[Some(400)]);
    inside.datagram(500, 1);
    assert_eq!(inside.record().outcome, Outcome::Unfinished);
    let mut unsent = stream(&[Some(400)]);
    unsent.analysis.flows[0].as_mut().unwrap().offered = Some(513);
    assert_eq!(unsent.record().outcome, Outcome::Unfinished);
}

#[test]
fn copies_that_the_link_makes_count_as_nothing() {
    let mut trace = Trace::udp();
    let first = trace.datagram(0, 0);
    let second = trace.datagram(100, 1);
    trace.delivered(300, &first);
    trace.event(300, PacketEvent::Duplicated, &first);
    trace.delivered(400, &second);
    trace.event(400, PacketEvent::Duplicated, &second);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.received_packets), (2, 2));
    assert_eq!(record.throughput_Bps, Some(f64::from(2 * 520) / 0.1));
}

#[test]
fn one_way_delay_is_from_sender_to_receiver_for_each_datagram_that_arrived() {
    let record = stream(&[Some(400), Some(500), None, Some(420), Some(440)]).record();
    let delays = [record.one_way_delay_p50_s, record.one_way_delay_p95_s, record.one_way_delay_p99_s];
    // In order 400, 420, 440, 500 ms; type 7 puts p95 at 2.85 and p99 at 2.97.
    let [median, p95, p99] = delays.map(Option::unwrap);
    assert_eq!(median, 0.43);
    assert!((p95 - 0.491).abs() < 1e-12 && (p99 - 0.4982).abs() < 1e-12, "{delays:?}");
}

#[test]
fn a_stream_is_done_with_less_than_the_most_once_its_source_says_so() {
    let record = |completed: bool| {
        let mut trace = stream(&[Some(400), None]);
        trace.analysis.flows[0].as_mut().unwrap().offered = Some(5000);
        if completed {
            trace.analysis.completed(ms(500), FlowId(0));
        }
        trace.record()
    };
    assert_eq!((record(false).outcome, record(true).outcome), (Outcome::Unfinished, Outcome::Closed));
}
