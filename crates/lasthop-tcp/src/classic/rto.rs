//! Round-trip estimation on a coarse clock: Jacobson's filter (RFC 6298, section 2) in fixed point, as in
//! BSD.

use std::ops::Range;

use crate::clock::Tick;

/// Smoothed round-trip time and deviation, and the timeout that follows from them. All values are in ticks.
#[derive(Clone, Debug)]
pub(super) struct ClassicRttEstimator {
    /// Smoothed round-trip time in eighths of a tick, and deviation in quarters; none before the first
    /// sample.
    smoothed: Option<(i64, i64)>,
    /// Doublings since the last valid sample.
    backoff: u32,
    minimum: Tick,
    initial: Tick,
    maximum: Tick,
}

impl ClassicRttEstimator {
    pub fn new(minimum: Tick, initial: Tick, maximum: Tick) -> Self {
        Self { smoothed: None, backoff: 0, minimum, initial, maximum }
    }

    /// Adds a sample, which ends the backoff (Karn).
    pub fn sample(&mut self, ticks: Tick) {
        let rtt = crate::common::rtt::signed(ticks);
        self.smoothed = Some(match self.smoothed {
            None => (rtt << 3, rtt << 1),
            Some((srtt_8, var_4)) => {
                let error = rtt - (srtt_8 >> 3);
                (srtt_8 + error, var_4 + error.abs() - (var_4 >> 2))
            }
        });
        self.backoff = 0;
    }

    /// Timeout now, backoff included: SRTT + 4 deviations in whole ticks, within its bounds.
    pub fn rto(&self) -> Tick {
        let timeout = match self.smoothed {
            None => self.initial,
            Some((srtt_8, var_4)) => ((srtt_8 >> 3) + var_4) as Tick,
        };
        let doubled = u128::from(timeout.max(self.minimum)) << self.backoff;
        doubled.min(u128::from(self.maximum)) as Tick
    }

    /// Doubles the timeout after an expiry (RFC 6298, section 5.5).
    pub fn back_off(&mut self) {
        if self.rto() < self.maximum {
            self.backoff += 1;
        }
    }
}

/// The retransmission timer. One segment is timed at a time, and never a retransmitted one (Karn).
#[derive(Clone, Debug)]
pub(super) struct ClassicTimer {
    pub rtt: ClassicRttEstimator,
    pub due: Option<Tick>,
    /// Expiries since the last acknowledgment of data.
    pub expiries: u32,
    /// First byte of the segment that is being timed, and when it left.
    pub timed: Option<(u64, Tick)>,
}

impl ClassicTimer {
    pub fn new(rtt: ClassicRttEstimator) -> Self {
        Self { rtt, due: None, expiries: 0, timed: None }
    }

    /// The timer of k ticks fires at the k-th boundary of the clock from now.
    pub fn restart(&mut self, tick: Tick) {
        self.due = Some(tick + self.rtt.rto());
    }

    /// The data in `range` is retransmitted, so it must not be timed.
    pub fn spare(&mut self, range: Range<u64>) {
        self.timed = self.timed.filter(|(timed, _)| !range.contains(timed));
    }

    /// A sample, once the timed segment is acknowledged: the number of clock boundaries that were crossed,
    /// plus one.
    pub fn take_sample(&mut self, una: u64, now: Tick) -> Option<Tick> {
        let (_, sent) = self.timed.take_if(|&mut (seq, _)| una > seq)?;
        let ticks = now - sent + 1;
        self.rtt.sample(ticks);
        Some(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::{ClassicRttEstimator, ClassicTimer};

    #[test]
    fn one_segment_is_timed_and_none_that_was_sent_twice() {
        let mut timer = ClassicTimer::new(ClassicRttEstimator::new(2, 30, 640));
        timer.timed = Some((100, 5));
        assert_eq!(timer.take_sample(100, 9), None, "it is still outstanding");
        assert_eq!(timer.take_sample(101, 9), Some(5));
        timer.timed = Some((200, 10));
        timer.spare(100..200);
        assert!(timer.timed.is_some());
        timer.spare(150..250);
        assert_eq!(timer.take_sample(300, 20), None);
    }

    #[test]
    fn timeout_is_srtt_and_four_deviations_in_whole_ticks() {
        let mut rtt = ClassicRttEstimator::new(2, 30, 640);
        assert_eq!(rtt.rto(), 30);
        // 7 + 4 * 3.5, then 7 + 4 * 2.625 = 17.5.
        rtt.sample(7);
        assert_eq!(rtt.rto(), 21);
        rtt.sample(7);
        assert_eq!(rtt.rto(), 18, "the fixed point of BSD: 14 quarters less 14 / 4, cut");
        for _ in 0..30 {
            rtt.sample(1);
        }
        assert_eq!(rtt.rto(), 4, "the filter's remainders stay: three quarters of a tick of deviation");
    }

    #[test]
    fn backoff_stays_until_a_sample_and_ends_at_the_maximum() {
        let mut rtt = ClassicRttEstimator::new(2, 30, 640);
        for timeout in [60, 120, 240, 480, 640, 640] {
            rtt.back_off();
            assert_eq!(rtt.rto(), timeout);
        }
        rtt.sample(5);
        assert_eq!(rtt.rto(), 15);
    }
}
