//! Slots by hand. In most tests a slot is 1 ms, and 12 Mbit/s are 1500 bytes in each.

use lasthop_core::units::QueueSize;
use lasthop_core::{
    Direction, DropCause, Duration, Ecn, Instant, Packet, PacketArena, Place, Probability, Rate,
};

use super::Cell;
use crate::config::{CellConfig, CellUp, CellUser, DrxConfig, HarqConfig, Scheduler};
use crate::discipline::Packets;
use crate::testing::{Line, Log, SEED, Seen, at_us, datagram, ms};
use crate::timetable::Timetable;

const MEGABIT: u64 = 1_000_000;

fn config(scheduler: Scheduler) -> CellConfig {
    CellConfig {
        tti: Duration::from_millis(1),
        scheduler,
        window: None,
        delay: Duration::ZERO,
        limit: QueueSize::Packets(1_000_000),
        harq: None,
        drx: None,
    }
}

fn user(bits_per_second: u64) -> CellUser {
    CellUser { rate: Some(Rate::from_bits_per_second(bits_per_second)), course: None, up: None }
}

/// A user with these rates, slot by slot.
fn fading(rates: impl IntoIterator<Item = u64>) -> CellUser {
    let rows = rates
        .into_iter()
        .enumerate()
        .map(|(at_ms, rate)| format!("{}.{:03},{rate}\n", at_ms / 1000, at_ms % 1000));
    let text = format!("time_s,rate_bps\n{}", rows.collect::<String>());
    CellUser { rate: None, course: Some(Timetable::parse(&text).unwrap()), up: None }
}

/// Errors so likely that the seed decides which tries fail: none is certain.
fn harq(error: f64, tries: u32) -> HarqConfig {
    HarqConfig { error: Probability::new(error).unwrap(), round_trip: None, tries }
}

/// A cell with an owner that records what happens.
struct Lab {
    cell: Cell,
    arena: PacketArena,
    log: Log,
    sent: u64,
    wakeups: u64,
}

impl Lab {
    fn new(config: &CellConfig, users: &[CellUser]) -> Self {
        let users: Vec<&CellUser> = users.iter().collect();
        let cell = Cell::new(config, &users, [Place(0), Place(1)], SEED);
        Self { cell, arena: PacketArena::default(), log: Log::default(), sent: 0, wakeups: 0 }
    }

    /// A packet for a user; serial numbers count from 0.
    fn down(&mut self, at: Instant, user: usize, ip_bytes: u32) {
        self.send(at, user, ip_bytes, Direction::Down);
    }

    fn send(&mut self, at: Instant, user: usize, ip_bytes: u32, direction: Direction) {
        self.run_until(at);
        let id = self.arena.insert(Packet { direction, ..datagram(self.sent, ip_bytes, Ecn::NotEct) });
        self.sent += 1;
        let packets = &mut Packets { now: at, arena: &mut self.arena, observer: &mut self.log };
        self.cell.handle_packet(id, (user, direction), packets);
    }

    fn run_until(&mut self, until: Instant) {
        while let Some(due) = self.cell.next_wakeup().filter(|due| *due <= until) {
            self.wakeups += 1;
            self.cell.handle_wakeup(due, &mut self.arena, &mut self.log);
            while let Some(id) = self.cell.poll_delivery() {
                let packet = self.arena.get(id);
                self.log.lines.push((due, packet.serial, Seen::Delivered));
                self.arena.remove(id);
            }
        }
    }

    fn lines(mut self, of: fn(Seen) -> bool) -> Vec<(u64, u64)> {
        self.run_until(Instant::MAX);
        assert_eq!(self.cell.packets_inside(), 0);
        let lines = self.log.lines.iter().filter(|line: &&Line| of(line.2));
        lines.map(|(at, serial, _)| (at.as_nanos() / 1_000_000, *serial)).collect()
    }

    /// Times in milliseconds and serial numbers.
    fn delivered(self) -> Vec<(u64, u64)> {
        self.lines(|seen| seen == Seen::Delivered)
    }
}

/// Bits per second of each user of a cell whose queues never run dry.
fn saturated(config: &CellConfig, users: &[CellUser], slots: u64) -> Vec<f64> {
    let mut lab = Lab::new(config, users);
    for user in 0..users.len() {
        // Serial numbers: the user is the remainder.
        lab.down(Instant::ZERO, user, 1500);
    }
    let count = users.len() as u64;
    let mut got = vec![0.0; users.len()];
    let mut seen = 0;
    for slot in 0..slots {
        for user in 0..users.len() {
            while lab.cell.sides[0].bearers[user].backlog() < 30_000 {
                lab.sent = lab.sent / count * count + count + user as u64;
                lab.down(ms(slot), user, 1500);
                lab.sent -= 1;
            }
        }
        lab.run_until(ms(slot + 1));
        for (_, serial, what) in &lab.log.lines[seen..] {
            if *what == Seen::Delivered {
                got[(*serial % count) as usize] += 12_000.0;
            }
        }
        seen = lab.log.lines.len();
    }
    got.iter().map(|bits| bits / (slots as f64 * 0.001)).collect()
}

#[test]
fn packets_leave_in_slots_and_are_cut_and_joined() {
    // 6 Mbit/s are 750 bytes a slot. The first packet arrives in the slot from 0 and goes in those from 1 and
    // 2 ms. The second one takes the second half of its last block.
    let mut lab = Lab::new(&config(Scheduler::RoundRobin), &[user(6 * MEGABIT)]);
    lab.down(at_us(300), 0, 1125);
    lab.down(at_us(400), 0, 375);
    lab.down(ms(5), 0, 40);
    assert_eq!(lab.delivered(), [(3, 0), (3, 1), (7, 2)]);
}

#[test]
fn bytes_that_do_not_fit_a_slot_are_not_lost_to_rounding() {
    // 100 kbit/s are 12.5 bytes a slot: 100 bytes take eight slots, not nine.
    let mut lab = Lab::new(&config(Scheduler::ProportionalFair), &[user(100_000)]);
    lab.down(Instant::ZERO, 0, 100);
    assert_eq!(lab.delivered(), [(9, 0)]);
}

#[test]
fn an_empty_cell_does_not_wake() {
    let mut lab = Lab::new(&config(Scheduler::ProportionalFair), &[user(12 * MEGABIT), user(12 * MEGABIT)]);
    lab.down(Instant::ZERO, 0, 1500);
    lab.down(ms(60_000), 1, 1500);
    lab.run_until(Instant::MAX);
    // The slot, and the end of it, twice.
    assert_eq!(lab.wakeups, 4);
}

#[test]
fn round_robin_divides_a_slot_and_leaves_nothing_over() {
    // The first user needs 300 of the 1500 bytes, so the two others get 600 each.
    let users = [user(12 * MEGABIT), user(12 * MEGABIT), user(12 * MEGABIT)];
    let mut lab = Lab::new(&config(Scheduler::RoundRobin), &users);
    for (user, ip_bytes) in [(0, 300), (1, 600), (2, 600), (1, 100)] {
        lab.down(Instant::ZERO, user, ip_bytes);
    }
    assert_eq!(lab.delivered(), [(2, 0), (2, 2), (2, 1), (3, 3)]);
}

#[test]
fn n_users_get_an_nth_each() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::ProportionalFair] {
        for count in [1, 2, 3, 5, 10, 40] {
            let users = vec![user(12 * MEGABIT); count];
            for got in saturated(&config(scheduler), &users, 4_000) {
                let share = 12e6 / count as f64;
                assert!((got / share - 1.0).abs() < 0.02, "{count} {scheduler:?}: {got} for {share}");
            }
        }
    }
}

#[test]
fn with_steady_rates_both_schedulers_give_equal_times_not_equal_rates() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::ProportionalFair] {
        let got = saturated(&config(scheduler), &[user(20 * MEGABIT), user(5 * MEGABIT)], 4_000);
        assert!((got[0] / 10e6 - 1.0).abs() < 0.02, "{scheduler:?}: {got:?}");
        assert!((got[1] / 2.5e6 - 1.0).abs() < 0.02, "{scheduler:?}: {got:?}");
    }
}

#[test]
fn proportional_fairness_rides_the_crests_of_rayleigh_fading() {
    // With exponential rates that are independent from slot to slot, the best of n users has 1 + 1/2 + ... +
    // 1/n times the mean rate (Viswanath, Tse and Laroia 2002). The mean of the second user is a quarter of
    // the others'; it gains as much over its own.
    let slots = 20_000;
    let mut stream = SEED.stream("fading");
    let mut draw = |mean: f64| -> Vec<u64> {
        let rates = (0..slots).map(|_| -mean * libm::log(1.0 - stream.unit()));
        rates.map(|rate| (rate as u64).max(1000)).collect()
    };
    let config = CellConfig { window: Some(Duration::from_secs(1)), ..config(Scheduler::ProportionalFair) };
    for count in [1, 2, 4, 8] {
        let means: Vec<f64> = (0..count).map(|user| if user == 1 { 2e6 } else { 8e6 }).collect();
        let users: Vec<CellUser> = means.iter().map(|mean| fading(draw(*mean))).collect();
        let got = saturated(&config, &users, slots);
        let gain: f64 = got.iter().zip(&means).map(|(got, mean)| got / mean).sum();
        let known: f64 = (1..=count).map(|k| 1.0 / f64::from(k)).sum();
        assert!((gain / known - 1.0).abs() < 0.04, "{count} users: {gain}, known {known}");
        for (got, mean) in got.iter().zip(&means) {
            let own = got / mean * f64::from(count) / known;
            assert!((own - 1.0).abs() < 0.1, "{count} users: {own} of its share");
        }
    }
    // Round-robin does not see the crests.
    let config = CellConfig { scheduler: Scheduler::RoundRobin, window: None, ..config };
    let users: Vec<CellUser> = (0..4).map(|_| fading(draw(8e6))).collect();
    let gain: f64 = saturated(&config, &users, slots).iter().map(|got| got / 8e6).sum();
    assert!((gain - 1.0).abs() < 0.04, "{gain}");
}

#[test]
fn a_failed_block_returns_after_a_round_trip_and_holds_back_what_follows() {
    // One packet per slot. Each failed try adds 8 slots; the packets leave in order.
    let mut cell = config(Scheduler::RoundRobin);
    cell.harq = Some(harq(0.3, 4));
    cell.delay = Duration::from_millis(2);
    let mut lab = Lab::new(&cell, &[user(12 * MEGABIT)]);
    for _ in 0..40 {
        lab.down(Instant::ZERO, 0, 1500);
    }
    lab.run_until(Instant::MAX);
    let when = |wanted: fn(Seen) -> bool| -> Vec<(u64, u64)> {
        let lines = lab.log.lines.iter().filter(|line| wanted(line.2));
        lines.map(|(at, serial, _)| (at.as_nanos() / 1_000_000, *serial)).collect()
    };
    let begun = when(|seen| matches!(seen, Seen::Dequeued(_)));
    let failed = when(|seen| seen == Seen::Retry);
    assert!(failed.len() > 5, "{failed:?}");
    // What has failed comes first, so nothing new begins in the slot a round trip after a failure.
    for (at, _) in &failed {
        assert!(!begun.iter().any(|(slot, _)| *slot == at + 8), "{at}: {begun:?}");
    }
    // A packet leaves 3 ms after its last try: one slot and the delay. Later ones wait for it.
    let mut latest = 0;
    for (at, serial) in when(|seen| seen == Seen::Delivered) {
        let first = begun.iter().find(|one| one.1 == serial).unwrap().0;
        let tries = failed.iter().filter(|one| one.1 == serial).count() as u64;
        latest = latest.max(first + 8 * tries + 3);
        assert_eq!(at, latest, "packet {serial}");
    }
}

#[test]
fn a_block_that_fails_in_each_try_takes_its_packets_with_it() {
    let mut cell = config(Scheduler::RoundRobin);
    cell.harq = Some(harq(0.5, 1));
    let mut lab = Lab::new(&cell, &[user(12 * MEGABIT)]);
    for _ in 0..1000 {
        lab.down(Instant::ZERO, 0, 1000);
    }
    lab.run_until(Instant::MAX);
    let count = |of| lab.log.lines.iter().filter(|line| line.2 == of).count();
    let (lost, delivered) = (count(Seen::Dropped(DropCause::AirGivenUp)), count(Seen::Delivered));
    assert_eq!(lost + delivered, 1000);
    // Blocks have 1500 bytes. Of three packets, two lie in one block each, and half of them get through; the
    // one between them lies in both, and a quarter do.
    assert!((delivered as f64 / 1000.0 - (0.5 + 0.5 + 0.25) / 3.0).abs() < 0.05, "{delivered}");
    assert_eq!(lab.arena.len(), 0);
}

#[test]
fn each_try_fails_with_the_next_power_of_the_first_ones_error() {
    let mut cell = config(Scheduler::RoundRobin);
    cell.harq = Some(harq(0.5, 3));
    let mut lab = Lab::new(&cell, &[user(12 * MEGABIT)]);
    for _ in 0..20_000 {
        lab.down(Instant::ZERO, 0, 1500);
    }
    lab.run_until(Instant::MAX);
    let count = |of| lab.log.lines.iter().filter(|line| line.2 == of).count() as f64 / 20_000.0;
    // Half fail once, an eighth twice, and a 64th three times.
    assert!((count(Seen::Retry) - (0.5 + 0.125)).abs() < 0.015, "{}", count(Seen::Retry));
    let lost = count(Seen::Dropped(DropCause::AirGivenUp));
    assert!((lost - 1.0 / 64.0).abs() < 0.004, "{lost}");
}

#[test]
fn small_packets_see_the_delay_that_3gpp_computes() {
    // TR 36.912, annex B.2: processing at both ends 1 and 1.5 ms, half a slot until the next one begins, the
    // slot; and a tenth of the blocks 8 ms later. That is 4.8 ms.
    let mut cell = config(Scheduler::ProportionalFair);
    cell.harq = Some(harq(0.1, 4));
    cell.delay = Duration::from_micros(2_500);
    let mut lab = Lab::new(&cell, &[user(12 * MEGABIT)]);
    let mut stream = SEED.stream("arrivals");
    let starts: Vec<Instant> = (0..20_000)
        .map(|number| ms(100 * number) + Duration::from_nanos((stream.unit() * 1e6) as u64))
        .collect();
    for start in &starts {
        lab.down(*start, 0, 100);
    }
    lab.run_until(Instant::MAX);
    let delivered = lab.log.lines.iter().filter(|line| line.2 == Seen::Delivered);
    let delays = delivered.map(|(at, serial, _)| (*at - starts[*serial as usize]).as_secs_f64());
    let mean = delays.sum::<f64>() / 20_000.0;
    // A hundredth of the tenth fails again, and some again.
    assert!((mean - 4.808e-3).abs() < 0.04e-3, "{mean}");
}

#[test]
fn directions_do_not_share_slots_and_up_has_rates_of_its_own() {
    let up = Some(CellUp { rate: Some(Rate::from_bits_per_second(6 * MEGABIT)), course: None });
    let users = [CellUser { up, ..user(12 * MEGABIT) }];
    let mut lab = Lab::new(&config(Scheduler::RoundRobin), &users);
    lab.send(Instant::ZERO, 0, 1500, Direction::Down);
    lab.send(Instant::ZERO, 0, 1500, Direction::Up);
    assert_eq!(lab.delivered(), [(2, 0), (3, 1)]);
}

#[test]
fn nothing_passes_where_a_course_is_zero() {
    let mut lab = Lab::new(
        &config(Scheduler::ProportionalFair),
        &[fading([12_000_000, 12_000_000, 0, 0, 0, 6_000_000]), user(12 * MEGABIT)],
    );
    for user in [0, 0, 1] {
        lab.down(Instant::ZERO, user, 1500);
    }
    // The other user has its turn meanwhile.
    assert_eq!(lab.delivered(), [(2, 0), (3, 2), (7, 1)]);
}

#[test]
fn a_user_sleeps_between_its_on_durations() {
    // Cycles of 40 ms with 4 ms on; 10 ms after something new. The second user's begin 20 ms later.
    let mut cell = config(Scheduler::RoundRobin);
    let [on, inactivity, cycle] = [4, 10, 40].map(Duration::from_millis);
    cell.drx = Some(DrxConfig { on, inactivity, cycle });
    let mut lab = Lab::new(&cell, &[user(12 * MEGABIT), user(12 * MEGABIT)]);
    // It is on until 4 ms; then this one keeps it awake until 13 ms.
    lab.down(ms(1), 0, 100);
    lab.down(ms(11), 0, 100);
    // That one did until 23 ms; the next one waits for the cycle.
    lab.down(ms(23), 0, 100);
    lab.down(ms(24), 1, 100);
    // The way up does not sleep, and wakes the user.
    lab.send(ms(60), 0, 100, Direction::Up);
    lab.down(ms(64), 0, 100);
    assert_eq!(lab.delivered(), [(3, 0), (13, 1), (41, 2), (61, 3), (62, 4), (66, 5)]);
}

#[test]
fn each_user_has_a_queue_of_its_own() {
    let mut cell = config(Scheduler::RoundRobin);
    cell.limit = QueueSize::Packets(2);
    let mut lab = Lab::new(&cell, &[user(12 * MEGABIT), user(12 * MEGABIT)]);
    for user in [0, 0, 0, 1] {
        lab.down(Instant::ZERO, user, 1500);
    }
    assert_eq!(lab.cell.queue_depth(Direction::Down).packets, 3);
    let dropped = lab.lines(|seen| seen == Seen::Dropped(DropCause::QueueOverflow));
    assert_eq!(dropped, [(0, 2)]);
}
