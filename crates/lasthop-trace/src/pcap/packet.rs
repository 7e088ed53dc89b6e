//! The bytes of a modelled packet: IPv4 header, TCP or UDP header, options, payload. A datagram's payload
//! begins with its number, 8 bytes in network order; a shorter payload has the last of these bytes. A
//! connection of a page load carries its requests and responses, and QUIC carries its real bytes. All other
//! payload is zeros.

use etherparse::{IpDscp, IpEcn, IpFragOffset, Ipv4Header, TcpHeader, UdpHeader, ip_number, tcp_option};
use lasthop_core::{Body, Direction, Ecn, EcnOption, Flags, FlowId, Packet, Segment};
use std::io;

use super::http::Messages;
use super::in_flight::InFlight;

/// The client's port of flow 0; the range is one that tshark does not assign to an application.
const CLIENT_PORT: u16 = 20_001;
const FLOWS: u32 = 10_000;
/// Initial sequence numbers of flow 0, and their distance from flow to flow.
const SERVER_ISN: u32 = 1_000_000_000;
const CLIENT_ISN: u32 = 2_000_000_000;
const ISN_STEP: u32 = 1_000_000;
/// A larger shift count is treated as this one (RFC 7323, section 2.3).
const MAX_SHIFT: u8 = 14;
/// Linux' initial time to live.
const TTL: u8 = 64;

/// The addresses of the two ends of a flow; shown as `server 10.0.0.1:30001, client 10.0.1.1:20001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub server_port: u16,
    pub client_port: u16,
}

impl Addresses {
    /// The ports of `flow`, whose server has `server_port`; an error from the 10 000th flow on.
    pub fn of(flow: FlowId, server_port: u16) -> io::Result<Self> {
        if flow.0 >= FLOWS {
            return Err(unrepresentable("captures have ports for 10 000 flows"));
        }
        Ok(Self { server_port, client_port: CLIENT_PORT + flow.0 as u16 })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Number of routers that have decremented its TTL.
    pub(super) routers: u8,
    /// The addresses of the server and of the client.
    pub(super) ends: [[u8; 4]; 2],
}

/// Flow, direction and number of a QUIC datagram.
type QuicKey = (FlowId, Direction, u64);

#[derive(Debug, Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    options: Vec<u8>,
    payload: Vec<u8>,
    scaling: Scaling,
    pub(super) messages: Messages,
    pub(super) quic: InFlight<QuicKey>,
}

impl Builder {
    /// The packet on the wire, `packet.ip_bytes` long, with this `ecn`; an error if headers cannot express
    /// it.
    pub(super) fn build(&mut self, packet: &Packet, ecn: Ecn, seen: Seen) -> io::Result<&[u8]> {
        let ip = ip_header(packet, ecn, seen)?;
        self.bytes.clear();
        ip.write_raw(&mut self.bytes)?;
        match &packet.body {
            Body::Tcp(segment) => {
                fill(&mut self.payload, segment.payload_bytes);
                self.messages.write(packet.flow, packet.direction, segment.seq, &mut self.payload);
                self.scaling.learn(packet, segment);
                let window = self.scaling.field(packet, segment);
                tcp_header(packet, segment, window, &ip, &self.payload, &mut self.options)?
                    .write(&mut self.bytes)?;
            }
            Body::Udp(datagram) => {
                fill(&mut self.payload, datagram.payload_bytes);
                let number = datagram.number.to_be_bytes();
                let shown = self.payload.len().min(number.len());
                self.payload[..shown].copy_from_slice(&number[number.len() - shown..]);
                udp_header(packet, &ip, &self.payload)?.write(&mut self.bytes)?;
            }
            Body::Quic(datagram) => {
                let bytes = self.quic.bytes(&(packet.flow, packet.direction, datagram.number));
                self.payload.clear();
                self.payload
                    .extend_from_slice(bytes.ok_or_else(|| unrepresentable("a datagram without bytes"))?);
                udp_header(packet, &ip, &self.payload)?.write(&mut self.bytes)?;
            }
        }
        self.bytes.extend_from_slice(&self.payload);
        if self.bytes.len() != packet.ip_bytes as usize {
            return Err(unrepresentable("a packet's headers and payload do not add up to its IP length"));
        }
        Ok(&self.bytes)
    }
}

/// The key of a QUIC datagram in flight; none for other packets.
pub(super) fn quic_key(packet: &Packet) -> Option<QuicKey> {
    let Body::Quic(datagram) = &packet.body else { return None };
    Some((packet.flow, packet.direction, datagram.number))
}

fn fill(payload: &mut Vec<u8>, payload_bytes: u32) {
    payload.clear();
    payload.resize(payload_bytes as usize, 0);
}

/// The window scale options of each flow's SYNs, from the server and from the client.
#[derive(Debug, Default)]
struct Scaling {
    flows: Vec<[Option<u8>; 2]>,
}

impl Scaling {
    fn learn(&mut self, packet: &Packet, segment: &Segment) {
        if let Some(shift) = segment.window_scale {
            let index = packet.flow.0 as usize;
            if self.flows.len() <= index {
                self.flows.resize(index + 1, [None; 2]);
            }
            self.flows[index][packet.direction as usize] = Some(shift.min(MAX_SHIFT));
        }
    }

    /// The window field. On a SYN it is never scaled; later it is scaled only if both ends sent the option
    /// (RFC 7323, section 2.2). A window that is too large is shown as the largest possible one.
    fn field(&self, packet: &Packet, segment: &Segment) -> u16 {
        let shift = match self.flows.get(packet.flow.0 as usize) {
            Some(shifts @ [Some(_), Some(_)]) if !segment.flags.contains(Flags::SYN) => {
                shifts[packet.direction as usize].unwrap_or(0)
            }
            _ => 0,
        };
        u16::try_from(segment.window_bytes >> shift).unwrap_or(u16::MAX)
    }
}

/// The low 16 bits of the packet's serial: the same at every point, but different for each transmission.
pub(super) fn identification(packet: &Packet) -> u16 {
    packet.serial as u16
}

fn ip_header(packet: &Packet, ecn: Ecn, seen: Seen) -> io::Result<Ipv4Header> {
    let [server, client] = seen.ends;
    let (source, destination) = by_direction(packet, server, client);
    let mut header = Ipv4Header {
        total_len: u16::try_from(packet.ip_bytes)
            .map_err(|_| unrepresentable("a packet is longer than an IPv4 packet can be"))?,
        identification: identification(packet),
        dscp: IpDscp::try_new(packet.dscp.get()).map_err(io::Error::other)?,
        ecn: IpEcn::try_new(ecn.bits()).map_err(io::Error::other)?,
        // Linux sets it for TCP (path MTU discovery); the model never fragments.
        dont_fragment: true,
        fragment_offset: IpFragOffset::ZERO,
        time_to_live: TTL.saturating_sub(seen.routers),
        protocol: if let Body::Tcp(_) = packet.body { ip_number::TCP } else { ip_number::UDP },
        source,
        destination,
        ..Ipv4Header::default()
    };
    header.header_checksum = header.calc_header_checksum();
    Ok(header)
}

/// Source and destination port.
fn ports(packet: &Packet) -> io::Result<(u16, u16)> {
    let Addresses { server_port, client_port } = Addresses::of(packet.flow, packet.server_port)?;
    Ok(by_direction(packet, server_port, client_port))
}

/// Of the server's and the client's, those of the sender and of the receiver.
fn by_direction<T>(packet: &Packet, server: T, client: T) -> (T, T) {
    match packet.direction {
        Direction::Down => (server, client),
        Direction::Up => (client, server),
    }
}

fn udp_header(packet: &Packet, ip: &Ipv4Header, payload: &[u8]) -> io::Result<UdpHeader> {
    let (source, destination) = ports(packet)?;
    UdpHeader::with_ipv4_checksum(source, destination, ip, payload).map_err(io::Error::other)
}

fn tcp_header(
    packet: &Packet,
    segment: &Segment,
    window_size: u16,
    ip: &Ipv4Header,
    payload: &[u8],
    buffer: &mut Vec<u8>,
) -> io::Result<TcpHeader> {
    let (source_port, destination_port) = ports(packet)?;
    let step = packet.flow.0.wrapping_mul(ISN_STEP);
    let (server, client) = (SERVER_ISN.wrapping_add(step), CLIENT_ISN.wrapping_add(step));
    let (own, peer) = by_direction(packet, server, client);
    let has = |flag| segment.flags.contains(flag);
    let mut header = TcpHeader {
        source_port,
        destination_port,
        sequence_number: folded(own, segment.seq),
        acknowledgment_number: if has(Flags::ACK) { folded(peer, segment.ack) } else { 0 },
        fin: has(Flags::FIN),
        syn: has(Flags::SYN),
        rst: has(Flags::RST),
        psh: has(Flags::PSH),
        ack: has(Flags::ACK),
        ns: has(Flags::AE),
        ece: has(Flags::ECE),
        cwr: has(Flags::CWR),
        window_size,
        ..TcpHeader::default()
    };
    write_options(segment, peer, buffer);
    header
        .set_options_raw(buffer)
        .map_err(|_| unrepresentable("a segment has more than 40 bytes of TCP options"))?;
    header.checksum = header.calc_checksum_ipv4(ip, payload).map_err(io::Error::other)?;
    Ok(header)
}

fn folded(initial: u32, offset: u64) -> u32 {
    initial.wrapping_add(offset as u32)
}

/// The options, each padded in front to four bytes, as [`Segment::ip_bytes`] counts them; in Linux' order.
/// SACK-permitted may occupy the padding of the timestamps option. The blocks of a SACK option refer to the
/// peer's stream.
fn write_options(segment: &Segment, peer: u32, bytes: &mut Vec<u8>) {
    const PAD: [u8; 2] = [tcp_option::KIND_NOOP; 2];
    const SACK_PERMITTED: [u8; 2] =
        [tcp_option::KIND_SELECTIVE_ACK_PERMITTED, tcp_option::LEN_SELECTIVE_ACK_PERMITTED];
    let ecn = segment.ecn_option();
    bytes.clear();
    if let Some(mss) = segment.mss {
        bytes.extend([tcp_option::KIND_MAXIMUM_SEGMENT_SIZE, tcp_option::LEN_MAXIMUM_SEGMENT_SIZE]);
        bytes.extend(mss.get().to_be_bytes());
    }
    let is_apart = segment.sack_permitted && !segment.shares_padding();
    if is_apart && segment.timestamps.is_some() {
        bytes.extend(PAD);
        bytes.extend(SACK_PERMITTED);
    }
    if let Some(timestamps) = segment.timestamps {
        bytes.extend(if segment.shares_padding() { SACK_PERMITTED } else { PAD });
        bytes.extend([tcp_option::KIND_TIMESTAMP, tcp_option::LEN_TIMESTAMP]);
        bytes.extend(timestamps.value.to_be_bytes());
        bytes.extend(timestamps.echo.to_be_bytes());
    }
    if let Some(ecn) = &ecn {
        let padding = EcnOption::bytes(ecn.fields, !segment.sack.is_empty());
        write_ecn(ecn, padding, bytes);
    }
    if is_apart && segment.timestamps.is_none() {
        bytes.extend(PAD);
        bytes.extend(SACK_PERMITTED);
    }
    if let Some(shift) = segment.window_scale {
        bytes.extend([
            tcp_option::KIND_NOOP,
            tcp_option::KIND_WINDOW_SCALE,
            tcp_option::LEN_WINDOW_SCALE,
            shift,
        ]);
    }
    if !segment.sack.is_empty() {
        bytes.extend(&PAD[bytes.len() % 4..]);
        bytes.extend([tcp_option::KIND_SELECTIVE_ACK, 2 + 8 * segment.sack.len() as u8]);
        for block in segment.sack.as_slice() {
            bytes.extend(folded(peer, block.start).to_be_bytes());
            bytes.extend(folded(peer, block.end).to_be_bytes());
        }
    }
}

/// The option of accurate ECN, padded behind, as Linux does. Beside SACK blocks it may run into their
/// padding.
fn write_ecn(option: &EcnOption, padded: u32, bytes: &mut Vec<u8>) {
    let begin = bytes.len();
    bytes.extend([option.kind(), option.length()]);
    for count in &option.counts[..usize::from(option.fields)] {
        bytes.extend(&count.to_be_bytes()[1..]);
    }
    let end = begin + padded as usize;
    if bytes.len() < end {
        bytes.resize(end, tcp_option::KIND_NOOP);
    }
}

fn unrepresentable(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
