//! Packets as plain values, and the arena of the packets in flight.
//!
//! Sequence numbers are 64-bit stream offsets that never wrap: the SYN occupies 0, the first data
//! byte is 1. Captures fold them into 32 bits; the models never compare modulo 2^32.

use std::fmt;
use std::num::{NonZeroU16, NonZeroU64};
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dscp, EcnOption, Instant, Protocol};

/// A flow of the run: one TCP connection or one UDP stream, in the order in which they were announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// A pseudo-flow for packets that belong to no flow, between the hosts of the application with this number.
    #[must_use]
    pub const fn stranger(application: u32) -> Self {
        Self(u32::MAX - application)
    }

    /// The application of [`FlowId::stranger`].
    #[must_use]
    pub const fn application_of_stranger(self) -> u32 {
        u32::MAX - self.0
    }

    /// The side of a flow through a relay that has the flow's end at `host`. Both sides follow the flow.
    #[must_use]
    pub const fn side(self, host: Host) -> Self {
        Self(self.0 + 1 + host as u32)
    }

    /// The flow of which this is a side; the relay is its end at `host`.
    #[must_use]
    pub const fn whole(self, host: Host) -> Self {
        Self(self.0 - 1 - host.other() as u32)
    }

    /// True for [`FlowId::stranger`].
    #[must_use]
    pub const fn is_stranger(self) -> bool {
        self.0 > u32::MAX / 2
    }
}

/// An end of every flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// The server.
    Server,
    /// The client.
    Client,
}

impl Host {
    /// The host at the other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Server => Self::Client,
            Self::Client => Self::Server,
        }
    }
}

/// Direction of a packet over the last hop.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the server towards the client.
    #[default]
    Down,
    /// From the client towards the server.
    Up,
}

impl Direction {
    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }

    /// The host whose packets travel in this direction.
    pub const fn sender(self) -> Host {
        match self {
            Self::Down => Host::Server,
            Self::Up => Host::Client,
        }
    }
}

/// The direction of the packets that a host sends.
impl From<Host> for Direction {
    fn from(sender: Host) -> Self {
        match sender {
            Host::Server => Self::Down,
            Host::Client => Self::Up,
        }
    }
}

/// One direction of a hop, by number; the numbers are those of the network's parts. With a single hop, they
/// are those of the directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u16);

impl From<Direction> for Place {
    fn from(direction: Direction) -> Self {
        Self(direction as u16)
    }
}

/// The ECN field of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotEct,
    /// ECN-capable transport, codepoint ECT(0).
    Ect0,
    /// ECN-capable transport, codepoint ECT(1): for queues of low latency (RFC 9331).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// One packet: the fields that a capture would show, and the serial number of the transmission.
// The order keeps the fields that nearly every event reads together, and SACK blocks last. With this
// alignment those fields lie in two cache lines of an arena, never in three.
#[repr(C, align(32))]
#[derive(Clone, Debug)]
pub struct Packet {
    /// Serial number of this transmission in the run; a retransmission has its own.
    pub serial: u64,
    pub flow: FlowId,
    /// Length of the IP packet in bytes, IP header included.
    pub ip_bytes: u32,
    pub direction: Direction,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// True for a copy that the link made: it follows the packet with the same serial number.
    pub is_copy: bool,
    /// Code point in the DS field of the IP header.
    pub dscp: Dscp,
    /// Transport port of the server: the source on the way down, the destination on the way up.
    pub server_port: u16,
    /// The place that it crosses, if the network has several hops.
    pub place: Place,
    /// When it entered the router queue; [`Instant::MAX`] unless it waits there or is leaving at this moment.
    pub queued_at: Instant,
    /// The content of the IP packet.
    pub body: Body,
}

// Thousands of packets are in flight, and they cost time once they exceed the caches: think twice before this
// struct grows.
const _: () = assert!(size_of::<Packet>() == 160);

/// Transport header and payload length of a packet.
// A separate tag, outside of the header, lets a body be copied in whole words.
#[repr(u8)]
#[derive(Clone, Debug)]
pub enum Body {
    Tcp(Segment),
    /// A UDP datagram.
    Udp(Datagram),
    /// A UDP datagram with QUIC inside.
    Quic(QuicDatagram),
}

impl Default for Body {
    fn default() -> Self {
        Self::Tcp(Segment::default())
    }
}

impl Ecn {
    /// The two bits of the IP header.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

impl Body {
    /// Turns the body into a segment and returns it to be written in place: copying a segment that was just
    /// written is slow.
    pub fn make_tcp(&mut self) -> &mut Segment {
        if !matches!(self, Self::Tcp(_)) {
            *self = Self::default();
        }
        let Self::Tcp(segment) = self else { unreachable!("it was made one") };
        segment
    }

    /// The protocol that a router sees: it sees QUIC as UDP.
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Tcp(_) => Protocol::Tcp,
            Self::Udp(_) | Self::Quic(_) => Protocol::Udp,
        }
    }

    /// Payload in bytes.
    pub const fn payload_bytes(&self) -> u32 {
        match self {
            Self::Tcp(segment) => segment.payload_bytes,
            Self::Udp(datagram) => datagram.payload_bytes,
            Self::Quic(datagram) => datagram.stream_bytes,
        }
    }

    /// Its position among the packets of its sender: the sequence number of TCP, the byte of QUIC's stream,
    /// or the number of the datagram.
    pub fn place(&self) -> Range<u64> {
        match self {
            Self::Tcp(segment) => segment.seq..segment.end(),
            Self::Udp(datagram) => datagram.number..datagram.number + 1,
            Self::Quic(datagram) => datagram.place(),
        }
    }
}

impl Packet {
    /// The TCP segment inside, if it is one.
    pub fn tcp(&self) -> Option<&Segment> {
        if let Body::Tcp(segment) = &self.body { Some(segment) } else { None }
    }
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Number of the datagram in its stream, from 0.
    pub number: u64,
    /// Payload in bytes, without the 8-byte UDP header.
    pub payload_bytes: u32,
}

impl Datagram {
    /// IPv4 and UDP headers together.
    pub const HEADER_BYTES: u32 = 28;
}

/// A UDP datagram with QUIC packets inside, and its sender's knowledge of the stream that they carry.
/// Positions in the stream are counted as in TCP: the first byte is 1, and the end of the stream occupies one
/// position after the last byte. On a connection with many streams, "the stream" is the concatenation of
/// everything that the sender writes; it then has no end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicDatagram {
    /// Number of the datagram in its direction, from 0.
    pub number: u64,
    /// Payload of UDP in bytes.
    pub payload_bytes: u32,
    /// Bytes of the stream or of datagrams in it.
    pub stream_bytes: u32,
    /// The first position that has not reached the sender of this packet, like TCP's acknowledgment number.
    pub ack: u64,
    /// Position of the end of the stream, if the packet carries the end.
    pub end: Option<NonZeroU64>,
    /// The address of the client that it comes from or goes to: the number of moves of that host before.
    pub address: u16,
    /// The first four parts of the stream in it; there may be more.
    pub blocks: SackList,
    /// The first part with bytes that were sent before, if there is one. It need not be among the first four.
    pub repeated: Option<u8>,
    /// For a flow of datagrams (RFC 9221): the range of the numbers of the datagrams in it, the end excluded.
    pub datagrams: [u32; 2],
}

impl QuicDatagram {
    /// The numbers of the application's datagrams in it.
    pub fn numbers(&self) -> Range<u64> {
        let [first, end] = self.datagrams.map(u64::from);
        first..end
    }

    fn place(&self) -> Range<u64> {
        self.blocks.as_slice().first().map_or(self.numbers(), |block| block.start..block.end)
    }
}

/// TCP header flags (RFC 9293, section 3.1; RFC 3168 for ECE and CWR, RFC 9768 for AE).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);
    /// Accurate ECN.
    pub const AE: Self = Self(0x100);
    const ACE_SHIFT: u32 = 6;

    /// True if every flag of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the flags of another.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The flags of the nine bits at the end of the header's bytes 12 and 13.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The flag byte as on the wire. It does not contain AE.
    pub const fn byte(self) -> u8 {
        self.0 as u8
    }

    /// AE, CWR and ECE as one number: the ACE field (RFC 9768, section 3.2.2).
    pub const fn ace(self) -> u8 {
        (self.0 >> Self::ACE_SHIFT) as u8
    }

    /// The ACE field with the three least significant bits of a counter.
    pub const fn from_ace(counter: u8) -> Self {
        Self(((counter & 0b111) as u16) << Self::ACE_SHIFT)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SYN, 'S'),
            (Self::FIN, 'F'),
            (Self::RST, 'R'),
            (Self::PSH, 'P'),
            (Self::ACK, '.'),
            (Self::ECE, 'E'),
            (Self::CWR, 'W'),
            (Self::AE, 'A'),
        ];
        names.iter().filter(|(flag, _)| self.contains(*flag)).try_for_each(|(_, c)| write!(f, "{c}"))
    }
}

/// The timestamps option (RFC 7323, section 3): values in ticks of the sender's timestamp clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`.
    pub value: u32,
    /// `TSecr`; 0 while nothing has been received.
    pub echo: u32,
}

/// A contiguous block of received bytes, `start` inclusive, `end` exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First byte of the block.
    pub start: u64,
    /// First byte after the block.
    pub end: u64,
}

/// The blocks of a SACK option (RFC 2018), the most recent first; at most four fit the option.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SackList {
    len: u8,
    /// For an ECN option in addition to the blocks: its presence, order, and number of counters. The
    /// counters lie in the last entry: an option that has any leaves no room for four blocks.
    option: u8,
    /// Other entries after the first `len` are undefined.
    blocks: [SackBlock; Self::CAPACITY],
}

impl PartialEq for SackList {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice() && self.ecn_option() == other.ecn_option()
    }
}

impl Eq for SackList {}

impl SackList {
    /// Maximum number of blocks that fit in 40 bytes of TCP options.
    pub const CAPACITY: usize = 4;
    const OPTION: u8 = 0x80;
    const ORDER_1: u8 = 0x40;
    const FIELDS: u8 = 0x03;

    /// Appends a block; ignored once the list is full.
    pub fn push(&mut self, block: SackBlock) {
        if self.len() < Self::CAPACITY - usize::from(self.option & Self::FIELDS > 0) {
            self.blocks[self.len()] = block;
            self.len += 1;
        }
    }

    /// Keeps the first `len` blocks.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len as u8);
    }

    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are no blocks, so that the option is absent.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if there are neither blocks nor an ECN option.
    const fn takes_no_room(&self) -> bool {
        self.len | self.option == 0
    }

    fn ecn_option(&self) -> Option<EcnOption> {
        if self.option == 0 {
            return None;
        }
        let SackBlock { start, end } = self.blocks[Self::CAPACITY - 1];
        let (first, second) = (start as u32, (start >> 32) as u32);
        Some(EcnOption {
            fields: self.option & Self::FIELDS,
            is_order_1: self.option & Self::ORDER_1 != 0,
            counts: if self.option & Self::FIELDS == 0 { [0; 3] } else { [first, second, end as u32] },
        })
    }

    fn set_ecn_option(&mut self, option: &EcnOption) {
        let EcnOption { fields, is_order_1, mut counts } = *option;
        self.option = Self::OPTION | fields | if is_order_1 { Self::ORDER_1 } else { 0 };
        if fields > 0 {
            self.truncate(Self::CAPACITY - 1);
            counts[usize::from(fields)..].fill(0);
            let [first, second, third] = counts.map(u64::from);
            self.blocks[Self::CAPACITY - 1] = SackBlock { start: first | second << 32, end: third };
        }
    }

    /// Bytes of both options with their padding.
    fn bytes(&self) -> u32 {
        let blocks = if self.is_empty() { 0 } else { 4 + 8 * u32::from(self.len) };
        let fields = self.option & Self::FIELDS;
        blocks + if self.option == 0 { 0 } else { EcnOption::bytes(fields, !self.is_empty()) }
    }

    /// The same blocks in the order of sequence numbers.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.blocks[..self.len as usize].sort_unstable_by_key(|block| block.start);
        self
    }

    /// The blocks in the order of the option.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..self.len()]
    }
}

/// A TCP segment: header fields, options, and the length of its payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Stream offset of the first byte (of the SYN, if set).
    pub seq: u64,
    /// Next byte expected from the peer; meaningful with the ACK flag.
    pub ack: u64,
    /// Advertised window in bytes, after scaling.
    pub window_bytes: u64,
    /// Payload in bytes.
    pub payload_bytes: u32,
    pub timestamps: Option<Timestamps>,
    /// Maximum segment size option; on SYN segments.
    pub mss: Option<NonZeroU16>,
    pub flags: Flags,
    /// SACK-permitted option; on SYN segments.
    pub sack_permitted: bool,
    /// SACK-permitted occupies the padding of the timestamps option, if both options are present.
    pub compact: bool,
    /// Window scale option, its shift count; on SYN segments (RFC 7323, section 2). Windows are scaled once
    /// both ends have sent it.
    pub window_scale: Option<u8>,
    pub sack: SackList,
}

impl Segment {
    /// Largest window in segments: more than any real path needs, and far from overflow.
    pub const WINDOW_MAX: u32 = 1_000_000;
    /// IPv4 and TCP headers without options.
    pub const BASE_HEADER_BYTES: u32 = 40;
    /// Maximum number of option bytes.
    pub const OPTIONS_MAX: u32 = 40;
    /// The timestamps option with its two no-operation bytes.
    pub const TIMESTAMPS_BYTES: u32 = 12;

    /// Resets it, in place, to a plain segment with this payload from `seq` on. The room for SACK blocks is
    /// not cleared, as few segments have blocks.
    pub fn begin(&mut self, first: u64, payload: u32) {
        let Self {
            seq,
            ack,
            window_bytes,
            payload_bytes,
            timestamps,
            mss,
            flags,
            sack_permitted,
            compact,
            window_scale,
            sack,
        } = self;
        (*seq, *ack, *window_bytes, *payload_bytes) = (first, 0, 0, payload);
        (*timestamps, *mss, *window_scale) = (None, None, None);
        (*flags, *sack_permitted, *compact) = (Flags::default(), false, false);
        (sack.len, sack.option) = (0, 0);
    }

    /// The ECN option, if it has one.
    pub fn ecn_option(&self) -> Option<EcnOption> {
        self.sack.ecn_option()
    }

    /// Adds an ECN option, after the SACK blocks; counters that it omits become zero. With four blocks, only an
    /// option without counters fits.
    pub fn set_ecn_option(&mut self, option: &EcnOption) {
        self.sack.set_ecn_option(option);
    }

    /// Bytes that are left for options.
    pub fn option_room(&self) -> u32 {
        Self::OPTIONS_MAX + Self::BASE_HEADER_BYTES + self.payload_bytes - self.ip_bytes()
    }

    /// True if the SACK-permitted option takes the place of the timestamps' two no-operation bytes.
    pub fn shares_padding(&self) -> bool {
        self.compact && self.sack_permitted && self.timestamps.is_some()
    }

    /// Length of the IP packet. Each option is padded to four bytes on its own, except for options that share
    /// padding ([`Self::shares_padding`]). A SYN is 48 bytes long; it is 60 bytes long with timestamps, or
    /// with compact timestamps and window scaling.
    pub fn ip_bytes(&self) -> u32 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let sack_permitted = if self.sack_permitted && !self.shares_padding() { 4 } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        let timestamps = if self.timestamps.is_some() { Self::TIMESTAMPS_BYTES } else { 0 };
        let sack = if self.sack.takes_no_room() { 0 } else { self.sack.bytes() };
        let options = mss + sack_permitted + window_scale + timestamps + sack;
        Self::BASE_HEADER_BYTES + options + self.payload_bytes
    }

    /// Sequence space the segment occupies: payload, plus one each for SYN and FIN.
    pub fn sequence_length(&self) -> u64 {
        u64::from(self.payload_bytes)
            + u64::from(self.flags.contains(Flags::SYN))
            + u64::from(self.flags.contains(Flags::FIN))
    }

    /// First sequence number after the segment.
    pub fn end(&self) -> u64 {
        self.seq + self.sequence_length()
    }
}

/// Index of a packet in its [`PacketArena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(u32);

impl PacketId {
    /// The number of the slot, for data that an engine stores along with the packet.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes that a processor fetches at once (a cache line). The fields of a packet that nearly every event
/// reads lie in two cache lines.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

/// An arena begins with this many slots.
const SLOTS_AT_FIRST: usize = 16;

/// The packets in flight. Slots are reused, so a run in steady state allocates nothing.
#[derive(Debug, Default)]
pub struct PacketArena {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl PacketArena {
    /// Stores a packet and returns its index.
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.reserve();
        self.slots[id.0 as usize] = packet;
        id
    }

    /// A slot for a new packet, to be written in place. The packet is marked as waiting in no queue; all
    /// other fields hold old values.
    pub fn reserve(&mut self) -> PacketId {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].queued_at = Instant::MAX;
            return PacketId(index);
        }
        if self.slots.len() == self.slots.capacity() {
            self.grow();
        }
        self.slots.push(Packet {
            serial: 0,
            flow: FlowId::default(),
            direction: Direction::Down,
            ip_bytes: 0,
            ecn: Ecn::NotEct,
            is_copy: false,
            dscp: Dscp::default(),
            server_port: 0,
            place: Place::default(),
            queued_at: Instant::MAX,
            body: Body::default(),
        });
        PacketId(self.slots.len() as u32 - 1)
    }

    /// Grows by a quarter: with many flows, packets are most of the memory, and a vector's default growth would
    /// use up to twice the necessary memory.
    #[cold]
    fn grow(&mut self) {
        self.slots.reserve_exact(self.slots.len() / 4 + SLOTS_AT_FIRST);
    }

    /// The packet at `id`, which must not have been removed.
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize]
    }

    /// Lets the processor prefetch a packet that is needed soon, on platforms where Rust can request that. A
    /// plain read would not do: the instructions after it would wait for it.
    #[inline]
    pub fn fetch(&self, id: PacketId) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let packet = std::ptr::from_ref(self.get(id)).cast::<i8>();
            // SAFETY: a prefetch is a hint; it reads and writes nothing, whatever the address is.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(packet);
                _mm_prefetch::<_MM_HINT_T0>(packet.wrapping_add(CACHE_LINE_BYTES));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = id;
    }

    /// The packet at `id`, for changes such as an ECN mark.
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize]
    }

    /// Frees the slot.
    pub fn remove(&mut self, id: PacketId) {
        self.free.push(id.0);
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if no packet is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_has_little_more_room_than_it_ever_needed_and_fetches_it_seldom() {
        let mut arena = PacketArena::default();
        let (mut room, mut fetched) = (0, 0);
        for held in 1..=10_000 {
            let _ = arena.reserve();
            if arena.slots.capacity() != room {
                room = arena.slots.capacity();
                fetched += 1;
            }
            assert!(room <= held + held / 4 + SLOTS_AT_FIRST, "{room} for {held}");
        }
        assert!(fetched < 30, "fetched memory {fetched} times");
        // A slot that was given back is used before any new one.
        arena.remove(PacketId(4711));
        assert_eq!(arena.reserve(), PacketId(4711));
        assert_eq!(arena.len(), 10_000);
    }
}
