//! The order and times of classes, packet by packet, and properties of all classes.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::units::QueueSize;
use lasthop_core::{
    Body, Bytes, Direction, DropCause, Duration, Ecn, Faults, Instant, PacketArena, Place, Protocol, Rate,
    Seed,
};
use proptest::prelude::*;

use super::*;
use crate::config::{BufferRelease, DisciplineConfig, PathConfig, QueueConfig};
use crate::link::pop_if;
use crate::testing::{Lab, SEED, Seen, at_us, drop_tail, red, studied_path};

mod nested;
mod reference;

const RATE: u64 = 64_000;
const OUTLET: Outlet = Outlet { rate: Rate::from_bits_per_second(RATE), framing: None, mtu: Bytes(1_500) };

fn rate(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

/// Class number `index`: packets to port `index`; the first is the default.
fn class(index: u16, own: u64, ceil: u64, priority: u8) -> ClassConfig {
    let port = NonZeroU16::new(index);
    ClassConfig {
        name: format!("class-{index}"),
        parent: None,
        rate: rate(own),
        ceil: Some(rate(ceil)),
        priority,
        quantum: Some(Bytes(1_500)),
        burst: Bytes(1_600),
        cburst: Bytes(1_600),
        matches: if index == 0 { Vec::new() } else { vec![MatchConfig { port, ..MatchConfig::default() }] },
        default: index == 0,
        queue: None,
    }
}

fn htb(root: Option<u64>, class: Vec<ClassConfig>) -> HtbConfig {
    HtbConfig { rate: root.map(rate), burst: Bytes(1_600), overhead: Bytes(0), class }
}

/// A link of 64 kbit/s that takes one packet of 576 bytes (72 ms) at a time.
fn path(htb: HtbConfig) -> PathConfig {
    let mut path = PathConfig { htb: Some(htb), ..studied_path() };
    path.link.send_buffer = Bytes(576);
    path.link.release = BufferRelease::Serialised;
    path.link.overhead = lasthop_core::Distribution::Static(Duration::ZERO);
    assert_eq!(Faults::collect(|faults| path.check(Bytes(576), faults)), []);
    path
}

fn serials(lines: &[(Instant, u64)]) -> Vec<u64> {
    lines.iter().map(|line| line.1).collect()
}

/// TCP 500 kbit/s, UDP 500 kbit/s above it: both far above the link, so priority decides.
#[test]
fn with_ceilings_above_the_link_the_lower_number_goes_first() {
    let mut lab =
        Lab::new(&path(htb(None, vec![class(0, 500_000, 500_000, 1), class(1, 500_000, 500_000, 0)])), None);
    for port in [30_001, 30_001, 30_001, 1, 1] {
        lab.send_to(at_us(0), 576, Ecn::NotEct, port);
    }
    // While the second packet waits for room, another packet of its class arrives, and one of the last class.
    lab.send_to(at_us(100_000), 576, Ecn::NotEct, 1);
    lab.run();
    assert_eq!(serials(&lab.dequeued()), [0, 3, 4, 5, 1, 2]);
    let every_72_ms: Vec<_> = (0..6).map(|n| at_us(72_000 * n)).collect();
    assert_eq!(lab.dequeued().iter().map(|line| line.0).collect::<Vec<_>>(), every_72_ms);
}

#[test]
fn each_class_fills_its_own_queue() {
    let mut config = htb(None, vec![class(0, 500_000, 500_000, 1), class(1, 500_000, 500_000, 0)]);
    config.class[1].queue = Some(drop_tail(2));
    let mut lab = Lab::new(&path(config), None);
    for _ in 0..4 {
        lab.send_to(at_us(0), 576, Ecn::NotEct, 1);
    }
    for _ in 0..21 {
        lab.send_to(at_us(0), 576, Ecn::NotEct, 30_001);
    }
    assert_eq!(serials(&lab.dropped(DropCause::QueueOverflow)), [3, 24], "one of each class");
    assert_eq!((lab.log.last_depth.class, lab.log.last_depth.class_packets), (0, 20));
    assert_eq!((lab.log.last_depth.packets, lab.log.last_depth.bytes), (22, 22 * 576));
    lab.run();
    assert_eq!(lab.delivered().len(), 23);
}

#[test]
fn what_one_class_meets_leaves_the_draws_of_the_others_alone() {
    let verdicts = |others: bool| {
        let mut path = path(htb(None, vec![class(0, RATE, RATE, 0), class(1, RATE, RATE, 0)]));
        path.queue.discipline = DisciplineConfig::red(red(1, 20, 0.2, 1.0));
        path.queue.limit = QueueSize::Packets(100_000);
        let mut htb = Htb::new(path.htb.as_ref().unwrap(), &path.queue, OUTLET, ("red.down", SEED));
        let mut arena = PacketArena::default();
        let mut accepted = |class| {
            let id = arena.insert(packet(class, 576));
            htb.enqueue(id, &mut Packets { now: at_us(0), arena: &mut arena, observer: &mut () }).is_some()
        };
        let mut verdict = |_| {
            if others {
                accepted(1);
            }
            accepted(0)
        };
        (0..1_000).map(&mut verdict).collect::<Vec<_>>()
    };
    assert!(verdicts(false)[1..].contains(&true) && verdicts(false).contains(&false));
    assert_eq!(verdicts(false), verdicts(true));
}

#[test]
fn the_first_match_wins_and_the_default_takes_the_rest() {
    let mut config =
        htb(None, vec![class(0, RATE, RATE, 0), class(1, RATE, RATE, 0), class(2, RATE, RATE, 0)]);
    config.class[1].matches =
        vec![MatchConfig { dscp: Some("EF".parse().unwrap()), protocol: Some(Protocol::Udp), port: None }];
    config.class[2].matches = vec![
        MatchConfig { protocol: Some(Protocol::Udp), ..MatchConfig::default() },
        MatchConfig { port: NonZeroU16::new(80), ..MatchConfig::default() },
    ];
    let htb = Htb::new(&config, &roomy(), OUTLET, ("red.down", SEED));
    let tcp = || Body::Tcp(lasthop_core::Segment::default());
    let udp = || Body::Udp(lasthop_core::Datagram::default());
    for (body, dscp, server_port, expected) in [
        (udp(), "EF", 30_001, 1),
        (udp(), "AF11", 30_001, 2),
        (tcp(), "EF", 30_001, 0),
        (tcp(), "EF", 80, 2),
        (tcp(), "BE", 81, 0),
    ] {
        let packet = Packet { body, dscp: dscp.parse().unwrap(), server_port, ..packet(0, 40) };
        assert_eq!(htb.classifier.class_of(&packet), expected, "{packet:?}");
    }
}

/// The bottleneck of balekaki2012: HTB with 64 kbit/s and a burst of 1632 bytes; the link after it is fast.
#[test]
fn a_shaping_class_sends_its_burst_and_then_at_its_rate() {
    let mut shaped = class(0, RATE, RATE, 0);
    (shaped.burst, shaped.cburst) = (Bytes(1_632), Bytes(1_632));
    let mut config = path(htb(None, vec![shaped]));
    config.link.rate = rate(1_000_000_000);
    config.link.send_buffer = Bytes(100_000);
    let mut lab = Lab::new(&config, None);
    lab.burst(at_us(0), 6);
    lab.run();
    // 1632 bytes are 204 ms of tokens, a packet takes 72 ms of them: the third goes into debt by 12 ms.
    let expected = [0, 0, 0, 12_000, 84_000, 156_000].map(at_us);
    assert_eq!(lab.dequeued().iter().map(|line| line.0).collect::<Vec<_>>(), expected);
    // A pause of 200 ms refills the spent tokens, up to the burst.
    let mut again = Lab::new(&config, None);
    again.burst(at_us(0), 1);
    again.burst(at_us(10_000_000), 4);
    again.run();
    assert_eq!(again.dequeued().last(), Some(&(at_us(10_012_000), 4)));
}

#[test]
fn own_rate_comes_before_borrowing_whatever_the_priority() {
    // The first class may borrow up to the whole link, and is served first; the second one's rate is half of
    // it.
    let config = htb(Some(RATE), vec![class(0, 8_000, RATE, 0), class(1, 32_000, RATE, 7)]);
    let mut lab = Lab::new(&path(config), None);
    for n in 0..1_000 {
        lab.send_to(at_us(72_000 * n), 576, Ecn::NotEct, 30_001);
        lab.send_to(at_us(72_000 * n), 576, Ecn::NotEct, 1);
    }
    lab.run_until(at_us(72_000_000));
    let low: usize = lab.dequeued().iter().filter(|line| line.1 % 2 == 1).count();
    // 1000 packets in all; half of them, and its burst.
    assert!((498..=505).contains(&low), "{low}");
}

#[test]
fn what_one_class_leaves_the_other_borrows_but_never_beyond_its_ceiling() {
    let config = htb(Some(RATE), vec![class(0, 32_000, RATE, 0), class(1, 16_000, 48_000, 0)]);
    let mut lab = Lab::new(&path(config), None);
    for n in 0..1_000 {
        lab.send_to(at_us(72_000 * n), 576, Ecn::NotEct, 1);
    }
    lab.run_until(at_us(72_000_000));
    let sent = lab.dequeued().len();
    // 48 of 64 kbit/s.
    assert!((750..=754).contains(&sent), "{sent}");
}

/// A packet of class number `class`.
fn packet(class: u16, ip_bytes: u32) -> Packet {
    Packet {
        serial: 0,
        flow: lasthop_core::FlowId(0),
        direction: Direction::Down,
        ip_bytes,
        ecn: Ecn::NotEct,
        is_copy: false,
        place: Place::default(),
        queued_at: Instant::MAX,
        dscp: lasthop_core::Dscp::default(),
        server_port: class,
        body: Body::Udp(lasthop_core::Datagram::default()),
    }
}

/// A packet that left: time, class, length.
type Departure = (Instant, usize, u32);
/// Time since the previous arrival in microseconds, class, length.
type Arrival = (u64, usize, u32);

/// Drives the classes in front of a link that takes a packet whenever the previous one is serialised.
fn departures(config: &HtbConfig, arrivals: &[Arrival], link: Rate) -> Vec<Departure> {
    let mut htb = Htb::new(config, &roomy(), OUTLET, ("red.down", SEED));
    let mut arena = PacketArena::default();
    let mut due: VecDeque<(Instant, usize, u32)> = absolute(arrivals).into();
    let (mut now, mut departures) = (Instant::ZERO, Vec::new());
    loop {
        while let Some((_, class, ip_bytes)) = pop_if(&mut due, |arrival| arrival.0 <= now) {
            let id = arena.insert(packet(class as u16, ip_bytes));
            let depth = htb.enqueue(id, &mut Packets { now, arena: &mut arena, observer: &mut () });
            assert_eq!(depth.map(|depth| usize::from(depth.class)), Some(class));
        }
        let next_arrival = due.front().map_or(Instant::MAX, |arrival| arrival.0);
        let packets = &mut Packets { now, arena: &mut arena, observer: &mut () };
        match htb.dequeue(u64::MAX, packets) {
            Ok(Dequeued { ip_bytes, depth, .. }) => {
                departures.push((now, usize::from(depth.class), ip_bytes));
                now += link.transmission_time(ip_bytes);
            }
            Err(wait) => {
                now = wait.end().min(next_arrival);
                if now == Instant::MAX {
                    assert_eq!((htb.depth().packets, htb.depth().bytes), (0, 0));
                    return departures;
                }
            }
        }
    }
}

fn roomy() -> QueueConfig {
    drop_tail(100_000)
}

fn absolute(arrivals: &[Arrival]) -> Vec<(Instant, usize, u32)> {
    let mut at = 0;
    let absolute = |&(gap, class, ip_bytes): &Arrival| {
        at += gap;
        (at_us(at), class, ip_bytes)
    };
    arrivals.iter().map(absolute).collect()
}

/// Rate, excess of the ceiling over the rate, priority, quantum, buckets, and the containing class, if that
/// is an earlier one.
type Drawn = ((u64, u64), u8, u64, (u64, u64), Option<u16>);

fn configs() -> impl Strategy<Value = HtbConfig> {
    let rates = (4_000_u64..400_000, 0_u64..400_000);
    let bursts = (0_u64..4_000, 0_u64..4_000);
    let values = (rates, 0_u8..3, 1_500_u64..4_000, bursts, prop::option::of(0_u16..4));
    let root = prop::option::weighted(0.7, 20_000_u64..400_000);
    (root, prop::collection::vec(values, 1..7)).prop_map(|(root, classes)| {
        let numbered =
            |(index, ((own, more), priority, quantum, (burst, cburst), parent)): (u16, Drawn)| ClassConfig {
                parent: parent.filter(|parent| *parent < index).map(|parent| format!("class-{parent}")),
                quantum: Some(Bytes(quantum)),
                burst: Bytes(burst),
                cburst: Bytes(cburst),
                ..class(index, own, own + more, priority)
            };
        htb(root, (0_u16..).zip(classes).map(numbered).collect())
    })
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap_us = prop_oneof![3 => Just(0), 3 => 0_u64..50_000, 1 => 0_u64..2_000_000];
    prop::collection::vec((gap_us, 0_usize..60, 40_u32..=1_500), 1..200)
}

fn of_classes(mut arrivals: Vec<Arrival>, config: &HtbConfig) -> Vec<Arrival> {
    let leaves: Vec<_> = (0..config.class.len()).filter(|index| config.is_leaf(*index)).collect();
    for arrival in &mut arrivals {
        arrival.1 = leaves[arrival.1 % leaves.len()];
    }
    arrivals
}

/// In no window between two departures do more bytes leave than the bucket and its inflow. The packet that
/// ends the window does not count, because it may go into debt.
fn keeps_to(sent: &[(Instant, u32)], rate: Rate, burst: Bytes) -> Result<(), TestCaseError> {
    let price = |bytes: u32| rate.transmission_time(bytes).as_nanos();
    for (first, (start, _)) in sent.iter().enumerate() {
        let mut paid = 0;
        for (end, bytes) in &sent[first..] {
            prop_assert!(paid <= price(burst.0 as u32) + (*end - *start).as_nanos());
            paid += price(*bytes);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_the_slow_reference(
        config in configs(), arrivals in arrivals(), link in 30_000_u64..1_000_000,
    ) {
        let arrivals = of_classes(arrivals, &config);
        let expected = reference::departures(&config, &arrivals, rate(link));
        prop_assert_eq!(departures(&config, &arrivals, rate(link)), expected);
    }

    #[test]
    fn every_class_gets_all_its_packets_through_in_order(config in configs(), arrivals in arrivals()) {
        let arrivals = of_classes(arrivals, &config);
        let departures = departures(&config, &arrivals, rate(RATE));
        for class in 0..config.class.len() {
            let came: Vec<_> = arrivals.iter().filter(|came| came.1 == class).map(|came| came.2).collect();
            let left: Vec<_> = departures.iter().filter(|left| left.1 == class).map(|left| left.2).collect();
            prop_assert_eq!(came, left);
        }
    }

    #[test]
    fn no_class_passes_its_ceiling_nor_its_rate_if_nobody_lends(config in configs(), arrivals in arrivals()) {
        let arrivals = of_classes(arrivals, &config);
        let departures = departures(&config, &arrivals, rate(1_000_000_000));
        for (index, class) in config.class.iter().enumerate() {
            let of_class = departures.iter().filter(|left| left.1 == index);
            let sent: Vec<_> = of_class.map(|left| (left.0, left.2)).collect();
            keeps_to(&sent, class.ceil.unwrap(), class.cburst)?;
            if config.rate.is_none() && class.parent.is_none() {
                keeps_to(&sent, class.rate, class.burst)?;
            }
        }
    }

    #[test]
    fn equal_priorities_share_by_quantum(
        lengths in prop::collection::vec((40_u32..=1_500, 40_u32..=1_500), 50..150),
        quanta in (1_500_u64..5_000, 1_500_u64..5_000),
    ) {
        let mut config = htb(None, vec![class(0, 500_000, 500_000, 0), class(1, 500_000, 500_000, 0)]);
        config.class[0].quantum = Some(Bytes(quanta.0));
        config.class[1].quantum = Some(Bytes(quanta.1));
        let arrivals: Vec<_> = lengths.iter().flat_map(|&(a, b)| [(0, 0, a), (0, 1, b)]).collect();
        let mut left = [lengths.len(); 2];
        let mut rounds = [0.0; 2];
        for (_, class, bytes) in departures(&config, &arrivals, rate(RATE)) {
            if left.contains(&0) {
                break;
            }
            left[class] -= 1;
            rounds[class] += f64::from(bytes) / [quanta.0, quanta.1][class] as f64;
            // They may differ by a turn, and by the debt that the longest packet causes for each.
            prop_assert!((rounds[0] - rounds[1]).abs() <= 3.0, "{:?}", rounds);
        }
    }

    #[test]
    fn a_path_with_classes_conserves_packets_and_repeats_itself(
        config in configs(), arrivals in arrivals(), replication in 1_u64..1_000, limit in 1_u32..8,
    ) {
        let arrivals = of_classes(arrivals, &config);
        let mut path = path_of_1500(config);
        path.queue = QueueConfig { discipline: DisciplineConfig::red(red(1, 9, 0.3, 0.5)), ..drop_tail(limit) };
        let run = || {
            let mut lab = Lab::with(&path, None, Direction::Up, Seed { study: 7, replication });
            for (at, class, ip_bytes) in absolute(&arrivals) {
                lab.send_to(at, ip_bytes, Ecn::NotEct, class as u16);
            }
            lab.run();
            assert!(lab.arena.is_empty() && lab.path.packets_inside() == 0);
            lab.log.lines
        };
        let lines = run();
        let ends = lines.iter().filter(|line| matches!(line.2, Seen::Delivered | Seen::Dropped(_))).count();
        prop_assert_eq!(ends, arrivals.len());
        prop_assert!(lines.is_sorted_by_key(|line| line.0), "events in order of time");
        prop_assert_eq!(lines, run());
    }
}

fn path_of_1500(htb: HtbConfig) -> PathConfig {
    let mut path = PathConfig { htb: Some(htb), ..studied_path() };
    path.link.send_buffer = Bytes(3_000);
    path
}
