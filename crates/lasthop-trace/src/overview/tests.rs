use super::*;
use lasthop_core::{
    Body, Datagram, DropCause, Dscp, Ecn, Part, Place, RetransmissionKind, Segment, UndoCause,
};
use std::borrow::Cow;

const MSS: u32 = 1000;

struct Run {
    overview: Overview,
    serial: u64,
}

fn info(name: &str, protocol: Protocol) -> FlowInfo {
    FlowInfo {
        group: None,
        is_control: false,
        name: name.to_owned(),
        application: 0,
        protocol,
        sender: Host::Server,
        offered_bytes: None,
        sends_for: None,
        dscp: Dscp::default(),
        ecn: Ecn::NotEct,
        server_port: 30_001,
        part: Part::Whole,
    }
}

impl Run {
    fn new(flows: usize, protocol: Protocol) -> Self {
        let span = Span { start_ns: 0, stop_ns: u64::MAX };
        let mut overview = Overview::new(vec!["f".into()], Bottlenecks::single([None, None]), span);
        for number in 0..flows {
            overview.announce(&info(&format!("f-{number}"), protocol));
        }
        Self { overview, serial: 0 }
    }

    fn packet(&mut self, flow: u32, direction: Direction, body: Body) -> Packet {
        self.serial += 1;
        let (serial, flow, dscp) = (self.serial, FlowId(flow), Dscp::default());
        Packet {
            serial,
            flow,
            direction,
            ip_bytes: 1040,
            ecn: Ecn::NotEct,
            is_copy: false,
            place: Place::from(direction),
            queued_at: Instant::MAX,
            dscp,
            server_port: 30_001,
            body,
        }
    }

    fn see(&mut self, ms: u64, event: PacketEvent, packet: &Packet) {
        self.overview.packet(Instant::from_nanos(ms * 1_000_000), event, packet);
    }

    fn tcp(&mut self, ms: u64, event: TransportEvent) {
        self.overview.transport(Instant::from_nanos(ms * 1_000_000), FlowId(0), Host::Server, event);
    }

    /// Segment `number` of `flow` is sent, passes the queue and arrives, and so does its ACK.
    fn segment(&mut self, ms: u64, flow: u32, number: u64) {
        let seq = 1 + number * u64::from(MSS);
        let data = Segment { seq, payload_bytes: MSS, flags: Flags::ACK, ..Segment::default() };
        let data = self.packet(flow, Direction::Down, Body::Tcp(data));
        self.see(ms, PacketEvent::Sent, &data);
        self.see(ms, PacketEvent::Enqueued(depth(1 + (number % 20) as u32)), &data);
        self.see(ms + 1, PacketEvent::Dequeued(depth((number % 20) as u32)), &data);
        self.see(ms + 2, PacketEvent::Delivered, &data);
        let ack = Segment { ack: seq + u64::from(MSS), flags: Flags::ACK, ..Segment::default() };
        let ack = self.packet(flow, Direction::Up, Body::Tcp(ack));
        self.see(ms + 2, PacketEvent::Sent, &ack);
        self.see(ms + 3, PacketEvent::Delivered, &ack);
    }
}

fn depth(packets: u32) -> QueueDepth {
    QueueDepth { packets, bytes: packets * 1040, class: 0, class_packets: packets, average: f64::NAN }
}

fn texts(columns: &[(&str, Column)], name: &str) -> Vec<Cow<'static, str>> {
    match &columns.iter().find(|(column, _)| *column == name).expect("a column").1 {
        Column::Text(cells) => cells.clone(),
        other => panic!("{other:?}"),
    }
}

fn numbers(columns: &[(&str, Column)], name: &str) -> Vec<Option<u64>> {
    match &columns.iter().find(|(column, _)| *column == name).expect("a column").1 {
        Column::Int(cells) => cells.clone(),
        other => panic!("{other:?}"),
    }
}

fn count(columns: &[(&str, Column)], event: &str) -> usize {
    texts(columns, "event").iter().filter(|found| *found == event).count()
}

#[test]
fn rows_are_bounded_and_every_byte_of_goodput_is_counted() {
    const SEGMENTS: u64 = 100_000;
    let mut run = Run::new(1, Protocol::Tcp);
    for number in 0..SEGMENTS {
        run.segment(10 * number, 0, number);
    }
    let tables = run.overview.finish(Instant::ZERO);
    let rows = tables.packets[0].1.len();
    assert!((POINTS / 4..=POINTS + 1).contains(&rows), "{rows}");
    let fresh: u64 = numbers(&tables.packets, "fresh_bytes").into_iter().flatten().sum();
    assert_eq!(fresh, SEGMENTS * u64::from(MSS));
    assert_eq!(numbers(&tables.packets, "queue_packets").into_iter().flatten().max(), Some(20));
    assert!(tables.left_out.points > 100_000);
    assert_eq!((tables.left_out.marks, tables.left_out.flows), (0, 0));
}

#[test]
fn every_drop_timeout_retransmission_and_probe_stays() {
    let mut run = Run::new(1, Protocol::Tcp);
    for number in 0..60_000 {
        run.segment(10 * number, 0, number);
        if number % 100 == 50 {
            let seq = 1 + number * u64::from(MSS);
            let again = Segment { seq, payload_bytes: MSS, flags: Flags::ACK, ..Segment::default() };
            let again = run.packet(0, Direction::Down, Body::Tcp(again));
            run.tcp(10 * number + 4, TransportEvent::Timeout { seq, backoff: 1 });
            run.tcp(
                10 * number + 4,
                TransportEvent::Retransmitted { seq, kind: RetransmissionKind::Timeout },
            );
            run.see(10 * number + 4, PacketEvent::Sent, &again);
            run.see(10 * number + 5, PacketEvent::Dropped(DropCause::QueueOverflow), &again);
        }
        if number % 100 == 70 {
            let probe = 1 + (number + 1) * u64::from(MSS);
            run.tcp(10 * (number + 1), TransportEvent::TailLossProbe { seq: probe });
        }
    }
    let tables = run.overview.finish(Instant::ZERO);
    assert_eq!(count(&tables.packets, "dropped-queue"), 600);
    for event in ["timeout", "retransmitted-timeout", "tail-loss-probe"] {
        assert_eq!(count(&tables.tcp, event), 600, "{event}");
    }
    // Retransmissions and probes have their own rows, so that they can be drawn.
    let sent: Vec<_> = numbers(&tables.packets, "time_ns")
        .into_iter()
        .zip(numbers(&tables.packets, "seq"))
        .zip(texts(&tables.packets, "event"))
        .filter_map(|(row, event)| (event == "sent").then_some(row))
        .collect();
    let marks = numbers(&tables.tcp, "time_ns").into_iter().zip(numbers(&tables.tcp, "seq"));
    assert!(marks.collect::<Vec<_>>().iter().all(|mark| sent.contains(mark)));
    assert_eq!(tables.left_out.marks, 0);
}

#[test]
fn a_drop_has_the_queue_that_it_found_and_a_timeout_the_rto() {
    let mut run = Run::new(1, Protocol::Tcp);
    run.segment(0, 0, 4);
    let lost = run.packet(0, Direction::Down, Body::Tcp(Segment::default()));
    run.see(9, PacketEvent::Enqueued(depth(7)), &lost);
    run.see(9, PacketEvent::Dropped(DropCause::QueueOverflow), &lost);
    let (rtt, rto) = (lasthop_core::Duration::from_millis(3), lasthop_core::Duration::from_millis(9));
    run.tcp(9, TransportEvent::RttSample { rtt, rto });
    run.tcp(9, TransportEvent::Window { cwnd: 5, ssthresh: 3, in_flight: 2 });
    run.tcp(10, TransportEvent::Timeout { seq: 1, backoff: 1 });
    run.tcp(11, TransportEvent::Undone(UndoCause::Dsack));
    let tables = run.overview.finish(Instant::ZERO);
    let at = texts(&tables.packets, "event").iter().position(|event| event == "dropped-queue").unwrap();
    assert_eq!(numbers(&tables.packets, "queue_packets")[at], Some(7));
    assert_eq!(numbers(&tables.packets, "queue_class_packets")[at], Some(7));
    assert_eq!(numbers(&tables.tcp, "rto_ns"), [Some(9_000_000), None, Some(9_000_000), None]);
    assert_eq!(numbers(&tables.tcp, "cwnd"), [None, Some(5), None, Some(5)]);
}

#[test]
fn a_flood_of_drops_is_bounded_and_said() {
    let mut run = Run::new(1, Protocol::Udp);
    for number in 0..100_000 {
        let datagram = Body::Udp(Datagram { number, payload_bytes: 100 });
        let datagram = run.packet(0, Direction::Down, datagram);
        run.see(number, PacketEvent::Sent, &datagram);
        run.see(number, PacketEvent::Dropped(DropCause::QueueOverflow), &datagram);
    }
    let tables = run.overview.finish(Instant::ZERO);
    let drops = count(&tables.packets, "dropped-queue");
    assert!((MARKS / 8..=MARKS).contains(&drops), "{drops}");
    assert_eq!(drops as u64 + tables.left_out.marks, 100_000);
}

#[test]
fn thousands_of_flows_are_bounded_too() {
    let mut run = Run::new(5000, Protocol::Tcp);
    for number in 0..50_000 {
        run.segment(number, (number % 5000) as u32, number / 5000);
    }
    let tables = run.overview.finish(Instant::ZERO);
    assert_eq!((tables.flows[0].1.len(), tables.left_out.flows), (FLOWS, 5000 - FLOWS as u64));
    assert!(tables.packets[0].1.len() <= POINTS + MARKS);
    assert!(numbers(&tables.packets, "queue_packets").into_iter().flatten().max() >= Some(10));
}

#[test]
fn the_last_event_tells_when_the_run_ended() {
    let mut run = Run::new(1, Protocol::Tcp);
    run.segment(0, 0, 0);
    let ack = Segment { ack: 1, flags: Flags::ACK, ..Segment::default() };
    let ack = run.packet(0, Direction::Up, Body::Tcp(ack));
    run.see(77, PacketEvent::Sent, &ack); // drawn by no panel
    let tables = run.overview.finish(Instant::ZERO);
    assert_eq!(numbers(&tables.packets, "time_ns").last(), Some(&Some(77_000_000)));
}
