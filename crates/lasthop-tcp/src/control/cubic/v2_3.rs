//! CUBIC 2.3 in the integer arithmetic of Linux 2.6.29 to 2.6.38 (Ha, Rhee and Xu 2008), with the first
//! `HyStart`.
//!
//! The curve is that of today's CUBIC (`cubic`). Differences:
//!
//! - An ACK counts as one, regardless of the data that it acknowledges; growth is divided by the measured
//!   number of segments per ACK.
//! - Growth has fewer bounds: at most a segment per ACK (today one per two segments), and before the first
//!   loss only the curve and Reno (today also a segment per twenty).
//! - Times are in ticks, and a pause does not shift the curve.
//! - `HyStart` uses only the first eight samples of a round trip, and ends slow start if their minimum
//!   exceeds the overall minimum by a sixteenth, within 2 to 16 ticks (today an eighth, within 4 to 16 ms).
//! - It uses the stack's round-trip samples, those of the earliest segment that an ACK acknowledges; Linux
//!   used that of the last.

use super::{
    Congestion, Controller, HYSTART_LOW_WINDOW, HYSTART_SAMPLES, HYSTART_SPACING_US, Moment, RENO_SCALE,
    RateSample, Segments, Window, converged, per_segment, reduced, target, time_of_growth,
};
use crate::clock::Tick;

#[cfg(test)]
mod tests;

/// Segments per ACK are counted in sixteenths; the initial value is two.
const RATIO_SHIFT: u32 = 4;
/// A change of delay that ends slow start, in eighths of a tick.
const DELAY_CHANGE: std::ops::RangeInclusive<u64> = 2 << 3..=16 << 3;

/// The state of CUBIC 2.3, with `HyStart` or without.
#[derive(Clone, Debug)]
pub(crate) struct Cubic23<const HYSTART: bool> {
    window: Segments,
    ticks_per_second: u64,
    curve: Curve23,
    round: Round23,
}

/// The curve that the window follows since the last timeout.
#[derive(Clone, Copy, Debug, Default)]
struct Curve23 {
    /// ACKs per segment of growth.
    count: u32,
    last_max: u32,
    last_window: u32,
    last_time: Tick,
    origin: u32,
    /// Time from the epoch's start to the origin, in 1/1024 s.
    k: u64,
    /// Least delay in eighths of a tick; 0 without a sample.
    least_delay_8: u64,
    epoch: Option<Tick>,
    acks: u32,
    /// The window that Reno would have.
    reno_window: u32,
    /// Segments per ACK, in sixteenths.
    ratio: u32,
    /// `HyStart` has ended slow start.
    found: bool,
}

/// The measurements of `HyStart` in the current round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round23 {
    start: Tick,
    end: u64,
    last_ack: Tick,
    samples: u32,
    delay_8: u64,
}

impl Curve23 {
    fn new() -> Self {
        Self { ratio: 2 << RATIO_SHIFT, ..Self::default() }
    }
}

impl<const HYSTART: bool> Cubic23<HYSTART> {
    pub fn new(window: Segments, ticks_per_second: u64) -> Self {
        Self { window, ticks_per_second, curve: Curve23::new(), round: Round23::default() }
    }

    /// An ACK acknowledges this number of segments while no loss is being repaired.
    pub fn note_acked(&mut self, segments: u32) {
        let ratio = &mut self.curve.ratio;
        *ratio = (*ratio + segments).saturating_sub(*ratio >> RATIO_SHIFT);
    }

    /// The window before the latest reduction.
    pub fn undone(&self) -> u32 {
        self.curve.last_max
    }

    fn begin_round(&mut self, at: &Moment) {
        self.round = Round23 { start: at.tick, end: at.nxt, last_ack: at.tick, samples: 0, delay_8: 0 };
    }

    /// ACKs per segment of growth.
    fn count(&mut self, now: Tick) -> u32 {
        let (window, curve) = (self.window.window(), &mut self.curve);
        curve.acks += 1;
        if curve.last_window == window && now - curve.last_time <= self.ticks_per_second / 32 {
            return curve.count;
        }
        (curve.last_window, curve.last_time) = (window, now);
        let epoch = *curve.epoch.get_or_insert_with(|| {
            (curve.acks, curve.reno_window) = (1, window);
            (curve.k, curve.origin) = if curve.last_max <= window {
                (0, window)
            } else {
                (time_of_growth(curve.last_max - window), curve.last_max)
            };
            now
        });
        let time = ((now + (curve.least_delay_8 >> 3) - epoch) << 10) / self.ticks_per_second;
        let count = per_segment(window, target(curve.origin, curve.k, time));
        // Never slower than Reno with the same decrease would be.
        let of_reno = window.saturating_mul(RENO_SCALE) >> 3;
        while curve.acks > of_reno {
            curve.acks -= of_reno;
            curve.reno_window += 1;
        }
        let ahead = curve.reno_window.saturating_sub(window);
        let count = window.checked_div(ahead).map_or(count, |of_reno| count.min(of_reno));
        curve.count = ((count << RATIO_SHIFT) / curve.ratio).max(1);
        curve.count
    }

    /// A delay sample in slow start; true if it ends slow start.
    fn hystart(&mut self, now: Tick, delay_8: u64) -> bool {
        let (least, round) = (self.curve.least_delay_8, &mut self.round);
        let spacing = (HYSTART_SPACING_US * self.ticks_per_second).div_ceil(1_000_000);
        if now - round.last_ack <= spacing {
            round.last_ack = now;
            self.curve.found |= now - round.start >= least >> 4;
        }
        if round.samples < HYSTART_SAMPLES {
            round.samples += 1;
            round.delay_8 = if round.delay_8 == 0 { delay_8 } else { round.delay_8.min(delay_8) };
        } else {
            let change = (least >> 4).clamp(*DELAY_CHANGE.start(), *DELAY_CHANGE.end());
            self.curve.found |= round.delay_8 > least + change;
        }
        self.curve.found
    }
}

impl<const HYSTART: bool> Controller for Cubic23<HYSTART> {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, _: u64) {
        self.begin_round(at);
    }

    fn on_rtt(&mut self, at: &Moment, rtt_us: u64) {
        if self.curve.epoch.is_some_and(|epoch| at.tick - epoch < self.ticks_per_second) {
            return;
        }
        let ticks = (rtt_us * self.ticks_per_second).div_ceil(1_000_000);
        let delay_8 = (ticks << 3).max(1);
        let least = &mut self.curve.least_delay_8;
        *least = if *least == 0 { delay_8 } else { delay_8.min(*least) };
        let may_end = HYSTART && !self.curve.found && self.window.is_slow_start();
        if may_end && self.window.window() >= HYSTART_LOW_WINDOW && self.hystart(at.tick, delay_8) {
            self.window.set_ssthresh(self.window.window());
        }
    }

    fn on_ack(&mut self, sample: &RateSample) {
        if !sample.is_window_limited {
            return;
        }
        if self.window.is_slow_start() {
            if sample.at.una > self.round.end {
                self.begin_round(&sample.at);
            }
            self.window.start_slowly(1);
        } else {
            let count = self.count(sample.at.tick);
            self.window.avoid_congestion(1, count);
        }
    }

    fn on_congestion(&mut self, _: Congestion, flight: u32) {
        self.curve.epoch = None;
        self.curve.last_max = converged(flight, self.curve.last_max);
        self.window.reduce(reduced(flight));
    }

    fn on_persistent(&mut self, at: &Moment, window: u32) {
        self.window.restart(window);
        self.curve = Curve23::new();
        self.begin_round(at);
    }
}
