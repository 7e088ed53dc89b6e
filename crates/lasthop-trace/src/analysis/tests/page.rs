//! A page load of two objects over two connections; the browser connects.

use super::*;
use crate::records::PageRecord;

fn page() -> Trace {
    let run = RunInfo {
        capacities: [64_000.0, 32_000.0].map(|rate| Capacity::at(&[(Instant::ZERO, rate)])),
        places: [Direction::Down, Direction::Up].map(Place::from),
        bottlenecks: Default::default(),
        segment_bytes: MSS,
        packet_bytes: 576,
    };
    let applications = [("page", Some(2)), ("bulk", None)].map(|(name, objects)| ApplicationInfo {
        name: name.to_owned(),
        objects,
        ..Default::default()
    });
    let mut analysis = Analysis::new(applications.to_vec(), run);
    for (name, application) in [("page/main", 0), ("page/inline-1", 0), ("bulk", 1)] {
        analysis.announce(&FlowInfo { application, ..info(name, Protocol::Tcp) });
    }
    Trace { analysis, serial: 0, flow: FlowId(0), queued: BTreeMap::new(), down: Direction::Down }
}

impl Trace {
    fn on(&mut self, flow: u32) -> &mut Self {
        self.flow = FlowId(flow);
        self
    }

    fn browser_sends(&mut self, at: u64, flags: Flags, ack: u64) {
        self.send(at, Direction::Up, Segment { ack, flags, ..Segment::default() });
    }

    /// A last segment of 100 bytes; the sequence number after its FIN is 102.
    fn server_ends(&mut self, at: u64) {
        let flags = Flags::ACK.with(Flags::FIN);
        self.send(at, Direction::Down, Segment { seq: 1, payload_bytes: 100, flags, ..Segment::default() });
    }

    fn has_object(&mut self, at: u64, object: u32) {
        self.analysis.http(ms(at), self.flow, HttpEvent::LastByte { object });
    }

    /// One connection: SYN, response with FIN, the ACK of it.
    fn fetched(&mut self, object: u32, syn: u64, fin: u64, ack: u64) {
        self.browser_sends(syn, Flags::SYN, 0);
        self.server_ends(fin);
        self.has_object(ack, object);
        self.browser_sends(ack, Flags::ACK, 102);
    }

    fn page_record(self) -> PageRecord {
        self.records().pages.remove(0)
    }
}

#[test]
fn response_time_is_from_the_first_syn_to_the_ack_of_the_last_fin() {
    let mut trace = page();
    trace.on(2).loss_free(0);
    trace.on(0).fetched(0, 100, 1000, 1400);
    trace.on(1).fetched(1, 500, 1800, 2100);
    // The browser's own FIN, and the ACK of a FIN that is repeated.
    trace.browser_sends(2110, Flags::ACK.with(Flags::FIN), 102);
    trace.server_ends(2400);
    trace.browser_sends(2700, Flags::ACK, 102);
    let record = trace.page_record();
    assert_eq!(
        (record.outcome, record.start_s, record.response_time_s),
        (Outcome::Closed, Some(0.1), Some(2.0))
    );
    assert_eq!((record.objects, record.objects_received), (2, 2));
    assert_eq!((record.connections, record.connections_aborted), (2, 0));
}

#[test]
fn a_fin_that_came_out_of_order_counts_once_the_gap_is_filled() {
    let mut trace = page();
    trace.on(0).fetched(0, 100, 1000, 1400);
    trace.on(1).browser_sends(500, Flags::SYN, 0);
    trace.server_ends(1500);
    trace.browser_sends(1800, Flags::ACK, 1);
    trace.browser_sends(2500, Flags::ACK, 101);
    trace.has_object(2500, 1);
    trace.browser_sends(3100, Flags::ACK, 102);
    assert_eq!(trace.page_record().response_time_s, Some(3.0));
}

#[test]
fn a_page_load_with_a_lost_connection_is_aborted_and_has_no_response_time() {
    let mut trace = page();
    trace.on(0).fetched(0, 100, 1000, 1400);
    trace.on(1).browser_sends(500, Flags::SYN, 0);
    for host in [Host::Server, Host::Client] {
        let flow = trace.flow;
        trace.analysis.transport(ms(9000), flow, host, TransportEvent::Aborted);
    }
    let record = trace.page_record();
    assert_eq!((record.outcome, record.response_time_s), (Outcome::Aborted, None));
    assert_eq!((record.objects_received, record.connections, record.connections_aborted), (1, 2, 1));
}

#[test]
fn a_connection_given_up_after_everything_arrived_does_no_harm() {
    let mut trace = page();
    trace.on(0).fetched(0, 100, 1000, 1400);
    trace.on(1).fetched(1, 500, 1800, 2100);
    let flow = trace.flow;
    trace.analysis.transport(ms(90_000), flow, Host::Client, TransportEvent::Aborted);
    let record = trace.page_record();
    assert_eq!((record.outcome, record.response_time_s), (Outcome::Closed, Some(2.0)));
    assert_eq!(record.connections_aborted, 1);
}

#[test]
fn without_an_object_or_the_end_of_a_connection_a_page_load_is_unfinished() {
    let mut lacks_object = page();
    lacks_object.on(0).fetched(0, 100, 1000, 1400);
    let mut lacks_end = page();
    lacks_end.on(0).fetched(0, 100, 1000, 1400);
    lacks_end.on(1).browser_sends(500, Flags::SYN, 0);
    lacks_end.has_object(1500, 1);
    for (trace, received) in [(lacks_object, 1), (lacks_end, 2)] {
        let record = trace.page_record();
        assert_eq!((record.outcome, record.response_time_s), (Outcome::Unfinished, None));
        assert_eq!((record.start_s, record.objects_received), (Some(0.1), received));
    }
    let never = page().page_record();
    assert_eq!((never.outcome, never.start_s, never.connections), (Outcome::Unfinished, None, 0));
    assert_eq!((never.page.as_str(), never.objects), ("page", 2));
}
