//! BBR version 3 (draft-ietf-ccwg-bbr, after -05; sections are the draft's by name). A model of the path as
//! in version 1, with bounds on the data in flight, which losses lower and probes raise.

mod bounds;
mod path;
#[cfg(test)]
mod tests;

use lasthop_core::{RandomStream, Rate};

use super::bandwidth::{BANDWIDTH_ONE, pacing_rate};
use super::{
    Amount, Congestion, Controller, DeliveryRate, LostSegment, Moment, PathSample, Prior, Segments, Sent,
    Setup, Window, burst,
};
use crate::common::State;
use bounds::{Bounds, Saved, is_too_high};
use path::PathModel;

/// No bound.
const INFINITE: u64 = u64::MAX;
/// Gains, in per cent: of pacing in Startup (4 ln 2) and Drain, of the window.
const STARTUP_GAIN: u64 = 277;
const DRAIN_GAIN: u64 = 50;
const WINDOW_GAIN: u64 = 200;
const PROBE_RTT_GAIN: u64 = 50;
/// Least window.
const WINDOW_MIN: u64 = 4;
const WINDOW_INITIAL: u64 = 10;
/// Maximum number of round trips of Drain.
const DRAIN_ROUNDS: u64 = 3;
/// Separate ranges of losses in a round trip that end Startup.
const FULL_LOSSES: u32 = 6;
const PROBE_RTT_US: u64 = 200_000;
/// A probe for bandwidth comes after the number of round trips that Reno would take to regain a lost segment,
/// but at most this number.
const RENO_ROUNDS_MAX: u64 = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bbr3Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Bbr3Mode {
    fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// True if losses are to be expected, because it sends more than the path has been shown to hold.
    fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// Its name in the draft.
    const fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Drain => "Drain",
            Self::Down => "ProbeBW_DOWN",
            Self::Cruise => "ProbeBW_CRUISE",
            Self::Refill => "ProbeBW_REFILL",
            Self::Up => "ProbeBW_UP",
            Self::ProbeRtt => "ProbeRTT",
        }
    }

    /// Gains of pacing and of the window, in per cent.
    fn gains(self) -> (u64, u64) {
        match self {
            Self::Startup => (STARTUP_GAIN, WINDOW_GAIN),
            Self::Drain => (DRAIN_GAIN, WINDOW_GAIN),
            Self::Down => (90, WINDOW_GAIN),
            Self::Cruise | Self::Refill => (100, WINDOW_GAIN),
            Self::Up => (125, 225),
            Self::ProbeRtt => (100, PROBE_RTT_GAIN),
        }
    }
}

/// The phase of the probe that the currently arriving ACKs answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Nothing,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The window, the model of the path, its bounds, and the state of the search.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a moment of its own")]
pub(crate) struct Bbr3 {
    window: Segments,
    mss: u32,
    draws: RandomStream,
    mode: Bbr3Mode,
    /// Pacing rate in bytes per second.
    pacing_rate: u64,
    path: PathModel,
    bounds: Bounds,
    answers: Answers,
    /// Start of the current cycle, and its waiting time before a probe.
    cycle_us: u64,
    wait_us: u64,
    rounds_since_probe: u64,
    drain_round: u64,
    full_bandwidth: u64,
    full_rounds: u32,
    is_full_now: bool,
    is_full: bool,
    /// True if the arriving data was sent during a probe.
    is_probe_sample: bool,
    was_too_high: bool,
    was_cautious: bool,
    /// Losses of this round trip: the number of separate ranges, and the end of the latest.
    loss_ranges: u32,
    loss_end: u64,
    recovery_round: u64,
    probe_rtt_end_us: Option<u64>,
    probe_rtt_round: bool,
    holds_back: bool,
    restarts: bool,
    state: State,
    prior_window: u64,
    saved: Saved,
    has_saved: bool,
    resumes_probe: bool,
    first_rtt_us: Option<u64>,
    rtt_us: Option<u64>,
    delivered: u64,
}

impl Bbr3 {
    pub fn new(setup: Setup<'_>) -> Self {
        Self {
            window: setup.window,
            mss: setup.segment_bytes,
            draws: setup.stream(),
            mode: Bbr3Mode::Startup,
            pacing_rate: 0,
            path: PathModel::new(None, 0),
            bounds: Bounds::default(),
            answers: Answers::Nothing,
            cycle_us: 0,
            wait_us: 0,
            rounds_since_probe: 0,
            drain_round: 0,
            full_bandwidth: 0,
            full_rounds: 0,
            is_full_now: false,
            is_full: false,
            is_probe_sample: false,
            was_too_high: false,
            was_cautious: false,
            loss_ranges: 0,
            loss_end: 0,
            recovery_round: 0,
            probe_rtt_end_us: None,
            probe_rtt_round: false,
            holds_back: false,
            restarts: false,
            state: State::Open,
            prior_window: 0,
            saved: Saved::default(),
            has_saved: false,
            resumes_probe: false,
            first_rtt_us: None,
            rtt_us: None,
            delivered: 0,
        }
    }

    /// The rate to send at.
    fn bandwidth(&self) -> u64 {
        self.path.bandwidth().min(self.bounds.bandwidth_short)
    }

    fn segments(&self) -> u64 {
        u64::from(self.window.window())
    }

    /// Bandwidth-delay product in segments, times a gain (`BDPMultiple`).
    fn path_segments(&self, bandwidth: u64, gain: u64) -> u64 {
        let Some(rtt) = self.path.min_rtt_us() else { return WINDOW_INITIAL };
        (bandwidth * rtt * gain / 100).div_ceil(BANDWIDTH_ONE)
    }

    /// Adds room for three bursts at the two ends (`QuantizationBudget`).
    fn with_room_for_bursts(&self, segments: u64) -> u64 {
        let rate = Rate::from_bits_per_second(8 * self.pacing_rate.max(1));
        let burst = u64::from(burst(rate, u64::MAX, self.mss, self.burst_min()));
        let extra = if self.mode == Bbr3Mode::Up { 2 } else { 0 };
        segments.max(3 * burst).max(WINDOW_MIN) + extra
    }

    fn inflight(&self, bandwidth: u64, gain: u64) -> u64 {
        self.with_room_for_bursts(self.path_segments(bandwidth, gain))
    }

    fn target(&self) -> u64 {
        self.path_segments(self.bandwidth(), 100).min(self.segments())
    }

    // "Updating the Model".

    fn update_model(&mut self, path: &PathSample, sample: Option<&DeliveryRate>) {
        let too_few_losses = !self.bounds.is_loss_in_round;
        if let Some(rate) = sample {
            self.bounds.update_latest(rate, path.total_delivered);
            if self.path.update(rate, path.total_delivered) {
                self.rounds_since_probe += 1;
            }
        } else {
            self.path.round.is_start = false;
            self.bounds.round.is_start = false;
        }
        if self.bounds.round.is_start {
            if !self.mode.accelerates() && !too_few_losses {
                self.bounds.lower(self.path.bandwidth(), self.segments());
            }
            self.bounds.is_loss_in_round = false;
        }
        let bandwidth = self.bandwidth();
        self.path.update_aggregation(path, bandwidth, self.is_full, self.segments());
    }

    /// Startup's end and the end of a probe: the bandwidth grows no more (`CheckFullBWReached`).
    fn check_full(&mut self, sample: Option<&DeliveryRate>) {
        let Some(rate) = sample.filter(|rate| !rate.is_app_limited) else { return };
        if self.is_full_now || !self.path.round.is_start {
            return;
        }
        let bandwidth = rate.bandwidth();
        if bandwidth * 4 >= self.full_bandwidth * 5 {
            self.reset_full();
            self.full_bandwidth = bandwidth;
            return;
        }
        self.full_rounds += 1;
        self.is_full_now = self.full_rounds >= 3;
        self.is_full |= self.is_full_now;
    }

    fn reset_full(&mut self) {
        (self.full_bandwidth, self.full_rounds, self.is_full_now) = (0, 0, false);
    }

    // "Startup" and "Drain".

    fn check_startup(&mut self, sample: Option<&DeliveryRate>) {
        if self.mode != Bbr3Mode::Startup {
            return;
        }
        self.check_startup_losses(sample);
        if self.is_full {
            self.mode = Bbr3Mode::Drain;
            self.drain_round = self.path.rounds;
            // Not in the draft: it records at which window the path was full, as in version 1.
            self.window.set_ssthresh(self.inflight(self.path.bandwidth(), 100) as u32);
        }
    }

    /// Losses in a complete round trip in recovery show that the path is full (`CheckStartupHighLoss`).
    fn check_startup_losses(&mut self, sample: Option<&DeliveryRate>) {
        if !self.path.round.is_start {
            return;
        }
        let ranges = std::mem::take(&mut self.loss_ranges);
        let has_lasted = self.state == State::Recovery && self.path.rounds > self.recovery_round;
        if has_lasted
            && ranges >= FULL_LOSSES
            && sample.is_some_and(|rate| is_too_high(rate.lost, rate.tx_in_flight))
        {
            self.saved.mode = Some(Bbr3Mode::Startup);
            self.is_full = true;
            let path = self.path_segments(self.bandwidth(), 100);
            self.bounds.inflight_long = path.max(self.bounds.inflight_latest);
        }
    }

    fn check_drained(&mut self, path: &PathSample) {
        let is_empty = u64::from(path.in_flight) <= self.inflight(self.bandwidth(), 100);
        if self.mode == Bbr3Mode::Drain && (is_empty || self.path.rounds > self.drain_round + DRAIN_ROUNDS) {
            self.go_down(path.ack.at.us, path.total_delivered);
        }
    }

    // "ProbeBW".

    fn go_down(&mut self, now_us: u64, delivered: u64) {
        self.bounds.reset_signals();
        self.bounds.probe_up_per_segment = INFINITE;
        self.rounds_since_probe = self.draws.bits() >> 63;
        self.wait_us = 2_000_000 + (self.draws.unit() * 1e6) as u64;
        self.cycle_us = now_us;
        self.answers = Answers::Stopping;
        self.path.round.begin(delivered);
        self.mode = Bbr3Mode::Down;
    }

    fn refill(&mut self, delivered: u64) {
        self.bounds.reset_short();
        (self.bounds.probe_up_rounds, self.bounds.probe_up_acked) = (0, 0);
        self.was_cautious = false;
        self.answers = Answers::Refilling;
        self.path.round.begin(delivered);
        self.mode = Bbr3Mode::Refill;
    }

    fn go_up(&mut self, delivered: u64, bandwidth: u64) {
        self.answers = Answers::Starting;
        self.path.round.begin(delivered);
        self.reset_full();
        self.full_bandwidth = bandwidth;
        self.mode = Bbr3Mode::Up;
        let window = self.segments();
        self.bounds.raise_slope(window);
    }

    fn update_cycle(&mut self, path: &PathSample, sample: Option<&DeliveryRate>) {
        if !self.is_full || self.adapt_long_term(path, sample) {
            return;
        }
        match self.mode {
            Bbr3Mode::Down => {
                if !self.check_time_to_probe(path) && self.is_time_to_cruise(path) {
                    self.mode = Bbr3Mode::Cruise;
                }
            }
            Bbr3Mode::Cruise => {
                self.check_time_to_probe(path);
            }
            Bbr3Mode::Refill => {
                if self.path.round.is_start {
                    self.is_probe_sample = true;
                    self.go_up(path.total_delivered, sample.map_or(0, DeliveryRate::bandwidth));
                }
            }
            Bbr3Mode::Up => {
                if self.is_time_to_go_down(path, sample) {
                    self.was_too_high = false;
                    self.go_down(path.ack.at.us, path.total_delivered);
                }
            }
            Bbr3Mode::Startup | Bbr3Mode::Drain | Bbr3Mode::ProbeRtt => {}
        }
    }

    /// Tracks the ACKs that answer a probe, and raises the bound on the flight size. Returns true if it has
    /// chosen a mode.
    fn adapt_long_term(&mut self, path: &PathSample, sample: Option<&DeliveryRate>) -> bool {
        let is_round_start = self.path.round.is_start;
        if self.answers == Answers::Starting && is_round_start {
            self.answers = Answers::Feedback;
        }
        if self.answers == Answers::Stopping && is_round_start {
            self.is_probe_sample = false;
            self.answers = Answers::Nothing;
            if self.mode.probes_bandwidth() {
                if sample.is_some_and(|rate| !rate.is_app_limited) {
                    self.path.advance_cycle();
                }
                if self.was_cautious && !self.was_too_high {
                    self.refill(path.total_delivered);
                    return true;
                }
            }
        }
        let Some(rate) = sample.filter(|rate| !is_too_high(rate.lost, rate.tx_in_flight)) else {
            return false;
        };
        if self.bounds.inflight_long != INFINITE {
            self.bounds.inflight_long = self.bounds.inflight_long.max(u64::from(rate.tx_in_flight));
            if self.mode == Bbr3Mode::Up && path.ack.is_window_limited {
                self.bounds.probe_upward(u64::from(path.ack.acked), self.segments(), is_round_start);
            }
        }
        false
    }

    fn check_time_to_probe(&mut self, path: &PathSample) -> bool {
        let has_waited = path.ack.at.us > self.cycle_us + self.wait_us;
        let is_time = has_waited || self.rounds_since_probe >= self.target().min(RENO_ROUNDS_MAX);
        if is_time {
            self.refill(path.total_delivered);
        }
        is_time
    }

    fn is_time_to_cruise(&self, path: &PathSample) -> bool {
        let in_flight = u64::from(path.in_flight);
        in_flight <= self.bounds.with_headroom() && in_flight <= self.inflight(self.path.bandwidth(), 100)
    }

    fn is_time_to_go_down(&mut self, path: &PathSample, sample: Option<&DeliveryRate>) -> bool {
        if self.was_too_high && u64::from(path.in_flight) >= self.bounds.inflight_long {
            self.was_cautious = true;
            return true;
        }
        if path.ack.is_window_limited && self.segments() >= self.bounds.inflight_long {
            // The bound limits the bandwidth, not the path.
            self.reset_full();
            self.full_bandwidth = sample.map_or(0, DeliveryRate::bandwidth);
            return false;
        }
        self.is_full_now
    }

    // "ProbeRTT".

    fn check_probe_rtt(&mut self, path: &PathSample) {
        let now = path.ack.at.us;
        let is_old = self.path.update_min_rtt(now, self.rtt_us.take());
        if self.mode != Bbr3Mode::ProbeRtt && is_old && !self.restarts {
            self.save_window();
            self.mode = Bbr3Mode::ProbeRtt;
            self.probe_rtt_end_us = None;
            self.answers = Answers::Stopping;
            self.path.round.begin(path.total_delivered);
        }
        self.holds_back = self.mode == Bbr3Mode::ProbeRtt;
        if self.holds_back {
            if self.probe_rtt_end_us.is_some() {
                self.probe_rtt_round |= self.path.round.is_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_over(now);
                }
            } else if u64::from(path.in_flight) <= self.probe_rtt_window() {
                self.probe_rtt_end_us = Some(now + PROBE_RTT_US);
                self.probe_rtt_round = false;
                self.path.round.begin(path.total_delivered);
            }
        }
        if path.ack.acked > 0 {
            self.restarts = false;
        }
    }

    fn check_probe_rtt_over(&mut self, now_us: u64) {
        if self.probe_rtt_end_us.is_none_or(|end| now_us <= end) {
            return;
        }
        self.path.probe_rtt_stamp_us = now_us;
        self.restore_window();
        self.bounds.reset_short();
        if self.is_full {
            self.go_down(now_us, self.delivered);
            self.mode = Bbr3Mode::Cruise;
        } else {
            self.mode = Bbr3Mode::Startup;
        }
    }

    fn probe_rtt_window(&self) -> u64 {
        self.path_segments(self.bandwidth(), PROBE_RTT_GAIN).max(WINDOW_MIN)
    }

    // "Updating Control Parameters".

    /// Until the path is full, the rate only grows.
    fn set_pacing_rate(&mut self, gain: u64) {
        let bytes = self.bandwidth() * u64::from(self.mss) * gain / 100;
        let rate = pacing_rate(bytes);
        if self.is_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_window(&mut self, path: &PathSample) {
        let (_, gain) = self.mode.gains();
        let most = self.path_segments(self.bandwidth(), gain) + self.path.extra_acked();
        let most = self.with_room_for_bursts(most);
        let acked = u64::from(path.ack.acked);
        let mut window = self.segments();
        if self.is_full {
            window = (window + acked).min(most);
        } else if window < most || path.total_delivered < WINDOW_INITIAL {
            window += acked;
        }
        window = window.max(WINDOW_MIN);
        if self.mode == Bbr3Mode::ProbeRtt {
            window = window.min(self.probe_rtt_window());
        }
        self.window.set(window.min(self.bound()) as u32);
    }

    /// The bound on the flight size in the model (`BoundCwndForModel`).
    fn bound(&self) -> u64 {
        let long = match self.mode {
            Bbr3Mode::Down | Bbr3Mode::Refill | Bbr3Mode::Up => self.bounds.inflight_long,
            Bbr3Mode::Cruise | Bbr3Mode::ProbeRtt => self.bounds.with_headroom(),
            Bbr3Mode::Startup | Bbr3Mode::Drain => INFINITE,
        };
        long.min(self.bounds.inflight_short).max(WINDOW_MIN)
    }

    fn save_window(&mut self) {
        let is_good = self.state < State::Recovery && self.mode != Bbr3Mode::ProbeRtt;
        let window = self.segments();
        self.prior_window = if is_good { window } else { self.prior_window.max(window) };
    }

    fn restore_window(&mut self) {
        self.window.set(self.segments().max(self.prior_window) as u32);
    }

    /// `SaveStateUponLoss`, but once for an episode, as the draft's text has it ("when a loss recovery episode
    /// starts"). Its pseudo-code saves again in Down, and so forgets that a loss ended Up.
    fn save_for_undo(&mut self) {
        self.save_window();
        if !std::mem::replace(&mut self.has_saved, true) {
            self.saved = self.bounds.saved();
        }
    }
}

impl Controller for Bbr3 {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, delivered: u64) {
        self.window.set_ssthresh(u32::MAX);
        self.path = PathModel::new(self.first_rtt_us, at.us);
        self.delivered = delivered;
        let rtt = self.first_rtt_us.map_or(1_000, |rtt| rtt.max(1));
        let bytes = self.segments() * u64::from(self.mss) * 1_000_000 / rtt;
        self.pacing_rate = (bytes * STARTUP_GAIN / 100).max(1);
    }

    fn on_sent(&mut self, sent: &Sent) {
        if sent.idle_since.is_none() || !sent.is_app_limited {
            return;
        }
        self.restarts = true;
        self.path.begin_aggregation(sent.at.us);
        if self.mode.probes_bandwidth() {
            self.set_pacing_rate(100);
        } else if self.mode == Bbr3Mode::ProbeRtt {
            self.check_probe_rtt_over(sent.at.us);
        }
    }

    fn on_rtt(&mut self, _: &Moment, rtt_us: u64) {
        self.first_rtt_us.get_or_insert(rtt_us);
        self.rtt_us = Some(rtt_us);
    }

    fn on_state(&mut self, _: &Moment, state: State) {
        let before = std::mem::replace(&mut self.state, state);
        self.has_saved &= state >= State::Recovery;
        if state == State::Recovery {
            self.recovery_round = self.path.rounds;
        } else if before >= State::Recovery && state < State::Recovery {
            self.restore_window();
        }
    }

    fn on_path(&mut self, path: &PathSample) {
        if self.pacing_rate == 0 {
            // The response to the SYN.
            return;
        }
        self.delivered = path.total_delivered;
        if std::mem::take(&mut self.resumes_probe) {
            // Data delivered by the ACK that revealed spurious losses belong to the previous round trip.
            self.path.round.begin(self.delivered);
        }
        let sample = path.ack.rate.as_ref();
        self.update_model(path, sample);
        self.check_full(sample);
        self.check_startup(sample);
        self.check_drained(path);
        self.update_cycle(path, sample);
        self.check_probe_rtt(path);
        self.bounds.advance_latest(sample);
        let (gain, _) = self.mode.gains();
        self.set_pacing_rate(gain);
        self.set_window(path);
    }

    fn hears_losses(&self) -> bool {
        true
    }

    /// `HandleLostPacket`.
    fn on_segment_lost(&mut self, lost: &LostSegment) {
        if !self.bounds.is_loss_in_round {
            self.bounds.round.begin(lost.total_delivered);
            self.save_for_undo();
        }
        self.bounds.is_loss_in_round = true;
        self.loss_ranges += u32::from(lost.seq != self.loss_end);
        self.loss_end = lost.end;
        if !self.is_probe_sample || !is_too_high(lost.lost, lost.tx_in_flight) {
            return;
        }
        self.was_too_high = true;
        self.is_probe_sample = false;
        if !lost.is_app_limited {
            let target = self.target() * bounds::BETA / 100;
            self.bounds.inflight_long = bounds::inflight_at_loss(lost.lost, lost.tx_in_flight).max(target);
        }
        if self.mode == Bbr3Mode::Up {
            self.saved.mode = Some(Bbr3Mode::Up);
            self.go_down(lost.at_us, lost.total_delivered);
        }
    }

    fn holds_back(&self) -> bool {
        self.holds_back
    }

    fn on_congestion(&mut self, _: Congestion, _: Amount<Self>) {
        self.save_for_undo();
    }

    /// `HandleSpuriousLossDetection`.
    fn on_spurious(&mut self, prior: Prior<u32>) {
        self.restore_window();
        self.window.set_ssthresh(self.window.ssthresh().max(prior.ssthresh));
        self.bounds.is_loss_in_round = false;
        self.reset_full();
        self.bounds.restore(&self.saved);
        match self.saved.mode.take() {
            Some(Bbr3Mode::Startup) if self.mode != Bbr3Mode::Startup => {
                self.is_full = false;
                if self.mode != Bbr3Mode::ProbeRtt {
                    self.mode = Bbr3Mode::Startup;
                }
            }
            Some(Bbr3Mode::Up) if !matches!(self.mode, Bbr3Mode::Up | Bbr3Mode::ProbeRtt) => {
                self.refill(self.delivered);
                self.resumes_probe = true;
            }
            _ => {}
        }
    }

    fn is_rate_based(&self) -> bool {
        true
    }

    fn has_states(&self) -> bool {
        true
    }

    fn state_name(&self) -> Option<&'static str> {
        Some(self.mode.name())
    }

    fn pacing_rate(&self) -> Option<Rate> {
        (self.pacing_rate > 0).then(|| Rate::from_bits_per_second(8 * self.pacing_rate))
    }
}
