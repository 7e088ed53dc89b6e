//! The same seed gives the same events, regardless of other runs before, in parallel or on another thread.

use std::thread;

use crate::support::{cell, kulve2003, study};
use lasthop_core::Seed;
use lasthop_scenario::{Scenario, Study};
use lasthop_sim::{HostMemory, run};
use lasthop_trace::{Analysis, ObjectRow, PacketRow, Recorder, Records, TcpRow};

/// The complete output of a run.
#[derive(Debug, PartialEq)]
struct Everything {
    packets: Vec<PacketRow>,
    tcp: Vec<TcpRow>,
    objects: Vec<ObjectRow>,
    records: Records,
}

fn record(scenario: &Scenario, seed: Seed, memory: &mut HostMemory) -> Everything {
    let mut observer = (Analysis::of(scenario), Recorder::default());
    let end = run(scenario, seed, memory, &mut observer);
    let (analysis, Recorder { packets, tcp, objects }) = observer;
    let records = analysis.finish(end.time);
    assert!(!packets.is_empty() && !tcp.is_empty());
    Everything { packets, tcp, objects, records }
}

/// Replications 1 to `count`, each with the memory of the one before it.
fn chain(scenario: &Scenario, study: u64, count: u64) -> Vec<Everything> {
    let mut memory = HostMemory::default();
    (1..=count).map(|replication| record(scenario, Seed { study, replication }, &mut memory)).collect()
}

fn alone(scenario: &Scenario, study: u64, replication: u64) -> Everything {
    record(scenario, Seed { study, replication }, &mut HostMemory::default())
}

/// Not `assert_eq`: a failure must not print thousands of rows.
#[track_caller]
fn assert_same(a: &Everything, b: &Everything, what: &str) {
    let row = a.packets.iter().zip(&b.packets).position(|(a, b)| a != b);
    if let Some(row) = row {
        panic!("{what}: packet row {row} differs\n{:?}\n{:?}", a.packets[row], b.packets[row]);
    }
    assert!(a == b, "{what}: {:?}\n{:?}", a.records, b.records);
}

/// One cell of each kind of link and variant.
fn cells(study: &Study) -> Vec<&Scenario> {
    [
        "link=e0,workload=2tcp0udp5s,variant=eifel",
        "link=r1,workload=2tcp1udp,variant=eifel+red",
        "link=r1,workload=2tcp1udp,variant=eifel+cbi+ecn",
        "link=r6,workload=2tcp0udp,variant=frto",
    ]
    .map(|key| cell(study, key))
    .to_vec()
}

#[test]
fn a_cell_run_twice_gives_the_same_events() {
    let study = kulve2003();
    for scenario in cells(&study) {
        assert_same(&alone(scenario, study.seed, 3), &alone(scenario, study.seed, 3), "run twice");
    }
}

#[test]
fn page_loads_run_twice_give_the_same_events() {
    let study = study("iip2004");
    for key in [
        "link=r2,protocol=http1.0,workload=m+8m,variant=cbi+frto,queue=fifo",
        "link=r2,protocol=http1.1,workload=http(m+8m)+udp+1tcp-diffserv,variant=baseline,queue=fifo",
    ] {
        let scenario = cell(&study, key);
        let first = alone(scenario, study.seed, 3);
        assert_eq!(first.objects.len(), 9);
        assert_same(&first, &alone(scenario, study.seed, 3), "run twice");
        assert!(first.objects != alone(scenario, study.seed, 4).objects, "another replication");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "whole runs in parallel, each on one thread")]
fn two_threads_give_what_one_gives() {
    let study = kulve2003();
    let all = || -> Vec<Everything> {
        cells(&study).into_iter().flat_map(|scenario| chain(scenario, study.seed, 3)).collect()
    };
    let single = all();
    let [one, other] = thread::scope(|scope| {
        [scope.spawn(all), scope.spawn(all)].map(|thread| thread.join().expect("no panic"))
    });
    for ((single, one), other) in single.iter().zip(&one).zip(&other) {
        assert_same(single, one, "first thread");
        assert_same(single, other, "second thread");
    }
}

#[test]
fn what_ran_before_does_not_matter() {
    let study = kulve2003();
    let first: Vec<_> = cells(&study).into_iter().map(|scenario| alone(scenario, study.seed, 2)).collect();
    let reversed = cells(&study).into_iter().rev().map(|scenario| alone(scenario, study.seed, 2));
    for (before, after) in first.iter().rev().zip(reversed) {
        assert_same(before, &after, "in the other order");
    }
}

#[test]
fn independent_replications_need_no_chain() {
    let study = kulve2003();
    for scenario in cells(&study).into_iter().filter(|scenario| !scenario.sequential()) {
        for (replication, in_chain) in (1..).zip(chain(scenario, study.seed, 4)) {
            assert_same(&in_chain, &alone(scenario, study.seed, replication), "out of the chain");
        }
    }
}

#[test]
fn cached_metrics_are_all_that_a_chain_carries() {
    let study = kulve2003();
    let scenario = cell(&study, "link=e0,workload=2tcp0udp5s,variant=eifel+cbi");
    assert!(scenario.sequential());
    let whole = chain(scenario, study.seed, 4);
    let mut memory = HostMemory::default();
    for replication in 1..4 {
        run(scenario, Seed { study: study.seed, replication }, &mut memory, &mut ());
    }
    let last = Seed { study: study.seed, replication: 4 };
    assert_same(&whole[3], &record(scenario, last, &mut memory), "memory carried by unobserved runs");
    assert!(whole[3] != alone(scenario, study.seed, 4), "the memory must matter");
}

#[test]
fn another_seed_or_replication_gives_other_events() {
    let study = kulve2003();
    for scenario in cells(&study) {
        let base = alone(scenario, study.seed, 1);
        assert!(base.packets != alone(scenario, study.seed, 2).packets, "another replication");
        assert!(base.packets != alone(scenario, study.seed + 1, 1).packets, "another seed");
    }
}

/// All variants of a replication have the same starts and the same link states, so that they can be compared
/// in pairs.
#[test]
fn variants_of_a_replication_share_their_starts() {
    let study = kulve2003();
    let starts = |key: &str| -> Vec<f64> {
        let flows = alone(cell(&study, key), study.seed, 5).records.flows;
        flows.iter().map(|flow| flow.start_s.expect("it started")).collect()
    };
    let eifel = starts("link=e0,workload=2tcp1udp,variant=eifel");
    assert!(eifel[1] > 0.03 && eifel[2] > 0.0, "drawn, not fixed: {eifel:?}");
    assert_eq!(eifel, starts("link=r1,workload=2tcp1udp,variant=eifel+red"));
}
