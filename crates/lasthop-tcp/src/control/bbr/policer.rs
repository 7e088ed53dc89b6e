//! Detection of token buckets that police the flow (Flach et al. 2016): if two spans with many losses deliver
//! at the same rate, that is the allowed rate.

use super::{GAIN_SHIFT, UNIT};
use crate::control::bandwidth::{BANDWIDTH_ONE, pacing_rate};

/// Minimum number of round trips of a span; a span of four times this number is not significant.
const SPAN_ROUNDS: u32 = 4;
/// Losses per delivered segment from which on a span has many losses, in units of 1/256: a fifth.
const LOSS_MIN: u64 = 50;
/// Rates count as equal if they differ by at most an eighth, or by this number of bytes per second.
const RATIO: u64 = UNIT / 8;
const DIFFERENCE: u64 = 4_000 / 8;
/// Number of round trips for which the rate is assumed to hold.
const BELIEVED_ROUNDS: u32 = 48;

/// Counters of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    /// Segments.
    pub delivered: u64,
    pub lost: u64,
    pub delivered_us: u64,
}

/// The information in one ACK, or in a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub total: Total,
    /// True if it shows a loss.
    pub lost: bool,
    pub is_app_limited: bool,
    pub is_round_start: bool,
    pub mss: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Rate of the latest span, or that of the policer; 0 if there is none.
    bandwidth: u64,
    is_policed: bool,
    samples: bool,
    /// When the span began.
    begin: Total,
    rounds: u32,
}

impl Policer {
    /// Forgets everything.
    pub fn new(now: Total) -> Self {
        Self { begin: now, ..Self::default() }
    }

    /// The rate that is allowed, if the flow is policed.
    pub fn bandwidth(&self) -> Option<u64> {
        self.is_policed.then_some(self.bandwidth)
    }

    /// A round trip at that rate is over. True if the rate is no longer assumed to hold.
    pub fn is_over(&mut self, now: Total) -> bool {
        self.rounds += 1;
        let over = self.rounds >= BELIEVED_ROUNDS;
        if over {
            *self = Self::new(now);
        }
        over
    }

    /// Processes an ACK. True if the flow is now detected to be policed.
    pub fn sample(&mut self, now: Sample) -> bool {
        if !self.samples {
            // The first loss shows that the bucket is empty.
            if !now.lost {
                return false;
            }
            self.begin_span(now.total);
            self.samples = true;
        }
        if now.is_app_limited {
            *self = Self::new(now.total);
            return false;
        }
        self.rounds += u32::from(now.is_round_start);
        if self.rounds < SPAN_ROUNDS {
            return false;
        }
        if self.rounds > 4 * SPAN_ROUNDS {
            *self = Self::new(now.total);
            return false;
        }
        // A span ends with a loss, too.
        now.lost && self.end_span(&now)
    }

    fn begin_span(&mut self, now: Total) {
        (self.begin, self.rounds) = (now, 0);
    }

    fn end_span(&mut self, now: &Sample) -> bool {
        let Total { delivered, lost, delivered_us } = now.total;
        let (delivered, lost) = (delivered - self.begin.delivered, lost - self.begin.lost);
        let length_ms = (delivered_us / 1_000).saturating_sub(self.begin.delivered_us / 1_000);
        if delivered == 0 || lost << GAIN_SHIFT < LOSS_MIN * delivered || length_ms == 0 {
            return false;
        }
        if length_ms >= u64::from(u32::MAX) / 1_000 {
            *self = Self::new(now.total);
            return false;
        }
        let bandwidth = delivered * BANDWIDTH_ONE / (length_ms * 1_000);
        if self.bandwidth > 0 && self.is_same(bandwidth, now.mss) {
            self.bandwidth = u64::midpoint(bandwidth, self.bandwidth);
            self.is_policed = true;
            self.rounds = 0;
            return true;
        }
        self.bandwidth = bandwidth;
        self.begin_span(now.total);
        false
    }

    fn is_same(&self, bandwidth: u64, mss: u32) -> bool {
        let difference = bandwidth.abs_diff(self.bandwidth);
        let bytes_per_second = pacing_rate(difference * u64::from(mss));
        difference * UNIT <= RATIO * self.bandwidth || bytes_per_second <= DIFFERENCE
    }
}
