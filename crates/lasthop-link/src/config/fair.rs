//! Queues per flow, of SFQ and other disciplines: their number and quantum.

use lasthop_core::{Bytes, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of queues, as in Linux.
const FLOWS_MAX: u32 = 65_536;

/// The keys of the queues of flows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct FlowsConfig {
    /// Number of queues to which flows are hashed; 1024 if absent.
    pub flows: u32,
    /// Bytes that each flow may send per round; the size of the largest packet if absent.
    pub quantum: Option<Bytes>,
}

/// The defaults of Linux and of RFC 8290, section 5.2.4.
impl Default for FlowsConfig {
    fn default() -> Self {
        Self { flows: 1_024, quantum: None }
    }
}

impl FlowsConfig {
    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.flows, 1..=FLOWS_MAX, "flows");
        let quantum = self.quantum.unwrap_or(mtu);
        faults.in_range(quantum, Bytes(1)..=Bytes(1_000_000), "quantum");
        faults.require(quantum.0 * 64 >= mtu.0, "quantum", || {
            format!("with \"{quantum}\", a packet of {mtu} takes many rounds; write for example \"{mtu}\"")
        });
    }
}
