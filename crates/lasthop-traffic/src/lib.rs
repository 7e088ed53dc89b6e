//! Applications: bulk TCP, constant-bit-rate UDP, web page loads.

mod http;
mod udp;

pub use http::{Action, HttpPageConfig, HttpProtocol, PageLoad};
pub use udp::ConstantUdp;

use lasthop_core::{Bytes, Distribution, Duration, FlowInfo, Host, Protocol, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One application of the scenario; its data go from the fixed host to the mobile host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FlowConfig {
    /// A bulk TCP transfer over its own connection, opened and closed by the sender.
    BulkTcp(BulkConfig),
    /// A constant-bit-rate UDP stream.
    ConstantUdp(ConstantUdpConfig),
    /// A web page load by the mobile host, over one TCP connection or several.
    HttpPage(HttpPageConfig),
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
            Self::HttpPage(page) => &page.name,
        }
    }

    /// The flows that the application may open; it is entry number `application` of the scenario.
    pub fn flows(&self, application: u32) -> Vec<FlowInfo> {
        let info = |name: String, protocol, offered_bytes| FlowInfo {
            name,
            application,
            protocol,
            sender: Host::Server,
            offered_bytes,
        };
        match self {
            Self::BulkTcp(bulk) => vec![info(bulk.name.clone(), Protocol::Tcp, None)],
            Self::ConstantUdp(udp) => vec![info(udp.name.clone(), Protocol::Udp, Some(udp.total_bytes()))],
            Self::HttpPage(page) => {
                let flow = |name: &String| info(format!("{}/{name}", page.name), Protocol::Tcp, None);
                page.connection_names().iter().map(flow).collect()
            }
        }
    }

    /// When the flow starts.
    pub fn start(&self) -> &Distribution<Duration> {
        match self {
            Self::BulkTcp(bulk) => &bulk.start,
            Self::ConstantUdp(udp) => &udp.start,
            Self::HttpPage(page) => &page.start,
        }
    }
}
