//! Estimates the cost of a run before it starts, to warn of runs that are too large.
//!
//! The estimates are rather too high than too low, by a factor of up to about ten. They exclude user code and
//! real programs.

use lasthop_core::{Direction, Duration, Instant, Part, QueueSize, Seed, Segment};
use lasthop_link::{HtbConfig, PathConfig};
use lasthop_traffic::{FlowConfig, Offer, Outlook, ProgramConfig, TransferConfig, period};

use crate::flow::Flow;
use crate::topology::{Hop, HopKind, PortSetup, Tree};
use crate::types::{LanConfig, Scenario};

/// Memory of a flow that exists from the start: both ends and its record.
const FLOW_BYTES: f64 = 16e3;
/// The same with QUIC, TLS and its streams.
const QUIC_FLOW_BYTES: f64 = 300e3;
/// Memory for the samples of a flow: per packet, and the maximum.
const NOTED_BYTES: (f64, f64) = (48.0, 800e3);
/// A packet in flight.
const PACKET_BYTES: f64 = 400.0;
/// The sender's copy of a packet, until it is acknowledged.
const KEPT_BYTES: f64 = 200.0;
/// A short flow during its lifetime, with its packets.
const PASSING_BYTES: f64 = 12e3;
/// A short flow that has ended.
const ENDED_BYTES: f64 = 300.0;
/// A good or bad period of a link.
const STATE_BYTES: f64 = 48.0;
/// Packets of a handshake, and the retransmissions before a flow gives up.
const HANDSHAKE: f64 = 40.0;
/// Data packets sent for each packet that is offered or that the link carries: half of them are lost.
const SENT_AGAIN: f64 = 2.0;
/// A QUIC packet costs as much as this number of TCP packets, because of its encryption.
const QUIC_PACKETS: f64 = 4.0;
/// Searching this number of access links costs as much as a packet.
const ACCESS_LINKS: f64 = 64.0;
/// Above this share of offered load, applications may overload the link, so that flows do not end.
const CROWDED: f64 = 0.9;

/// Bytes of the file of a transfer with a duration: what file systems accept. It takes no space.
const FILE_MAX: f64 = 1e12;

/// The estimated cost of one replication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Packets that hosts send. Other work is converted to packets by its duration.
    pub packets: f64,
    /// Bytes of memory.
    pub memory: f64,
}

impl Scenario {
    pub fn estimate(&self) -> Estimate {
        let tree = self.tree();
        let offers: Vec<(&Flow, Offer)> =
            self.flow.iter().map(|flow| (flow, self.offer(&tree, flow))).collect();
        let mut packets = 0.0;
        for direction in [Direction::Down, Direction::Up] {
            let ours = || offers.iter().filter(|(flow, _)| flow.direction.directions().contains(&direction));
            let least = ours().filter(|(_, offer)| offer.waiting > 0.0).map(|(_, offer)| offer.ip_bytes);
            let least = least.fold(f64::INFINITY, f64::min);
            let carried = self.carried(direction).into_iter().sum::<f64>() / 8.0 / least;
            let passing = |(flow, offer): &(&Flow, Offer)| {
                offer.waiting.min(self.passing(&tree, flow, direction) / 8.0 / offer.ip_bytes)
            };
            let waiting = ours().map(passing).sum::<f64>().min(carried);
            packets += SENT_AGAIN * waiting + ours().map(|(_, offer)| offer.streaming).sum::<f64>();
        }
        let initial_flows: f64 = offers.iter().map(|(_, offer)| offer.flows).sum();
        packets += HANDSHAKE * initial_flows;
        // Each packet may be acknowledged.
        packets *= 2.0;
        let is_quic = self.flow.iter().any(|flow| flow.quic().is_some());
        let (stored, inside) = self.places(&offers);
        let states = self.states();
        let links =
            self.flow.iter().filter(|flow| flow.access.is_some()).map(Flow::applications).sum::<usize>();
        let cells = self.atm.as_ref().map_or(0.0, |atm| f64::from(atm.cells(self.mtu.0 as u32)));
        let effort = (1.0 + cells)
            * (1.0 + links as f64 / ACCESS_LINKS)
            * self.longest_way(&tree) as f64
            * if is_quic { QUIC_PACKETS } else { 1.0 };
        // QUIC packets hold their content.
        let content = if is_quic { 3.0 * self.mtu.0 as f64 } else { 0.0 };
        Estimate {
            packets: packets * effort + states,
            memory: flow_bytes(&offers)
                + stored * (KEPT_BYTES + content)
                + inside * (PACKET_BYTES + content)
                + states * STATE_BYTES,
        }
    }

    /// The offered load of the flows of an entry.
    fn offer(&self, tree: &Tree, flow: &Flow) -> Offer {
        let tcp = flow.tcp.as_deref().unwrap_or(&self.tcp);
        let around = Outlook {
            http: self.http.as_ref(),
            mtu: self.mtu,
            segment_bytes: self.segment_bytes_with(tcp),
            limit: self.time_limit.as_secs_f64(),
            round_trip: self.round_trip(tree, flow).as_secs_f64(),
            fastest_bps: self.fastest(flow),
            down_bps: self
                .rates(Direction::Down)
                .iter()
                .map(|(_, rate)| *rate)
                .find(|rate| *rate > 0.0)
                .unwrap_or(0.0),
        };
        flow.kind.traffic().offer(&around).times(f64::from(flow.many()))
    }

    /// The number of bits that the slowest hop on the routes of a flow carries during the run.
    fn passing(&self, tree: &Tree, flow: &Flow, direction: Direction) -> f64 {
        if self.atm.is_some() {
            return f64::INFINITY;
        }
        let carried = [Direction::Down, Direction::Up].map(|direction| self.carried(direction));
        let bits = |place| {
            let (hop, direction) = tree.at(place);
            carried[direction as usize][hop]
        };
        let routes = self.routes(tree, flow, Part::Whole, direction).into_iter();
        routes.map(|route| route.into_iter().map(bits).fold(f64::INFINITY, f64::min)).sum()
    }

    /// The number of bits that each carrier carries in a direction during the run.
    fn carried(&self, direction: Direction) -> Vec<f64> {
        let limit = self.time_limit.as_secs_f64();
        let bits = |Carrier { rates, recorded }: Carrier| {
            let begins = rates.iter().map(|(since, _)| since.as_secs_f64().min(limit));
            let ends = begins.clone().skip(1).chain([limit]);
            let pieces = rates.iter().zip(begins.zip(ends));
            let bits: f64 = pieces.map(|((_, rate), (begin, end))| (end - begin).max(0.0) * rate).sum();
            bits.max(recorded * limit)
        };
        self.carriers(direction).into_iter().map(bits).collect()
    }

    /// Capacity of the fastest hop for a flow's data, in bit/s.
    fn fastest(&self, flow: &Flow) -> f64 {
        let carriers = flow.direction.directions().iter().flat_map(|direction| self.carriers(*direction));
        carriers.map(|carrier| carrier.fastest()).fold(0.0, f64::max)
    }

    /// Start of each transfer by real programs in seconds, and bytes of its file: as many as the slowest hop on its
    /// way carries at its highest rate in the time that it has, if it has no given sizes.
    pub fn transfers(&self, seed: Seed) -> Vec<(f64, Option<u64>)> {
        let Some(program) = self.real_program() else { return Vec::new() };
        let tree = self.tree();
        let plan = |own: &TransferConfig| {
            let mut stream = seed.stream(&format!("start.{}", own.name));
            let start = own.start.sampler().sample(&mut stream).as_secs_f64();
            (start, own.duration.map(|duration| self.file_for(&tree, own, duration)))
        };
        program.transfers.iter().map(plan).collect()
    }

    /// The bytes that the slowest hop on the way of a transfer carries in this time at its highest rate.
    fn file_for(&self, tree: &Tree, own: &TransferConfig, time: Duration) -> u64 {
        let host = own.host.clone();
        let flow = Flow { host, ..Flow::from(FlowConfig::Program(ProgramConfig::default())) };
        let carriers = self.carriers(own.direction);
        let fastest = |place| carriers[tree.at(place).0].fastest();
        let way = self.route(tree, &flow, own.direction);
        let slowest = way.into_iter().map(fastest).fold(f64::INFINITY, f64::min);
        (slowest / 8.0 * time.as_secs_f64()).clamp(1.0, FILE_MAX).ceil() as u64
    }

    /// The carriers of packets in a direction: each hop, or an ATM switch.
    fn carriers(&self, direction: Direction) -> Vec<Carrier> {
        if self.atm.is_some() {
            return vec![Carrier { rates: self.rates(direction), recorded: 0.0 }];
        }
        let carrier = |hop: &Hop<'_>| {
            let side = hop.side(direction);
            let trace = if let PortSetup::Link(path) = &side { path.link.trace.as_ref() } else { None };
            Carrier {
                rates: side.ip_rates(self.mtu.0 as u32),
                recorded: trace.map_or(0.0, |trace| trace.mean_rate().bits_per_second() as f64),
            }
        };
        self.hops().iter().map(carrier).collect()
    }

    /// The number of hops on the longest route of a flow.
    fn longest_way(&self, tree: &Tree) -> usize {
        let hops = |flow: &Flow| self.route(tree, flow, Direction::Down).len();
        self.flow.iter().map(hops).max().unwrap_or_default().max(1)
    }

    /// The maximum numbers of packets that senders store, and that fit between the hosts.
    fn places(&self, offers: &[(&Flow, Offer)]) -> (f64, f64) {
        let window = |(flow, offer): &(&Flow, Offer)| {
            let tcp = flow.tcp.as_deref().unwrap_or(&self.tcp);
            let window = if flow.quic().is_some() { QUIC_WINDOW } else { f64::from(tcp.receive_window_max) };
            (offer.flows * window).min(offer.waiting)
        };
        let stored: f64 = offers.iter().map(window).sum();
        let streaming: f64 = offers.iter().map(|(_, offer)| offer.streaming).sum();
        let least = offers.iter().map(|(_, offer)| offer.ip_bytes).fold(f64::INFINITY, f64::min);
        let of_lan =
            |lan: &LanConfig| 2.0 * lan.delay.as_secs_f64() * lan.rate.bits_per_second() as f64 / 8.0 / least;
        let of_hop = |hop: Hop<'_>| match &hop.kind {
            HopKind::Links { down, up, .. } => path_places(down, least) + path_places(up, least),
            HopKind::Medium(setup) => 2.0 * setup.places(),
        };
        let room = if self.atm.is_some() {
            f64::INFINITY
        } else {
            self.lan.as_ref().map_or(0.0, of_lan) + self.hops().into_iter().map(of_hop).sum::<f64>()
        };
        (stored, room.min(2.0 * stored + streaming))
    }

    /// How often links change between good and bad.
    fn states(&self) -> f64 {
        let hops = self.hops();
        let errors = hops.iter().flat_map(|hop| {
            hop.links().filter_map(|(_, path)| path.link.errors.as_ref()).chain(hop.errors())
        });
        errors.map(|errors| 2.0 * self.time_limit.as_secs_f64() / period(&errors.good, &errors.bad)).sum()
    }
}

/// Carries packets in a direction.
struct Carrier {
    /// Rates in bit/s of IP packets, each with its start time.
    rates: Vec<(Instant, f64)>,
    /// Rate of a recorded schedule, or 0. The rate of its link is only a nominal value.
    recorded: f64,
}

impl Carrier {
    fn fastest(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(self.recorded, f64::max)
    }
}

/// Bytes of the smallest packet.
const SMALL: f64 = Segment::BASE_HEADER_BYTES as f64;
/// Maximum number of packets that a QUIC connection has in flight.
const QUIC_WINDOW: f64 = 10_000.0;

fn flow_bytes(offers: &[(&Flow, Offer)]) -> f64 {
    let is_crowded = offers.iter().map(|(_, offer)| offer.load).sum::<f64>() > CROWDED;
    let bytes = |(flow, offer): &(&Flow, Offer)| {
        let each = if flow.quic().is_some() { QUIC_FLOW_BYTES } else { FLOW_BYTES };
        let (per_packet, most) = NOTED_BYTES;
        let noted = (per_packet * (offer.waiting + offer.streaming)).min(most * offer.flows);
        let at_once = if is_crowded { offer.passing } else { offer.passing.min(offer.passing_at_once) };
        offer.flows * each + noted + offer.passing * ENDED_BYTES + at_once * PASSING_BYTES
    };
    offers.iter().map(bytes).sum()
}

/// Packets that fit in a direction of the last hop.
fn path_places(path: &PathConfig, ip_bytes: f64) -> f64 {
    let queue = |limit: QueueSize| match limit {
        QueueSize::Packets(packets) => f64::from(packets),
        QueueSize::Bytes(bytes) => f64::from(bytes) / SMALL,
    };
    let classes = path.htb.iter().flat_map(HtbConfig::leaves);
    let own: f64 = classes.map(|class| queue(class.queue.as_ref().unwrap_or(&path.queue).limit)).sum();
    let link = &path.link;
    let fastest = link.change.iter().filter_map(|change| change.rate).chain([link.rate]).max();
    let longest = link.change.iter().filter_map(|change| change.delay).chain([link.delay]).max();
    let held_back = link.jitter.as_ref().map_or(0.0, |jitter| jitter.most().as_secs_f64());
    let under_way = fastest.map_or(0.0, |rate| rate.bits_per_second() as f64 / 8.0 / ip_bytes)
        * (longest.unwrap_or_default().as_secs_f64() + held_back);
    let recorded = link.trace.is_some() || link.course.is_some();
    let under_way = if recorded { f64::INFINITY } else { under_way };
    queue(path.queue.limit).max(own) + link.send_buffer.0 as f64 / SMALL + under_way
}
