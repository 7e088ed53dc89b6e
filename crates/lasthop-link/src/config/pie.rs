//! PIE: its own keys of a queue, their defaults and their valid values.

use lasthop_core::{Duration, Faults};

pub(super) const KEYS: [&str; 3] = ["target", "tupdate", "ecn"];

/// A PIE queue's parameters, with the names of `tc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieConfig {
    pub(crate) target: Duration,
    pub(crate) tupdate: Duration,
    pub(crate) ecn: bool,
}

impl PieConfig {
    /// The stated values, and those that RFC 8033 recommends (sections 4.2 and 5.1) for absent keys.
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
