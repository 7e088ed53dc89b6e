//! The events of one run, kept for pictures: time-sequence, queue-length and window plots.

use crate::columns::{cells, columnar};
use lasthop_core::{
    Body, Direction, Ecn, Flags, FlowId, Host, HttpEvent, Instant, Observer, Packet, PacketEvent, PacketKind,
    Place, SackList, TransportEvent, TransportKind,
};
use std::ops::Range;

cells! {
    PacketKind => Text(|cell| cell.name().into());
    TransportKind => Text(|cell| cell.labels().name.into());
}

columnar! {
    #[derive(Clone, Debug, PartialEq)]
    pub struct PacketRow {
        /// Place of the event in the run, over both tables, from 0.
        order: u64,
        time_ns: u64,
        event: PacketKind,
        flow: u32,
        direction: Direction,
        /// Number of the direction of the hop that it crosses; with a single hop, 0 is down and 1 is up.
        place: u32,
        serial: u64,
        /// TCP: first sequence number; UDP: number of the datagram.
        seq: u64,
        /// First sequence number, or number, after it.
        end: u64,
        /// ACK number, on TCP segments with the ACK flag.
        ack: Option<u64>,
        payload_bytes: u32,
        ip_bytes: u32,
        /// TCP flags as on the wire; 0 for UDP.
        flags: u8,
        /// True if it carries the congestion-experienced mark.
        ce: bool,
        /// SACK blocks, as text `start-end start-end` in the table. Few packets have any.
        sack: Option<Box<SackList>>,
        window_bytes: Option<u64>,
        /// Router queue after the event; on enqueued and dequeued.
        queue_packets: Option<u32>,
        /// Class of the packet; on the same.
        queue_class: Option<u32>,
        /// Packets of this class that wait; on the same.
        queue_class_packets: Option<u32>,
        /// RED's average of the class; on the same, with RED.
        queue_average: Option<f64>,
    }
}

columnar! {
    /// One event of a transport. Values that an event does not carry are `None`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TcpRow {
        /// Place of the event in the run, over both tables, from 0.
        order: u64,
        time_ns: u64,
        flow: u32,
        host: Host,
        event: TransportKind,
        /// First byte concerned: of a retransmission, unacknowledged at a timeout, the recovery point.
        seq: Option<u64>,
        backoff: Option<u32>,
        cwnd: Option<u32>,
        /// Slow-start threshold in segments; `None` while infinite.
        ssthresh: Option<u32>,
        in_flight: Option<u32>,
        rtt_ns: Option<u64>,
        rto_ns: Option<u64>,
        /// Name of the congestion control's state; empty for other events.
        state: Option<&'static str>,
    }
}

columnar! {
    /// One object of a page load. Times count from the start of the run, `None` for what did not occur.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ObjectRow {
        flow: u32,
        /// Number of the object in its page, 0 for the main one.
        object: u32,
        /// Size without the header.
        bytes: Option<u64>,
        request_ns: u64,
        response_ns: Option<u64>,
        /// When the browser received the first byte of the response.
        first_byte_ns: Option<u64>,
        last_byte_ns: Option<u64>,
    }
}

/// Keeps every event, about 200 bytes each, for exact data; pictures use an [`Overview`](crate::Overview).
#[derive(Debug, Default)]
pub struct Recorder {
    /// Packet events in the order of the run.
    pub packets: Vec<PacketRow>,
    /// Events of transports in the order of the run.
    pub tcp: Vec<TcpRow>,
    /// Objects of page loads in the order of their requests.
    pub objects: Vec<ObjectRow>,
}

impl Recorder {
    fn order(&self) -> u64 {
        (self.packets.len() + self.tcp.len()) as u64
    }
}

impl Observer for Recorder {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.packets.push(packet_row(self.order(), now, event, packet));
    }

    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.tcp.push(tcp_row(self.order(), now, flow, host, event));
    }

    fn http(&mut self, now: Instant, flow: FlowId, event: HttpEvent) {
        note_object(&mut self.objects, now, flow, event);
    }
}

pub(crate) fn note_object(objects: &mut Vec<ObjectRow>, now: Instant, flow: FlowId, event: HttpEvent) {
    let (flow, time_ns) = (flow.0, now.as_nanos());
    let (HttpEvent::Request { object, .. }
    | HttpEvent::Response { object, .. }
    | HttpEvent::FirstByte { object }
    | HttpEvent::LastByte { object }) = event;
    if let HttpEvent::Request { .. } = event {
        return objects.push(ObjectRow { flow, object, request_ns: time_ns, ..ObjectRow::default() });
    }
    let row = objects.iter_mut().find(|row| row.flow == flow && row.object == object);
    match (event, row) {
        (HttpEvent::Response { body_bytes, .. }, Some(row)) => {
            (row.bytes, row.response_ns) = (Some(body_bytes), Some(time_ns));
        }
        (HttpEvent::FirstByte { .. }, Some(row)) => row.first_byte_ns = Some(time_ns),
        (HttpEvent::LastByte { .. }, Some(row)) => row.last_byte_ns = Some(time_ns),
        _ => {}
    }
}

pub(crate) fn packet_row(order: u64, now: Instant, event: PacketEvent, packet: &Packet) -> PacketRow {
    SeenPacket::of(order, event, packet).row(now.as_nanos())
}

/// A packet event in compact form: its row without the time.
#[derive(Debug)]
pub(crate) struct SeenPacket {
    pub order: u64,
    event: PacketEvent,
    serial: u64,
    range: Range<u64>,
    ack: Option<u64>,
    window_bytes: Option<u64>,
    sack: Option<Box<SackList>>,
    flow: FlowId,
    payload_bytes: u32,
    ip_bytes: u32,
    place: Place,
    direction: Direction,
    flags: u8,
    ce: bool,
}

impl SeenPacket {
    #[inline]
    pub(crate) fn of(order: u64, event: PacketEvent, packet: &Packet) -> Self {
        let segment = packet.tcp();
        Self {
            order,
            event,
            serial: packet.serial,
            range: packet.body.place(),
            ack: acknowledged(packet),
            window_bytes: segment.map(|segment| segment.window_bytes),
            sack: segment.filter(|segment| !segment.sack.is_empty()).map(|segment| Box::new(segment.sack)),
            flow: packet.flow,
            payload_bytes: packet.body.payload_bytes(),
            ip_bytes: packet.ip_bytes,
            place: packet.place,
            direction: packet.direction,
            flags: segment.map_or(0, |segment| segment.flags.byte()),
            ce: packet.ecn == Ecn::Ce,
        }
    }

    pub(crate) fn row(&self, time_ns: u64) -> PacketRow {
        let depth = match self.event {
            PacketEvent::Enqueued(depth) | PacketEvent::Dequeued(depth) => Some(depth),
            _ => None,
        };
        PacketRow {
            order: self.order,
            time_ns,
            event: self.event.kind(),
            flow: self.flow.0,
            direction: self.direction,
            place: self.place.0.into(),
            serial: self.serial,
            seq: self.range.start,
            end: self.range.end,
            ack: self.ack,
            payload_bytes: self.payload_bytes,
            ip_bytes: self.ip_bytes,
            flags: self.flags,
            ce: self.ce,
            sack: self.sack.clone(),
            window_bytes: self.window_bytes,
            queue_packets: depth.map(|depth| depth.packets),
            queue_class: depth.map(|depth| depth.class.into()),
            queue_class_packets: depth.map(|depth| depth.class_packets),
            queue_average: depth.map(|depth| depth.average).filter(|average| !average.is_nan()),
        }
    }
}

/// The ACK number of the packet: everything before it is acknowledged.
#[inline]
fn acknowledged(packet: &Packet) -> Option<u64> {
    match &packet.body {
        Body::Tcp(segment) => segment.flags.contains(Flags::ACK).then_some(segment.ack),
        Body::Quic(datagram) => Some(datagram.ack),
        Body::Udp(_) => None,
    }
}

#[inline]
pub(crate) fn tcp_row(order: u64, now: Instant, flow: FlowId, host: Host, event: TransportEvent) -> TcpRow {
    let mut row = TcpRow {
        order,
        time_ns: now.as_nanos(),
        flow: flow.0,
        host,
        event: event.kind(),
        seq: None,
        backoff: None,
        cwnd: None,
        ssthresh: None,
        in_flight: None,
        rtt_ns: None,
        rto_ns: None,
        state: None,
    };
    match event {
        TransportEvent::Timeout { seq, backoff } => (row.seq, row.backoff) = (Some(seq), Some(backoff)),
        TransportEvent::TailLossProbe { seq }
        | TransportEvent::RecoveryEntered { recovery_point: seq }
        | TransportEvent::Retransmitted { seq, .. } => row.seq = Some(seq),
        TransportEvent::Window { cwnd, ssthresh, in_flight } => {
            (row.cwnd, row.in_flight) = (Some(cwnd), Some(in_flight));
            row.ssthresh = (ssthresh != u32::MAX).then_some(ssthresh);
        }
        TransportEvent::State(name) => row.state = Some(name),
        TransportEvent::RttSample { rtt, rto } => {
            row.rtt_ns = Some(rtt.as_nanos());
            row.rto_ns = Some(rto.as_nanos()).filter(|rto| *rto > 0);
        }
        TransportEvent::Established
        | TransportEvent::RecoveryLeft
        | TransportEvent::PersistentCongestion
        | TransportEvent::EcnReduction
        | TransportEvent::Undone(_)
        | TransportEvent::Closed
        | TransportEvent::Aborted => {}
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Column, Columnar};
    use lasthop_core::{
        Datagram, DropCause, Dscp, Place, QueueDepth, RetransmissionKind, SackBlock, Segment,
    };

    fn packet(body: Body) -> Packet {
        let (flow, direction) = (FlowId(3), Direction::Up);
        let dscp = Dscp::default();
        Packet {
            serial: 9,
            flow,
            direction,
            ip_bytes: 64,
            ecn: Ecn::Ce,
            is_copy: false,
            place: Place::from(direction),
            queued_at: Instant::MAX,
            dscp,
            server_port: 30_004,
            body,
        }
    }

    fn column<R: Columnar>(rows: &[R], name: &str) -> Column {
        R::columns(rows).into_iter().find(|(column, _)| *column == name).expect("a column").1
    }

    #[test]
    fn an_ack_keeps_its_number_blocks_window_and_queue() {
        let mut recorder = Recorder::default();
        let mut segment =
            Segment { seq: 1, ack: 537, flags: Flags::ACK, window_bytes: 2144, ..Segment::default() };
        segment.sack.push(SackBlock { start: 1073, end: 1609 });
        let ack = packet(Body::Tcp(segment));
        let red = QueueDepth { packets: 4, bytes: 256, class: 1, class_packets: 2, average: 2.5 };
        let plain = QueueDepth { packets: 3, bytes: 192, class: 0, class_packets: 3, average: f64::NAN };
        recorder.packet(Instant::from_nanos(5), PacketEvent::Enqueued(red), &ack);
        recorder.packet(Instant::from_nanos(6), PacketEvent::Dequeued(plain), &ack);
        recorder.packet(Instant::from_nanos(7), PacketEvent::Dropped(DropCause::ArqGivenUp), &ack);
        let rows = &recorder.packets;
        let text = |cells: [&'static str; 3]| Column::Text(cells.map(Into::into).to_vec());
        assert_eq!(column(rows, "event"), text(["enqueued", "dequeued", "dropped-arq"]));
        assert_eq!(column(rows, "order"), Column::Int(vec![Some(0), Some(1), Some(2)]));
        assert_eq!(column(rows, "sack"), text(["1073-1609"; 3]));
        assert_eq!(column(rows, "direction"), text(["up"; 3]));
        assert_eq!(column(rows, "ack"), Column::Int(vec![Some(537); 3]));
        assert_eq!(column(rows, "window_bytes"), Column::Int(vec![Some(2144); 3]));
        assert_eq!(column(rows, "ce"), Column::Int(vec![Some(1); 3]));
        assert_eq!(column(rows, "queue_packets"), Column::Int(vec![Some(4), Some(3), None]));
        assert_eq!(column(rows, "queue_class"), Column::Int(vec![Some(1), Some(0), None]));
        assert_eq!(column(rows, "queue_class_packets"), Column::Int(vec![Some(2), Some(3), None]));
        assert_eq!(column(rows, "queue_average"), Column::Float(vec![Some(2.5), None, None]));
    }

    #[test]
    fn a_datagram_keeps_its_number() {
        let mut recorder = Recorder::default();
        let datagram = packet(Body::Udp(Datagram { number: 12, payload_bytes: 36 }));
        recorder.packet(Instant::from_nanos(5), PacketEvent::Sent, &datagram);
        let row = &recorder.packets[0];
        assert_eq!((row.seq, row.end, row.payload_bytes, row.ack), (12, 13, 36, None));
    }

    #[test]
    fn a_tcp_event_keeps_what_it_carries() {
        let mut recorder = Recorder::default();
        let mut see = |event| recorder.transport(Instant::from_nanos(8), FlowId(1), Host::Server, event);
        see(TransportEvent::Retransmitted { seq: 537, kind: RetransmissionKind::Forward });
        see(TransportEvent::Window { cwnd: 4, ssthresh: u32::MAX, in_flight: 3 });
        see(TransportEvent::Timeout { seq: 1073, backoff: 2 });
        let rows = &recorder.tcp;
        assert_eq!(rows[0].event, TransportKind::RetransmittedForward);
        assert_eq!(column(rows, "seq"), Column::Int(vec![Some(537), None, Some(1073)]));
        assert_eq!(column(rows, "cwnd"), Column::Int(vec![None, Some(4), None]));
        assert_eq!(column(rows, "ssthresh"), Column::Int(vec![None; 3]));
        assert_eq!(column(rows, "backoff"), Column::Int(vec![None, None, Some(2)]));
    }
}
