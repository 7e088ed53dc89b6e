//! The link's receive buffer for packets that wait at the far side for an earlier packet. A packet that finds
//! no room is lost. This is an assumption: a link layer with a window would stop its sender instead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use lasthop_core::{Bytes, Instant};

/// Packets are numbered in the order of serialisation.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    size: u64,
    coming: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    /// Bytes of the waiting packets.
    waiting: BTreeMap<u64, u32>,
    bytes: u64,
}

impl ReceiveBuffer {
    pub(crate) fn new(size: Bytes) -> Self {
        Self { size: size.0, coming: BinaryHeap::new(), waiting: BTreeMap::new(), bytes: 0 }
    }

    /// A packet of `ip_bytes` bytes arrives at `at`.
    pub(crate) fn expect(&mut self, at: Instant, number: u64, ip_bytes: u32) {
        self.coming.push(Reverse((at, number, ip_bytes)));
    }

    /// When the next packet arrives; `Instant::MAX` if none is in flight.
    pub(crate) fn next(&self) -> Instant {
        self.coming.peek().map_or(Instant::MAX, |Reverse((at, ..))| *at)
    }

    /// Stores packets that have arrived at or before `now`, except for those released before `front`. Returns
    /// the number of a packet that found no room; it must be dropped before the next call.
    pub(crate) fn take_in(&mut self, now: Instant, front: u64) -> Option<u64> {
        while self.next() <= now
            && let Some(Reverse((_, number, ip_bytes))) = self.coming.pop()
        {
            let bytes = self.bytes + u64::from(ip_bytes);
            if number < front {
                continue;
            }
            if bytes > self.size {
                return Some(number);
            }
            self.waiting.insert(number, ip_bytes);
            self.bytes = bytes;
        }
        None
    }

    /// A packet is released.
    pub(crate) fn release(&mut self, number: u64) {
        let ip_bytes = self.waiting.remove(&number);
        self.bytes -= ip_bytes.map_or(0, u64::from);
    }
}
