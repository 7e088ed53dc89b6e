//! Applications: bulk TCP, constant-bit-rate UDP, web page loads, web clients by the hundred, short flows.

mod http;
mod short;
mod udp;
mod web;

pub use http::{Action, HttpConfig, HttpPageConfig, HttpProtocol, HttpServer, PageLoad};
pub use short::{Arrivals, ShortFlows, ShortFlowsConfig, ShortHosts};
pub use udp::ConstantUdp;
pub use web::{CutPoisson, WebClass, WebClients, WebClientsConfig};

use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Distribution, Dscp, Duration, Faults, FlowId, FlowInfo, Host, Instant, Protocol, Rate, Seed,
    Segment,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Port of the first flow: in a range that no analyser takes for an application's.
const FIRST_PORT: u16 = 30_001;
/// Most bytes of one transfer; sums with headers and sequence numbers stay far from overflow.
const TRANSFER_MAX: Bytes = Bytes(1_000_000_000_000_000);
/// Largest object or message, far from overflow when many are summed.
const OBJECT_MAX: Bytes = Bytes(1_000_000_000);
/// Most clients, objects, connections and the like.
const COUNT_MAX: u32 = 1000;
/// Flows whose ports differ if the scenario states none.
const DEFAULT_PORTS: usize = 10_000;

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
    /// Many mobile hosts, each with a server and a connection of its own that is open from the beginning.
    WebClients(WebClientsConfig),
    /// Short transfers to the mobile host, each over a connection of its own, for as long as the run lasts.
    ShortFlows(ShortFlowsConfig),
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
    #[schemars(default = "crate::at_once")]
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
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the fixed host; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

/// When a flow starts that does not state it.
const fn at_once() -> Distribution<Duration> {
    Distribution::Static(Duration::ZERO)
}

impl BulkConfig {
    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        faults.not_zero(&self.bytes, "bytes", "100 kB");
        faults.require(self.bytes <= TRANSFER_MAX, "bytes", || {
            format!("\"{}\" is too much for one transfer; write at most \"{TRANSFER_MAX}\"", self.bytes)
        });
        if let Some(write) = self.write {
            let segment = mtu.0 - u64::from(Segment::BASE_HEADER_BYTES);
            faults.not_zero(&write, "write", &format!("{segment} B"));
        }
    }
}

impl FlowConfig {
    /// Finds what no flow with packets of up to `mtu` bytes can be.
    pub fn check(&self, mtu: Bytes, faults: &mut Faults) {
        faults.require(!self.name().is_empty(), "name", || "the name is empty; write \"tcp-1\", say".into());
        match self {
            Self::BulkTcp(bulk) => bulk.check(mtu, faults),
            Self::ConstantUdp(udp) => udp.check(mtu, faults),
            Self::HttpPage(page) => page.check(faults),
            Self::WebClients(clients) => clients.check(faults),
            Self::ShortFlows(short) => short.check(faults),
        }
    }

    /// Bytes of application data that are known to be sent over TCP, headers apart.
    pub fn offered_bytes(&self) -> u64 {
        match self {
            Self::BulkTcp(bulk) => bulk.bytes.0,
            Self::HttpPage(page) => {
                page.main.0.saturating_add(page.inline.0.saturating_mul(u64::from(page.inline_count)))
            }
            Self::ConstantUdp(_) | Self::WebClients(_) | Self::ShortFlows(_) => 0,
        }
    }

    /// When the flow starts at the latest (see [`Distribution::most`]), or when its stream ends then.
    pub fn latest_begin(&self) -> Duration {
        match self {
            Self::ConstantUdp(udp) => udp.start.most() + udp.duration,
            _ => self.start().most(),
        }
    }

    /// Name of the flow in the records.
    pub fn name(&self) -> &str {
        match self {
            Self::BulkTcp(bulk) => &bulk.name,
            Self::ConstantUdp(udp) => &udp.name,
            Self::HttpPage(page) => &page.name,
            Self::WebClients(clients) => &clients.name,
            Self::ShortFlows(short) => &short.name,
        }
    }

    /// When the flow starts.
    pub fn start(&self) -> &Distribution<Duration> {
        match self {
            Self::BulkTcp(bulk) => &bulk.start,
            Self::ConstantUdp(udp) => &udp.start,
            Self::HttpPage(page) => &page.start,
            Self::WebClients(clients) => &clients.start,
            Self::ShortFlows(short) => &short.start,
        }
    }

    /// Names of the flows that are known before the run; of page loads their connections.
    fn flow_names(&self, http: Option<&HttpConfig>) -> Vec<String> {
        match self {
            Self::BulkTcp(BulkConfig { name, .. }) | Self::ConstantUdp(ConstantUdpConfig { name, .. }) => {
                vec![name.clone()]
            }
            Self::HttpPage(page) => {
                let connections = http.map(|http| page.connection_names(http)).unwrap_or_default();
                connections.iter().map(|connection| format!("{}/{connection}", page.name)).collect()
            }
            Self::WebClients(WebClientsConfig { name, clients, .. }) => {
                (1..=*clients).map(|number| format!("{name}-{number}")).collect()
            }
            Self::ShortFlows(_) => Vec::new(),
        }
    }
}

/// The flows that these applications may open, in the order of their [`lasthop_core::FlowId`]; page loads need
/// `http`. Short flows come later, one by one: see [`short_flow`].
pub fn flows(applications: &[FlowConfig], http: Option<&HttpConfig>) -> Vec<FlowInfo> {
    let mut flows = Vec::new();
    for (application, config) in (0..).zip(applications) {
        let (protocol, offered_bytes, dscp, port) = match config {
            FlowConfig::BulkTcp(bulk) => (Protocol::Tcp, None, bulk.dscp, bulk.port),
            FlowConfig::ConstantUdp(udp) => (Protocol::Udp, Some(udp.total_bytes()), udp.dscp, udp.port),
            FlowConfig::HttpPage(page) => (Protocol::Tcp, None, page.dscp, Some(page.port)),
            FlowConfig::WebClients(_) | FlowConfig::ShortFlows(_) => {
                (Protocol::Tcp, None, Dscp::default(), None)
            }
        };
        for name in config.flow_names(http) {
            let server_port = port.map_or(default_port(flows.len()), NonZeroU16::get);
            let (sender, group) = (Host::Server, None);
            flows.push(FlowInfo {
                name,
                application,
                group,
                protocol,
                sender,
                offered_bytes,
                dscp,
                server_port,
            });
        }
    }
    flows
}

/// What every engine has to know of each application: the first of its flows in `flows`, which are those of
/// [`flows`], and when it starts. Starts are drawn from the streams "start.flow0", "start.flow1", ... of `seed`, so
/// that all engines begin alike.
pub fn beginnings<'a>(
    applications: &'a [FlowConfig],
    flows: &'a [FlowInfo],
    seed: Seed,
) -> impl Iterator<Item = (&'a FlowConfig, FlowId, Instant)> {
    applications.iter().enumerate().map(move |(index, config)| {
        let first = flows.iter().take_while(|info| (info.application as usize) < index).count();
        let mut stream = seed.stream(&format!("start.flow{index}"));
        let start = Instant::ZERO + config.start().sampler().sample(&mut stream);
        (config, FlowId(first as u32), start)
    })
}

/// The short flow with this number among all flows of the run, which `application` opens between these hosts.
pub fn short_flow(number: usize, application: u32, hosts: &ShortHosts) -> FlowInfo {
    FlowInfo {
        name: format!("{}-{number}", hosts.name),
        application,
        group: Some(hosts.name.clone()),
        protocol: Protocol::Tcp,
        sender: Host::Server,
        offered_bytes: None,
        dscp: Dscp::default(),
        server_port: default_port(number),
    }
}

fn default_port(flow: usize) -> u16 {
    FIRST_PORT + (flow % DEFAULT_PORTS) as u16
}
