//! The data for pictures of one run, in bounded memory: marks, and points thinned to the visible resolution.

use crate::analysis::take;
use crate::arrived::Arrived;
use crate::columns::{Column, Columnar, columnar};
use crate::recorder::{ObjectRow, PacketRow, TcpRow, note_object, packet_row, tcp_row};
use crate::samples::Samples;
use crate::series::{Bottlenecks, FoldedSeries, Series};
use crate::span::Span;
use crate::thinned::{Kept, Point, Thinned};
use lasthop_core::{
    Body, Direction, Flags, FlowId, FlowInfo, Host, HttpEvent, Instant, Observer, Packet, PacketEvent, Place,
    Protocol, QueueDepth, Segment, TransportEvent, TransportKind,
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
/// Number of flows, from the first on, whose own events are kept. Of further flows, only drops and the
/// effects on the queue are kept.
const FLOWS: usize = 2000;
/// Maximum number of classes of a queue, each a line of the picture.
const QUEUE_CLASSES: usize = 1 << u8::BITS;
/// Number of lines per flow: at least the number of kinds of events, once with SACK blocks and once without.
const LINES: usize = 64;

columnar! {
    /// A flow of an overview.
    #[derive(Clone, Debug, PartialEq)]
    pub struct FlowRow {
        /// Its name.
        flow: String,
        /// Name of the scenario's entry that it belongs to.
        application: String,
        /// Transport protocol.
        protocol: Protocol,
        /// Direction of its data.
        direction: Direction,
    }
}

columnar! {
    /// A point of the distribution function of a flow's one-way delays.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DelayRow {
        /// Number of the flow.
        flow: u32,
        /// Share of the data packets that arrived.
        share: f64,
        /// The delay that they did not exceed.
        delay_s: f64,
    }
}

/// Number of points of a distribution function.
const DELAYS: usize = 201;

/// Counts of the data that an overview leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Points of lines: segments, ACKs, windows, samples, queue lengths.
    pub points: u64,
    /// Drops, timeouts, retransmissions and the like.
    pub marks: u64,
    /// Flows.
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
    states: Vec<FlowState>,
    further_flows: u64,
    /// For each flow, the class of its packets at each place, once known.
    classes: Vec<Vec<Option<u8>>>,
    /// The sum in these points is the payload that reached the receiver for the first time.
    points: Thinned<PacketRow>,
    marks: Thinned<PacketRow>,
    tcp_points: Thinned<TcpRow>,
    tcp_marks: Thinned<TcpRow>,
    objects: Vec<ObjectRow>,
    /// For each place, the depth after the latest change, of each class.
    depths: Vec<Vec<QueueDepth>>,
    latest: Option<Kept<PacketRow>>,
    span: Span,
    series: Series<FoldedSeries>,
}

/// The state of a flow that an overview needs to identify marks.
#[derive(Debug)]
struct FlowState {
    data: Direction,
    /// First sequence number after the highest that the data sender sent.
    sent_end: u64,
    /// First sequence number after the FIN that the client received, until the FIN is acknowledged.
    fin_end: Option<u64>,
    received: Arrived,
    /// First byte of a probe that is about to leave.
    probe: Option<u64>,
    cwnd: Option<u32>,
    rto_ns: Option<u64>,
    /// Its data packets in flight, with their send times.
    on_the_way: VecDeque<(u64, Instant)>,
    one_way_delay: Samples,
}

/// The tables of an overview.
#[derive(Debug)]
pub struct OverviewTables {
    /// The columns of a `Recorder`, and `fresh_bytes`.
    pub packets: Vec<(&'static str, Column)>,
    /// The columns of a `Recorder`. A timeout also has the current RTO, and an undo the current window.
    pub tcp: Vec<(&'static str, Column)>,
    /// The columns of a `Recorder`.
    pub objects: Vec<(&'static str, Column)>,
    /// The flows whose events are kept.
    pub flows: Vec<(&'static str, Column)>,
    /// Goodput, queue, losses and fairness over time, as [`SeriesRow`](crate::SeriesRow) has them.
    pub series: Vec<(&'static str, Column)>,
    /// Distribution functions of the one-way delays: `flow`, `share`, `delay_s`.
    pub delays: Vec<(&'static str, Column)>,
    /// Counts of the data that are not in the tables.
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
        let (mut packets, points_left_out) = self.points.finish();
        let (marks, marks_left_out) = self.marks.finish();
        packets.extend(marks);
        packets.sort_by_key(|kept| kept.row.order);
        packets.extend(self.latest); // the run's end
        let (mut tcp, tcp_points_left_out) = self.tcp_points.finish();
        let (tcp_marks, tcp_marks_left_out) = self.tcp_marks.finish();
        tcp.extend(tcp_marks);
        tcp.sort_by_key(|kept| kept.row.order);
        let fresh = packets.iter().map(|kept| Some(kept.point.sum)).collect();
        let packets: Vec<PacketRow> = packets.into_iter().map(|kept| kept.row).collect();
        let tcp: Vec<TcpRow> = tcp.into_iter().map(|kept| kept.row).collect();
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

    /// Notes the depth of the queue for later drops.
    fn note_depth(&mut self, event: PacketEvent, packet: &Packet) {
        if let PacketEvent::Enqueued(depth) | PacketEvent::Dequeued(depth) = event {
            let place = usize::from(packet.place.0);
            let depths = element(&mut self.depths, place);
            *element(depths, usize::from(depth.class)) = depth;
            *element(&mut self.classes[packet.flow.0 as usize], place) = Some(depth.class);
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
        self.states.push(FlowState::new(data));
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.series.packet(now, event, packet);
        let order = self.order();
        let state = self.states.get_mut(packet.flow.0 as usize);
        let known = state.is_some();
        let (mark, fresh_bytes) = match state {
            Some(state) => {
                state.delay(now, event, packet);
                (state.marks(event, packet), state.fresh_bytes(event, packet))
            }
            None => (is_mark(event), 0),
        };
        self.note_depth(event, packet);
        let point = packet_point(now, event, packet, fresh_bytes);
        let row = || packet_row(order, now, event, packet);
        if mark {
            let row = if is_mark(event) { self.with_queue(row()) } else { row() };
            self.marks.push(point, || row);
            self.latest = None;
        } else if matches!(event, PacketEvent::Enqueued(_) | PacketEvent::Dequeued(_))
            || (known && self.states[packet.flow.0 as usize].draws(event, packet))
        {
            self.points.push(point, row);
            self.latest = None;
        } else {
            self.latest = Some(Kept { point, row: row() });
        }
    }

    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.series.transport(now, flow, host, event);
        let order = self.order();
        let Some(state) = self.states.get_mut(flow.0 as usize) else { return };
        if Direction::from(host) != state.data {
            return;
        }
        let mut row = tcp_row(order, now, flow, host, event);
        match event {
            TransportEvent::Window { cwnd, .. } => state.cwnd = Some(cwnd),
            TransportEvent::RttSample { .. } => state.rto_ns = row.rto_ns,
            TransportEvent::Undone(_) => row.cwnd = state.cwnd,
            TransportEvent::Timeout { .. } => row.rto_ns = state.rto_ns,
            TransportEvent::TailLossProbe { seq } => state.probe = Some(seq),
            _ => {}
        }
        let point = tcp_point(&row);
        match event {
            TransportEvent::Window { .. } | TransportEvent::RttSample { .. } => {
                self.tcp_points.push(point, || row);
            }
            _ => self.tcp_marks.push(point, || row),
        }
    }

    fn retired(&mut self, now: Instant, flow: FlowId) {
        self.series.retired(now, flow);
    }

    fn http(&mut self, now: Instant, flow: FlowId, event: HttpEvent) {
        note_object(&mut self.objects, now, flow, event);
    }
}

impl FlowState {
    fn new(data: Direction) -> Self {
        Self {
            data,
            sent_end: 0,
            fin_end: None,
            received: Arrived::default(),
            probe: None,
            cwnd: None,
            rto_ns: None,
            on_the_way: VecDeque::new(),
            one_way_delay: Samples::default(),
        }
    }

    /// Notes the one-way delay of a data packet.
    #[inline]
    fn delay(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if packet.direction != self.data || packet.body.payload_bytes() == 0 {
            return;
        }
        match event {
            PacketEvent::Sent => self.on_the_way.push_back((packet.serial, now)),
            PacketEvent::Delivered => {
                if let Some(sent_at) = take(&mut self.on_the_way, packet.serial) {
                    self.one_way_delay.record(now.saturating_since(sent_at));
                }
            }
            PacketEvent::Dropped(_) => {
                take(&mut self.on_the_way, packet.serial);
            }
            _ => {}
        }
    }

    /// The distribution function of its one-way delays.
    fn delays(self, flow: u32) -> impl Iterator<Item = DelayRow> {
        let shares: [f64; DELAYS] = from_fn(|place| place as f64 / (DELAYS - 1) as f64);
        let delays = self.one_way_delay.quantiles_s(shares).into_iter().zip(shares);
        delays.filter_map(move |(delay_s, share)| Some(DelayRow { flow, share, delay_s: delay_s? }))
    }

    /// Whether this event is a mark.
    #[inline]
    fn marks(&mut self, event: PacketEvent, packet: &Packet) -> bool {
        let mut mark = is_mark(event);
        let segment = match &packet.body {
            Body::Tcp(segment) => segment,
            Body::Quic(datagram) => {
                let again = datagram.repeated.is_some() && packet.direction == self.data;
                return mark || again && event == PacketEvent::Sent;
            }
            Body::Udp(_) => return mark,
        };
        let ends = matches!(event, PacketEvent::Sent | PacketEvent::Delivered);
        mark |= ends && (segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::FIN));
        if event == PacketEvent::Sent && packet.direction == self.data && segment.sequence_length() > 0 {
            mark |= segment.seq < self.sent_end || self.probe == Some(segment.seq);
            self.probe = None;
            self.sent_end = self.sent_end.max(segment.end());
        }
        // The client's ACK of the FIN ends a page load's connection.
        match (event, packet.direction) {
            (PacketEvent::Delivered, Direction::Down) if segment.flags.contains(Flags::FIN) => {
                self.fin_end.get_or_insert(segment.end());
            }
            (PacketEvent::Sent, Direction::Up) if self.fin_end.is_some_and(|end| segment.ack >= end) => {
                self.fin_end = Some(u64::MAX);
                mark = true;
            }
            _ => {}
        }
        mark
    }

    /// The payload that reaches the receiver for the first time.
    #[inline]
    fn fresh_bytes(&mut self, event: PacketEvent, packet: &Packet) -> u64 {
        if event != PacketEvent::Delivered || packet.direction != self.data {
            return 0;
        }
        let bytes = u64::from(packet.body.payload_bytes());
        match &packet.body {
            Body::Tcp(segment) if bytes > 0 => self.received.add(&(segment.seq..segment.seq + bytes)),
            Body::Tcp(_) => 0,
            Body::Quic(datagram) if !datagram.blocks.is_empty() => {
                let blocks = datagram.blocks.as_slice().iter();
                blocks.map(|block| self.received.add(&(block.start..block.end))).sum()
            }
            Body::Quic(_) | Body::Udp(_) => bytes,
        }
    }

    /// Whether a panel shows the event as a point of a line: data sent and arrived, ACKs that the sender
    /// received.
    #[inline]
    fn draws(&self, event: PacketEvent, packet: &Packet) -> bool {
        match (packet.tcp(), event) {
            (Some(segment), PacketEvent::Sent) => {
                packet.direction == self.data && segment.sequence_length() > 0
            }
            (Some(segment), PacketEvent::Delivered) => {
                if packet.direction == self.data {
                    segment.sequence_length() > 0
                } else {
                    segment.flags.contains(Flags::ACK)
                }
            }
            (None, PacketEvent::Sent) if packet.direction == self.data => {
                matches!(&packet.body, Body::Quic(datagram) if !datagram.blocks.is_empty())
            }
            (None, event) => event == PacketEvent::Delivered,
            _ => false,
        }
    }
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

fn is_mark(event: PacketEvent) -> bool {
    matches!(event, PacketEvent::Marked | PacketEvent::Dropped(_))
}

#[inline]
fn packet_point(now: Instant, event: PacketEvent, packet: &Packet, fresh_bytes: u64) -> Point {
    let segment = packet.tcp();
    let (line, values) = match event {
        // All flows share the queue.
        PacketEvent::Enqueued(depth) | PacketEvent::Dequeued(depth) => {
            let line = queue_line(packet.place, depth.class);
            return Point {
                time_ns: now.as_nanos(),
                series: line,
                values: [f64::from(depth.class_packets), depth.average],
                sum: fresh_bytes,
            };
        }
        _ => {
            // SACK blocks are drawn individually, ACKs as a line.
            let has_blocks = segment.is_some_and(|segment| !segment.sack.is_empty());
            let kind = 2 * event.kind().number() + u32::from(has_blocks);
            let line = QUEUE_CLASSES + (packet.flow.0 as usize).min(FLOWS) * LINES + kind as usize;
            let is_ack = event == PacketEvent::Delivered && packet.body.payload_bytes() == 0;
            (line, if is_ack { ack_values(packet) } else { [packet.body.place().start as f64, f64::NAN] })
        }
    };
    let series = line << 1 | packet.direction as usize;
    Point { time_ns: now.as_nanos(), series, values, sum: fresh_bytes }
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

fn tcp_point(row: &TcpRow) -> Point {
    let nanos = |value: Option<u64>| value.map_or(f64::NAN, |value| value as f64);
    let segments = |value: Option<u32>| value.map_or(f64::NAN, f64::from);
    let values = match row.event {
        TransportKind::Window => [segments(row.cwnd), segments(row.ssthresh)],
        TransportKind::RttSample => [nanos(row.rtt_ns), nanos(row.rto_ns)],
        _ => [nanos(row.seq), f64::NAN],
    };
    let series = row.flow as usize * LINES + row.event as usize;
    Point { time_ns: row.time_ns, series, values, sum: 0 }
}
