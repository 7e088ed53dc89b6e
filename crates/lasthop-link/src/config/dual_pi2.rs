//! `DualPI2`: its own keys of a queue, their defaults and their valid values.

use lasthop_core::{Duration, Faults};

pub(super) const KEYS: [&str; 4] = ["target", "tupdate", "step_threshold", "min_qlen_step"];

/// A `DualPI2` queue's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DualPi2Config {
    pub(crate) target: Duration,
    pub(crate) tupdate: Duration,
    pub(crate) step_threshold: Duration,
    pub(crate) min_qlen_step: u32,
}

impl DualPi2Config {
    /// The stated values, and those of RFC 9332, appendix A.1, and Linux' threshold for absent keys.
    pub(super) fn new(
        target: Option<Duration>,
        tupdate: Option<Duration>,
        step_threshold: Option<Duration>,
        min_qlen_step: Option<u32>,
    ) -> Self {
        Self {
            target: target.unwrap_or(Duration::from_millis(15)),
            tupdate: tupdate.unwrap_or(Duration::from_millis(16)),
            step_threshold: step_threshold.unwrap_or(Duration::from_millis(1)),
            min_qlen_step: min_qlen_step.unwrap_or(0),
        }
    }

    pub(super) fn check(self, faults: &mut Faults) {
        let (microsecond, second) = (Duration::from_micros(1), Duration::from_secs(1));
        faults.require(self.target >= microsecond, "target", || {
            "must be 1 us or more; write \"15 ms\", say".into()
        });
        faults.require((microsecond..=second).contains(&self.tupdate), "tupdate", || {
            format!("\"{}\" must be from 1 us to 1 s; write \"16 ms\", say", self.tupdate)
        });
    }
}
