//! CUBIC in the integer arithmetic of Linux (RFC 9438; C = 0.4, beta = 717/1024), with `HyStart`.
//!
//! Times are in ticks and, scaled, in 1/1024 s. Powers of two replace divisions as in Linux, so that windows
//! are equal to the segment.

use super::{Congestion, Controller, Moment, RateSample, Segments, Sent, Setup, Window};
use crate::clock::Tick;

mod v2_3;

pub(crate) use v2_3::Cubic23;

/// Window after a loss, in 1024ths.
const BETA: u64 = 717;
/// C in 1024ths, times ten: the growth is c / rtt * t^3 with an rtt of 100 ms.
const SCALED_C: u64 = 410;
/// ACKs per window for a segment of Reno's growth, in eighths: it grows by 3 (1 - beta) / (1 + beta)
/// segments.
const RENO_SCALE: u32 = (8 * (1024 + BETA) / 3 / (1024 - BETA)) as u32;
/// Window from which on `HyStart` is active.
const HYSTART_LOW_WINDOW: u32 = 16;
/// Number of round-trip samples that determine the delay of a round.
const HYSTART_SAMPLES: u32 = 8;
/// Cube roots of 0 to 63 in 64ths, about 10 too low: the table of Linux, which was adjusted by hand to make
/// the root more accurate.
#[rustfmt::skip]
const ROOTS: [u8; 64] = [
      0,  54,  54,  54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156,
    157, 161, 164, 168, 170, 173, 176, 179, 181, 185, 187, 190, 192, 194, 197, 199,
    200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227, 229,
    231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
];
/// ACKs with a spacing below this form a train, in microseconds.
const HYSTART_SPACING_US: u64 = 2_000;
/// Allowance for the hosts' own delays, in microseconds.
const HYSTART_HOST_DELAY_US: u64 = 1_000;

/// The state of CUBIC, with `HyStart` or without.
#[derive(Clone, Debug)]
pub(crate) struct Cubic<const HYSTART: bool> {
    window: Segments,
    curve: Curve,
}

/// The curve that the window follows.
#[derive(Clone, Debug)]
struct Curve {
    ticks_per_second: u64,
    tick_us: u64,
    /// Segments to be acknowledged per segment of growth.
    count: u32,
    last_max: u32,
    last_window: u32,
    last_time: Tick,
    origin: u32,
    /// Time from the epoch's start to the origin, in 1/1024 s.
    k: u64,
    least_delay_us: u64,
    epoch: Option<Tick>,
    acked: u32,
    /// The window that Reno would have here.
    reno_window: u32,
    hystart: HyStart,
}

/// The measurements of `HyStart` in the current round trip.
#[derive(Clone, Copy, Debug, Default)]
struct HyStart {
    found: bool,
    samples: u32,
    round_start_us: u64,
    round_end: u64,
    last_ack_us: u64,
    round_delay_us: u64,
}

impl<const HYSTART: bool> Cubic<HYSTART> {
    pub fn new(setup: Setup<'_>) -> Self {
        Self { window: setup.window, curve: Curve::new(setup.ticks_per_second) }
    }
}

impl<const HYSTART: bool> Controller for Cubic<HYSTART> {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, _: u64) {
        self.curve.reset(at.us, at.nxt);
    }

    fn on_sent(&mut self, sent: &Sent) {
        if let Some(last) = sent.idle_since {
            self.curve.on_restart(sent.at.tick, last);
        }
    }

    fn on_rtt(&mut self, at: &Moment, rtt_us: u64) {
        let may_end = HYSTART && self.window.is_slow_start();
        if self.curve.on_sample(at, rtt_us, self.window.window(), may_end) {
            self.window.set_ssthresh(self.window.window());
        }
    }

    fn on_ack(&mut self, sample: &RateSample) {
        if !sample.is_window_limited {
            return;
        }
        let left = self.window.start_slowly(sample.acked);
        if left > 0 {
            let per_segment = self.curve.count(sample.at.tick, self.window.window(), left);
            self.window.avoid_congestion(left, per_segment);
        }
    }

    fn on_congestion(&mut self, _: Congestion, flight: u32) {
        self.window.reduce(self.curve.ssthresh(flight));
    }

    fn on_persistent(&mut self, at: &Moment, window: u32) {
        self.window.restart(window);
        self.curve.reset(at.us, at.nxt);
    }
}

impl Curve {
    /// The state at the start of a connection; the host's clock has this number of ticks per second.
    fn new(ticks_per_second: u64) -> Self {
        Self {
            ticks_per_second,
            tick_us: 1_000_000 / ticks_per_second,
            count: 0,
            last_max: 0,
            last_window: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            least_delay_us: 0,
            epoch: None,
            acked: 0,
            reno_window: 0,
            hystart: HyStart::default(),
        }
    }

    /// Resets the state: at the start, and after a timeout. Data is sent up to `nxt`.
    fn reset(&mut self, now_us: u64, nxt: u64) {
        *self = Self::new(self.ticks_per_second);
        self.begin_round(now_us, nxt);
    }

    fn begin_round(&mut self, now_us: u64, nxt: u64) {
        self.hystart = HyStart {
            found: self.hystart.found,
            samples: 0,
            round_start_us: now_us,
            round_end: nxt,
            last_ack_us: now_us,
            round_delay_us: u64::MAX,
        };
    }

    /// ssthresh after a loss (section 4.6), and fast convergence (section 4.7).
    fn ssthresh(&mut self, window: u32) -> u32 {
        self.epoch = None;
        self.last_max = converged(window, self.last_max);
        reduced(window)
    }

    /// Segments to be acknowledged per segment of growth, after `acked` more are acknowledged.
    fn count(&mut self, now: Tick, window: u32, acked: u32) -> u32 {
        self.acked += acked;
        let quiet = now - self.last_time <= self.ticks_per_second / 32;
        if self.last_window == window && quiet {
            return self.count;
        }
        if self.epoch.is_none() || now != self.last_time {
            self.follow_curve(now, window, acked);
        }
        self.befriend_reno(window);
        self.count = self.count.max(2);
        self.count
    }

    /// The window of section 4.2 at the end of the current round trip.
    fn follow_curve(&mut self, now: Tick, window: u32, acked: u32) {
        self.last_window = window;
        self.last_time = now;
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.acked = acked;
            self.reno_window = window;
            if self.last_max <= window {
                self.k = 0;
                self.origin = window;
            } else {
                self.k = time_of_growth(self.last_max - window);
                self.origin = self.last_max;
            }
            now
        });
        let delay = self.least_delay_us.div_ceil(self.tick_us);
        let time = ((now - epoch + delay) << 10) / self.ticks_per_second;
        self.count = per_segment(window, target(self.origin, self.k, time));
        if self.last_max == 0 {
            self.count = self.count.min(20);
        }
    }

    /// Never slower than Reno with the same decrease would be (section 4.3).
    fn befriend_reno(&mut self, window: u32) {
        let per_segment = window.saturating_mul(RENO_SCALE) >> 3;
        while self.acked > per_segment {
            self.acked -= per_segment;
            self.reno_window += 1;
        }
        if self.reno_window > window {
            self.count = self.count.min(window / (self.reno_window - window));
        }
    }

    /// Data leaves after a pause since `last_sent`: the curve is shifted by the pause.
    fn on_restart(&mut self, now: Tick, last_sent: Tick) {
        if let Some(epoch) = &mut self.epoch {
            *epoch = (*epoch + now.saturating_sub(last_sent)).min(now);
        }
    }

    /// A round-trip sample. Returns true if it ends slow start, given that slow start may end.
    fn on_sample(&mut self, at: &Moment, rtt_us: u64, window: u32, may_end: bool) -> bool {
        if self.epoch.is_some_and(|epoch| at.tick - epoch < self.ticks_per_second) {
            return false;
        }
        let delay = rtt_us.max(1);
        if self.least_delay_us == 0 || self.least_delay_us > delay {
            self.least_delay_us = delay;
        }
        !self.hystart.found && may_end && self.hystart(at, delay, window)
    }

    /// `HyStart`: slow start ends when a train of ACKs spans half of the round trip, or when the delay grows.
    fn hystart(&mut self, at: &Moment, delay_us: u64, window: u32) -> bool {
        if at.una > self.hystart.round_end {
            self.begin_round(at.us, at.nxt);
        }
        if window < HYSTART_LOW_WINDOW {
            return false;
        }
        let least = self.least_delay_us;
        let round = &mut self.hystart;
        if at.us - round.last_ack_us <= HYSTART_SPACING_US {
            round.last_ack_us = at.us;
            round.found |= at.us - round.round_start_us > (least + HYSTART_HOST_DELAY_US) >> 1;
        }
        round.round_delay_us = round.round_delay_us.min(delay_us);
        if round.samples < HYSTART_SAMPLES {
            round.samples += 1;
        } else {
            round.found |= round.round_delay_us > least + (least >> 3).clamp(4_000, 16_000);
        }
        round.found
    }
}

/// The window after a loss (RFC 9438, section 4.6).
fn reduced(window: u32) -> u32 {
    ((u64::from(window) * BETA / 1024) as u32).max(2)
}

/// The window to which the curve returns (RFC 9438, section 4.7), after a loss at `window`.
fn converged(window: u32, last_max: u32) -> u32 {
    if window < last_max { (u64::from(window) * (1024 + BETA) / 2048) as u32 } else { window }
}

/// The time K in which the curve rises by this number of segments to its origin, in 1/1024 s.
fn time_of_growth(segments: u32) -> u64 {
    cube_root(u64::from(segments) * ((1 << 40) / SCALED_C))
}

/// The curve at `time`, in 1/1024 s, if it reaches `origin` at `k`.
fn target(origin: u32, k: u64, time: u64) -> u32 {
    let distance = time.abs_diff(k);
    // Wraps like the 64-bit arithmetic of Linux, which is correct for windows below a million.
    let cube = SCALED_C.wrapping_mul(distance).wrapping_mul(distance).wrapping_mul(distance);
    let delta = (cube >> 40) as u32;
    if time < k { origin.wrapping_sub(delta) } else { origin.wrapping_add(delta) }
}

/// Segments to be acknowledged per segment of growth from `window` towards `target`.
fn per_segment(window: u32, target: u32) -> u32 {
    if target > window { window / (target - window) } else { 100 * window }
}

/// Cube root as Linux computes it (`cubic_root`): one step of Newton's method from an estimate by the leading
/// bits, with an error of up to 0.2 % here.
fn cube_root(a: u64) -> u64 {
    let bits = u64::from(u64::BITS - a.leading_zeros());
    if bits < 7 {
        return (u64::from(ROOTS[a as usize]) + 35) >> 6;
    }
    // A third of the bits, rounded down, less one: seven bits or less are left.
    let shift = ((bits * 84) >> 8) - 1;
    let leading = (a >> (3 * shift)) as usize;
    let estimate = ((u64::from(ROOTS[leading]) + 10) << shift) >> 6;
    let root = 2 * estimate + a / (estimate * (estimate - 1));
    // A third of it.
    (root * 341) >> 10
}

#[cfg(test)]
mod tests;
