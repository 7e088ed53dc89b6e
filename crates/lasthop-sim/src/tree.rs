//! A network of several hops: each packet crosses the places on its way, one after the other.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use lasthop_core::{
    AirEvent, Body, Direction, FlowId, Host, Instant, Observer, Packet, PacketArena, PacketEvent, PacketId,
    Part, Place, QueueDepth, Seed,
};
use lasthop_link::{Medium, Path};
use lasthop_scenario::{DropList, Flow, HopKind, LanConfig, Scenario, Tree};

use crate::winners::Winners;
use crate::wire::Wire;

/// The parts of a network of several hops. The places of the hops come first, in the order of the scenario's
/// [`Tree`]; then the wires: of access links towards servers, then of hosts and servers towards their
/// routers.
#[derive(Debug)]
pub(crate) struct Hops {
    ports: Vec<Port>,
    /// When each place of a hop must be woken.
    places: Winners,
    /// When each wire with packets must be woken. There are many wires, and few have packets.
    wires: BinaryHeap<Reverse<(Instant, Place)>>,
    /// The ways of packets, down and up, by application.
    ways: Vec<[Vec<Place>; 2]>,
    /// The ways of each application; there is another after a move of the host, and for each further subflow
    /// of MPTCP.
    applications: Vec<Range<usize>>,
    /// For each application, the hosts at the ends of its packets' ways, server and client; for media.
    ends: Vec<[Option<usize>; 2]>,
    /// The application of each flow, and its way.
    flows: Vec<(u32, usize)>,
    /// Packets that have reached their host.
    arrived: VecDeque<PacketId>,
}

/// The path at `place`, which loses the packets that are to be lost there.
pub(crate) fn losing(path: Path, place: Place, lists: &[DropList<'_>]) -> Path {
    let here = lists.iter().filter(|list| list.place == place);
    here.fold(path, |path, list| path.losing(list.flow, list.numbers))
}

/// A part of the network that packets cross.
#[allow(clippy::large_enum_variant, reason = "most are paths; a box would cost a step per packet")]
#[derive(Debug)]
enum Port {
    /// A direction of a hop.
    Path(Path),
    /// A LAN or an access link.
    Wire(Wire),
    /// Both directions of a hop with a medium, at the place of the way down.
    Medium(Box<Shared>),
    /// The way up over the medium at this place.
    Beside(Place),
}

/// A medium, and which of its stations each host is.
#[derive(Debug)]
struct Shared {
    medium: Medium,
    places: [Place; 2],
    stations: Vec<Option<usize>>,
}

impl Hops {
    pub fn new(scenario: &Scenario, lan: &LanConfig, seed: Seed) -> Self {
        let (tree, hops) = (scenario.tree(), scenario.hops());
        let lists = scenario.drop_lists();
        let port = |place| {
            let (number, direction) = tree.at(place);
            let hop = &hops[number];
            let seed = scenario.seed_of(hop.name, seed);
            let path = |config, errors: Option<&_>| {
                let path = Path::new(config, scenario.mtu, errors, direction, seed);
                Port::Path(losing(path, place, &lists))
            };
            match (&hop.kind, direction) {
                (HopKind::Links { down, errors, .. }, Direction::Down) => path(down, *errors),
                (HopKind::Links { up, errors, .. }, Direction::Up) => path(up, *errors),
                (HopKind::Medium(_), Direction::Up) => Port::Beside(tree.place(number, Direction::Down)),
                (HopKind::Medium(setup), Direction::Down) => {
                    let places = [Direction::Down, Direction::Up].map(|way| tree.place(number, way));
                    let medium = Medium::new(setup, scenario.mtu, places, seed);
                    Port::Medium(Box::new(Shared { medium, places, stations: stations(scenario, hop.name) }))
                }
            }
        };
        let mut ports: Vec<Port> = tree.places().map(port).collect();
        let places = ports.len();
        let of_applications = Ways { scenario, lan, tree: &tree, hosts: Vec::new() }.all(&mut ports);
        let mut ways = Vec::new();
        let lay = |more: Vec<[Vec<Place>; 2]>| {
            let first = ways.len();
            ways.extend(more);
            first..ways.len()
        };
        let applications = of_applications.into_iter().map(lay).collect();
        Self {
            places: Winners::new(places),
            wires: BinaryHeap::new(),
            ports,
            ways,
            applications,
            ends: ends(scenario),
            flows: Vec::new(),
            arrived: VecDeque::new(),
        }
    }

    /// The next flow belongs to this application, and takes this one of its ways.
    pub fn announce(&mut self, application: u32, way: usize) {
        let flow = FlowId(self.flows.len() as u32);
        let way = self.applications[application as usize].start + way;
        self.flows.push((application, way));
        let [down, up] = &self.ways[way];
        // The wires towards the routers are different for different hosts.
        let hosts = [down[0], up[0]].map(|wire| u32::from(wire.0));
        for place in down.iter().chain(up) {
            if let Port::Path(path) = &mut self.ports[usize::from(place.0)] {
                path.announce(flow, hosts);
            }
        }
    }

    /// Takes a packet from a host.
    pub fn send(&mut self, now: Instant, id: PacketId, arena: &mut PacketArena) {
        let packet = arena.get_mut(id);
        let first = self.way(packet)[0];
        packet.place = first;
        let Port::Wire(wire) = &mut self.ports[usize::from(first.0)] else {
            unreachable!("a way begins with a wire")
        };
        if let Some(wakeup) = entered(wire, first, now, id, packet.ip_bytes) {
            self.wires.push(wakeup);
        }
    }

    /// When [`Hops::wake`] must be called; `Instant::MAX` while there are no packets.
    #[inline]
    pub fn next_wakeup(&self) -> Instant {
        self.places.earliest().min(self.next_arrival())
    }

    /// When the next packet leaves a wire.
    #[inline]
    fn next_arrival(&self) -> Instant {
        self.wires.peek().map_or(Instant::MAX, |Reverse((arrival, _))| *arrival)
    }

    /// Wakes the first of the ports whose time has come.
    pub fn wake<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        let due = self.places.earliest();
        // At the same instant places come first.
        if self.next_arrival() < due {
            return self.wake_wire(now, arena, observer);
        }
        if due > now {
            return;
        }
        let first = self.places.first();
        let place = Place(first as u16);
        let Port::Path(path) = &mut self.ports[first] else {
            return self.wake_medium(now, place, arena, observer);
        };
        path.handle_wakeup(now, arena, &mut Originals(observer));
        while let Port::Path(path) = &mut self.ports[first]
            && let Some(id) = path.poll_delivery(now, arena)
        {
            self.pass_on(now, id, place, arena, observer);
        }
        self.schedule(place);
    }

    /// Passes on the packets that have arrived on the first wire.
    fn wake_wire<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        if self.next_arrival() > now {
            return;
        }
        let Some(Reverse((_, place))) = self.wires.pop() else { return };
        while let Port::Wire(wire) = &mut self.ports[usize::from(place.0)] {
            let Some(id) = wire.poll_arrival(now) else {
                let next = wire.next_wakeup();
                if next < Instant::MAX {
                    self.wires.push(Reverse((next, place)));
                }
                return;
            };
            self.pass_on(now, id, place, arena, observer);
        }
    }

    /// The next packet that has reached its host.
    #[inline]
    pub fn poll_delivery(&mut self) -> Option<PacketId> {
        self.arrived.pop_front()
    }

    /// The queue of a place.
    pub fn queue_depth(&self, place: Place) -> Option<QueueDepth> {
        match self.ports.get(usize::from(place.0))? {
            Port::Path(path) => Some(path.queue_depth()),
            Port::Medium(shared) => Some(shared.medium.queue_depth(shared.direction(place))),
            Port::Beside(medium) => match &self.ports[usize::from(medium.0)] {
                Port::Medium(shared) => Some(shared.medium.queue_depth(shared.direction(place))),
                _ => None,
            },
            Port::Wire(_) => None,
        }
    }

    /// Wakes a medium. What it releases leaves one of its two places.
    #[inline(never)]
    fn wake_medium<O: Observer>(
        &mut self,
        now: Instant,
        place: Place,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        if let Port::Medium(shared) = &mut self.ports[usize::from(place.0)] {
            shared.medium.handle_wakeup(now, arena, &mut Originals(observer));
        }
        while let Port::Medium(shared) = &mut self.ports[usize::from(place.0)]
            && let Some(id) = shared.medium.poll_delivery()
        {
            self.pass_on(now, id, arena.get(id).place, arena, observer);
        }
        self.schedule(place);
    }

    /// A packet enters a medium at one of its two places.
    #[inline(never)]
    fn enter_medium<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        place: Place,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let packet = arena.get(id);
        let ends = self.ends[self.lane(packet).0 as usize];
        let sender = packet.direction.sender();
        let at = if let Port::Beside(medium) = self.ports[usize::from(place.0)] { medium } else { place };
        let Port::Medium(shared) = &mut self.ports[usize::from(at.0)] else { return };
        let direction = shared.direction(place);
        let end = if direction == Direction::Down { sender.other() } else { sender };
        let host = ends[end as usize].expect("the end beyond a medium is one of its stations");
        let station = shared.stations[host].expect("the end beyond a medium is one of its stations");
        shared.medium.handle_packet(now, id, (station, direction), arena, &mut Originals(observer));
        self.schedule(at);
    }

    /// A packet has left a place for the next one on its way, or for its host.
    fn pass_on<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        from: Place,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let packet = arena.get_mut(id);
        let way = self.way(packet);
        let step = way.iter().position(|place| *place == from);
        let Some(&next) = step.and_then(|step| way.get(step + 1)) else {
            return self.arrived.push_back(id);
        };
        let leaves_hop = !matches!(self.ports[usize::from(from.0)], Port::Wire(_));
        if leaves_hop {
            Originals(observer).packet(now, PacketEvent::Forwarded, packet);
        }
        packet.place = next;
        match &mut self.ports[usize::from(next.0)] {
            Port::Wire(wire) => {
                if let Some(wakeup) = entered(wire, next, now, id, packet.ip_bytes) {
                    self.wires.push(wakeup);
                }
                return;
            }
            Port::Path(path) => path.handle_packet(now, id, arena, &mut Originals(observer)),
            Port::Medium(_) | Port::Beside(_) => return self.enter_medium(now, id, next, arena, observer),
        }
        self.schedule(next);
    }

    /// The application of a packet, and the way of its flow.
    #[inline]
    fn lane(&self, packet: &Packet) -> (u32, usize) {
        let flow = packet.flow.0;
        self.flows.get(flow as usize).copied().unwrap_or_else(|| {
            // Packets of no flow have the number of an application (`FlowId::stranger`).
            let application = u32::MAX - flow;
            (application, self.applications[application as usize].start)
        })
    }

    #[inline]
    fn way(&self, packet: &Packet) -> &[Place] {
        let (application, way) = self.lane(packet);
        let way = match &packet.body {
            // Moves along the same way are changes of its links.
            Body::Quic(datagram) => {
                let ways = &self.applications[application as usize];
                (ways.start + usize::from(datagram.address)).min(ways.end - 1)
            }
            Body::Tcp(_) | Body::Udp(_) => way,
        };
        &self.ways[way][packet.direction as usize]
    }

    fn schedule(&mut self, place: Place) {
        let port = usize::from(place.0);
        let wakeup = match &self.ports[port] {
            Port::Path(path) => path.next_wakeup(),
            Port::Medium(shared) => shared.medium.next_wakeup(),
            Port::Wire(_) | Port::Beside(_) => None,
        };
        self.places.set(port, wakeup.unwrap_or(Instant::MAX));
    }
}

/// A packet enters a wire. Returns when the wire must be woken, if it was empty.
#[inline]
fn entered(
    wire: &mut Wire,
    place: Place,
    now: Instant,
    id: PacketId,
    ip_bytes: u32,
) -> Option<Reverse<(Instant, Place)>> {
    let was_empty = wire.next_wakeup() == Instant::MAX;
    wire.send(now, id, ip_bytes);
    was_empty.then(|| Reverse((wire.next_wakeup(), place)))
}

impl Shared {
    fn direction(&self, place: Place) -> Direction {
        if place == self.places[0] { Direction::Down } else { Direction::Up }
    }
}

/// Which station of a hop with a medium each host of the scenario is.
fn stations(scenario: &Scenario, hop: &str) -> Vec<Option<usize>> {
    let names: Vec<&str> = scenario.stations(hop).collect();
    scenario.host.keys().map(|host| names.iter().position(|name| name == host)).collect()
}

/// The numbers of the hosts at the ends of each lane, server and client.
fn ends(scenario: &Scenario) -> Vec<[Option<usize>; 2]> {
    let of_lane = |lane: &lasthop_scenario::Lane<'_>| {
        let flow = &scenario.flow[lane.instance.entry];
        [Host::Server, Host::Client].map(|end| {
            let name = scenario.host_at(flow, lane.part, end);
            scenario.host.keys().position(|host| *host == name)
        })
    };
    scenario.lanes().iter().map(of_lane).collect()
}

/// Passes on the events of packets, but not those of the copies that links make: like on the link that made
/// it, a copy has no event before it arrives at its host.
struct Originals<'a, O>(&'a mut O);

impl<O: Observer> Observer for Originals<'_, O> {
    // Like the observers within: the caller knows the event.
    #[allow(clippy::inline_always, reason = "else it would be a function with a choice at every turn")]
    #[inline(always)]
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if !packet.is_copy {
            self.0.packet(now, event, packet);
        }
    }

    fn air(&mut self, now: Instant, place: Place, event: AirEvent) {
        self.0.air(now, place, event);
    }
}

/// Lays the ways of all applications.
struct Ways<'a> {
    scenario: &'a Scenario,
    lan: &'a LanConfig,
    tree: &'a Tree,
    /// The wire of each host towards its router.
    hosts: Vec<(Cow<'a, str>, Place)>,
}

impl<'a> Ways<'a> {
    fn all(mut self, ports: &mut Vec<Port>) -> Vec<Vec<[Vec<Place>; 2]>> {
        let scenario = self.scenario;
        let flows: Vec<(&Flow, Part)> =
            scenario.lanes().iter().map(|lane| (&scenario.flow[lane.instance.entry], lane.part)).collect();
        let to_server = |(flow, part): &(&Flow, Part)| {
            let access = flow.access.as_ref().filter(|_| *part != Part::HostSide)?;
            Some(add(ports, Wire::new(Some(access.rate), access.delay)))
        };
        let to_servers: Vec<Option<Place>> = flows.iter().map(to_server).collect();
        let mut ways = Vec::new();
        for ((flow, part), to_server) in flows.into_iter().zip(to_servers) {
            let wires =
                [Direction::Down, Direction::Up].map(|way| self.wire_of(flow, part, way.sender(), ports));
            let [down, up] =
                [Direction::Down, Direction::Up].map(|way| scenario.routes(self.tree, flow, part, way));
            let whole = |(down, up): (Vec<Place>, Vec<Place>)| {
                let begin = |wire, places| [vec![wire], places].concat();
                [begin(wires[0], down), [begin(wires[1], up), to_server.into_iter().collect()].concat()]
            };
            ways.push(down.into_iter().zip(up).map(whole).collect());
        }
        ways
    }

    /// The wire on which an end of a flow sends: that of its host, or of a server of the flow's own.
    fn wire_of(&mut self, flow: &'a Flow, part: Part, end: Host, ports: &mut Vec<Port>) -> Place {
        let name = self.scenario.host_at(flow, part, end);
        let known = self.hosts.iter().find(|(host, _)| *host == name);
        if let Some((_, place)) = known {
            return *place;
        }
        let is_server = end == Host::Server && part != Part::HostSide;
        let access = flow.access.as_ref().filter(|_| is_server);
        let (rate, delay) =
            access.map_or((self.lan.rate, self.lan.delay), |access| (access.rate, access.delay));
        let place = add(ports, Wire::new(Some(rate), delay));
        if !is_server || flow.peer.is_some() {
            self.hosts.push((name, place));
        }
        place
    }
}

fn add(ports: &mut Vec<Port>, wire: Wire) -> Place {
    ports.push(Port::Wire(wire));
    Place((ports.len() - 1) as u16)
}
