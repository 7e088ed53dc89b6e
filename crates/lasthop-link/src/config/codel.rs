//! CoDel: its own keys of a queue, their defaults and their valid values.

use lasthop_core::{Duration, Faults};

pub(super) const KEYS: [&str; 4] = ["target", "interval", "ecn", "ce_threshold"];

/// A CoDel queue's parameters, by the names of RFC 8289.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoDelConfig {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    pub(crate) ecn: bool,
    pub(crate) ce_threshold: Option<Duration>,
}

impl CoDelConfig {
    /// The stated values, and those that RFC 8289 recommends (sections 4.2 and 4.3) for absent keys.
    pub(super) fn new(
        target: Option<Duration>,
        interval: Option<Duration>,
        ecn: bool,
        ce_threshold: Option<Duration>,
    ) -> Self {
        Self {
            target: target.unwrap_or(Duration::from_millis(5)),
            interval: interval.unwrap_or(Duration::from_millis(100)),
            ecn,
            ce_threshold,
        }
    }

    pub(super) fn check(self, faults: &mut Faults) {
        let Self { target, interval, .. } = self;
        faults.require(!target.is_zero(), "target", || {
            "must be above zero; write \"5 ms\", say, or the time that a packet takes on a slower link".into()
        });
        faults.require(interval > target, "interval", || {
            format!(
                "\"{interval}\" must be above target = \"{target}\"; write a round-trip time, \"100 ms\" say"
            )
        });
    }
}
