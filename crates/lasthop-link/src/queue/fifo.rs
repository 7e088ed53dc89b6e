//! A queue in the order of arrival, without a limit.

use std::collections::VecDeque;

use lasthop_core::{Instant, PacketId, QueueDepth};

/// A packet in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: PacketId,
    pub(crate) ip_bytes: u32,
    pub(crate) since: Instant,
}

/// The backlog of the queues of all flows together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    packets: u32,
    bytes: u32,
}

impl Total {
    pub(crate) fn add(&mut self, ip_bytes: u32) {
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + ip_bytes);
    }

    pub(crate) fn take(&mut self, ip_bytes: u32) {
        (self.packets, self.bytes) = (self.packets - 1, self.bytes - ip_bytes);
    }

    /// Adds the backlog of other queues.
    pub(crate) fn join(&mut self, other: Self) {
        (self.packets, self.bytes) = (self.packets + other.packets, self.bytes + other.bytes);
    }

    pub(crate) fn depth(self) -> QueueDepth {
        let Self { packets, bytes } = self;
        QueueDepth { packets, bytes, class: 0, class_packets: packets, average: f64::NAN }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    waiting: VecDeque<Waiting>,
    bytes: u32,
}

impl Fifo {
    #[inline]
    pub(crate) fn push(&mut self, packet: Waiting) {
        self.bytes += packet.ip_bytes;
        self.waiting.push_back(packet);
    }

    pub(crate) fn front(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// The packet this many places after it.
    pub(crate) fn get(&self, place: usize) -> Option<&Waiting> {
        self.waiting.get(place)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let front = self.waiting.pop_front()?;
        self.bytes -= front.ip_bytes;
        Some(front)
    }

    /// Puts a removed packet back to the front.
    pub(crate) fn put_back(&mut self, front: Waiting) {
        self.bytes += front.ip_bytes;
        self.waiting.push_front(front);
    }

    /// Removes the packet that arrived last.
    pub(crate) fn pop_back(&mut self) -> Option<Waiting> {
        let back = self.waiting.pop_back()?;
        self.bytes -= back.ip_bytes;
        Some(back)
    }

    /// Removes the packet with this number of packets before it.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Waiting> {
        let packet = self.waiting.remove(place)?;
        self.bytes -= packet.ip_bytes;
        Some(packet)
    }

    pub(crate) fn packets(&self) -> u32 {
        self.waiting.len() as u32
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    pub(crate) fn depth(&self) -> QueueDepth {
        Total { packets: self.packets(), bytes: self.bytes }.depth()
    }
}
