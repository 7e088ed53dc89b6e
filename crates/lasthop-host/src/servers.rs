//! Several hosts at the far end of the last hop.

use crate::clock::NextWait;
use crate::emulator::HostFlows;
use crate::header::Headers;
use crate::hop::Flows;
use crate::namespace::{HostNamespace, addresses};
use crate::tun::Tun;
use etherparse::IpSlice;
use lasthop_core::{Body, FlowId, Host, Instant, Observer, Packet};
use std::net::IpAddr;

/// The flows between servers and client, and the server of each packet.
pub struct Servers<'a, F> {
    /// The flows.
    pub flows: F,
    tuns: Vec<([IpAddr; 2], &'a Tun)>,
}

impl<'a, F> Servers<'a, F> {
    /// The servers, in the order of their addresses.
    pub fn new(servers: &'a [HostNamespace], flows: F) -> Self {
        Self { flows, tuns: (0..).map(own_addresses).zip(servers.iter().map(|server| &server.tun)).collect() }
    }

    /// The device of the server to which a packet is addressed.
    fn of_packet(&self, bytes: &[u8]) -> Option<&'a Tun> {
        let to = IpSlice::from_slice(bytes).ok()?.destination_addr();
        self.tuns.iter().find(|(own, _)| own.contains(&to)).map(|(_, tun)| *tun)
    }
}

/// The addresses of the server with this number.
pub fn own_addresses(number: u8) -> [IpAddr; 2] {
    let (ipv4, ipv6) = addresses(Host::Server, number);
    [ipv4.into(), ipv6.into()]
}

impl<F: Flows> Flows for Servers<'_, F> {
    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body) {
        self.flows.identify(now, sender, headers, observer)
    }

    fn arrived<O: Observer>(&mut self, now: Instant, host: Host, packet: &Packet, observer: &mut O) {
        self.flows.arrived(now, host, packet, observer);
    }
}

impl<F: Flows> HostFlows for Servers<'_, F> {
    fn hand_over(
        &mut self,
        host: Host,
        _packet: &Packet,
        tun: &Tun,
        bytes: &[u8],
        _: Option<NextWait<'_>>,
    ) -> bool {
        let tun = if host == Host::Server { self.of_packet(bytes).unwrap_or(tun) } else { tun };
        tun.write(bytes)
    }

    fn is_for_neighbour(&mut self, sender: Host, bytes: &[u8]) -> bool {
        let neighbour =
            if sender == Host::Server && self.tuns.len() > 1 { self.of_packet(bytes) } else { None };
        neighbour.is_some_and(|tun| tun.write(bytes))
    }
}
