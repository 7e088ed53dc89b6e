//! Ports: the parts of the network that packets cross, and may wait in.

use lasthop_core::{Direction, Instant, Observer, PacketArena, PacketId, QueueDepth, Seed};
use lasthop_link::{AtmSwitch, Medium, Path, PathConfig};
use lasthop_scenario::{Hop, HopKind, Scenario};

use super::wire::Wire;

/// A part of the network that packets cross.
#[allow(clippy::large_enum_variant, reason = "most are paths; a box would cost a step per packet")]
#[derive(Debug)]
pub(super) enum Port {
    /// A router and a link: a direction of a hop.
    Path(Path),
    /// A LAN or an access link.
    Wire(Wire),
    /// Both directions of a hop with a medium, at the place of the direction down.
    Medium(Box<Shared>),
    /// The direction up of the medium at this port.
    Beside(usize),
    /// An ATM switch.
    Switch(Box<Switch>),
    /// The owner's router.
    Owner,
}

/// A medium, and the station of each host.
#[derive(Debug)]
pub(super) struct Shared {
    medium: Medium,
    stations: Vec<Option<usize>>,
}

/// An ATM switch with an access link for each flow that is known from the start; later flows share the last one.
#[derive(Debug)]
pub(super) struct Switch {
    switch: AtmSwitch,
    access_links: u32,
}

/// The ports of a scenario's hops, by place; with an ATM switch, the switch and the return path, a mere delay.
pub(super) fn all(scenario: &Scenario, seed: Seed) -> Vec<Port> {
    if let Some(config) = &scenario.atm {
        let access_links = scenario.flows().len().max(1);
        let switch =
            Switch { switch: AtmSwitch::new(config, access_links), access_links: access_links as u32 };
        return vec![Port::Switch(Box::new(switch)), Port::Wire(Wire::new(None, config.one_way_delay()))];
    }
    let (tree, hops, lists) = (scenario.tree(), scenario.hops(), scenario.drop_lists());
    let port = |place| {
        let (number, direction) = tree.at(place);
        let hop = &hops[number];
        let seed = scenario.seed_of(hop.name, seed);
        let path = |config: &PathConfig, errors: Option<&_>| {
            if scenario.has_linux_router() {
                return Port::Path(Path::linux(config, scenario.mtu, direction, seed));
            }
            let path = Path::new(config, scenario.mtu, errors, direction, seed);
            let here = lists.iter().filter(|list| list.place == place);
            Port::Path(here.fold(path, |path, list| path.losing(list.flow, list.numbers)))
        };
        match (&hop.kind, direction) {
            (HopKind::Links { down, errors, .. }, Direction::Down) => path(down, *errors),
            (HopKind::Links { up, errors, .. }, Direction::Up) => path(up, *errors),
            (HopKind::Medium(_), Direction::Up) => {
                Port::Beside(usize::from(tree.place(number, Direction::Down).0))
            }
            (HopKind::Medium(setup), Direction::Down) => {
                let places = [Direction::Down, Direction::Up].map(|way| tree.place(number, way));
                let medium = Medium::new(setup, scenario.mtu, places, seed);
                Port::Medium(Box::new(Shared { medium, stations: stations(scenario, hop.name) }))
            }
        }
    };
    tree.places().map(port).collect()
}

/// True if packets that a link duplicates may cross further hops.
pub(super) fn copies_go_on(scenario: &Scenario) -> bool {
    let duplicates = |hop: &Hop<'_>| match &hop.kind {
        HopKind::Links { down, up, .. } => [down, up].iter().any(|path| path.link.duplicate.is_some()),
        HopKind::Medium(_) => false,
    };
    scenario.names_hops() && scenario.hops().iter().any(duplicates)
}

/// For each host of the scenario, its station at a hop with a medium.
fn stations(scenario: &Scenario, hop: &str) -> Vec<Option<usize>> {
    let names: Vec<&str> = scenario.stations(hop).collect();
    scenario.host.keys().map(|host| names.iter().position(|name| name == host)).collect()
}

impl Port {
    /// When the port must be woken; `Instant::MAX` while it waits for nothing.
    #[inline]
    pub fn next_wakeup(&self) -> Instant {
        match self {
            Self::Path(path) => path.next_wakeup().unwrap_or(Instant::MAX),
            Self::Wire(wire) => wire.next_wakeup(),
            Self::Medium(shared) => shared.medium.next_wakeup().unwrap_or(Instant::MAX),
            Self::Switch(switch) => switch.next_wakeup(),
            Self::Beside(_) | Self::Owner => Instant::MAX,
        }
    }

    #[inline]
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        match self {
            Self::Path(path) => path.handle_wakeup(now, arena, observer),
            Self::Medium(shared) => shared.medium.handle_wakeup(now, arena, observer),
            Self::Switch(switch) => switch.switch.handle_wakeup(now, arena, observer),
            Self::Wire(_) | Self::Beside(_) | Self::Owner => {}
        }
    }

    /// The next packet that has crossed the port by `now`.
    #[inline]
    pub fn poll_delivery(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        match self {
            Self::Path(path) => path.poll_delivery(now, arena),
            Self::Wire(wire) => wire.poll_arrival(now),
            Self::Medium(shared) => shared.medium.poll_delivery(),
            Self::Switch(switch) => switch.switch.poll_delivery(now),
            Self::Beside(_) | Self::Owner => None,
        }
    }
}

impl Shared {
    /// Accepts a packet that a host sends or will receive, by the host's number.
    pub fn enter<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        (host, direction): (usize, Direction),
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let station = self.stations[host].expect("the end beyond a medium is one of its stations");
        self.medium.handle_packet(now, id, (station, direction), arena, observer);
    }

    pub fn queue_depth(&self, direction: Direction) -> QueueDepth {
        self.medium.queue_depth(direction)
    }
}

impl Switch {
    pub fn next_wakeup(&self) -> Instant {
        self.switch.next_wakeup().unwrap_or(Instant::MAX)
    }

    pub fn enter(&mut self, now: Instant, id: PacketId, arena: &mut PacketArena) {
        let flow = arena.get(id).flow.0;
        self.switch.handle_packet(now, id, flow.min(self.access_links - 1), arena);
    }
}
