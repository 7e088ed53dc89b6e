//! One run of a scenario: two hosts, a router, the last hop between them.
//!
//! ```text
//!          LAN              router queue    link
//! server ───────> router ──> [ down ] ══════════════> client
//!        <═══════════════════════ [ up ] <── router <─────── LAN
//! ```
//!
//! Events are handled in the total order (time, component); components rank down path, up path, LANs,
//! then the flows in the order of the scenario, each with its start, server and client.

use lasthop_core::{
    Body, Datagram, Direction, Dscp, Duration, Ecn, FlowId, Host, Instant, Observer, Packet, PacketArena,
    PacketEvent, PacketId, Seed,
};
use lasthop_link::Path;
use lasthop_scenario::Scenario;
use lasthop_tcp::{CachedMetrics, Endpoint, Phase, TcpConfig, TickClock};
use lasthop_traffic::{BulkConfig, ConstantUdp, FlowConfig};

use crate::agenda::{Agenda, ComponentId};
use crate::wire::Wire;

/// What the hosts remember from one replication to the next, if the scenario lets them.
#[derive(Clone, Debug, Default)]
pub struct HostMemory {
    /// The server's cached metrics for the client.
    pub metrics: CachedMetrics,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Time of the last event, or the time limit if that came before the next one.
    pub time: Instant,
    /// Packets still in a buffer or on a wire.
    pub packets_inside: usize,
}

const DOWN: ComponentId = 0;
const UP: ComponentId = 1;
const LAN_DOWN: ComponentId = 2;
const LAN_UP: ComponentId = 3;
const FIRST_FLOW: ComponentId = 4;
/// Components of one flow: its start, its server, its client.
const PER_FLOW: ComponentId = 3;

/// A flow and its place in life.
struct Flow {
    start: Option<Instant>,
    dscp: Dscp,
    server_port: u16,
    traffic: Traffic,
}

enum Traffic {
    Bulk { config: BulkConfig, server: Box<Endpoint>, client: Box<Endpoint>, client_closed: bool },
    Udp(ConstantUdp),
}

struct Engine<'a, O> {
    agenda: Agenda,
    arena: PacketArena,
    down: Path,
    up: Path,
    lan_down: Wire,
    lan_up: Wire,
    flows: Vec<Flow>,
    next_serial: u64,
    caching: bool,
    memory: &'a mut HostMemory,
    observer: &'a mut O,
}

/// Runs `scenario` once. All randomness comes from named streams of `seed`; `memory` is read and
/// written if the scenario caches metrics. The run ends when nothing is left to happen, or at the
/// scenario's time limit.
pub fn run<O: Observer>(
    scenario: &Scenario,
    seed: Seed,
    memory: &mut HostMemory,
    observer: &mut O,
) -> RunEnd {
    let mut engine = Engine::new(scenario, seed, memory, observer);
    let limit = Instant::ZERO + scenario.time_limit;
    let mut end = Instant::ZERO;
    while let Some((now, component)) = engine.agenda.pop() {
        if now > limit {
            end = limit;
            break;
        }
        engine.wake(now, component);
        end = now;
    }
    RunEnd { time: end, packets_inside: engine.arena.len() }
}

impl<'a, O: Observer> Engine<'a, O> {
    fn new(scenario: &Scenario, seed: Seed, memory: &'a mut HostMemory, observer: &'a mut O) -> Self {
        let path = |config, direction| Path::new(config, scenario.errors.as_ref(), direction, seed);
        let mut engine = Self {
            agenda: Agenda::new(FIRST_FLOW + PER_FLOW * scenario.flow.len() as u32),
            arena: PacketArena::default(),
            down: path(&scenario.down, Direction::Down),
            up: path(&scenario.up, Direction::Up),
            lan_down: Wire::new(scenario.lan.rate, scenario.lan.delay),
            lan_up: Wire::new(scenario.lan.rate, scenario.lan.delay),
            flows: flows(scenario, seed),
            next_serial: 0,
            caching: scenario.tcp.cached_metrics,
            memory,
            observer,
        };
        for (index, flow) in engine.flows.iter().enumerate() {
            engine.agenda.schedule(start_of(index), flow.start);
        }
        engine
    }

    fn wake(&mut self, now: Instant, component: ComponentId) {
        match component {
            DOWN => {
                self.down.handle_wakeup(now, &mut self.arena, self.observer);
                while let Some(id) = self.down.poll_delivery(now) {
                    self.deliver(now, id, Host::Client);
                }
                self.agenda.schedule(DOWN, self.down.next_wakeup());
            }
            UP => {
                self.up.handle_wakeup(now, &mut self.arena, self.observer);
                while let Some(id) = self.up.poll_delivery(now) {
                    self.deliver(now, id, Host::Server);
                }
                self.agenda.schedule(UP, self.up.next_wakeup());
            }
            LAN_DOWN => {
                while let Some(id) = self.lan_down.poll_arrival(now) {
                    self.down.handle_packet(now, id, &mut self.arena, self.observer);
                }
                self.agenda.schedule(LAN_DOWN, self.lan_down.next_wakeup());
                self.agenda.schedule(DOWN, self.down.next_wakeup());
            }
            LAN_UP => {
                while let Some(id) = self.lan_up.poll_arrival(now) {
                    self.up.handle_packet(now, id, &mut self.arena, self.observer);
                }
                self.agenda.schedule(LAN_UP, self.lan_up.next_wakeup());
                self.agenda.schedule(UP, self.up.next_wakeup());
            }
            _ => self.wake_flow(now, component),
        }
    }

    fn wake_flow(&mut self, now: Instant, component: ComponentId) {
        let index = ((component - FIRST_FLOW) / PER_FLOW) as usize;
        let flow = &mut self.flows[index];
        if component == start_of(index) && flow.start.take().is_some() {
            self.start(now, index);
            return;
        }
        match &mut flow.traffic {
            Traffic::Udp(source) => {
                let datagram = source.poll_transmit(now);
                let next = source.next_wakeup();
                self.agenda.schedule(start_of(index), next);
                if let Some(datagram) = datagram {
                    self.send_datagram(now, index, datagram);
                }
            }
            Traffic::Bulk { server, client, .. } => {
                let host =
                    if component == endpoint_of(index, Host::Server) { Host::Server } else { Host::Client };
                let endpoint = if host == Host::Server { server } else { client };
                if endpoint.next_wakeup().is_some_and(|due| due <= now) {
                    endpoint.handle_wakeup(now, self.observer);
                }
                self.flush(now, index, host);
            }
        }
    }

    fn start(&mut self, now: Instant, index: usize) {
        match &mut self.flows[index].traffic {
            Traffic::Bulk { config, server, .. } => {
                let write = config.write.map_or(u64::from(server.mss()), |write| write.0);
                server.connect(now, self.observer);
                server.write(now, config.bytes.0, write, self.observer);
                server.close(now, self.observer);
                self.flush(now, index, Host::Server);
            }
            Traffic::Udp(_) => self.wake_flow(now, start_of(index)),
        }
    }

    /// A packet reached the host it was sent to.
    fn deliver(&mut self, now: Instant, id: PacketId, host: Host) {
        let packet = self.arena.remove(id);
        self.observer.packet(now, PacketEvent::Delivered, &packet);
        let Body::Tcp(segment) = &packet.body else { return };
        let index = packet.flow.0 as usize;
        let Traffic::Bulk { server, client, client_closed, .. } = &mut self.flows[index].traffic else {
            return;
        };
        match host {
            Host::Server => {
                let cache = self.caching.then_some(&self.memory.metrics);
                let before = server.phase();
                server.handle_segment(now, segment, packet.ecn, cache, self.observer);
                if self.caching && before != Phase::Closed && server.phase() == Phase::Closed {
                    server.store_metrics(&mut self.memory.metrics);
                }
            }
            Host::Client => {
                client.handle_segment(now, segment, packet.ecn, None, self.observer);
                if client.peer_closed() && !*client_closed {
                    // The application has read to the end of the stream.
                    *client_closed = true;
                    client.close(now, self.observer);
                }
            }
        }
        self.flush(now, index, host);
    }

    /// Puts everything an endpoint has to send on its LAN, and notes its next timer.
    fn flush(&mut self, now: Instant, index: usize, host: Host) {
        loop {
            let Traffic::Bulk { server, client, .. } = &mut self.flows[index].traffic else { return };
            let endpoint = if host == Host::Server { server } else { client };
            let Some((segment, ecn)) = endpoint.poll_transmit(now) else {
                self.agenda.schedule(endpoint_of(index, host), endpoint.next_wakeup());
                return;
            };
            self.send(now, index, host, segment.ip_bytes(), ecn, Body::Tcp(segment));
        }
    }

    fn send_datagram(&mut self, now: Instant, index: usize, datagram: Datagram) {
        let ip_bytes = Datagram::HEADER_BYTES + datagram.payload_bytes;
        self.send(now, index, Host::Server, ip_bytes, Ecn::NotEct, Body::Udp(datagram));
    }

    fn send(&mut self, now: Instant, index: usize, host: Host, ip_bytes: u32, ecn: Ecn, body: Body) {
        let (lan, component, direction) = match host {
            Host::Server => (&mut self.lan_down, LAN_DOWN, Direction::Down),
            Host::Client => (&mut self.lan_up, LAN_UP, Direction::Up),
        };
        let (serial, flow) = (self.next_serial, FlowId(index as u32));
        let Flow { dscp, server_port, .. } = self.flows[index];
        let packet = Packet { serial, flow, direction, ip_bytes, ecn, dscp, server_port, body };
        self.next_serial += 1;
        self.observer.packet(now, PacketEvent::Sent, &packet);
        lan.send(now, self.arena.insert(packet), ip_bytes);
        self.agenda.schedule(component, lan.next_wakeup());
    }
}

fn start_of(index: usize) -> ComponentId {
    FIRST_FLOW + PER_FLOW * index as u32
}

fn endpoint_of(index: usize, host: Host) -> ComponentId {
    start_of(index) + if host == Host::Server { 1 } else { 2 }
}

/// The flows of a scenario, each with its drawn start and its hosts' clocks.
fn flows(scenario: &Scenario, seed: Seed) -> Vec<Flow> {
    let mtu = scenario.mtu.0 as u32;
    let server_clock = clock(&scenario.tcp, seed, "clock.server");
    let client_clock = clock(&scenario.tcp, seed, "clock.client");
    let endpoint = |clock, index: usize, host| {
        Box::new(Endpoint::listen(&scenario.tcp, mtu, clock, FlowId(index as u32), host))
    };
    let flow = |(index, config): (usize, &FlowConfig)| {
        let mut stream = seed.stream(&format!("start.flow{index}"));
        let start = Instant::ZERO + config.start().sampler().sample(&mut stream);
        let traffic = match config {
            FlowConfig::BulkTcp(bulk) => Traffic::Bulk {
                config: bulk.clone(),
                server: endpoint(server_clock, index, Host::Server),
                client: endpoint(client_clock, index, Host::Client),
                client_closed: false,
            },
            FlowConfig::ConstantUdp(udp) => Traffic::Udp(ConstantUdp::new(udp, start)),
        };
        let server_port = config.server_port(FlowId(index as u32));
        Flow { start: Some(start), dscp: config.dscp(), server_port, traffic }
    };
    scenario.flow.iter().enumerate().map(flow).collect()
}

/// A host's tick clock. Hosts do not boot in step: the phase is drawn once per host and replication.
fn clock(config: &TcpConfig, seed: Seed, stream: &str) -> TickClock {
    let phase = seed.stream(stream).unit() * config.tick.as_nanos() as f64;
    TickClock::new(config.tick, Duration::from_nanos(phase as u64))
}
