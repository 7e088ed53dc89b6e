//! The bytes of packets that real hosts have sent, kept until the last event of the packet.

use etherparse::{IpEcn, SlicedPacket, TransportSlice};
use lasthop_core::{Direction, Ecn, Host, Packet, PacketEvent};
use std::io;

use super::in_flight::InFlight;

#[derive(Debug, Default)]
pub(super) struct Real {
    /// By serial.
    frames: InFlight<u64>,
    scratch: Vec<u8>,
}

impl Real {
    pub(super) fn keep(&mut self, packet: &Packet, bytes: &[u8]) {
        self.frames.keep(packet.serial, bytes);
    }

    /// The packet, with its current mark.
    pub(super) fn bytes(&mut self, packet: &Packet, ecn: Ecn) -> io::Result<&[u8]> {
        let bytes = self.frames.bytes(&packet.serial);
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes.ok_or_else(|| io::Error::other("a packet without bytes"))?);
        if ecn == Ecn::Ce {
            mark_congestion(&mut self.scratch);
        }
        Ok(&self.scratch)
    }

    /// The network of the host at an end of a packet, by its address: real hosts are numbered by networks.
    pub(super) fn network(&self, packet: &Packet, host: Host) -> Option<usize> {
        let bytes = self.frames.bytes(&packet.serial)?;
        let is_source = packet.direction.sender() == host;
        let (source, destination) = match bytes.first()? >> 4 {
            4 => (13, 17),
            6 => (14, 30),
            _ => return None,
        };
        let first = if is_source { source } else { destination };
        let [high, low] = bytes.get(first..first + 2)? else { return None };
        Some(u16::from_be_bytes([*high, *low]).into())
    }

    /// The identification of a packet; zero for IPv6, which has none.
    pub(super) fn identification(&self, packet: &Packet) -> u16 {
        match self.frames.original(&packet.serial) {
            Some([first, _, _, _, high, low, ..]) if *first >> 4 == 4 => u16::from_be_bytes([*high, *low]),
            _ => 0,
        }
    }

    /// The port of the client; zero if there is none.
    pub(super) fn client_port(&self, packet: &Packet) -> u16 {
        let bytes = self.frames.original(&packet.serial).unwrap_or_default();
        let (source, destination) =
            match SlicedPacket::from_ip(bytes).ok().and_then(|packet| packet.transport) {
                Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
                Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
                _ => (0, 0),
            };
        if packet.direction == Direction::Up { source } else { destination }
    }

    pub(super) fn forget(&mut self, packet: &Packet, event: PacketEvent) {
        self.frames.forget(&packet.serial, event);
    }
}

/// Sets the ECN field of an IP packet to "congestion experienced" (RFC 3168, section 5).
pub fn mark_congestion(packet: &mut [u8]) {
    match packet {
        [first, class, _, _, _, _, _, _, _, _, sum_high, sum_low, ..] if *first >> 4 == 4 => {
            let before = u16::from_be_bytes([*first, *class]);
            *class |= IpEcn::CongestionExperienced as u8;
            let after = u16::from_be_bytes([*first, *class]);
            let sum = u16::from_be_bytes([*sum_high, *sum_low]);
            [*sum_high, *sum_low] = sum_after(sum, before, after).to_be_bytes();
        }
        // The traffic class spans the first two bytes; the header has no checksum (RFC 8200).
        [first, second, ..] if *first >> 4 == 6 => *second |= (IpEcn::CongestionExperienced as u8) << 4,
        _ => {}
    }
}

/// The checksum of a header in which this word has changed (RFC 1624, equation 3).
pub fn sum_after(sum: u16, before: u16, after: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (total & 0xffff) + (total >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !(folded as u16)
}
