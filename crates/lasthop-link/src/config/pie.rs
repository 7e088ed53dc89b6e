//! PIE, alone and for each flow: the keys, their defaults and their valid values.

use lasthop_core::{Bytes, Duration, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fair::FlowsConfig;

/// The keys of PIE, with the names of `tc`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PieConfig {
    /// Target delay; 15 ms if absent.
    pub target: Duration,
    /// Time between two updates of the drop probability; 15 ms if absent. Linux rounds it up to whole ticks, for
    /// example to 16 ms.
    pub tupdate: Duration,
    /// Mark ECN-capable packets instead of dropping them (RFC 3168). If absent, only FQ-CoDel does.
    pub ecn: bool,
}

/// The recommendations of RFC 8033, sections 4.2 and 5.1.
impl Default for PieConfig {
    fn default() -> Self {
        Self { target: Duration::from_millis(15), tupdate: Duration::from_millis(15), ecn: false }
    }
}

impl PieConfig {
    pub(super) fn check(self, faults: &mut Faults) {
        check_times(self.target, self.tupdate, "15 ms", faults);
    }
}

/// Finds a target or an interval of updates that a controller cannot work with.
pub(super) fn check_times(target: Duration, tupdate: Duration, usual: &str, faults: &mut Faults) {
    let (microsecond, second) = (Duration::from_micros(1), Duration::from_secs(1));
    faults.require(target >= microsecond, "target", || {
        "must be 1 us or more; write for example \"15 ms\"".into()
    });
    faults.require((microsecond..=second).contains(&tupdate), "tupdate", || {
        format!("\"{tupdate}\" must be from 1 us to 1 s; write for example \"{usual}\"")
    });
}

/// The keys of FQ-PIE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct FqPieConfig {
    #[serde(flatten)]
    pub pie: PieConfig,
    #[serde(flatten)]
    pub flows: FlowsConfig,
}

impl FqPieConfig {
    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        self.pie.check(faults);
        self.flows.check(mtu, faults);
    }
}
