//! A page load, seen from the browser.

use crate::records::{Outcome, PageRecord};
use lasthop_core::{Direction, Flags, FlowId, Instant, Packet, PacketEvent};

#[derive(Clone, Debug)]
pub(super) struct Page {
    pub application: u32,
    record: PageRecord,
    started: Option<Instant>,
    connections: Vec<PageConnection>,
}

#[derive(Clone, Debug)]
struct PageConnection {
    flow: FlowId,
    /// First sequence number after the server's FIN, once sent.
    fin_end: Option<u64>,
    /// When the browser received the FIN in order.
    ended: Option<Instant>,
    aborted: bool,
}

impl Page {
    pub fn new(application: u32, page: String, objects: u32) -> Self {
        let record = PageRecord { page, objects: u64::from(objects), ..PageRecord::default() };
        Self { application, record, started: None, connections: Vec::new() }
    }

    pub fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if event != PacketEvent::Sent {
            return;
        }
        self.started.get_or_insert(now);
        let connection = self.connection(packet.flow);
        let Some(segment) = packet.tcp() else { return };
        match packet.direction {
            Direction::Down if segment.flags.contains(Flags::FIN) => connection.fin_end = Some(segment.end()),
            // A FIN in order is acknowledged at once (RFC 9293, section 3.10.7.4).
            Direction::Up if connection.fin_end.is_some_and(|fin_end| segment.ack >= fin_end) => {
                connection.ended.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// The browser has received the end of a stream; a connection of streams ends with its last stream.
    pub fn stream_ended(&mut self, now: Instant, flow: FlowId) {
        self.connection(flow).ended = Some(now);
    }

    pub fn aborted(&mut self, flow: FlowId) {
        self.connection(flow).aborted = true;
    }

    pub fn object_received(&mut self) {
        self.record.objects_received += 1;
    }

    fn connection(&mut self, flow: FlowId) -> &mut PageConnection {
        let index = self.connections.iter().position(|connection| connection.flow == flow);
        let index = index.unwrap_or_else(|| {
            self.connections.push(PageConnection { flow, fin_end: None, ended: None, aborted: false });
            self.connections.len() - 1
        });
        &mut self.connections[index]
    }

    pub fn finish(self) -> PageRecord {
        let mut record = self.record;
        let aborted = self.connections.iter().filter(|connection| connection.aborted).count();
        let ended: Option<Vec<Instant>> =
            self.connections.iter().map(|connection| connection.ended).collect();
        let last = ended.and_then(|ended| ended.into_iter().max());
        record.outcome = match last {
            Some(_) if record.objects_received == record.objects => Outcome::Closed,
            _ if aborted > 0 => Outcome::Aborted,
            _ => Outcome::Unfinished,
        };
        record.start_s = self.started.map(Instant::as_secs_f64);
        if let (Outcome::Closed, Some(start), Some(end)) = (record.outcome, self.started, last) {
            record.response_time_s = Some(end.saturating_since(start).as_secs_f64());
        }
        record.connections = self.connections.len() as u64;
        record.connections_aborted = aborted as u64;
        record
    }
}
