//! Short flows: completion times by hand, conservation, memory.

use crate::random::Streams;
use crate::support::{cell, observe, path, scenario, study};
use lasthop_core::{
    Bytes, Distribution, Duration, FlowId, FlowInfo, Instant, Observer, Packet, PacketEvent, Probability,
    QueueSize, Seed,
};
use lasthop_link::{CoDelConfig, DisciplineConfig};
use lasthop_scenario::Scenario;
use lasthop_tcp::{Profile, TcpConfig};
use lasthop_trace::{Analysis, Conservation, FlowRecord, Records};
use lasthop_traffic::{Arrivals, FlowConfig, ShortFlowsConfig, ShortHosts};

const SEED: Seed = Seed { study: 7, replication: 1 };

fn short(packets: u32, arrivals: Arrivals, windows: &[u32]) -> FlowConfig {
    let hosts = |window: &u32| ShortHosts {
        name: format!("iw{window}"),
        initial_window: *window,
        receive_window_initial: 16,
    };
    FlowConfig::ShortFlows(ShortFlowsConfig {
        name: "short".into(),
        packets,
        packet_size: None,
        request: Bytes(200),
        control: None,
        start: Distribution::Static(Duration::ZERO),
        arrivals,
        hosts: windows.iter().map(hosts).collect(),
    })
}

fn one_by_one(gap: Duration) -> Arrivals {
    Arrivals::Sequential { gap: Distribution::Static(gap) }
}

/// 1 Mbit/s, 100 ms each way, under the profile linux-2.6.
fn link(flows: Vec<FlowConfig>, seconds: u64) -> Scenario {
    let path = path(1_000_000, Duration::from_millis(100), QueueSize::Packets(100), 100_000);
    let tcp: TcpConfig = toml::from_str(Profile::Linux26.toml()).expect("the profile is complete");
    Scenario { tcp, time_limit: Duration::from_secs(seconds), ..scenario(1500, &path, flows) }
}

fn records(scenario: &Scenario) -> Records {
    let (analysis, end) = observe(scenario, SEED, Analysis::of(scenario));
    analysis.finish(end.time)
}

#[test]
fn three_segments_in_the_first_window_take_two_round_trips() {
    let scenario = link(vec![short(3, one_by_one(Duration::from_secs(600)), &[3])], 60);
    let records = records(&scenario);
    // Each way: LAN (100 Mbit/s, 0.15 ms), link (1 Mbit/s), 100 ms.
    let [lan, link] = [1e8, 1e6].map(|rate| move |ip_bytes: f64| ip_bytes * 8.0 / rate);
    let way = |ip_bytes: f64| lan(ip_bytes) + 0.000_15 + link(ip_bytes) + 0.1;
    // A pure ACK of 52 bytes leaves first, and the next packet waits for the link.
    let behind_ack = |ip_bytes: f64| lan(52.0) + link(52.0) + 0.000_15 + link(ip_bytes) + 0.1;
    // SYN and SYN-ACK with options for MSS, SACK, timestamps, scale; request of 200 bytes; three segments.
    let by_hand = way(60.0) + way(60.0) + behind_ack(252.0) + behind_ack(1500.0) + 2.0 * link(1500.0);
    let [short] = &records.shorts[..] else { panic!("one kind") };
    assert_eq!((short.flows, short.completed, short.sent_packets), (1, 1, 3));
    assert!((short.fct_mean_s.unwrap() - by_hand).abs() < 1e-6, "{:?} {by_hand}", short.fct_mean_s);
    let bytes = 3.0 * 1448.0;
    assert!((short.throughput_mean_Bps.unwrap() - bytes / short.fct_mean_s.unwrap()).abs() < 1e-6);
    assert_eq!(records.flows, []);
}

#[test]
fn a_response_of_so_many_bytes_ends_with_a_shorter_segment() {
    let time = |size| {
        let mut flow = short(3, one_by_one(Duration::from_secs(600)), &[10]);
        let FlowConfig::ShortFlows(short) = &mut flow else { unreachable!() };
        short.packet_size = size;
        let records = records(&link(vec![flow], 60));
        (records.shorts[0].sent_packets, records.shorts[0].fct_mean_s.unwrap())
    };
    let ((full, three), (more, four)) = (time(None), time(Some(Bytes(1500))));
    assert_eq!((full, more), (3, 4));
    // 4500 bytes are three segments and 156 bytes, which are 208 with their headers: 1.664 ms at 1 Mbit/s.
    // The LAN is done with the last packet before the link is.
    assert!((four - three - 208.0 * 8e-6).abs() < 1e-6, "{three} {four}");
}

const CONTROL: Option<Bytes> = Some(Bytes(256));

#[test]
fn control_connections_have_no_records_and_cost_round_trips_before_and_after() {
    let [alone, tests] = [None, CONTROL].map(|control| {
        let FlowConfig::ShortFlows(short) = short(3, one_by_one(Duration::ZERO), &[3]) else {
            unreachable!()
        };
        records(&link(vec![FlowConfig::ShortFlows(ShortFlowsConfig { control, ..short })], 100))
    });
    let [data] = &tests.shorts[..] else { panic!("one kind: {:?}", tests.shorts) };
    // The run's end may cut the last one short.
    assert!(data.application == "iw3" && data.flows - data.completed <= 1, "{data:?}");
    assert!(tests.run.background_share.is_some_and(|share| share < 1e-9));
    let [with, without] = [data, &alone.shorts[0]].map(|short| short.fct_mean_s.unwrap());
    assert!((with - without).abs() < 0.001, "the link is empty: {with} {without}");
    // Handshake and arrangement before a transfer; its end and the results after it.
    let [slower, faster] = [data, &alone.shorts[0]].map(|short| 100.0 / short.flows as f64);
    assert!((0.6..0.65).contains(&(slower - faster)), "{slower} {faster}");
}

#[test]
fn tests_lose_track_of_nothing_where_the_queue_overflows() {
    let study = study("balekaki2012");
    let mut scenario = cell(&study, "link=64k,pattern=mixed,window=iw10,packets=21,congestion=90").clone();
    for flow in &mut scenario.flow {
        if let FlowConfig::ShortFlows(short) = &mut flow.kind {
            short.control = CONTROL;
        }
    }
    let watch = (Analysis::of(&scenario), (Conservation::default(), Streams::new(&scenario)));
    let ((analysis, (conservation, streams)), end) = observe(&scenario, SEED, watch);
    assert_eq!((conservation.violations().first(), streams.faults().first()), (None, None));
    let records = analysis.finish(end.time);
    let data = records.shorts.iter().find(|short| short.application == "iw10").expect("transfers");
    assert!(data.lost_packets > 0 && data.completed + 1 >= data.flows && data.completed > 20, "{data:?}");
}

#[test]
fn a_larger_window_saves_a_round_trip() {
    let time = |window| {
        let scenario = link(vec![short(9, one_by_one(Duration::from_secs(600)), &[window])], 60);
        records(&scenario).shorts[0].fct_mean_s.unwrap()
    };
    // A round trip of 200 ms, minus the time for which three segments and their ACKs occupy the link.
    assert!(time(3) > time(10) + 0.15, "{} {}", time(3), time(10));
    assert!((time(9) - time(10)).abs() < 1e-9, "nine segments fit");
}

/// Maximum number of live flows, and total number of flows.
#[derive(Default)]
struct Population {
    announced: u32,
    retired: u32,
    most: u32,
}

impl Observer for Population {
    fn announce(&mut self, _: &FlowInfo) {
        self.announced += 1;
        self.most = self.most.max(self.announced - self.retired);
    }

    fn retired(&mut self, _: Instant, _: FlowId) {
        self.retired += 1;
    }
}

#[test]
fn one_after_another_never_more_than_two_are_alive() {
    let scenario = link(vec![short(9, one_by_one(Duration::from_millis(20)), &[3, 10])], 600);
    let (population, _) = observe(&scenario, SEED, Population::default());
    assert!(population.announced > 500, "{}", population.announced);
    // The next flow starts while the FINs of the last one are still in flight.
    assert!(population.most <= 2);
}

#[test]
fn what_random_arrivals_offer_is_carried() {
    let load = Probability::new(0.5).unwrap();
    let scenario = link(vec![short(9, Arrivals::Poisson { load }, &[3, 10])], 3600);
    let records = records(&scenario);
    let shares: Vec<_> = records.shorts.iter().map(|short| short.flows).collect();
    assert!(shares.iter().all(|flows| (7_000..10_000).contains(flows)), "{shares:?}");
    // Not counting handshakes, headers and ACKs.
    let utilisation = records.run.utilisation.unwrap();
    assert!((0.48..0.54).contains(&utilisation), "{utilisation}");
    assert!(records.run.background_share.is_some_and(|share| share < 1e-9));
}

#[test]
fn under_congestion_no_packet_and_no_byte_is_lost_track_of() {
    let study = study("balekaki2012");
    for pattern in ["pattern=constant", "pattern=mixed"] {
        let key = format!("link=64k,{pattern},window=hybrid,packets=21,congestion=90");
        let scenario = cell(&study, &key);
        let watch = (Analysis::of(scenario), (Conservation::default(), Streams::new(scenario)));
        let ((analysis, (conservation, streams)), end) = observe(scenario, SEED, watch);
        assert_eq!(conservation.violations(), &[]);
        assert_eq!(streams.faults().first(), None, "{key}");
        let Records { shorts, flows, .. } = analysis.finish(end.time);
        assert_eq!(flows.len(), if pattern == "pattern=mixed" { 2 } else { 1 });
        let lost: u64 = shorts.iter().map(|short| short.lost_packets).sum();
        assert!(lost > 0 && shorts.iter().all(|short| short.completed + 1 >= short.flows));
    }
}

#[test]
fn what_codel_drops_of_short_flows_is_lost_too() {
    let mut scenario = link(vec![short(300, one_by_one(Duration::from_millis(20)), &[10])], 100);
    let path = scenario.down.as_mut().expect("a path");
    path.link.send_buffer = Bytes(3000);
    path.queue.discipline = DisciplineConfig::Codel(CoDelConfig::default());
    let (analysis, end) = observe(&scenario, SEED, Analysis::of(&scenario).keep_every_flow());
    let Records { shorts, flows, .. } = analysis.finish(end.time);
    let sum = |field: fn(&FlowRecord) -> u64| flows.iter().map(field).sum::<u64>();
    let aqm = sum(|flow| flow.data_drops_aqm);
    assert!(aqm > 0);
    assert_eq!(shorts[0].lost_packets, aqm + sum(|flow| flow.data_drops_queue + flow.data_drops_error));
}

/// Completion as a client sees it, without the analysis.
#[derive(Default)]
struct Completions(Vec<(Instant, Option<Instant>)>);

impl Observer for Completions {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if event == PacketEvent::Sent && packet.flow.0 as usize == self.0.len() {
            self.0.push((now, None));
        }
    }

    fn completed(&mut self, now: Instant, flow: FlowId) {
        self.0[flow.0 as usize].1 = Some(now);
    }
}

#[test]
fn keeping_every_flow_changes_no_sum() {
    let scenario = link(vec![short(9, one_by_one(Duration::from_millis(20)), &[3])], 100);
    let folded = records(&scenario);
    let watch = (Analysis::of(&scenario).keep_every_flow(), Completions::default());
    let ((analysis, Completions(times)), end) = observe(&scenario, SEED, watch);
    let kept = analysis.finish(end.time);
    assert_eq!(kept.shorts, folded.shorts);
    assert_eq!(kept.flows.len() as u64, kept.shorts[0].flows);
    let done: Vec<f64> = times
        .iter()
        .filter_map(|(asked, completed)| Some(completed.as_ref()?.saturating_since(*asked).as_secs_f64()))
        .collect();
    let mean = done.iter().sum::<f64>() / done.len() as f64;
    assert!((kept.shorts[0].fct_mean_s.unwrap() - mean).abs() < 1e-9);
}
