//! Time series of a run: goodput, window, round-trip time, queue and losses of flows and hop, step by step.

use crate::arrived::Arrived;
use lasthop_core::{
    Body, Direction, DropPlace, Duration, Flags, FlowId, FlowInfo, Host, Instant, Observer, Packet,
    PacketEvent, Place, Segment, TransportEvent,
};
use lasthop_link::Capacity;

mod csv;
mod folded;
mod row;
#[cfg(test)]
mod tests;

pub use csv::SeriesFile;
pub use folded::{FoldedSeries, Span};
pub use row::SeriesRow;

/// One step of a flow or of a direction of the hop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    number: u64,
    /// The flow, if the step belongs to a flow; `direction` is then that of its data.
    flow: Option<u32>,
    direction: Direction,
    /// True if the flow has data in flight or to retransmit.
    is_sending: bool,
    fresh_bytes: u64,
    lost_packets: u64,
    marks_ecn: u64,
    /// Integral of the length of the queue over the step, in packet-nanoseconds.
    queue_area: u128,
    queue_max: u32,
    cwnd: Option<u32>,
    srtt_ns: Option<u64>,
}

/// The hop that the steps of a run speak of, in each direction, down and up.
#[derive(Debug)]
pub struct Bottlenecks {
    pub places: [Place; 2],
    pub capacities: [Option<Capacity>; 2],
    /// Whether the packets of each application cross it.
    pub crossed: Vec<Vec<[bool; 2]>>,
}

impl Bottlenecks {
    /// Those of a single hop, which the packets of all applications cross.
    pub fn single(capacities: [Option<Capacity>; 2]) -> Self {
        Self { places: [Direction::Down, Direction::Up].map(Place::from), capacities, crossed: Vec::new() }
    }
}

#[derive(Debug)]
pub struct Known {
    names: Vec<String>,
    bottlenecks: Bottlenecks,
}

pub trait SeriesSink {
    /// Receives all rows of a step of this length: its active flows, then the hop. Returns the factor by
    /// which later steps are to be longer; the steps so far must form complete steps of the new length.
    fn step(&mut self, known: &Known, steps: &[Step], length: Duration) -> u64;
}

/// Observes a run and passes on its steps. Memory depends on the number of flows, not on the length of the
/// run.
///
/// A flow has a row in each step in which it is active: one of its data packets was sent, arrived or was
/// lost, or data that it sent has not arrived yet.
#[derive(Debug)]
pub struct Series<S> {
    length: Duration,
    number: u64,
    step_end: Instant,
    known: Known,
    flows: Vec<Option<Box<SeriesFlow>>>,
    /// The flows that may have a row, collected by [`SeriesFlow::list`].
    listed: Vec<u32>,
    hops: [Tally; 2],
    rows: Vec<Step>,
    sink: S,
}

#[derive(Debug, Default)]
struct Tally {
    fresh_bytes: u64,
    lost_packets: u64,
    marks_ecn: u64,
    queue: Gauge,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    #[default]
    None,
    /// An event of a packet without payload.
    Headers,
    Payload,
}

/// The length of a queue, and its statistics in this step.
#[derive(Debug, Default)]
struct Gauge {
    packets: u32,
    since: Instant,
    area: u128,
    max: u32,
}

#[allow(clippy::struct_excessive_bools, reason = "independent facts of a flow")]
#[derive(Debug, Default)]
struct SeriesFlow {
    direction: Direction,
    /// Whether its data cross the hop that the steps speak of.
    crosses: bool,
    tally: Tally,
    /// The parts of the stream that its receiver has.
    received: Arrived,
    /// Payload that was sent, retransmissions of a stream not counted; how much has arrived or is lost.
    sent_bytes: u64,
    settled_bytes: u64,
    /// Its packets in flight in the direction of its data.
    inside: u64,
    /// The events of these packets in this step.
    activity: Activity,
    /// Nothing more will be sent.
    is_over: bool,
    is_retired: bool,
    /// True if it may have a row in this step.
    is_listed: bool,
    cwnd: Option<u32>,
    srtt_ns: Option<u64>,
}

impl<S: SeriesSink> Series<S> {
    /// Passes on steps of this length, which is not zero.
    pub fn new(length: Duration, bottlenecks: Bottlenecks, sink: S) -> Self {
        Self {
            length,
            number: 0,
            step_end: row::start(1, length),
            known: Known { names: Vec::new(), bottlenecks },
            flows: Vec::new(),
            listed: Vec::new(),
            hops: Default::default(),
            rows: Vec::new(),
            sink,
        }
    }

    /// Passes on the last step of a run that ended at `end`. Returns the sink and the last step's length.
    fn finish(mut self, end: Instant) -> (S, Known, Duration) {
        self.advance(end);
        let length = self.length;
        let last = self.close_step();
        (self.sink, self.known, Duration::from_nanos(length.as_nanos() * last))
    }

    /// Passes on the steps that are over at `now`. An event at the end of a step belongs to the next step.
    #[inline]
    fn advance(&mut self, now: Instant) {
        while now >= self.step_end {
            self.close_step();
        }
    }

    /// Returns the factor by which the next step is longer.
    fn close_step(&mut self) -> u64 {
        let (number, end) = (self.number, self.step_end);
        self.rows.clear();
        let (flows, rows) = (&mut self.flows, &mut self.rows);
        self.listed.sort_unstable();
        self.listed.retain(|id| {
            let Some(flow) = flows[*id as usize].as_deref_mut() else { return false };
            flow.is_listed = flow.is_active();
            if flow.is_listed {
                rows.push(flow.close_step(number, *id, end));
                return true;
            }
            if flow.is_retired {
                flows[*id as usize] = None;
            }
            false
        });
        for (direction, hop) in [Direction::Down, Direction::Up].into_iter().zip(&mut self.hops) {
            self.rows.push(hop.close_step(number, direction, end));
        }
        let longer = self.sink.step(&self.known, &self.rows, self.length);
        self.number = (self.number + 1) / longer;
        self.length = Duration::from_nanos(self.length.as_nanos() * longer);
        self.step_end = row::start(self.number + 1, self.length);
        longer
    }

    fn flow(&mut self, flow: FlowId) -> Option<&mut SeriesFlow> {
        self.flows[flow.0 as usize].as_deref_mut()
    }

    /// Notes what happened to a packet. Returns the payload that reached the receiver for the first time.
    pub(crate) fn note_packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) -> u64 {
        self.advance(now);
        if let Some(measured) = self.known.bottlenecks.places.iter().position(|place| *place == packet.place)
        {
            let hop = &mut self.hops[measured];
            hop.packet(now, event);
            if let PacketEvent::Enqueued(depth) | PacketEvent::Dequeued(depth) = event {
                hop.queue.set(now, depth.packets);
            }
        }
        if let Some(flow) = self.flows[packet.flow.0 as usize].as_deref_mut()
            && flow.direction == packet.direction
        {
            let fresh_bytes = flow.packet(now, event, packet);
            self.hops[packet.direction as usize].fresh_bytes += if flow.crosses { fresh_bytes } else { 0 };
            flow.list(packet.flow, &mut self.listed);
            return fresh_bytes;
        }
        0
    }
}

impl<S: SeriesSink> Observer for Series<S> {
    fn announce(&mut self, info: &FlowInfo) {
        self.known.names.push(info.name.clone());
        let direction = Direction::from(info.sender);
        let ways = self.known.bottlenecks.crossed.get(info.application as usize);
        let way = ways.and_then(|ways| ways.get(info.way()).or(ways.first()));
        let crosses = way.is_none_or(|way| way[direction as usize]);
        self.flows.push(Some(Box::new(SeriesFlow { direction, crosses, ..SeriesFlow::default() })));
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.note_packet(now, event, packet);
    }

    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.advance(now);
        let Some(state) = self.flow(flow) else { return };
        match event {
            TransportEvent::Aborted => state.is_over = true,
            _ if Direction::from(host) != state.direction => {}
            TransportEvent::Window { cwnd, .. } => state.cwnd = Some(cwnd),
            TransportEvent::RttSample { rtt, .. } => state.smooth(rtt),
            _ => {}
        }
    }

    fn retired(&mut self, _now: Instant, flow: FlowId) {
        let Some(state) = self.flows[flow.0 as usize].as_deref_mut() else { return };
        (state.is_over, state.is_retired) = (true, true);
        state.list(flow, &mut self.listed); // the step's end forgets it
    }
}

impl SeriesFlow {
    /// Notes, once per step, that it may have a row in this step.
    #[inline]
    fn list(&mut self, id: FlowId, listed: &mut Vec<u32>) {
        if !std::mem::replace(&mut self.is_listed, true) {
            listed.push(id.0);
        }
    }

    /// Whether it has data in flight or to retransmit.
    fn is_sending(&self) -> bool {
        self.activity == Activity::Payload || (!self.is_over && self.sent_bytes > self.settled_bytes)
    }

    fn is_active(&self) -> bool {
        self.activity > Activity::None || self.inside > 0 || self.is_sending()
    }

    /// Handles a packet in the direction of its data; returns the payload that arrived for the first time.
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) -> u64 {
        self.activity = self.activity.max(Activity::Headers);
        self.tally.packet(now, event);
        match event {
            PacketEvent::Enqueued(_) => self.tally.queue.set(now, self.tally.queue.packets + 1),
            PacketEvent::Dequeued(_) => self.tally.queue.remove(now),
            PacketEvent::Sent => self.inside += 1,
            PacketEvent::Delivered | PacketEvent::Dropped(_) => self.inside = self.inside.saturating_sub(1),
            _ => {}
        }
        let payload = u64::from(packet.body.payload_bytes());
        if payload == 0 {
            return 0;
        }
        self.activity = Activity::Payload;
        match (&packet.body, event) {
            (Body::Tcp(segment), PacketEvent::Sent) => {
                self.sent_bytes = self.sent_bytes.max(first_byte(segment) + payload - 1);
            }
            (Body::Quic(datagram), PacketEvent::Sent) if datagram.numbers().is_empty() => {
                let end = datagram.blocks.as_slice().iter().map(|block| block.end - 1).max();
                self.sent_bytes = self.sent_bytes.max(end.unwrap_or_default());
            }
            (Body::Quic(datagram), PacketEvent::Delivered) if datagram.numbers().is_empty() => {
                let blocks = datagram.blocks;
                return self.arrived(|received| {
                    blocks.as_slice().iter().map(|block| received.add(&(block.start..block.end))).sum()
                });
            }
            (Body::Udp(_) | Body::Quic(_), PacketEvent::Sent) => self.sent_bytes += payload,
            (Body::Quic(datagram), PacketEvent::Dropped(_)) if datagram.numbers().is_empty() => {}
            (Body::Udp(_) | Body::Quic(_), PacketEvent::Dropped(_)) => self.settled_bytes += payload,
            (Body::Tcp(segment), PacketEvent::Delivered) => {
                let first = first_byte(segment);
                return self.arrived(|received| received.add(&(first..first + payload)));
            }
            (Body::Udp(_) | Body::Quic(_), PacketEvent::Delivered) => return self.arrived(|_| payload),
            _ => {}
        }
        0
    }

    /// Counts payload that has arrived; `fresh` is the new part of it.
    fn arrived(&mut self, fresh: impl FnOnce(&mut Arrived) -> u64) -> u64 {
        let bytes = fresh(&mut self.received);
        self.settled_bytes += bytes;
        self.tally.fresh_bytes += bytes;
        bytes
    }

    /// RFC 6298, section 2, with its gain of an eighth.
    fn smooth(&mut self, rtt: Duration) {
        let rtt = rtt.as_nanos();
        self.srtt_ns = Some(self.srtt_ns.map_or(rtt, |srtt| srtt - srtt / 8 + rtt / 8));
    }

    fn close_step(&mut self, number: u64, id: u32, end: Instant) -> Step {
        let step = Step {
            flow: Some(id),
            is_sending: self.is_sending(),
            cwnd: self.cwnd,
            srtt_ns: self.srtt_ns,
            ..self.tally.close_step(number, self.direction, end)
        };
        self.activity = Activity::None;
        step
    }
}

/// The SYN comes before the payload in sequence space (RFC 9293, section 3.4).
fn first_byte(segment: &Segment) -> u64 {
    segment.seq + u64::from(segment.flags.contains(Flags::SYN))
}

impl Tally {
    fn packet(&mut self, now: Instant, event: PacketEvent) {
        match event {
            PacketEvent::Marked => self.marks_ecn += 1,
            PacketEvent::Dropped(cause) => {
                self.lost_packets += 1;
                if cause.labels().place == DropPlace::Queue {
                    self.queue.remove(now);
                }
            }
            _ => {}
        }
    }

    /// The statistics of the step that ends now; starts the next step.
    fn close_step(&mut self, number: u64, direction: Direction, end: Instant) -> Step {
        self.queue.set(end, self.queue.packets);
        let Self { fresh_bytes, lost_packets, marks_ecn, queue } = std::mem::take(self);
        self.queue = Gauge { packets: queue.packets, since: end, area: 0, max: queue.packets };
        Step {
            fresh_bytes,
            lost_packets,
            marks_ecn,
            queue_area: queue.area,
            queue_max: queue.max,
            number,
            direction,
            ..Step::default()
        }
    }
}

impl Gauge {
    fn set(&mut self, now: Instant, packets: u32) {
        self.area += u128::from(self.packets) * u128::from(now.saturating_since(self.since).as_nanos());
        (self.packets, self.since, self.max) = (packets, now, self.max.max(packets));
    }

    fn remove(&mut self, now: Instant) {
        self.set(now, self.packets.saturating_sub(1));
    }
}
