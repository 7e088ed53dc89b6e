//! From the bytes of a frame to a segment or datagram: link layer, VLAN tags, IP, TCP and UDP.
//!
//! Lengths come from the IP header, so that a packet cut by the snap length counts in full.

use super::reader::Frame;
use etherparse::{EtherType, LaxIpSlice, TcpHeaderSlice, UdpHeaderSlice, ether_type, ip_number, tcp_option};
use lasthop_core::Flags;
use std::net::IpAddr;

/// One end of a flow.
pub(super) type Endpoint = (IpAddr, u16);

/// What a frame carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decoded {
    Transport(TransportPacket),
    /// Neither TCP nor UDP over IP.
    Other,
    /// A fragment of an IP packet. They are not put together again.
    Fragment,
    /// Captured or built too short for its headers.
    Incomplete,
}

/// A packet of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TransportPacket {
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    /// The mark of RFC 3168, section 5.
    pub(super) congestion_experienced: bool,
    /// Payload on the wire, captured or not.
    pub(super) payload_bytes: u64,
    /// TCP, else UDP.
    pub(super) tcp: Option<Header>,
}

/// A TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Header {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    /// As it stands there, not scaled.
    pub(super) window: u16,
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    /// In the order of the option.
    pub(super) sack: [Option<(u32, u32)>; 4],
}

/// What is in a frame; an error if its link type is none that we know.
pub(super) fn decode(frame: &Frame<'_>) -> Result<Decoded, String> {
    let data = frame.data;
    let Some((ether_type, header)) = link_header(frame.link, data)? else { return Ok(Decoded::Incomplete) };
    let (ether_type, header) = skip_vlan_tags(ether_type, header, data);
    Ok(match ether_type {
        ether_type::IPV4 | ether_type::IPV6 => match data.get(header..) {
            Some(packet) => ip(packet, frame.wire_length.saturating_sub(header)),
            None => Decoded::Incomplete,
        },
        _ => Decoded::Other,
    })
}

/// Ether type and length of the link-layer header; `None` if it is not all there. The numbers are those
/// of <https://www.tcpdump.org/linktypes.html>.
fn link_header(link: u32, data: &[u8]) -> Result<Option<(EtherType, usize)>, String> {
    let at = |offset: usize| {
        data.get(offset..offset + 2).map(|two| EtherType(u16::from_be_bytes([two[0], two[1]])))
    };
    Ok(match link {
        // NULL has the address family in the byte order of the capturing host, LOOP in network order;
        // IPv6 has a number of its own on each system.
        0 | 108 => data.first_chunk().map(|family: &[u8; 4]| {
            let family = u32::from_le_bytes(*family).min(u32::from_be_bytes(*family));
            let ether_type = match family {
                2 => ether_type::IPV4,
                10 | 24 | 28 | 30 => ether_type::IPV6,
                _ => EtherType(0),
            };
            (ether_type, 4)
        }),
        1 => at(12).map(|ether_type| (ether_type, 14)),
        // PPP, with or without its HDLC address and control bytes (RFC 1662, section 3.1).
        9 | 50 => {
            let start = if data.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
            at(start).map(|protocol| match protocol.0 {
                0x0021 => (ether_type::IPV4, start + 2),
                0x0057 => (ether_type::IPV6, start + 2),
                _ => (EtherType(0), start + 2),
            })
        }
        // Raw IP; 12 and 14 are what some systems write for 101.
        12 | 14 | 101 | 228 | 229 => data.first().map(|first| match first >> 4 {
            4 => (ether_type::IPV4, 0),
            6 => (ether_type::IPV6, 0),
            _ => (EtherType(0), 0),
        }),
        113 => at(14).map(|ether_type| (ether_type, 16)),
        276 => at(0).map(|ether_type| (ether_type, 20)),
        other => {
            return Err(format!(
                "packets of link type {other}, where raw IP, Ethernet, Linux cooked capture, loopback and PPP \
                 are known"
            ));
        }
    })
}

/// IEEE 802.1Q, single or stacked.
fn skip_vlan_tags(mut ether_type: EtherType, mut header: usize, data: &[u8]) -> (EtherType, usize) {
    while let ether_type::VLAN_TAGGED_FRAME
    | ether_type::PROVIDER_BRIDGING
    | ether_type::VLAN_DOUBLE_TAGGED_FRAME = ether_type
        && let Some(tag) = data.get(header..header + 4)
    {
        ether_type = EtherType(u16::from_be_bytes([tag[2], tag[3]]));
        header += 4;
    }
    (ether_type, header)
}

/// `wire_length` is that of the IP packet and what the link layer may have padded it with.
fn ip(packet: &[u8], wire_length: usize) -> Decoded {
    let Ok((ip, _)) = LaxIpSlice::from_slice(packet) else { return Decoded::Incomplete };
    if ip.is_fragmenting_payload() {
        return Decoded::Fragment;
    }
    let payload = ip.payload();
    let headers = payload.payload.as_ptr().addr() - packet.as_ptr().addr();
    let (traffic_class, stated) = match &ip {
        LaxIpSlice::Ipv4(ip) => (ip.header().ecn().value(), usize::from(ip.header().total_len())),
        LaxIpSlice::Ipv6(ip) => (
            ip.header().traffic_class() & 3,
            match ip.header().payload_length() {
                0 => 0,
                length => 40 + usize::from(length),
            },
        ),
    };
    // Segmentation offload leaves a length of 0 in packets that are longer than the field can say.
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
    let Some(payload_bytes) = transport_bytes.checked_sub(header_bytes) else { return Decoded::Incomplete };
    Decoded::Transport(TransportPacket {
        source: (ip.source_addr(), source_port),
        destination: (ip.destination_addr(), destination_port),
        congestion_experienced: traffic_class == 3,
        payload_bytes: payload_bytes as u64,
        tcp,
    })
}

/// Ports, header length and header; also of a header whose options were cut off.
fn tcp(segment: &[u8]) -> Option<(u16, u16, usize, Option<Header>)> {
    let mut fixed: [u8; 20] = *segment.first_chunk()?;
    let header_bytes = usize::from(fixed[12] >> 4) * 4;
    let options = segment.get(20..header_bytes.min(segment.len()))?;
    fixed[12] = 0x50;
    let tcp = TcpHeaderSlice::from_slice(&fixed).ok()?;
    let mut header = Header {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: Flags::from_bits(fixed[13]),
        window: tcp.window_size(),
        ..Header::default()
    };
    read_options(options, &mut header);
    Some((tcp.source_port(), tcp.destination_port(), header_bytes, Some(header)))
}

/// Not etherparse's iterator, which ends at the first option that it does not know.
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
                            let edge = |at: usize| {
                                u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
                            };
                            *block = Some((edge(0), edge(4)));
                        }
                    }
                    _ => {}
                }
                rest
            }
            _ => return,
        };
    }
}

fn udp(datagram: &[u8]) -> Option<(u16, u16, usize, Option<Header>)> {
    let udp = UdpHeaderSlice::from_slice(datagram.get(..8)?).ok()?;
    Some((udp.source_port(), udp.destination_port(), 8, None))
}
