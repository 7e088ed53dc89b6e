//! One run of a scenario: two hosts, a router, the last hop between them.
//!
//! ```text
//!          LAN              router queue    link
//! server ───────> router ──> [ down ] ══════════════> client
//!        <═══════════════════════ [ up ] <── router <─────── LAN
//! ```
//!
//! In place of router and link there may be an ATM switch (`network`).
//!
//! Events are handled in the total order (time, component); components rank down path, up path, LANs, the
//! applications in the order of the scenario, then the flows as announced, each with its server and client.

use lasthop_core::{
    Body, Bytes, Datagram, Direction, Ecn, FlowId, Host, Instant, Observer, Packet, PacketArena, PacketEvent,
    PacketId, Seed,
};
use lasthop_scenario::Scenario;
use lasthop_tcp::{CachedMetrics, Endpoint, Phase};
use lasthop_traffic::Action;

use crate::agenda::{Agenda, ComponentId, NETWORK_COMPONENTS};
use crate::application::{Application, Flow, Hosts, Kind, News, applications};
use crate::network::{Component, Network};

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

const FIRST_APPLICATION: ComponentId = NETWORK_COMPONENTS;

struct Engine<'a, O> {
    agenda: Agenda,
    arena: PacketArena,
    network: Network,
    hosts: Hosts,
    applications: Vec<Application>,
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
        let hosts = Hosts::new(scenario, seed);
        let applications = applications(scenario, seed);
        let flows = hosts.flows(scenario, observer);
        let mut engine = Self {
            agenda: Agenda::new((applications.len() + 2 * flows.len()) as ComponentId),
            arena: PacketArena::default(),
            network: Network::new(scenario, flows.len(), seed),
            hosts,
            applications,
            flows,
            next_serial: 0,
            caching: scenario.tcp.cached_metrics,
            memory,
            observer,
        };
        for index in 0..engine.applications.len() {
            engine.schedule_application(index);
        }
        engine
    }

    fn wake(&mut self, now: Instant, component: ComponentId) {
        if component >= FIRST_APPLICATION {
            return self.wake_host(now, component);
        }
        let component = Component::ALL[component as usize];
        self.network.wake(now, component, &mut self.arena, self.observer);
        while let Some((id, host)) = self.network.poll_delivery(now, component) {
            self.deliver(now, id, host);
        }
        self.schedule_network(component);
        if let Some(behind) = component.behind() {
            self.schedule_network(behind);
        }
    }

    fn schedule_network(&mut self, component: Component) {
        self.agenda.schedule_network(component, self.network.next_wakeup(component));
    }

    /// An application's time has come, or an endpoint's timer.
    fn wake_host(&mut self, now: Instant, component: ComponentId) {
        let index = (component - FIRST_APPLICATION) as usize;
        if index < self.applications.len() {
            return self.wake_application(now, index);
        }
        let index = index - self.applications.len();
        let flow = FlowId((index / 2) as u32);
        let host = if index.is_multiple_of(2) { Host::Server } else { Host::Client };
        let Some(endpoint) = self.flows[flow.0 as usize].endpoint(host) else { return };
        if endpoint.next_wakeup().is_some_and(|due| due <= now) {
            endpoint.handle_wakeup(now, self.observer);
        }
        self.tell_application(now, flow, host);
        self.flush(now, flow, host);
        self.retire(now, flow);
    }

    fn wake_application(&mut self, now: Instant, index: usize) {
        let Application { first, kind } = &mut self.applications[index];
        let first = *first;
        match kind {
            Kind::Bulk(config, start) => {
                if start.take_if(|start| *start <= now).is_some() {
                    let server = endpoint(&mut self.flows, first, Host::Server);
                    let write = config.write.map_or(u64::from(server.mss()), |write| write.0);
                    server.connect(now, self.observer);
                    self.observer.written(now, first, Host::Server, config.bytes.0);
                    server.write(now, config.bytes.0, write, self.observer);
                    server.close(now, self.observer);
                    self.flush(now, first, Host::Server);
                }
            }
            Kind::Udp(source) => {
                if let Some(datagram) = source.poll_transmit(now) {
                    let ip_bytes = Datagram::HEADER_BYTES + datagram.payload_bytes;
                    self.send(now, first, Host::Server, ip_bytes, Ecn::NotEct, Body::Udp(datagram));
                }
            }
            Kind::Page(page) => {
                page.handle_wakeup(now);
                self.carry_out(now, index, first);
            }
            Kind::Web(clients) => {
                if let Some((client, Bytes(bytes))) = clients.poll_response(now) {
                    let flow = FlowId(first.0 + client);
                    self.observer.written(now, flow, Host::Server, bytes);
                    endpoint(&mut self.flows, flow, Host::Server).write(now, bytes, bytes, self.observer);
                    self.flush(now, flow, Host::Server);
                }
            }
            Kind::Short(short) => {
                let flow = FlowId(self.flows.len() as u32);
                if let Some(hosts) = short.flows.poll_start(now, flow) {
                    let request = short.request;
                    self.flows.push(self.hosts.short_flow(flow, index, &short.hosts[hosts], self.observer));
                    self.agenda.grow(2);
                    let client = endpoint(&mut self.flows, flow, Host::Client);
                    client.connect(now, self.observer);
                    self.observer.written(now, flow, Host::Client, request);
                    client.write(now, request, request, self.observer);
                    self.flush(now, flow, Host::Client);
                }
            }
        }
        self.schedule_application(index);
    }

    fn schedule_application(&mut self, index: usize) {
        let component = FIRST_APPLICATION + index as ComponentId;
        self.agenda.schedule(component, self.applications[index].next_wakeup());
    }

    /// A packet reached the host it was sent to.
    fn deliver(&mut self, now: Instant, id: PacketId, host: Host) {
        let packet = self.arena.remove(id);
        self.observer.packet(now, PacketEvent::Delivered, &packet);
        let Body::Tcp(segment) = &packet.body else { return };
        let Some(endpoint) = self.flows[packet.flow.0 as usize].endpoint(host) else { return };
        let cache = (self.caching && host == Host::Server).then_some(&mut self.memory.metrics);
        let before = endpoint.phase();
        endpoint.handle_segment(now, segment, packet.ecn, cache.as_deref(), self.observer);
        if let Some(cache) = cache
            && before != Phase::Closed
            && endpoint.phase() == Phase::Closed
        {
            endpoint.store_metrics(cache);
        }
        self.tell_application(now, packet.flow, host);
        self.flush(now, packet.flow, host);
        self.retire(now, packet.flow);
    }

    /// Tells the application at one end of a connection what is new there, and does what it wants done.
    fn tell_application(&mut self, now: Instant, flow: FlowId, host: Host) {
        let Flow { application, connection, .. } = &mut self.flows[flow.0 as usize];
        let Some(connection) = connection else { return };
        let peer = connection.peer(host);
        let News { received, ended } = peer.news();
        let index = *application;
        let Application { first, kind } = &mut self.applications[index];
        match kind {
            Kind::Bulk(..) if ended && host == Host::Client => peer.endpoint.close(now, self.observer),
            Kind::Page(page) if ended || received.is_some() => {
                let connection = flow.0 - first.0;
                if let Some(bytes) = received {
                    match host {
                        Host::Server => page.handle_requests(connection, bytes),
                        Host::Client => page.handle_responses(now, connection, bytes),
                    }
                }
                if ended {
                    match host {
                        Host::Server => page.handle_browser_closed(connection),
                        Host::Client => page.handle_server_closed(now, connection),
                    }
                }
                self.carry_out(now, index, flow);
                self.schedule_application(index);
            }
            Kind::Short(short) => {
                match host {
                    Host::Server if received == Some(short.request) => {
                        self.observer.written(now, flow, host, short.response);
                        let mss = u64::from(peer.endpoint.mss());
                        peer.endpoint.write(now, short.response, mss, self.observer);
                        peer.endpoint.close(now, self.observer);
                    }
                    Host::Client if received == Some(short.response) => {
                        self.observer.completed(now, flow);
                        short.flows.handle_over(now, flow);
                    }
                    _ => {}
                }
                if ended {
                    // The response has ended, or an end has given up.
                    short.flows.handle_over(now, flow);
                    peer.endpoint.close(now, self.observer);
                }
                self.schedule_application(index);
            }
            _ => {}
        }
    }

    /// Forgets a connection of short life that both ends are done with.
    fn retire(&mut self, now: Instant, flow: FlowId) {
        let Flow { application, connection, .. } = &mut self.flows[flow.0 as usize];
        let short = matches!(self.applications[*application].kind, Kind::Short(_));
        if connection.take_if(|connection| short && connection.is_over()).is_some() {
            self.observer.retired(now, flow);
        }
    }

    /// Does what a page load wants done after news on `flow`, then sends what came of it. All is done before
    /// anything is sent, so that a FIN can ride on the data before it; and the ACK of what brought the news
    /// leaves before the SYNs of further connections, as from a host whose TCP is faster than its browser.
    fn carry_out(&mut self, now: Instant, index: usize, flow: FlowId) {
        let Application { first, kind: Kind::Page(page) } = &mut self.applications[index] else { return };
        let flow_of = |connection: u32| FlowId(first.0 + connection);
        let mut touched = (flow.0, flow.0);
        while let Some(action) = page.poll_action() {
            let connection = match action {
                Action::Report { connection, event } => {
                    self.observer.http(now, flow_of(connection), event);
                    continue;
                }
                Action::Connect { connection } => {
                    let client = endpoint(&mut self.flows, flow_of(connection), Host::Client);
                    client.connect(now, self.observer);
                    connection
                }
                Action::Write { connection, host, bytes } => {
                    let writer = endpoint(&mut self.flows, flow_of(connection), host);
                    self.observer.written(now, flow_of(connection), host, bytes);
                    writer.write(now, bytes, bytes, self.observer);
                    connection
                }
                Action::Close { connection, host } => {
                    endpoint(&mut self.flows, flow_of(connection), host).close(now, self.observer);
                    connection
                }
            };
            let FlowId(flow) = flow_of(connection);
            touched = (touched.0.min(flow), touched.1.max(flow));
        }
        for flow in (touched.0..=touched.1).map(FlowId) {
            self.flush(now, flow, Host::Server);
            self.flush(now, flow, Host::Client);
        }
    }

    /// Puts everything an endpoint has to send on its LAN, and notes its next timer.
    fn flush(&mut self, now: Instant, flow: FlowId, host: Host) {
        loop {
            let endpoint = endpoint(&mut self.flows, flow, host);
            let Some((segment, ecn)) = endpoint.poll_transmit(now) else {
                let side = u32::from(host == Host::Client);
                let component =
                    FIRST_APPLICATION + self.applications.len() as ComponentId + 2 * flow.0 + side;
                self.agenda.schedule(component, endpoint.next_wakeup());
                return;
            };
            self.send(now, flow, host, segment.ip_bytes(), ecn, Body::Tcp(segment));
        }
    }

    fn send(&mut self, now: Instant, flow: FlowId, host: Host, ip_bytes: u32, ecn: Ecn, body: Body) {
        let direction = Direction::from(host);
        let Flow { dscp, server_port, .. } = self.flows[flow.0 as usize];
        let serial = self.next_serial;
        let packet = Packet { serial, flow, direction, ip_bytes, ecn, dscp, server_port, body };
        self.next_serial += 1;
        self.observer.packet(now, PacketEvent::Sent, &packet);
        let id = self.arena.insert(packet);
        let entered = self.network.send(now, host, id, &self.arena);
        self.schedule_network(entered);
    }
}

/// One end of a TCP flow that its application still uses.
fn endpoint(flows: &mut [Flow], flow: FlowId, host: Host) -> &mut Endpoint {
    flows[flow.0 as usize].endpoint(host).expect("a TCP flow")
}
