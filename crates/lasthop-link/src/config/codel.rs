//! CoDel, alone and for each flow: the keys, their defaults and their valid values.

use lasthop_core::{Bytes, Duration, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fair::FlowsConfig;

/// The keys of CoDel, by the names of RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CoDelConfig {
    /// Target sojourn time; 5 ms if absent. On slow links it must exceed the transmission time of a packet.
    pub target: Duration,
    /// Time for which sojourn times must exceed the target before a packet is dropped; 100 ms if absent. It
    /// should be the round-trip time of the slowest flows.
    pub interval: Duration,
    /// ECN-capable packets with a longer sojourn time are marked, regardless of `ecn`; none if absent. A shallow
    /// threshold suits DCTCP or Prague.
    pub ce_threshold: Option<Duration>,
    /// Mark ECN-capable packets instead of dropping them (RFC 3168). If absent, only FQ-CoDel does.
    pub ecn: bool,
}

/// The recommendations of RFC 8289, sections 4.2 and 4.3.
impl Default for CoDelConfig {
    fn default() -> Self {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        Self { target, interval, ce_threshold: None, ecn: false }
    }
}

impl CoDelConfig {
    pub(super) fn check(self, faults: &mut Faults) {
        let Self { target, interval, .. } = self;
        faults.require(!target.is_zero(), "target", || {
            "must be above zero; write for example \"5 ms\", or on a slow link the transmission time of a packet".into()
        });
        faults.require(interval > target, "interval", || {
            format!(
                "\"{interval}\" must be above target = \"{target}\"; write a round-trip time such as \"100 ms\""
            )
        });
    }
}

/// The keys of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct FqCoDelConfig {
    #[serde(flatten)]
    pub codel: CoDelConfig,
    #[serde(flatten)]
    pub flows: FlowsConfig,
}

/// Unlike CoDel, FQ-CoDel marks by default (RFC 8290, section 5.2.6).
impl Default for FqCoDelConfig {
    fn default() -> Self {
        Self { codel: CoDelConfig { ecn: true, ..CoDelConfig::default() }, flows: FlowsConfig::default() }
    }
}

impl FqCoDelConfig {
    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        self.codel.check(faults);
        self.flows.check(mtu, faults);
    }
}
