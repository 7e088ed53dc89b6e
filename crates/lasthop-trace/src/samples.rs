//! Quantiles of a stream of lengths of time, in bounded memory.

use hdrhistogram::Histogram;
use lasthop_core::Duration;

/// Number of samples that are kept exactly, before the histogram takes over: 64 kB. The studies' transfers
/// have a few hundred samples each, so their quantiles are exact.
const EXACT_LIMIT: usize = 8192;

/// The histogram adds so many samples at once: the processor can fetch their distant places in parallel.
const BATCH: usize = 128;

/// Up to this number of quantiles, it takes half the time or less to put their neighbours in place; to find
/// many, it takes less to sort all samples.
const FEW: usize = 8;

/// Collects lengths of time. Quantiles are exact (type 7, linear interpolation) up to `EXACT_LIMIT`
/// samples. Beyond that an HDR histogram with three significant digits bounds the memory (about 0.15 MB
/// for values up to minutes) and the relative error (0.1 %); minimum and maximum stay exact.
#[derive(Clone, Debug)]
pub(crate) enum Samples {
    /// The quantiles are not needed.
    Ignored,
    Exact(Vec<u64>),
    /// The latest samples, if shorter than 2^32 ns, and the histogram of all others.
    Counted(Vec<u32>, Box<Counted>),
}

#[derive(Clone, Debug)]
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

    /// Forgets all samples.
    pub(crate) fn restart(&mut self) {
        if !matches!(self, Self::Ignored) {
            *self = Self::default();
        }
    }

    /// The quantiles `q` (each `0.0..=1.0`) in seconds; `None` each without samples.
    pub(crate) fn quantiles_s<const N: usize>(self, q: [f64; N]) -> [Option<f64>; N] {
        match self {
            Self::Ignored => [None; N],
            Self::Exact(samples) if samples.is_empty() => [None; N],
            Self::Exact(mut samples) => {
                if N > FEW {
                    samples.sort_unstable();
                } else {
                    let mut ranks: Vec<usize> =
                        q.iter().flat_map(|&q| neighbours(samples.len(), q).0).collect();
                    ranks.sort_unstable();
                    ranks.dedup();
                    place(&mut samples, 0, &ranks);
                }
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

/// The places of a quantile's two neighbours in the order of size, and how far it is towards the second.
fn neighbours(count: usize, q: f64) -> ([usize; 2], f64) {
    let position = (count - 1) as f64 * q;
    let below = position as usize;
    ([below, (below + 1).min(count - 1)], position - below as f64)
}

/// Puts the samples of these rising ranks where they would be if all were sorted; `before` are smaller.
fn place(samples: &mut [u64], before: usize, ranks: &[usize]) {
    let middle = ranks.len() / 2;
    let Some(&rank) = ranks.get(middle) else { return };
    let (smaller, _, larger) = samples.select_nth_unstable(rank - before);
    place(smaller, before, &ranks[..middle]);
    place(larger, rank + 1, &ranks[middle + 1..]);
}

/// Type 7 of Hyndman and Fan (1996): linear interpolation between the neighbours, which are in place.
fn interpolate(placed: &[u64], q: f64) -> f64 {
    let (at, fraction) = neighbours(placed.len(), q);
    let [below, above] = at.map(|at| placed[at]);
    below as f64 + fraction * (above - below) as f64
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
    fn quantiles_are_those_of_all_samples_sorted() {
        // A prime modulus makes a permutation, and a third of the samples become alike.
        for count in [1, 2, 3, 10, 101, 4096] {
            let scattered = (0..count).map(|n| n * 1_664_525 % 4099).map(|n| if n % 3 == 0 { 7 } else { n });
            let mut sorted: Vec<u64> = scattered.clone().collect();
            sorted.sort_unstable();
            let q = [0.5, 0.0, 0.3, 0.95, 0.951, 0.99, 1.0, 1.0];
            let expected = q.map(|q| Some(interpolate(&sorted, q) / 1e9));
            assert_eq!(Samples::Exact(scattered.collect()).quantiles_s(q), expected, "{count} samples");
        }
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
