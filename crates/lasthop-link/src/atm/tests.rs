//! Times in nanoseconds. The wan switch of the study: a cell takes 2831 ns on an access link and 9422 ns at
//! the output port.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use lasthop_core::{Body, Datagram, Direction, Dscp, Ecn, FlowId, Packet, PacketEvent, Place};
use proptest::prelude::*;

use super::*;

const MSS_1024: u32 = 1024 + 40;

fn wan(buffer_cells: u32, discard: Discard) -> AtmConfig {
    AtmConfig {
        access_rate: Rate::from_bits_per_second(149_760_000),
        access_delay: Duration::from_micros(5),
        rate: Rate::from_bits_per_second(45_000_000),
        delay: Duration::from_millis(5),
        buffer_cells,
        threshold: Probability::new(0.8).unwrap(),
        discard,
        overhead: Bytes(16),
    }
}

fn selective() -> Discard {
    Discard::Selective { share: Probability::new(0.8).unwrap() }
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered(u64),
    Dropped(u64, DropCause),
}

#[derive(Default)]
struct Fates(BTreeMap<u64, Fate>);

impl Observer for Fates {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if let PacketEvent::Dropped(cause) = event {
            self.0.insert(packet.serial, Fate::Dropped(now.as_nanos(), cause));
        }
    }
}

/// A packet handed over: time, connection, IP length.
type Arrival = (u64, u32, u32);

fn packet(serial: u64, ip_bytes: u32) -> Packet {
    let body = Body::Udp(Datagram { number: serial, payload_bytes: ip_bytes - Datagram::HEADER_BYTES });
    Packet {
        serial,
        flow: FlowId(0),
        direction: Direction::Down,
        ip_bytes,
        ecn: Ecn::NotEct,
        is_copy: false,
        place: Place::default(),
        queued_at: Instant::MAX,
        dscp: Dscp::default(),
        server_port: 1,
        body,
    }
}

/// The outcome of arrivals in order of time, with the switch woken at its wakeups.
fn run(config: &AtmConfig, connections: usize, arrivals: &[Arrival]) -> BTreeMap<u64, Fate> {
    let mut switch = AtmSwitch::new(config, connections);
    let (mut arena, mut fates) = (PacketArena::default(), Fates::default());
    let mut wake = |switch: &mut AtmSwitch, arena: &mut PacketArena, until: u64| {
        while let Some(now) = switch.next_wakeup().filter(|now| now.as_nanos() <= until) {
            switch.handle_wakeup(now, arena, &mut fates);
            while let Some(id) = switch.poll_delivery(now) {
                fates.0.insert(arena.get(id).serial, Fate::Delivered(now.as_nanos()));
                arena.remove(id);
            }
        }
    };
    for (serial, &(at, connection, ip_bytes)) in (0..).zip(arrivals) {
        wake(&mut switch, &mut arena, at);
        let id = arena.insert(packet(serial, ip_bytes));
        switch.handle_packet(Instant::from_nanos(at), id, connection, &arena);
    }
    wake(&mut switch, &mut arena, u64::MAX);
    assert!(arena.is_empty());
    fates.0
}

#[test]
fn a_packet_has_the_cells_of_its_ip_packet_header_and_trailer() {
    let config = wan(531, Discard::EarlyPacket);
    // 1024 + 20 + 20 + 8 + 8 = 1080 bytes in 48s.
    assert_eq!(config.cells(MSS_1024), 23);
    assert_eq!(config.cells(9180 + 40), 193);
    assert_eq!(config.cells(32), 1);
    assert_eq!(config.cells(33), 2);
}

#[test]
fn a_lone_packet_leaves_after_its_last_cell() {
    let fates = run(&wan(531, Discard::EarlyPacket), 1, &[(1_000, 0, MSS_1024)]);
    // The port is slower than the access link: the first cell arrives after 2.831 us and 5 us, then 23 leave.
    let expected = 1_000.0 + 2_831.196_6 + 5_000.0 + 23.0 * 9_422.222_2 + 5e6;
    assert_eq!(fates[&0], Fate::Delivered(f64::ceil(expected) as u64));
}

#[test]
fn packets_of_two_connections_interleave_cell_by_cell() {
    let fates = run(&wan(531, Discard::EarlyPacket), 2, &[(0, 0, MSS_1024), (1_000, 1, MSS_1024)]);
    let (Fate::Delivered(first), Fate::Delivered(second)) = (fates[&0], fates[&1]) else {
        panic!("{fates:?}");
    };
    // Their last cells are adjacent.
    assert!((9_422..=9_423).contains(&(second - first)), "{first} {second}");
}

#[test]
fn above_the_threshold_early_packet_discard_drops_whole_packets_and_lets_begun_ones_end() {
    // Two packets of 23 cells fill 46 places, above the threshold of 36. Packets that have begun continue; a
    // packet whose first cell comes then is rejected.
    let mut arrivals: Vec<Arrival> = (0..2).map(|connection| (0, connection, MSS_1024)).collect();
    arrivals.push((65_000, 2, MSS_1024));
    let fates = run(&wan(46, Discard::EarlyPacket), 3, &arrivals);
    assert!(matches!(fates[&0], Fate::Delivered(_)) && matches!(fates[&1], Fate::Delivered(_)), "{fates:?}");
    assert_eq!(fates[&2], Fate::Dropped(65_000 + 7_832, DropCause::EarlyPacket));
}

#[test]
fn an_overflow_drops_the_rest_of_the_packet_and_not_the_next_one() {
    let arrivals: Vec<Arrival> = (0..4).map(|connection| (0, connection, MSS_1024)).collect();
    let later = (10_000_000, 0, MSS_1024);
    let fates = run(&wan(30, Discard::EarlyPacket), 4, &[&arrivals[..], &[later]].concat());
    let overflowed = |fate: &Fate| matches!(fate, Fate::Dropped(_, DropCause::QueueOverflow));
    assert!(fates.values().filter(|fate| overflowed(fate)).count() >= 3, "{fates:?}");
    assert!(matches!(fates[&4], Fate::Delivered(_)));
}

/// Two packets at once need more than the buffer holds.
#[test]
fn plain_ubr_carries_what_is_left_of_a_lost_packet() {
    let arrivals = [(0, 0, MSS_1024), (0, 1, MSS_1024), (190_000, 2, MSS_1024)];
    let [plain, early] =
        [Discard::None, Discard::EarlyPacket].map(|discard| run(&wan(23, discard), 3, &arrivals));
    let overflowed = |fate: &Fate| matches!(fate, Fate::Dropped(_, DropCause::QueueOverflow));
    // Both lose a cell when the buffer is full. The accepted cells, and without packet discard all cells that
    // find room later, precede the third packet.
    for fates in [&plain, &early] {
        assert!(overflowed(&fates[&0]) && overflowed(&fates[&1]), "{fates:?}");
    }
    let (Fate::Dropped(..), Fate::Delivered(alone)) = (plain[&2], early[&2]) else {
        panic!("{plain:?} {early:?}");
    };
    assert!(alone > 0);
}

#[test]
fn selective_drop_spares_a_connection_below_its_share() {
    // Connection 0 fills the buffer above the threshold; connection 1 has no cell in it.
    let arrivals = [(0, 0, 9220), (400_000, 0, MSS_1024), (400_000, 1, MSS_1024)];
    let early = run(&wan(200, Discard::EarlyPacket), 2, &arrivals);
    let fair = run(&wan(200, selective()), 2, &arrivals);
    let cause = |fate| if let Fate::Dropped(_, cause) = fate { Some(cause) } else { None };
    let early_packet = Some(DropCause::EarlyPacket);
    let selective = Some(DropCause::Selective);
    let threshold_reached = cause(early[&1]).is_some();
    assert!(!threshold_reached || cause(early[&2]) == early_packet);
    assert_eq!(cause(fair[&2]), None);
    assert!(!threshold_reached || cause(fair[&1]) == selective);
}

#[test]
fn a_buffer_that_holds_no_packet_is_refused() {
    let faults =
        |config: &AtmConfig| Faults::collect(|faults| config.check(Bytes(u64::from(MSS_1024)), faults));
    let mut config = wan(22, Discard::EarlyPacket);
    let fault = faults(&config).remove(0);
    assert_eq!(fault.key, "buffer_cells");
    assert!(fault.message.contains("23"), "{}", fault.message);
    config.buffer_cells = 23;
    assert_eq!(faults(&config), []);
}

/// The same switch with an event for each arrival and departure of a cell; its only state is the cells.
fn reference(config: &AtmConfig, connections: usize, arrivals: &[Arrival]) -> BTreeMap<u64, Fate> {
    let access = cell_time(config.access_rate);
    let service = cell_time(config.rate);
    let access_delay = config.access_delay.as_nanos() * PICOS_PER_NANO;
    let mut cells = BinaryHeap::new();
    let mut free_at = vec![0; connections];
    for (serial, &(at, connection, ip_bytes)) in (0_u64..).zip(arrivals) {
        let free = &mut free_at[connection as usize];
        *free = at_least(*free, at);
        for index in 0..config.cells(ip_bytes) {
            *free += access;
            cells.push(Reverse((*free + access_delay, connection, serial, index)));
        }
    }
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    let mut buffer: VecDeque<(u64, u32)> = VecDeque::new();
    let mut last_departure = 0;
    let whole: Vec<u32> = arrivals.iter().map(|&(_, _, ip_bytes)| config.cells(ip_bytes)).collect();
    while let Some(Reverse((at, connection, serial, index))) = cells.pop() {
        while buffer.front().is_some_and(|&(departure, _)| departure <= at) {
            buffer.pop_front();
        }
        let plain = config.discard == Discard::None;
        let is_lost = matches!(fates.get(&serial), Some(Fate::Dropped(..)));
        if is_lost && !plain {
            continue;
        }
        let (all, own) = (buffer.len(), buffer.iter().filter(|&&(_, owner)| owner == connection).count());
        let mut owners: Vec<u32> = buffer.iter().map(|&(_, owner)| owner).collect();
        owners.sort_unstable();
        owners.dedup();
        let above = all as f64 > f64::floor(0.8 * f64::from(config.buffer_cells));
        let cause = if all == config.buffer_cells as usize {
            Some(DropCause::QueueOverflow)
        } else if index > 0 || !above || plain {
            None
        } else if config.discard == Discard::EarlyPacket {
            Some(DropCause::EarlyPacket)
        } else {
            (own as f64 > 0.8 * (all as f64 / owners.len() as f64)).then_some(DropCause::Selective)
        };
        if let Some(cause) = cause {
            fates.entry(serial).or_insert(Fate::Dropped(at.div_ceil(PICOS_PER_NANO), cause));
            continue;
        }
        last_departure = last_departure.max(at) + service;
        buffer.push_back((last_departure, connection));
        if index + 1 == whole[serial as usize] && !is_lost {
            let far = last_departure.div_ceil(PICOS_PER_NANO) + config.delay.as_nanos();
            fates.insert(serial, Fate::Delivered(far));
        }
    }
    fates
}

fn at_least(free: u64, at_nanos: u64) -> u64 {
    free.max(at_nanos * PICOS_PER_NANO)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_fares_as_with_an_event_per_cell(
        mut arrivals in prop::collection::vec((0..3_000_000_u64, 0..6_u32, 60..2_000_u32), 1..120),
        buffer_cells in 45..200_u32,
        discard in prop_oneof![Just(Discard::None), Just(Discard::EarlyPacket), Just(selective())],
    ) {
        arrivals.sort_unstable();
        let config = wan(buffer_cells, discard);
        let (ours, expected) = (run(&config, 6, &arrivals), reference(&config, 6, &arrivals));
        prop_assert_eq!(ours, expected);
    }
}
