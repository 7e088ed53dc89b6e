//! Web clients over an ATM switch: all data of the servers arrives, and the measures of the study are
//! consistent.

use crate::random::Streams;
use crate::support::{cell, observe, study};
use lasthop_core::{Duration, FlowId, Host, Instant, Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_trace::{Analysis, Conservation, Records};

/// The study's cell with this key, shortened to `seconds`.
fn scenario(key: &str, seconds: u64) -> Scenario {
    let study = study("atmf1998");
    Scenario { time_limit: Duration::from_secs(seconds), ..cell(&study, key).clone() }
}

const WAN: &str = "link=wan,workload=www100,variant=newreno,queue=epd,buffer_rtt=2";
const SEED: Seed = Seed { study: 1998, replication: 1 };

/// The bytes that each server wrote, and its first write.
#[derive(Default)]
struct Written(Vec<(FlowId, Instant, u64)>);

impl Observer for Written {
    fn written(&mut self, now: Instant, flow: FlowId, host: Host, bytes: u64) {
        assert_eq!(host, Host::Server);
        self.0.push((flow, now, bytes));
    }
}

#[test]
fn every_packet_is_accounted_for_and_every_byte_in_its_place() {
    for variant in ["vanilla", "reno", "newreno", "sack"] {
        for queue in ["epd", "sd"] {
            let key = format!("link=wan,workload=www100,variant={variant},queue={queue},buffer_rtt=0.5");
            let scenario = scenario(&key, 12);
            let watch = (Conservation::default(), Streams::new(&scenario));
            let ((conservation, streams), end) = observe(&scenario, SEED, watch);
            assert_eq!(conservation.violations(), &[]);
            assert_eq!(conservation.total().inside, end.packets_inside as u64);
            assert_eq!(streams.faults().first(), None, "{key}");
        }
    }
}

#[test]
fn offered_little_everything_arrives_and_the_shares_are_fair() {
    let mut scenario = scenario(WAN, 100);
    // Index pages only, so there is no queueing.
    for flow in &mut scenario.flow {
        if let lasthop_traffic::FlowConfig::WebClients(clients) = &mut flow.kind {
            clients.others.truncate(1);
        }
    }
    let (analysis, written) = (Analysis::of(&scenario), Written::default());
    let ((analysis, written), end) = observe(&scenario, SEED, (analysis, written));
    let Records { flows, run, .. } = analysis.finish(end.time);
    assert_eq!(run.packets_dropped, 0);
    assert!(run.fairness_maxmin.is_some_and(|fairness| (fairness - 1.0).abs() < 1e-9));
    for (flow, record) in (0..).map(FlowId).zip(&flows) {
        let bytes: u64 = written.0.iter().filter(|(of, ..)| *of == flow).map(|(.., bytes)| bytes).sum();
        assert_eq!(record.sent_bytes, bytes, "nothing is sent twice");
    }
    let offered: u64 = written.0.iter().map(|(.., bytes)| bytes).sum();
    // 45 Mbit/s of cells hold 37.80 Mbit/s in segments of 1024 bytes.
    let capacity = 45e6 / 8.0 * 1024.0 / (23.0 * 53.0) * end.time.as_secs_f64();
    assert!((run.efficiency.unwrap() - offered as f64 / capacity).abs() < 1e-9);
}

#[test]
fn a_response_begins_one_way_delay_after_its_request_and_connections_are_open_from_the_start() {
    let scenario = scenario(WAN, 2);
    let (Written(written), _) = observe(&scenario, SEED, Written::default());
    let atm = scenario.atm.as_ref().expect("a switch");
    assert_eq!(atm.one_way_delay(), Duration::from_micros(5010));
    let first = written.iter().map(|(_, at, _)| *at).min().unwrap();
    let gap = first.saturating_since(Instant::ZERO);
    assert!(gap >= Duration::from_millis(100) + atm.one_way_delay());
    let (analysis, end) = observe(&scenario, SEED, Analysis::of(&scenario));
    let records = analysis.finish(end.time);
    assert!(records.flows.iter().all(|flow| flow.start_s == Some(0.0)));
    assert_eq!(records.flows.len(), 100);
}
