//! Prague (draft-briscoe-iccrg-prague-congestion-control), after the reference implementation for Linux:
//! DCTCP for the Internet. Marks cut the window by half of their share, and losses halve it; meanwhile,
//! unmarked arrivals let it grow. After a while, flows over short paths grow as if their round-trip time were
//! 25 ms.
//!
//! The target window has a fraction; the window moves towards it by one segment per ACK. Without accurate ECN
//! the stack uses Reno.
//!
//! Version 0.5 differs in four things: `prague_rtt_scaling` is off, so paths shorter than 25 ms have no growth of
//! their own; the window also grows while pacing holds data back; it moves by whole segments (`cwnd_cnt`), and its
//! fraction counts neither for growth, cuts nor pacing; and pacing counts headers.

use lasthop_core::Rate;

use super::{Acked, Amount, Congestion, Controller, Moment, Prior, RateSample, Segments, Setup, Window};
use crate::common::State;
use crate::config::PragueVersion;

/// Binary places of shares and of windows.
const PLACES: u32 = 20;
const ONE: u64 = 1 << PLACES;
/// g = 1/16, the weight of a round's share; alpha is kept multiplied by it.
const WEIGHT_LOG: u32 = 4;
/// Shorter round-trip times are replaced by this one, in microseconds.
const RTT_VIRTUAL_US: u64 = 25_000;
/// Number of rounds after slow start before that happens.
const ROUNDS_YOUNG: u32 = 500;
/// A burst lasts for a second divided by two to this power.
const BURST_SHIFT: u32 = 12;
/// Minimum window.
const WINDOW_MIN: u32 = 2;

/// The window, and the share of segments that were marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prague {
    version: PragueVersion,
    window: Segments,
    /// The target of the window.
    target: u64,
    /// What a segment counts in the pacing rate; the pacer itself counts payload.
    paced_bytes: u64,
    srtt_us: u64,
    alpha: u64,
    /// True if marks have been seen.
    has_seen_mark: bool,
    /// Segments that have arrived, and those of them that were marked: so far, at the last ACK, and at the
    /// start of the round.
    delivered: u64,
    delivered_ce: u64,
    told_ce: u64,
    round_delivered: u64,
    round_delivered_ce: u64,
    round_end: u64,
    rounds: u32,
    /// Times of the last change of alpha, and of the last cut by a mark.
    updated_us: u64,
    cut_us: u64,
    now_us: u64,
    /// During the repair of a loss: the target before it.
    in_loss: bool,
    before_loss: u64,
}

impl Prague {
    pub fn new(setup: Setup<'_>) -> Self {
        Self {
            version: setup.prague,
            window: setup.window,
            target: u64::from(setup.window.window()) << PLACES,
            paced_bytes: u64::from(match setup.prague {
                // With headers (`tcp_mss_to_mtu`), so pacing is a little faster than the window per round trip.
                PragueVersion::V0_5 => setup.packet_bytes,
                PragueVersion::V0_6 => setup.segment_bytes,
            }),
            srtt_us: 0,
            alpha: ONE << WEIGHT_LOG,
            has_seen_mark: false,
            delivered: 0,
            delivered_ce: 0,
            told_ce: 0,
            round_delivered: 0,
            round_delivered_ce: 0,
            round_end: 0,
            rounds: 0,
            updated_us: 0,
            cut_us: 0,
            now_us: 0,
            in_loss: false,
            before_loss: 0,
        }
    }

    /// The target in segments.
    fn target_segments(&self) -> u32 {
        self.target.div_ceil(ONE) as u32
    }

    /// The window that growth, cuts and pacing refer to: with its fraction since version 0.6.
    fn size(&self) -> u64 {
        match self.version {
            PragueVersion::V0_5 => u64::from(self.window.window()) << PLACES,
            PragueVersion::V0_6 => self.target,
        }
    }

    /// The window towards which the next ACK moves it. Up to version 0.5 it moves only once the target is a
    /// whole segment away (`cwnd_cnt`).
    fn wanted(&self) -> u32 {
        let window = self.window.window();
        match self.version {
            PragueVersion::V0_5 if self.target + ONE <= self.size() => window - 1,
            PragueVersion::V0_5 if self.target >= self.size() + ONE => window + 1,
            PragueVersion::V0_5 => window,
            PragueVersion::V0_6 => self.target_segments(),
        }
    }

    /// True if slow start has been over long enough that a short path gives no more advantage.
    fn is_rtt_independent(&self) -> bool {
        self.version == PragueVersion::V0_6 && !self.window.is_slow_start() && self.rounds >= ROUNDS_YOUNG
    }

    /// Minimum time between changes of alpha, and between cuts, in addition to a round trip.
    fn is_due(&self, since_us: u64) -> bool {
        !self.is_rtt_independent() || self.now_us - since_us >= RTT_VIRTUAL_US
    }

    /// Growth per round trip: one segment, or the growth that corresponds to one segment per virtual round
    /// trip for a sender of the same rate.
    fn growth(&self) -> u64 {
        if self.srtt_us >= RTT_VIRTUAL_US || !self.is_rtt_independent() {
            return ONE;
        }
        ONE * self.srtt_us * self.srtt_us / (RTT_VIRTUAL_US * RTT_VIRTUAL_US)
    }

    /// Handles `acked` segments that have arrived without a mark.
    fn grow(&mut self, acked: u32) {
        let left = self.window.start_slowly(acked);
        if left < acked {
            self.target = u64::from(self.window.window()) << PLACES;
        }
        self.target += u64::from(left) * self.growth() / self.size().div_ceil(ONE);
    }

    /// Moves the window by one segment towards the target.
    fn step(&mut self) {
        let (window, wanted) = (self.window.window(), self.wanted());
        if wanted < WINDOW_MIN.min(window) {
            self.target = u64::from(WINDOW_MIN) << PLACES;
        } else if window > wanted {
            self.window.set(window - 1);
            self.window.set_ssthresh(window - 1);
        } else if window < wanted {
            self.window.set(window + 1);
        }
    }

    /// A round trip is over: alpha moves by a sixteenth of its distance to the share of marks.
    fn end_round(&mut self, at: &Moment) {
        if self.has_seen_mark {
            let delivered = (self.delivered - self.round_delivered).max(1);
            let share = ((self.delivered_ce - self.round_delivered_ce) << PLACES) / delivered;
            self.alpha = (self.alpha - (self.alpha >> WEIGHT_LOG) + share).min(ONE << WEIGHT_LOG);
            self.updated_us = at.us;
        }
        self.begin_round(at);
        self.rounds = self.rounds.saturating_add(u32::from(!self.window.is_slow_start()));
    }

    fn begin_round(&mut self, at: &Moment) {
        self.round_end = at.nxt;
        (self.round_delivered, self.round_delivered_ce) = (self.delivered, self.delivered_ce);
    }

    fn cut(&mut self, by: u64) {
        let least = match self.version {
            PragueVersion::V0_5 => ONE,
            PragueVersion::V0_6 => u64::from(WINDOW_MIN) << PLACES,
        };
        self.target = self.target.saturating_sub(by).max(least);
        self.window.reduce(self.target_segments().max(WINDOW_MIN));
    }

    fn halve_for_loss(&mut self) {
        self.before_loss = self.target;
        self.in_loss = true;
        self.cut(self.target / 2);
    }
}

impl Controller for Prague {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, delivered: u64) {
        self.target = u64::from(self.window.window()) << PLACES;
        self.delivered = delivered;
        self.begin_round(at);
    }

    fn on_rtt(&mut self, _: &Moment, rtt_us: u64) {
        self.srtt_us = if self.srtt_us == 0 { rtt_us } else { (7 * self.srtt_us + rtt_us) / 8 };
    }

    fn on_state(&mut self, _: &Moment, state: State) {
        match state {
            State::Recovery if !self.in_loss => self.halve_for_loss(),
            State::Open => self.in_loss = false,
            _ => {}
        }
    }

    fn hears_every_ack(&self) -> bool {
        true
    }

    fn on_every_ack(&mut self, ack: &Acked) {
        self.now_us = ack.at.us;
        (self.delivered, self.delivered_ce) = (ack.delivered, ack.delivered_ce);
    }

    fn on_ack(&mut self, sample: &RateSample) {
        let marked = self.delivered_ce - std::mem::replace(&mut self.told_ce, self.delivered_ce);
        self.has_seen_mark |= marked > 0;
        let unmarked = u64::from(sample.acked).saturating_sub(marked) as u32;
        if unmarked > 0 && !self.in_loss && sample.is_window_limited {
            self.grow(unmarked);
        }
        self.step();
        if sample.at.una >= self.round_end && self.is_due(self.updated_us) {
            self.end_round(&sample.at);
        }
    }

    /// Once per round trip, which counts as at least 25 ms for older flows: `cwnd = cwnd * (1 - alpha / 2)`.
    fn on_congestion(&mut self, sign: Congestion, _: Amount<Self>) {
        match sign {
            Congestion::Loss => self.halve_for_loss(),
            Congestion::Ecn if self.is_due(self.cut_us) => {
                self.cut_us = self.now_us;
                self.cut((self.size() * (self.alpha >> WEIGHT_LOG)) >> (PLACES + 1));
            }
            Congestion::Ecn => {}
        }
    }

    fn on_spurious(&mut self, prior: Prior<Amount<Self>>) {
        self.target = self.target.max(self.before_loss);
        self.window.restore(prior);
    }

    fn grows_while_paced(&self) -> bool {
        self.version == PragueVersion::V0_5
    }

    fn is_rate_based(&self) -> bool {
        true
    }

    /// A window per round-trip time, twice that in slow start.
    fn pacing_rate(&self) -> Option<Rate> {
        let is_early = self.window.window() < self.window.ssthresh() / 2;
        let bits = (self.size() >> (PLACES - 8)) * self.paced_bytes * if is_early { 16 } else { 8 };
        let rate = |srtt_us: u64| Rate::from_bits_per_second(((bits * 1_000_000 / srtt_us) >> 8).max(1));
        (self.srtt_us > 0).then(|| rate(self.srtt_us))
    }

    fn burst_min(&self) -> u32 {
        1
    }

    /// The burst of a quarter of a millisecond at the pacing rate.
    fn burst_max(&self) -> u32 {
        let bytes = self.pacing_rate().map_or(0, |rate| (rate.bits_per_second() / 8) >> BURST_SHIFT);
        ((bytes / self.paced_bytes) as u32).max(1)
    }
}

#[cfg(test)]
mod tests;
