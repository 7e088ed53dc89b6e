//! A network of several hops: each packet crosses the places on its way, one after the other.

use std::borrow::Cow;
use std::collections::VecDeque;

use lasthop_core::{
    Body, Direction, FlowId, Host, Instant, Observer, Packet, PacketArena, PacketEvent, PacketId, Part,
    Place, QueueDepth, Seed,
};
use lasthop_link::Path;
use lasthop_scenario::{DropList, Flow, LanConfig, Scenario, Tree};

use crate::winners::Winners;
use crate::wire::Wire;

/// The parts of a network of several hops. The places of the hops come first, in the order of the scenario's
/// [`Tree`]; then the wires: of access links towards servers, then of hosts and servers towards their
/// routers.
#[derive(Debug)]
pub(crate) struct Hops {
    ports: Vec<Port>,
    /// When each port must be woken.
    due: Winners,
    /// For each application, the ways of its packets, down and up; there is another pair after a move of the
    /// host, and for each further subflow of MPTCP.
    ways: Vec<Vec<[Vec<Place>; 2]>>,
    /// The application of each flow, and its way among those of the application.
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
}

impl Hops {
    pub fn new(scenario: &Scenario, lan: &LanConfig, seed: Seed) -> Self {
        let (tree, hops) = (scenario.tree(), scenario.hops());
        let lists = scenario.drop_lists();
        let path = |place| {
            let (hop, direction) = tree.at(place);
            let seed = scenario.seed_of(hops[hop].name, seed);
            let path = Path::new(hops[hop].side(direction), scenario.mtu, hops[hop].errors, direction, seed);
            losing(path, place, &lists)
        };
        let mut ports: Vec<Port> = tree.places().map(|place| Port::Path(path(place))).collect();
        let ways = Ways { scenario, lan, tree: &tree, hosts: Vec::new() }.all(&mut ports);
        let due = Winners::new(ports.len());
        Self { ports, due, ways, flows: Vec::new(), arrived: VecDeque::new() }
    }

    /// The next flow belongs to this application, and takes this one of its ways.
    pub fn announce(&mut self, application: u32, way: usize) {
        let flow = FlowId(self.flows.len() as u32);
        self.flows.push((application, way));
        let [down, up] = &self.ways[application as usize][way];
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
        wire.send(now, id, packet.ip_bytes);
        self.schedule(first);
    }

    /// When [`Hops::wake`] must be called; `Instant::MAX` while there are no packets.
    pub fn next_wakeup(&self) -> Instant {
        self.due.first().0
    }

    /// Wakes the first of the ports whose time has come.
    pub fn wake<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        let (due, port) = self.due.first();
        if due > now {
            return;
        }
        let place = Place(port as u16);
        if let Port::Path(path) = &mut self.ports[port] {
            path.handle_wakeup(now, arena, &mut Originals(observer));
        }
        while let Some(id) = self.ports[port].poll(now, arena) {
            self.pass_on(now, id, place, arena, observer);
        }
        self.schedule(place);
    }

    /// The next packet that has reached its host.
    pub fn poll_delivery(&mut self) -> Option<PacketId> {
        self.arrived.pop_front()
    }

    /// The queue of a place.
    pub fn queue_depth(&self, place: Place) -> Option<QueueDepth> {
        match self.ports.get(usize::from(place.0))? {
            Port::Path(path) => Some(path.queue_depth()),
            Port::Wire(_) => None,
        }
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
        let leaves_hop = matches!(self.ports[usize::from(from.0)], Port::Path(_));
        if leaves_hop {
            Originals(observer).packet(now, PacketEvent::Forwarded, packet);
        }
        packet.place = next;
        match &mut self.ports[usize::from(next.0)] {
            Port::Wire(wire) => wire.send(now, id, packet.ip_bytes),
            Port::Path(path) => path.handle_packet(now, id, arena, &mut Originals(observer)),
        }
        self.schedule(next);
    }

    fn way(&self, packet: &Packet) -> &[Place] {
        let flow = packet.flow.0;
        // Packets of no flow have the number of an application (`FlowId::stranger`).
        let (application, way) = self.flows.get(flow as usize).copied().unwrap_or((u32::MAX - flow, 0));
        let ways = &self.ways[application as usize];
        let way = match &packet.body {
            // Moves along the same way are changes of its links.
            Body::Quic(datagram) => usize::from(datagram.address).min(ways.len() - 1),
            Body::Tcp(_) | Body::Udp(_) => way,
        };
        &ways[way][packet.direction as usize]
    }

    fn schedule(&mut self, place: Place) {
        let port = usize::from(place.0);
        let wakeup = match &self.ports[port] {
            Port::Path(path) => path.next_wakeup().unwrap_or(Instant::MAX),
            Port::Wire(wire) => wire.next_wakeup(),
        };
        self.due.set(port, wakeup);
    }
}

impl Port {
    #[inline]
    fn poll(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        match self {
            Self::Path(path) => path.poll_delivery(now, arena),
            Self::Wire(wire) => wire.poll_arrival(now),
        }
    }
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
