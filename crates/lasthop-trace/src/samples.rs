//! Quantiles of a stream of lengths of time, in bounded memory.

use hdrhistogram::Histogram;
use lasthop_core::Duration;

/// Number of samples that are kept exactly, before the histogram takes over: 64 kB. The studies' transfers
/// have a few hundred samples each, so their quantiles are exact.
const EXACT_LIMIT: usize = 8192;

/// The histogram adds this number of samples at once: each touches a different place in memory, and the
/// processor can fetch many in parallel.
const BATCH: usize = 128;

/// Collects lengths of time. Quantiles are exact (type 7, linear interpolation) up to `EXACT_LIMIT`
/// samples. Beyond that an HDR histogram with three significant digits bounds the memory (about 0.15 MB
/// for values up to minutes) and the relative error (0.1 %); minimum and maximum stay exact.
#[derive(Debug)]
pub(crate) enum Samples {
    /// The quantiles are not needed.
    Ignored,
    Exact(Vec<u64>),
    /// The latest samples, if shorter than 2^32 ns, and the histogram of all others.
    Counted(Vec<u32>, Box<Counted>),
}

#[derive(Debug)]
pub(crate) struct Counted {
    /// No bucket gets four billion samples.
    histogram: Histogram<u32>,
    min: u64,
    max: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

impl Samples {
    #[inline]
    pub(crate) fn record(&mut self, sample: Duration) {
        let nanos = sample.as_nanos();
        match self {
            Self::Ignored => return,
            Self::Exact(samples) if samples.len() < EXACT_LIMIT => return samples.push(nanos),
            Self::Counted(samples, _) if samples.len() < BATCH => {
                if let Ok(nanos) = nanos.try_into() {
                    return samples.push(nanos);
                }
            }
            _ => {}
        }
        self.count(nanos);
    }

    /// Adds this sample and all pending ones to the histogram, which makes room.
    #[inline(never)]
    fn count(&mut self, nanos: u64) {
        match self {
            Self::Ignored => {}
            Self::Exact(samples) => {
                let mut counted = Box::new(Counted::new());
                samples.push(nanos);
                counted.take(samples.drain(..));
                *self = Self::Counted(Vec::with_capacity(BATCH), counted);
            }
            Self::Counted(samples, counted) => {
                counted.take(samples.drain(..).map(u64::from).chain([nanos]));
            }
        }
    }

    /// The quantiles `q` (each `0.0..=1.0`) in seconds; `None` each without samples.
    pub(crate) fn quantiles_s<const N: usize>(self, q: [f64; N]) -> [Option<f64>; N] {
        match self {
            Self::Ignored => [None; N],
            Self::Exact(samples) if samples.is_empty() => [None; N],
            Self::Exact(mut samples) => {
                samples.sort_unstable();
                q.map(|q| Some(interpolate(&samples, q) / 1e9))
            }
            Self::Counted(samples, mut counted) => {
                counted.take(samples.into_iter().map(u64::from));
                q.map(|q| Some(counted.quantile(q) as f64 / 1e9))
            }
        }
    }
}

impl Counted {
    fn new() -> Self {
        let histogram = Histogram::new(3).expect("three digits are supported");
        Self { histogram, min: u64::MAX, max: 0 }
    }

    fn take(&mut self, samples: impl Iterator<Item = u64>) {
        for nanos in samples {
            self.histogram.record(nanos).expect("the histogram resizes itself");
            (self.min, self.max) = (self.min.min(nanos), self.max.max(nanos));
        }
    }

    fn quantile(&self, q: f64) -> u64 {
        match q {
            0.0 => self.min,
            1.0 => self.max,
            _ => self.histogram.value_at_quantile(q).clamp(self.min, self.max),
        }
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
        assert!(matches!(samples, Samples::Counted(..)), "the samples moved to the histogram");
        let [min, median, p95, max] = samples.quantiles_s([0.0, 0.5, 0.95, 1.0]).map(Option::unwrap);
        assert_eq!((min, max), (0.001, 100.0));
        assert!((median / 50.0 - 1.0).abs() < 1e-3, "median {median}");
        assert!((p95 / 95.0 - 1.0).abs() < 1e-3, "p95 {p95}");
    }
}
