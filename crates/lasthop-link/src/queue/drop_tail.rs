//! Drop-tail: a FIFO with a limit in packets or bytes. Disciplines that drop earlier contain one.

use lasthop_core::units::QueueSize;
use lasthop_core::{DropCause, Observer, PacketId, QueueDepth};

use super::fifo::{Fifo, Waiting};
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};
use crate::link::FETCHED_AHEAD;

#[derive(Clone, Debug)]
pub(crate) struct DropTail {
    limit: QueueSize,
    fifo: Fifo,
}

impl DropTail {
    pub(crate) fn new(limit: QueueSize, outlet: Outlet) -> Self {
        let queue = Self { limit, fifo: Fifo::default() };
        debug_assert!(!queue.is_full(outlet.mtu.0 as u32), "a valid limit holds a packet");
        queue
    }

    /// The length of the front packet.
    #[inline]
    pub(crate) fn room_needed(&self) -> Option<u32> {
        self.fifo.front().map(|front| front.ip_bytes)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.fifo.pop()
    }

    /// Puts a removed packet back to the front.
    pub(crate) fn put_back(&mut self, front: Waiting) {
        self.fifo.put_back(front);
    }

    /// True if a packet of `ip_bytes` bytes exceeds the limit.
    #[inline]
    pub(crate) fn is_full(&self, ip_bytes: u32) -> bool {
        self.fifo.depth().is_full(self.limit, ip_bytes)
    }
}

impl Discipline for DropTail {
    #[inline]
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let ip_bytes = packets.arena.get(id).ip_bytes;
        if self.is_full(ip_bytes) {
            packets.discard(id, DropCause::QueueOverflow);
            return None;
        }
        self.fifo.push(Waiting { id, ip_bytes, since: packets.now });
        Some(self.depth())
    }

    #[inline]
    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        Wait::unless_fits(self.room_needed(), room)?;
        let Waiting { id, ip_bytes, since } = self.pop().ok_or(Wait::ARRIVAL)?;
        debug_assert!(since <= packets.now, "time runs backwards");
        if let Some(later) = self.fifo.get(FETCHED_AHEAD) {
            packets.arena.fetch(later.id);
        }
        Ok(Dequeued { id, ip_bytes, depth: self.depth() })
    }

    fn depth(&self) -> QueueDepth {
        self.fifo.depth()
    }
}
