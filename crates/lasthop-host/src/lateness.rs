//! Lateness of packets compared with the models.

use hdrhistogram::Histogram;
use lasthop_core::Duration;
use serde::Serialize;

/// Maximum recorded lateness; a greater one counts as this.
const LONGEST: Duration = Duration::from_secs(60);
/// A run is valid if 99.9 % of its packets were no later than this.
pub const BOUND: Duration = Duration::from_millis(1);

/// The lateness of every delivered packet, to three significant digits.
#[derive(Clone, Debug)]
pub struct Lateness {
    histogram: Histogram<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatenessSummary {
    pub packets: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// True if the 99.9 % quantile is within [`BOUND`].
    pub valid: bool,
}

impl Default for Lateness {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST.as_nanos(), 3).expect("constant, valid bounds");
        Self { histogram }
    }
}

impl Lateness {
    /// Adds a packet that was delivered this much later than due.
    pub fn record(&mut self, lateness: Duration) {
        self.histogram.saturating_record(lateness.as_nanos());
    }

    pub fn summary(&self) -> LatenessSummary {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let quantile = |q| micros(self.histogram.value_at_quantile(q));
        LatenessSummary {
            packets: self.histogram.len(),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: micros(self.histogram.max()),
            valid: self.histogram.value_at_quantile(0.999) <= BOUND.as_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(late: impl IntoIterator<Item = u64>) -> LatenessSummary {
        let mut lateness = Lateness::default();
        late.into_iter().for_each(|micros| lateness.record(Duration::from_micros(micros)));
        lateness.summary()
    }

    #[test]
    fn one_packet_in_a_thousand_may_be_later_than_the_bound() {
        let late = |count| (0..10_000).map(move |n| if n < count { 5000 } else { 20 });
        let summary = after(late(10));
        assert!(summary.valid && summary.max_us > 4990.0 && summary.p50_us < 21.0, "{summary:?}");
        assert!(!after(late(11)).valid);
    }

    #[test]
    fn no_packet_is_a_valid_run() {
        assert!(after([]).valid);
    }

    #[test]
    fn whatever_is_late_counts() {
        assert!(!after([3_600_000_000]).valid);
    }
}
