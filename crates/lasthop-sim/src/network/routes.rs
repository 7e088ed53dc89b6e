//! Routes: the ports that the packets of each flow cross, one after the other.

use std::borrow::Cow;
use std::ops::Range;

use lasthop_core::{Body, Direction, FlowId, Host, Packet, Part};
use lasthop_scenario::{Flow, LanConfig, Scenario, Tree};

use super::port::Port;
use super::wire::Wire;

/// Stands for the port behind the last one.
pub(super) const END: u32 = u32::MAX;

/// The routes of a run.
#[derive(Debug)]
pub(super) struct Routes {
    /// The ports of all routes, each route with [`END`] behind it.
    steps: Vec<u32>,
    /// The first step of each route, down and up.
    routes: Vec<[u32; 2]>,
    /// The routes of each application; there is another after a move of the host, and for each further subflow
    /// of MPTCP.
    applications: Vec<Range<usize>>,
    /// For each application, the hosts at the ends of its routes, server and client; for media.
    ends: Vec<[Option<usize>; 2]>,
    /// The application of each flow, and its route.
    flows: Vec<(u32, usize)>,
}

impl Routes {
    /// The routes of a scenario. Wires are added to the ports of its hops.
    pub fn new(scenario: &Scenario, ports: &mut Vec<Port>) -> Self {
        let of_applications = match scenario.lan.as_ref().filter(|_| scenario.atm.is_none()) {
            Some(lan) => Wires { scenario, lan, tree: &scenario.tree(), hosts: Vec::new() }.lay(ports),
            // Through an ATM switch and back.
            None => scenario.applications().iter().map(|_| vec![[vec![0], vec![1]]]).collect(),
        };
        let ends = ends(scenario);
        let mut this =
            Self { steps: Vec::new(), routes: Vec::new(), applications: Vec::new(), ends, flows: Vec::new() };
        for routes in of_applications {
            let first = this.routes.len();
            for route in routes {
                let firsts = route.map(|ports| {
                    let first = this.steps.len() as u32;
                    this.steps.extend(ports.into_iter().chain([END]));
                    first
                });
                this.routes.push(firsts);
            }
            this.applications.push(first..this.routes.len());
        }
        this
    }

    /// The next flow belongs to this application, and takes this one of its routes. Returns its number and the
    /// ports that it crosses, down and up.
    pub fn announce(&mut self, application: u32, route: usize) -> (FlowId, [Vec<u32>; 2]) {
        let flow = FlowId(self.flows.len() as u32);
        let route = self.applications[application as usize].start + route;
        self.flows.push((application, route));
        let ports = self.routes[route].map(|first| {
            let steps = self.steps[first as usize..].iter().copied();
            steps.take_while(|port| *port != END).collect()
        });
        (flow, ports)
    }

    /// The first step of a packet.
    #[inline]
    pub fn first(&self, packet: &Packet, direction: Direction) -> u32 {
        let (application, mut route) = self.lane(packet);
        // Moves along the same route are changes of its links.
        if let Body::Quic(datagram) = &packet.body {
            let routes = &self.applications[application as usize];
            route = (routes.start + usize::from(datagram.address)).min(routes.end - 1);
        }
        self.routes[route][direction as usize]
    }

    /// The port of a step; [`END`] behind the last one.
    #[inline]
    pub fn port(&self, step: u32) -> u32 {
        self.steps[step as usize]
    }

    /// The step that a packet takes behind a port of its route.
    pub fn behind(&self, packet: &Packet, port: u32) -> u32 {
        let first = self.first(packet, packet.direction);
        let steps = &self.steps[first as usize..];
        let at = steps.iter().position(|step| *step == port || *step == END);
        first + 1 + at.unwrap_or_default() as u32
    }

    /// The number of the host at an end of a packet's route, which is one of the scenario's.
    pub fn host(&self, packet: &Packet, end: Host) -> usize {
        let (application, _) = self.lane(packet);
        self.ends[application as usize][end as usize].expect("the end beyond a medium is one of its stations")
    }

    /// The application of a packet, and the route of its flow.
    #[inline]
    fn lane(&self, packet: &Packet) -> (u32, usize) {
        let flow = packet.flow.0;
        self.flows.get(flow as usize).copied().unwrap_or_else(|| {
            // Packets of no flow have the number of an application (`FlowId::stranger`).
            let application = u32::MAX - flow;
            (application, self.applications[application as usize].start)
        })
    }
}

/// The numbers of the hosts at the ends of each application's routes, server and client.
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
        let flows: Vec<(&Flow, Part)> =
            scenario.lanes().iter().map(|lane| (&scenario.flow[lane.instance.entry], lane.part)).collect();
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

    /// The wire on which an end of a flow sends: that of its host, or of a server of the flow's own.
    fn wire_of(&mut self, flow: &'a Flow, part: Part, end: Host, ports: &mut Vec<Port>) -> u32 {
        let name = self.scenario.host_at(flow, part, end);
        let is_server = end == Host::Server && part != Part::HostSide;
        let access = flow.access.as_ref().filter(|_| is_server);
        let is_own =
            is_server && flow.peer.is_none() && (access.is_some() || !self.scenario.has_one_server());
        let known = self.hosts.iter().find(|(host, _)| !is_own && *host == name);
        if let Some((_, wire)) = known {
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
