//! FQ-PIE: its own keys of a queue, their defaults and their valid values.

use lasthop_core::{Bytes, Faults};

use super::fair::FlowsConfig;
use super::pie::PieConfig;

/// The keys: those of PIE, and those of the flows.
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
