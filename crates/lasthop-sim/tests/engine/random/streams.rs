//! Byte streams as an independent receiver sees them, reconstructed only from the packets.

use std::collections::BTreeMap;

use lasthop_core::{
    Direction, DropCause, Flags, FlowId, FlowInfo, Host, Instant, Observer, Packet, PacketEvent, Part,
    QueueSize, Segment, Timestamps, TransportEvent,
};
use lasthop_link::PathConfig;
use lasthop_scenario::Scenario;
use lasthop_tcp::CongestionControl;

/// Reassembles the delivered data and checks every acknowledgment against it.
pub struct Streams {
    mtu: u32,
    flows: Vec<Stream>,
    parts: Vec<Part>,
    /// Drops by cause, in the order of [`DropCause::ALL`].
    drops: [u64; DropCause::ALL.len()],
    /// Maximum number of packets of a class, and of bytes of all classes, in the router, down and up.
    longest: [(u32, u32); 2],
    faults: Vec<String>,
    /// Whether an application's receivers echo each mark, as those of DCTCP.
    echoes: Vec<bool>,
}

struct Stream {
    sender: Host,
    /// True if the application withdraws unsent data when it stops.
    stops: bool,
    /// True if a relay receives it, whose window may close. What comes then is discarded.
    to_relay: bool,
    written: u64,
    /// Next byte in order.
    next: u64,
    /// What it was before the latest segment, where an echo of DCTCP may still acknowledge that (RFC 8257,
    /// section 3.2).
    echoed: Option<u64>,
    /// Delivered out of order: start and end.
    beyond: BTreeMap<u64, u64>,
    /// The latest acknowledgment, and the timestamp that belongs to it (`Last.ACK.sent` and `TS.Recent` of
    /// RFC 7323, section 4.3).
    acknowledged: u64,
    recent: u32,
    /// Next byte that was never sent.
    sent: u64,
    /// How the receiving endpoint ended.
    receiver_end: Option<TransportEvent>,
}

impl Streams {
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            mtu: scenario.mtu.0 as u32,
            flows: Vec::new(),
            parts: Vec::new(),
            drops: [0; DropCause::ALL.len()],
            longest: [(0, 0); 2],
            faults: Vec::new(),
            echoes: scenario
                .host_pairs()
                .iter()
                .map(|pair| scenario.tcp_of(&pair.instance).congestion_control == CongestionControl::Dctcp)
                .collect(),
        }
    }

    /// The violations, in order.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Bytes received in order, and bytes written.
    pub fn bytes(&self, flow: usize) -> (u64, u64) {
        let stream = &self.flows[flow];
        // The SYN takes the first place; the FIN may follow the last byte.
        (stream.next.saturating_sub(1).min(stream.written), stream.written)
    }

    /// How the receiving endpoint ended: closed or aborted.
    pub fn receiver_end(&self, flow: usize) -> Option<TransportEvent> {
        self.flows[flow].receiver_end
    }

    pub fn drops(&self, cause: DropCause) -> u64 {
        self.drops[cause as usize]
    }

    /// True if the router's queues on this path never exceeded their limits. Where the link grants, a packet
    /// that has begun is still in the queue, beside those that the limit counts.
    pub fn queue_limit_held(&self, path: &PathConfig, direction: Direction) -> bool {
        let longest = self.longest[usize::from(direction == Direction::Up)];
        let classes = path.htb.as_ref().map_or(1, |htb| htb.class.len() as u32);
        let begun = u32::from(path.grant.is_some());
        match path.queue.limit {
            QueueSize::Packets(packets) => longest.0 <= packets + begun,
            QueueSize::Bytes(bytes) => longest.1 <= bytes * classes + begun * self.mtu,
        }
    }
}

impl Observer for Streams {
    fn announce(&mut self, info: &FlowInfo) {
        self.flows.push(Stream::of(info, self.echoes[info.application as usize]));
        self.parts.push(info.part);
    }

    fn written(&mut self, _now: Instant, flow: FlowId, host: Host, bytes: u64) {
        // What an application writes, the connection on its side of a relay carries.
        let flow = if self.parts[flow.0 as usize] == Part::Relayed { flow.side(host) } else { flow };
        let stream = &mut self.flows[flow.0 as usize];
        if host == stream.sender {
            stream.written += bytes;
        }
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        match event {
            PacketEvent::Dropped(cause) => self.drops[cause as usize] += 1,
            PacketEvent::Enqueued(depth) => {
                let longest = &mut self.longest[usize::from(packet.direction == Direction::Up)];
                *longest = (longest.0.max(depth.class_packets), longest.1.max(depth.bytes));
            }
            _ => {}
        }
        let Some(segment) = packet.tcp() else { return };
        let flow = packet.flow.0 as usize;
        if self.parts[flow].relay_end() == Some(self.flows[flow].sender) {
            // A relay writes what has reached it over its other connection.
            let other = if self.parts[flow] == Part::PeerSide { flow + 1 } else { flow - 1 };
            self.flows[flow].written = Self::bytes(self, other).0;
        }
        let stream = &mut self.flows[flow];
        let verdict = match (packet.direction.sender() == stream.sender, event) {
            (true, PacketEvent::Sent) => stream.sends(segment),
            (false, PacketEvent::Sent) => stream.acknowledges(segment),
            // A copy counts: its packet may be lost at a later hop.
            (true, PacketEvent::Delivered | PacketEvent::Duplicated) => {
                stream.receives(segment);
                Ok(())
            }
            _ => Ok(()),
        };
        let verdict = if packet.ip_bytes > self.mtu { Err("larger than the MTU") } else { verdict };
        if let Err(fault) = verdict {
            self.faults.push(format!("{now}: {fault}: {packet:?}"));
        }
    }

    fn transport(&mut self, _now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        let stream = &mut self.flows[flow.0 as usize];
        if event == TransportEvent::Established && stream.sent == 0 {
            // Open without a handshake, as if a SYN had been exchanged.
            (stream.sent, stream.next) = (1, 1);
        }
        if host != stream.sender && matches!(event, TransportEvent::Closed | TransportEvent::Aborted) {
            stream.receiver_end = Some(event);
        }
    }
}

impl Stream {
    fn of(info: &FlowInfo, is_dctcp: bool) -> Self {
        let sender = info.sender;
        let stops = info.sends_for.is_some() && info.part.relay_end() != Some(sender);
        let echoed = is_dctcp.then_some(0);
        Self {
            sender,
            stops,
            to_relay: info.part.relay_end() == Some(sender.other()),
            written: 0,
            next: 0,
            echoed,
            beyond: BTreeMap::new(),
            acknowledged: 0,
            recent: 0,
            sent: 0,
            receiver_end: None,
        }
    }

    /// The sender leaves no byte out, adds none, and ends the stream at the right byte.
    fn sends(&mut self, segment: &Segment) -> Result<(), &'static str> {
        if segment.sequence_length() == 0 {
            return Ok(());
        }
        if segment.seq > self.sent {
            return Err("skips bytes");
        }
        self.sent = self.sent.max(segment.end());
        let fin = u64::from(segment.flags.contains(Flags::FIN));
        if fin == 1 && std::mem::take(&mut self.stops) {
            self.written = segment.end() - 2;
        }
        if segment.end() - fin > 1 + self.written {
            return Err("more than was written");
        }
        if fin == 1 && segment.end() != self.written + 2 {
            return Err("ends before the last byte");
        }
        Ok(())
    }

    fn receives(&mut self, segment: &Segment) {
        if self.refuses(segment) || segment.sequence_length() == 0 {
            return;
        }
        if let Some(echoed) = &mut self.echoed {
            *echoed = self.next;
        }
        let end = self.beyond.entry(segment.seq).or_default();
        *end = segment.end().max(*end);
        while let Some(first) = self.beyond.first_entry().filter(|first| *first.key() <= self.next) {
            self.next = self.next.max(first.remove());
        }
    }

    /// Takes the timestamp of a segment, with data or without. Returns true if the receiver refuses data for it
    /// (RFC 7323, section 5.3, R1). Linux lets them be a tick older.
    fn refuses(&mut self, segment: &Segment) -> bool {
        let Some(Timestamps { value, .. }) = segment.timestamps else { return false };
        if value >= self.recent && (segment.seq..=segment.end()).contains(&self.acknowledged) {
            self.recent = value;
        }
        value + 1 < self.recent
    }

    /// The receiver acknowledges exactly the data that it has in order, and SACKs only data that it has.
    fn acknowledges(&mut self, segment: &Segment) -> Result<(), &'static str> {
        self.acknowledged = self.acknowledged.max(segment.ack);
        let discarded = self.to_relay && segment.ack < self.next;
        let known = segment.ack == self.next || self.echoed == Some(segment.ack) || discarded;
        if segment.flags.contains(Flags::ACK) && !known {
            return Err("acknowledges something else than it has");
        }
        let held = |start: u64, end: u64| {
            let mut reached = if start < self.next { self.next } else { start };
            for (&from, &to) in &self.beyond {
                if from <= reached {
                    reached = reached.max(to);
                }
            }
            reached >= end
        };
        if segment
            .sack
            .as_slice()
            .iter()
            .any(|block| block.start >= block.end || !held(block.start, block.end))
        {
            return Err("SACKs what it does not have");
        }
        Ok(())
    }
}
