//! The same last hop, computed packet by packet without events: slow but obvious.

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, DropCause, Duration, Ecn, Instant};
use proptest::prelude::*;

use crate::config::{ArqConfig, BufferRelease, ErrorConfig, LinkChange, PathConfig, StateLookup};
use crate::errors::{LinkState, StateTimeline};
use crate::testing::{Lab, SEED, at_us, change, errors, studied_path};

/// Every time of an accepted packet's life.
struct Life {
    serial: u64,
    ip_bytes: u64,
    /// Entry into the send buffer.
    buffered: Instant,
    serialised: Instant,
    /// Loss, or release at the far side.
    fate: Result<Instant, (Instant, DropCause)>,
    /// When it, or its tombstone, is released in order.
    released: Instant,
    /// Its bytes leave the send buffer.
    freed: Instant,
}

struct Reference<'a> {
    config: &'a PathConfig,
    errors: &'a ErrorConfig,
    timeline: StateTimeline,
    lives: Vec<Life>,
    overflows: Vec<(Instant, u64)>,
}

impl Reference<'_> {
    fn occupied(&self, at: Instant) -> u64 {
        self.lives.iter().filter(|life| life.freed > at).map(|life| life.ip_bytes).sum()
    }

    /// Queued packets and bytes at `at`.
    fn queued(&self, at: Instant) -> (u64, u64) {
        let queued = self.lives.iter().filter(|life| life.buffered > at);
        queued.fold((0, 0), |(packets, bytes), life| (packets + 1, bytes + life.ip_bytes))
    }

    /// The earliest time, not before `from`, at which the buffer has room.
    fn room_from(&self, from: Instant, ip_bytes: u64) -> Instant {
        let mut times: Vec<_> = self.lives.iter().map(|life| life.freed).filter(|at| *at > from).collect();
        times.push(from);
        times.sort();
        let has_room = |at: &Instant| self.occupied(*at) + ip_bytes <= self.config.link.send_buffer.0;
        times.into_iter().find(has_room).expect("an empty buffer has room")
    }

    /// The last value set at or before `at`.
    fn stated<T>(&self, at: Instant, value: impl Fn(&LinkChange) -> Option<T>) -> Option<T> {
        let latest_first = self.config.link.change.iter().rev();
        latest_first.filter(|change| Instant::ZERO + change.at <= at).find_map(value)
    }

    fn delay(&self, at: Instant) -> Duration {
        self.stated(at, |change| change.delay).unwrap_or(self.config.link.delay)
    }

    /// When the last bit has been sent, at the rate of each period between two changes.
    fn transmitted(&self, start: Instant, ip_bytes: u32) -> Instant {
        let rate = |at| self.stated(at, |change| change.rate).unwrap_or(self.config.link.rate);
        let (mut at, mut bits) = (start.as_nanos() as f64, f64::from(ip_bytes * 8));
        while bits > 0.0 {
            let now = Instant::from_nanos(at.round() as u64);
            let changes = self.config.link.change.iter().map(|change| Instant::ZERO + change.at);
            let until = changes
                .filter(|change| *change > now)
                .min()
                .map_or(f64::INFINITY, |change| change.as_nanos() as f64);
            let per_nano = rate(now).bits_per_second() as f64 / 1e9;
            let step = (bits / per_nano).min(until - at);
            bits -= step * per_nano;
            at += step;
        }
        Instant::from_nanos(at.round() as u64)
    }

    /// Probability 1: every transmission in a bad state fails.
    fn tries(&mut self, first: Instant) -> Result<Instant, (Instant, DropCause)> {
        let first_state = self.timeline.state(first);
        let Some(arq) = &self.errors.arq else {
            return if first_state == LinkState::Bad {
                Err((first, DropCause::LinkError))
            } else {
                Ok(first)
            };
        };
        for n in 0..=u64::from(arq.retransmissions) {
            let at = first + arq.delay * n;
            let state = match arq.state_lookup {
                StateLookup::EachTry => self.timeline.state(at),
                StateLookup::FirstTry => first_state,
            };
            if state == LinkState::Good {
                return Ok(at);
            }
        }
        Err((first + arq.delay * u64::from(arq.retransmissions), DropCause::ArqGivenUp))
    }

    fn arrive(&mut self, at: Instant, serial: u64, ip_bytes: u32) {
        let (packets, bytes) = self.queued(at);
        let length = u64::from(ip_bytes);
        let straight = packets == 0 && self.room_from(at, length) == at;
        let fits = match self.config.queue.limit {
            QueueSize::Packets(limit) => packets < u64::from(limit),
            QueueSize::Bytes(limit) => bytes + length <= u64::from(limit),
        };
        if !straight && !fits {
            self.overflows.push((at, serial));
            return;
        }
        let link = &self.config.link;
        let last = self.lives.last();
        let buffered = self.room_from(last.map_or(at, |last| last.buffered.max(at)), length);
        let start = last.map_or(buffered, |last| last.serialised.max(buffered));
        let overhead = link.overhead.sampler().sample(&mut SEED.stream("link.overhead"));
        let serialised = self.transmitted(start, ip_bytes) + overhead;
        let (earlier, freed_before) =
            last.map_or((Instant::ZERO, Instant::ZERO), |last| (last.released, last.freed));
        let fate = self.tries(serialised);
        let end_of_tries = fate.unwrap_or_else(|(lost, _)| lost);
        let released = earlier.max(end_of_tries + self.delay(end_of_tries));
        let freed = match link.release {
            BufferRelease::Serialised => serialised,
            BufferRelease::Acknowledged => freed_before.max(released + self.delay(released)),
        };
        let fate = fate.map(|_| released);
        self.lives.push(Life { serial, ip_bytes: length, buffered, serialised, fate, released, freed });
    }
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap_us = prop_oneof![2 => Just(0), 1 => Just(72_100), 4 => 0_u64..200_000, 1 => 0_u64..3_000_000];
    let ip_bytes = prop_oneof![3 => Just(576_u32), 1 => 40_u32..=576];
    prop::collection::vec((gap_us, ip_bytes), 1..120)
}

fn paths() -> impl Strategy<Value = PathConfig> {
    let limit =
        prop_oneof![(1_u32..25).prop_map(QueueSize::Packets), (600_u32..9_000).prop_map(QueueSize::Bytes),];
    let release = prop_oneof![Just(BufferRelease::Acknowledged), Just(BufferRelease::Serialised)];
    let delay_us = prop_oneof![Just(0), Just(300_000), 0_u64..500_000];
    let changes = prop::collection::btree_map(0_u64..10_000, (8_000_u64..1_000_000, 0_u64..500), 0..4);
    (limit, release, delay_us, 576_u64..10_000, changes).prop_map(
        |(limit, release, delay_us, send_buffer, changes)| {
            let mut config = studied_path();
            config.queue.limit = limit;
            config.link.release = release;
            config.link.delay = Duration::from_micros(delay_us);
            config.link.send_buffer = Bytes(send_buffer);
            config.link.change = changes.into_iter().map(change).collect();
            config
        },
    )
}

fn arqs() -> impl Strategy<Value = Option<ArqConfig>> {
    let lookup = prop_oneof![Just(StateLookup::EachTry), Just(StateLookup::FirstTry)];
    let delay_us = prop_oneof![Just(700_000_u64), Just(72_100), 0_u64..1_000_000];
    prop::option::of((0_u32..7, delay_us, lookup).prop_map(|(retransmissions, delay_us, state_lookup)| {
        ArqConfig { retransmissions, delay: Duration::from_micros(delay_us), serialised: false, state_lookup }
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn path_keeps_the_times_of_the_arithmetic(
        arrivals in arrivals(),
        config in paths(),
        arq in arqs(),
        good_ms in 0_u64..5_000,
        bad_ms in 1_u64..3_000,
    ) {
        let errors = errors(good_ms, bad_ms, arq);
        let mut reference = Reference {
            config: &config,
            errors: &errors,
            timeline: StateTimeline::new(&errors, None, SEED),
            lives: Vec::new(),
            overflows: Vec::new(),
        };
        let mut lab = Lab::new(&config, Some(&errors));
        let mut at_micros = 0;
        for (serial, (gap_us, ip_bytes)) in (0..).zip(arrivals) {
            at_micros += gap_us;
            reference.arrive(at_us(at_micros), serial, ip_bytes);
            lab.send(at_us(at_micros), ip_bytes, Ecn::NotEct);
        }
        lab.run();

        let lives = &reference.lives;
        let delivered: Vec<_> =
            lives.iter().filter_map(|life| Some((life.fate.ok()?, life.serial))).collect();
        prop_assert_eq!(lab.delivered(), delivered);
        let dequeued: Vec<_> = lives.iter().map(|life| (life.buffered, life.serial)).collect();
        prop_assert_eq!(lab.dequeued(), dequeued);
        for cause in [DropCause::LinkError, DropCause::ArqGivenUp] {
            let lost = lives.iter().filter_map(|life| Some((life.fate.err()?, life.serial)));
            let mut expected: Vec<_> =
                lost.filter(|(lost, _)| lost.1 == cause).map(|(lost, serial)| (lost.0, serial)).collect();
            expected.sort();
            let mut dropped = lab.dropped(cause);
            dropped.sort();
            prop_assert_eq!(dropped, expected);
        }
        prop_assert_eq!(lab.dropped(DropCause::QueueOverflow), reference.overflows);
    }
}
