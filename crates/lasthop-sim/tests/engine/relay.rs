//! Flows that go through a relay.

use lasthop_core::{Protocol, Seed};
use lasthop_scenario::{Scenario, Study};
use lasthop_trace::{Analysis, Conservation, FlowRecord, Outcome, Records};

use crate::support::observe;

const SEED: Seed = Seed { study: 1, replication: 1 };

fn scenario(text: &str) -> Scenario {
    let study = Study::from_str(text, "relay.toml").unwrap_or_else(|errors| panic!("{errors}"));
    study.cells[0].scenario.clone()
}

fn records(text: &str) -> Records {
    let scenario = scenario(text);
    let ((analysis, conservation), end) =
        observe(&scenario, SEED, (Analysis::of(&scenario), Conservation::default()));
    assert_eq!(conservation.violations(), []);
    assert_eq!(conservation.total().inside, end.packets_inside as u64);
    analysis.finish(end.time)
}

fn flow<'a>(records: &'a Records, name: &str) -> &'a FlowRecord {
    records.flows.iter().find(|flow| flow.flow == name).unwrap_or_else(|| panic!("no flow {name}"))
}

/// 20 ms there and back to the relay, and 200 ms from there; packets take next to no time.
const GEO: &str = r#"
mtu = "1500 B"
[lan]
delay = "0 ms"
[hop.land]
down.link = { rate = "10 Gbit/s", delay = "10 ms" }
down.queue.limit = "100 MB"
[hop.sky]
behind = "land"
down.link = { rate = "10 Gbit/s", delay = "100 ms" }
down.queue.limit = "100 MB"
[host.ship]
behind = "sky"
"#;

fn bulk(more: &str) -> String {
    format!("{GEO}\n[[flow]]\nkind = \"bulk-tcp\"\nname = \"f\"\n{more}\n")
}

#[test]
fn a_relay_connects_when_it_has_accepted_and_the_flow_ends_with_both_connections() {
    let records = records(&bulk("bytes = \"10 kB\"\nrelay.at = \"sky\""));
    let [whole, first, last] = ["f", "f/peer-side", "f/host-side"].map(|name| flow(&records, name));
    let hosts = [whole, first, last].map(|flow| (flow.peer.as_str(), flow.host.as_str()));
    assert_eq!(hosts, [("server", "ship"), ("server", "sky-relay"), ("sky-relay", "ship")]);
    // SYN, SYN-ACK and ACK on land: accepted after 30 ms.
    let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 0.001;
    assert!(near(whole.start_s, 0.0) && near(first.start_s, 0.0));
    assert!(near(last.start_s, 0.030), "{:?}", last.start_s);
    // On land: a round trip for the handshake, one for the data with the FIN, whose ACK waits for 40 ms,
    // because the relay does not close yet (`tcp_fin`). In the sky the host closes at once.
    assert!(near(first.elapsed_s, 0.080), "{:?}", first.elapsed_s);
    assert!(near(last.elapsed_s, 0.400), "{:?}", last.elapsed_s);
    assert!(near(whole.elapsed_s, 0.430), "{:?}", whole.elapsed_s);
    assert_eq!([whole, first, last].map(|flow| flow.outcome), [Outcome::Closed; 3]);
    assert_eq!(whole.sent_packets, first.sent_packets + last.sent_packets);
    assert_eq!((whole.rtt_min_s, whole.one_way_delay_p50_s), (None, None));
    let throughput = whole.throughput_Bps.unwrap();
    assert!((throughput / (10_000.0 / 0.430) - 1.0).abs() < 0.01, "{throughput}");
}

#[test]
fn the_buffer_limits_what_is_under_way_beyond_the_relay() {
    // 100 kB in each round trip of 200 ms; the receive buffers have room for more.
    let records = records(&bulk("bytes = \"20 MB\"\nrelay = { at = \"sky\", buffer = \"100 kB\" }"));
    let last = flow(&records, "f/host-side");
    assert_eq!(last.outcome, Outcome::Closed);
    let throughput = last.throughput_Bps.unwrap();
    assert!((0.93..1.0).contains(&(throughput / 500e3)), "{throughput}");
}

#[test]
fn a_slow_second_connection_closes_the_window_of_the_first_and_no_data_are_lost() {
    let text = bulk("bytes = \"5 MB\"\nrelay = { at = \"sky\", buffer = \"50 kB\" }")
        .replace("[hop.sky]", "[tcp]\nprofile = \"linux-6\"\nreceive_window_max = 40\n[hop.sky]");
    let records = records(&text);
    let [whole, first] = ["f", "f/peer-side"].map(|name| flow(&records, name));
    assert_eq!(whole.outcome, Outcome::Closed);
    assert_eq!(whole.retransmitted_packets, 0);
    // The sender is done when its last data have been read, less than a buffer and a window before the end.
    let early = whole.elapsed_s.unwrap() - first.elapsed_s.unwrap();
    assert!(early > 0.2 && early * 250e3 < 2.0 * 150e3, "{early}");
}

#[test]
fn the_bottleneck_counts_a_flow_once() {
    let text = bulk("bytes = \"5 MB\"\nrelay.at = \"sky\"")
        .replace("10 Gbit/s\", delay = \"100", "10 Mbit/s\", delay = \"100");
    let records = records(&text);
    assert_eq!(records.run.bottleneck, "sky");
    let efficiency = records.run.efficiency.unwrap();
    assert!((0.5..1.0).contains(&efficiency), "{efficiency}");
    assert_eq!(records.run.fairness_jain, Some(1.0));
    let whole = flow(&records, "f");
    let share = whole.throughput_Bps.unwrap() * 8.0 / 10e6 * 1500.0 / 1448.0;
    assert!((share - efficiency).abs() < 0.01, "{share} {efficiency}");
}

/// Each kind of traffic over TCP, with the direction of its data.
const KINDS: [(&str, &str, &str); 7] = [
    ("bulk-tcp", "down", "bytes = \"300 kB\""),
    ("bulk-tcp", "up", "bytes = \"300 kB\""),
    ("bulk-tcp", "down", "duration = \"3 s\""),
    ("request-response", "down", "requests = 5\nresponse = \"30 kB\"\nthink = \"100 ms\""),
    ("request-response", "up", "requests = 5\nresponse = \"30 kB\"\nthink = \"100 ms\""),
    ("video", "down", "bitrates = [\"500 kbit/s\"]\nduration = \"20 s\"\nsegment = \"2 s\""),
    ("http-page", "down", "main = \"20 kB\"\ninline = \"10 kB\"\ninline_count = 4"),
];

const HTTP: &str = r#"
[http]
protocol = "http1.1"
connections = 2
request = "300 B"
response_header = "300 B"
"#;

#[test]
fn each_kind_of_traffic_over_tcp_passes_a_relay_with_loss_on_either_side() {
    for profile in ["linux-6", "linux-2.4", "ns-1998"] {
        for (kind, direction, keys) in KINDS {
            let http = if kind == "http-page" { HTTP } else { "" };
            let lossy = "down.link = { rate = \"5 Mbit/s\", delay = \"20 ms\", loss = \"1 %\" }";
            let text = format!(
                "tcp.profile = \"{profile}\"\n{http}[hop.land]\n{lossy}\n\
                 [hop.sky]\nbehind = \"land\"\n{lossy}\n[host.ship]\nbehind = \"sky\"\n[[flow]]\n\
                 kind = \"{kind}\"\nname = \"f\"\ndirection = \"{direction}\"\n{keys}\n\
                 relay = {{ at = \"sky\", buffer = \"20 kB\" }}\n"
            );
            let records = records(&text);
            for flow in &records.flows {
                assert_eq!(flow.outcome, Outcome::Closed, "{profile} {kind} {direction} {}", flow.flow);
                assert_eq!(flow.protocol, Protocol::Tcp);
            }
            for page in &records.pages {
                assert_eq!((page.objects_received, page.outcome), (5, Outcome::Closed), "{profile}");
            }
            if let Some(requests) = records.flows[0].requests {
                assert_eq!(records.flows[0].requests_completed, Some(requests));
            }
        }
    }
}

#[test]
fn a_relay_stands_at_the_root_side_of_its_hop_also_on_the_way_of_the_peer() {
    let text = r#"
    [hop.a]
    down.link = { rate = "10 Mbit/s", delay = "30 ms" }
    [hop.b]
    down.link = { rate = "10 Mbit/s", delay = "100 ms" }
    [host.one]
    behind = "a"
    [host.two]
    behind = "b"
    [[flow]]
    kind = "bulk-tcp"
    name = "f"
    host = "one"
    peer = "two"
    bytes = "100 kB"
    relay.at = "b"
    "#;
    let records = records(text);
    let rtt = |name| flow(&records, name).rtt_min_s.unwrap();
    assert!((0.2..0.21).contains(&rtt("f/peer-side")), "over b: {}", rtt("f/peer-side"));
    assert!((0.06..0.07).contains(&rtt("f/host-side")), "over a: {}", rtt("f/host-side"));
}

#[test]
fn the_relays_own_tcp_is_that_of_its_end_towards_the_hop() {
    let own = "relay = { at = \"sky\", tcp = { initial_window = 100 } }";
    let records = records(&bulk(&format!("bytes = \"50 kB\"\n{own}")));
    // 35 segments leave as they come: one round trip for the handshake, one for the data.
    let last = flow(&records, "f/host-side").elapsed_s.unwrap();
    assert!(last < 0.45, "{last}");
}
