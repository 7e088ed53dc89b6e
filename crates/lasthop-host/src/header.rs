//! The header fields of a packet that the last hop needs, and the one field that it may change.

use etherparse::{IpEcn, IpSlice, TcpHeaderSlice, UdpHeader, UdpHeaderSlice, ip_number};
use lasthop_core::{Dscp, Ecn, Host};
pub use lasthop_trace::mark_congestion;
use lasthop_trace::sum_after;
use std::net::IpAddr;

#[cfg(test)]
mod tests;

#[derive(Clone, Debug)]
pub struct Headers<'a> {
    /// Source and destination address.
    pub addresses: (IpAddr, IpAddr),
    pub dscp: Dscp,
    pub ecn: Ecn,
    pub transport: Transport<'a>,
}

/// The transport header, if it is readable.
#[derive(Clone, Debug)]
pub enum Transport<'a> {
    /// TCP, with the length of the payload.
    Tcp(TcpHeaderSlice<'a>, u32),
    /// UDP, with the payload.
    Udp(UdpHeaderSlice<'a>, &'a [u8]),
    /// Another protocol, or a truncated header.
    Other,
    /// A fragment of an IP packet, including a first fragment.
    Fragment,
}

/// Why a packet cannot cross the last hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not an IP packet, or a packet whose length differs from its header.
    Malformed,
    /// A multicast or broadcast packet, or one with a link-local address: a router does not forward it.
    LinkLocal,
}

impl<'a> Headers<'a> {
    pub fn read(packet: &'a [u8]) -> Result<Self, Refusal> {
        let ip = IpSlice::from_slice(packet).map_err(|_| Refusal::Malformed)?;
        let addresses = (ip.source_addr(), ip.destination_addr());
        if !routed(addresses.0, addresses.1) {
            return Err(Refusal::LinkLocal);
        }
        let (dscp, ecn) = match &ip {
            IpSlice::Ipv4(ip) => (ip.header().dcp(), ip.header().ecn()),
            IpSlice::Ipv6(ip) => (ip.header().dscp(), ip.header().ecn()),
        };
        Ok(Self {
            addresses,
            dscp: Dscp::from_bits(dscp.value()),
            ecn: ecn_of(ecn as u8),
            transport: Transport::read(&ip),
        })
    }
}

impl<'a> Transport<'a> {
    fn read(ip: &IpSlice<'a>) -> Self {
        let payload = ip.payload();
        if payload.fragmented {
            return Self::Fragment;
        }
        let bytes = payload.payload;
        match payload.ip_number {
            ip_number::TCP => TcpHeaderSlice::from_slice(bytes).map_or(Self::Other, |header| {
                let length = bytes.len() - header.slice().len();
                Self::Tcp(header, length as u32)
            }),
            ip_number::UDP => UdpHeaderSlice::from_slice(bytes)
                .map_or(Self::Other, |header| Self::Udp(header, &bytes[UdpHeader::LEN..])),
            _ => Self::Other,
        }
    }

    /// Source and destination port.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match self {
            Self::Tcp(header, _) => Some((header.source_port(), header.destination_port())),
            Self::Udp(header, _) => Some((header.source_port(), header.destination_port())),
            Self::Other | Self::Fragment => None,
        }
    }

    /// The ports of the server and of the client in a packet that `sender` sends; 0 if there are none.
    pub fn server_and_client_port(&self, sender: Host) -> (u16, u16) {
        let (source, destination) = self.ports().unwrap_or_default();
        if sender == Host::Server { (source, destination) } else { (destination, source) }
    }
}

/// A port of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Port {
    Source,
    Destination,
}

/// Source and destination port of a packet, if it has any.
pub fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    Transport::read(&IpSlice::from_slice(packet).ok()?).ports()
}

/// Gives a TCP or UDP packet another port, and the checksum that follows from it (RFC 1624).
pub fn replace_port(packet: &mut [u8], which: Port, port: u16) {
    let Ok(ip) = IpSlice::from_slice(packet) else { return };
    let sum_at = match Transport::read(&ip) {
        Transport::Udp(..) => 6,
        Transport::Tcp(..) => 16,
        Transport::Other | Transport::Fragment => return,
    };
    let begin = packet.len() - ip.payload().payload.len();
    let header = &mut packet[begin..];
    let read = |header: &[u8], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (at, sum) = (2 * which as usize, read(header, sum_at));
    let sum = match sum_after(sum, read(header, at), port) {
        // Zero means no checksum of UDP (RFC 768).
        _ if sum == 0 && sum_at == 6 => 0,
        0 if sum_at == 6 => u16::MAX,
        sum => sum,
    };
    header[at..at + 2].copy_from_slice(&port.to_be_bytes());
    header[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// True if `got` is the packet `sent` after a router, which decrements the time to live (RFC 1812, section
/// 5.3.1) and may mark the packet (RFC 3168).
pub fn is_same(sent: &[u8], got: &[u8]) -> bool {
    // Time to live and checksum, or the hop limit of IPv6.
    let changes: &[usize] =
        if sent.first().is_some_and(|first| first >> 4 == 4) { &[8, 10, 11] } else { &[7] };
    let same = |(index, (a, b)): (usize, (&u8, &u8))| {
        a == b || changes.contains(&index) || (index == 1 && is_marked(got) && *a | 0b11 == *b)
    };
    sent.len() == got.len() && sent.iter().zip(got).enumerate().all(same)
}

/// True if an IPv4 packet has the congestion-experienced mark (RFC 3168, section 5).
pub fn is_marked(packet: &[u8]) -> bool {
    matches!(packet, [first, class, ..]
        if *first >> 4 == 4 && class & 0b11 == IpEcn::CongestionExperienced as u8)
}

/// The ECN field in the lowest bits of a byte, as in the traffic class (RFC 3168, section 5).
pub fn ecn_of(class: u8) -> Ecn {
    let fields = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    fields[usize::from(class & 0b11)]
}

fn routed(source: IpAddr, destination: IpAddr) -> bool {
    let stays = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast() || address.is_multicast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    };
    !stays(source) && !stays(destination)
}
