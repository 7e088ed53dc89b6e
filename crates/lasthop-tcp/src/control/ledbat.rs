//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): a scavenger, which uses the capacity that other flows leave.
//! It keeps its added delay at 60 ms, and yields as soon as others add more.
//!
//! The delay is measured with round trips, relative to the shortest one of ten minutes. To prevent flows from
//! including each other's queues in the base delay, each flow periodically reduces its window to two segments
//! for two round trips.

use super::{Controller, Moment, RateSample, Segments, Setup, Window};

/// TARGET, in microseconds.
const TARGET_US: u64 = 60_000;
/// The minimum GAIN is 1 divided by this.
const GAIN_DIVISOR_MAX: u64 = 16;
/// The window initially and in a slowdown.
const WINDOW_MIN: u32 = 2;
/// The next slowdown waits this multiple of the duration of the last one, so that slowdowns take at most a
/// tenth of the time.
const SLOWDOWN_PAUSE: u64 = 9;
/// Round trips between the end of slow start and the first slowdown, and those of a slowdown.
const SLOWDOWN_ROUNDS: u64 = 2;
/// Minutes of history for the shortest round trip.
const MINUTES: usize = 10;
const MINUTE_US: u64 = 60_000_000;
/// Number of samples, the shortest of which is the delay.
const SAMPLES: usize = 4;
/// Fractions of a segment.
const PARTS: i64 = 1 << 16;

/// The phase of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LedbatPhase {
    /// The first slow start.
    Start,
    /// The window follows the delay until this slowdown.
    Follow { slowdown_us: u64 },
    /// The window is two segments.
    Frozen { since_us: u64, until_us: u64 },
    /// Slow start up to the old window.
    Ramp { since_us: u64 },
}

/// Round-trip times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Delays {
    /// The shortest round-trip time of each minute, in a ring, and the current minute.
    minutes: [u64; MINUTES],
    minute: u64,
    /// The latest samples, in a ring.
    latest: [u64; SAMPLES],
    next: usize,
    smoothed: u64,
}

/// The window and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedbatPlusPlus {
    window: Segments,
    delays: Delays,
    phase: LedbatPhase,
    /// Pending change of the window, in fractions of a segment.
    parts: i64,
}

impl Delays {
    const fn new() -> Self {
        Self { minutes: [u64::MAX; MINUTES], minute: 0, latest: [u64::MAX; SAMPLES], next: 0, smoothed: 0 }
    }

    fn note(&mut self, now_us: u64, rtt_us: u64) {
        let minute = now_us / MINUTE_US;
        for passed in (self.minute + 1..=minute).rev().take(MINUTES) {
            self.minutes[passed as usize % MINUTES] = u64::MAX;
        }
        self.minute = minute;
        let least = &mut self.minutes[minute as usize % MINUTES];
        *least = rtt_us.min(*least);
        self.latest[self.next] = rtt_us;
        self.next = (self.next + 1) % SAMPLES;
        self.smoothed = if self.smoothed == 0 { rtt_us } else { (7 * self.smoothed + rtt_us) / 8 };
    }

    fn base_us(&self) -> u64 {
        self.minutes.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Queueing delay.
    fn queueing_us(&self) -> u64 {
        self.latest.iter().copied().min().unwrap_or(0).saturating_sub(self.base_us())
    }
}

impl LedbatPlusPlus {
    pub fn new(setup: Setup<'_>) -> Self {
        Self { window: setup.window, delays: Delays::new(), phase: LedbatPhase::Start, parts: 0 }
    }

    /// GAIN, in fractions: the shorter the path, the slower the growth.
    fn gain(&self) -> i64 {
        let divisor = (2 * TARGET_US).div_ceil(self.delays.base_us().max(1)).clamp(1, GAIN_DIVISOR_MAX);
        PARTS / divisor.cast_signed()
    }

    /// Slow start grows by GAIN for every segment.
    fn start_slowly(&mut self, acked: u32) {
        self.parts += self.gain() * i64::from(acked);
        let whole = self.take_whole();
        self.window.start_slowly(whole.max(0) as u32);
    }

    /// Per round trip: the window grows by GAIN below the target. Above the target it shrinks in proportion
    /// to the excess delay, by at most half of the window.
    fn follow_delay(&mut self, acked: u32) {
        let window = i64::from(self.window.window());
        let (queueing, target) = (self.delays.queueing_us().cast_signed(), TARGET_US.cast_signed());
        let per_round = if queueing <= target {
            self.gain()
        } else {
            let excess = (queueing - target).min(target) * PARTS / target;
            (self.gain() - window * excess).max(-window * PARTS / 2)
        };
        self.parts += per_round * i64::from(acked) / window;
        let changed = (window + self.take_whole()).max(i64::from(WINDOW_MIN)) as u32;
        self.window.set(changed);
        self.window.set_ssthresh(changed);
    }

    /// Applies whole segments of the change.
    fn take_whole(&mut self) -> i64 {
        let whole = self.parts / PARTS;
        self.parts -= whole * PARTS;
        whole
    }

    fn end_slow_start(&mut self, now_us: u64) {
        let window = self.window.window();
        self.window.set_ssthresh(self.window.ssthresh().min(window));
        self.phase = LedbatPhase::Follow { slowdown_us: now_us + SLOWDOWN_ROUNDS * self.delays.smoothed };
    }

    fn slow_down(&mut self, now_us: u64) {
        self.window.set_ssthresh(self.window.window().max(WINDOW_MIN));
        self.window.set(WINDOW_MIN);
        self.parts = 0;
        let until_us = now_us + SLOWDOWN_ROUNDS * self.delays.smoothed;
        self.phase = LedbatPhase::Frozen { since_us: now_us, until_us };
    }
}

impl Controller for LedbatPlusPlus {
    in_segments!(window);

    fn on_start(&mut self, _: &Moment, _: u64) {
        self.window.limit(WINDOW_MIN);
    }

    fn on_rtt(&mut self, at: &Moment, rtt_us: u64) {
        self.delays.note(at.us, rtt_us.max(1));
    }

    fn on_ack(&mut self, sample: &RateSample) {
        let now = sample.at.us;
        match self.phase {
            LedbatPhase::Start
                if !self.window.is_slow_start() || 4 * self.delays.queueing_us() > 3 * TARGET_US =>
            {
                self.end_slow_start(now);
            }
            LedbatPhase::Follow { slowdown_us } if now >= slowdown_us => self.slow_down(now),
            LedbatPhase::Frozen { since_us, until_us } if now >= until_us => {
                self.phase = LedbatPhase::Ramp { since_us }
            }
            LedbatPhase::Ramp { since_us } if !self.window.is_slow_start() => {
                self.phase = LedbatPhase::Follow { slowdown_us: now + SLOWDOWN_PAUSE * (now - since_us) };
            }
            _ => {}
        }
        match self.phase {
            LedbatPhase::Frozen { .. } => {}
            _ if !sample.is_window_limited => {}
            LedbatPhase::Start | LedbatPhase::Ramp { .. } => self.start_slowly(sample.acked),
            // After a timeout.
            LedbatPhase::Follow { .. } if self.window.is_slow_start() => self.start_slowly(sample.acked),
            LedbatPhase::Follow { .. } => self.follow_delay(sample.acked),
        }
    }
}

#[cfg(test)]
mod tests;
