//! The types of a complete scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use lasthop_core::{Bytes, Direction, Duration, Fault, FlowInfo, Host, Instant, Rate, Seed, Segment};
use lasthop_link::{AtmConfig, ErrorConfig, MediumConfig, PathConfig};
use lasthop_quic::Moves;
use lasthop_tcp::TcpConfig;
use lasthop_traffic::{HttpConfig, Instance, Program, ProgramConfig, Surroundings, TransferConfig};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::flow::{Flow, FlowStack, default_lan_rate};
use crate::hops::{HopConfig, HostConfig, RouterConfig};
use crate::measure::MeasureConfig;

/// A complete scenario, as run by a cell of the factor matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Largest IP packet on the path.
    #[schemars(default = "default_mtu")]
    pub mtu: Bytes,
    /// Network between each host and the router; if absent, it has no noticeable effect.
    pub lan: Option<LanConfig>,
    /// From the server to the client.
    pub down: Option<PathConfig>,
    /// From the client to the server; if absent, a copy of `down`. If present, the link's rate, delay, release
    /// and send buffer and the queue's limit default to those of `down`.
    pub up: Option<PathConfig>,
    /// A Wi-Fi or a cell that both directions and all hosts share, instead of `down`, `up` and `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<MediumConfig>,
    /// An ATM switch instead of router and last hop, without `lan`, `down` and `up`. Each flow has its own hosts
    /// and access link. The reverse path has only a delay, equal to that of the forward path.
    pub atm: Option<AtmConfig>,
    /// The router between each LAN and the last hop.
    #[serde(default, skip_serializing_if = "RouterConfig::is_default")]
    pub router: RouterConfig,
    /// Errors of the link, in both directions; none if absent.
    pub errors: Option<ErrorConfig>,
    /// Hops by name, instead of `down`, `up`, `medium`, `router` and `errors`, which describe a single hop named
    /// `last-hop`. The hops form a tree whose root is the internet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hop: BTreeMap<String, HopConfig>,
    /// Hosts by name, behind the hops or at the root. Without `[hop]`, all hosts are behind the only hop. If
    /// absent, there is one host, named `client`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, HostConfig>,
    /// TCP of all hosts; if absent, that of current Linux.
    pub tcp: TcpConfig,
    /// HTTP and browser, for flows that load web pages.
    pub http: Option<HttpConfig>,
    /// The flows, in the order in which simultaneous events are handled.
    pub flow: Vec<Flow>,
    /// How flows get their role in the statistics.
    #[serde(default)]
    pub roles: Roles,
    /// Virtual time at which a run ends even if flows are not complete. If absent: 60 s, 20 round trips and ten
    /// times the transfer time of all bytes at the slowest rate, after the last start and the last stream.
    pub time_limit: Duration,
    /// Window of time whose packets the metrics of flows, hops and runs count; the whole run if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<MeasureConfig>,
    /// Guest kernel of the kernel engine: a name from `lasthop kernel list`, or a folder with kernel sources,
    /// which are built once. If absent, that of `--kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

impl Scenario {
    /// Reads a resolved scenario from JSON, for serde's `deserialize_with`. Reading a JSON value first compiles
    /// the code for all configuration types only once, rather than for each caller's deserializer.
    pub fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json_value(serde_json::Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }

    fn from_json_value(value: serde_json::Value) -> serde_json::Result<Self> {
        serde_json::from_value(value)
    }

    /// The times at which a link changes, in order: the client moves from one network to another.
    pub(crate) fn handovers(&self) -> Vec<Instant> {
        let hops = self.hops();
        let paths = hops.iter().flat_map(|hop| hop.links().map(|(_, path)| path));
        let times: BTreeSet<Instant> =
            paths.flat_map(|path| &path.link.change).map(|change| Instant::ZERO + change.at).collect();
        times.into_iter().collect()
    }

    /// The changes of the address or port of a QUIC flow's host at the edge.
    pub fn moves(&self, flow: &Flow) -> Moves {
        match (&flow.migrate, &flow.rebind) {
            (Some(to), _) => Moves { at: [Instant::ZERO + to.at].into(), rebinds: false },
            (None, Some(rebind)) => Moves { at: rebind.within(self.time_limit).collect(), rebinds: true },
            (None, None) if flow.quic().is_some_and(|quic| quic.migration) => {
                Moves { at: self.handovers().into(), rebinds: false }
            }
            (None, None) => Moves::default(),
        }
    }

    /// All TCP configurations: of the scenario, hosts, flows and relays.
    pub fn tcps(&self) -> impl Iterator<Item = &TcpConfig> {
        let of_flows = self.flow.iter().filter_map(|flow| flow.tcp.as_deref());
        let of_hosts = self.host.values().filter_map(|host| host.tcp.as_deref());
        let of_relays = self.flow.iter().filter_map(|flow| flow.relay.as_ref()?.tcp.as_deref());
        iter::once(&self.tcp).chain(of_flows).chain(of_hosts).chain(of_relays)
    }

    /// TCP of the sender of an application's data.
    pub fn tcp_of(&self, instance: &Instance<'_>) -> &TcpConfig {
        self.tcp_at(&self.flow[instance.entry], instance.sender)
    }

    /// TCP at an end of a flow: that of the flow, or of the host, or of all hosts.
    pub fn tcp_at<'a>(&'a self, flow: &'a Flow, end: Host) -> &'a TcpConfig {
        let of_host = || self.host.get(self.host_of(flow, end))?.tcp.as_deref();
        flow.tcp.as_deref().or_else(of_host).unwrap_or(&self.tcp)
    }

    /// Payload of a full TCP segment of flows without their own TCP.
    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes_with(&self.tcp)
    }

    /// Payload of a full segment with this TCP.
    pub fn segment_bytes_with(&self, tcp: &TcpConfig) -> u32 {
        let options = if tcp.timestamps { Segment::TIMESTAMPS_BYTES } else { 0 };
        self.mtu.0 as u32 - Segment::BASE_HEADER_BYTES - options
    }

    /// Capacity of the bottleneck in a direction, in bit/s of full IP packets: each value with its start time. A
    /// switch has the same in both directions, although data flow down only.
    pub fn rates(&self, direction: Direction) -> Vec<(Instant, f64)> {
        let packet = self.mtu.0 as u32;
        if let Some(atm) = &self.atm {
            return vec![(Instant::ZERO, atm.ip_rate(packet))];
        }
        self.side(&self.tree(), self.bottlenecks()[direction as usize]).ip_rates(packet)
    }

    /// The bad periods of a run that ended at `end`: for each hop, by number, first those of its `errors`, then
    /// those of each link with its direction.
    pub fn bad_periods(&self, seed: Seed, end: Instant) -> Vec<(usize, Option<Direction>, Instant, Instant)> {
        let mut all = Vec::new();
        for (number, hop) in self.hops().iter().enumerate() {
            let seed = self.seed_of(hop.name, seed);
            let of_links = hop.links().map(|(direction, path)| (Some(direction), path.link.errors.as_ref()));
            for (direction, errors) in iter::once((None, hop.errors())).chain(of_links) {
                let periods = lasthop_link::bad_periods(errors, direction, seed, end);
                all.extend(periods.into_iter().map(|(start, stop)| (number, direction, start, stop)));
            }
        }
        all
    }

    /// The phase of a host's clock at the start of a run, `0.0..1.0` of its period: hosts do not boot
    /// simultaneously.
    pub fn clock_phase(host: &str, seed: Seed) -> f64 {
        seed.stream(&format!("clock.{host}")).unit()
    }

    /// The applications of a run, in the order of the scenario, several for an entry with a count.
    pub fn applications(&self) -> Vec<Instance<'_>> {
        (0..).zip(&self.flow).flat_map(|(index, flow)| flow.instances(index)).collect()
    }

    /// The flows that exist from the start, ordered by number: each flow through a relay is followed by its two
    /// sides, and the subflows of MPTCP come last.
    pub fn flows(&self) -> Vec<FlowInfo> {
        let mut flows = self.with_sides(lasthop_traffic::flows(&self.applications(), self.http.as_ref()));
        flows.extend(self.subflows(&flows));
        flows
    }

    /// The applications as programs, in the order of [`Scenario::applications`], with the starts of this
    /// replication.
    pub fn programs(&self, seed: Seed) -> Vec<Program> {
        let rates = [Direction::Down, Direction::Up].map(|direction| first_rate(self.rates(direction)));
        let tree = self.tree();
        let begin = |instance: &Instance<'_>| {
            let rate = rates[Direction::from(instance.sender) as usize];
            let up = self.one_way(&tree, &self.flow[instance.entry], Direction::Up);
            instance.begin(&self.surroundings(instance, rate, up, seed))
        };
        self.applications().iter().map(begin).collect()
    }

    fn surroundings<'a>(
        &'a self,
        instance: &'a Instance<'_>,
        bottleneck_bps: f64,
        propagation_up: Duration,
        seed: Seed,
    ) -> Surroundings<'a> {
        let tcp = self.tcp_of(instance);
        let segment_bytes = self.segment_bytes_with(tcp);
        Surroundings {
            name: &instance.name,
            sender: instance.sender,
            protocol: instance.protocol,
            http: self.http.as_ref(),
            mtu: self.mtu,
            segment_bytes,
            write_bytes: tcp.write_bytes(segment_bytes),
            bottleneck_bps,
            propagation_up,
            seed,
        }
    }

    /// The real program that runs behind the last hop, if the scenario has one instead of modelled traffic.
    pub fn real_program(&self) -> Option<&ProgramConfig> {
        self.flow.iter().find_map(|flow| flow.real_program())
    }

    /// The first feature that the model engine does not model: the key, and a remedy.
    pub(crate) fn unmodelled(&self) -> Option<Fault> {
        let router = self.unmodelled_linux();
        let remedy = "needs real hosts; use --engine kernel or --engine live";
        let transfer = |(index, own): (usize, &TransferConfig)| {
            let message = format!("{:?}: a stack that is a real program {remedy}", own.stack);
            (own.stack != "tcp").then(|| Fault { key: format!("flow[0].transfers[{index}].stack"), message })
        };
        let program = self.real_program().map(|program| {
            program.transfers.iter().enumerate().find_map(transfer).unwrap_or_else(|| Fault {
                key: "flow[0].kind".into(),
                message: format!("\"program\": a real program {remedy}"),
            })
        });
        let mptcp = self.flow.iter().position(|flow| flow.stack == FlowStack::Mptcp).map(|index| Fault {
            key: format!("flow[{index}].stack"),
            message: "\"mptcp\": the model engine has no MPTCP; use --engine kernel, or leave it out".into(),
        });
        let kernel = self.kernel.as_ref().map(|kernel| Fault {
            key: "kernel".into(),
            message: format!(
                "{kernel:?}: the model engine has no kernel; use --engine kernel, or leave it out"
            ),
        });
        router.or(program).or(mptcp).or(kernel).or_else(|| {
            let flows = self.flow.iter().enumerate();
            let flows =
                flows.filter_map(|(index, flow)| Some((format!("flow[{index}].tcp"), flow.tcp.as_deref()?)));
            let hosts = self.host.iter();
            let hosts =
                hosts.filter_map(|(name, host)| Some((format!("host.{name}.tcp"), host.tcp.as_deref()?)));
            let relays = self.flow.iter().enumerate().filter_map(|(index, flow)| {
                Some((format!("flow[{index}].relay.tcp"), flow.relay.as_ref()?.tcp.as_deref()?))
            });
            let mut all = iter::once(("tcp".to_owned(), &self.tcp)).chain(hosts).chain(flows).chain(relays);
            all.find_map(|(place, tcp)| {
                tcp.unmodelled().map(|(key, message)| Fault { key: format!("{place}.{key}"), message })
            })
        })
    }

    fn unmodelled_linux(&self) -> Option<Fault> {
        ["down", "up"].into_iter().zip(self.behind_linux()?).find_map(|(name, path)| {
            let message = format!(
                "\"linux\": the drop-tail queue of [{name}] requires netem, which the model engine lacks; \
                 use --engine kernel, write \"lasthop\", or change the discipline of the queue"
            );
            let is_netem = path.linux_queues(self.mtu).has_netem();
            is_netem.then_some(Fault { key: "router.implementation".into(), message })
        })
    }

    /// True if replications must run in order because cached metrics carry over from one to the next.
    pub fn sequential(&self) -> bool {
        self.tcps().any(|tcp| tcp.cached_metrics)
    }
}

/// The fast network between a host and the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanConfig {
    /// Bit rate.
    #[schemars(default = "default_lan_rate")]
    pub rate: Rate,
    /// Propagation delay.
    #[schemars(default)]
    pub delay: Duration,
}

/// The MTU of Ethernet.
pub const fn default_mtu() -> Bytes {
    Bytes(1500)
}

/// How the flows of a replication get their role in the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Roles {
    /// The role of a flow is its name.
    #[default]
    ByName,
    /// TCP flows by elapsed time: `tcp-faster` and `tcp-slower`, or with three flows `tcp-fastest`,
    /// `tcp-medium` and `tcp-slowest`.
    ByElapsed,
    /// TCP flows that start within a second of each other form a group. Groups are ordered by start, flows
    /// within a group by elapsed time. Example for two flows and a late third: `tcp-faster`, `tcp-slower`,
    /// `tcp-third`.
    ByStartThenElapsed,
    /// TCP flows by start time: `tcp-first`, `tcp-second`, `tcp-third`.
    ByStart,
}

/// The first rate above 0 of a link over time; 0 if there is none.
pub(crate) fn first_rate(rates: Vec<(Instant, f64)>) -> f64 {
    rates.into_iter().map(|(_, rate)| rate).find(|rate| *rate > 0.0).unwrap_or_default()
}
