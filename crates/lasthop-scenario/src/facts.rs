//! Derived properties of a scenario, for the stories and pictures of its runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lasthop_core::{Bytes, Direction, Host, Place, Protocol, QueueSize, Rate};
use lasthop_link::{AtmConfig, ClassConfig, ErrorConfig, LinkChange, MediumSetup, PathConfig, QueueConfig};
use lasthop_quic::Moves;
use lasthop_tcp::TcpConfig;
use lasthop_traffic::Voice;
use serde::Serialize;

use crate::flow::Flow;
use crate::hops::{ONLY_HOP, ONLY_HOST};
use crate::relay::HostPair;
use crate::topology::{Hop, PortSetup, Tree};
use crate::types::{Scenario, first_rate};

/// Facts of a scenario. Times are in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Facts<'a> {
    /// Applications and the sides of their relays, by their names in the records.
    pub applications: BTreeMap<String, ApplicationFacts<'a>>,
    /// The hops in the order of the tree, each after its parent. A single hop, or an ATM switch, is named
    /// `last-hop`.
    pub hops: Vec<HopFacts<'a>>,
    /// The hosts at the edge, by name, each with its hops.
    pub hosts: BTreeMap<&'a str, Vec<&'a str>>,
    /// The places that the columns of the run describe, down and up.
    pub bottlenecks: [u16; 2],
}

#[derive(Debug, Serialize)]
pub struct HopFacts<'a> {
    pub name: &'a str,
    /// The parent hop; `None` at the root.
    pub behind: Option<&'a str>,
    /// From the root towards the hosts.
    pub down: SideFacts,
    /// Towards the root.
    pub up: SideFacts,
}

#[derive(Debug, Default, Serialize)]
pub struct SideFacts {
    /// Its place in the trace of a run.
    pub place: u16,
    /// Its rate in a scenario's notation; empty on the way back from an ATM switch.
    pub rate: String,
    pub delay: String,
    /// Describes the discipline and limit of its queue, or the number of its classes.
    pub queue: String,
    /// The first rate above 0, in bit/s of full IP packets; 0 if there is none.
    pub ip_rate_bps: f64,
    /// Time in which its full queue drains at that rate; `None` with classes or a medium.
    pub queue_s: Option<f64>,
    /// Delay from a failed transmission to the next one (ARQ); 0 without ARQ.
    pub retry_delay_ns: u64,
    pub queues: Vec<QueueFacts>,
    pub changes: Vec<ChangeFacts>,
}

/// A change of a link; absent values stay unchanged.
#[derive(Debug, Serialize)]
pub struct ChangeFacts {
    /// Since the start of the run.
    pub at_ns: u64,
    /// The new rate, in a scenario's notation.
    pub rate: Option<String>,
    /// The new propagation delay, in a scenario's notation.
    pub delay: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct ApplicationFacts<'a> {
    /// The `kind` of its flows.
    pub kind: &'static str,
    /// Their protocol, by its name in the records.
    pub protocol: &'static str,
    /// Payload that the sender may send before the first ACK; 0 without congestion control.
    pub initial_window_bytes: u64,
    /// The TCP of its ends, if TCP carries it.
    pub tcp: &'a TcpConfig,
    /// Present for a call.
    pub voice: Option<VoiceFacts>,
    pub host: Cow<'a, str>,
    /// The host at the other end; `server` for a flow without `peer`.
    pub peer: Cow<'a, str>,
    /// The places that its packets cross down and up, in order, including those after a migration.
    pub routes: [Vec<u16>; 2],
    /// Changes of its host's address or port in order of time; QUIC only.
    pub moves: Vec<MoveFacts<'a>>,
    /// The round-trip time of its whole flow without queueing.
    pub round_trip_ns: u64,
}

/// A change of the address of a host at the edge, or of its port at a NAT.
#[derive(Debug, Serialize)]
pub struct MoveFacts<'a> {
    /// Since the start of the run.
    pub at_ns: u64,
    /// True if only its port changes.
    pub rebinds: bool,
    /// The hop of the new path, if the path changes.
    pub via: Option<&'a str>,
}

/// Properties of a call, other than the network, that determine its quality; see [`Voice`].
#[derive(Debug, Serialize)]
pub struct VoiceFacts {
    codec: &'static str,
    frame_ns: u64,
    codec_delay_ns: u64,
    jitter_buffer_ns: u64,
    impairment: f64,
    loss_robustness: f64,
    /// The longest gap that concealment fills; `None` if unlimited.
    conceals_ns: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub struct QueueFacts {
    /// Name of its class; empty for the only queue.
    pub name: String,
    pub red_in_bytes: bool,
}

impl From<Voice> for VoiceFacts {
    fn from(voice: Voice) -> Self {
        Self {
            codec: voice.codec,
            frame_ns: voice.frame.as_nanos(),
            codec_delay_ns: voice.codec_delay.as_nanos(),
            jitter_buffer_ns: voice.jitter_buffer.as_nanos(),
            impairment: voice.impairment,
            loss_robustness: voice.loss_robustness,
            conceals_ns: voice.conceals.map(lasthop_core::Duration::as_nanos),
        }
    }
}

impl From<&LinkChange> for ChangeFacts {
    fn from(change: &LinkChange) -> Self {
        Self {
            at_ns: change.at.as_nanos(),
            rate: change.rate.map(|rate| rate.to_string()),
            delay: change.delay.map(|delay| delay.to_string()),
        }
    }
}

impl QueueFacts {
    fn of(name: &str, queue: &QueueConfig) -> Self {
        let red_in_bytes = queue.red().is_some_and(|red| matches!(red.min, QueueSize::Bytes(_)));
        Self { name: name.to_owned(), red_in_bytes }
    }

    /// The queues of one direction of a hop.
    fn all(path: &PathConfig) -> Vec<Self> {
        let Some(htb) = &path.htb else { return vec![Self::of("", &path.queue)] };
        let class = |class: &ClassConfig| Self::of(&class.name, class.queue.as_ref().unwrap_or(&path.queue));
        htb.class.iter().map(class).collect()
    }
}

impl SideFacts {
    fn of(place: Place, path: &PathConfig, errors: Option<&ErrorConfig>, mtu: Bytes) -> Self {
        let ip_rate_bps = first_rate(path.ip_rates(mtu.0 as u32));
        let full = match path.queue.limit {
            QueueSize::Packets(packets) => f64::from(packets) * mtu.0 as f64,
            QueueSize::Bytes(bytes) => f64::from(bytes),
        };
        let drained_s = (path.htb.is_none() && ip_rate_bps > 0.0).then(|| 8.0 * full / ip_rate_bps);
        let arq = path.link.errors.as_ref().or(errors).and_then(|errors| errors.arq.as_ref());
        let queues = QueueFacts::all(path);
        let queue = if path.htb.is_some() {
            format!("{} classes", queues.len())
        } else {
            format!("{}, {}", path.queue.discipline, path.queue.limit)
        };
        Self {
            place: place.0,
            rate: path.link.rate.to_string(),
            delay: path.link.delay.to_string(),
            queue,
            ip_rate_bps,
            queue_s: drained_s,
            retry_delay_ns: arq.map_or(0, |arq| arq.delay.as_nanos()),
            queues,
            changes: path.link.change.iter().map(ChangeFacts::from).collect(),
        }
    }

    /// A direction of a medium: the rate is that of its fastest station.
    fn of_medium(place: Place, setup: &MediumSetup<'_>, direction: Direction) -> Self {
        let fastest = setup.rates(direction).into_iter().map(|(_, rate)| rate).fold(1.0, f64::max);
        Self {
            place: place.0,
            rate: Rate::from_bits_per_second(fastest as u64).to_string(),
            delay: if setup.delay().is_zero() { String::new() } else { setup.delay().to_string() },
            queue: setup.words(),
            ip_rate_bps: fastest,
            queues: vec![QueueFacts::default()],
            ..Self::default()
        }
    }

    fn of_switch(atm: &AtmConfig, mtu: Bytes) -> [Self; 2] {
        let side = |direction, rate, queue| Self {
            place: Place::from(direction).0,
            rate,
            delay: atm.one_way_delay().to_string(),
            queue,
            ip_rate_bps: if direction == Direction::Down { atm.ip_rate(mtu.0 as u32) } else { 0.0 },
            queues: vec![QueueFacts::default()],
            ..Self::default()
        };
        let buffer = format!("{} cells", atm.buffer_cells);
        [
            side(Direction::Down, atm.rate.to_string(), buffer),
            side(Direction::Up, String::new(), String::new()),
        ]
    }
}

impl Scenario {
    pub fn facts(&self) -> Facts<'_> {
        let tree = self.tree();
        let applications = self.host_pairs().into_iter().map(|pair| {
            let HostPair { instance, part, .. } = &pair;
            let flow = &self.flow[instance.entry];
            let route = |way| {
                let mut places: Vec<u16> = Vec::new();
                for place in self.routes(&tree, flow, *part, way).concat() {
                    if !places.contains(&place.0) {
                        places.push(place.0);
                    }
                }
                places
            };
            let tcp = self.tcp_of_part(flow, *part, instance.sender);
            let initial_window_bytes = match (instance.protocol, flow.quic()) {
                (Protocol::Udp, _) => 0,
                (_, Some(quic)) => quic.initial_window().0,
                _ => u64::from(tcp.initial_window) * u64::from(self.segment_bytes_with(tcp)),
            };
            let facts = ApplicationFacts {
                kind: instance.config.kind(),
                protocol: instance.protocol.name(),
                initial_window_bytes,
                tcp,
                voice: instance.config.traffic().voice().map(VoiceFacts::from),
                host: self.host_at(flow, *part, Host::Client),
                peer: self.host_at(flow, *part, Host::Server),
                routes: [Direction::Down, Direction::Up].map(route),
                moves: self.move_facts(flow),
                round_trip_ns: self.round_trip(&tree, flow).as_nanos(),
            };
            (pair.name(), facts)
        });
        let hosts = self.host.iter().map(|(name, host)| (name.as_str(), host.ways()));
        Facts {
            applications: applications.collect(),
            hops: self.hop_facts(&tree),
            hosts: if self.host.is_empty() {
                BTreeMap::from([(ONLY_HOST, vec![ONLY_HOP])])
            } else {
                hosts.map(|(name, ways)| (name, ways.iter().map(String::as_str).collect())).collect()
            },
            bottlenecks: self.bottlenecks().map(|place| place.0),
        }
    }

    fn move_facts<'a>(&self, flow: &'a Flow) -> Vec<MoveFacts<'a>> {
        let Moves { at, rebinds } = self.moves(flow);
        let via = flow.migrate.as_ref().map(|to| to.via.as_str());
        at.iter().map(|at| MoveFacts { at_ns: at.as_nanos(), rebinds, via }).collect()
    }

    fn hop_facts(&self, tree: &Tree) -> Vec<HopFacts<'_>> {
        if let Some(atm) = &self.atm {
            let [down, up] = SideFacts::of_switch(atm, self.mtu);
            return vec![HopFacts { name: ONLY_HOP, behind: None, down, up }];
        }
        let side = |(number, hop): (usize, &Hop<'_>), direction| {
            let place = tree.place(number, direction);
            match hop.side(direction) {
                PortSetup::Link(path) => SideFacts::of(place, path, hop.errors(), self.mtu),
                PortSetup::Medium(setup, direction) => SideFacts::of_medium(place, &setup, direction),
            }
        };
        let hops = self.hops();
        let facts = (0..).zip(&hops).map(|(number, hop)| HopFacts {
            name: hop.name,
            behind: tree.behind(number).map(|behind| hops[behind].name),
            down: side((number, hop), Direction::Down),
            up: side((number, hop), Direction::Up),
        });
        facts.collect()
    }
}
