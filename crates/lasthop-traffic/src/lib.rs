//! Applications: bulk TCP and constant-bit-rate UDP.

mod udp;

pub use udp::ConstantUdp;

use lasthop_core::{Bytes, Distribution, Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One flow of the scenario, from the fixed host to the mobile host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FlowConfig {
    /// A bulk TCP transfer over its own connection, opened and closed by the sender.
    BulkTcp(BulkConfig),
    /// A constant-bit-rate UDP stream.
    ConstantUdp(ConstantUdpConfig),
}

/// A bulk TCP transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Application bytes to transfer.
    pub bytes: Bytes,
    /// Size of each write; segments do not span writes. One maximum segment if absent.
    pub write: Option<Bytes>,
    /// When the sender connects.
    pub start: Distribution<Duration>,
}

/// A constant-bit-rate UDP stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConstantUdpConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Rate of the payload, without headers.
    pub rate: Rate,
    /// Payload of each datagram.
    pub payload: Bytes,
    /// How long datagrams are sent.
    pub duration: Duration,
    /// When the first datagram leaves.
    pub start: Distribution<Duration>,
}

impl FlowConfig {
    /// Name of the flow in the records.
    pub fn name(&self) -> &str {
        match self {
            Self::BulkTcp(bulk) => &bulk.name,
            Self::ConstantUdp(udp) => &udp.name,
        }
    }

    /// When the flow starts.
    pub fn start(&self) -> &Distribution<Duration> {
        match self {
            Self::BulkTcp(bulk) => &bulk.start,
            Self::ConstantUdp(udp) => &udp.start,
        }
    }
}
