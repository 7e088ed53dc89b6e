//! What lies between the hosts: the last hop with its router and LANs, or an ATM switch.

use lasthop_core::{Direction, Host, Instant, Observer, PacketArena, PacketId, Seed};
use lasthop_link::{AtmSwitch, Path};
use lasthop_scenario::{Scenario, Topology};

use crate::agenda::{Agenda, ComponentId, NETWORK_COMPONENTS};
use crate::wire::Wire;

const DOWN: ComponentId = 0;
const UP: ComponentId = 1;
const LAN_DOWN: ComponentId = 2;
const LAN_UP: ComponentId = 3;
const _: () = assert!(LAN_UP < NETWORK_COMPONENTS, "the agenda looks at all of them");

#[allow(clippy::large_enum_variant, reason = "one per run")]
pub(crate) enum Network {
    LastHop {
        down: Path,
        up: Path,
        lan_down: Wire,
        lan_up: Wire,
    },
    Atm {
        switch: AtmSwitch,
        /// The way back is delay only.
        back: Wire,
    },
}

impl Network {
    /// The network of `scenario`, with an access link for each of `flows` if it has a switch.
    pub fn new(scenario: &Scenario, flows: usize, seed: Seed) -> Self {
        match scenario.topology() {
            Topology::LastHop { lan, down, up } => {
                let path = |config, direction| {
                    Path::new(config, scenario.mtu, scenario.errors.as_ref(), direction, seed)
                };
                Self::LastHop {
                    down: path(down, Direction::Down),
                    up: path(up, Direction::Up),
                    lan_down: Wire::new(Some(lan.rate), lan.delay),
                    lan_up: Wire::new(Some(lan.rate), lan.delay),
                }
            }
            Topology::Atm(config) => Self::Atm {
                switch: AtmSwitch::new(config, flows),
                back: Wire::new(None, config.one_way_delay()),
            },
        }
    }

    /// `host` sends a packet, which is in the arena.
    pub fn send(&mut self, now: Instant, host: Host, id: PacketId, arena: &PacketArena, agenda: &mut Agenda) {
        let packet = arena.get(id);
        match (self, host) {
            (Self::LastHop { lan_down, .. }, Host::Server) => {
                lan_down.send(now, id, packet.ip_bytes);
                agenda.schedule(LAN_DOWN, lan_down.next_wakeup());
            }
            (Self::LastHop { lan_up, .. }, Host::Client) => {
                lan_up.send(now, id, packet.ip_bytes);
                agenda.schedule(LAN_UP, lan_up.next_wakeup());
            }
            (Self::Atm { switch, .. }, Host::Server) => {
                switch.handle_packet(now, id, packet.flow.0, arena);
                agenda.schedule(DOWN, switch.next_wakeup());
            }
            (Self::Atm { back, .. }, Host::Client) => {
                back.send(now, id, packet.ip_bytes);
                agenda.schedule(UP, back.next_wakeup());
            }
        }
    }

    /// A component's time has come. [`Network::poll_delivery`] has what reached a host thereby.
    pub fn wake<O: Observer>(
        &mut self,
        now: Instant,
        component: ComponentId,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        match self {
            Self::LastHop { down, up, lan_down, lan_up } => match component {
                DOWN => down.handle_wakeup(now, arena, observer),
                UP => up.handle_wakeup(now, arena, observer),
                LAN_DOWN => {
                    while let Some(id) = lan_down.poll_arrival(now) {
                        down.handle_packet(now, id, arena, observer);
                    }
                }
                _ => {
                    while let Some(id) = lan_up.poll_arrival(now) {
                        up.handle_packet(now, id, arena, observer);
                    }
                }
            },
            Self::Atm { switch, .. } if component == DOWN => switch.handle_wakeup(now, arena, observer),
            Self::Atm { .. } => {}
        }
    }

    /// The next packet that has reached the host behind `component`.
    pub fn poll_delivery(&mut self, now: Instant, component: ComponentId) -> Option<(PacketId, Host)> {
        let (id, host) = match (self, component) {
            (Self::LastHop { down, .. }, DOWN) => (down.poll_delivery(now), Host::Client),
            (Self::LastHop { up, .. }, UP) => (up.poll_delivery(now), Host::Server),
            (Self::Atm { switch, .. }, DOWN) => (switch.poll_delivery(now), Host::Client),
            (Self::Atm { back, .. }, UP) => (back.poll_arrival(now), Host::Server),
            _ => return None,
        };
        id.map(|id| (id, host))
    }

    /// Notes the next wakeup of a component that was woken, and of the path behind a LAN.
    pub fn reschedule(&self, component: ComponentId, agenda: &mut Agenda) {
        match self {
            Self::LastHop { down, up, lan_down, lan_up } => match component {
                DOWN => agenda.schedule(DOWN, down.next_wakeup()),
                UP => agenda.schedule(UP, up.next_wakeup()),
                LAN_DOWN => {
                    agenda.schedule(LAN_DOWN, lan_down.next_wakeup());
                    agenda.schedule(DOWN, down.next_wakeup());
                }
                _ => {
                    agenda.schedule(LAN_UP, lan_up.next_wakeup());
                    agenda.schedule(UP, up.next_wakeup());
                }
            },
            Self::Atm { switch, .. } if component == DOWN => agenda.schedule(DOWN, switch.next_wakeup()),
            Self::Atm { back, .. } => agenda.schedule(UP, back.next_wakeup()),
        }
    }
}
