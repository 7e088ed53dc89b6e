//! Flows over QUIC: the promises that all flows keep, on random links.

use lasthop_core::{Distribution, Duration, Observer, Packet, Probability, Protocol, QueueSize, Seed};
use lasthop_link::PathConfig;
use lasthop_quic::{CongestionControl, QuicConfig};
use lasthop_scenario::{FlowStack, Scenario, Ways};
use lasthop_trace::{Analysis, Conservation, FlowRecord, Outcome, Records};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::support::{bulk, observe, path, scenario};

/// A transfer over QUIC beside one over TCP.
fn transfers(bytes: u64, both: &PathConfig, quic: QuicConfig) -> Scenario {
    let starts = [Duration::ZERO, Duration::from_millis(300)];
    let mut scenario =
        scenario(1500, both, vec![bulk("quic", bytes, starts[0]), bulk("tcp", bytes, starts[1])]);
    scenario.flow[0].stack = FlowStack::Quic;
    scenario.flow[0].quic = Some(Box::new(quic));
    scenario
}

fn link(rate: u64, delay_ms: u64, packets: u32) -> PathConfig {
    path(rate, Duration::from_millis(delay_ms), QueueSize::Packets(packets), 3000)
}

fn records(scenario: &Scenario, study: u64) -> (Records, Conservation, usize) {
    let watch = (Analysis::of(scenario), Conservation::default());
    let ((analysis, conservation), end) = observe(scenario, Seed { study, replication: 1 }, watch);
    (analysis.finish(end.time), conservation, end.packets_inside)
}

#[test]
fn a_transfer_without_losses_is_counted_like_one_over_tcp() {
    let mut scenario = transfers(1_000_000, &link(1_000_000, 50, 1000), QuicConfig::default());
    scenario.flow.truncate(1);
    let (records, ..) = records(&scenario, 1);
    let flow = &records.flows[0];
    assert_eq!((flow.protocol, flow.outcome), (Protocol::Quic, Outcome::Closed));
    assert_eq!((flow.timeouts, flow.retransmitted_packets, flow.unnecessary_retransmissions), (0, 0, 0));
    assert_eq!((flow.sent_bytes, flow.received_packets), (1_000_000, flow.sent_packets));
    // 1 Mbit/s carries 1500 bytes of which headers, encryption and probes take a few in a hundred.
    let throughput = flow.throughput_Bps.expect("it is done");
    assert!((0.90..0.98).contains(&(throughput * 8.0 / 1e6)), "{throughput}");
    // A round trip of 100 ms and the LAN's, and what the packet takes on the link.
    let rtt = flow.rtt_min_s.expect("it was measured");
    assert!((0.100..0.115).contains(&rtt), "{rtt}");
    assert!(flow.cwnd_max > Some(10) && flow.elapsed_s.is_some() && flow.one_way_delay_p50_s > Some(0.05));
}

#[test]
fn losses_are_repaired_and_counted() {
    let mut lossy = link(2_000_000, 20, 50);
    lossy.link.loss = Some(Probability::new(0.02).expect("it is one"));
    let scenario = transfers(1_000_000, &lossy, QuicConfig::default());
    let (records, ..) = records(&scenario, 1);
    let flow = &records.flows[0];
    assert_eq!(flow.outcome, Outcome::Closed);
    assert!(
        flow.data_drops_error > 5 && flow.retransmitted_packets > 5 && flow.fast_retransmits > 3,
        "{flow:?}"
    );
    assert!(flow.sent_bytes > 1_000_000 && flow.sent_packets > flow.received_packets);
    // Nothing is reordered, so only a probe after a timeout can be unnecessary.
    assert!(flow.unnecessary_retransmissions <= 2 * flow.timeouts, "{flow:?}");
}

/// Every byte of every datagram.
#[derive(Debug, Default, PartialEq)]
struct Datagrams(Vec<u8>);

impl Observer for Datagrams {
    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        self.0.extend_from_slice(&packet.flow.0.to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

#[test]
fn the_same_seed_gives_the_same_records_and_datagrams() {
    let mut lossy = link(1_000_000, 30, 20);
    lossy.link.loss = Some(Probability::new(0.01).expect("it is one"));
    let scenario = transfers(200_000, &lossy, QuicConfig::default());
    let all = |study| {
        let watch = (Analysis::of(&scenario), Datagrams::default());
        let ((analysis, datagrams), end) = observe(&scenario, Seed { study, replication: 1 }, watch);
        (analysis.finish(end.time), datagrams)
    };
    let first = all(1);
    assert!(first.1.0.len() > 200_000);
    assert!(first == all(1));
    assert!(first.1 != all(2).1);
}

/// A link from harmless to hostile, and what is asked of it.
fn random() -> impl Strategy<Value = Scenario> {
    let link = (10_000_u64..=5_000_000, 0_u64..=300, 2_u32..=60, 0.0..0.2_f64);
    let strange = (any::<bool>(), 0.0..0.05_f64, prop::option::of(1_u64..=100));
    let quic = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0_u32..=10));
    let flow = (1_u64..=60_000, any::<bool>());
    (link, strange, quic, flow).prop_map(|((rate, delay, packets, loss), strange, quic, (bytes, up))| {
        let mut both = self::link(rate, delay, packets);
        let (reorder, duplicate, jitter) = strange;
        both.link.loss = Probability::new(loss).ok();
        both.link.duplicate = Probability::new(duplicate).ok();
        both.link.jitter = jitter
            .map(|most| Distribution::Uniform { min: Duration::ZERO, max: Duration::from_millis(most) });
        both.link.reorder = reorder && jitter.is_some();
        let (newreno, ecn, mtu_discovery, ack_eliciting_threshold) = quic;
        let congestion_control = if newreno { CongestionControl::NewReno } else { CongestionControl::Cubic };
        let quic = QuicConfig {
            congestion_control,
            ecn,
            mtu_discovery,
            ack_eliciting_threshold,
            ..QuicConfig::default()
        };
        let mut scenario = transfers(bytes, &both, quic);
        scenario.flow[0].direction = if up { Ways::Up } else { Ways::Down };
        scenario
    })
}

/// What a flow's record says of itself.
fn consistent(flow: &FlowRecord, bytes: u64) -> TestCaseResult {
    prop_assert!(flow.received_packets <= flow.sent_packets);
    prop_assert!(flow.unnecessary_retransmissions <= flow.retransmitted_packets);
    prop_assert!(flow.retransmitted_packets <= flow.sent_packets);
    prop_assert!(flow.spurious_timeouts <= flow.timeouts);
    prop_assert!(flow.rtt_min_s <= flow.rtt_median_s && flow.rtt_median_s <= flow.rtt_max_s);
    if flow.outcome == Outcome::Closed {
        prop_assert!(flow.sent_bytes >= bytes);
        prop_assert!(flow.elapsed_s.is_some() && flow.data_transmit_s <= flow.elapsed_s, "{flow:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_links_keep_every_promise(scenario in random(), study in any::<u64>()) {
        let (Records { flows, run, .. }, conservation, inside) = records(&scenario, study);
        prop_assert_eq!(conservation.violations(), &[]);
        let total = conservation.total();
        prop_assert_eq!(total.sent, total.delivered + total.dropped + total.inside);
        prop_assert_eq!((total.inside, inside), (0, 0), "nothing is left to happen");
        prop_assert_eq!(run.packets_sent, total.sent);
        let lasthop_traffic::FlowConfig::BulkTcp(bulk) = &scenario.flow[0].kind else { unreachable!() };
        prop_assert!(flows[0].outcome != Outcome::Unfinished, "{:?}", flows[0]);
        consistent(&flows[0], bulk.bytes.unwrap_or_default().0)?;
    }
}
