//! The network between the hosts: the last hop with its router and LANs, a tree of hops, or an ATM switch.
//! Sans-IO: the model engine and the emulator between real hosts drive the same object.

use std::collections::VecDeque;

use lasthop_core::{Direction, Host, Instant, Observer, PacketArena, PacketId, Place, QueueDepth, Seed};
use lasthop_link::{AtmSwitch, Path, PathConfig};
use lasthop_scenario::{RouterImplementation, Scenario, Topology};

use crate::access::Access;
use crate::tree::{Hops, losing};
use crate::wire::Wire;

/// A part of the network with its own wakeups. The order is that of simultaneous events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Router and link to the mobile host, or the ATM switch.
    Down,
    /// Router and link to the fixed host, or the reverse path beside the switch.
    Up,
    /// From the fixed host to the router.
    LanDown,
    /// From the mobile host to the router.
    LanUp,
}

impl Component {
    /// All components, in order. The components of a direction are all even, or all odd.
    pub const ALL: [Self; 4] = [Self::Down, Self::Up, Self::LanDown, Self::LanUp];

    /// The component with this number.
    #[inline]
    pub const fn numbered(number: u32) -> Self {
        match number {
            0 => Self::Down,
            1 => Self::Up,
            2 => Self::LanDown,
            _ => Self::LanUp,
        }
    }

    #[inline]
    const fn direction(self) -> Direction {
        // By number. For a match, the compiler would use a lookup table and a bounds check.
        if (self as u8).is_multiple_of(2) { Direction::Down } else { Direction::Up }
    }

    const fn is_lan(self) -> bool {
        matches!(self, Self::LanDown | Self::LanUp)
    }

    /// The component that packets enter next: its wakeup may have changed when this component was woken.
    pub const fn behind(self) -> Option<Self> {
        match self {
            Self::LanDown => Some(Self::Down),
            Self::LanUp => Some(Self::Up),
            Self::Down | Self::Up => None,
        }
    }
}

/// Everything between the two hosts. The owner
/// 1. calls [`Network::wake`] for each component whose time has come, in order of time and component;
/// 2. then fetches the packets that have reached a host with [`Network::poll_delivery`] until there are none;
/// 3. hands over the packets that hosts send at the same instant with [`Network::send`].
///
/// All packets, including those that have arrived, are in the owner's arena.
#[derive(Debug)]
pub struct Network {
    topology: Between,
    entries: VecDeque<Entry>,
}

/// A packet that has reached the owner's router.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// When.
    pub due: Instant,
    /// Its direction.
    pub direction: Direction,
    /// The packet.
    pub id: PacketId,
}

#[allow(clippy::large_enum_variant, reason = "one per run")]
#[derive(Debug)]
enum Between {
    /// The paths down and up, and the access links of some servers.
    LastHop([Way; 2], Option<Box<Access>>),
    Atm {
        switch: AtmSwitch,
        access_links: u32,
        /// The reverse path has only a delay.
        back: Wire,
    },
    /// Several hops, which are woken as if they were one component, [`Component::Down`].
    Tree(Box<Hops>),
}

/// One direction of the last hop.
#[derive(Debug)]
struct Way {
    lan: Wire,
    link: Link,
}

/// The router behind the LAN of a direction.
#[allow(clippy::large_enum_variant, reason = "two per run; a box would cost a step per packet")]
#[derive(Debug)]
enum Link {
    Path(Path),
    /// A router of the owner's: see [`Network::poll_entry`].
    Owner,
}

impl Network {
    /// The network of `scenario`. An ATM switch has `access_links`, one for each flow; packets of later flows
    /// share the last one.
    pub fn new(scenario: &Scenario, access_links: usize, seed: Seed) -> Self {
        let lists = scenario.drop_lists();
        let path = |config: &PathConfig, direction: Direction| match scenario.router.implementation {
            RouterImplementation::Lasthop => {
                let path = Path::new(config, scenario.mtu, scenario.errors.as_ref(), direction, seed);
                losing(path, direction.into(), &lists)
            }
            RouterImplementation::Linux => Path::linux(config, scenario.mtu, direction, seed),
        };
        Self::of(scenario, access_links, seed, |config, direction| Link::Path(path(config, direction)))
    }

    /// The same without a router between the LANs, for an owner with its own router: see
    /// [`Network::poll_entry`].
    pub fn around_router(scenario: &Scenario, seed: Seed) -> Self {
        Self::of(scenario, 0, seed, |_, _| Link::Owner)
    }

    fn of(
        scenario: &Scenario,
        access_links: usize,
        seed: Seed,
        link: impl Fn(&PathConfig, Direction) -> Link,
    ) -> Self {
        let topology = match scenario.topology() {
            Topology::LastHop { lan, down, up } => {
                let way = |config, direction| Way {
                    lan: Wire::new(Some(lan.rate), lan.delay),
                    link: link(config, direction),
                };
                let ways = [way(down, Direction::Down), way(up, Direction::Up)];
                Between::LastHop(ways, Access::of(scenario).map(Box::new))
            }
            Topology::Atm(config) => Between::Atm {
                switch: AtmSwitch::new(config, access_links),
                access_links: access_links as u32,
                back: Wire::new(None, config.one_way_delay()),
            },
            Topology::Tree { lan } => Between::Tree(Box::new(Hops::new(scenario, lan, seed))),
        };
        Self { topology, entries: VecDeque::new() }
    }

    /// The next flow belongs to `application`, and takes this one of its ways. Flows are announced in the
    /// order of their numbers.
    pub fn announce(&mut self, application: u32, way: usize) {
        if let Between::Tree(hops) = &mut self.topology {
            hops.announce(application, way);
        }
    }

    /// Sends a packet, which is in the arena, from `host`. Returns the component whose wakeup may have
    /// changed.
    #[inline]
    pub fn send(&mut self, now: Instant, host: Host, id: PacketId, arena: &mut PacketArena) -> Component {
        let packet = arena.get(id);
        match (&mut self.topology, host) {
            (Between::LastHop(ways, access), host) => {
                let access = access.as_mut().filter(|_| host == Host::Server);
                let own = access.and_then(|access| access.towards_router(packet));
                let wire = own.unwrap_or(&mut ways[Direction::from(host) as usize].lan);
                wire.send(now, id, packet.ip_bytes);
                if host == Host::Server { Component::LanDown } else { Component::LanUp }
            }
            (Between::Atm { switch, access_links, .. }, Host::Server) => {
                switch.handle_packet(now, id, packet.flow.0.min(*access_links - 1), arena);
                Component::Down
            }
            (Between::Atm { back, .. }, Host::Client) => {
                back.send(now, id, packet.ip_bytes);
                Component::Up
            }
            (Between::Tree(hops), _) => {
                hops.send(now, id, arena);
                Component::Down
            }
        }
    }

    /// When a component must be woken next; `Instant::MAX` while it holds no packet.
    #[inline]
    pub fn next_wakeup(&self, component: Component) -> Instant {
        match &self.topology {
            Between::LastHop(ways, None) => ways[component.direction() as usize].next_wakeup(component),
            _ => self.next_wakeup_beside(component),
        }
    }

    /// The same where there are access links or a switch.
    #[inline(never)]
    fn next_wakeup_beside(&self, component: Component) -> Instant {
        if let (Between::Tree(hops), Component::Down) = (&self.topology, component) {
            return hops.next_wakeup();
        }
        match (&self.topology, component) {
            (Between::LastHop(ways, access), _) => {
                let due = ways[component.direction() as usize].next_wakeup(component);
                let access =
                    access.as_ref().filter(|_| matches!(component, Component::LanDown | Component::Up));
                access.map_or(due, |access| due.min(access.next_wakeup(component.direction())))
            }
            (Between::Atm { switch, .. }, Component::Down) => switch.next_wakeup().unwrap_or(Instant::MAX),
            (Between::Atm { back, .. }, Component::Up) => back.next_wakeup(),
            (Between::Atm { .. } | Between::Tree(_), _) => Instant::MAX,
        }
    }

    /// Wakes a component whose wakeup is due. [`Network::poll_delivery`] then returns the packets that
    /// reached a host.
    pub fn wake<O: Observer>(
        &mut self,
        now: Instant,
        component: Component,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let (way, access) = match &mut self.topology {
            Between::LastHop(ways, access) => (&mut ways[component.direction() as usize], access),
            Between::Atm { switch, .. } => {
                if component == Component::Down {
                    switch.handle_wakeup(now, arena, observer);
                }
                return;
            }
            Between::Tree(hops) => return hops.wake(now, arena, observer),
        };
        if !component.is_lan() {
            way.link.handle_wakeup(now, arena, observer);
            if let (Component::Up, Some(access)) = (component, access) {
                access.take(now, || way.link.poll_delivery(now, arena), arena);
            }
            return;
        }
        let mut arrival = || {
            let access = access.as_mut().filter(|_| component == Component::LanDown);
            way.lan.poll_arrival(now).or_else(|| access?.poll_router(now))
        };
        while let Some(id) = arrival() {
            match &mut way.link {
                Link::Path(path) => path.handle_packet(now, id, arena, observer),
                Link::Owner => {
                    self.entries.push_back(Entry { due: now, direction: component.direction(), id });
                }
            }
        }
    }

    /// The next packet that has reached the host behind `component`.
    #[inline]
    pub fn poll_delivery(
        &mut self,
        now: Instant,
        component: Component,
        arena: &PacketArena,
    ) -> Option<(PacketId, Host)> {
        let id = match &mut self.topology {
            _ if component.is_lan() => None,
            Between::LastHop(ways, None) => {
                ways[component.direction() as usize].link.poll_delivery(now, arena)
            }
            Between::Tree(hops) => {
                return hops.poll_delivery().map(|id| (id, arena.get(id).direction.sender().other()));
            }
            _ => self.poll_delivery_beside(now, component.direction(), arena),
        };
        id.map(|id| (id, component.direction().sender().other()))
    }

    /// The same where there are access links or a switch.
    #[inline(never)]
    fn poll_delivery_beside(
        &mut self,
        now: Instant,
        direction: Direction,
        arena: &PacketArena,
    ) -> Option<PacketId> {
        match (&mut self.topology, direction) {
            (Between::LastHop(_, Some(access)), Direction::Up) => access.poll_server(now),
            (Between::LastHop(ways, _), _) => ways[direction as usize].link.poll_delivery(now, arena),
            (Between::Atm { switch, .. }, Direction::Down) => switch.poll_delivery(now),
            (Between::Atm { back, .. }, Direction::Up) => back.poll_arrival(now),
            (Between::Tree(hops), _) => hops.poll_delivery(),
        }
    }

    /// The next packet that has reached a router of the owner's.
    pub fn poll_entry(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// The next component to wake, and when.
    pub fn next(&self) -> Option<(Instant, Component)> {
        let next = Component::ALL.into_iter().map(|component| (self.next_wakeup(component), component)).min();
        next.filter(|&(due, _)| due < Instant::MAX)
    }

    /// The earliest time at which a packet can reach its host or the owner's router. An owner that needs only
    /// arrivals may postpone all other wakeups until then, and handle them late, in order of time.
    pub fn earliest_delivery(&self) -> Option<Instant> {
        match &self.topology {
            Between::LastHop(ways, None) => ways.iter().filter_map(Way::earliest_delivery).min(),
            // Access links are few, so each of their steps is handled on time.
            Between::LastHop(..) => self.next().map(|(due, _)| due),
            Between::Atm { .. } | Between::Tree(_) => self.next().map(|(due, _)| due),
        }
    }

    /// The router queue of a place, if the network has it.
    pub fn queue_depth(&self, place: Place) -> Option<QueueDepth> {
        match &self.topology {
            Between::LastHop(ways, _) => match &ways[usize::from(place.0)].link {
                Link::Path(path) => Some(path.queue_depth()),
                Link::Owner => None,
            },
            Between::Tree(hops) => hops.queue_depth(place),
            Between::Atm { .. } => None,
        }
    }
}

impl Way {
    #[inline]
    fn next_wakeup(&self, component: Component) -> Instant {
        if component.is_lan() { self.lan.next_wakeup() } else { self.link.next_wakeup() }
    }

    fn earliest_delivery(&self) -> Option<Instant> {
        let arrival = Some(self.lan.next_wakeup()).filter(|arrival| *arrival < Instant::MAX);
        match &self.link {
            Link::Path(path) => path.earliest_delivery(arrival),
            Link::Owner => arrival,
        }
    }
}

impl Link {
    #[inline]
    fn next_wakeup(&self) -> Instant {
        match self {
            Self::Path(path) => path.next_wakeup().unwrap_or(Instant::MAX),
            Self::Owner => Instant::MAX,
        }
    }

    fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        match self {
            Self::Path(path) => path.handle_wakeup(now, arena, observer),
            Self::Owner => {}
        }
    }

    #[inline]
    fn poll_delivery(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        match self {
            Self::Path(path) => path.poll_delivery(now, arena),
            Self::Owner => None,
        }
    }
}
