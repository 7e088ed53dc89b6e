//! `HyStart++` (RFC 9406): the first slow start slows down when the delay grows, and resumes if that was a
//! mistake.
//!
//! It wraps an algorithm and replaces it as long as that has no threshold (section 4.3). The samples of the
//! ACK that ends a round still belong to that round.

use super::{Amount, Congestion, Controller, Cubic, Moment, Prior, RateSample, Reno, Segments, Sent, Setup};

/// `MIN_RTT_THRESH` and `MAX_RTT_THRESH`, in microseconds.
const RTT_THRESHOLD_MIN_US: u64 = 4_000;
const RTT_THRESHOLD_MAX_US: u64 = 16_000;
/// `MIN_RTT_DIVISOR`.
const RTT_DIVISOR: u64 = 8;
/// `N_RTT_SAMPLE`.
const RTT_SAMPLES: u32 = 8;
/// `CSS_GROWTH_DIVISOR`.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// `CSS_ROUNDS`.
const CSS_ROUNDS: u32 = 5;
/// L: maximum number of segments that an ACK counts for, unless the sender is paced.
const ACKED_MAX: u32 = 8;

/// Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// The delay that has ended slow start.
    baseline_us: u64,
    /// Number of rounds that have ended in it; the first may be a partial round.
    rounds: u32,
    /// Acknowledged segments that count towards the next segment of growth.
    count: u32,
}

/// The rounds of the first slow start.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    /// `windowEnd`.
    end: u64,
    /// `lastRoundMinRTT` and `currentRoundMinRTT`; the greatest number is infinity.
    last_us: u64,
    current_us: u64,
    samples: u32,
    css: Option<Css>,
}

/// An algorithm with this slow start.
#[derive(Clone, Debug)]
pub(crate) struct HyStartPlusPlus<C> {
    algorithm: C,
    rounds: Rounds,
    is_paced: bool,
}

impl Rounds {
    const fn new(end: u64) -> Self {
        Self { end, last_us: u64::MAX, current_us: u64::MAX, samples: 0, css: None }
    }

    /// A round-trip sample: section 4.2, which checks the delay.
    fn on_sample(&mut self, rtt_us: u64) {
        self.current_us = self.current_us.min(rtt_us);
        self.samples += 1;
        if self.samples < RTT_SAMPLES {
            return;
        }
        match self.css {
            None if self.delay_has_grown() => {
                self.css = Some(Css { baseline_us: self.current_us, rounds: 0, count: 0 });
            }
            Some(css) if self.current_us < css.baseline_us => self.css = None,
            _ => {}
        }
    }

    fn delay_has_grown(&self) -> bool {
        let threshold = (self.last_us / RTT_DIVISOR).clamp(RTT_THRESHOLD_MIN_US, RTT_THRESHOLD_MAX_US);
        self.last_us < u64::MAX && self.current_us >= self.last_us + threshold
    }

    /// Begins the next round. True if slow start is over.
    fn on_round(&mut self, nxt: u64) -> bool {
        (self.end, self.last_us, self.current_us, self.samples) = (nxt, self.current_us, u64::MAX, 0);
        self.css.as_mut().is_some_and(|css| {
            css.rounds += 1;
            css.rounds == CSS_ROUNDS
        })
    }

    /// Segments of growth for `acked` ones.
    fn growth(&mut self, acked: u32) -> u32 {
        let Some(css) = &mut self.css else { return acked };
        let count = css.count + acked;
        css.count = count % CSS_GROWTH_DIVISOR;
        count / CSS_GROWTH_DIVISOR
    }
}

impl<C: Controller<Window = Segments>> HyStartPlusPlus<C> {
    /// True while the first slow start has not ended.
    fn is_first_slow_start(&self) -> bool {
        self.algorithm.ssthresh() == u32::MAX
    }
}

impl<C: Controller<Window = Segments>> Controller for HyStartPlusPlus<C> {
    type Window = Segments;

    fn state(&self) -> &Segments {
        self.algorithm.state()
    }

    fn state_mut(&mut self) -> &mut Segments {
        self.algorithm.state_mut()
    }

    fn on_start(&mut self, at: &Moment, delivered: u64) {
        self.rounds = Rounds::new(at.nxt);
        self.algorithm.on_start(at, delivered);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.algorithm.on_sent(sent);
    }

    fn on_rtt(&mut self, at: &Moment, rtt_us: u64) {
        self.algorithm.on_rtt(at, rtt_us);
        self.rounds.on_sample(rtt_us);
    }

    fn on_ack(&mut self, sample: &RateSample) {
        if !self.is_first_slow_start() {
            self.algorithm.on_ack(sample);
            return;
        }
        if sample.is_window_limited {
            let acked_max = if self.is_paced { u32::MAX } else { ACKED_MAX };
            let growth = self.rounds.growth(sample.acked.min(acked_max));
            self.state_mut().start_slowly(growth);
        }
        if sample.at.una >= self.rounds.end && self.rounds.on_round(sample.at.nxt) {
            let window = self.window();
            self.state_mut().set_ssthresh(window);
        }
    }

    fn on_congestion(&mut self, sign: Congestion, flight: Amount<Self>) {
        self.algorithm.on_congestion(sign, flight);
    }

    fn on_spurious(&mut self, prior: Prior<Amount<Self>>) {
        self.algorithm.on_spurious(prior);
    }

    fn on_timeout(&mut self, at: &Moment, flight: Amount<Self>, window: Amount<Self>) {
        self.algorithm.on_timeout(at, flight, window);
    }

    fn on_persistent(&mut self, at: &Moment, window: Amount<Self>) {
        self.algorithm.on_persistent(at, window);
    }
}

impl HyStartPlusPlus<Reno<Segments>> {
    pub fn new(setup: Setup<'_>) -> Self {
        Self { is_paced: setup.pacing.is_on(), algorithm: Reno::new(setup), rounds: Rounds::new(0) }
    }
}

impl HyStartPlusPlus<Cubic<false>> {
    pub fn new(setup: Setup<'_>) -> Self {
        Self { is_paced: setup.pacing.is_on(), algorithm: Cubic::new(setup), rounds: Rounds::new(0) }
    }
}

#[cfg(test)]
mod tests;
