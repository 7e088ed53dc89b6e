//! The waist of the hourglass: engines produce these events, and the analysis consumes them.
//!
//! Observers are chosen at compile time, so events cost nothing in a run without an observer.

use crate::{
    DropCause, Dscp, Duration, Ecn, FlowId, Host, Instant, Packet, Place, Protocol, QueueSize, Rate,
};

/// The role of a flow, where several connections carry the flow of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// A flow from end to end.
    #[default]
    Whole,
    /// A flow through a relay. It has no packets: the two flows announced after it carry it, in the order of
    /// [`Part::SIDES`].
    Relayed,
    /// The connection between the peer of such a flow and the relay, as the client.
    PeerSide,
    /// The connection between the relay, as the server, and the host at the edge.
    HostSide,
    /// A subflow of MPTCP. The flow itself has no packets.
    Subflow {
        /// The flow, which was announced before.
        of: FlowId,
        /// Index of its path among those of the flow.
        way: usize,
    },
}

impl Part {
    /// Both sides of a relay. The first has the flow's server, the second its client.
    pub const SIDES: [Self; 2] = [Self::PeerSide, Self::HostSide];

    /// The end at the relay.
    pub const fn relay_end(self) -> Option<Host> {
        match self {
            Self::Whole | Self::Relayed | Self::Subflow { .. } => None,
            Self::PeerSide => Some(Host::Client),
            Self::HostSide => Some(Host::Server),
        }
    }

    /// True for a side of a relay.
    pub const fn is_side(self) -> bool {
        self.relay_end().is_some()
    }

    /// True for a flow as the application sees it, false for a connection that carries a part of one.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Relayed)
    }

    /// The flow that the flow `id` carries, if it is a part of one.
    pub const fn of(self, id: FlowId) -> Option<FlowId> {
        match self {
            Self::Whole | Self::Relayed => None,
            Self::PeerSide => Some(id.whole(Host::Client)),
            Self::HostSide => Some(id.whole(Host::Server)),
            Self::Subflow { of, .. } => Some(of),
        }
    }

    /// The name of this side of the flow `name`.
    pub fn name_of(self, name: &str) -> String {
        match self {
            Self::Whole | Self::Relayed | Self::Subflow { .. } => name.to_owned(),
            Self::PeerSide => format!("{name}/peer-side"),
            Self::HostSide => format!("{name}/host-side"),
        }
    }
}

/// Properties of a flow that are known when it is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Name in the records, unique in the run.
    pub name: String,
    /// Index in the scenario of the application that the flow belongs to; sides of relays come after those.
    pub application: u32,
    /// Name of the results that the flow is counted in, if it is one of many short flows.
    pub group: Option<String>,
    /// True for a flow that arranges such a flow; its group has no record.
    pub is_control: bool,
    pub protocol: Protocol,
    /// The host that sends the flow's data.
    pub sender: Host,
    /// Upper bound of the payload that will be offered, for a transport that does not signal the end (UDP).
    pub offered_bytes: Option<u64>,
    /// How long the flow sends, if it is a transfer for a given time instead of a given amount.
    pub sends_for: Option<Duration>,
    /// Code point of its packets, in both directions.
    pub dscp: Dscp,
    /// ECN field of its datagrams; TCP sets the field of its segments itself.
    pub ecn: Ecn,
    pub server_port: u16,
    /// Its role, if several connections carry a flow.
    pub part: Part,
}

impl FlowInfo {
    /// Index of its path among those of its application.
    pub const fn way(&self) -> usize {
        match self.part {
            Part::Subflow { way, .. } => way,
            _ => 0,
        }
    }
}

/// Router queue after an event: all classes together, and the class of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueDepth {
    pub packets: u32,
    /// Bytes of IP length waiting.
    pub bytes: u32,
    /// Number of the packet's class in the order of the scenario; 0 without classes.
    pub class: u8,
    /// Packets of this class waiting.
    pub class_packets: u32,
    /// Average of the class's RED in RED's own unit (packets or bytes); NaN without RED.
    pub average: f64,
}

impl QueueDepth {
    /// True if a further packet of `ip_bytes` bytes exceeds the limit.
    #[inline]
    pub fn is_full(self, limit: QueueSize, ip_bytes: u32) -> bool {
        match limit {
            QueueSize::Packets(limit) => self.packets >= limit,
            QueueSize::Bytes(limit) => u64::from(self.bytes) + u64::from(ip_bytes) > u64::from(limit),
        }
    }

    /// True if the queue itself exceeds the limit.
    #[inline]
    pub fn exceeds(self, limit: QueueSize) -> bool {
        match limit {
            QueueSize::Packets(limit) => self.packets > limit,
            QueueSize::Bytes(limit) => self.bytes > limit,
        }
    }
}

/// An event of a packet, in chronological order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketEvent {
    /// The sending host handed it to its LAN.
    Sent,
    /// The router put the congestion-experienced mark on it.
    Marked,
    /// The router accepted it. The depth includes this packet.
    Enqueued(QueueDepth),
    /// It left the router queue for the link's send buffer. The depth excludes it. A packet that finds an
    /// empty queue and room in the buffer is enqueued and dequeued at the same instant.
    Dequeued(QueueDepth),
    /// A transmission over the link failed, and ARQ will retransmit.
    LinkRetry,
    /// It has crossed a hop, its place, and continues to the next part of a network of several hops.
    Forwarded,
    /// It is lost.
    Dropped(DropCause),
    Delivered,
    /// The receiving host received a copy, which the link made, directly after the packet.
    Duplicated,
}

impl PacketEvent {
    /// The event to report when a host receives `packet`.
    pub const fn arrival_of(packet: &Packet) -> Self {
        if packet.is_copy { Self::Duplicated } else { Self::Delivered }
    }
}

/// A frame on a medium that several stations share, once its data are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirEvent {
    /// The station that it comes from or goes to, by its number among those of the medium.
    pub station: u16,
    /// Time on the air, including preceding and answering frames.
    pub spent: Duration,
    pub packets: u32,
    /// Those of them that did not arrive.
    pub failed: u32,
    /// True if another frame destroyed it.
    pub collided: bool,
}

/// Why a segment was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetransmissionKind {
    /// Marked lost and sent in fast recovery (the first of an episode is the fast retransmit).
    Fast,
    /// Sent because the retransmission timer expired.
    Timeout,
    /// A hole below the highest SACK, filled because the window had room and no new data was left.
    Forward,
    /// The last segment, sent again as a tail loss probe.
    Probe,
    /// Data of a packet that counts as lost, in a protocol that never sends a packet again but only its
    /// content (RFC 9002).
    Lost,
}

/// The evidence that retransmissions were unnecessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoCause {
    /// An echoed timestamp older than the retransmission (Eifel detection, RFC 3522).
    Timestamps,
    /// D-SACK blocks for every retransmission of the episode (RFC 2883).
    Dsack,
    /// F-RTO: two ACKs advanced the window after the timeout (RFC 4138).
    FRto,
}

/// An event inside a transport, in terms that any transport with acknowledgments can use. Positions are
/// offsets in its stream. Windows are in segments; a window that the sender counts in bytes is rounded down
/// to whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportEvent {
    /// The handshake is complete.
    Established,
    /// The retransmission timer expired; `seq` is the first unacknowledged byte.
    Timeout {
        /// First unacknowledged byte.
        seq: u64,
        /// Number of expiries in a row, this one included.
        backoff: u32,
    },
    /// No ACK arrived for a while, and a probe segment was sent to elicit one (RFC 8985, section 7). The probe
    /// is new data or the last segment again; the latter is reported as a retransmission, too.
    TailLossProbe {
        /// First byte of the segment.
        seq: u64,
    },
    /// Fast recovery began, or Tahoe's reaction to duplicate ACKs.
    RecoveryEntered {
        /// Recovery ends once everything below this position is acknowledged.
        recovery_point: u64,
    },
    /// Fast recovery or loss recovery is over.
    RecoveryLeft,
    /// Everything that was sent over a long period was lost, and the window falls to its minimum (RFC 9002,
    /// section 7.6).
    PersistentCongestion,
    /// The window was reduced because of an ECN echo.
    EcnReduction,
    /// An earlier reduction was spurious and undone.
    Undone(UndoCause),
    /// A segment was sent again: data, or the segment that opens or closes the stream.
    Retransmitted {
        /// First byte of the segment.
        seq: u64,
        /// The reason.
        kind: RetransmissionKind,
    },
    /// State after an ACK was processed or a timer expired. It is reported only if it differs from the last
    /// one.
    Window {
        /// Congestion window.
        cwnd: u32,
        /// Slow-start threshold; `u32::MAX` while infinite.
        ssthresh: u32,
        /// Segments in flight as the sender counts them.
        in_flight: u32,
    },
    /// The congestion control is in another state, by its own name.
    State(&'static str),
    /// A round-trip time was measured.
    RttSample {
        rtt: Duration,
        /// Retransmission timeout after the sample; zero if it is unknown.
        rto: Duration,
    },
    /// Both directions are closed.
    Closed,
    /// The connection was aborted, by this end or by the peer.
    Aborted,
}

/// An event in a web page load. Objects are numbered from 0, which is the main object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEvent {
    /// The browser asked for an object.
    Request {
        object: u32,
        /// Size of the request.
        bytes: u64,
        /// True if it speaks HTTP/1.1.
        persistent: bool,
        /// HTTP/1.1: it asks the server to close the connection after the response.
        closes: bool,
    },
    Response {
        object: u32,
        header_bytes: u64,
        body_bytes: u64,
    },
    /// The browser received the first byte of the response.
    FirstByte {
        object: u32,
    },
    /// The browser has the complete response.
    LastByte {
        object: u32,
    },
}

/// An event in a video that plays while it is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackEvent {
    /// The client has a segment.
    Segment {
        /// Bitrate at which the segment was requested.
        bitrate: Rate,
    },
    /// Playback starts, at the beginning or after a stall.
    Playing,
    /// Playback stalls: the buffer is empty, and more segments are to come.
    Stalled,
    /// Playback has reached the end.
    Ended,
}

/// An event of the requests that an application makes on a flow. It numbers them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeEvent {
    /// The application makes a request. It may be sent later.
    Requested { number: u64 },
    /// The host that made the request has the complete response.
    Completed { number: u64 },
    /// A response arrived that answers an earlier copy of the request than any response before. These expiries
    /// of the application's timer and repeated requests were unnecessary, which a real host cannot know.
    Spurious { number: u64, timeouts: u32, retransmissions: u32 },
}

/// Consumes events as they happen. Every method has an empty default.
pub trait Observer {
    /// Announces a flow, which may send from now on. Flows are announced in the order of their [`FlowId`],
    /// from 0.
    fn announce(&mut self, info: &FlowInfo) {
        let _ = info;
    }

    /// The application at `host` wrote this many bytes.
    fn written(&mut self, now: Instant, flow: FlowId, host: Host, bytes: u64) {
        let _ = (now, flow, host, bytes);
    }

    /// The application at `host` received the datagram with this number, on a connection that carries
    /// datagrams (RFC 9221). A packet with a datagram may arrive without being understood.
    fn datagram(&mut self, now: Instant, flow: FlowId, host: Host, number: u64) {
        let _ = (now, flow, host, number);
    }

    /// The application at `host` has read this many bytes so far, and perhaps the end of the stream, of a
    /// flow that several connections carry.
    fn read(&mut self, now: Instant, flow: FlowId, host: Host, bytes: u64, ended: bool) {
        let _ = (now, flow, host, bytes, ended);
    }

    /// The application that requested a short flow has the complete response; or a source whose amount was not
    /// known in advance has written everything.
    fn completed(&mut self, now: Instant, flow: FlowId) {
        let _ = (now, flow);
    }

    /// Both ends have finished the connection. Some of its packets may still be in flight.
    fn retired(&mut self, now: Instant, flow: FlowId) {
        let _ = (now, flow);
    }

    /// The bytes of a packet that is about to be sent, if hosts make real packets; or the bytes in a QUIC
    /// datagram, whose packet has no serial number yet.
    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        let _ = (packet, bytes);
    }

    /// A secret that `flow` will encrypt packets with, as a line of a key log (draft-ietf-tls-keylogfile).
    fn secret(&mut self, flow: FlowId, line: &str) {
        let _ = (flow, line);
    }

    /// True if the observer needs [`Observer::qlog`], which costs time.
    fn wants_qlog(&self) -> bool {
        false
    }

    /// The next records in the qlog of the end of `flow` at `host` (draft-ietf-quic-qlog-main-schema).
    fn qlog(&mut self, flow: FlowId, host: Host, records: &[u8]) {
        let _ = (flow, host, records);
    }

    /// An event of a packet.
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let _ = (now, event, packet);
    }

    /// A frame was sent over the medium of which `place` is a direction.
    fn air(&mut self, now: Instant, place: Place, event: AirEvent) {
        let _ = (now, place, event);
    }

    /// An event inside the transport of `flow` at `host`.
    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        let _ = (now, flow, host, event);
    }

    /// An event in the page load that the connection `flow` belongs to.
    fn http(&mut self, now: Instant, flow: FlowId, event: HttpEvent) {
        let _ = (now, flow, event);
    }

    /// An event in the video that `flow` carries.
    fn playback(&mut self, now: Instant, flow: FlowId, event: PlaybackEvent) {
        let _ = (now, flow, event);
    }

    /// An event of the requests on `flow`.
    fn exchange(&mut self, now: Instant, flow: FlowId, event: ExchangeEvent) {
        let _ = (now, flow, event);
    }
}

/// Records nothing.
impl Observer for () {}

/// Calls an observer that may be absent.
macro_rules! if_there {
    ($observer:expr, $inner:ident => $call:expr) => {
        if let Some($inner) = $observer {
            $call;
        }
    };
}

/// An observer that may be absent.
impl<O: Observer> Observer for Option<O> {
    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        if_there!(self, observer => observer.bytes(packet, bytes));
    }

    fn wants_qlog(&self) -> bool {
        self.as_ref().is_some_and(Observer::wants_qlog)
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if_there!(self, observer => observer.packet(now, event, packet));
    }

    crate::pass_events_on! { if_there }
}

/// Calls an observer of any kind.
macro_rules! dynamic {
    ($observer:expr, $inner:ident => $call:expr) => {{
        let $inner = &mut **$observer;
        $call;
    }};
}

/// An observer of any kind: code for it is compiled once.
impl Observer for &mut (dyn Observer + '_) {
    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        (**self).bytes(packet, bytes);
    }

    fn wants_qlog(&self) -> bool {
        (**self).wants_qlog()
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        (**self).packet(now, event, packet);
    }

    crate::pass_events_on! { dynamic }
}

/// Calls one observer after the other.
macro_rules! both {
    ($observers:expr, $inner:ident => $call:expr) => {{
        let $inner = &mut $observers.0;
        $call;
        let $inner = &mut $observers.1;
        $call;
    }};
}

/// Both observers see everything, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        both!(self, observer => observer.bytes(packet, bytes));
    }

    fn wants_qlog(&self) -> bool {
        self.0.wants_qlog() || self.1.wants_qlog()
    }

    #[inline]
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        both!(self, observer => observer.packet(now, event, packet));
    }

    crate::pass_events_on! { both }
}
