//! FQ-PIE: the keys of a queue that are its own, their defaults and what they must be.

use lasthop_core::{Bytes, Faults};

use super::fair::FlowsConfig;
use super::pie::PieConfig;

/// The keys: PIE's, and those of the flows.
pub(super) const KEYS: [&str; 5] = ["target", "tupdate", "ecn", "flows", "quantum"];

/// An FQ-PIE queue's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FqPieConfig {
    pub(crate) pie: PieConfig,
    pub(crate) flows: FlowsConfig,
}

impl FqPieConfig {
    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        self.pie.check(faults);
        self.flows.check(mtu, faults);
    }
}
