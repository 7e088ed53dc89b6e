//! Queues per flow: their number, and the quantum of each.

use lasthop_core::{Bytes, Faults};

pub(super) const KEYS: [&str; 2] = ["flows", "quantum"];
/// Maximum number of queues, as in Linux.
const FLOWS_MAX: u32 = 65_536;
/// The default of Linux and of RFC 8290, section 5.2.4.
const FLOWS: u32 = 1_024;

/// The queues of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowsConfig {
    pub(crate) flows: u32,
    pub(crate) quantum: Bytes,
}

impl FlowsConfig {
    pub(super) fn new(flows: Option<u32>, quantum: Option<Bytes>, mtu: Bytes) -> Self {
        Self { flows: flows.unwrap_or(FLOWS), quantum: quantum.unwrap_or(mtu) }
    }

    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.flows, 1..=FLOWS_MAX, "flows");
        faults.in_range(self.quantum, Bytes(1)..=Bytes(1_000_000), "quantum");
        faults.require(self.quantum.0 * 64 >= mtu.0, "quantum", || {
            format!("\"{}\" takes many rounds for a packet of {mtu}; write \"{mtu}\", say", self.quantum)
        });
    }
}
