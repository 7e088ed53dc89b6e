//! The topology: a tree of hops and hosts whose root is the internet, a core without queues. The route between
//! two hosts is unique: up to their common ancestor, then down. So there are no routing tables.

use std::collections::BTreeMap;

use lasthop_core::{Direction, Duration, FlowId, FlowInfo, Host, Instant, Part, Place, Probability, Seed};
use lasthop_link::{Capacity, ErrorConfig, MediumSetup, PathConfig};

use crate::flow::{Flow, FlowStack};
use crate::hops::{self, HostsByName, ONLY_HOP, ONLY_HOST, RouterImplementation, SERVER};
use crate::types::Scenario;

/// A hop as a scenario describes it.
#[derive(Clone, Debug)]
pub struct Hop<'a> {
    pub name: &'a str,
    pub kind: HopKind<'a>,
    /// True if the scenario marks it as the bottleneck.
    pub is_bottleneck: bool,
}

#[derive(Clone, Debug)]
pub enum HopKind<'a> {
    /// A link in each direction.
    Links {
        /// Towards the hosts.
        down: &'a PathConfig,
        /// Towards the root.
        up: &'a PathConfig,
        /// Errors in both directions.
        errors: Option<&'a ErrorConfig>,
    },
    /// A medium that both directions share.
    Medium(MediumSetup<'a>),
}

/// A direction of a hop.
#[derive(Clone, Debug)]
pub enum PortSetup<'a> {
    /// A link with its router.
    Link(&'a PathConfig),
    /// A direction of a medium.
    Medium(MediumSetup<'a>, Direction),
}

impl<'a> Hop<'a> {
    /// One direction.
    pub fn side(&self, direction: Direction) -> PortSetup<'a> {
        match (&self.kind, direction) {
            (HopKind::Links { down, .. }, Direction::Down) => PortSetup::Link(down),
            (HopKind::Links { up, .. }, Direction::Up) => PortSetup::Link(up),
            (HopKind::Medium(setup), _) => PortSetup::Medium(setup.clone(), direction),
        }
    }

    /// Its links; empty for a medium.
    pub fn links(&self) -> impl Iterator<Item = (Direction, &'a PathConfig)> + use<'a> {
        let links = match self.kind {
            HopKind::Links { down, up, .. } => Some([(Direction::Down, down), (Direction::Up, up)]),
            HopKind::Medium(_) => None,
        };
        links.into_iter().flatten()
    }

    /// Errors of its links in both directions; `None` for a medium.
    pub const fn errors(&self) -> Option<&'a ErrorConfig> {
        match self.kind {
            HopKind::Links { errors, .. } => errors,
            HopKind::Medium(_) => None,
        }
    }
}

impl PortSetup<'_> {
    /// The capacity in bit/s of IP packets of `ip_bytes` bytes, from the start and after each change; for a
    /// medium, the rate of the fastest station.
    pub fn ip_rates(&self, ip_bytes: u32) -> Vec<(Instant, f64)> {
        match self {
            Self::Link(path) => path.ip_rates(ip_bytes),
            Self::Medium(setup, direction) => setup.rates(*direction),
        }
    }

    /// The same as bytes over time.
    pub fn capacity(&self, ip_bytes: u32) -> Capacity {
        match self {
            Self::Link(path) => Capacity::of(path, ip_bytes),
            Self::Medium(setup, direction) => Capacity::at(&setup.rates(*direction)),
        }
    }

    /// Propagation delay, or the fixed delay of a medium.
    pub const fn delay(&self) -> Duration {
        match self {
            Self::Link(path) => path.link.delay,
            Self::Medium(setup, _) => setup.delay(),
        }
    }
}

/// The tree of a scenario's hops. The hops are numbered depth first: each after its parent, and the children of a
/// hop in the order of their names.
///
/// The places of `n` hops have numbers below `2 n`. They determine the order of simultaneous events: a packet
/// can use the room that a later hop on its route has just freed. So the directions down come first, from the
/// leaves to the root, then the directions up, from the root to the leaves. With a single hop, the numbers are
/// those of the directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    hops: Vec<(String, Option<usize>)>,
}

impl Tree {
    /// Builds the tree from the names of hops and of their parents. Hops without a connection to the root are
    /// omitted.
    pub fn of<'a>(hops: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let mut below: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for (name, behind) in hops {
            below.entry(behind).or_default().push(name);
        }
        for names in below.values_mut() {
            names.sort_unstable();
        }
        let mut tree = Self::default();
        let mut next: Vec<(&str, Option<usize>)> = Vec::new();
        let add = |next: &mut Vec<_>, name, number| {
            let names = below.get(&name).into_iter().flatten();
            next.extend(names.rev().map(|name| (*name, number)));
        };
        add(&mut next, None, None);
        while let Some((name, behind)) = next.pop() {
            tree.hops.push((name.to_owned(), behind));
            add(&mut next, Some(name), Some(tree.hops.len() - 1));
        }
        tree
    }

    /// Number of hops.
    pub fn len(&self) -> usize {
        self.hops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// The names of the hops, in their order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.hops.iter().map(|(name, _)| name.as_str())
    }

    pub fn name(&self, hop: usize) -> &str {
        &self.hops[hop].0
    }

    /// The parent of a hop; `None` at the root.
    pub fn behind(&self, hop: usize) -> Option<usize> {
        self.hops[hop].1
    }

    /// The number of a hop.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.names().position(|own| own == name)
    }

    /// The place of a direction of a hop.
    pub fn place(&self, hop: usize, direction: Direction) -> Place {
        let number = match direction {
            Direction::Down => self.len() - 1 - hop,
            Direction::Up => self.len() + hop,
        };
        Place(number as u16)
    }

    /// The hop and the direction of a place.
    pub fn at(&self, place: Place) -> (usize, Direction) {
        let (number, hops) = (usize::from(place.0), self.len());
        if number < hops { (hops - 1 - number, Direction::Down) } else { (number - hops, Direction::Up) }
    }

    /// All places, in their order.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..2 * self.len() as u16).map(Place)
    }

    /// The route between hosts behind two hops; `None` is the root.
    pub fn route(&self, from: Option<usize>, to: Option<usize>) -> Vec<Place> {
        let (mut up, mut down) = (self.to_root(from), self.to_root(to));
        while let (Some(sending), Some(receiving)) = (up.last(), down.last())
            && sending == receiving
        {
            up.pop();
            down.pop();
        }
        let up = up.into_iter().map(|hop| self.place(hop, Direction::Up));
        up.chain(down.into_iter().rev().map(|hop| self.place(hop, Direction::Down))).collect()
    }

    /// A hop and its ancestors.
    fn to_root(&self, hop: Option<usize>) -> Vec<usize> {
        std::iter::successors(hop, |hop| self.behind(*hop)).collect()
    }
}

impl Scenario {
    /// True if its hops have names. If not, there is one hop, one host behind it, and one server, whose LAN serves
    /// all flows without an access link; with names, each flow without a peer has a separate server.
    pub fn names_hops(&self) -> bool {
        !self.hop.is_empty()
    }

    /// Prefix of the keys of a hop in the file.
    pub(crate) fn place_of(&self, hop: &str) -> String {
        if self.names_hops() { format!("hop.{hop}.") } else { String::new() }
    }

    /// The seed of the random streams of a hop.
    pub fn seed_of(&self, hop: &str, seed: Seed) -> Seed {
        if hop == ONLY_HOP { seed } else { seed.of_part(&format!("hop.{hop}")) }
    }

    /// A direction of its only hop, if the hop has no name in the file and is a link.
    pub fn only_link(&mut self, direction: Direction) -> Option<&mut PathConfig> {
        let (down, up) = match self.hop.get_mut(ONLY_HOP) {
            Some(hop) => (&mut hop.down, &mut hop.up),
            None => (&mut self.down, &mut self.up),
        };
        if direction == Direction::Down { down.as_mut() } else { up.as_mut() }
    }

    /// True if the router of its only hop is Linux' own.
    pub fn has_linux_router(&self) -> bool {
        let router = self.hop.values().next().map_or(&self.router, |hop| &hop.router);
        router.implementation == RouterImplementation::Linux
    }

    /// The links down and up behind Linux' router, if the scenario uses it.
    pub fn behind_linux(&self) -> Option<[&PathConfig; 2]> {
        let sides = match self.hop.values().next() {
            Some(hop) => [Direction::Down, Direction::Up].map(|direction| hop.side(direction)),
            None => [self.down.as_ref(), self.up.as_ref()],
        };
        let [down, up] = sides;
        Some([down?, up?]).filter(|_| self.has_linux_router())
    }

    /// The packet losses of Linux' router.
    pub fn linux_loss(&self) -> Option<Probability> {
        let errors = self.hop.values().next().map_or(&self.errors, |hop| &hop.errors);
        errors.as_ref().and_then(|errors| errors.packet_error_probability)
    }

    /// The tree of its hops; without `[hop]`, it is one hop.
    pub fn tree(&self) -> Tree {
        if !self.names_hops() {
            return Tree { hops: vec![(ONLY_HOP.to_owned(), None)] };
        }
        Tree::of(self.hop.iter().map(|(name, hop)| (name.as_str(), hop.behind.as_deref())))
    }

    /// The direction of a hop at a place of its tree.
    ///
    /// # Panics
    ///
    /// If the scenario has an ATM switch instead of hops, or has not been validated.
    pub fn side(&self, tree: &Tree, place: Place) -> PortSetup<'_> {
        let (number, direction) = tree.at(place);
        let Some((name, hop)) = self.hop.get_key_value(tree.name(number)) else {
            let path = if direction == Direction::Down { &self.down } else { &self.up };
            return PortSetup::Link(path.as_ref().expect("a hop has both directions"));
        };
        match &hop.medium {
            Some(medium) => PortSetup::Medium(hops::setup(name, medium, &self.host), direction),
            None => PortSetup::Link(hop.side(direction).expect("a hop has links or a medium")),
        }
    }

    /// The names of the stations of a hop with a medium, in their order.
    pub fn stations<'a>(&'a self, hop: &'a str) -> impl Iterator<Item = &'a str> {
        hops::stations(hop, &self.host).map(|(name, _)| name)
    }

    /// Its hops, in the order of the tree; empty with an ATM switch.
    pub fn hops(&self) -> Vec<Hop<'_>> {
        if let (Some(down), Some(up)) = (&self.down, &self.up) {
            let errors = self.errors.as_ref();
            let kind = HopKind::Links { down, up, errors };
            return vec![Hop { name: ONLY_HOP, kind, is_bottleneck: false }];
        }
        if !self.names_hops() {
            return Vec::new();
        }
        let hop = |name: &str| {
            let (name, config) = self.hop.get_key_value(name).expect("the tree has only these");
            let side = |direction| config.side(direction).expect("a hop has links or a medium");
            let kind = match &config.medium {
                Some(medium) => HopKind::Medium(hops::setup(name, medium, &self.host)),
                None => HopKind::Links {
                    down: side(Direction::Down),
                    up: side(Direction::Up),
                    errors: config.errors.as_ref(),
                },
            };
            Hop { name, kind, is_bottleneck: config.bottleneck }
        };
        self.tree().names().map(hop).collect()
    }

    /// The name of the host at an end of a flow: `host` for [`Host::Client`], `peer` for [`Host::Server`].
    pub fn host_of<'a>(&'a self, flow: &'a Flow, end: Host) -> &'a str {
        match end {
            Host::Server => flow.peer.as_deref().unwrap_or(SERVER),
            Host::Client => {
                let only = || self.host.keys().next().map_or(ONLY_HOST, String::as_str);
                flow.host.as_deref().unwrap_or_else(only)
            }
        }
    }

    /// The hop of the host at an end of a flow; `None` at the root. For the host at the edge, it is `via`, or
    /// else the first.
    pub(crate) fn hop_of(&self, tree: &Tree, flow: &Flow, end: Host, via: Option<&String>) -> Option<usize> {
        if self.host.is_empty() {
            return (end == Host::Client).then_some(0);
        }
        let ways = self.host.get(self.host_of(flow, end))?.ways();
        let via = via.filter(|via| end == Host::Client && ways.contains(via));
        tree.number(via.or(ways.first())?)
    }

    pub fn has_mptcp(&self) -> bool {
        self.flow.iter().any(|flow| flow.stack == FlowStack::Mptcp)
    }

    /// The subflows of those flows that MPTCP carries: one for each path of the host.
    pub(crate) fn subflows(&self, flows: &[FlowInfo]) -> Vec<FlowInfo> {
        if !self.has_mptcp() {
            return Vec::new();
        }
        let host_pairs = self.host_pairs();
        let of = |(id, info): (u32, &FlowInfo)| {
            let flow = &self.flow[host_pairs[info.application as usize].instance.entry];
            let ways = if flow.stack == FlowStack::Mptcp { self.ways(flow) } else { &[] };
            let subflow = |(way, hop): (usize, &String)| FlowInfo {
                name: format!("{}/{hop}", info.name),
                offered_bytes: None,
                sends_for: None,
                part: Part::Subflow { of: FlowId(id), way },
                ..info.clone()
            };
            ways.iter().enumerate().map(subflow).collect::<Vec<_>>()
        };
        (0..).zip(flows).flat_map(of).collect()
    }

    /// The places that a flow's packets cross in a direction, in order, before a migration of its host.
    pub fn route(&self, tree: &Tree, flow: &Flow, direction: Direction) -> Vec<Place> {
        self.route_via(tree, flow, direction, flow.via.as_ref())
    }

    /// The hops that connect the host at the edge of a flow, one per path.
    pub fn ways<'a>(&'a self, flow: &'a Flow) -> &'a [String] {
        self.host.get(self.host_of(flow, Host::Client)).map_or(&[], |host| host.ways())
    }

    /// The places that the packets of a part of a flow cross, for each path: those of MPTCP's subflows, or else
    /// the first path and the one after a migration.
    pub fn routes(&self, tree: &Tree, flow: &Flow, part: Part, direction: Direction) -> Vec<Vec<Place>> {
        if flow.stack == FlowStack::Mptcp {
            let ways = self.ways(flow).iter();
            return ways.map(|via| self.route_via(tree, flow, direction, Some(via))).collect();
        }
        let first = self.route_of(tree, flow, part, direction);
        let moved = flow.migrate.as_ref().map(|to| self.route_via(tree, flow, direction, Some(&to.via)));
        std::iter::once(first).chain(moved).collect()
    }

    fn route_via(&self, tree: &Tree, flow: &Flow, direction: Direction, via: Option<&String>) -> Vec<Place> {
        let hop = |end| self.hop_of(tree, flow, end, via);
        let sender = direction.sender();
        tree.route(hop(sender), hop(sender.other()))
    }

    /// Round-trip time of a flow without queueing.
    pub fn round_trip(&self, tree: &Tree, flow: &Flow) -> Duration {
        self.one_way(tree, flow, Direction::Down) + self.one_way(tree, flow, Direction::Up)
    }

    /// Propagation delay of a flow's packets from one host to the other.
    pub(crate) fn one_way(&self, tree: &Tree, flow: &Flow, direction: Direction) -> Duration {
        if let Some(atm) = &self.atm {
            return atm.one_way_delay();
        }
        let lan = self.lan.as_ref().expect("hops have LANs").delay;
        let route = self.route(tree, flow, direction).into_iter();
        let links =
            route.map(|place| self.side(tree, place).delay()).fold(Duration::ZERO, |sum, delay| sum + delay);
        links + delay_outside_hops(lan, flow.access.as_ref().map(|access| access.delay), direction)
    }

    /// The place that the run's columns describe in each direction: that of the hop marked as the bottleneck, or
    /// else of the slowest hop. With an ATM switch, the places are those of a single hop.
    pub fn bottlenecks(&self) -> [Place; 2] {
        if !self.names_hops() {
            return [Direction::Down, Direction::Up].map(Place::from);
        }
        let (tree, hops) = (self.tree(), self.hops());
        let packet = self.mtu.0 as u32;
        [Direction::Down, Direction::Up].map(|direction| {
            let rate = |hop: &Hop<'_>| {
                let rates = hop.side(direction).ip_rates(packet);
                rates.into_iter().map(|(_, rate)| rate).fold(0.0, f64::max)
            };
            let slowest = || (0..hops.len()).min_by(|a, b| rate(&hops[*a]).total_cmp(&rate(&hops[*b])));
            let hop = hops.iter().position(|hop| hop.is_bottleneck).or_else(slowest);
            tree.place(hop.unwrap_or_default(), direction)
        })
    }
}

/// The delay from host to host without the links of hops: that of LANs, or of a server's access link.
pub(crate) fn delay_outside_hops(lan: Duration, access: Option<Duration>, direction: Direction) -> Duration {
    match direction {
        Direction::Down => access.unwrap_or(lan),
        Direction::Up => lan + access.unwrap_or_default(),
    }
}

/// The names of the hosts, for messages.
pub(crate) fn host_names(hosts: &HostsByName) -> Vec<&str> {
    if hosts.is_empty() { vec![ONLY_HOST] } else { hosts.keys().map(String::as_str).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `root - cable - wifi`, `root - lte`.
    fn home() -> Tree {
        Tree::of([("lte", None), ("wifi", Some("cable")), ("cable", None)].into_iter())
    }

    fn describe_route(tree: &Tree, from: Option<&str>, to: Option<&str>) -> Vec<String> {
        let number = |name: Option<&str>| name.map(|name| tree.number(name).unwrap());
        let places = tree.route(number(from), number(to)).into_iter();
        let name = |place| {
            let (hop, direction) = tree.at(place);
            format!("{} {}", tree.name(hop), direction.name())
        };
        places.map(name).collect()
    }

    #[test]
    fn each_hop_comes_after_its_parent() {
        assert_eq!(home().names().collect::<Vec<_>>(), ["cable", "wifi", "lte"]);
    }

    #[test]
    fn a_route_leads_up_to_the_common_ancestor_and_then_down() {
        let tree = home();
        assert_eq!(describe_route(&tree, None, Some("wifi")), ["cable down", "wifi down"]);
        assert_eq!(describe_route(&tree, Some("wifi"), Some("lte")), ["wifi up", "cable up", "lte down"]);
        assert_eq!(describe_route(&tree, Some("wifi"), Some("cable")), ["wifi up"]);
        assert_eq!(describe_route(&tree, Some("wifi"), Some("wifi")), Vec::<String>::new());
    }

    #[test]
    fn on_each_route_a_later_place_has_a_lower_number() {
        let tree = home();
        for from in [None, Some(0), Some(1), Some(2)] {
            for to in [None, Some(0), Some(1), Some(2)] {
                assert!(tree.route(from, to).is_sorted_by(|a, b| a > b), "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn a_place_is_a_direction_of_a_hop_and_of_a_single_hop_the_direction() {
        let tree = home();
        assert!(tree.places().all(|place| {
            let (hop, direction) = tree.at(place);
            tree.place(hop, direction) == place
        }));
        let single = Tree::of([("last-hop", None)].into_iter());
        for direction in [Direction::Down, Direction::Up] {
            assert_eq!(single.place(0, direction), Place::from(direction));
        }
    }

    #[test]
    fn hops_in_a_loop_are_left_out() {
        let tree = Tree::of([("a", Some("b")), ("b", Some("a")), ("c", None)].into_iter());
        assert_eq!(tree.names().collect::<Vec<_>>(), ["c"]);
    }
}
