//! Round-trip estimation on a coarse clock: Jacobson's filter (RFC 6298, section 2) in fixed point, as in BSD.

use crate::clock::Tick;

/// Smoothed round-trip time and deviation, and the timeout that follows from them. All values are in ticks.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    /// Smoothed round-trip time in eighths of a tick, and deviation in quarters; none before the first sample.
    smoothed: Option<(i64, i64)>,
    /// Doublings since the last valid sample.
    backoff: u32,
    minimum: Tick,
    initial: Tick,
    maximum: Tick,
}

impl RttEstimator {
    pub fn new(minimum: Tick, initial: Tick, maximum: Tick) -> Self {
        Self { smoothed: None, backoff: 0, minimum, initial, maximum }
    }

    /// Takes a sample, which ends the backoff (Karn).
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

#[cfg(test)]
mod tests {
    use super::RttEstimator;

    #[test]
    fn timeout_is_srtt_and_four_deviations_in_whole_ticks() {
        let mut rtt = RttEstimator::new(2, 30, 640);
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
        let mut rtt = RttEstimator::new(2, 30, 640);
        for timeout in [60, 120, 240, 480, 640, 640] {
            rtt.back_off();
            assert_eq!(rtt.rto(), timeout);
        }
        rtt.sample(5);
        assert_eq!(rtt.rto(), 15);
    }
}
