use super::*;
use crate::Span;
use crate::columns::Column;
use lasthop_core::{Datagram, DropCause, Dscp, Ecn, Place, Protocol, QueueDepth};

fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn info(name: &str, protocol: Protocol, sender: Host) -> FlowInfo {
    FlowInfo {
        group: None,
        is_control: false,
        name: name.to_owned(),
        application: 0,
        protocol,
        sender,
        offered_bytes: None,
        sends_for: None,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
        server_port: 30_001,
        part: None,
    }
}

fn packet(serial: u64, flow: u32, direction: Direction, body: Body) -> Packet {
    Packet {
        serial,
        flow: FlowId(flow),
        direction,
        ip_bytes: 1040,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
        server_port: 30_001,
        is_copy: false,
        place: Place::from(direction),
        queued_at: Instant::MAX,
        body,
    }
}

fn segment(seq: u64, payload_bytes: u32) -> Body {
    Body::Tcp(Segment { seq, payload_bytes, ..Segment::default() })
}

fn depth(packets: u32) -> QueueDepth {
    QueueDepth { packets, bytes: 0, class: 0, class_packets: packets, average: f64::NAN }
}

/// Observes `events` of flow 0, TCP from the server, and flow 1, UDP from the client.
fn observe<S: SeriesSink>(series: &mut Series<S>) {
    series.announce(&info("a, b", Protocol::Tcp, Host::Server));
    series.announce(&info("call", Protocol::Udp, Host::Client));
    let first = packet(1, 0, Direction::Down, segment(1, 1000));
    let second = packet(2, 0, Direction::Down, segment(1001, 1000));
    let again = packet(4, 0, Direction::Down, segment(1001, 1000));
    let voice = packet(3, 1, Direction::Up, Body::Udp(Datagram { number: 0, payload_bytes: 160 }));
    series.packet(ms(10), PacketEvent::Sent, &first);
    series.packet(ms(10), PacketEvent::Sent, &second);
    series.packet(ms(20), PacketEvent::Enqueued(depth(1)), &first);
    series.packet(ms(40), PacketEvent::Enqueued(depth(2)), &second);
    series.packet(ms(60), PacketEvent::Dequeued(depth(1)), &first);
    series.packet(ms(80), PacketEvent::Delivered, &first);
    series.packet(ms(90), PacketEvent::Dropped(DropCause::CoDel), &second);
    series.transport(
        ms(95),
        FlowId(0),
        Host::Server,
        TransportEvent::Window { cwnd: 3, ssthresh: 9, in_flight: 1 },
    );
    let sample = |millis| TransportEvent::RttSample {
        rtt: Duration::from_millis(millis),
        rto: Duration::from_millis(1),
    };
    series.transport(ms(95), FlowId(0), Host::Server, sample(80));
    series.transport(ms(96), FlowId(0), Host::Server, sample(160));
    // A step in which the flow waits for its timer; after that it retransmits the lost segment.
    series.packet(ms(200), PacketEvent::Sent, &again);
    series.packet(ms(210), PacketEvent::Sent, &voice);
    series.packet(ms(220), PacketEvent::Delivered, &again);
    series.packet(ms(299), PacketEvent::Delivered, &voice);
}

fn bottlenecks() -> Bottlenecks {
    Bottlenecks::single([Some(Capacity::at(&[(Instant::ZERO, 80_000.0), (ms(150), 160_000.0)])), None])
}

#[test]
fn a_file_has_a_row_for_each_step_of_each_flow_that_is_active_and_of_the_hop() {
    let mut text = Vec::new();
    let file = SeriesFile::new(&mut text).unwrap();
    let mut series = Series::new(Duration::from_millis(100), bottlenecks(), file);
    observe(&mut series);
    series.close(ms(400)).unwrap();
    let lines = [
        "time_s,flow,direction,goodput_Bps,lost_packets,marks_ecn,queue_mean_packets,queue_max_packets,cwnd,\
         srtt_s,sending_flows,fairness_jain,capacity_Bps",
        // 20 + 2 * 20 + 30 ms in the queue; 80 ms, then an eighth of the difference to 160 ms is added.
        "0,\"a, b\",down,10000,1,0,0.9,2,3,0.09,,,",
        "0,,down,10000,1,0,0.9,2,,,1,1,10000",
        "0,,up,0,0,0,0,0,,,0,,",
        "0.1,\"a, b\",down,0,0,0,0,0,3,0.09,,,",
        "0.1,,down,0,0,0,0,0,,,1,,15000",
        "0.1,,up,0,0,0,0,0,,,0,,",
        "0.2,\"a, b\",down,10000,0,0,0,0,3,0.09,,,",
        "0.2,call,up,1600,0,0,0,0,,,,,",
        "0.2,,down,10000,0,0,0,0,,,1,1,20000",
        "0.2,,up,1600,0,0,0,0,,,1,1,",
        "0.3,,down,0,0,0,0,0,,,0,,20000",
        "0.3,,up,0,0,0,0,0,,,0,,",
        "0.4,,down,0,0,0,0,0,,,0,,20000",
        "0.4,,up,0,0,0,0,0,,,0,,",
    ];
    assert_eq!(String::from_utf8(text).unwrap().lines().collect::<Vec<_>>(), lines);
}

#[test]
fn fairness_is_that_of_the_flows_with_data_to_send() {
    let mut text = Vec::new();
    let mut series = Series::new(
        Duration::from_millis(100),
        Bottlenecks::single([None, None]),
        SeriesFile::new(&mut text).unwrap(),
    );
    for name in ["a", "b", "c"] {
        series.announce(&info(name, Protocol::Tcp, Host::Client));
    }
    // One flow gets 3000 bytes, one 1000; the third only opens its connection.
    for (serial, (flow, bytes)) in (0..).zip([(0, 3000), (1, 1000), (2, 0)]) {
        let sent = packet(serial, flow, Direction::Up, segment(u64::from(bytes > 0), bytes));
        series.packet(ms(1), PacketEvent::Sent, &sent);
        series.packet(ms(2), PacketEvent::Delivered, &sent);
    }
    series.close(ms(50)).unwrap();
    let text = String::from_utf8(text).unwrap();
    let hop = text.lines().find(|line| line.starts_with("0,,up")).unwrap();
    assert!(hop.starts_with("0,,up,40000,"), "{hop}");
    assert!(hop.ends_with(",2,0.8,"), "(3 + 1)^2 / (2 * (9 + 1)): {hop}");
}

#[test]
fn a_folded_series_keeps_the_sums_of_a_long_run_in_few_steps_of_round_length() {
    for run_ms in [400, 5_000, 70_000, 3_600_000] {
        let mut series = Series::folded(bottlenecks());
        observe(&mut series);
        let columns = series.table(ms(run_ms), Span { start_ns: 0, stop_ns: u64::MAX });
        let find = |name| columns.iter().find(|(column, _)| *column == name).unwrap().1.clone();
        let (Column::Float(goodput), Column::Float(length)) = (find("goodput_Bps"), find("step_s")) else {
            panic!("numbers")
        };
        let (Column::Int(lost), Column::Text(flow)) = (find("lost_packets"), find("flow")) else {
            panic!("counts and names")
        };
        let step = length[0].unwrap();
        let of_hop = |row: &usize| flow[*row].is_empty();
        let bytes: f64 = (0..flow.len()).filter(of_hop).map(|row| goodput[row].unwrap() * step).sum();
        assert!((bytes - 2160.0).abs() < 1e-6, "{bytes} bytes of a run of {run_ms} ms");
        assert_eq!((0..flow.len()).filter(of_hop).filter_map(|row| lost[row]).sum::<u64>(), 1);
        let steps = (0..flow.len()).filter(of_hop).count() / 2;
        let shown = run_ms as f64 / 1e3 / step;
        assert!(steps as f64 >= shown && (32.0..=161.0).contains(&shown), "{steps} steps of {step} s");
        let power = 10.0_f64.powf(step.log10().floor());
        assert!([1.0, 2.0].iter().any(|digit| (step / power - digit).abs() < 1e-9), "{step} s is round");
    }
}
