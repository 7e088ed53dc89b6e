//! Packets of 1500 bytes take 1 ms; an interval of 2 ms has room for two. A grant takes 4 ms.

use lasthop_core::{Bytes, Ecn, Faults, PacketArena, Probability, Seed};
use proptest::prelude::*;

use super::*;
use crate::config::{BufferRelease, CoDelConfig, DisciplineConfig, PathConfig, QueueConfig, RequestKind};
use crate::discipline::Outlet;
use crate::testing::{Lab, Log, SEED, Seen, datagram, drop_tail, ms, studied_path};

const RATE: Rate = Rate::from_bits_per_second(12_000_000);
const MTU: u64 = 1_500;

fn grant() -> GrantConfig {
    GrantConfig {
        interval: Duration::from_millis(2),
        delay: Duration::from_millis(4),
        request: RequestKind::Contention,
        period: None,
        collision: None,
        proactive: None,
    }
}

fn path(grant: GrantConfig) -> PathConfig {
    let mut path = PathConfig { queue: drop_tail(1_000), grant: Some(grant), ..studied_path() };
    (path.link.rate, path.link.delay, path.link.send_buffer) = (RATE, Duration::ZERO, Bytes(MTU));
    path.link.overhead = lasthop_core::Distribution::Static(Duration::ZERO);
    path.link.release = BufferRelease::Serialised;
    assert_eq!(Faults::collect(|faults| path.check(Bytes(MTU), faults)), []);
    path
}

/// The times in microseconds at which packets arrive that were sent at these times; (time, bytes).
fn trace(grant: GrantConfig, sent: &[(u64, u32)]) -> Vec<u64> {
    let mut lab = Lab::new(&path(grant), None);
    for &(at_us, bytes) in sent {
        lab.send(Instant::ZERO + Duration::from_micros(at_us), bytes, Ecn::NotEct);
    }
    lab.run();
    assert!(lab.arena.is_empty());
    lab.delivered().iter().map(|(at, _)| at.as_nanos() / 1_000).collect()
}

#[test]
fn a_packet_waits_for_an_opportunity_to_ask_and_for_its_grant() {
    // Asked for at 2 ms, granted in the interval that begins at 6 ms.
    assert_eq!(trace(grant(), &[(1_000, 1_500)]), [7_000]);
    // Just in time for the request at 2 ms, and just too late.
    assert_eq!(trace(grant(), &[(2_000, 1_500)]), [7_000]);
    assert_eq!(trace(grant(), &[(2_001, 1_500)]), [9_000]);
}

#[test]
fn a_grant_comes_in_the_first_interval_after_the_delay() {
    let delay = Duration::from_micros(4_001);
    assert_eq!(trace(GrantConfig { delay, ..grant() }, &[(1_000, 1_500)]), [9_000]);
}

#[test]
fn one_request_is_for_all_that_waits_and_slots_follow_each_other() {
    assert_eq!(trace(grant(), &[(1_000, 1_500); 5]), [7_000, 8_000, 9_000, 10_000, 11_000]);
    // A packet begins in one interval and ends in the next one, without a gap.
    assert_eq!(trace(grant(), &[(1_000, 900); 5]), [6_600, 7_200, 7_800, 8_400, 9_000]);
}

#[test]
fn what_comes_after_the_request_asks_at_the_next_opportunity() {
    assert_eq!(trace(grant(), &[(1_000, 1_500), (3_000, 1_500)]), [7_000, 9_000]);
}

#[test]
fn data_in_a_slot_ask_for_what_waits_behind_them() {
    // The second packet came before the slot at 6 ms, whose header asks for it; no request is lost to
    // contention any more.
    let collision = Some(Probability::new(0.999_999).unwrap());
    let mut lab = Lab::new(&path(grant()), None);
    lab.send(ms(1), 1_500, Ecn::NotEct);
    lab.send(ms(5), 1_500, Ecn::NotEct);
    lab.run();
    let arrived: Vec<_> = lab.delivered().iter().map(|line| line.0).collect();
    assert_eq!(arrived, [ms(7), ms(11)]);
    // With a slot in each interval, it is never necessary to contend.
    let proactive = Some(Rate::from_bits_per_second(400_000));
    let grant = GrantConfig { collision, proactive, ..grant() };
    assert_eq!(trace(grant, &[(1_000, 1_500)]), [6_866]);
}

#[test]
fn a_link_that_is_granted_as_a_whole_is_never_asked_for() {
    // The slot that had begun is lost; from 2 ms on, each interval is a slot.
    let grant = GrantConfig { proactive: Some(RATE), ..grant() };
    assert_eq!(trace(grant, &[(1_000, 1_500); 3]), [3_000, 4_000, 5_000]);
}

#[test]
fn a_slot_without_data_is_lost() {
    // 750 bytes are granted at the beginning of each interval. At 2 ms nothing waits.
    let proactive = Some(Rate::from_bits_per_second(3_000_000));
    let grant = GrantConfig { proactive, ..grant() };
    assert_eq!(trace(grant.clone(), &[(2_000, 150)]), [2_100]);
    assert_eq!(trace(grant.clone(), &[(2_001, 150)]), [4_100]);
    // The rest of a slot is still there while a packet before is on its way, and lost after it.
    assert_eq!(trace(grant.clone(), &[(2_000, 150), (2_099, 150)]), [2_100, 2_200]);
    assert_eq!(trace(grant, &[(2_000, 150), (2_101, 150)]), [2_100, 4_100]);
}

#[test]
fn a_packet_may_begin_in_one_slot_and_end_in_another() {
    let proactive = Some(Rate::from_bits_per_second(3_000_000));
    let grant = GrantConfig { proactive, ..grant() };
    // 750 bytes at 2 ms, and 750 bytes at 4 ms.
    assert_eq!(trace(grant.clone(), &[(1_000, 1_500)]), [4_500]);
    // Nothing overtakes the packet that has begun. At 2 ms its header requests the rest and the waiting packets:
    // that comes at 6 ms, behind the slot without a request.
    assert_eq!(trace(grant, &[(1_000, 1_500), (1_500, 750)]), [4_500, 6_500]);
}

#[test]
fn the_rest_of_a_packet_that_nothing_grants_is_asked_for() {
    // Of 1500 bytes, 100 leave at 2 ms, 4 ms and 6 ms each. The header at 2 ms asks for the other 1400, which
    // come at 6 ms behind the 100 without a request; 1200 of them are needed.
    let proactive = Some(Rate::from_bits_per_second(400_000));
    assert_eq!(trace(GrantConfig { proactive, ..grant() }, &[(1_000, 1_500)]), [6_866]);
}

#[test]
fn a_reserved_opportunity_comes_once_a_period() {
    let period = Some(Duration::from_millis(10));
    let reserved = GrantConfig { request: RequestKind::Reserved, period, ..grant() };
    assert_eq!(trace(reserved.clone(), &[(1_000, 1_500)]), [15_000]);
    // What comes while data flow asks in their headers: at 14 ms, for 18 ms.
    assert_eq!(trace(reserved, &[(1_000, 1_500), (12_000, 1_500)]), [15_000, 19_000]);
}

/// The delays in milliseconds of lone packets that arrive at any phase of interval and period.
fn delays(grant: &GrantConfig) -> Vec<f64> {
    const COUNT: usize = 4_000;
    let mut stream = Seed { study: 46, replication: 1 }.stream("phases");
    let gap = |stream: &mut RandomStream| Duration::from_nanos(400_000_000 + (stream.unit() * 2e7) as u64);
    let mut lab = Lab::new(&path(grant.clone()), None);
    let mut sent = vec![Instant::ZERO + gap(&mut stream)];
    while sent.len() < COUNT {
        sent.push(sent[sent.len() - 1] + gap(&mut stream));
    }
    for &at in &sent {
        lab.send(at, 1_500, Ecn::NotEct);
    }
    lab.run();
    let delivered = lab.delivered();
    assert_eq!(delivered.len(), COUNT);
    let times = delivered.iter().zip(&sent).map(|((to, _), from)| to.saturating_since(*from));
    times.map(|time| time.as_secs_f64() * 1e3).collect()
}

/// Mean, least and most.
fn spread(delays: &[f64]) -> (f64, f64, f64) {
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    (mean, delays.iter().copied().fold(f64::MAX, f64::min), delays.iter().copied().fold(0.0, f64::max))
}

/// An idle link by hand: the wait for an opportunity is uniform in a period P; from there to the first
/// interval I after the delay D it is a whole number of intervals, as P is; then comes the packet. The mean
/// is P/2 + I ceil(D/I) + b/R, and the delays spread over P.
#[test]
fn the_delay_of_an_idle_link_is_that_of_queueing_theory() {
    let micros = Duration::from_micros;
    for (interval, delay, period) in [
        (2_000, 4_000, None),
        (2_000, 1_700, None),
        (1_000, 8_000, Some(10_000)),
        (1_000, 3_500, Some(5_000)),
    ] {
        let config = GrantConfig {
            interval: micros(interval),
            delay: micros(delay),
            request: if period.is_some() { RequestKind::Reserved } else { RequestKind::Contention },
            period: period.map(micros),
            ..grant()
        };
        let (mean, least, most) = spread(&delays(&config));
        let period = period.unwrap_or(interval) as f64 / 1e3;
        let granted = (delay.div_ceil(interval) * interval) as f64 / 1e3;
        let bound = 4.0 * period / 12_f64.sqrt() / 4_000_f64.sqrt();
        assert!((mean - (period / 2.0 + granted + 1.0)).abs() < bound, "{mean} of {config:?}");
        assert!(least >= granted + 1.0 && least < granted + 1.0 + period / 100.0, "{least}");
        assert!(most <= granted + 1.0 + period && most > granted + 1.0 + 0.99 * period, "{most}");
    }
}

/// A request collides with probability p. Its loss is known after the delay, 2 intervals here; then come 0
/// to 1 opportunities for nothing after the first collision, 0 to 3 after the second one, and so on up to 15:
/// on average 2 + (w - 1)/2 intervals for a window of w.
#[test]
fn each_collision_takes_the_delay_and_a_backoff_from_a_doubled_window() {
    let p = 0.3;
    let config = GrantConfig { collision: Some(Probability::new(p).unwrap()), ..grant() };
    let delays = delays(&config);
    let unhurt = delays.iter().filter(|delay| **delay <= 7.0).count() as f64 / delays.len() as f64;
    assert!((unhurt - 0.7).abs() < 0.03, "{unhurt}");
    let extra: f64 = (1..60)
        .map(|n| libm::pow(p, f64::from(n)) * (2.0 + (f64::from(1 << n.min(4)) - 1.0) / 2.0) * 2.0)
        .sum();
    let (mean, ..) = spread(&delays);
    assert!((mean - (6.0 + extra)).abs() < 0.3, "{mean}, not {}", 6.0 + extra);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: &dyn Fn(&mut PathConfig)| {
        let mut config = path(grant());
        change(&mut config);
        let fault = Faults::collect(|faults| config.check(Bytes(MTU), faults)).remove(0);
        (fault.key, fault.message)
    };
    let with = |change: &dyn Fn(&mut GrantConfig)| refused(&|path| path.grant.iter_mut().for_each(change)).0;
    assert_eq!(with(&|grant| grant.interval = Duration::ZERO), "grant.interval");
    assert_eq!(with(&|grant| grant.interval = Duration::from_nanos(600)), "grant.interval");
    assert_eq!(with(&|grant| grant.interval = Duration::from_secs(1)), "grant.interval");
    assert_eq!(with(&|grant| grant.period = Some(Duration::from_millis(5))), "grant.period");
    assert_eq!(with(&|grant| grant.request = RequestKind::Reserved), "grant.period");
    assert_eq!(
        with(&|grant| grant.proactive = Some(Rate::from_bits_per_second(12_000_001))),
        "grant.proactive"
    );
    assert_eq!(with(&|grant| grant.collision = Some(Probability::ONE)), "grant.collision");
    let (key, message) = refused(&|path| path.link.framing = Some(crate::Framing::Atm));
    assert_eq!(key, "grant");
    assert!(message.contains("link.framing"), "{message}");
    let (_, message) = refused(&|path| {
        path.link.change = vec![crate::testing::change((5, (1_000, 1)))];
    });
    assert!(message.contains("link.change"), "{message}");
}

/// A queue, and a link that sends one packet after the other: when packets begin, and how long they are.
struct Sender {
    granted: Granted,
    arena: PacketArena,
    log: Log,
    sent: Vec<(Instant, u64, u32)>,
    busy: Instant,
    wait: Wait,
}

impl Sender {
    fn run_until(&mut self, until: Instant) {
        while let due = self.wait.end()
            && due <= until
        {
            self.fill(due);
        }
    }

    fn fill(&mut self, now: Instant) {
        let mut packets = Packets { now, arena: &mut self.arena, observer: &mut self.log };
        self.wait = loop {
            match self.granted.dequeue(MTU, &mut packets) {
                Ok(Dequeued { id, ip_bytes, .. }) => {
                    // Slots have whole bytes, and times whole nanoseconds.
                    assert!(self.busy <= now + RATE.transmission_time(2), "the link is busy");
                    self.busy = now + RATE.transmission_time(ip_bytes);
                    self.sent.push((now, packets.arena.get(id).serial, ip_bytes));
                    packets.arena.remove(id);
                }
                Err(wait) => break wait,
            }
        };
    }
}

prop_compose! {
    fn grants()(
        interval_us in 250_u64..5_000,
        delay_us in 1_000_u64..10_000,
        period_us in prop::option::of(500_u64..20_000),
        collision in prop::option::of(0.0..0.9),
        proactive in prop::option::of(1_000_u64..=12_000_000),
    ) -> GrantConfig {
        GrantConfig {
            interval: Duration::from_micros(interval_us),
            delay: Duration::from_micros(delay_us),
            request: if period_us.is_some() { RequestKind::Reserved } else { RequestKind::Contention },
            period: period_us.map(|period_us| Duration::from_micros(period_us.max(interval_us))),
            collision: collision.filter(|_| period_us.is_none()).map(|p| Probability::new(p).unwrap()),
            proactive: proactive.map(Rate::from_bits_per_second),
        }
    }
}

proptest! {
    #[test]
    fn packets_keep_their_order_and_no_byte_leaves_outside_of_a_grant(
        config in grants(),
        codel in any::<bool>(),
        arrivals in prop::collection::vec(
            (prop_oneof![Just(0), 0_u64..3_000, 0_u64..100_000], 28_u32..=1_500), 1..150,
        ),
    ) {
        let codel = codel.then(|| DisciplineConfig::Codel(CoDelConfig::default()));
        let queue = QueueConfig { discipline: codel.unwrap_or_default(), ..drop_tail(40) };
        let outlet = Outlet { rate: RATE, framing: None, mtu: Bytes(MTU) };
        let queue = Queue::new(&queue, outlet, SEED.stream("queue"));
        let granted = Granted::new(&config, RATE, queue, SEED.stream("grant"));
        let mut sender = Sender {
            granted, arena: PacketArena::default(), log: Log::default(), sent: Vec::new(),
            busy: Instant::ZERO, wait: Wait::ARRIVAL,
        };
        let (mut at, mut came) = (Instant::ZERO, Vec::new());
        for (serial, (gap_us, bytes)) in arrivals.into_iter().enumerate() {
            at += Duration::from_micros(gap_us);
            sender.run_until(at);
            let id = sender.arena.insert(datagram(serial as u64, bytes, Ecn::NotEct));
            let mut packets = Packets { now: at, arena: &mut sender.arena, observer: &mut sender.log };
            let depth = sender.granted.enqueue(id, &mut packets);
            came.push(at);
            if depth.is_some_and(|depth| depth.class_packets == 1) || sender.wait.is_over(at, MTU) {
                sender.fill(at);
            }
        }
        sender.run_until(Instant::from_nanos(u64::MAX / 2));
        let dropped = sender.log.lines.iter().filter(|line| matches!(line.2, Seen::Dropped(_))).count();
        prop_assert_eq!(sender.sent.len() + dropped, came.len());
        prop_assert!(sender.arena.is_empty() && sender.granted.depth().packets == 0);
        prop_assert!(sender.sent.is_sorted_by_key(|line| line.1));
        let grants = &sender.granted.grants;
        for &(start, serial, bytes) in &sender.sent {
            let end = start + RATE.transmission_time(bytes);
            // The last byte, or the one before it: slots have whole bytes, and times whole nanoseconds.
            let last = end.as_nanos() - RATE.transmission_time(1).as_nanos();
            let (interval, since) = (last / grants.interval.as_nanos(), last % grants.interval.as_nanos());
            let place = since as f64 * 12e6 / 8e9;
            let unasked = Slot { interval, offset: 0, bytes: grants.bytes_of(grants.proactive, interval) };
            let mut slots = grants.handed_out.iter().filter(|slot| slot.interval == interval);
            let holds = |slot: &Slot| {
                let from = f64::from(slot.offset);
                slot.bytes > 0 && from - 1.0 < place && place < from + f64::from(slot.bytes)
            };
            prop_assert!(holds(&unasked) || slots.any(holds), "{serial} ends outside of a grant");
            if grants.proactive == 0 {
                let asked = came[serial as usize] + grants.delay;
                let first = asked.as_nanos().div_ceil(grants.interval.as_nanos()) * grants.interval.as_nanos();
                prop_assert!(end.as_nanos() > first, "{serial} leaves before its grant could come");
            }
        }
    }
}
