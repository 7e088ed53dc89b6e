//! FQ-CoDel: its own keys of a queue, their defaults and their valid values.

use lasthop_core::{Bytes, Faults};

use super::codel::CoDelConfig;
use super::fair::FlowsConfig;

/// The keys: those of CoDel, and those of the flows.
pub(super) const KEYS: [&str; 6] = ["target", "interval", "ecn", "ce_threshold", "flows", "quantum"];

/// An FQ-CoDel queue's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FqCoDelConfig {
    pub(crate) codel: CoDelConfig,
    pub(crate) flows: FlowsConfig,
}

impl FqCoDelConfig {
    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        self.codel.check(faults);
        self.flows.check(mtu, faults);
    }
}
