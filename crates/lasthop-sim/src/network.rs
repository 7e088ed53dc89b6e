//! The network between the hosts. A packet crosses ports, one after the other: first the wire of its host, then
//! directions of hops. Sans-IO: the model engine and the emulator between real hosts drive the same object.

mod port;
mod routes;
mod schedule;
mod wire;

use std::collections::VecDeque;

use lasthop_core::{
    AirEvent, Direction, Host, Instant, Observer, Packet, PacketArena, PacketEvent, PacketId, Place,
    QueueDepth, Seed,
};
use lasthop_scenario::Scenario;

use port::Port;
use routes::{Behind, Routes};
use schedule::Schedule;
pub use schedule::Wakeup;

/// The network between the hosts. The owner
/// 1. calls [`Network::wake`] when [`Network::next`] has come;
/// 2. then fetches the packets that have reached a host with [`Network::poll_delivery`] until there are none;
/// 3. hands over the packets that hosts send at the same instant with [`Network::send`].
///
/// All packets, including those that have arrived, are in the owner's arena.
#[derive(Debug)]
pub struct Network {
    /// The directions of hops come first, in the order of the scenario's `Tree`, so that each has the number of
    /// its place; then the wires.
    ports: Vec<Port>,
    /// Number of directions of hops.
    places: usize,
    /// True if wires are separate places. If one server serves all flows, LANs and access links belong to the
    /// hosts.
    has_wire_places: bool,
    schedule: Schedule,
    routes: Routes,
    /// True if packets that a link duplicates may cross further hops.
    copies_go_on: bool,
    /// The port that was woken last, and whether the routes that cross it end behind it.
    woken: usize,
    ends_routes: bool,
    /// Packets that have reached their host, if others go on from the port that was woken.
    arrived: VecDeque<PacketId>,
    /// Packets that have reached the owner's router.
    entries: VecDeque<Entry>,
}

/// A packet that has reached the owner's router.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub due: Instant,
    pub direction: Direction,
    pub id: PacketId,
}

impl Network {
    /// The network of `scenario`.
    pub fn new(scenario: &Scenario, seed: Seed) -> Self {
        Self::between(port::all(scenario, seed), scenario)
    }

    /// The network of a scenario with one hop, without its routers and links, for an owner that provides a router:
    /// see [`Network::poll_entry`].
    pub fn around_router(scenario: &Scenario) -> Self {
        Self::between(vec![Port::Owner, Port::Owner], scenario)
    }

    fn between(mut ports: Vec<Port>, scenario: &Scenario) -> Self {
        let places = ports.len();
        let routes = Routes::new(scenario, &mut ports);
        Self {
            schedule: Schedule::new(ports.len()),
            ports,
            places,
            has_wire_places: scenario.names_hops(),
            routes,
            copies_go_on: port::copies_go_on(scenario),
            woken: 0,
            ends_routes: true,
            arrived: VecDeque::new(),
            entries: VecDeque::new(),
        }
    }

    /// Announces the next flow: its application, and which of the application's routes it takes. Flows are
    /// announced in the order of their numbers.
    pub fn announce(&mut self, application: u32, route: usize) {
        let (flow, [down, up]) = self.routes.announce(application, route);
        // Different hosts have different wires.
        let hosts = [down[0], up[0]];
        for port in down.iter().chain(up) {
            if let Port::Path(path) = &mut self.ports[*port as usize] {
                path.announce(flow, hosts);
            }
        }
    }

    /// Sends a packet, which is in the arena, from `host`.
    #[inline]
    pub fn send(&mut self, now: Instant, host: Host, id: PacketId, arena: &mut PacketArena) {
        let packet = arena.get_mut(id);
        let port = self.routes.first(packet, Direction::from(host)) as usize;
        if self.has_wire_places {
            packet.place = Place(port as u16);
        }
        let next = match &mut self.ports[port] {
            Port::Wire(wire) => {
                wire.send(now, id, packet.ip_bytes);
                wire.next_wakeup()
            }
            Port::Switch(switch) => {
                switch.enter(now, id, arena);
                switch.next_wakeup()
            }
            _ => unreachable!("a route begins at a wire or a switch"),
        };
        self.schedule.set(port, next);
    }

    /// The next wakeup; its time is `Instant::MAX` while there are no packets.
    #[inline]
    pub fn next(&self) -> Wakeup {
        self.schedule.first()
    }

    /// Wakes the port of the wakeup that has come, and passes on the packets that leave it.
    #[inline]
    pub fn wake<O: Observer>(&mut self, wakeup: Wakeup, arena: &mut PacketArena, observer: &mut O) {
        if self.copies_go_on {
            self.wake_port(wakeup, arena, &mut Originals(observer));
        } else {
            self.wake_port(wakeup, arena, observer);
        }
    }

    fn wake_port<O: Observer>(&mut self, wakeup: Wakeup, arena: &mut PacketArena, observer: &mut O) {
        let Wakeup { at: now, port: from } = wakeup;
        let behind = self.routes.behind(from);
        self.woken = from;
        self.ends_routes = behind == Behind::Host;
        self.ports[from].handle_wakeup(now, arena, observer);
        if self.ends_routes {
            return;
        }
        while let Some(id) = self.ports[from].poll_delivery(now, arena) {
            let packet = arena.get(id);
            let next = match behind {
                Behind::Port(next) => Some(next),
                // A medium has a port for each direction.
                _ if from < self.places => self.routes.next(packet, u32::from(packet.place.0)),
                _ => self.routes.next(packet, from as u32),
            };
            let Some(next) = next else {
                self.arrived.push_back(id);
                continue;
            };
            if self.has_wire_places && from < self.places {
                observer.packet(now, PacketEvent::Forwarded, packet);
            }
            self.enter(now, id, next as usize, arena, observer);
        }
    }

    /// The next packet that has reached its host when a port was woken at `now`.
    #[inline]
    pub fn poll_delivery(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        let port = &mut self.ports[self.woken];
        let id = if self.ends_routes { port.poll_delivery(now, arena) } else { self.arrived.pop_front() };
        if id.is_none() {
            self.schedule.set(self.woken, port.next_wakeup());
        }
        id
    }

    fn enter<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        port: usize,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        // Without places of wires, the place is that of the packet's direction from the start.
        if self.has_wire_places {
            arena.get_mut(id).place = Place(port as u16);
        }
        let next = match &mut self.ports[port] {
            Port::Path(path) => {
                path.handle_packet(now, id, arena, observer);
                path.next_wakeup().unwrap_or(Instant::MAX)
            }
            Port::Wire(wire) => {
                wire.send(now, id, arena.get(id).ip_bytes);
                wire.next_wakeup()
            }
            Port::Owner => {
                let direction = arena.get(id).direction;
                return self.entries.push_back(Entry { due: now, direction, id });
            }
            Port::Switch(_) => unreachable!("a route begins at a switch"),
            Port::Medium(_) | Port::Beside(_) => return self.enter_medium(now, id, port, arena, observer),
        };
        self.schedule.set(port, next);
    }

    /// A packet enters a medium by one of its two ports.
    #[inline(never)]
    fn enter_medium<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        port: usize,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let at = if let Port::Beside(medium) = self.ports[port] { medium } else { port };
        let Port::Medium(medium) = &mut self.ports[at] else { return };
        let direction = if port == at { Direction::Down } else { Direction::Up };
        let packet = arena.get(id);
        let sender = packet.direction.sender();
        let end = if direction == Direction::Down { sender.other() } else { sender };
        let host = self.routes.host(packet, end);
        medium.enter(now, id, (host, direction), arena, observer);
        self.schedule.set(at, self.ports[at].next_wakeup());
    }

    /// The next packet that has reached the owner's router.
    pub fn poll_entry(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// The earliest time at which a packet can reach its host or the owner's router. An owner that needs only
    /// arrivals may postpone all other wakeups until then, and handle them late, in order of time.
    pub fn earliest_delivery(&self) -> Option<Instant> {
        let [down, up, servers, clients] = &self.ports[..] else { return self.any_wakeup() };
        let reached = [(down, servers), (up, clients)].map(|(port, wire)| {
            let arrival = Some(wire.next_wakeup()).filter(|arrival| *arrival < Instant::MAX);
            match port {
                Port::Path(path) => Ok(path.earliest_delivery(arrival)),
                Port::Owner => Ok(arrival),
                _ => Err(()),
            }
        });
        match reached {
            [Ok(down), Ok(up)] => down.into_iter().chain(up).min(),
            _ => self.any_wakeup(),
        }
    }

    fn any_wakeup(&self) -> Option<Instant> {
        Some(self.next().at).filter(|due| *due < Instant::MAX)
    }

    /// The router queue of a place, if the network has it.
    pub fn queue_depth(&self, place: Place) -> Option<QueueDepth> {
        match self.ports.get(usize::from(place.0))? {
            Port::Path(path) => Some(path.queue_depth()),
            Port::Medium(medium) => Some(medium.queue_depth(Direction::Down)),
            Port::Beside(medium) => match &self.ports[*medium] {
                Port::Medium(medium) => Some(medium.queue_depth(Direction::Up)),
                _ => None,
            },
            Port::Wire(_) | Port::Switch(_) | Port::Owner => None,
        }
    }
}

/// Forwards the events of packets, except of copies that links make: a copy has no event before it arrives at its
/// host.
struct Originals<'a>(&'a mut dyn Observer);

impl Observer for Originals<'_> {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if !packet.is_copy {
            self.0.packet(now, event, packet);
        }
    }

    fn air(&mut self, now: Instant, place: Place, event: AirEvent) {
        self.0.air(now, place, event);
    }
}
