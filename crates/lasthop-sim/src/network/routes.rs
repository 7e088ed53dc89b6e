//! Routes: the sequences of ports that the packets of each flow cross.

use std::borrow::Cow;
use std::ops::Range;

use lasthop_core::{Body, Direction, FlowId, Host, Packet, Part};
use lasthop_scenario::{Flow, LanConfig, Scenario, Tree};

use super::port::Port;
use super::wire::Wire;

/// The next element after a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// The hosts: all routes that cross the port end there.
    Host,
    /// This port.
    Port(u32),
    /// Depends on the route.
    Various,
}

/// The routes of a run.
#[derive(Debug)]
pub(super) struct Routes {
    /// The ports of each route, down and up.
    all: Vec<[Vec<u32>; 2]>,
    /// The next element after each port.
    behind: Vec<Behind>,
    /// The routes of each application: one, plus one after a migration, and one for each further MPTCP subflow.
    applications: Vec<Range<usize>>,
    /// For each application, the hosts at the ends of its routes, server and client; for media.
    ends: Vec<[Option<usize>; 2]>,
    flows: Vec<OfFlow>,
}

/// The routes of a flow.
#[derive(Clone, Copy, Debug)]
struct OfFlow {
    application: u32,
    route: u32,
    /// The first ports of its route, down and up.
    first: [u32; 2],
}

impl Routes {
    /// The routes of a scenario. Wires are added to the ports of its hops.
    pub fn new(scenario: &Scenario, ports: &mut Vec<Port>) -> Self {
        let of_applications = match scenario.lan.as_ref().filter(|_| scenario.atm.is_none()) {
            Some(lan) => Wires { scenario, lan, tree: &scenario.tree(), hosts: Vec::new() }.lay(ports),
            // Through an ATM switch and back.
            None => scenario.applications().iter().map(|_| vec![[vec![0], vec![1]]]).collect(),
        };
        let (mut routes, mut applications) = (Vec::new(), Vec::new());
        for of_application in of_applications {
            applications.push(routes.len()..routes.len() + of_application.len());
            routes.extend(of_application);
        }
        let behind = behind(&routes, ports);
        Self { all: routes, behind, applications, ends: ends(scenario), flows: Vec::new() }
    }

    /// Announces the next flow: its application, and which of the application's routes it takes. Returns its number
    /// and the ports that it crosses, down and up.
    pub fn announce(&mut self, application: u32, route: usize) -> (FlowId, &[Vec<u32>; 2]) {
        let flow = FlowId(self.flows.len() as u32);
        let route = self.applications[application as usize].start + route;
        let ports = &self.all[route];
        let first = [ports[0][0], ports[1][0]];
        self.flows.push(OfFlow { application, route: route as u32, first });
        (flow, ports)
    }

    /// The port at which a packet begins its route.
    #[inline]
    pub fn first(&self, packet: &Packet, direction: Direction) -> u32 {
        match self.flows.get(packet.flow.0 as usize) {
            Some(flow) if moves(packet) == 0 => flow.first[direction as usize],
            _ => self.of(packet, direction)[0],
        }
    }

    /// The next element after a port.
    #[inline]
    pub fn behind(&self, port: usize) -> Behind {
        self.behind[port]
    }

    /// The next port of a packet's route; `None` if the host follows.
    pub fn next(&self, packet: &Packet, port: u32) -> Option<u32> {
        let mut ports = self.of(packet, packet.direction).iter();
        ports.find(|at| **at == port);
        ports.next().copied()
    }

    /// The route of a packet.
    #[inline(never)]
    fn of(&self, packet: &Packet, direction: Direction) -> &[u32] {
        let OfFlow { application, route, .. } = self.flow(packet);
        let routes = &self.applications[application as usize];
        // Moves along the same route are changes of its links.
        let moved = (routes.start + moves(packet)).min(routes.end - 1);
        &self.all[moved.max(route as usize)][direction as usize]
    }

    /// The number of the host at an end of a packet's route, which is one of the scenario's.
    pub fn host(&self, packet: &Packet, end: Host) -> usize {
        let application = self.flow(packet).application;
        self.ends[application as usize][end as usize].expect("the end beyond a medium is one of its stations")
    }

    fn flow(&self, packet: &Packet) -> OfFlow {
        self.flows.get(packet.flow.0 as usize).copied().unwrap_or_else(|| {
            let application = packet.flow.application_of_stranger();
            let route = self.applications[application as usize].start as u32;
            OfFlow { application, route, first: [0; 2] }
        })
    }
}

/// The number of migrations before a packet was sent.
#[inline]
fn moves(packet: &Packet) -> usize {
    if let Body::Quic(datagram) = &packet.body { usize::from(datagram.address) } else { 0 }
}

/// The next element after each port. Both directions leave a medium by the same port, so it is `Various` there.
fn behind(routes: &[[Vec<u32>; 2]], ports: &[Port]) -> Vec<Behind> {
    let mut all: Vec<Option<Behind>> =
        ports.iter().map(|port| matches!(port, Port::Medium(_)).then_some(Behind::Various)).collect();
    for route in routes.iter().flatten() {
        let after = route[1..].iter().map(|next| Behind::Port(*next)).chain([Behind::Host]);
        for (port, behind) in route.iter().zip(after) {
            let next = all[*port as usize].get_or_insert(behind);
            if *next != behind {
                *next = Behind::Various;
            }
        }
    }
    all.into_iter().map(|behind| behind.unwrap_or(Behind::Host)).collect()
}

/// The numbers of the hosts at the ends of each application's routes, server and client.
fn ends(scenario: &Scenario) -> Vec<[Option<usize>; 2]> {
    let of_pair = |pair: &lasthop_scenario::HostPair<'_>| {
        let flow = &scenario.flow[pair.instance.entry];
        [Host::Server, Host::Client].map(|end| {
            let name = scenario.host_at(flow, pair.part, end);
            scenario.host.keys().position(|host| *host == name)
        })
    };
    scenario.host_pairs().iter().map(of_pair).collect()
}

/// Lays the routes of all applications, with the wires at their ends: first those of access links towards
/// servers, then those of hosts and servers towards their routers.
struct Wires<'a> {
    scenario: &'a Scenario,
    lan: &'a LanConfig,
    tree: &'a Tree,
    /// The wire of each host towards its router.
    hosts: Vec<(Cow<'a, str>, u32)>,
}

impl<'a> Wires<'a> {
    fn lay(mut self, ports: &mut Vec<Port>) -> Vec<Vec<[Vec<u32>; 2]>> {
        let scenario = self.scenario;
        let flows: Vec<(&Flow, Part)> = scenario
            .host_pairs()
            .iter()
            .map(|pair| (&scenario.flow[pair.instance.entry], pair.part))
            .collect();
        let to_server = |(flow, part): &(&Flow, Part)| {
            let access = flow.access.as_ref().filter(|_| *part != Part::HostSide)?;
            Some(add(ports, Wire::new(Some(access.rate), access.delay)))
        };
        let to_servers: Vec<Option<u32>> = flows.iter().map(to_server).collect();
        let mut all = Vec::new();
        for ((flow, part), to_server) in flows.into_iter().zip(to_servers) {
            let wires =
                [Direction::Down, Direction::Up].map(|way| self.wire_of(flow, part, way.sender(), ports));
            let [down, up] =
                [Direction::Down, Direction::Up].map(|way| scenario.routes(self.tree, flow, part, way));
            let whole = |(down, up): (Vec<_>, Vec<_>)| {
                let begin = |wire, places: Vec<lasthop_core::Place>| {
                    std::iter::once(wire).chain(places.into_iter().map(|place| u32::from(place.0)))
                };
                [begin(wires[0], down).collect(), begin(wires[1], up).chain(to_server).collect()]
            };
            all.push(down.into_iter().zip(up).map(whole).collect());
        }
        all
    }

    /// The wire on which an end of a flow sends: that of its host, or of the flow's separate server.
    fn wire_of(&mut self, flow: &'a Flow, part: Part, end: Host, ports: &mut Vec<Port>) -> u32 {
        let name = self.scenario.host_at(flow, part, end);
        let is_server = end == Host::Server && part != Part::HostSide;
        let access = flow.access.as_ref().filter(|_| is_server);
        let is_own = is_server && flow.peer.is_none() && (access.is_some() || self.scenario.names_hops());
        let existing = self.hosts.iter().find(|(host, _)| !is_own && *host == name);
        if let Some((_, wire)) = existing {
            return *wire;
        }
        let (rate, delay) =
            access.map_or((self.lan.rate, self.lan.delay), |access| (access.rate, access.delay));
        let wire = add(ports, Wire::new(Some(rate), delay));
        if !is_own {
            self.hosts.push((name, wire));
        }
        wire
    }
}

fn add(ports: &mut Vec<Port>, wire: Wire) -> u32 {
    ports.push(Port::Wire(wire));
    (ports.len() - 1) as u32
}
