//! The keys that all kinds of flows have in common, and transfers with a duration.

use lasthop_core::{Direction, Distribution, Duration, QueueSize, Rate, Seed};
use lasthop_scenario::{AccessConfig, Flow, Scenario};
use lasthop_tcp::TcpConfig;
use lasthop_trace::{Analysis, FlowRecord, Outcome, Records};
use lasthop_traffic::FlowConfig;

use crate::support::{bulk, linux24, observe, path, scenario, udp};

/// A transfer beside a stream over 1 Mbit/s and 50 ms.
fn beside() -> Scenario {
    let flows = vec![
        bulk("tcp", 300_000, Duration::ZERO),
        udp("udp", 64_000, 160, Duration::from_secs(3), Duration::from_millis(10)),
    ];
    let link = path(1_000_000, Duration::from_millis(50), QueueSize::Packets(10), 1500);
    let tcp = TcpConfig { common_clock: true, ..linux24() };
    Scenario { tcp, ..scenario(1500, &link, flows) }
}

fn records(scenario: &Scenario) -> Records {
    let (analysis, end) = observe(scenario, Seed { study: 1, replication: 1 }, Analysis::of(scenario));
    analysis.finish(end.time)
}

fn towards(direction: Direction, scenario: &Scenario) -> Scenario {
    let flow =
        scenario.flow.iter().map(|flow| Flow { direction: direction.into(), ..flow.clone() }).collect();
    Scenario { flow, ..scenario.clone() }
}

#[test]
fn an_upload_does_upwards_what_a_download_does_downwards() {
    let down = records(&beside());
    let up = records(&towards(Direction::Up, &beside()));
    let as_down = |record: &FlowRecord| FlowRecord { direction: Direction::Down, ..record.clone() };
    assert!(up.flows.iter().all(|flow| flow.direction == Direction::Up));
    assert_eq!(up.flows.iter().map(as_down).collect::<Vec<_>>(), down.flows);
    assert!(down.flows[0].data_drops_queue > 0, "{:?}", down.flows[0]);
    assert_eq!(up.run, down.run);
}

#[test]
fn flows_in_both_directions_share_nothing_but_their_acks() {
    let both = |name: &str, direction: Direction| Flow {
        direction: direction.into(),
        ..bulk(name, 300_000, Duration::ZERO).into()
    };
    let alone = records(&scenario_of(vec![both("a", Direction::Down)]));
    let run = records(&scenario_of(vec![both("a", Direction::Down), both("b", Direction::Up)])).run;
    let (alone_s, both_s) = (alone.run.duration_s, run.duration_s);
    assert!(both_s < 1.3 * alone_s, "{both_s} s beside each other, {alone_s} s alone");
    let share = run.efficiency.unwrap() / alone.run.efficiency.unwrap();
    assert!((0.7..1.1).contains(&share), "each direction has its own capacity: {share}");
    assert!(run.fairness_maxmin > Some(0.99), "{:?}", run.fairness_maxmin);
}

fn scenario_of(flow: Vec<Flow>) -> Scenario {
    Scenario { flow, ..beside() }
}

#[test]
fn what_an_access_link_adds_is_twice_its_delay_and_its_rate() {
    let far = |access| {
        let flow = Flow { access, ..bulk("far", 1000, Duration::ZERO).into() };
        records(&scenario_of(vec![flow, bulk("near", 1000, Duration::from_secs(5)).into()])).flows
    };
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let [plain, beside] = far(None).try_into().expect("two flows");
    let access = AccessConfig { delay: Duration::from_millis(20), rate };
    let [delayed, unchanged] = far(Some(access)).try_into().expect("two flows");
    // SYN and SYN-ACK, then the data and their ACK; each packet leaves the LAN, with its 150 us, for the
    // access link.
    let added = delayed.elapsed_s.unwrap() - plain.elapsed_s.unwrap();
    assert!((added - 2.0 * (0.040 - 0.000_150)).abs() < 0.000_2, "{added}");
    assert_eq!(unchanged, beside, "the other server has the LAN");
    let slow = AccessConfig { delay: Duration::ZERO, rate: Rate::from_bits_per_second(100_000) };
    let [slow, _] = far(Some(slow)).try_into().expect("two flows");
    assert!(slow.elapsed_s.unwrap() > plain.elapsed_s.unwrap() + 0.080, "1040 bytes take 83 ms");
}

#[test]
fn a_transfer_for_a_time_stops_then_and_its_throughput_is_over_that_time() {
    let timed = |seconds| {
        let mut flow = Flow::from(bulk("timed", 1, Duration::from_millis(100)));
        let FlowConfig::BulkTcp(config) = &mut flow.kind else { unreachable!("it is one") };
        (config.bytes, config.duration) = (None, Some(Duration::from_secs(seconds)));
        flow
    };
    let mut scenario = scenario_of(vec![timed(4)]);
    let mut flow = records(&scenario).flows.remove(0);
    assert_eq!((flow.outcome, flow.elapsed_s, flow.start_s), (Outcome::Closed, None, Some(0.1)));
    let share = flow.throughput_Bps.unwrap() * 8.0 / 1e6;
    assert!((0.75..0.97).contains(&share), "{share} of the link");
    assert!(flow.data_transmit_s.unwrap() < 4.5, "what was not sent is left out: {flow:?}");
    // The run ends before the transfer stops: the throughput covers the time until then.
    scenario.time_limit = Duration::from_secs(3);
    flow = records(&scenario).flows.remove(0);
    assert_eq!(flow.outcome, Outcome::Unfinished);
    assert!((0.6..0.97).contains(&(flow.throughput_Bps.unwrap() * 8.0 / 1e6)), "{flow:?}");
}

#[test]
fn flows_of_a_count_are_one_application_and_start_by_themselves() {
    let mut many = bulk("many", 20_000, Duration::ZERO);
    let FlowConfig::BulkTcp(config) = &mut many else { unreachable!("it is one") };
    config.start = Distribution::Uniform { min: Duration::ZERO, max: Duration::from_secs(1) };
    let alone = records(&scenario_of(vec![many.clone().into()])).flows;
    assert_eq!(alone[0].flow, "many");
    let flows = records(&scenario_of(vec![Flow { count: Some(3), ..many.into() }])).flows;
    assert_eq!(
        flows.iter().map(|flow| flow.flow.as_str()).collect::<Vec<_>>(),
        ["many-1", "many-2", "many-3"]
    );
    assert!(flows.iter().all(|flow| flow.application == "many"));
    let mut starts: Vec<_> = flows.iter().chain(&alone).map(|flow| flow.start_s.unwrap()).collect();
    starts.sort_by(f64::total_cmp);
    starts.dedup();
    assert_eq!(starts.len(), 4, "each draws its own: {starts:?}");
}

#[test]
fn a_flow_has_the_tcp_that_it_states() {
    let flow = |name, tcp| Flow { tcp, ..bulk(name, 100_000, Duration::ZERO).into() };
    let own = TcpConfig { sack: false, dsack: false, initial_window: 1, ..linux24() };
    let flows = records(&scenario_of(vec![flow("all", None), flow("own", Some(Box::new(own)))])).flows;
    assert!(flows[0].sack_blocks > 0 && flows[0].data_drops_queue > 0, "{:?}", flows[0]);
    assert!(flows[1].sack_blocks == 0 && flows[1].data_drops_queue > 0, "{:?}", flows[1]);
}
