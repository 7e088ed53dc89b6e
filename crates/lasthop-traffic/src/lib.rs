//! Applications: bulk TCP, constant-bit-rate UDP, web page loads, hundreds of web clients, short flows, phone
//! calls, requests on a persistent connection, CoAP requests, on-off streams of datagrams, video, recordings.
//!
//! Each kind of traffic has its own file, with its configuration ([`Traffic`]) and the running application
//! ([`Application`]), and a line in `kinds!` below.

/// Methods of [`Traffic`] that return keys of the configuration.
macro_rules! keys {
    (@name) => {
        fn name(&self) -> &str {
            &self.name
        }
    };
    (@start) => {
        fn start(&self) -> &lasthop_core::Distribution<lasthop_core::Duration> {
            &self.start
        }
    };
    (@dscp) => {
        fn dscp(&self) -> lasthop_core::Dscp {
            self.dscp
        }
    };
    (@port) => {
        fn port(&self) -> Option<std::num::NonZeroU16> {
            self.port
        }
    };
    ($($key:tt),*) => {
        $(keys!(@$key);)*
    };
}

mod application;
mod bulk;
mod coap;
mod dialogue;
mod exchange;
mod http;
mod http_config;
mod offer;
mod on_off;
mod own;
mod program;
mod recording;
mod replay;
mod short;
mod traffic;
mod transfer;
mod udp;
mod video;
mod voip;
mod web;

pub use application::{Action, Application, Content};
pub use bulk::{Bulk, BulkConfig};
pub use coap::{Coap, CoapConfig};
pub use exchange::{Exchanges, RequestResponseConfig};
pub use http::{HttpPageConfig, PageLoad};
pub use http_config::{HeaderWrite, HttpConfig, HttpProtocol, HttpServer};
pub use offer::{Offer, Outlook, period};
pub use on_off::{OnOff, OnOffConfig};
pub use own::{Carrier, OwnConfig, OwnTraffic, TrafficAlgorithm, TrafficSetup, UserTraffic, Wanted};
pub use program::{Elsewhere, HostProgramConfig, ProgramConfig, SERVER, ServerConfig};
pub use recording::{Packet, Recording};
pub use replay::{Replay, ReplayConfig};
pub use short::{Arrivals, ShortFlows, ShortFlowsConfig};
pub use traffic::{Datagrams, ShortHosts, Surroundings, Traffic, Voice};
pub use transfer::{NatPlace, RebindConfig, TransferConfig};
pub use udp::{ConstantUdp, ConstantUdpConfig, Ect};
pub use video::{Video, VideoConfig};
pub use voip::{Call, Codec, VoipConfig};
pub use web::{CutPoisson, WebClass, WebClients, WebClientsConfig};

use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Distribution, Dscp, Duration, Ecn, Faults, FlowInfo, Host, Instant, News, Part, Protocol,
    dispatched, forward,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Port of the first flow, in a range that no analyser assigns to an application.
const FIRST_PORT: u16 = 30_001;
/// Maximum size of one transfer. Sums with headers and sequence numbers stay far from overflow.
const TRANSFER_MAX: Bytes = Bytes(1_000_000_000_000_000);
/// Maximum size of an object or message. Sums of many stay far from overflow.
const OBJECT_MAX: Bytes = Bytes(1_000_000_000);
/// Maximum number of clients, objects, connections and the like.
const COUNT_MAX: u32 = 1000;
/// Number of flows that get different ports if the scenario states none.
const DEFAULT_PORTS: usize = 10_000;

/// The kinds of traffic: the configuration and the running application of each.
macro_rules! kinds {
    ($($(#[doc = $doc:expr])* $kind:ident = $name:tt ($config:ty) => $application:ty;)*) => {
        /// One application of the scenario.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum FlowConfig {
            $(
                $(#[doc = $doc])*
                #[serde(rename = $name)]
                $kind($config),
            )*
        }

        impl FlowConfig {
            /// The values of `kind` in scenarios.
            pub const KINDS: &[&str] = &[$($name),*];

            /// Its `kind` in scenarios.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)*
                }
            }

            /// Its properties that are known before it runs.
            pub fn traffic(&self) -> &dyn Traffic {
                match self {
                    $(Self::$kind(config) => config,)*
                }
            }

            /// Changes its name.
            pub fn rename(&mut self, name: String) {
                match self {
                    $(Self::$kind(config) => config.name = name,)*
                }
            }

            /// Finds faults of a flow with packets of up to `mtu` bytes.
            pub fn check(&self, mtu: Bytes, faults: &mut Faults) {
                let traffic = self.traffic();
                faults.require(!traffic.name().is_empty(), "name", || {
                    "the name is empty; write for example \"tcp-1\"".into()
                });
                traffic.check(mtu, faults);
            }
        }

        dispatched! {
            each:
            /// A running application of one of these kinds.
            #[allow(clippy::large_enum_variant, reason = "one per entry of the scenario")]
            #[derive(Debug)]
            pub enum Program {
                $($(#[doc = $doc])* $kind($application),)*
            }
        }
    };
}

kinds! {
    /// A bulk TCP transfer over its own connection, opened and closed by the sender.
    BulkTcp = "bulk-tcp" (BulkConfig) => Bulk;
    /// A constant-bit-rate UDP stream.
    ConstantUdp = "constant-udp" (ConstantUdpConfig) => ConstantUdp;
    /// A web page load by the client, over one connection or several.
    HttpPage = "http-page" (HttpPageConfig) => PageLoad;
    /// Many clients, each with its own server and its own connection, which is open from the beginning.
    WebClients = "web-clients" (WebClientsConfig) => WebClients;
    /// Short transfers to the client, each over its own connection, for as long as the run lasts.
    ShortFlows = "short-flows" (ShortFlowsConfig) => ShortFlows;
    /// A phone call over IP; the results include its quality.
    Voip = "voip" (VoipConfig) => Call;
    /// Requests on a persistent connection, one after another; the responses are the flow's data.
    RequestResponse = "request-response" (RequestResponseConfig) => Exchanges;
    /// Confirmable CoAP requests over UDP, with CoAP's timers; the requests are the flow's data.
    Coap = "coap" (CoapConfig) => Coap;
    /// A UDP stream of bursts, with silence between them.
    OnOff = "on-off" (OnOffConfig) => OnOff;
    /// Datagrams at the times and of the sizes of a recording.
    Replay = "replay" (ReplayConfig) => Replay;
    /// Video on demand, in segments whose bitrate adapts to the client's buffer.
    Video = "video" (VideoConfig) => Video;
    /// Custom traffic: code that the scenario names; on the model engine only.
    Own = "own" (OwnConfig) => OwnTraffic;
    /// A real program on this machine, on engines with real hosts (`lasthop shell`).
    Program = "program" (ProgramConfig) => Elsewhere;
}

impl Application for Program {
    forward! { each:
        #[inline]
        fn next_wakeup(&self) -> Option<Instant>;
        fn handle_wakeup(&mut self, now: Instant);
        #[inline]
        fn handle_news(&mut self, now: Instant, flow: u32, host: Host, news: News);
        #[inline]
        fn heeds_data(&self) -> bool;
        #[inline(never)]
        fn handle_stream(&mut self, now: Instant, flow: u32, host: Host, stream: u32, received: u64);
        #[inline]
        fn poll_action(&mut self) -> Option<Action>;
    }
}

/// True if a key need not be written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A default.
const fn seconds<const SECONDS: u64>() -> Duration {
    Duration::from_secs(SECONDS)
}

/// Start of a flow, if it states none.
const fn at_once() -> Distribution<Duration> {
    Distribution::Static(Duration::ZERO)
}

/// One application of a run: an entry of the scenario, or one of the applications that an entry with a count
/// stands for.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    pub config: &'a FlowConfig,
    /// Index of its entry in the scenario.
    pub entry: usize,
    /// Its name, unique in the run.
    pub name: String,
    /// Common name of all applications of the same entry that send in the same direction.
    pub group: String,
    /// The host that sends its data.
    pub sender: Host,
    /// Name of the random stream of its start.
    pub start_stream: String,
    pub protocol: Protocol,
}

/// The flows of these applications that are known before the run, in the order of their
/// [`lasthop_core::FlowId`]; page loads need `http`. Other flows are opened during the run, one by one: see
/// [`later_flow`].
pub fn flows(applications: &[Instance<'_>], http: Option<&HttpConfig>) -> Vec<FlowInfo> {
    let mut flows = Vec::new();
    for (application, instance) in (0..).zip(applications) {
        let traffic = instance.config.traffic();
        for name in traffic.flow_names(&instance.name, http) {
            flows.push(FlowInfo {
                name,
                application,
                group: None,
                is_control: false,
                protocol: instance.protocol,
                sender: instance.sender,
                offered_bytes: traffic.stream_bytes(),
                sends_for: traffic.sends_for(),
                dscp: traffic.dscp(),
                ecn: traffic.ecn(),
                server_port: traffic.port().map_or(default_port(flows.len()), NonZeroU16::get),
                part: Part::Whole,
            });
        }
    }
    flows
}

impl Instance<'_> {
    /// The group that its flows belong to in the records: a page load is a group by itself, otherwise all
    /// applications of an entry are one group.
    pub fn application(&self) -> &str {
        if self.config.page().is_some() { &self.name } else { &self.group }
    }

    /// The running application, and its start. The start is drawn from a separate random stream, so that it
    /// is the same on all engines.
    pub fn begin(&self, around: &Surroundings<'_>) -> Program {
        let traffic = self.config.traffic();
        let mut stream = around.seed.stream(&self.start_stream);
        let start = Instant::ZERO + traffic.start().sampler().sample(&mut stream);
        traffic.begin(start, around)
    }
}

/// The flow with this number among all flows of the run, which `application` opens between these hosts.
pub fn later_flow(number: usize, application: u32, hosts: &ShortHosts, is_control: bool) -> FlowInfo {
    let group = if is_control { format!("control-{}", hosts.name) } else { hosts.name.clone() };
    FlowInfo {
        name: format!("{group}-{number}"),
        application,
        group: Some(group),
        is_control,
        protocol: Protocol::Tcp,
        sender: Host::Server,
        offered_bytes: None,
        sends_for: None,
        dscp: Dscp::default(),
        ecn: Ecn::NotEct,
        server_port: default_port(number),
        part: Part::Whole,
    }
}

fn default_port(flow: usize) -> u16 {
    FIRST_PORT + (flow % DEFAULT_PORTS) as u16
}
