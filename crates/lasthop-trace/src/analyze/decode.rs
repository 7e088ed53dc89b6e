//! From the bytes of a frame to a segment or datagram: IP, TCP and UDP.
//!
//! Lengths come from the IP header, so that a packet truncated by the snap length counts in full.

use super::composition::{Layers, Network, Upper};
use etherparse::{LaxIpSlice, TcpHeaderSlice, UdpHeaderSlice, ip_number, tcp_option};
use lasthop_capture::{Carried, Frame, carried};
use lasthop_core::Flags;
use std::net::IpAddr;

pub type Endpoint = (IpAddr, u16);

/// QUIC's headers and the first encrypted bytes, which no two packets share.
const DIGESTED: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decoded {
    Transport(TransportPacket),
    /// Neither TCP nor UDP over IP.
    Other,
    /// A fragment of an IP packet. Fragments are not reassembled.
    Fragment,
    /// Captured or built too short for its headers.
    Incomplete,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TransportPacket {
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    /// True if it has the congestion-experienced mark (RFC 3168, section 5).
    pub(super) congestion_experienced: bool,
    /// Payload on the wire, captured or not.
    pub(super) payload_bytes: u64,
    /// Identifies a UDP datagram by what the capture has of its payload.
    pub(super) digest: u32,
    pub(super) tcp: Option<Header>,
}

/// Both ends of a flow, the lower one first, and whether it is TCP.
pub(super) type FlowKey = (Endpoint, Endpoint, bool);

impl TransportPacket {
    pub(super) fn key(&self) -> FlowKey {
        let (source, destination) = (self.source, self.destination);
        (source.min(destination), source.max(destination), self.tcp.is_some())
    }

    /// The sequence number of a SYN that opens a connection.
    pub(super) fn opening(&self) -> Option<u32> {
        let header = self.tcp.as_ref()?;
        let opens = header.flags.contains(Flags::SYN) && !header.flags.contains(Flags::ACK);
        opens.then_some(header.seq)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Header {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    /// Length with options, and whether the capture has less of it.
    pub(super) length: u8,
    pub(super) is_cut: bool,
    /// As in the header, not scaled.
    pub(super) window: u16,
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    /// In the order of the option.
    pub(super) sack: [Option<(u32, u32)>; 4],
    /// Timestamp and its echo (RFC 7323).
    pub(super) stamps: Option<(u32, u32)>,
}

/// The protocols of a frame and what it carries; an error if its link type is unknown.
pub(super) fn decode(frame: &Frame<'_>) -> Result<(Layers, Decoded), String> {
    Ok(match carried(frame)? {
        Carried::Ip { packet, wire_length } => ip(packet, wire_length),
        Carried::Other(ether_type) => {
            (Layers { network: Network::of(ether_type), upper: None }, Decoded::Other)
        }
        Carried::Incomplete => (Layers { network: Network::Incomplete, upper: None }, Decoded::Incomplete),
    })
}

/// `wire_length` is that of the IP packet and what the link layer may have padded it with.
fn ip(packet: &[u8], wire_length: usize) -> (Layers, Decoded) {
    let Ok((ip, _)) = LaxIpSlice::from_slice(packet) else {
        return (Layers { network: Network::Incomplete, upper: None }, Decoded::Incomplete);
    };
    let network = if matches!(ip, LaxIpSlice::Ipv4(_)) { Network::Ip } else { Network::Ipv6 };
    if ip.is_fragmenting_payload() {
        return (Layers { network, upper: Some(Upper::Fragment) }, Decoded::Fragment);
    }
    let upper = Some(Upper::Protocol(ip.payload().ip_number));
    (Layers { network, upper }, content(&ip, packet, wire_length))
}

/// The content of an unfragmented IP packet.
fn content(ip: &LaxIpSlice<'_>, packet: &[u8], wire_length: usize) -> Decoded {
    let payload = ip.payload();
    let headers = payload.payload.as_ptr().addr() - packet.as_ptr().addr();
    let (traffic_class, stated) = match ip {
        LaxIpSlice::Ipv4(ip) => (ip.header().ecn().value(), usize::from(ip.header().total_len())),
        LaxIpSlice::Ipv6(ip) => (
            ip.header().traffic_class() & 3,
            match ip.header().payload_length() {
                0 => 0,
                length => 40 + usize::from(length),
            },
        ),
    };
    // Segmentation offload leaves a length of 0 in packets that are too long for the field.
    let length = if stated == 0 { wire_length } else { stated };
    let Some(transport_bytes) = length.checked_sub(headers) else { return Decoded::Incomplete };
    let transport = match payload.ip_number {
        ip_number::TCP => tcp(payload.payload),
        ip_number::UDP => udp(payload.payload),
        _ => return Decoded::Other,
    };
    let Some((source_port, destination_port, header_bytes, tcp)) = transport else {
        return Decoded::Incomplete;
    };
    let captured = &payload.payload[..payload.payload.len().min(transport_bytes)];
    let digest = if tcp.is_none() { digest(captured.get(8..).unwrap_or_default()) } else { 0 };
    let Some(payload_bytes) = transport_bytes.checked_sub(header_bytes) else { return Decoded::Incomplete };
    Decoded::Transport(TransportPacket {
        source: (ip.source_addr(), source_port),
        destination: (ip.destination_addr(), destination_port),
        congestion_experienced: traffic_class == 3,
        payload_bytes: payload_bytes as u64,
        digest,
        tcp,
    })
}

/// Ports, header length and header; also for a header with truncated options.
fn tcp(segment: &[u8]) -> Option<(u16, u16, usize, Option<Header>)> {
    let mut fixed: [u8; 20] = *segment.first_chunk()?;
    let header_bytes = usize::from(fixed[12] >> 4) * 4;
    let options = segment.get(20..header_bytes.min(segment.len()))?;
    let flags = Flags::from_bits(u16::from_be_bytes([fixed[12], fixed[13]]));
    fixed[12] = 0x50;
    let tcp = TcpHeaderSlice::from_slice(&fixed).ok()?;
    let mut header = Header {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags,
        window: tcp.window_size(),
        length: header_bytes as u8,
        is_cut: segment.len() < header_bytes,
        ..Header::default()
    };
    read_options(options, &mut header);
    Some((tcp.source_port(), tcp.destination_port(), header_bytes, Some(header)))
}

/// etherparse's iterator would end at the first unknown option.
fn read_options(mut options: &[u8], header: &mut Header) {
    loop {
        options = match options {
            [tcp_option::KIND_NOOP, rest @ ..] => rest,
            [tcp_option::KIND_END, ..] => return,
            &[kind, length, ..] if length >= 2 && usize::from(length) <= options.len() => {
                let (option, rest) = options.split_at(length.into());
                match (kind, &option[2..]) {
                    (tcp_option::KIND_MAXIMUM_SEGMENT_SIZE, &[high, low]) => {
                        header.mss = Some(u16::from_be_bytes([high, low]));
                    }
                    (tcp_option::KIND_WINDOW_SCALE, &[shift]) => header.window_scale = Some(shift),
                    (tcp_option::KIND_SELECTIVE_ACK, blocks) => {
                        for (block, bytes) in header.sack.iter_mut().zip(blocks.chunks_exact(8)) {
                            *block = Some(pair(bytes));
                        }
                    }
                    (tcp_option::KIND_TIMESTAMP, stamps) if stamps.len() == 8 => {
                        header.stamps = Some(pair(stamps));
                    }
                    _ => {}
                }
                rest
            }
            _ => return,
        };
    }
}

fn pair(bytes: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (word(0), word(4))
}

fn udp(datagram: &[u8]) -> Option<(u16, u16, usize, Option<Header>)> {
    let udp = UdpHeaderSlice::from_slice(datagram.get(..8)?).ok()?;
    Some((udp.source_port(), udp.destination_port(), 8, None))
}

/// FNV-1a of at most [`DIGESTED`] bytes, so that captures with different snap lengths agree.
fn digest(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().take(DIGESTED).fold(0x811c_9dc5, step)
}
