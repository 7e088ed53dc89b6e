//! Records of a window of time.

use super::*;
use lasthop_scenario::MeasureConfig;

impl Trace {
    /// Measures from 2 s to 4 s, counted from the first packet of these applications.
    fn measured(self, since: &[u32]) -> Self {
        self.measured_between(2, 4, since)
    }

    fn measured_between(mut self, from: u64, until: u64, since: &[u32]) -> Self {
        let [from, until] = [from, until].map(Duration::from_secs);
        let config = MeasureConfig { from, until: Some(until), flow: None };
        self.analysis = self.analysis.within(Some(Measure::new(&config, since.to_vec())));
        self
    }

    /// A segment of 536 bytes from `seq` on that is acknowledged after 200 ms.
    fn exchanged(&mut self, at: u64, seq: u64) {
        let packet = self.sent(at, seq, MSS);
        self.delivered(at + 100, &packet);
        self.ack(at + 200, seq + u64::from(MSS));
    }
}

#[test]
fn only_what_happens_in_the_window_is_counted() {
    let mut trace = Trace::tcp().measured(&[]);
    trace.exchanged(1000, 0);
    trace.timeout(1900, 0);
    trace.exchanged(2500, 536);
    trace.timeout(3000, 1072);
    trace.exchanged(3700, 1072);
    trace.exchanged(4500, 1608);
    let records = trace.records();
    let record = &records.flows[0];
    assert_eq!((record.sent_packets, record.received_packets, record.timeouts), (2, 2, 1));
    assert_eq!(record.throughput_Bps, Some(2.0 * 536.0 / 2.0));
    assert_eq!((record.start_s, record.outcome), (Some(1.0), Outcome::Unfinished));
    assert_eq!((records.run.packets_sent, records.run.packets_delivered), (4, 4));
    assert_eq!(records.run.duration_s, 60.0);
}

#[test]
fn a_packet_on_its_way_when_the_window_begins_counts_where_it_arrives() {
    let mut trace = Trace::tcp().measured(&[]);
    let packet = trace.sent(1950, 0, MSS);
    trace.delivered(2050, &packet);
    trace.ack(2150, 536);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.received_packets), (0, 1));
    assert_eq!((record.one_way_delay_p50_s, record.throughput_Bps), (Some(0.1), Some(268.0)));
}

#[test]
fn a_flow_outside_of_the_window_has_facts_but_no_rate() {
    let mut trace = Trace::of(&[info("f", Protocol::Tcp), info("g", Protocol::Tcp)]).measured(&[]);
    trace.handshake(0);
    trace.exchanged(600, 0);
    let fin = trace.send(
        900,
        Direction::Down,
        Segment { seq: 537, ack: 1, flags: Flags::ACK.with(Flags::FIN), ..Segment::default() },
    );
    trace.delivered(1000, &fin);
    trace.ack(1100, 537);
    trace.flow = FlowId(1);
    trace.exchanged(5000, 0);
    let records = trace.records();
    let [early, late] = &records.flows[..] else { panic!("two flows") };
    assert_eq!((early.sent_packets, early.throughput_Bps, early.elapsed_s), (0, None, Some(1.1)));
    assert_eq!((late.flow.as_str(), late.sent_packets, late.throughput_Bps), ("g", 0, None));
    assert_eq!(late.start_s, Some(5.0));
}

#[test]
fn a_flow_that_begins_in_the_window_has_its_rate_from_there() {
    let mut trace = Trace::tcp().measured(&[]);
    trace.exchanged(3000, 0);
    assert_eq!(trace.record().throughput_Bps, Some(536.0));
}

#[test]
fn times_may_count_from_the_first_packet_of_a_flow() {
    let mut trace = Trace::of(&[info("f", Protocol::Tcp), info("g", Protocol::Tcp)]).measured(&[1]);
    trace.exchanged(1000, 0);
    trace.flow = FlowId(1);
    trace.exchanged(5000, 0);
    trace.flow = FlowId(0);
    trace.exchanged(6500, 536);
    trace.exchanged(7500, 1072);
    trace.exchanged(9500, 1608);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.throughput_Bps), (1, Some(268.0)));
}

#[test]
fn a_window_that_the_run_does_not_reach_is_empty() {
    let mut trace = Trace::tcp().measured(&[1]);
    trace.exchanged(1000, 0);
    let record = trace.record();
    assert_eq!((record.sent_packets, record.throughput_Bps), (0, None));
}

#[test]
fn the_queue_at_the_beginning_of_the_window_counts_in_it() {
    let mut trace = Trace::udp().measured(&[]);
    let packet = trace.datagram(1000, 0);
    trace.event(1000, PacketEvent::Enqueued(depth(3, f64::NAN)), &packet);
    trace.event(3000, PacketEvent::Dequeued(depth(1, f64::NAN)), &packet);
    trace.delivered(3500, &packet);
    let records = trace.records();
    // Three packets for a second and one for another.
    assert_eq!((records.run.queue_mean_packets, records.run.queue_max_packets), (Some(2.0), Some(3)));
    assert_eq!(records.run.utilisation, Some(540.0 / 16_000.0));
    assert_eq!(records.flows[0].queue_delay_median_s, Some(2.0));
    // The stream ended with this datagram.
    assert_eq!(records.flows[0].throughput_Bps, Some(520.0 / 1.5));
}

#[test]
fn the_first_packet_of_the_flow_counts_in_a_window_that_begins_with_it() {
    let mut trace = Trace::udp().measured_between(0, 4, &[0]);
    for (number, at) in [1000, 2000, 3000, 6000].into_iter().enumerate() {
        let packet = trace.datagram(at, number as u64);
        trace.delivered(at + 100, &packet);
    }
    let record = trace.record();
    assert_eq!((record.sent_packets, record.received_packets), (3, 3));
}

#[test]
fn an_event_without_a_packet_begins_and_ends_the_window_too() {
    let mut trace = Trace::tcp().measured(&[]);
    trace.exchanged(1000, 0);
    trace.timeout(2500, 536);
    trace.timeout(4000, 536);
    trace.timeout(4500, 536);
    assert_eq!(trace.record().timeouts, 1);
}

#[test]
fn an_expiry_before_the_window_is_not_spurious_in_it() {
    let mut trace = Trace::tcp().measured(&[]);
    let first = trace.sent(1000, 0, MSS);
    trace.timeout(1500, 0);
    let again = trace.sent(1500, 0, MSS);
    trace.delivered(2200, &first);
    trace.delivered(2700, &again);
    trace.ack(2800, 536);
    let record = trace.record();
    assert_eq!((record.timeouts, record.spurious_timeouts), (0, 0));
    assert_eq!((record.retransmitted_packets, record.unnecessary_retransmissions), (0, 0));
}
