//! Flow metrics from a packet capture, by lasthop or another program, computed as tcptrace does.
//!
//! [`analyze`] reads a capture as a stream: memory is that of the open gaps and flights of its flows, not
//! of the file. Every flow gives two [`StreamRecord`]s, one per direction.

mod composition;
mod datagrams;
mod decode;
mod packets;
mod record;
mod sent;
mod stream;

#[cfg(test)]
mod tests;

pub use lasthop_capture::CaptureError;
pub use packets::{PacketFlow, Packets, packets};
pub use record::{CaptureRecord, Ending, ProtocolRecord, SizeRecord, StreamRecord};

use composition::Composition;
use datagrams::Datagrams;
use decode::{Decoded, Endpoint, FlowKey, TransportPacket, decode};
use lasthop_core::Protocol;
use std::collections::BTreeMap;
use std::io::Read;
use stream::{Stream, seconds};

#[derive(Clone, Debug, PartialEq)]
pub struct CaptureAnalysis {
    /// The directions of the flows.
    pub streams: Vec<StreamRecord>,
    pub capture: CaptureRecord,
    pub protocols: Vec<ProtocolRecord>,
    pub sizes: Vec<SizeRecord>,
}

/// Analyses a pcap or pcapng file. Flows are in the order of their first packets, each beginning with the
/// direction of that packet. A capture that ends within a packet is analysed up to that point, reported in
/// [`CaptureRecord::cut_at`]; other damage is an error.
///
/// A SYN with a new sequence number begins a new flow between the same ends, even if the old one has not
/// ended. IP fragments are counted and left out.
pub fn analyze<R: Read>(input: R) -> Result<CaptureAnalysis, CaptureError> {
    let mut flows = Flows::default();
    let mut record = CaptureRecord::default();
    let mut composition = Composition::default();
    record.cut_at = lasthop_capture::read(input, |frame| {
        record.packets += 1;
        let (layers, content) = decode(&frame)?;
        composition.count(layers, frame.wire_length as u64);
        match content {
            Decoded::Transport(packet) => {
                *if packet.tcp.is_some() { &mut record.tcp_packets } else { &mut record.udp_packets } += 1;
                flows.packet(frame.time_ns, &packet);
            }
            Decoded::Other => record.other_packets += 1,
            Decoded::Fragment => record.fragments += 1,
            Decoded::Incomplete => record.incomplete_packets += 1,
        }
        Ok(())
    })?
    .cut_at;
    let (protocols, sizes) = composition.finish();
    Ok(CaptureAnalysis { streams: flows.finish(), capture: record, protocols, sizes })
}

#[derive(Debug, Default)]
struct Flows {
    list: Vec<CapturedFlow>,
    /// The newest flow between two ends.
    index: BTreeMap<FlowKey, usize>,
    /// The flow of the last packet: the next packet mostly belongs to it, too.
    last: Option<(FlowKey, usize)>,
}

#[derive(Debug)]
struct CapturedFlow {
    /// Source and destination of its first packet.
    ends: (Endpoint, Endpoint),
    first_ns: u64,
    last_ns: u64,
    transport: CapturedTransport,
}

/// The direction of the first packet, then the other.
#[derive(Debug)]
enum CapturedTransport {
    Tcp(Box<[Stream; 2]>),
    Udp(Box<[Datagrams; 2]>),
}

impl Flows {
    fn packet(&mut self, now_ns: u64, packet: &TransportPacket) {
        let key = packet.key();
        let recent = match self.last {
            Some((last, index)) if last == key => Some(index),
            _ => self.index.get(&key).copied(),
        };
        let recent = recent.filter(|&index| !self.list[index].is_followed_by(packet));
        let index = recent.unwrap_or_else(|| {
            self.list.push(CapturedFlow::new(now_ns, packet));
            self.index.insert(key, self.list.len() - 1);
            self.list.len() - 1
        });
        self.last = Some((key, index));
        self.list[index].packet(now_ns, packet);
    }

    fn finish(self) -> Vec<StreamRecord> {
        self.list.into_iter().zip(1..).flat_map(|(flow, number)| flow.finish(number)).collect()
    }
}

impl CapturedFlow {
    fn new(now_ns: u64, packet: &TransportPacket) -> Self {
        Self {
            ends: (packet.source, packet.destination),
            first_ns: now_ns,
            last_ns: now_ns,
            transport: match packet.tcp {
                Some(_) => CapturedTransport::Tcp(Box::default()),
                None => CapturedTransport::Udp(Box::default()),
            },
        }
    }

    /// Which of the two directions it takes; always the first for a host that talks to itself on one port.
    fn direction(&self, packet: &TransportPacket) -> usize {
        usize::from(packet.source != self.ends.0)
    }

    /// True if a packet between the same ends begins another flow.
    fn is_followed_by(&self, packet: &TransportPacket) -> bool {
        match (&self.transport, packet.opening()) {
            (CapturedTransport::Tcp(streams), Some(seq)) => streams[self.direction(packet)].is_new(seq),
            _ => false,
        }
    }

    fn packet(&mut self, now_ns: u64, packet: &TransportPacket) {
        self.last_ns = now_ns;
        let direction = self.direction(packet);
        match (&mut self.transport, &packet.tcp) {
            (CapturedTransport::Tcp(streams), Some(header)) => {
                let [a, b] = &mut **streams;
                let (this, other) = if direction == 0 { (a, b) } else { (b, a) };
                stream::packet(this, other, now_ns, packet, header);
            }
            (CapturedTransport::Udp(datagrams), _) => datagrams[direction].packet(now_ns, packet),
            (CapturedTransport::Tcp(_), None) => unreachable!("the key of a flow has its protocol"),
        }
    }

    /// Both directions; for UDP, only those that were used.
    fn finish(self, number: u64) -> Vec<StreamRecord> {
        let span_s = seconds(Some(self.first_ns), Some(self.last_ns)).unwrap_or(0.0);
        let (protocol, outcome, complete, records) = match self.transport {
            CapturedTransport::Tcp(streams) => {
                let outcome = if streams.iter().all(Stream::is_closed) {
                    Ending::Closed
                } else if streams.iter().any(|stream| stream.record.resets > 0) {
                    Ending::Reset
                } else {
                    Ending::Unfinished
                };
                let complete = streams.iter().all(|stream| stream.record.syns > 0 && stream.record.fins > 0);
                (Protocol::Tcp, outcome, complete, streams.map(|stream| stream.finish(span_s)))
            }
            CapturedTransport::Udp(datagrams) => {
                (Protocol::Udp, Ending::Connectionless, false, datagrams.map(Datagrams::finish))
            }
        };
        let (source, destination) = self.ends;
        [(source, destination), (destination, source)]
            .into_iter()
            .zip(records)
            .filter(|(_, record)| protocol == Protocol::Tcp || record.packets > 0)
            .map(|((source, destination), record)| StreamRecord {
                connection: number,
                protocol,
                source: source.0.to_string(),
                source_port: source.1.into(),
                destination: destination.0.to_string(),
                destination_port: destination.1.into(),
                outcome,
                complete,
                span_s,
                ..record
            })
            .collect()
    }
}
