//! Where the packets of a network are captured: at each host, and around each hop.

use std::fmt;
use std::net::Ipv4Addr;

use lasthop_core::{Direction, FlowInfo, Host, Packet, Place};
use lasthop_scenario::{HostPair, SERVER, Scenario};

use super::packet::{Addresses, Seen};

const SERVERS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The points of a network, in the order of their files.
///
/// With a single hop without a name there are four: each host, and both sides of the router queue, where the
/// packets of both directions pass. With named hops there is one for all servers of the flows' own and one
/// for each host and relay, and for each direction of each hop its two ends.
#[derive(Clone, Debug)]
pub struct CapturePoints {
    names: Vec<String>,
    /// Number of points at hosts, which come first.
    pub(super) hosts: usize,
    /// By application; with a single hop they are the same for all.
    applications: Vec<Ends>,
    /// By place: where packets arrive at a hop, and where they leave its queue or, with named hops, its link.
    hops: Vec<[usize; 2]>,
    /// True if the hops have names.
    pub(super) has_far_ends: bool,
    /// Name of the only point that is captured; all if there is none.
    only: Option<String>,
}

/// The ends of an application's flows, and the ways between them.
#[derive(Clone, Debug, Default)]
struct Ends {
    names: [String; 2],
    addresses: [[u8; 4]; 2],
    points: [usize; 2],
    routes: [Vec<Place>; 2],
}

impl CapturePoints {
    pub fn single() -> Self {
        let [server, client] = [SERVERS, host_address(0)].map(|address| address.octets());
        let ends = Ends {
            names: [SERVER, "client"].map(str::to_owned),
            addresses: [server, client],
            points: [0, 1],
            routes: [Direction::Down, Direction::Up].map(|way| vec![Place::from(way)]),
        };
        Self {
            names: ["server", "client", "router-in", "router-out"].map(str::to_owned).into(),
            hosts: 2,
            applications: vec![ends],
            hops: vec![[2, 3]; 2],
            has_far_ends: false,
            only: None,
        }
    }

    pub fn of(scenario: &Scenario) -> Self {
        Self::of_programs(scenario, scenario)
    }

    /// The points of a scenario's network, between whose hosts and servers there are the flows of `network`.
    pub fn of_programs(scenario: &Scenario, network: &Scenario) -> Self {
        if !scenario.names_hops() {
            return Self::single();
        }
        let tree = scenario.tree();
        let mut names: Vec<String> = std::iter::once(SERVER)
            .chain(scenario.host.keys().map(String::as_str))
            .map(str::to_owned)
            .collect();
        names.extend(scenario.relays());
        let hops_from = names.len();
        let mut hops = vec![[0; 2]; 2 * tree.len()];
        for (number, hop) in tree.names().enumerate() {
            for direction in [Direction::Down, Direction::Up] {
                let place = usize::from(tree.place(number, direction).0);
                hops[place] = [names.len(), names.len() + 1];
                names.extend(["in", "out"].map(|end| format!("{hop}-{}-{end}", direction.name())));
            }
        }
        let end = |name: &str| names[..hops_from].iter().position(|own| own == name).unwrap_or_default();
        let ends = |pair: &HostPair<'_>| {
            let flow = &network.flow[pair.instance.entry];
            let names =
                [Host::Server, Host::Client].map(|host| network.host_at(flow, pair.part, host).into_owned());
            let points = [0, 1].map(|side| end(&names[side]));
            Ends {
                names,
                addresses: points.map(|point| address(point).octets()),
                points,
                routes: [Direction::Down, Direction::Up]
                    .map(|way| network.route_of(&tree, flow, pair.part, way)),
            }
        };
        let applications = network.host_pairs().iter().map(ends).collect();
        Self { names, hosts: hops_from, applications, hops, has_far_ends: true, only: None }
    }

    /// Captures the point with this name only.
    #[must_use]
    pub fn only(self, name: Option<&str>) -> Self {
        Self { only: name.map(str::to_owned), ..self }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == name)
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub fn file_name(name: &str) -> String {
        format!("{name}.pcapng")
    }

    /// The addresses and ports of a flow's ends, in words.
    pub(crate) fn describe(&self, info: &FlowInfo, ports: Addresses) -> impl fmt::Display {
        let ends = self.ends(info.application);
        let [server, client] = [Host::Server, Host::Client].map(|host| {
            let address = Ipv4Addr::from(ends.addresses[host as usize]);
            let port = if host == Host::Server { ports.server_port } else { ports.client_port };
            format!("{} {address}:{port}", ends.names[host as usize])
        });
        format!("{server}, {client}")
    }

    /// The hop and the direction of a place, if the hops have names; no text for a wire.
    pub(super) fn place_name(&self, place: Place) -> Option<&str> {
        let arrival = || self.names[self.arrival(place)?].strip_suffix("-in");
        self.has_far_ends.then(|| arrival().unwrap_or_default())
    }

    pub(super) fn host(&self, application: u32, host: Host) -> usize {
        self.ends(application).points[host as usize]
    }

    pub(super) fn arrival(&self, place: Place) -> Option<usize> {
        self.hops.get(usize::from(place.0)).map(|points| points[0])
    }

    /// The point behind the queue of a place, if there is one.
    pub(super) fn behind_queue(&self, place: Place) -> Option<usize> {
        self.departure(place).filter(|_| !self.has_far_ends)
    }

    /// The point at the far end of a place, if there is one.
    pub(super) fn far_end(&self, place: Place) -> Option<usize> {
        self.departure(place).filter(|_| self.has_far_ends)
    }

    fn departure(&self, place: Place) -> Option<usize> {
        self.hops.get(usize::from(place.0)).map(|points| points[1])
    }

    /// The changes by routers to a packet that has crossed this many hops of its route.
    pub(super) fn seen(&self, application: u32, routers: usize) -> Seen {
        Seen { routers: routers as u8, ends: self.ends(application).addresses }
    }

    /// Number of hops before the one that a packet crosses.
    pub(super) fn before(&self, application: u32, packet: &Packet) -> usize {
        let route = &self.ends(application).routes[packet.direction as usize];
        route.iter().position(|place| *place == packet.place).unwrap_or_default()
    }

    /// Number of routers on a packet's whole way.
    pub(super) fn on_way(&self, application: u32, packet: &Packet) -> usize {
        self.ends(application).routes[packet.direction as usize].len().max(1)
    }

    fn ends(&self, application: u32) -> &Ends {
        self.applications.get(application as usize).unwrap_or(&self.applications[0])
    }
}

/// The address of a point at a host: of all servers, or else of the host with this number.
fn address(point: usize) -> Ipv4Addr {
    point.checked_sub(1).map_or(SERVERS, host_address)
}

/// Hosts of the live engine have the same.
fn host_address(number: usize) -> Ipv4Addr {
    let [high, low] = (1 + number as u16).to_be_bytes();
    Ipv4Addr::new(10, high, low, 1)
}
