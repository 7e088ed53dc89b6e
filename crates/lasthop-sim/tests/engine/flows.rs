//! What all kinds of flows have in common: direction.

use lasthop_core::{Direction, Duration, QueueSize, Seed};
use lasthop_scenario::{Flow, Scenario};
use lasthop_tcp::TcpConfig;
use lasthop_trace::{Analysis, FlowRecord, Records};

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
    let flow = scenario.flow.iter().map(|flow| Flow { direction, ..flow.clone() }).collect();
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
    let both = |name: &str, direction| Flow { direction, ..bulk(name, 300_000, Duration::ZERO).into() };
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
