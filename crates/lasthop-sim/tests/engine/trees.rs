//! Networks of several hops with hosts on them.

use lasthop_core::{Instant, Observer, Packet, PacketEvent, Seed};
use lasthop_scenario::{Scenario, Study};
use lasthop_trace::{Analysis, HopRecord, Records};

use crate::support::observe;

const SEED: Seed = Seed { study: 1, replication: 1 };

fn scenario(text: &str) -> Scenario {
    let study = Study::from_str(text, "tree.toml").unwrap_or_else(|errors| panic!("{errors}"));
    study.cells[0].scenario.clone()
}

fn records(text: &str) -> Records {
    let scenario = scenario(text);
    let (analysis, end) = observe(&scenario, SEED, Analysis::of(&scenario));
    analysis.finish(end.time)
}

fn side<'a>(records: &'a Records, hop: &str, direction: &str) -> &'a HopRecord {
    let is_it = |record: &&HopRecord| record.hop == hop && record.direction.name() == direction;
    records.hops.iter().find(is_it).expect("a hop of the scenario")
}

/// A 1500-byte packet takes 12 ms over `near`, and 6 ms over `far` behind it.
const HOME: &str = r#"
[lan]
delay = "1 ms"
rate = "100 Gbit/s"
[hop.near]
down = { link = { rate = "1 Mbit/s", delay = "10 ms" }, queue.limit = "10 packets" }
[hop.far]
behind = "near"
down = { link = { rate = "2 Mbit/s", delay = "5 ms" }, queue.limit = "10 packets" }
[hop.lte]
down = { link = { rate = "1 Mbit/s", delay = "40 ms" }, queue.limit = "10 packets" }
[host.phone]
behind = ["far", "lte"]
[host.desk]
behind = "near"
"#;

/// When and where something happened to the packets of a run.
#[derive(Default)]
struct Log(Vec<(u64, String, u16)>);

impl Observer for Log {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.0.push((now.as_nanos() / 1000, event.kind().name().to_owned(), packet.place.0));
    }
}

#[test]
fn a_packet_crosses_one_hop_after_the_other() {
    let flow = r#"
    [[flow]]
    kind = "constant-udp"
    rate = "11.776 Mbit/s"
    payload = "1472 B"
    duration = "1 ms"
    host = "phone"
    "#;
    let scenario = scenario(&format!("{HOME}{flow}"));
    let (log, _) = observe(&scenario, SEED, Log::default());
    let [near, far] = ["near", "far"].map(|hop| {
        let tree = scenario.tree();
        tree.place(tree.number(hop).unwrap(), lasthop_core::Direction::Down).0
    });
    let seen: Vec<(u64, &str, u16)> =
        log.0.iter().skip(1).map(|(us, event, place)| (*us, event.as_str(), *place)).collect();
    assert_eq!(
        seen,
        [
            (1000, "enqueued", near),
            (1000, "dequeued", near),
            (23_000, "forwarded", near),
            (23_000, "enqueued", far),
            (23_000, "dequeued", far),
            (34_000, "delivered", far),
        ]
    );
}

#[test]
fn a_single_hop_with_a_name_is_the_hop_of_a_scenario_without_names() {
    let link = r#"{ link = { rate = "2 Mbit/s", delay = "30 ms" }, queue.limit = "12 packets" }"#;
    let flow = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\ndirection = \"DIRECTION\"\n";
    for direction in ["down", "up"] {
        // The phase of a host's clock follows from its name.
        let flow = format!("tcp.common_clock = true\n{}", flow.replace("DIRECTION", direction));
        let named = records(&format!("{flow}[hop.line]\ndown = {link}\n[host.desk]\nbehind = \"line\"\n"));
        let plain = records(&format!("down = {link}\n{flow}"));
        let [mut named_flow, plain_flow] = [&named, &plain].map(|records| records.flows[0].clone());
        assert!(plain_flow.data_drops_queue > 0);
        assert_eq!(named_flow.drop_hops, format!("line {}", plain_flow.data_drops_queue));
        (named_flow.host, named_flow.drop_hops) = (plain_flow.host.clone(), plain_flow.drop_hops.clone());
        assert_eq!(named_flow, plain_flow);
        let hop = side(&named, "line", direction);
        assert_eq!(hop.drops_queue, plain_flow.data_drops_queue);
        assert_eq!(
            (hop.utilisation, plain.run.queue_max_packets),
            (plain.run.utilisation, Some(hop.queue_depth_max))
        );
    }
}

#[test]
fn between_two_hosts_data_go_up_to_where_the_ways_meet_and_then_down() {
    let flow = "[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"100 kB\"\nhost = \"phone\"\n";
    let over = |records: &Records, hop| ["down", "up"].map(|way| side(records, hop, way).bytes_in > 100_000);
    let by_desk = records(&format!("{HOME}{flow}peer = \"desk\"\n"));
    assert_eq!(
        ["near", "far", "lte"].map(|hop| over(&by_desk, hop)),
        [[false; 2], [true, false], [false; 2]]
    );
    let by_lte = records(&format!("{HOME}{flow}peer = \"desk\"\nvia = \"lte\"\n"));
    assert_eq!(
        ["near", "far", "lte"].map(|hop| over(&by_lte, hop)),
        [[false, true], [false; 2], [true, false]]
    );
    assert_eq!((by_lte.flows[0].host.as_str(), by_lte.flows[0].peer.as_str()), ("phone", "desk"));
}

#[test]
fn quic_goes_on_over_another_hop_after_a_move_of_its_host() {
    let flow = r#"
    [[flow]]
    kind = "bulk-tcp"
    stack = "quic"
    direction = "up"
    bytes = "1 MB"
    host = "phone"
    migrate = { at = "3 s", via = "lte" }
    "#;
    let moved = records(&format!("{HOME}{flow}"));
    let elapsed_s = moved.flows[0].elapsed_s.expect("it is complete");
    assert!((8.0..12.0).contains(&elapsed_s), "{elapsed_s}");
    // Either way carries 1 Mbit/s: 3 s over the first, the rest over the other.
    let [first, second] = ["near", "lte"].map(|hop| side(&moved, hop, "up").bytes_out);
    assert!((250_000..400_000).contains(&first) && second > 600_000, "{first} {second}");
    let message =
        |flow: &str| Study::from_str(&format!("{HOME}{flow}"), "tree.toml").unwrap_err().to_string();
    assert!(message(&flow.replace("\"lte\"", "\"lt\"")).contains("did you mean `lte`?"));
    assert!(message(&flow.replace("stack = \"quic\"", "")).contains("only QUIC can migrate"));
}
