//! A Linux router between the hosts: a network namespace that forwards, with queue disciplines instead of the
//! models.
//!
//! The emulator writes a packet into the device of one side and reads it from the device of the other side. To
//! detect drops, it reads the discipline's drop counter after each packet, because Linux has queued or dropped the
//! packet when the write returns. The hop detects later drops by packets that do not come out.

use crate::error::{Context, Error};
use crate::hosts::address_of;
use crate::namespace::{Address, new_network, sysctl};
use crate::netlink::{Destination, Netlink};
use crate::qdisc;
use crate::tun::Tun;
use lasthop_core::{Direction, Host, Seed};
use lasthop_link::{LinuxDiscipline, LinuxQueue, LinuxQueues, PathConfig};
use lasthop_scenario::Scenario;
use nix::net::if_::if_nametoindex;
use std::fs;
use std::io;

/// The router; it disappears when this is dropped.
#[derive(Debug)]
pub struct LinuxRouter {
    server: Side,
    client: Side,
    netlink: Netlink,
}

/// The device towards one of the hosts; leaving packets wait in its queue disciplines.
#[derive(Debug)]
struct Side {
    tun: Tun,
    index: u32,
    /// Per class: number of packets that its queue discipline has dropped so far, if it drops only arrivals.
    dropped: Vec<Option<u32>>,
}

/// Rejects a Linux router in real time.
pub fn needs_no_router(scenario: &Scenario) -> Result<(), Error> {
    if !scenario.has_linux_router() {
        return Ok(());
    }
    Err(Error::new(
        "router.implementation = \"linux\" runs on the kernel engine only, because in real time delays by a \
         busy machine would go unnoticed; use --engine kernel, or write \"lasthop\"",
    ))
}

/// The addresses of the hosts behind the router's link.
fn client_addresses(scenario: &Scenario) -> Vec<Address> {
    if scenario.host.is_empty() {
        return vec![Address::CLIENT];
    }
    let behind = scenario.host.iter().filter(|(_, host)| !host.ways().is_empty());
    behind.map(|(name, _)| address_of(scenario, name)).collect()
}

/// The error message if these queues cannot be set up: features that the kernel may lack.
fn needs_of(queues: &LinuxQueues) -> &'static str {
    let is_newest = |queue: &LinuxQueue| matches!(queue.discipline, LinuxDiscipline::DualPi2(_));
    if queues.queues.iter().flatten().any(is_newest) {
        "cannot set up the router; its kernel needs sch_dualpi2, which Linux has since 6.17: build one that \
         has it with 'lasthop kernel build --source 7.3', and choose it with --kernel 7.3"
    } else {
        "cannot set up the router; its kernel needs TUN devices, sch_htb, cls_u32, and sch_netem or the \
         queue disciplines of the scenario"
    }
}

impl LinuxRouter {
    /// The router, if the scenario requests it. The caller is in its network namespace from then on.
    pub fn create(scenario: &Scenario, seed: Seed) -> Result<Option<Self>, Error> {
        let Some([down, up]) = scenario.behind_linux() else { return Ok(None) };
        // Its devices keep the namespace alive.
        new_network()?;
        sysctl("ipv4/ip_forward", "1")?;
        let netlink = Netlink::open().context("cannot open a netlink socket")?;
        let loss = scenario.linux_loss();
        let clients = client_addresses(scenario);
        let side = |host: Host, name, path: &PathConfig, stream| -> Result<Side, Error> {
            let tun = Tun::create(name).context("cannot create a TUN device of the router")?;
            let index = if_nametoindex(name).context("cannot find a TUN device of the router")?;
            let device = format!("ipv6/conf/{name}");
            if fs::exists(format!("/proc/sys/net/{device}")).unwrap_or(false) {
                // Hosts of a run use IPv4; with IPv6, Linux would send its own packets.
                sysctl(&format!("{device}/disable_ipv6"), "1")?;
            }
            let queues = path.linux_queues(scenario.mtu);
            let drawn_from = seed.stream(stream).bits();
            let set_up = || {
                netlink.configure(index, scenario.mtu.0 as u32)?;
                let direction = Direction::from(host.other());
                for request in qdisc::requests(index, direction, &queues, loss, scenario.mtu, drawn_from) {
                    netlink.replace(request)?;
                }
                netlink.up(index)?;
                if host == Host::Server {
                    return netlink.route(index, Destination::Any(Address::server(0).v4().into()), &[]);
                }
                let mut to_clients = clients.iter().map(|client| Destination::Network(client.v4()));
                to_clients.try_for_each(|to| netlink.route(index, to, &[]))
            };
            set_up().context(needs_of(&queues))?;
            let arrivals_only = |queue: &Option<LinuxQueue>| {
                queue.filter(|queue| queue.discipline.drops_arrivals_only()).map(|_| 0)
            };
            Ok(Side { tun, index, dropped: queues.queues.iter().map(arrivals_only).collect() })
        };
        let client = side(Host::Client, "client", down, "router.down")?;
        let server = side(Host::Server, "server", up, "router.up")?;
        Ok(Some(Self { server, client, netlink }))
    }

    /// The device towards a host.
    pub fn tun(&self, host: Host) -> &Tun {
        match host {
            Host::Server => &self.server.tun,
            Host::Client => &self.client.tun,
        }
    }

    /// Accepts a packet of `sender` for this class; false if the queue discipline has dropped it on arrival.
    pub fn take(&mut self, sender: Host, class: usize, packet: &[u8]) -> io::Result<bool> {
        let (from, to) = match sender {
            Host::Server => (&self.server, &mut self.client),
            Host::Client => (&self.client, &mut self.server),
        };
        if !from.tun.write(packet) {
            return Err(io::Error::other("the router does not accept a packet"));
        }
        let Some(before) = &mut to.dropped[class] else { return Ok(true) };
        let (_, dropped) = self.netlink.waiting_and_dropped(to.index, qdisc::queue_handle(class))?;
        Ok(dropped == std::mem::replace(before, dropped))
    }

    /// True if no packet of a class waits in the direction of `host`.
    pub fn is_empty(&self, host: Host, class: usize) -> io::Result<bool> {
        let side = if host == Host::Server { &self.server } else { &self.client };
        Ok(self.netlink.waiting_and_dropped(side.index, qdisc::queue_handle(class))?.0 == 0)
    }
}
