//! PIE: the keys of a queue that are its own, their defaults and what they must be.

use lasthop_core::{Duration, Faults};

/// The keys.
pub(super) const KEYS: [&str; 3] = ["target", "tupdate", "ecn"];

/// A PIE queue's parameters, by the names of `tc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieConfig {
    pub(crate) target: Duration,
    pub(crate) tupdate: Duration,
    pub(crate) ecn: bool,
}

impl PieConfig {
    /// What is stated, with the values that RFC 8033 recommends (sections 4.2 and 5.1) for what is not.
    pub(super) fn new(target: Option<Duration>, tupdate: Option<Duration>, ecn: Option<bool>) -> Self {
        Self {
            target: target.unwrap_or(Duration::from_millis(15)),
            tupdate: tupdate.unwrap_or(Duration::from_millis(15)),
            ecn: ecn.unwrap_or(false),
        }
    }

    pub(super) fn check(self, faults: &mut Faults) {
        let second = Duration::from_secs(1);
        let microsecond = Duration::from_micros(1);
        faults.require(self.target >= microsecond, "target", || {
            "must be 1 us or more; write \"15 ms\", say".into()
        });
        faults.require((microsecond..=second).contains(&self.tupdate), "tupdate", || {
            format!("\"{}\" must be from 1 us to 1 s; write \"15 ms\", say", self.tupdate)
        });
    }
}
