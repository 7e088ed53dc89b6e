//! Table T34 of kulve2003 to the packet, and properties of all cells of the study.
//!
//! `2tcp0udp5s` on the link without errors: the first flow overshoots once, the second starts into
//! its full queue and is locked out.

use crate::support::{cell, kulve2003, replications};
use lasthop_core::Protocol;
use lasthop_tcp::RecoveryRules;
use lasthop_trace::{FlowRecord, Outcome, Records};

/// The values of a flow in the table: drops, retransmissions, duplicate ACKs, triple duplicate ACKs, ACKs
/// with SACK.
fn counts(flow: &FlowRecord) -> [u64; 5] {
    [
        flow.data_drops_queue,
        flow.retransmitted_packets,
        flow.duplicate_acks,
        flow.triple_duplicate_acks,
        flow.sack_blocks,
    ]
}

#[track_caller]
fn assert_elapsed(flow: &FlowRecord, published_s: f64) {
    let elapsed_s = flow.elapsed_s.expect("closed");
    let difference = (elapsed_s / published_s - 1.0).abs();
    assert!(difference < 0.003, "{}: {elapsed_s} s, published {published_s} s", flow.flow);
}

#[test]
fn t34_is_reproduced_to_the_packet_in_every_replication() {
    for rules in [RecoveryRules::LinuxInFlight, RecoveryRules::Rfc3517RateHalving] {
        t34_is_reproduced_with(rules);
    }
}

/// Two sets of rules reproduce the table; it does not show which of them the hosts used.
fn t34_is_reproduced_with(rules: RecoveryRules) {
    let study = kulve2003();
    let mut scenario = cell(&study, "link=e0,workload=2tcp0udp5s,variant=eifel").clone();
    scenario.tcp.recovery = rules;
    for Records { flows, .. } in replications(&scenario, study.seed, 50) {
        let [first, second] = flows.as_slice() else { panic!("two flows") };
        assert_eq!(counts(first), [18, 18, 44, 2, 60]);
        assert_eq!(counts(second), [2, 2, 6, 1, 6]);
        assert_elapsed(first, 32.01);
        assert_elapsed(second, 51.34);
        for flow in [first, second] {
            assert_eq!(flow.outcome, Outcome::Closed);
            assert_eq!((flow.timeouts, flow.unnecessary_retransmissions), (0, 0), "{}", flow.flow);
        }
    }
}

#[test]
fn arq_with_three_or_six_retransmissions_hides_every_error_from_tcp() {
    let study = kulve2003();
    let persistent = |key: &str| key.contains("link=r3") || key.contains("link=r6");
    let cells: Vec<_> = study.cells.iter().filter(|cell| persistent(&cell.key())).collect();
    assert!(!cells.is_empty());
    for cell in cells {
        for Records { flows, .. } in replications(&cell.scenario, study.seed, 20) {
            for flow in flows.iter().filter(|flow| flow.protocol == Protocol::Tcp) {
                assert_eq!((flow.data_drops_error, flow.ack_drops_error), (0, 0), "{}", cell.key());
            }
        }
    }
}

#[test]
fn the_average_of_red_never_reaches_the_upper_threshold() {
    let study = kulve2003();
    let cells: Vec<_> = study
        .cells
        .iter()
        .filter(|cell| cell.scenario.down.as_ref().unwrap().queue.red().is_some())
        .collect();
    assert!(!cells.is_empty());
    for cell in cells {
        let runs = replications(&cell.scenario, study.seed, 20);
        let highest = runs.iter().filter_map(|records| records.run.red_average_max).fold(0.0, f64::max);
        assert!(highest > 2.0 && highest < 7.0, "{}: {highest}", cell.key());
    }
}
