//! Traces are written as the events of a run; times in milliseconds, sequence numbers relative to
//! the first data byte, which is offset 1 of the stream.

// Times are whole milliseconds, so seconds come out as the nearest double.
#![allow(clippy::float_cmp)]

mod joint;
mod measure;
mod page;
mod properties;
mod run;
mod tcp;
mod udp;

use super::*;
use lasthop_core::{
    Body, Datagram, DropCause, Dscp, Ecn, Flags, Part, Place, QueueDepth, SackBlock, Segment,
};
use std::collections::BTreeMap;

const MSS: u32 = 536;

/// One flow named `f`, and a second one named `g`; the bottleneck takes 8000 bytes per second.
struct Trace {
    analysis: Analysis,
    serial: u64,
    flow: FlowId,
    /// When the packets in the router queue entered it, by serial.
    queued: BTreeMap<u64, Instant>,
    /// The data direction of the trace.
    down: Direction,
}

fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// The flow of the scenario's entry with the same name.
fn info(name: &str, protocol: Protocol) -> FlowInfo {
    let application = u32::from(name != "f");
    FlowInfo {
        group: None,
        is_control: false,
        name: name.to_owned(),
        application,
        protocol,
        sender: Host::Server,
        offered_bytes: None,
        sends_for: None,
        dscp: Dscp::default(),
        ecn: Ecn::NotEct,
        server_port: 30_001,
        part: Part::Whole,
    }
}

fn other(direction: Direction) -> Direction {
    if direction == Direction::Down { Direction::Up } else { Direction::Down }
}

impl Trace {
    fn of(flows: &[FlowInfo]) -> Self {
        let run = RunInfo {
            capacities: [64_000.0, 32_000.0].map(|rate| Capacity::at(&[(Instant::ZERO, rate)])),
            places: [Direction::Down, Direction::Up].map(Place::from),
            bottlenecks: Default::default(),
            segment_bytes: MSS,
            packet_bytes: 576,
        };
        let applications =
            ["f", "g"].map(|name| ApplicationInfo { name: name.to_owned(), ..Default::default() });
        let mut analysis = Analysis::new(applications.to_vec(), run);
        for flow in flows {
            analysis.announce(flow);
        }
        let down = flows.first().map_or(Direction::Down, |flow| Direction::from(flow.sender));
        Self { analysis, serial: 0, flow: FlowId(0), queued: BTreeMap::new(), down }
    }

    /// A TCP transfer in segments of 536.
    fn tcp() -> Self {
        Self::of(&[info("f", Protocol::Tcp)])
    }

    /// A UDP stream of unknown length.
    fn udp() -> Self {
        Self::of(&[info("f", Protocol::Udp)])
    }

    fn packet(&mut self, direction: Direction, body: Body) -> Packet {
        self.serial += 1;
        let ip_bytes = match &body {
            Body::Tcp(segment) => segment.ip_bytes(),
            Body::Udp(datagram) => datagram.payload_bytes + Datagram::HEADER_BYTES,
            Body::Quic(datagram) => datagram.payload_bytes + Datagram::HEADER_BYTES,
        };
        let (serial, flow, dscp) = (self.serial, self.flow, Dscp::default());
        Packet {
            serial,
            flow,
            direction,
            ip_bytes,
            ecn: Ecn::NotEct,
            is_copy: false,
            place: Place::from(direction),
            queued_at: Instant::MAX,
            dscp,
            server_port: 30_001,
            body,
        }
    }

    fn event(&mut self, at: u64, event: PacketEvent, packet: &Packet) {
        let queued_at = match event {
            PacketEvent::Enqueued(_) => {
                self.queued.insert(packet.serial, ms(at));
                Some(ms(at))
            }
            PacketEvent::Dequeued(_) | PacketEvent::Dropped(_) => self.queued.remove(&packet.serial),
            _ => None,
        };
        let packet = Packet { queued_at: queued_at.unwrap_or(Instant::MAX), ..packet.clone() };
        self.analysis.packet(ms(at), event, &packet);
    }

    fn send(&mut self, at: u64, direction: Direction, segment: Segment) -> Packet {
        let packet = self.packet(direction, Body::Tcp(segment));
        self.event(at, PacketEvent::Sent, &packet);
        packet
    }

    /// Data bytes `seq..seq + len` leave the sender.
    fn sent(&mut self, at: u64, seq: u64, len: u32) -> Packet {
        let segment =
            Segment { seq: 1 + seq, ack: 1, payload_bytes: len, flags: Flags::ACK, ..Segment::default() };
        self.send(at, self.down, segment)
    }

    fn datagram(&mut self, at: u64, number: u64) -> Packet {
        let packet = self.packet(self.down, Body::Udp(Datagram { number, payload_bytes: 512 }));
        self.event(at, PacketEvent::Sent, &packet);
        packet
    }

    fn delivered(&mut self, at: u64, packet: &Packet) {
        self.event(at, PacketEvent::Delivered, packet);
    }

    fn dropped(&mut self, at: u64, packet: &Packet, cause: DropCause) {
        self.event(at, PacketEvent::Dropped(cause), packet);
    }

    /// The receiver's response with these fields, sent and received at once.
    fn answer(&mut self, at: u64, ack: u64, flags: Flags, sack: &[(u64, u64)]) {
        let mut segment = Segment { seq: 1, ack: 1 + ack, flags, ..Segment::default() };
        for (start, end) in sack {
            segment.sack.push(SackBlock { start: 1 + start, end: 1 + end });
        }
        let packet = self.send(at, other(self.down), segment);
        self.delivered(at, &packet);
    }

    /// An ACK for everything below `ack`, received by the sender.
    fn ack(&mut self, at: u64, ack: u64) {
        self.answer(at, ack, Flags::ACK, &[]);
    }

    /// Handshake: SYN at `at`, SYN-ACK 600 ms later, both delivered.
    fn handshake(&mut self, at: u64) {
        let syn = self.send(at, self.down, Segment { flags: Flags::SYN, ..Segment::default() });
        self.delivered(at + 300, &syn);
        self.answer(at + 600, 0, Flags::SYN.with(Flags::ACK), &[]);
    }

    fn tcp_event(&mut self, at: u64, event: TransportEvent) {
        self.analysis.transport(ms(at), self.flow, self.down.sender(), event);
    }

    fn timeout(&mut self, at: u64, seq: u64) {
        self.tcp_event(at, TransportEvent::Timeout { seq: 1 + seq, backoff: 1 });
    }

    /// A whole transfer without loss: two segments of 536 bytes from `at`, FIN on the second,
    /// everything acknowledged 2000 ms after `at`.
    fn loss_free(&mut self, at: u64) {
        self.handshake(at);
        let first = self.sent(at + 600, 0, MSS);
        self.delivered(at + 1000, &first);
        self.ack(at + 1400, 536);
        let fin = Flags::ACK.with(Flags::FIN);
        let last = Segment { seq: 537, ack: 1, payload_bytes: MSS, flags: fin, ..Segment::default() };
        let last = self.send(at + 1400, self.down, last);
        self.delivered(at + 1700, &last);
        self.ack(at + 2000, 1073);
        self.answer(at + 2010, 1073, fin, &[]);
        self.tcp_event(at + 2010, TransportEvent::Closed);
    }

    fn record(self) -> FlowRecord {
        self.records().flows.remove(0)
    }

    fn records(self) -> Records {
        self.analysis.finish(ms(60_000))
    }
}

fn depth(packets: u32, average: f64) -> QueueDepth {
    QueueDepth { packets, bytes: packets * 576, class: 0, class_packets: packets, average }
}
