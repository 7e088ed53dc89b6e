//! Applications: bulk TCP and constant-bit-rate UDP.

mod udp;

pub use udp::ConstantUdp;

use std::num::NonZeroU16;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, FlowId, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Port of the first flow: in a range that no analyser takes for an application's.
const FIRST_PORT: u16 = 30_001;
/// Flows whose ports differ if the scenario states none.
const DEFAULT_PORTS: u32 = 10_000;

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
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the fixed host; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
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
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the fixed host; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
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

    /// Code point of the flow's packets.
    pub const fn dscp(&self) -> Dscp {
        match self {
            Self::BulkTcp(bulk) => bulk.dscp,
            Self::ConstantUdp(udp) => udp.dscp,
        }
    }

    /// Port of the fixed host, if this is flow `id` of its scenario.
    pub fn server_port(&self, id: FlowId) -> u16 {
        let stated = match self {
            Self::BulkTcp(bulk) => bulk.port,
            Self::ConstantUdp(udp) => udp.port,
        };
        stated.map_or(FIRST_PORT + (id.0 % DEFAULT_PORTS) as u16, NonZeroU16::get)
    }
}
