//! `DualPI2`: the keys, their defaults and their valid values.

use lasthop_core::{Bytes, Duration, Faults, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pie::check_times;

/// The keys of `DualPI2`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct DualPi2Config {
    /// Target delay; 15 ms if absent.
    pub target: Duration,
    /// Time between two updates of the drop probability; 16 ms if absent.
    pub tupdate: Duration,
    /// Low-latency packets with a longer sojourn time are marked; 1 ms if absent. On slow links it should
    /// exceed the transmission time of a packet.
    pub step_threshold: Duration,
    /// The threshold applies only if the low-latency queue holds at least this many packets on arrival; 0 if
    /// absent, as in Linux 6.17, so it always applies. Before it was a key, Linux had 2. For slow links.
    pub min_qlen_step: u32,
}

/// The values of RFC 9332, appendix A.1, and Linux' threshold.
impl Default for DualPi2Config {
    fn default() -> Self {
        let (target, tupdate) = (Duration::from_millis(15), Duration::from_millis(16));
        Self { target, tupdate, step_threshold: Duration::from_millis(1), min_qlen_step: 0 }
    }
}

impl DualPi2Config {
    /// Notes a threshold that a packet exceeds by waiting for a single other one. The pseudo-code of RFC 9332
    /// (appendix A.1, `Th_len`) and Linux' `sch_dualpi2` of 2020 spare such packets; since 6.17 Linux does so only
    /// on request.
    pub(super) fn note(self, link: Rate, mtu: Bytes) -> Option<String> {
        let (threshold, pair) = (self.step_threshold, link.transmission_time(mtu.0 as u32) * 2);
        (self.min_qlen_step < 2 && threshold < pair).then(|| {
            format!(
                "step_threshold = \"{threshold}\" marks low-latency packets that wait for a single other one, \
                 since two take {:.1} ms here; add min_qlen_step = 2, or raise step_threshold",
                pair.as_secs_f64() * 1e3
            )
        })
    }

    pub(super) fn check(self, faults: &mut Faults) {
        check_times(self.target, self.tupdate, "16 ms", faults);
    }
}
