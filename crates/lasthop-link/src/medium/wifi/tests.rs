use lasthop_core::units::Probability;
use lasthop_core::{Bytes, Direction, DropCause, Dscp, Duration, Ecn, Instant, PacketArena, Rate};

use lasthop_core::Packet;

use super::*;
use crate::config::{Standard, WifiQueue};
use crate::testing::{Log, SEED, Seen, at_us, datagram};

const MTU: Bytes = Bytes(1500);

/// Owns a network as the engine does, and records what happens.
struct Air {
    wifi: Wifi,
    arena: PacketArena,
    log: Log,
    sent: u64,
    /// Station and direction of each packet by its serial.
    of: Vec<(usize, Direction)>,
    delivered: Vec<(Instant, u64)>,
}

fn config(standard: Standard) -> WifiConfig {
    WifiConfig { standard, retries: 7, queue: WifiQueue::Fifo, ..WifiConfig::default() }
}

fn station(megabits: f64) -> WifiStation {
    let rate = Some(Rate::from_bits_per_second((megabits * 1e6) as u64));
    WifiStation { rate, ..WifiStation::PLAIN }
}

impl Air {
    fn new(config: &WifiConfig, stations: &[WifiStation]) -> Self {
        let stations: Vec<&WifiStation> = stations.iter().collect();
        Self {
            wifi: Wifi::new(config, &stations, MTU, [Place(0), Place(1)], SEED),
            arena: PacketArena::default(),
            log: Log::default(),
            sent: 0,
            of: Vec::new(),
            delivered: Vec::new(),
        }
    }

    fn send(&mut self, at: Instant, station: usize, direction: Direction) {
        self.send_as(at, station, direction, "BE");
    }

    fn send_as(&mut self, at: Instant, station: usize, direction: Direction, dscp: &str) {
        self.run_until(at);
        self.put(at, station, direction, dscp);
    }

    fn put(&mut self, at: Instant, station: usize, direction: Direction, dscp: &str) {
        let dscp: Dscp = dscp.parse().unwrap();
        let packet = Packet { dscp, ..datagram(self.sent, 1500, Ecn::NotEct) };
        self.sent += 1;
        self.of.push((station, direction));
        let id = self.arena.insert(packet);
        let packets = &mut Packets { now: at, arena: &mut self.arena, observer: &mut self.log };
        self.wifi.handle_packet(id, (station, direction), packets);
    }

    fn run_until(&mut self, until: Instant) -> Vec<u64> {
        let before = self.delivered.len();
        while let Some(due) = self.wifi.next_wakeup().filter(|due| *due <= until) {
            self.step(due);
        }
        self.delivered[before..].iter().map(|(_, serial)| *serial).collect()
    }

    /// Handles what is due; returns the number of packets that were delivered.
    fn step(&mut self, due: Instant) -> usize {
        let before = self.delivered.len();
        self.wifi.handle_wakeup(due, &mut self.arena, &mut self.log);
        while let Some(id) = self.wifi.poll_delivery() {
            self.delivered.push((due, self.arena.get(id).serial));
            self.arena.remove(id);
        }
        self.delivered.len() - before
    }

    /// Times of arrival in microseconds, with the serial numbers.
    fn arrivals(&self) -> Vec<(f64, u64)> {
        self.delivered.iter().map(|(at, serial)| (at.as_nanos() as f64 / 1000.0, *serial)).collect()
    }

    fn times(&self, wanted: impl Fn(Seen) -> bool) -> Vec<(Instant, u64)> {
        self.log.lines.iter().filter(|line| wanted(line.2)).map(|line| (line.0, line.1)).collect()
    }
}

/// Keeps all stations' queues in a direction filled for some seconds; returns what each got or sent, in
/// Mbit/s of IP packets, and the network.
fn saturated(
    config: &WifiConfig,
    stations: &[WifiStation],
    direction: Direction,
    seconds: u64,
) -> (Vec<f64>, Air) {
    let mut air = Air::new(config, stations);
    for _ in 0..130 {
        for station in 0..stations.len() {
            air.put(Instant::ZERO, station, direction, "BE");
        }
    }
    let end = Instant::ZERO + Duration::from_secs(seconds);
    let mut got = vec![0_u64; stations.len()];
    while let Some(due) = air.wifi.next_wakeup().filter(|due| *due <= end) {
        let new = air.step(due);
        air.log.lines.clear();
        for place in air.delivered.len() - new..air.delivered.len() {
            let (station, _) = air.of[air.delivered[place].1 as usize];
            got[station] += 1500;
            air.put(due, station, direction, "BE");
        }
        air.log.lines.clear();
    }
    (got.iter().map(|bytes| *bytes as f64 * 8.0 / seconds as f64 / 1e6).collect(), air)
}

fn near(value: f64, wanted: f64, share: f64) -> bool {
    (value / wanted - 1.0).abs() <= share
}

#[test]
fn a_packet_that_finds_the_air_idle_is_sent_at_once_and_the_next_one_after_a_backoff() {
    let mut air = Air::new(&config(Standard::A), &[station(54.0)]);
    // The slots begin with DIFS after the start.
    air.send(at_us(34 + 7 * 9 + 3), 0, Direction::Up);
    air.send(at_us(200), 0, Direction::Up);
    air.run_until(at_us(2_000));
    let [(first, 0), (second, 1)] = air.arrivals()[..] else { panic!("{:?}", air.arrivals()) };
    // 248 us for 1536 bytes at 54 Mbit/s.
    assert!(near(first, 34.0 + 8.0 * 9.0 + 248.0, 1e-9), "{first}");
    // SIFS, ACK, DIFS, a backoff of 0 to 15 slots, and the same again.
    let slots = (second - first - 16.0 - 28.0 - 34.0 - 248.0) / 9.0;
    assert!(slots.fract() == 0.0 && (0.0..=15.0).contains(&slots), "{slots}");
}

#[test]
fn two_that_come_within_a_slot_collide_and_wait_for_the_answer_that_does_not_come() {
    let mut air = Air::new(&config(Standard::A), &[station(54.0), station(6.0)]);
    air.send(at_us(98), 0, Direction::Up);
    air.send(at_us(105), 1, Direction::Up);
    air.run_until(at_us(10_000));
    // The longer frame takes 20 + 4 * 513 us.
    let failed = air.times(|seen| seen == Seen::Retry);
    assert_eq!(failed, [(at_us(106 + 2_072), 0), (at_us(106 + 2_072), 1)]);
    let &(first, _) = air.delivered.first().unwrap();
    // The acknowledgement timeout of SIFS, a slot and a preamble, then DIFS.
    assert!(first >= at_us(106 + 2_072 + 16 + 9 + 20 + 34 + 248));
    assert_eq!(air.delivered.len(), 2);
}

#[test]
fn another_in_the_same_slot_waits_if_it_can_hear_the_first() {
    let mut air = Air::new(&config(Standard::A), &[station(54.0), station(54.0)]);
    air.send(at_us(100), 0, Direction::Up);
    air.send(at_us(107), 1, Direction::Down);
    air.run_until(at_us(10_000));
    assert_eq!(air.times(|seen| seen == Seen::Retry), []);
    assert_eq!(air.delivered.len(), 2);
}

#[test]
fn after_its_retries_a_packet_is_given_up_and_those_behind_it_are_released() {
    let lossy = WifiStation { error: Probability::new(0.9).unwrap(), ..station(54.0) };
    let setup = WifiConfig { retries: 2, ..config(Standard::N) };
    let mut air = Air::new(&setup, &[lossy]);
    for _ in 0..200 {
        air.send(at_us(0), 0, Direction::Down);
    }
    air.run_until(at_us(10_000_000));
    let given_up = air.times(|seen| seen == Seen::Dropped(DropCause::AirGivenUp));
    // Each with probability 0.9^3.
    assert!((120..=170).contains(&given_up.len()), "{}", given_up.len());
    let serials: Vec<u64> = air.delivered.iter().map(|(_, serial)| *serial).collect();
    assert!(serials.is_sorted() && serials.len() + given_up.len() == 200);
    assert!(air.arena.is_empty() && air.wifi.packets_inside() == 0);
}

#[test]
fn packets_that_wait_for_the_air_leave_in_one_frame_up_to_the_window() {
    let mut air = Air::new(&config(Standard::Ax), &[station(1201.0)]);
    for _ in 0..100 {
        air.send(at_us(43), 0, Direction::Down);
    }
    air.run_until(at_us(100_000));
    let mut frames: Vec<(Instant, usize)> = Vec::new();
    for (at, _) in &air.delivered {
        match frames.last_mut() {
            Some((last, packets)) if last == at => *packets += 1,
            _ => frames.push((*at, 1)),
        }
    }
    assert_eq!(frames.iter().map(|frame| frame.1).collect::<Vec<_>>(), [1, 64, 35]);
}

#[test]
fn in_a_frame_only_lost_packets_are_sent_again_and_later_ones_wait_for_them() {
    let lossy = WifiStation { error: Probability::new(0.3).unwrap(), ..station(65.0) };
    let mut air = Air::new(&config(Standard::N), &[lossy]);
    for _ in 0..60 {
        air.send(at_us(0), 0, Direction::Up);
    }
    air.run_until(at_us(1_000_000));
    let serials: Vec<u64> = air.delivered.iter().map(|(_, serial)| *serial).collect();
    assert_eq!(serials, (0..60).collect::<Vec<_>>());
    let retries = air.times(|seen| seen == Seen::Retry).len();
    // 60 packets, 0.3 / 0.7 of a retry each.
    assert!((12..=42).contains(&retries), "{retries}");
}

#[test]
fn voice_goes_before_what_a_node_has_waiting_and_mostly_before_that_of_others() {
    let mut air = Air::new(&config(Standard::Ac), &[station(78.0), station(78.0)]);
    for _ in 0..200 {
        air.send(at_us(0), 0, Direction::Down);
    }
    air.send_as(at_us(3_000), 1, Direction::Down, "EF");
    air.send_as(at_us(3_000), 1, Direction::Up, "EF");
    air.run_until(at_us(100_000));
    let place = |serial| air.delivered.iter().position(|(_, other)| *other == serial).unwrap();
    // The frame on the air and perhaps one more come first.
    assert!(place(200) < 90 && place(201) < 90, "{} {}", place(200), place(201));
}

#[test]
fn one_station_alone_takes_what_its_frames_and_the_mean_backoff_take() {
    // DIFS, 7.5 slots, data, SIFS and ACK: 393.5 us for a packet.
    let (got, _) = saturated(&config(Standard::A), &[station(54.0)], Direction::Up, 10);
    assert!(near(got[0], 1500.0 * 8.0 / 393.5, 0.01), "{got:?}");
}

#[test]
fn rts_and_cts_cost_their_time() {
    let setup = WifiConfig { rts_threshold: Some(Bytes(0)), ..config(Standard::A) };
    let (got, _) = saturated(&setup, &[station(54.0)], Direction::Up, 10);
    assert!(near(got[0], 1500.0 * 8.0 / (393.5 + 2.0 * (28.0 + 16.0)), 0.01), "{got:?}");
}

#[test]
fn other_networks_take_their_share() {
    let setup = WifiConfig { busy: Probability::new(0.4).unwrap(), ..config(Standard::A) };
    let (got, _) = saturated(&setup, &[station(54.0)], Direction::Up, 20);
    // Some of the idle time of a backoff passes again after each of their frames.
    let alone = 1500.0 * 8.0 / 393.5;
    assert!(near(got[0], 0.6 * alone, 0.05), "{got:?}");
}

#[test]
fn a_slow_station_drags_all_to_its_rate_unless_air_is_shared() {
    let stations = [station(54.0), station(54.0), station(6.0)];
    let got = |queue| {
        let setup = WifiConfig { queue, ..config(Standard::A) };
        saturated(&setup, &stations, Direction::Down, 20).0
    };
    // A packet takes 393.5 us at 54 Mbit/s and 2233.5 us at 6 Mbit/s, 292 us and 2132 us of it on the air.
    // Heusse et al., INFOCOM 2003: with one queue, or turns, all get the same.
    let same = 12_000.0 / (2.0 * 393.5 + 2_233.5);
    for queue in [WifiQueue::Fifo, WifiQueue::FqCodel] {
        let got = got(queue);
        assert!(got.iter().all(|got| near(*got, same, 0.02)), "{got:?} {same}");
    }
    // The same time on the air for each.
    let time = 1.0 / (2.0 * 393.5 / 292.0 + 2_233.5 / 2_132.0);
    let got = got(WifiQueue::Airtime);
    let wanted = [292.0, 292.0, 2_132.0].map(|packet| 12_000.0 * time / packet);
    assert!(got.iter().zip(wanted).all(|(got, wanted)| near(*got, wanted, 0.02)), "{got:?} {wanted:?}");
}

/// The table in ns-3's example `wifi-bianchi`, Bianchi's equation with EIFS: saturated stations, 1500 bytes of payload in
/// 802.11a at 54 Mbit/s.
#[test]
fn saturated_stations_get_what_the_table_of_ns_3_says() {
    for (stations, wanted) in [(5, 29.2861), (10, 27.3763), (20, 25.3325), (50, 22.4162)] {
        let setup = WifiConfig { retries: 255, ..config(Standard::A) };
        let (got, _) = saturated(&setup, &vec![station(54.0); stations], Direction::Up, 20);
        let sum: f64 = got.iter().sum();
        assert!(near(sum, wanted, 0.03), "{stations}: {sum}");
    }
}

/// The equation behind the same table (`bianchi11ax.py`) for 802.11ax, MCS 11, without aggregation, but with
/// the standard's times: best effort waits for three slots after SIFS, EIFS has an ACK at 6 Mbit/s. The table
/// has two slots and 24 Mbit/s, so it is 1.5 to 4.2 % higher.
#[test]
fn saturated_stations_of_ax_get_what_the_equation_of_ns_3s_table_says() {
    for (stations, wanted) in [(5, 41.1814), (10, 38.3809), (20, 35.329), (50, 30.9263)] {
        let setup = WifiConfig { retries: 255, max_mpdus: Some(1), ..config(Standard::Ax) };
        let (got, _) = saturated(&setup, &vec![station(143.4); stations], Direction::Up, 20);
        let sum: f64 = got.iter().sum();
        assert!(near(sum, wanted, 0.02), "{stations}: {sum}");
    }
}
