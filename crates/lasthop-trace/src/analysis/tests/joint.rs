use super::*;

/// A flow `f` with a connection over each of two ways.
fn joint(info: &FlowInfo) -> Trace {
    let part = |way| FlowInfo {
        name: format!("f/{way}"),
        part: Part::Subflow { of: FlowId(0), way },
        sends_for: None,
        ..info.clone()
    };
    Trace::of(&[info.clone(), part(0), part(1)])
}

fn read(trace: &mut Trace, at: u64, bytes: u64, ended: bool) {
    trace.analysis.read(ms(at), FlowId(0), Host::Client, bytes, ended);
}

#[test]
fn times_are_those_of_the_whole_and_counts_are_added_up() {
    let mut trace = joint(&info("f", Protocol::Tcp));
    trace.flow = FlowId(1);
    trace.loss_free(100);
    trace.flow = FlowId(2);
    trace.handshake(1000);
    let lost = trace.sent(1600, 0, MSS);
    trace.dropped(1700, &lost, DropCause::QueueOverflow);
    trace.timeout(3000, 0);
    let again = trace.sent(3000, 0, MSS);
    trace.delivered(3300, &again);
    trace.ack(3600, 536);
    read(&mut trace, 2000, 1072, false);
    read(&mut trace, 4100, 1608, true);
    trace.flow = FlowId(0);
    trace.tcp_event(4300, TransportEvent::Closed);
    let records = trace.records();
    let [whole, first, second] = &records.flows[..] else { panic!("{}", records.flows.len()) };
    assert_eq!(["", "f", "f"], [whole, first, second].map(|flow| flow.part_of.as_str()));
    assert_eq!((whole.outcome, whole.start_s, whole.elapsed_s), (Outcome::Closed, Some(0.1), Some(4.0)));
    assert_eq!(whole.throughput_Bps, Some(402.0), "1608 bytes in 4 s, which its application has read");
    assert_eq!([first.sent_packets, second.sent_packets, whole.sent_packets], [2, 2, 4]);
    assert_eq!((whole.timeouts, whole.data_drops_queue, whole.retransmitted_packets), (1, 1, 1));
    assert_eq!((whole.rtt_median_s, whole.queue_delay_median_s, whole.cwnd_max), (None, None, None));
    assert_eq!(records.run.fairness_jain, Some(1.0), "there is one transfer");
    assert_eq!(records.run.duration_s, 4.1, "though the second connection has not ended");
}

#[test]
fn of_a_flow_with_a_duration_what_is_read_within_it_counts() {
    let one_second = Some(Duration::from_secs(1));
    let mut trace = joint(&FlowInfo { sends_for: one_second, ..info("f", Protocol::Tcp) });
    trace.flow = FlowId(1);
    trace.handshake(0);
    for (at, bytes) in [(800, 500), (1000, 900), (1001, 5000)] {
        read(&mut trace, at, bytes, false);
    }
    let whole = trace.record();
    assert_eq!((whole.elapsed_s, whole.throughput_Bps), (None, Some(900.0)));
}
