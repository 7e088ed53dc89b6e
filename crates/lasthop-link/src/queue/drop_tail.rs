//! Drop-tail: a FIFO with a limit in packets or bytes. What drops earlier has one behind it.

use std::collections::VecDeque;

use lasthop_core::units::QueueSize;
use lasthop_core::{DropCause, Instant, Observer, PacketId, QueueDepth};

use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

/// A packet in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: PacketId,
    pub(crate) ip_bytes: u32,
    /// When it arrived.
    pub(crate) since: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct DropTail {
    limit: QueueSize,
    waiting: VecDeque<Waiting>,
    bytes: u32,
}

impl DropTail {
    pub(crate) fn new(limit: QueueSize, outlet: Outlet) -> Self {
        let queue = Self { limit, waiting: VecDeque::new(), bytes: 0 };
        debug_assert!(!queue.is_full(outlet.mtu.0 as u32), "a valid limit holds a packet");
        queue
    }

    /// The length of the front.
    pub(crate) fn room_needed(&self) -> Option<u32> {
        self.waiting.front().map(|front| front.ip_bytes)
    }

    /// Takes the front out.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let front = self.waiting.pop_front()?;
        self.bytes -= front.ip_bytes;
        Some(front)
    }

    /// Puts what was taken out back to the front.
    pub(crate) fn put_back(&mut self, front: Waiting) {
        self.bytes += front.ip_bytes;
        self.waiting.push_front(front);
    }

    /// True if a packet of `ip_bytes` bytes exceeds the limit.
    fn is_full(&self, ip_bytes: u32) -> bool {
        match self.limit {
            QueueSize::Packets(limit) => self.waiting.len() as u32 >= limit,
            QueueSize::Bytes(limit) => u64::from(self.bytes) + u64::from(ip_bytes) > u64::from(limit),
        }
    }
}

impl Discipline for DropTail {
    fn enqueue<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        let ip_bytes = packets.arena.get(id).ip_bytes;
        if self.is_full(ip_bytes) {
            packets.discard(now, id, DropCause::QueueOverflow);
            return None;
        }
        self.waiting.push_back(Waiting { id, ip_bytes, since: now });
        self.bytes += ip_bytes;
        Some(self.depth())
    }

    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        _packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait> {
        if let Some(bytes) = self.room_needed()
            && u64::from(bytes) > room
        {
            return Err(Wait::Room(bytes));
        }
        let Waiting { id, ip_bytes, since } = self.pop().ok_or(Wait::ARRIVAL)?;
        debug_assert!(since <= now, "time runs backwards");
        Ok(Dequeued { id, ip_bytes, depth: self.depth() })
    }

    fn depth(&self) -> QueueDepth {
        let packets = self.waiting.len() as u32;
        QueueDepth { packets, bytes: self.bytes, class: 0, class_packets: packets, average: f64::NAN }
    }
}
