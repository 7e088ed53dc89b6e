//! The data for pictures of one run, in bounded memory: marks, and points thinned to the visible resolution.

use crate::analysis::take;
use crate::columns::{Column, Columnar, columnar};
use crate::recorder::{ObjectRow, PacketRow, SeenPacket, TcpRow, note_object, packet_row, tcp_row};
use crate::samples::Samples;
use crate::series::{Bottlenecks, FoldedSeries, Series, Span};
use crate::thinned::{KeptRow, Point, Thinned};
use lasthop_core::{
    Body, Direction, Flags, FlowId, FlowInfo, Host, HttpEvent, Instant, Observer, Packet, PacketEvent, Place,
    Protocol, QueueDepth, Segment, TransportEvent,
};
use serde::Serialize;
use std::array::from_fn;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Maximum number of packet events, and of TCP events, that are kept as points of lines.
const POINTS: usize = 40_000;
/// Maximum number of packet events, and of TCP events, that are kept as marks: drops, timeouts,
/// retransmissions, probes, recoveries, ECN marks, SYNs and FINs.
const MARKS: usize = 20_000;
/// Number of flows whose own events are kept; of further ones, only drops and effects on the queue.
const FLOWS: usize = 2000;
/// Maximum number of classes of a queue, each a line of the picture.
const QUEUE_CLASSES: usize = 1 << u8::BITS;
/// Number of lines per flow: at least the number of kinds of events, once with SACK blocks and once without.
const LINES: usize = 64;

columnar! {
    #[derive(Clone, Debug, PartialEq)]
    pub struct FlowRow {
        flow: String,
        /// Name of the scenario's entry that it belongs to.
        application: String,
        protocol: Protocol,
        direction: Direction,
    }
}

columnar! {
    /// A point of the distribution function of a flow's one-way delays.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DelayRow {
        flow: u32,
        /// Share of the data packets that arrived.
        share: f64,
        delay_s: f64,
    }
}

const DELAYS: usize = 201;

/// Counts of the data that an overview leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Points of lines: segments, ACKs, windows, samples, queue lengths.
    pub points: u64,
    /// Drops, timeouts, retransmissions and the like.
    pub marks: u64,
    pub flows: u64,
}

/// Keeps the data that pictures of a run show. Within the budgets, every event that is drawn is kept. Beyond
/// them, each interval keeps its first, last, least and greatest points; marks are thinned only as the last
/// resort.
#[derive(Debug)]
pub struct Overview {
    applications: Vec<String>,
    events: u64,
    flows: Vec<FlowRow>,
    states: Vec<OverviewFlow>,
    further_flows: u64,
    /// For each flow, the class of its packets at each place, once known.
    classes: Vec<Vec<Option<u8>>>,
    /// The sum in these points is the payload that reached the receiver for the first time.
    points: Thinned<SeenPacket>,
    marks: Thinned<PacketRow>,
    tcp_points: Thinned<SeenTransport>,
    tcp_marks: Thinned<TcpRow>,
    objects: Vec<ObjectRow>,
    /// For each place, the depth after the latest change, of each class.
    depths: Vec<Vec<QueueDepth>>,
    latest: Option<KeptRow<SeenPacket>>,
    span: Span,
    series: Series<FoldedSeries>,
}

/// An event of a transport as a point. It becomes a row at the end, because most points are left out before.
#[derive(Debug)]
struct SeenTransport {
    order: u64,
    flow: FlowId,
    host: Host,
    event: TransportEvent,
}

/// The treatment of an event.
#[derive(Clone, Copy, Debug)]
enum Shown {
    Mark,
    Point,
    /// At most as the run's end.
    Not,
}

/// The state of a flow that an overview needs to identify marks.
#[derive(Debug, Default)]
struct OverviewFlow {
    data: Direction,
    /// First sequence number after the highest that the data sender sent.
    sent_end: u64,
    /// First sequence number after the FIN that the client received, until the FIN is acknowledged.
    fin_end: Option<u64>,
    /// First byte of a probe that is about to leave.
    probe: Option<u64>,
    cwnd: Option<u32>,
    rto_ns: Option<u64>,
    /// Its data packets in flight, with their send times.
    on_the_way: VecDeque<(u64, Instant)>,
    one_way_delay: Samples,
}

#[derive(Debug, Default)]
pub struct OverviewTables {
    /// The columns of a `Recorder`, and `fresh_bytes`.
    pub packets: Vec<(&'static str, Column)>,
    /// The columns of a `Recorder`. A timeout also has the current RTO, and an undo the current window.
    pub tcp: Vec<(&'static str, Column)>,
    pub objects: Vec<(&'static str, Column)>,
    pub flows: Vec<(&'static str, Column)>,
    /// Goodput, queue, losses and fairness over time, as [`SeriesRow`](crate::SeriesRow) has them.
    pub series: Vec<(&'static str, Column)>,
    /// Distribution functions of the one-way delays: `flow`, `share`, `delay_s`.
    pub delays: Vec<(&'static str, Column)>,
    pub left_out: LeftOut,
}

impl Overview {
    /// An overview of a run of entries with these names over these bottlenecks, in detail within `span`.
    pub fn new(applications: Vec<String>, bottlenecks: Bottlenecks, span: Span) -> Self {
        let series = Series::folded(bottlenecks);
        let (whole, span) = (span, (span.start_ns, span.stop_ns));
        Self {
            span: whole,
            series,
            applications,
            events: 0,
            flows: Vec::new(),
            states: Vec::new(),
            further_flows: 0,
            classes: Vec::new(),
            points: Thinned::new(POINTS, span),
            marks: Thinned::new(MARKS, span),
            tcp_points: Thinned::new(POINTS, span),
            tcp_marks: Thinned::new(MARKS, span),
            objects: Vec::new(),
            depths: Vec::new(),
            latest: None,
        }
    }

    /// All kept data, in the order of the run, which ended at `end`.
    pub fn finish(self, end: Instant) -> OverviewTables {
        let (points, points_left_out) = self.points.finish();
        let (marks, marks_left_out) = self.marks.finish();
        let (mut packets, mut fresh) =
            merged((&points, |seen| seen.order), (&marks, |mark| mark.order), SeenPacket::row);
        if let Some(end) = self.latest {
            packets.push(end.row.row(end.point.time_ns));
            fresh.push(Some(end.point.sum));
        }
        let (tcp_points, tcp_points_left_out) = self.tcp_points.finish();
        let (tcp_marks, tcp_marks_left_out) = self.tcp_marks.finish();
        let (tcp, _) =
            merged((&tcp_points, |seen| seen.order), (&tcp_marks, |mark| mark.order), SeenTransport::row);
        let mut columns = PacketRow::columns(&packets);
        columns.push(("fresh_bytes", Column::Int(fresh)));
        let delays: Vec<DelayRow> =
            (0..).zip(self.states).flat_map(|(flow, state)| state.delays(flow)).collect();
        OverviewTables {
            packets: columns,
            tcp: TcpRow::columns(&tcp),
            objects: ObjectRow::columns(&self.objects),
            flows: FlowRow::columns(&self.flows),
            series: self.series.table(end, self.span),
            delays: DelayRow::columns(&delays),
            left_out: LeftOut {
                points: points_left_out + tcp_points_left_out,
                marks: marks_left_out + tcp_marks_left_out,
                flows: self.further_flows,
            },
        }
    }

    fn order(&mut self) -> u64 {
        self.events += 1;
        self.events - 1
    }

    /// A packet entered or left a queue.
    fn queued(&mut self, now: Instant, packet: &Packet, depth: QueueDepth) -> (Shown, Point) {
        let place = usize::from(packet.place.0);
        *element(element(&mut self.depths, place), usize::from(depth.class)) = depth;
        *element(&mut self.classes[packet.flow.0 as usize], place) = Some(depth.class);
        let point = Point {
            time_ns: now.as_nanos(),
            series: queue_line(packet.place, depth.class),
            values: [f64::from(depth.class_packets), depth.average],
            sum: 0,
        };
        (Shown::Point, point)
    }

    fn sent(&mut self, now: Instant, packet: &Packet) -> (Shown, Point) {
        let shown = match self.states.get_mut(packet.flow.0 as usize) {
            Some(state) => state.sent(now, packet),
            None => Shown::Not,
        };
        (shown, packet_point(now, PacketEvent::Sent, packet))
    }

    /// `fresh_bytes` of its payload reached the receiver for the first time.
    fn delivered(&mut self, now: Instant, packet: &Packet, fresh_bytes: u64) -> (Shown, Point) {
        let mut point = packet_point(now, PacketEvent::Delivered, packet);
        let shown = match self.states.get_mut(packet.flow.0 as usize) {
            Some(state) => {
                point.sum = fresh_bytes;
                state.delivered(now, packet)
            }
            None => Shown::Not,
        };
        (shown, point)
    }

    fn mark(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let order = self.order();
        let row = self.with_queue(packet_row(order, now, event, packet));
        self.marks.push(packet_point(now, event, packet), || row);
        self.latest = None;
    }

    fn keep(&mut self, shown: Shown, point: Point, event: PacketEvent, packet: &Packet) {
        let order = self.order();
        let seen = || SeenPacket::of(order, event, packet);
        self.latest = None;
        match shown {
            Shown::Mark => self.marks.push(point, || seen().row(point.time_ns)),
            Shown::Point => self.points.push(point, seen),
            Shown::Not => self.latest = Some(KeptRow { point, row: seen() }),
        }
    }

    /// Adds the current queue length to a drop or a mark.
    fn with_queue(&self, mut row: PacketRow) -> PacketRow {
        let place = row.place as usize;
        let depths = self.depths.get(place).map_or(&[][..], Vec::as_slice);
        let class = self.classes[row.flow as usize].get(place).copied().flatten();
        row.queue_packets = Some(depths.iter().map(|depth| depth.class_packets).sum());
        row.queue_class = class.map(u32::from);
        row.queue_class_packets =
            class.map(|class| depths.get(usize::from(class)).map_or(0, |depth| depth.class_packets));
        row
    }
}

impl Observer for Overview {
    fn announce(&mut self, info: &FlowInfo) {
        self.series.announce(info);
        self.classes.push(Vec::new());
        if self.flows.len() == FLOWS {
            self.further_flows += 1;
            return;
        }
        let data = Direction::from(info.sender);
        self.flows.push(FlowRow {
            flow: info.name.clone(),
            application: self.applications[info.application as usize].clone(),
            protocol: info.protocol,
            direction: data,
        });
        self.states.push(OverviewFlow { data, ..OverviewFlow::default() });
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let fresh_bytes = self.series.note_packet(now, event, packet);
        let (shown, point) = match event {
            PacketEvent::Enqueued(depth) | PacketEvent::Dequeued(depth) => self.queued(now, packet, depth),
            PacketEvent::Sent => self.sent(now, packet),
            PacketEvent::Delivered => self.delivered(now, packet, fresh_bytes),
            PacketEvent::Dropped(_) => {
                if let Some(state) = self.states.get_mut(packet.flow.0 as usize) {
                    state.dropped(packet);
                }
                return self.mark(now, event, packet);
            }
            PacketEvent::Marked => return self.mark(now, event, packet),
            PacketEvent::Forwarded | PacketEvent::LinkRetry | PacketEvent::Duplicated => {
                (Shown::Not, packet_point(now, event, packet))
            }
        };
        self.keep(shown, point, event, packet);
    }

    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.series.transport(now, flow, host, event);
        let order = self.order();
        let Some(state) = self.states.get_mut(flow.0 as usize) else { return };
        if Direction::from(host) != state.data {
            return;
        }
        let known = |value: u64| if value > 0 { value as f64 } else { f64::NAN };
        let values = match event {
            TransportEvent::Window { cwnd, ssthresh, .. } => {
                state.cwnd = Some(cwnd);
                [f64::from(cwnd), if ssthresh == u32::MAX { f64::NAN } else { f64::from(ssthresh) }]
            }
            TransportEvent::RttSample { rtt, rto } => {
                state.rto_ns = Some(rto.as_nanos()).filter(|rto| *rto > 0);
                [rtt.as_nanos() as f64, known(rto.as_nanos())]
            }
            _ => {
                let row = state.tcp_mark(event, tcp_row(order, now, flow, host, event));
                let values = [row.seq.map_or(f64::NAN, |seq| seq as f64), f64::NAN];
                return self.tcp_marks.push(tcp_point(now, flow, event, values), || row);
            }
        };
        self.tcp_points.push(tcp_point(now, flow, event, values), || SeenTransport {
            order,
            flow,
            host,
            event,
        });
    }

    fn retired(&mut self, now: Instant, flow: FlowId) {
        self.series.retired(now, flow);
    }

    fn http(&mut self, now: Instant, flow: FlowId, event: HttpEvent) {
        note_object(&mut self.objects, now, flow, event);
    }
}

impl OverviewFlow {
    #[inline]
    fn sent(&mut self, now: Instant, packet: &Packet) -> Shown {
        let is_data = packet.direction == self.data;
        if is_data && packet.body.payload_bytes() > 0 {
            self.on_the_way.push_back((packet.serial, now));
        }
        let segment = match &packet.body {
            Body::Tcp(segment) => segment,
            Body::Quic(datagram) if is_data && datagram.repeated.is_some() => return Shown::Mark,
            Body::Quic(datagram) if is_data && !datagram.blocks.is_empty() => return Shown::Point,
            Body::Quic(_) | Body::Udp(_) => return Shown::Not,
        };
        let is_drawn = is_data && segment.sequence_length() > 0;
        let mut is_mark = begins_or_ends(segment);
        if is_drawn {
            is_mark |= segment.seq < self.sent_end || self.probe == Some(segment.seq);
            self.probe = None;
            self.sent_end = self.sent_end.max(segment.end());
        }
        // The client's ACK of the FIN ends a page load's connection.
        if packet.direction == Direction::Up && self.fin_end.is_some_and(|end| segment.ack >= end) {
            self.fin_end = Some(u64::MAX);
            is_mark = true;
        }
        Shown::of(is_mark, is_drawn)
    }

    #[inline]
    fn delivered(&mut self, now: Instant, packet: &Packet) -> Shown {
        let is_data = packet.direction == self.data;
        if is_data
            && packet.body.payload_bytes() > 0
            && let Some(sent_at) = take(&mut self.on_the_way, packet.serial)
        {
            self.one_way_delay.record(now.saturating_since(sent_at));
        }
        let Some(segment) = packet.tcp() else { return Shown::Point };
        if packet.direction == Direction::Down && segment.flags.contains(Flags::FIN) {
            self.fin_end.get_or_insert(segment.end());
        }
        let is_drawn =
            if is_data { segment.sequence_length() > 0 } else { segment.flags.contains(Flags::ACK) };
        Shown::of(begins_or_ends(segment), is_drawn)
    }

    fn dropped(&mut self, packet: &Packet) {
        if packet.direction == self.data && packet.body.payload_bytes() > 0 {
            take(&mut self.on_the_way, packet.serial);
        }
    }

    /// Notes an event of the sender that is a mark; adds the state to its row.
    fn tcp_mark(&mut self, event: TransportEvent, mut row: TcpRow) -> TcpRow {
        match event {
            TransportEvent::Undone(_) => row.cwnd = self.cwnd,
            TransportEvent::Timeout { .. } => row.rto_ns = self.rto_ns,
            TransportEvent::TailLossProbe { seq } => self.probe = Some(seq),
            _ => {}
        }
        row
    }

    fn delays(self, flow: u32) -> impl Iterator<Item = DelayRow> {
        let shares: [f64; DELAYS] = from_fn(|place| place as f64 / (DELAYS - 1) as f64);
        let delays = self.one_way_delay.quantiles_s(shares).into_iter().zip(shares);
        delays.filter_map(move |(delay_s, share)| Some(DelayRow { flow, share, delay_s: delay_s? }))
    }
}

impl Shown {
    #[inline]
    fn of(is_mark: bool, is_drawn: bool) -> Self {
        match (is_mark, is_drawn) {
            (true, _) => Self::Mark,
            (false, true) => Self::Point,
            (false, false) => Self::Not,
        }
    }
}

impl SeenTransport {
    fn row(&self, time_ns: u64) -> TcpRow {
        tcp_row(self.order, Instant::from_nanos(time_ns), self.flow, self.host, self.event)
    }
}

/// The rows of points and marks in the order of the run, each made in its place, and their points' sums.
fn merged<S, R: Clone>(
    (points, order_of_point): (&[KeptRow<S>], impl Fn(&S) -> u64),
    (marks, order_of_mark): (&[KeptRow<R>], impl Fn(&R) -> u64),
    row_of: impl Fn(&S, u64) -> R,
) -> (Vec<R>, Vec<Option<u64>>) {
    let of_points = points.iter().map(|kept| order_of_point(&kept.row));
    let of_marks = marks.iter().map(|kept| order_of_mark(&kept.row));
    let mut places: Vec<(u64, usize)> = of_points.chain(of_marks).zip(0..).collect();
    places.sort_unstable();
    let row = |(_, place): (u64, usize)| {
        if let Some(KeptRow { point, row }) = points.get(place) {
            return (row_of(row, point.time_ns), Some(point.sum));
        }
        let KeptRow { point, row } = &marks[place - points.len()];
        (row.clone(), Some(point.sum))
    };
    places.into_iter().map(row).unzip()
}

fn begins_or_ends(segment: &Segment) -> bool {
    segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::FIN)
}

/// The series of the length of a class's queue. The flows' lines have the numbers between those of the first
/// two places and those of the others.
fn queue_line(place: Place, class: u8) -> usize {
    let (place, class) = (usize::from(place.0), usize::from(class));
    match place.checked_sub(2) {
        None => class << 1 | place,
        Some(further) => {
            let behind_flows = QUEUE_CLASSES + (FLOWS + 1) * LINES + (further >> 1) * QUEUE_CLASSES;
            (behind_flows + class) << 1 | further & 1
        }
    }
}

/// The element with this index of a list that grows as far as it has to.
fn element<T: Clone + Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

/// The point of an event outside the queue.
#[inline]
fn packet_point(now: Instant, event: PacketEvent, packet: &Packet) -> Point {
    // SACK blocks are drawn individually, ACKs as a line.
    let has_blocks = packet.tcp().is_some_and(|segment| !segment.sack.is_empty());
    let kind = 2 * event.kind().number() + u32::from(has_blocks);
    let line = QUEUE_CLASSES + (packet.flow.0 as usize).min(FLOWS) * LINES + kind as usize;
    let is_ack = event == PacketEvent::Delivered && packet.body.payload_bytes() == 0;
    let values = if is_ack { ack_values(packet) } else { [packet.body.place().start as f64, f64::NAN] };
    Point { time_ns: now.as_nanos(), series: line << 1 | packet.direction as usize, values, sum: 0 }
}

/// The ACK number, and the end of the window that the ACK advertises.
fn ack_values(packet: &Packet) -> [f64; 2] {
    match &packet.body {
        Body::Tcp(Segment { flags, ack, window_bytes, .. }) if flags.contains(Flags::ACK) => {
            [*ack as f64, ack.saturating_add(*window_bytes) as f64]
        }
        Body::Quic(datagram) => [datagram.ack as f64, f64::NAN],
        _ => [f64::NAN; 2],
    }
}

#[inline]
fn tcp_point(now: Instant, flow: FlowId, event: TransportEvent, values: [f64; 2]) -> Point {
    let series = flow.0 as usize * LINES + event.kind() as usize;
    Point { time_ns: now.as_nanos(), series, values, sum: 0 }
}
