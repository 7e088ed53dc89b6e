//! Flows over QUIC keep the properties of all flows, on random links.

use lasthop_core::{
    Bytes, Distribution, Duration, FlowId, Host, Observer, Packet, Probability, Protocol, QueueSize, Seed,
};
use lasthop_link::{LinkChange, PathConfig};
use lasthop_quic::{CongestionControl, Crypto, QuicConfig};
use lasthop_scenario::{DataDirection, FlowStack, Scenario};
use lasthop_trace::{Analysis, Conservation, FlowRecord, Outcome, Records};
use lasthop_traffic::{Codec, FlowConfig, HttpProtocol, RequestResponseConfig, VoipConfig};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::support::{bulk, http, observe, page, path, scenario};

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
    // Of the 1500-byte packets that 1 Mbit/s carries, headers, encryption and probes take a few percent.
    let throughput = flow.throughput_Bps.expect("it is done");
    assert!((0.90..0.98).contains(&(throughput * 8.0 / 1e6)), "{throughput}");
    // A round trip of 100 ms, the round trip of the LAN, and the packet's transmission time on the link.
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

/// The traffic that QUIC carries in these tests.
#[derive(Clone, Copy, Debug)]
enum Load {
    Transfer,
    /// A page with this number of in-line objects.
    Page(u32),
    /// This number of requests.
    Requests(u32),
    /// A call with this number of frames.
    Call(u32),
}

/// Replaces the transfer over QUIC by another load, with objects or responses of `bytes`.
fn carrying(load: Load, bytes: u64, scenario: Scenario) -> Scenario {
    let mut scenario = scenario;
    scenario.flow[0].kind = match load {
        Load::Transfer => bulk("quic", bytes, Duration::ZERO),
        Load::Page(inline_count) => {
            scenario.http = Some(http(HttpProtocol::Http3, 1));
            page("quic", bytes, inline_count, Duration::ZERO)
        }
        Load::Requests(requests) => FlowConfig::RequestResponse(RequestResponseConfig {
            name: "quic".into(),
            requests,
            request: Distribution::Static(Bytes(200)),
            response: Distribution::Static(Bytes(bytes)),
            think: Distribution::Static(Duration::from_millis(10)),
            start: Distribution::Static(Duration::ZERO),
            dscp: lasthop_core::Dscp::default(),
            port: None,
        }),
        Load::Call(frames) => FlowConfig::Voip(VoipConfig {
            name: "quic".into(),
            codec: Codec::G711,
            duration: Duration::from_millis(20 * u64::from(frames)),
            jitter_buffer: Duration::from_millis(60),
            start: Distribution::Static(Duration::ZERO),
            dscp: lasthop_core::Dscp::default(),
            port: None,
        }),
    };
    scenario
}

impl Load {
    fn objects(self) -> u64 {
        match self {
            Self::Transfer => 1,
            Self::Page(inline_count) => u64::from(inline_count) + 1,
            Self::Requests(requests) => u64::from(requests),
            Self::Call(frames) => u64::from(frames),
        }
    }
}

/// The handshake takes a round trip, and so do the main object and the objects that it names: three round
/// trips, and the transmission time of the bytes.
#[test]
fn a_page_is_loaded_in_three_round_trips() {
    let mut scenario = transfers(1, &link(100_000_000, 50, 1000), QuicConfig::default());
    scenario.flow.truncate(1);
    let (records, ..) = records(&carrying(Load::Page(8), 1000, scenario), 1);
    let page = &records.pages[0];
    assert_eq!((page.outcome, page.objects_received, page.connections), (Outcome::Closed, 9, 1));
    let response = page.response_time_s.expect("it has come");
    assert!((0.300..0.305).contains(&response), "{response}");
    let flow = &records.flows[0];
    assert_eq!((flow.flow.as_str(), flow.outcome), ("quic/connection-1", Outcome::Closed));
    assert_eq!((flow.sent_bytes, flow.retransmitted_packets, flow.timeouts), (9000, 0, 0));
}

/// More objects than the 100 streams that may be open at once.
#[test]
fn losses_of_a_page_are_repaired_and_counted() {
    let mut lossy = link(2_000_000, 20, 50);
    lossy.link.loss = Some(Probability::new(0.02).expect("it is one"));
    let mut scenario = transfers(1, &lossy, QuicConfig::default());
    scenario.flow.truncate(1);
    let (records, ..) = records(&carrying(Load::Page(120), 8000, scenario), 1);
    assert_eq!((records.pages[0].outcome, records.pages[0].objects_received), (Outcome::Closed, 121));
    let flow = &records.flows[0];
    assert!(flow.retransmitted_packets > 5 && flow.sent_bytes > 121 * 8000, "{flow:?}");
    assert!(flow.retransmitted_packets < flow.sent_packets / 10, "{flow:?}");
    assert!(flow.unnecessary_retransmissions <= 2 * flow.timeouts, "{flow:?}");
}

#[test]
fn requests_on_a_kept_connection_take_a_round_trip_each() {
    let mut scenario = transfers(1, &link(100_000_000, 50, 1000), QuicConfig::default());
    scenario.flow.truncate(1);
    let (records, ..) = records(&carrying(Load::Requests(5), 1000, scenario), 1);
    let flow = &records.flows[0];
    assert_eq!((flow.outcome, flow.requests, flow.requests_completed), (Outcome::Closed, Some(5), Some(5)));
    let (median, longest) =
        (flow.completion_p50_s.expect("there are"), flow.completion_max_s.expect("there are"));
    assert!((0.1..0.102).contains(&median) && (0.2..0.204).contains(&longest), "{median}, {longest}");
}

/// A call over QUIC, and over UDP; the first record of each.
fn calls(both: &PathConfig, frames: u32, quic: QuicConfig) -> [FlowRecord; 2] {
    let scenario = carrying(Load::Call(frames), 172, transfers(1, both, quic));
    [FlowStack::Quic, FlowStack::Tcp].map(|stack| {
        let mut scenario = scenario.clone();
        scenario.flow.truncate(1);
        scenario.flow[0].stack = stack;
        if stack == FlowStack::Tcp {
            scenario.flow[0].quic = None;
        }
        records(&scenario, 1).0.flows.remove(0)
    })
}

/// Neither call loses a packet; each packet of QUIC has 28 more bytes, which take 0.2 ms.
#[test]
fn a_call_over_quic_sounds_like_one_over_udp() {
    let [quic, udp] = calls(&link(1_000_000, 50, 100), 500, QuicConfig::default());
    assert_eq!((quic.protocol, udp.protocol), (Protocol::QuicDatagrams, Protocol::Udp));
    for call in [&quic, &udp] {
        assert_eq!((call.outcome, call.sent_packets, call.received_packets), (Outcome::Closed, 500, 500));
        assert_eq!((call.sent_bytes, call.voice_loss, call.voice_late), (500 * 172, Some(0.0), Some(0.0)));
        assert_eq!(call.spacing_p50_ms, Some(20.0));
    }
    // The first frame waits for the end of the handshake, whose packets take 10 ms each.
    assert!((quic.elapsed_s.expect("it is over") - 9.98).abs() < 0.03, "{quic:?}");
    let [delay, other] = [&quic, &udp].map(|call| call.voice_delay_s.expect("it was heard"));
    assert!((0.0..0.03).contains(&(delay - other)), "{delay} and {other}");
    let [mos, other] = [&quic, &udp].map(|call| call.mos.expect("it was heard"));
    assert!((mos - other).abs() < 0.01 && mos > 4.3, "{mos} and {other}");
}

/// Lost frames are not retransmitted: a call over QUIC loses the same share as one over UDP, the share of
/// packets that the link drops.
#[test]
fn lost_frames_stay_lost() {
    let mut lossy = link(1_000_000, 50, 100);
    lossy.link.loss = Some(Probability::new(0.05).expect("it is one"));
    let [quic, udp] = calls(&lossy, 3000, QuicConfig::default());
    for call in [&quic, &udp] {
        let loss = call.voice_loss.expect("it was heard");
        assert!((0.035..0.065).contains(&loss), "{loss}");
        assert_eq!(call.retransmitted_packets, 0);
    }
    assert_eq!(quic.outcome, Outcome::Closed);
}

/// On a link that carries half of the speech, UDP fills the queue and loses half. With QUIC, congestion
/// control lets frames wait at the sender until they are late.
#[test]
fn congestion_control_holds_frames_back() {
    let [quic, udp] = calls(&link(40_000, 50, 10), 500, QuicConfig::default());
    assert!(udp.voice_loss > Some(0.4), "{udp:?}");
    assert!(quic.voice_loss < udp.voice_loss && quic.voice_late > udp.voice_late, "{quic:?}");
    // The network delays the frames that leave by no more than its queue.
    assert!(quic.one_way_delay_p50_s < Some(4.0), "{quic:?}");
}

/// Every byte of every datagram and of the logs.
#[derive(Debug, Default, PartialEq)]
struct Datagrams(Vec<u8>);

impl Observer for Datagrams {
    fn wants_qlog(&self) -> bool {
        true
    }

    fn qlog(&mut self, _flow: FlowId, _host: Host, records: &[u8]) {
        self.0.extend_from_slice(records);
    }

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

/// BBR starts at a random phase of its gain cycle, drawn from the operating system. If results depended on
/// that phase, six runs would be equal once in 7^5 times.
#[test]
fn runs_with_bbr_repeat() {
    let quic = QuicConfig {
        congestion_control: CongestionControl::Bbr,
        crypto: Crypto::Null,
        ..QuicConfig::default()
    };
    let scenario = transfers(1_500_000, &link(4_000_000, 30, 60), quic);
    let all = || {
        let watch = (Analysis::of(&scenario), Datagrams::default());
        let ((analysis, datagrams), end) = observe(&scenario, Seed { study: 1, replication: 1 }, watch);
        (analysis.finish(end.time), datagrams)
    };
    let first = all();
    assert_eq!(first.0.flows[0].outcome, Outcome::Closed);
    assert!((0..5).all(|_| all() == first));
}

/// A link from harmless to hostile, and its load, with the number of bytes.
fn random() -> impl Strategy<Value = (Scenario, u64)> {
    let link = (10_000_u64..=5_000_000, 0_u64..=300, 2_u32..=60, 0.0..0.2_f64);
    let strange = (any::<bool>(), 0.0..0.05_f64, prop::option::of(1_u64..=100));
    let congestion_control = prop_oneof![
        Just(CongestionControl::NewReno),
        Just(CongestionControl::Cubic),
        Just(CongestionControl::Bbr)
    ];
    let quic =
        (congestion_control, any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0_u32..=10));
    let load = prop_oneof![
        2 => Just(Load::Transfer),
        2 => (0_u32..=120).prop_map(Load::Page),
        1 => (1_u32..=10).prop_map(Load::Requests),
        1 => (1_u32..=500).prop_map(Load::Call),
    ];
    let flow = (load, 1_u64..=60_000, any::<bool>());
    (link, strange, quic, flow).prop_map(
        |((rate, delay, packets, loss), strange, quic, (load, bytes, turned))| {
            let mut both = self::link(rate, delay, packets);
            let (reorder, duplicate, jitter) = strange;
            both.link.loss = Probability::new(loss).ok();
            both.link.duplicate = Probability::new(duplicate).ok();
            both.link.jitter = jitter
                .map(|most| Distribution::Uniform { min: Duration::ZERO, max: Duration::from_millis(most) });
            both.link.reorder = reorder && jitter.is_some();
            let (congestion_control, ecn, mtu_discovery, null, ack_eliciting_threshold) = quic;
            // A transfer may go up; if the client opens it, it may move.
            let is_transfer = matches!(load, Load::Transfer | Load::Call(_));
            if turned && !is_transfer {
                let change = |at| LinkChange { at: Duration::from_millis(at), rate: None, delay: None };
                both.link.change = [800, 1500].map(change).into();
            }
            let quic = QuicConfig {
                congestion_control,
                migration: turned && !is_transfer,
                crypto: if null { Crypto::Null } else { Crypto::Tls },
                ecn,
                mtu_discovery,
                zero_rtt: mtu_discovery && !null,
                ack_eliciting_threshold,
                ..QuicConfig::default()
            };
            let bytes = bytes.div_ceil(load.objects());
            let mut scenario = carrying(load, bytes, transfers(bytes, &both, quic));
            scenario.flow[0].direction =
                if turned && is_transfer { DataDirection::Up } else { DataDirection::Down };
            (scenario, load.objects() * bytes)
        },
    )
}

/// Consistency of a flow's record.
fn consistent(flow: &FlowRecord, bytes: u64) -> TestCaseResult {
    prop_assert!(flow.received_packets <= flow.sent_packets);
    prop_assert!(flow.unnecessary_retransmissions <= flow.retransmitted_packets);
    prop_assert!(flow.retransmitted_packets <= flow.sent_packets);
    prop_assert!(flow.spurious_timeouts <= flow.timeouts);
    if flow.protocol == Protocol::QuicDatagrams {
        prop_assert!(flow.voice_loss.unwrap_or_default() + flow.voice_late.unwrap_or_default() <= 1.0);
        prop_assert_eq!(flow.retransmitted_packets, 0);
        return Ok(());
    }
    prop_assert!(flow.rtt_min_s <= flow.rtt_median_s && flow.rtt_median_s <= flow.rtt_max_s);
    if flow.outcome == Outcome::Closed {
        prop_assert!(flow.sent_bytes >= bytes);
        // A connection with many streams has no end of stream of its own.
        prop_assert_eq!(flow.elapsed_s.is_some(), !flow.flow.contains('/'));
        prop_assert!(flow.data_transmit_s <= flow.elapsed_s, "{flow:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_links_keep_every_promise((scenario, bytes) in random(), study in any::<u64>()) {
        let (Records { flows, pages, run, .. }, conservation, inside) = records(&scenario, study);
        prop_assert_eq!(conservation.violations(), &[]);
        let total = conservation.total();
        prop_assert_eq!(total.sent, total.delivered + total.dropped + total.inside);
        prop_assert_eq!((total.inside, inside), (0, 0), "nothing is left to happen");
        prop_assert_eq!(run.packets_sent, total.sent);
        prop_assert!(flows[0].outcome != Outcome::Unfinished, "{:?}", flows[0]);
        consistent(&flows[0], bytes)?;
        for page in pages {
            prop_assert_eq!(page.outcome == Outcome::Closed, page.objects_received == page.objects);
            let is_over = page.outcome == Outcome::Closed || flows[0].outcome == Outcome::Aborted;
            prop_assert!(is_over, "{:?}", page);
        }
    }
}
