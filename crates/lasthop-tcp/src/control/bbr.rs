//! BBR version 1 (Cardwell et al. 2017), as in Linux (`tcp_bbr.c` of 6.12). The greatest delivery rate of ten
//! round trips and the shortest round-trip time of ten seconds are the model of the path, which sets pacing
//! rate and window.
//!
//! Without pacing it is the BBR of Linux 4.9 to 4.12, as later kernels always pace it (commit 218af599fa63). That
//! one adds nothing to the window for aggregated ACKs (since 5.1) and no two segments to a probe (since 4.19).
//! What else has changed is left out: pauses, undone reductions, and a pacing rate 1 % lower.

mod aggregation;
mod model;
mod policer;
#[cfg(test)]
mod tests;

use lasthop_core::{RandomStream, Rate};

use super::bandwidth::{BANDWIDTH_ONE, BANDWIDTH_SHIFT, pacing_rate};
use super::{
    Amount, Congestion, Controller, Moment, PathSample, Prior, Segments, Sent, Setup, Window, burst,
};
use crate::clock::Tick;
use crate::common::State;
use crate::config::Pacing;
use aggregation::Aggregation;
use model::Model;
use policer::{Policer, Total};

/// 1.0 of a gain.
const UNIT: u64 = 1 << GAIN_SHIFT;
const GAIN_SHIFT: u32 = 8;
/// 2 / ln 2: the sending rate doubles every round trip.
const HIGH_GAIN: u64 = UNIT * 2_885 / 1_000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1_000 / 2_885;
/// Pacing gains of a cycle: probe for bandwidth, drain the queue, cruise.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// A cycle begins in any phase except the one that drains.
const FIRST_PHASES: u64 = 7;
/// Number of round trips over which the greatest bandwidth counts.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
const WINDOW_MIN: u32 = 4;
/// The window while there is no model yet.
const WINDOW_INITIAL: u32 = 10;
/// How long the shortest round-trip time counts, and the length of the following measurement with an empty
/// queue.
const MIN_RTT_SECONDS: u64 = 10;
const PROBE_RTT_MS: u64 = 200;
/// The path is full after this number of round trips without an increase of bandwidth by a quarter.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: u64 = UNIT * 5 / 4;
/// Below this rate, in bytes per second, segments leave one by one.
const SINGLES_BELOW: u64 = 1_200_000 / 8;
const BURST_MAX: u32 = 127;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It searches for the bandwidth, doubling every round trip.
    Startup,
    /// It drains the queue that the search has built.
    Drain,
    /// It cruises, and probes for more bandwidth from time to time.
    ProbeBandwidth,
    /// It measures the shortest round-trip time.
    ProbeRtt,
}

impl Mode {
    /// Its name in draft-ietf-ccwg-bbr.
    const fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Drain => "Drain",
            Self::ProbeBandwidth => "ProbeBW",
            Self::ProbeRtt => "ProbeRTT",
        }
    }
}

/// The window, the model of the path, and the state of the search.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a moment of its own")]
pub(crate) struct Bbr {
    window: Segments,
    mss: u32,
    /// True for the BBR of Linux up to 4.12.
    is_early: bool,
    ticks_per_second: u64,
    draws: RandomStream,
    mode: Mode,
    /// Bandwidth in units of [`UNIT`].
    pacing_gain: u64,
    window_gain: u64,
    /// Pacing rate in bytes per second.
    pacing_rate: u64,
    model: Model,
    policer: Policer,
    aggregation: Aggregation,
    /// Phase of the cycle, and its start.
    phase: usize,
    phase_us: u64,
    /// Bandwidth when it last grew by a quarter, and round trips since then.
    full_bandwidth: u64,
    full_rounds: u32,
    is_full: bool,
    min_rtt_stamp: Tick,
    /// End of the measurement with an empty queue, once it has begun, and whether a round trip has passed
    /// since.
    probe_rtt_end: Option<Tick>,
    probe_rtt_round: bool,
    /// True if this ACK came during that measurement, even at its start or end.
    holds_back: bool,
    restarts: bool,
    /// State of the stack now, and at the last ACK with reports.
    state: State,
    state_before: State,
    conserves: bool,
    /// The window to restore after losses, or after that measurement.
    prior_window: u32,
    /// Samples of the round-trip time: the first one, and that of the current ACK.
    first_rtt_us: Option<u64>,
    rtt_us: Option<u64>,
    has_rtt: bool,
    total: Total,
}

impl Bbr {
    pub fn new(setup: Setup<'_>) -> Self {
        Self {
            window: setup.window,
            mss: setup.segment_bytes,
            is_early: setup.pacing == Pacing::Never,
            ticks_per_second: setup.ticks_per_second,
            draws: setup.stream(),
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            pacing_rate: 0,
            model: Model::default(),
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            phase: 0,
            phase_us: 0,
            full_bandwidth: 0,
            full_rounds: 0,
            is_full: false,
            min_rtt_stamp: 0,
            probe_rtt_end: None,
            probe_rtt_round: false,
            holds_back: false,
            restarts: false,
            state: State::Open,
            state_before: State::Open,
            conserves: false,
            prior_window: 0,
            first_rtt_us: None,
            rtt_us: None,
            has_rtt: false,
            total: Total::default(),
        }
    }

    /// The bandwidth to send at.
    fn bandwidth(&self) -> u64 {
        self.policer.bandwidth().unwrap_or(self.model.bandwidth())
    }

    // Rates.

    /// Bytes per second to pace at for a bandwidth times a gain.
    fn bytes_per_second(&self, bandwidth: u64, gain: u64) -> u64 {
        pacing_rate((bandwidth * u64::from(self.mss) * gain) >> GAIN_SHIFT)
    }

    /// Before any delivery: a window per round-trip time, which is assumed to be 1 ms if unknown.
    fn begin_pacing(&mut self) {
        self.has_rtt = self.first_rtt_us.is_some();
        let rtt = self.first_rtt_us.map_or(1_000, |rtt| rtt.max(1));
        let bandwidth = u64::from(self.window.window()) * BANDWIDTH_ONE / rtt;
        self.pacing_rate = self.bytes_per_second(bandwidth, HIGH_GAIN);
    }

    /// Until the path is full, the rate only grows.
    fn set_pacing_rate(&mut self, bandwidth: u64, gain: u64) {
        if !self.has_rtt && self.first_rtt_us.is_some() {
            self.begin_pacing();
        }
        let rate = self.bytes_per_second(bandwidth, gain);
        if self.is_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Segments that leave together, in this algorithm's estimate, which ignores the length of the path.
    fn burst(&self) -> u32 {
        let rate = Rate::from_bits_per_second(8 * self.pacing_rate.max(1));
        burst(rate, u64::MAX, self.mss, self.burst_min()).min(BURST_MAX)
    }

    // Windows.

    /// Bandwidth-delay product in segments, times a gain, rounded up.
    fn path_segments(&self, bandwidth: u64, gain: u64) -> u32 {
        let Some(rtt) = self.model.min_rtt_us else { return WINDOW_INITIAL };
        (((bandwidth * rtt * gain) >> GAIN_SHIFT).div_ceil(BANDWIDTH_ONE)) as u32
    }

    /// Adds room for bursts at both ends, and rounds to an even number, for receivers that acknowledge every
    /// second segment.
    fn with_room_for_bursts(&self, window: u32) -> u32 {
        let even = (window + 3 * self.burst()).next_multiple_of(2);
        let asks = self.mode == Mode::ProbeBandwidth && self.phase == 0 && !self.is_early;
        if asks { even + 2 } else { even }
    }

    /// Target flight size at this gain.
    fn target(&self, gain: u64) -> u32 {
        self.with_room_for_bursts(self.path_segments(self.model.bandwidth(), gain))
    }

    /// Segments that will be in the network when the next segment leaves, which pacing delays.
    fn in_network(&self, path: &PathSample, in_flight: u32) -> u32 {
        let delivered = (self.bandwidth() * (path.wait.as_nanos() / 1_000)) >> BANDWIDTH_SHIFT;
        let leaving = if self.pacing_gain > UNIT { self.burst() } else { 0 };
        (in_flight + leaving).saturating_sub(delivered as u32)
    }

    /// The window after an ACK.
    fn set_window(&mut self, path: &PathSample) {
        let acked = path.ack.acked;
        let mut window = self.window.window();
        if acked > 0 {
            window = self.recover(path, window);
            if !self.conserves {
                let bandwidth = self.bandwidth();
                let adds = self.is_full && !self.is_early;
                let extra = if adds { self.aggregation.extra(bandwidth) } else { 0 };
                let target = self.path_segments(bandwidth, self.window_gain) + extra;
                let target = self.with_room_for_bursts(target);
                if self.is_full {
                    window = (window + acked).min(target);
                } else if window < target || path.total_delivered < u64::from(WINDOW_INITIAL) {
                    window += acked;
                }
                window = window.max(WINDOW_MIN);
            }
        }
        self.window.set(window);
        if self.mode == Mode::ProbeRtt {
            self.window.limit(WINDOW_MIN);
        }
    }

    /// The window during losses: in the first round trip of a recovery the sender sends as much as arrives;
    /// after the recovery the old window is restored.
    fn recover(&mut self, path: &PathSample, window: u32) -> u32 {
        let acked = path.ack.acked;
        let mut window = if path.lost > 0 { window.saturating_sub(path.lost as u32).max(1) } else { window };
        let before = std::mem::replace(&mut self.state_before, self.state);
        if self.state == State::Recovery && before != State::Recovery {
            self.conserves = true;
            self.model.round.begin(path.total_delivered);
            window = path.in_flight + acked;
        } else if before >= State::Recovery && self.state < State::Recovery {
            window = window.max(self.prior_window);
            self.conserves = false;
        }
        if self.conserves { window.max(path.in_flight + acked) } else { window }
    }

    fn save_window(&mut self) {
        let window = self.window.window();
        let is_good = self.state_before < State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_window = if is_good { window } else { self.prior_window.max(window) };
    }

    // Modes.

    /// Begins a cycle in a random phase, so that flows do not probe simultaneously.
    fn probe_bandwidth(&mut self, now_us: u64) {
        self.mode = Mode::ProbeBandwidth;
        let drawn = (u128::from(self.draws.bits()) * u128::from(FIRST_PHASES)) >> 64;
        self.phase = CYCLE.len() - 1 - drawn as usize;
        self.next_phase(now_us);
    }

    fn next_phase(&mut self, now_us: u64) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_us = now_us;
    }

    fn update_cycle(&mut self, path: &PathSample) {
        if self.mode == Mode::ProbeBandwidth && self.is_phase_over(path) {
            self.next_phase(path.delivered_us);
        }
    }

    fn is_phase_over(&self, path: &PathSample) -> bool {
        let rtt = self.model.min_rtt_us.unwrap_or(u64::from(u32::MAX));
        let is_long = path.delivered_us.saturating_sub(self.phase_us) > rtt;
        let gain = self.pacing_gain;
        if gain == UNIT {
            return is_long;
        }
        let in_network = self.in_network(path, path.in_flight_before);
        if gain > UNIT {
            // Losses show that the path holds no more.
            is_long && (path.lost > 0 || in_network >= self.target(gain))
        } else {
            is_long || in_network <= self.target(UNIT)
        }
    }

    fn check_full(&mut self, path: &PathSample) {
        let is_limited = path.ack.rate.is_some_and(|rate| rate.is_app_limited);
        if self.is_full || !self.model.round.is_start || is_limited {
            return;
        }
        let bandwidth = self.model.bandwidth();
        if bandwidth >= (self.full_bandwidth * FULL_GROWTH) >> GAIN_SHIFT {
            (self.full_bandwidth, self.full_rounds) = (bandwidth, 0);
        } else {
            self.full_rounds += 1;
            self.is_full = self.full_rounds >= FULL_ROUNDS;
        }
    }

    fn check_drained(&mut self, path: &PathSample) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
            self.window.set_ssthresh(self.target(UNIT));
        }
        if self.mode == Mode::Drain && self.in_network(path, path.in_flight) <= self.target(UNIT) {
            self.probe_bandwidth(path.delivered_us);
        }
    }

    fn update_min_rtt(&mut self, path: &PathSample) {
        let now = path.ack.at.tick;
        let is_old = now > self.min_rtt_stamp + MIN_RTT_SECONDS * self.ticks_per_second;
        if let Some(rtt) = self.rtt_us.take()
            && (self.model.min_rtt_us.is_none_or(|least| rtt < least) || (is_old && !path.may_be_delayed))
        {
            self.model.min_rtt_us = Some(rtt);
            self.min_rtt_stamp = now;
        }
        if is_old && !self.restarts && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.probe_rtt_end = None;
        }
        self.holds_back = self.mode == Mode::ProbeRtt;
        if self.holds_back {
            self.probe_rtt(path);
        }
        if path.ack.acked > 0 {
            self.restarts = false;
        }
    }

    /// The window is at its least for 200 ms and a round trip.
    fn probe_rtt(&mut self, path: &PathSample) {
        if self.probe_rtt_end.is_some() {
            self.probe_rtt_round |= self.model.round.is_start;
            if self.probe_rtt_round {
                self.check_probe_rtt_over(&path.ack.at, path.delivered_us);
            }
        } else if path.in_flight <= WINDOW_MIN {
            let length = (PROBE_RTT_MS * self.ticks_per_second).div_ceil(1_000);
            self.probe_rtt_end = Some(path.ack.at.tick + length);
            self.probe_rtt_round = false;
            self.model.round.begin(path.total_delivered);
        }
    }

    fn check_probe_rtt_over(&mut self, at: &Moment, delivered_us: u64) {
        if self.probe_rtt_end.is_none_or(|end| at.tick <= end) {
            return;
        }
        self.min_rtt_stamp = at.tick;
        self.window.set(self.window.window().max(self.prior_window));
        if self.is_full {
            self.probe_bandwidth(delivered_us);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.bandwidth().is_some() => (UNIT, 2 * UNIT),
            Mode::ProbeBandwidth => (CYCLE[self.phase], 2 * UNIT),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Updates bandwidth and policing with an ACK; the round trip may end.
    fn update_bandwidth(&mut self, path: &PathSample) {
        self.model.round.is_start = false;
        let Some(rate) = path.ack.rate else { return };
        if self.model.count_round(&rate, path.total_delivered) {
            self.conserves = false;
        }
        self.police(path.lost > 0, rate.is_app_limited);
        self.model.take_bandwidth(&rate);
    }

    fn police(&mut self, lost: bool, is_app_limited: bool) {
        let is_round_start = self.model.round.is_start;
        if self.policer.bandwidth().is_some() {
            let counts = self.mode == Mode::ProbeBandwidth && is_round_start;
            if counts && self.policer.is_over(self.total) {
                self.probe_bandwidth(self.total.delivered_us);
            }
            return;
        }
        let now = policer::Sample { total: self.total, lost, is_app_limited, is_round_start, mss: self.mss };
        if self.policer.sample(now) {
            self.pacing_gain = UNIT;
        }
    }
}

impl Controller for Bbr {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, delivered: u64) {
        self.window.set_ssthresh(u32::MAX);
        self.model = Model::new(delivered, self.first_rtt_us);
        self.min_rtt_stamp = at.tick;
        self.total = Total { delivered, ..Total::default() };
        self.aggregation = Aggregation::new(at.us);
        self.begin_pacing();
    }

    /// After a pause without data there is no need to send faster than the known rate of the path.
    fn on_sent(&mut self, sent: &Sent) {
        if sent.idle_since.is_none() || !sent.is_app_limited {
            return;
        }
        self.restarts = true;
        self.aggregation.begin_epoch(sent.at.us);
        match self.mode {
            Mode::ProbeBandwidth => self.set_pacing_rate(self.bandwidth(), UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_over(&sent.at, self.total.delivered_us),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_rtt(&mut self, _: &Moment, rtt_us: u64) {
        self.first_rtt_us.get_or_insert(rtt_us);
        self.rtt_us = Some(rtt_us);
    }

    /// A timeout ends the round trip.
    fn on_state(&mut self, _: &Moment, state: State) {
        self.state = state;
        if state == State::Loss {
            self.state_before = State::Loss;
            self.full_bandwidth = 0;
            self.model.round.is_start = true;
            self.police(true, false);
        }
    }

    fn on_path(&mut self, path: &PathSample) {
        if self.pacing_rate == 0 {
            // The response to the SYN.
            return;
        }
        self.total =
            Total { delivered: path.total_delivered, lost: path.total_lost, delivered_us: path.delivered_us };
        self.update_bandwidth(path);
        if path.ack.rate.is_some() && path.ack.acked > 0 {
            let bandwidth = self.bandwidth();
            self.aggregation.take(path, self.model.round.is_start, bandwidth, self.window.window());
        }
        self.update_cycle(path);
        self.check_full(path);
        self.check_drained(path);
        self.update_min_rtt(path);
        self.update_gains();
        self.set_pacing_rate(self.bandwidth(), self.pacing_gain);
        self.set_window(path);
    }

    fn holds_back(&self) -> bool {
        self.holds_back
    }

    fn on_lost(&mut self, total: u64) {
        self.total.lost = total;
    }

    /// The threshold stays; it only records at which window the path was full.
    fn on_congestion(&mut self, _: Congestion, _: Amount<Self>) {
        self.save_window();
    }

    fn on_spurious(&mut self, prior: Prior<u32>) {
        (self.full_bandwidth, self.full_rounds) = (0, 0);
        self.policer = Policer::new(self.total);
        self.window.set_ssthresh(self.window.ssthresh().max(prior.ssthresh));
    }

    fn is_rate_based(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<Rate> {
        (self.pacing_rate > 0).then(|| Rate::from_bits_per_second(8 * self.pacing_rate))
    }

    fn has_states(&self) -> bool {
        true
    }

    fn state_name(&self) -> Option<&'static str> {
        Some(self.mode.name())
    }

    fn burst_min(&self) -> u32 {
        if self.pacing_rate < SINGLES_BELOW { 1 } else { 2 }
    }
}
