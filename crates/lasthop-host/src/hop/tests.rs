use etherparse::PacketBuilder;
use lasthop_core::{Duration, Probability, Rate};
use lasthop_scenario::Study;
use proptest::prelude::*;

use super::*;

const SCENARIO: &str = r#"
name = "test"
title = "A slow link"
seed = 1
replications = 1
mtu = "576 B"
time_limit = "1 min"
lan = { rate = "100 Mbit/s", delay = "0.15 ms" }
down.queue.limit = "2 packets"
down.link = { rate = "64 kbit/s", delay = "300 ms", send_buffer = "1152 B", release = "serialised" }
up.queue.limit = "2 packets"
up.link = { rate = "64 kbit/s", delay = "300 ms", send_buffer = "1152 B", release = "serialised" }
tcp.profile = "linux-2.4"
flow = [{ kind = "bulk-tcp", name = "tcp", bytes = "1 kB", start = "0 s" }]
"#;

const RED: &str = r#"
down.queue.red = { min = "1 B", max = "577 B", max_probability = 1.0, weight = 1.0, idle_packet_time = "72 ms", ecn = true }
"#;

/// The base with further keys: a switch in them replaces the last hop, and flows in them replace those of the
/// base.
fn scenario_with(extra: &str) -> Scenario {
    let is_hop = |line: &&str| ["lan", "down", "up"].iter().any(|part| line.starts_with(part));
    let replaced = |line: &&str| {
        extra.contains("[atm]") && is_hop(line) || extra.contains("flow =") && line.starts_with("flow =")
    };
    let base: Vec<_> = SCENARIO.lines().filter(|line| !replaced(line)).collect();
    let study = Study::from_str(&format!("{}\n{extra}", base.join("\n")), "test.toml").unwrap();
    study.cells[0].scenario.clone()
}

fn hop(extra: &str) -> Hop<OneFlow, ()> {
    Hop::new(&scenario_with(extra), Seed { study: 1, replication: 1 }, OneFlow(FlowId(0)), ())
}

fn frame(bytes: &[u8]) -> Frame {
    let mut frame = Frame::new(576);
    let length = bytes.len().min(frame.buffer.len());
    frame.buffer[..length].copy_from_slice(&bytes[..length]);
    frame.length = length;
    frame
}

/// A datagram of 576 bytes, identified by `id`.
fn datagram(id: u8, ecn: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 1], 64).udp(5004, 6000);
    builder.write(&mut bytes, &[id; 548]).unwrap();
    bytes[1] = ecn;
    bytes[10..12].fill(0);
    let sum = etherparse::Ipv4HeaderSlice::from_slice(&bytes).unwrap().to_header().calc_header_checksum();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn at_us(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// All packets that arrive by `now`: the time and the last byte of each.
fn arrivals<O: Observer>(hop: &mut Hop<OneFlow, O>, now: Instant) -> Vec<(Instant, Host, u8)> {
    let mut arrived = Vec::new();
    while let Some(delivery) = hop.poll_delivery(now) {
        arrived.push((delivery.due, delivery.host, *hop.arrival(delivery).2.bytes().last().unwrap()));
        hop.finish(delivery);
    }
    arrived
}

#[test]
fn a_packet_takes_what_lan_and_link_take_however_late_it_is_looked_for() {
    let lan = Rate::from_bits_per_second(100_000_000).transmission_time(576) + Duration::from_micros(150);
    let link = Duration::from_millis(72 + 300);
    for looks in [&[372_197][..], &[100, 72_300, 372_196, 372_197], &[9_000_000]] {
        let mut hop = hop("");
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(7, 0)));
        let arrived: Vec<_> = looks.iter().flat_map(|&look| arrivals(&mut hop, at_us(look))).collect();
        assert_eq!(arrived, [(Instant::ZERO + lan + link, Host::Client, 7)]);
        assert_eq!((hop.packets_inside(), hop.next_wakeup()), (0, None));
    }
}

#[test]
fn the_last_packet_that_is_due_is_known_as_such_and_none_is_lost_by_asking() {
    let mut scenario = scenario_with("");
    scenario.down.as_mut().unwrap().link.duplicate = Some(Probability::ONE);
    let mut hop = Hop::new(&scenario, Seed { study: 1, replication: 1 }, OneFlow(FlowId(0)), ());
    for id in 0..2 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0)));
    }
    // The second arrives 72 ms after the first.
    for (until_ms, expected) in [(380, &[(0, false), (0, true)][..]), (460, &[(1, false), (1, true)])] {
        let (now, mut arrived) = (at_us(1000 * until_ms), Vec::new());
        while let Some(delivery) = hop.poll_delivery(now) {
            let is_last = hop.is_last(now);
            arrived.push((*hop.arrival(delivery).2.bytes().last().unwrap(), is_last));
            hop.finish(delivery);
        }
        assert_eq!(arrived, expected, "by {until_ms} ms");
    }
}

#[test]
fn what_finds_the_queue_full_is_dropped_and_the_rest_keep_their_bytes() {
    let mut hop = hop("");
    for id in 0..6 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0)));
    }
    let ids: Vec<_> = arrivals(&mut hop, at_us(9_000_000)).iter().map(|arrival| arrival.2).collect();
    assert_eq!(ids, [0, 1, 2, 3], "two in the send buffer, two in the queue");
    let down = hop.counters().down;
    assert_eq!((down.sent, down.delivered, down.delivered_bytes, down.drops_queue), (6, 4, 4 * 576, 2));
}

#[test]
fn a_copy_that_the_link_makes_has_the_bytes_of_its_packet() {
    let mut scenario = scenario_with("");
    scenario.down.as_mut().unwrap().link.duplicate = Some(Probability::ONE);
    let mut hop = Hop::new(&scenario, Seed { study: 1, replication: 1 }, OneFlow(FlowId(0)), ());
    for id in 0..3 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0)));
    }
    // Later packets reuse the buffers of those that have arrived.
    let mut arrived = arrivals(&mut hop, at_us(400_000));
    hop.send(at_us(400_000), Host::Client as usize, &mut frame(&datagram(9, 0)));
    arrived.extend(arrivals(&mut hop, at_us(9_000_000)));
    let ids = |wanted| arrived.iter().filter(|each| each.1 == wanted).map(|each| each.2).collect::<Vec<_>>();
    assert_eq!((ids(Host::Client), ids(Host::Server)), (vec![0, 0, 1, 1, 2, 2], vec![9]));
    assert_eq!((hop.counters().down.sent, hop.counters().down.delivered, hop.packets_inside()), (3, 3, 0));
}

#[test]
fn a_mark_of_the_router_reaches_the_real_header() {
    let mut hop = hop(RED);
    for id in 0..4 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 2)));
    }
    let mut marks = Vec::new();
    while let Some(delivery) = hop.poll_delivery(at_us(9_000_000)) {
        let header =
            etherparse::Ipv4HeaderSlice::from_slice(hop.arrival(delivery).2.bytes()).unwrap().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        marks.push(header.ecn.value());
        hop.finish(delivery);
    }
    assert_eq!(marks, [2, 2, 2, 3]);
    assert_eq!(hop.counters().down.marks, 1);
}

#[test]
fn what_cannot_cross_is_counted_and_gone() {
    let mut hop = hop("");
    let mut long = datagram(0, 0);
    long.push(0);
    for bytes in [&long[..], &[0x45, 0, 0], &[]] {
        hop.send(Instant::ZERO, Host::Client as usize, &mut frame(bytes));
    }
    let mut fragment = datagram(1, 0);
    fragment[6] = 0x20;
    hop.send(Instant::ZERO, Host::Client as usize, &mut frame(&fragment));
    let counters = *hop.counters();
    assert_eq!((counters.oversized, counters.malformed, counters.fragments), (1, 2, 1));
    assert_eq!(arrivals(&mut hop, at_us(9_000_000)).len(), 1);
}

proptest! {
    #[test]
    fn nothing_stops_it_and_every_packet_is_accounted_for(
        packets in prop::collection::vec(
            (
                0..200_000_u64,
                any::<bool>(),
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..600),
                    (any::<u8>(), 0..4_u8, 0..80_usize, any::<u8>()).prop_map(|(id, ecn, at, value)| {
                        let mut bytes = datagram(id, ecn);
                        bytes[at] = value;
                        bytes
                    }),
                ],
            ),
            0..60,
        ),
        extra in prop::sample::select(&["", RED, CONGESTED_ATM]),
    ) {
        let mut hop = hop(extra);
        let mut now = Instant::ZERO;
        let (mut sent, mut arrived) = (0, 0);
        for (gap, down, bytes) in packets {
            now += Duration::from_micros(gap);
            arrived += arrivals(&mut hop, now).len() as u64;
            hop.send(now, usize::from(!down), &mut frame(&bytes));
            sent += 1;
            prop_assert!(hop.next_wakeup().is_none_or(|due| due >= now));
        }
        arrived += arrivals(&mut hop, at_us(100_000_000)).len() as u64;
        let counters = *hop.counters();
        let refused = counters.malformed + counters.oversized + counters.link_local;
        let ways = [counters.down, counters.up];
        prop_assert_eq!(ways.iter().map(|way| way.sent).sum::<u64>() + refused, sent);
        let dropped = ways.iter().map(|way| way.drops_queue + way.drops_red + way.drops_error).sum::<u64>();
        prop_assert_eq!(arrived + dropped + refused, sent);
        prop_assert_eq!(hop.packets_inside(), 0);
    }
}

const ARQ: &str = r#"
[errors]
packet_error_probability = 0.5
good = { distribution = "exponential", mean = "1 s" }
bad = { distribution = "exponential", mean = "1 s" }
arq = { retransmissions = 3, delay = "100 ms" }
"#;

proptest! {
    #[test]
    fn who_comes_back_at_the_next_wakeup_is_never_late(
        packets in prop::collection::vec((0..200_000_u64, any::<bool>()), 1..60),
        extra in prop::sample::select(&["", RED, ARQ, CONGESTED_ATM]),
    ) {
        let mut hop = hop(extra);
        let mut now = Instant::ZERO;
        let (mut wakeups, mut arrived) = (0, 0);
        let mut packets = packets.into_iter();
        let mut next = packets.next();
        let mut at = Instant::ZERO;
        if let Some((gap, _)) = next {
            at += Duration::from_micros(gap);
        }
        while next.is_some() || hop.next_wakeup().is_some() {
            let due = hop.next_wakeup().unwrap_or(Instant::MAX);
            now = due.min(if next.is_some() { at } else { Instant::MAX }).max(now);
            wakeups += 1;
            for (due, ..) in arrivals(&mut hop, now) {
                prop_assert_eq!(due, now);
                arrived += 1;
            }
            if let Some((_, down)) = next && at <= now {
                hop.send(now, usize::from(!down), &mut frame(&datagram(1, 2)));
                next = packets.next();
                at += Duration::from_micros(next.map_or(0, |(gap, _)| gap));
            }
        }
        let ways = [hop.counters().down, hop.counters().up];
        prop_assert_eq!(ways.iter().map(|way| way.delivered).sum::<u64>(), arrived);
        prop_assert_eq!(hop.packets_inside(), 0);
        prop_assert!(wakeups < 10_000);
    }
}

/// A switch with links of these rates before and after it.
macro_rules! atm {
    ($access_rate:literal, $rate:literal) => {
        concat!(
            "[atm]\naccess_rate = \"",
            $access_rate,
            "\"\naccess_delay = \"1 ms\"\nrate = \"",
            $rate,
            "\"\ndelay = \"50 ms\"\nbuffer_cells = 40\nthreshold = 0.5\noverhead = \"16 B\"\n",
            "discard = { policy = \"early-packet\" }\n"
        )
    };
}

/// A cell takes 1 ms on an access link and 0.1 ms after the switch; a packet of 576 bytes has 13 cells.
const ATM: &str = atm!("424 kbit/s", "4240 kbit/s");

/// Cells arrive ten times as fast as they leave.
const CONGESTED_ATM: &str = atm!("4240 kbit/s", "424 kbit/s");

/// Identifies flows by the client's port.
struct ByPort;

impl Flows for ByPort {
    fn sender(&self, host: usize, headers: &Headers<'_>) -> Option<Host> {
        OneFlow(FlowId(0)).sender(host, headers)
    }

    fn way(&self, flow: FlowId) -> (u32, usize) {
        (flow.0.min(1), 0)
    }

    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body) {
        let (_, server_port, body) = OneFlow(FlowId(0)).identify(now, sender, headers, observer);
        let (_, client_port) = headers.transport.server_and_client_port(sender);
        (FlowId(u32::from(client_port) - 6000), server_port, body)
    }
}

#[test]
fn each_flow_has_an_access_link_to_the_switch_and_packets_of_none_share_the_last() {
    let two =
        "flow = [{ kind = \"bulk-tcp\", bytes = \"1 kB\" }, { kind = \"bulk-tcp\", bytes = \"1 kB\" }]\n";
    let scenario = scenario_with(&format!("{two}{ATM}"));
    let mut hop = Hop::new(&scenario, Seed { study: 1, replication: 1 }, ByPort, ());
    for id in 0..3 {
        let mut bytes = datagram(id, 0);
        // The client's port: of flow 0, of flow 1, of no flow.
        bytes[23] += id;
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&bytes));
    }
    let mut arrived = Vec::new();
    while let Some(delivery) = hop.poll_delivery(at_us(1_000_000)) {
        arrived.push((delivery.due, *hop.arrival(delivery).2.bytes().last().unwrap()));
        hop.finish(delivery);
    }
    // 13 cells each; the cells of the first two packets alternate, and the third packet waits for the access
    // link.
    assert_eq!(arrived, [(at_us(64_100), 0), (at_us(64_200), 1), (at_us(77_100), 2)]);
    assert_eq!(hop.packets_inside(), 0);
}

#[test]
fn a_switch_above_its_threshold_drops_whole_packets() {
    let mut hop = hop(CONGESTED_ATM);
    for id in 0..6 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0)));
    }
    let ids: Vec<_> = arrivals(&mut hop, at_us(9_000_000)).iter().map(|arrival| arrival.2).collect();
    // The threshold is 20 cells; the packets find 0, 12, 24, 23, 21 and 20 cells.
    assert_eq!(ids, [0, 1, 5]);
    let down = hop.counters().down;
    assert_eq!((down.sent, down.delivered, down.drops_red), (6, 3, 3));
}

#[test]
fn the_way_back_from_the_switch_is_delay_alone() {
    let mut hop = Hop::new(&scenario_with(ATM), Seed { study: 1, replication: 1 }, OneFlow(FlowId(0)), ());
    for id in 0..3 {
        hop.send(Instant::ZERO, Host::Client as usize, &mut frame(&datagram(id, 0)));
    }
    let due = at_us(51_000);
    assert_eq!(
        arrivals(&mut hop, at_us(1_000_000)),
        [(due, Host::Server, 0), (due, Host::Server, 1), (due, Host::Server, 2)]
    );
}

#[test]
fn a_router_of_the_owners_gets_what_the_lan_brings_and_must_give_it_back_in_order() {
    let mut hop = hop("router.implementation = \"linux\"\n");
    for id in 0..5 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0)));
    }
    assert_eq!(arrivals(&mut hop, at_us(1_000)), []);
    // The second packet is lost; the fourth and the fifth find two packets inside, the limit of the queue.
    for (kept, full) in [(true, false), (false, false), (true, false), (false, true), (false, true)] {
        let entry = hop.poll_entry().unwrap();
        assert_eq!(hop.is_full(entry), full);
        hop.enter(entry, kept);
    }
    assert!(hop.poll_entry().is_none());
    let down = hop.counters().down;
    assert_eq!((down.drops_error, down.drops_queue, hop.packets_inside()), (1, 2, 2));
    let now = at_us(400_000);
    assert!(hop.leave(now, Host::Client, &mut frame(&datagram(2, 0))).is_err(), "out of order");
    for id in [0, 2] {
        let delivery = hop.leave(now, Host::Client, &mut frame(&datagram(id, 0))).unwrap().unwrap();
        assert_eq!((delivery.due, *hop.arrival(delivery).2.bytes().last().unwrap()), (now, id));
        hop.finish(delivery);
    }
    assert!(hop.leave(now, Host::Client, &mut frame(&datagram(2, 0))).is_err(), "twice");
    assert_eq!((hop.packets_inside(), hop.counters().down.delivered), (0, 2));
}

#[test]
fn what_a_discipline_of_linux_drops_is_seen_by_what_comes_out_and_the_link_behind_it_delays() {
    let mut hop = hop("router.implementation = \"linux\"\ndown.queue.discipline = \"codel\"\n");
    for id in 0..5 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0b10)));
    }
    assert_eq!(arrivals(&mut hop, at_us(1_000)), []);
    while let Some(entry) = hop.poll_entry() {
        hop.enter(entry, true);
    }
    let now = at_us(400_000);
    let mut marked = frame(&datagram(2, 0b11));
    assert!(hop.leave(now, Host::Client, &mut marked).unwrap().is_none(), "it is on the link");
    let down = hop.counters().down;
    assert_eq!((down.drops_red, down.drops_queue, hop.packets_inside()), (2, 0, 3));
    assert_eq!(hop.next_wakeup(), Some(at_us(700_000)));
    assert_eq!(arrivals(&mut hop, at_us(699_999)), []);
    let delivery = hop.poll_delivery(at_us(800_000)).unwrap();
    assert_eq!((delivery.due, hop.arrival(delivery).2.bytes()[1]), (at_us(700_000), 0b11));
    hop.finish(delivery);
    assert!(!hop.inside(Host::Client).is_empty() && hop.inside(Host::Server).is_empty());
    // Packets that had found the queue full count as drops of the full queue.
    hop.clear(now, Host::Client, 0);
    assert_eq!((hop.counters().down.drops_queue, hop.packets_inside()), (2, 0));
    assert!(hop.leave(now, Host::Client, &mut frame(&datagram(3, 0))).is_err(), "it is lost");
}

#[test]
fn what_red_of_linux_drops_is_the_queues_only_without_room_in_bytes() {
    let length = frame(&datagram(0, 0)).length;
    let mut hop = hop(&format!(
        r#"router.implementation = "linux"
        [[down.htb.class]]
        name = "all"
        rate = "64 kbit/s"
        default = true
        queue.limit = "{} B"
        queue.red = {{ min = "10 B", max = "20 B", max_probability = 0.1, weight = 0.5, avpkt = "10 B" }}"#,
        3 * length - 1
    ));
    for id in 0..4 {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(&datagram(id, 0)));
    }
    assert_eq!(arrivals(&mut hop, at_us(1_000)), []);
    for (kept, full) in [(true, false), (false, false), (true, false), (false, true)] {
        let entry = hop.poll_entry().unwrap();
        assert_eq!(hop.is_full(entry), full);
        hop.enter(entry, kept);
    }
    let down = hop.counters().down;
    assert_eq!((down.drops_red, down.drops_queue, hop.packets_inside()), (1, 1, 2));
}

#[test]
fn classes_of_a_router_of_the_owners_have_orders_limits_and_losses_of_their_own() {
    let mut hop = hop(r#"router.implementation = "linux"
        [[down.htb.class]]
        name = "fifo"
        rate = "8 kbit/s"
        default = true
        queue.limit = "1 packets"
        [[down.htb.class]]
        name = "codel"
        rate = "8 kbit/s"
        match = [{ dscp = "EF" }]
        queue = { discipline = "codel", limit = "10 packets" }"#);
    let expedited = |id| datagram(id, 46 << 2);
    let sent = [datagram(0, 0), expedited(1), datagram(2, 0), expedited(3), expedited(4)];
    for bytes in &sent {
        hop.send(Instant::ZERO, Host::Server as usize, &mut frame(bytes));
    }
    assert_eq!(arrivals(&mut hop, at_us(1_000)), []);
    for (class, kept, full) in
        [(0, true, false), (1, true, false), (0, false, true), (1, true, false), (1, true, false)]
    {
        let entry = hop.poll_entry().unwrap();
        assert_eq!((hop.class_of(entry), hop.is_full(entry)), (class, full));
        hop.enter(entry, kept);
    }
    assert_eq!((hop.counters().down.drops_queue, hop.packets_inside()), (1, 4));
    assert_eq!(hop.inside(Host::Client), [0, 1]);
    // The second one of its class comes out before the first: CoDel has dropped that, not the other class's.
    let now = at_us(100_000);
    assert!(hop.leave(now, Host::Client, &mut frame(&sent[3])).unwrap().is_none());
    assert_eq!((hop.counters().down.drops_red, hop.packets_inside()), (1, 3));
    hop.clear(now, Host::Client, 1);
    assert_eq!((hop.counters().down.drops_red, hop.inside(Host::Client)), (2, vec![0]));
    assert!(hop.leave(now, Host::Client, &mut frame(&sent[0])).unwrap().is_none());
    assert_eq!(hop.packets_inside(), 2);
}
