//! Quantiles of a stream of lengths of time, in bounded memory.

use hdrhistogram::Histogram;
use lasthop_core::Duration;

/// Samples kept as they are before the histogram takes over: 64 kB. The studies' transfers have a few
/// hundred samples each, so their quantiles are exact.
const EXACT_LIMIT: usize = 8192;

/// Collects lengths of time. Quantiles are exact (type 7, linear interpolation) up to `EXACT_LIMIT`
/// samples. Beyond that an HDR histogram with three significant digits bounds the memory (about 0.3 MB
/// for values up to minutes) and the relative error (0.1 %); minimum and maximum stay exact.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    exact: Vec<u64>,
    histogram: Option<Box<Histogram<u64>>>,
    range: Option<(u64, u64)>,
}

impl Samples {
    pub(crate) fn record(&mut self, sample: Duration) {
        let nanos = sample.as_nanos();
        self.range = Some(match self.range {
            None => (nanos, nanos),
            Some((min, max)) => (min.min(nanos), max.max(nanos)),
        });
        if let Some(histogram) = &mut self.histogram {
            histogram.record(nanos).expect("the histogram resizes itself");
        } else {
            self.exact.push(nanos);
            if self.exact.len() > EXACT_LIMIT {
                self.spill();
            }
        }
    }

    fn spill(&mut self) {
        let mut histogram = Histogram::new(3).expect("three digits are supported");
        for nanos in std::mem::take(&mut self.exact) {
            histogram.record(nanos).expect("the histogram resizes itself");
        }
        self.histogram = Some(Box::new(histogram));
    }

    /// The quantiles `q` (each `0.0..=1.0`) in seconds; `None` each without samples.
    pub(crate) fn quantiles_s<const N: usize>(mut self, q: [f64; N]) -> [Option<f64>; N] {
        let Some((min, max)) = self.range else { return [None; N] };
        self.exact.sort_unstable();
        q.map(|q| {
            let nanos = if q <= 0.0 {
                min as f64
            } else if q >= 1.0 {
                max as f64
            } else if let Some(histogram) = &self.histogram {
                histogram.value_at_quantile(q).clamp(min, max) as f64
            } else {
                interpolate(&self.exact, q)
            };
            Some(nanos / 1e9)
        })
    }
}

/// Type 7 of Hyndman and Fan (1996): linear interpolation between the two neighbours.
fn interpolate(sorted: &[u64], q: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * q;
    let below = position as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let fraction = position - below as f64;
    sorted[below] as f64 + fraction * (sorted[above] - sorted[below]) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_millis(millis: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        millis.into_iter().for_each(|ms| samples.record(Duration::from_millis(ms)));
        samples
    }

    #[test]
    fn nothing_has_no_quantiles() {
        assert_eq!(Samples::default().quantiles_s([0.0, 0.5, 1.0]), [None; 3]);
    }

    #[test]
    fn few_samples_interpolate_between_neighbours() {
        let quantiles = of_millis([400, 100, 200, 300]).quantiles_s([0.0, 0.25, 0.5, 0.95, 1.0]);
        assert_eq!(quantiles, [Some(0.1), Some(0.175), Some(0.25), Some(0.385), Some(0.4)]);
    }

    #[test]
    fn one_sample_is_every_quantile() {
        assert_eq!(of_millis([72]).quantiles_s([0.0, 0.5, 0.95, 1.0]), [Some(0.072); 4]);
    }

    #[test]
    fn many_samples_stay_within_a_thousandth_and_keep_the_extremes() {
        let many = 100_000;
        let samples = of_millis((1..=many).rev());
        assert!(samples.exact.is_empty(), "the samples moved to the histogram");
        let [min, median, p95, max] = samples.quantiles_s([0.0, 0.5, 0.95, 1.0]).map(Option::unwrap);
        assert_eq!((min, max), (0.001, 100.0));
        assert!((median / 50.0 - 1.0).abs() < 1e-3, "median {median}");
        assert!((p95 / 95.0 - 1.0).abs() < 1e-3, "p95 {p95}");
    }
}
