//! Access links between the servers of some flows and the router, in place of the LAN: a wire in each
//! direction.

use std::collections::VecDeque;

use lasthop_core::{Direction, Instant, Packet, PacketArena, PacketId};
use lasthop_scenario::{AccessConfig, Scenario};
use lasthop_traffic::Instance;

use crate::wire::Wire;

/// The access links of a scenario, one for each application that has one.
#[derive(Debug)]
pub(crate) struct Access {
    /// For each flow, the access link that its packets take, if not the LAN.
    of: Vec<Option<usize>>,
    /// The wires towards the router and towards the server.
    links: Vec<[Wire; 2]>,
    /// Packets that came over the last hop, for servers without an access link.
    arrived: VecDeque<PacketId>,
}

impl Access {
    /// The access links of a scenario, if it has any.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        if scenario.flow.iter().all(|flow| flow.access.is_none()) {
            return None;
        }
        let mut links = Vec::new();
        let place = |instance: &Instance<'_>| {
            let AccessConfig { delay, rate } = scenario.flow[instance.entry].access.as_ref()?;
            links.push([(); 2].map(|()| Wire::new(Some(*rate), *delay)));
            Some(links.len() - 1)
        };
        let places: Vec<Option<usize>> = scenario.applications().iter().map(place).collect();
        let of = scenario.flows().iter().map(|info| places[info.application as usize]).collect();
        Some(Self { of, links, arrived: VecDeque::new() })
    }

    /// The wire on which a server sends a packet, if it has an access link.
    pub fn towards_router(&mut self, packet: &Packet) -> Option<&mut Wire> {
        self.link(packet).map(|link| &mut self.links[link][Direction::Down as usize])
    }

    /// Takes a packet that came over the last hop.
    pub fn take(&mut self, now: Instant, mut poll: impl FnMut() -> Option<PacketId>, arena: &PacketArena) {
        while let Some(id) = poll() {
            let packet = arena.get(id);
            match self.link(packet) {
                Some(link) => self.links[link][Direction::Up as usize].send(now, id, packet.ip_bytes),
                None => self.arrived.push_back(id),
            }
        }
    }

    /// The next packet that has reached the router.
    pub fn poll_router(&mut self, now: Instant) -> Option<PacketId> {
        self.poll(now, Direction::Down)
    }

    /// The next packet that has reached its server.
    pub fn poll_server(&mut self, now: Instant) -> Option<PacketId> {
        self.arrived.pop_front().or_else(|| self.poll(now, Direction::Up))
    }

    /// When the next packet reaches the router (on the way down) or its server; `Instant::MAX` if none is in
    /// flight.
    pub fn next_wakeup(&self, direction: Direction) -> Instant {
        let wakeups = self.links.iter().map(|link| link[direction as usize].next_wakeup());
        wakeups.min().unwrap_or(Instant::MAX)
    }

    /// Ties are broken by the order of the scenario.
    fn poll(&mut self, now: Instant, direction: Direction) -> Option<PacketId> {
        self.links.iter_mut().find_map(|link| link[direction as usize].poll_arrival(now))
    }

    fn link(&self, packet: &Packet) -> Option<usize> {
        self.of.get(packet.flow.0 as usize).copied().flatten()
    }
}
