//! Faults by name, the policer, and what they do to whole flows.

use lasthop_core::{DropCause, Instant, Observer, Packet, PacketEvent, Seed};
use lasthop_scenario::{Scenario, Study};
use lasthop_trace::{Analysis, Outcome, Records};

use crate::support::observe;

const SEED: Seed = Seed { study: 1, replication: 1 };

/// 10 Mbit/s, and a round trip of 60 ms.
const LINK: &str = r#"
[down]
link = { rate = "10 Mbit/s", delay = "30 ms", send_buffer = "3000 B" }
queue.limit = "100 packets"
"#;

fn study(text: &str) -> Result<Study, String> {
    Study::from_str(text, "faults.toml").map_err(|errors| errors.to_string())
}

fn scenario(text: &str) -> Scenario {
    study(text).unwrap_or_else(|errors| panic!("{errors}")).cells[0].scenario.clone()
}

fn refused(text: &str) -> String {
    study(text).err().unwrap_or_else(|| panic!("it was accepted: {text}"))
}

/// Each drop: when, why, and the place of the packet in its stream.
#[derive(Default)]
struct Drops(Vec<(Instant, DropCause, u64)>);

impl Observer for Drops {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if let PacketEvent::Dropped(cause) = event {
            self.0.push((now, cause, packet.body.place().start));
        }
    }
}

fn run(text: &str) -> (Records, Drops) {
    let scenario = scenario(text);
    let ((analysis, drops), end) = observe(&scenario, SEED, (Analysis::of(&scenario), Drops::default()));
    (analysis.finish(end.time), drops)
}

/// On a single hop and in a tree.
#[test]
fn the_segments_of_a_drop_list_are_lost_and_no_others() {
    let flow = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"200 kB\"\ndrop_list = [3, 7]\n";
    for hops in [LINK.to_owned(), LINK.replace("[down]", "[hop.a.down]")] {
        let hosts = if hops.contains("[hop") { "[host.h]\nbehind = \"a\"\n" } else { "" };
        let (records, drops) = run(&format!("{hops}{hosts}{flow}"));
        let payload = 1448;
        let lost = drops.0.iter().map(|(_, cause, place)| (*cause, *place)).collect::<Vec<_>>();
        let named = [3, 7].map(|number| (DropCause::DropList, 1 + (number - 1) * payload));
        assert_eq!(lost, named);
        let flow = &records.flows[0];
        assert_eq!(
            (flow.outcome, flow.data_drops_error, flow.retransmitted_packets),
            (Outcome::Closed, 2, 2)
        );
        assert_eq!(flow.timeouts, 0, "SACK repairs both");
    }
}

#[test]
fn a_drop_list_needs_rising_numbers_and_a_flow_that_is_known() {
    let flow = |keys: &str| format!("{LINK}[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\n{keys}");
    assert!(refused(&flow("drop_list = [7, 3]")).contains("start at 1 and must ascend"));
    assert!(refused(&flow("drop_list = [0]")).contains("start at 1 and must ascend"));
    let short = format!(
        "{LINK}[[flow]]\nkind = \"short-flows\"\nname = \"short\"\npackets = 12\nrequest = \"200 B\"\narrivals = {{ \
         model = \"poisson\", load = 0.5 }}\nhosts = [{{ name = \"a\", initial_window = 3, receive_window_initial = 4 }}]\ndrop_list = [1]\n"
    );
    assert!(refused(&short).contains("short flows open during the run"), "{}", refused(&short));
}

#[test]
fn a_blackhole_loses_what_arrives_in_its_time() {
    let (records, drops) = run(&format!(
        "{LINK}blackhole = {{ at = \"1 s\", for = \"500 ms\" }}\n[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"3 MB\"\n"
    ));
    let hole = |cause: &DropCause| *cause == DropCause::Blackhole;
    let swallowed: Vec<_> = drops.0.iter().filter(|(_, cause, _)| hole(cause)).map(|drop| drop.0).collect();
    assert!(swallowed.len() > 10, "{}", swallowed.len());
    let ms = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    assert!(swallowed.iter().all(|at| (ms(1_000)..ms(1_500)).contains(at)));
    assert_eq!(records.flows[0].outcome, Outcome::Closed);
    assert!(records.flows[0].timeouts > 0);
}

/// RFC 9000, section 9.3: the server sees another port, validates it, and goes on. The datagrams under way to
/// the old port are lost at the NAT.
#[test]
fn a_connection_over_quic_survives_another_port() {
    let flow = "[[flow]]\nkind = \"request-response\"\nresponse = \"2 MB\"\nrequests = 1\nstack = \"quic\"\n";
    let [stays, rebinds] =
        ["", "rebind = { at = \"1 s\" }\n"].map(|rebind| run(&format!("{LINK}{flow}{rebind}")).0);
    let elapsed = |records: &Records| records.flows[0].elapsed_s.expect("it is complete");
    for records in [&stays, &rebinds] {
        assert_eq!(records.flows[0].outcome, Outcome::Closed);
    }
    let [again, extra] = [stays.flows[0].retransmitted_packets, rebinds.flows[0].retransmitted_packets];
    assert!(extra > again + 10, "{again} {extra}");
    let longer = elapsed(&rebinds) - elapsed(&stays);
    assert!((0.02..1.0).contains(&longer), "{longer}");
}

#[test]
fn other_ports_are_for_quic_that_does_not_move() {
    let flow = |keys: &str| {
        format!("{LINK}[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\nrebind = {{ at = \"1 s\" }}\n{keys}")
    };
    let message = refused(&flow(""));
    assert!(message.contains("TCP and UDP identify a connection by its ports"), "{message}");
    let message = refused(&flow("stack = \"quic\""));
    assert!(message.contains("which a NAT would not let in"), "{message}");
}

/// A policer of 4 Mbit/s and 30 kB in front of 10 Mbit/s: what passes is bounded by the bucket, and nothing
/// is queued. CUBIC takes each loss for congestion and gets less; BBR paces at what was delivered.
#[test]
fn behind_a_policer_bbr_gets_nearly_its_rate_and_cubic_less() {
    let [cubic, bbr] = ["cubic", "bbr"].map(|control| {
        let (records, drops) = run(&format!(
            "{LINK}policer = {{ rate = \"4 Mbit/s\", burst = \"30 kB\" }}\n[tcp]\ncongestion_control = \
             \"{control}\"\n[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"10 MB\"\n"
        ));
        assert!(drops.0.iter().all(|(_, cause, _)| *cause == DropCause::Policer) && !drops.0.is_empty());
        let flow = &records.flows[0];
        assert_eq!(flow.data_drops_queue, drops.0.len() as u64);
        flow.throughput_Bps.expect("it is complete") * 8.0 / 1e6
    });
    // 1448 of 1500 bytes are data; the burst adds 30 kB in 20 s.
    let most = 4.0 * 1448.0 / 1500.0 * (1.0 + 30_000.0 / 10e6);
    assert!(cubic < bbr && bbr <= most, "{cubic} {bbr} {most}");
    assert!(cubic > 0.5 * most && bbr > 0.85 * most, "{cubic} {bbr} {most}");
}
