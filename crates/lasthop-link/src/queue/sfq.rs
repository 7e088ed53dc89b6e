//! Stochastic fairness queueing (INFOCOM 1990), with the deficits of Shreedhar and Varghese (1995): a queue
//! for each flow; the queues take turns.
//!
//! It follows Linux' `sch_sfq` without its options: when all queues together exceed the limit, the longest
//! queue drops from its tail. A queue holds at most 127 packets, and 128 flows can be active. The rounds are
//! those of Linux since 6.14 (older versions counted lengths in units of 8 bytes). It does not mark packets.
//! The link takes a packet only when it has room for the largest.

use std::collections::VecDeque;

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, DropCause, Observer, PacketId, QueueDepth, RandomStream};

use super::fifo::{Fifo, Total, Waiting};
use super::rounds::Hash;
use crate::config::FlowsConfig;
use crate::discipline::{Dequeued, Discipline, Packets, Wait};

#[cfg(test)]
mod tests;

/// Maximum number of packets of a flow (`SFQ_MAX_DEPTH`).
const DEPTH_MAX: u32 = 127;
/// Maximum number of flows that are active at once (`SFQ_DEFAULT_FLOWS`).
const ACTIVE_MAX: usize = 128;

#[derive(Clone, Debug, Default)]
struct SfqFlow {
    fifo: Fifo,
    /// Its remaining credit in this turn.
    allotment: i64,
    /// The number of the last change of its length.
    changed: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Sfq {
    limit: QueueSize,
    mtu: u32,
    quantum: i64,
    hash: Hash,
    flows: Vec<SfqFlow>,
    /// The queues with packets, in the order of their turns.
    active: VecDeque<usize>,
    changes: u64,
    total: Total,
}

impl Sfq {
    pub(crate) fn new(config: FlowsConfig, limit: QueueSize, mtu: Bytes, mut stream: RandomStream) -> Self {
        let FlowsConfig { flows, quantum } = config;
        Self {
            limit,
            mtu: mtu.0 as u32,
            quantum: quantum.unwrap_or(mtu).0.cast_signed(),
            hash: Hash::new(flows, &mut stream),
            flows: vec![SfqFlow::default(); flows as usize],
            active: VecDeque::with_capacity(ACTIVE_MAX),
            changes: 0,
            total: Total::default(),
        }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        (self.total.depth().packets > 0).then_some(self.mtu)
    }

    /// The longest flow. Of equally long flows, it is the one that reached this length last, or the next one
    /// if each has only one packet (`sfq_drop`).
    fn longest(&self) -> Option<usize> {
        let next = *self.active.front()?;
        let length = |&flow: &usize| (self.flows[flow].fifo.packets(), self.flows[flow].changed);
        let longest = self.active.iter().copied().max_by_key(length)?;
        Some(if self.flows[longest].fifo.packets() > 1 { longest } else { next })
    }

    fn note_change(&mut self, flow: usize) {
        self.changes += 1;
        self.flows[flow].changed = self.changes;
    }

    /// Drops the tail of the longest flow; true if that is `arrived`.
    fn relieve<O: Observer>(&mut self, arrived: PacketId, packets: &mut Packets<'_, O>) -> bool {
        let Some(longest) = self.longest() else { return false };
        let Some(Waiting { id, ip_bytes, .. }) = self.flows[longest].fifo.pop_back() else { return false };
        self.total.take(ip_bytes);
        self.note_change(longest);
        if self.flows[longest].fifo.packets() == 0 {
            self.active.retain(|&flow| flow != longest);
        }
        packets.discard_of_longest(id, arrived)
    }
}

impl Discipline for Sfq {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let packet = packets.arena.get(id);
        let (flow, ip_bytes) = (self.hash.queue_of(packet.flow), packet.ip_bytes);
        let length = self.flows[flow].fifo.packets();
        if length >= DEPTH_MAX || (length == 0 && self.active.len() >= ACTIVE_MAX) {
            packets.discard(id, DropCause::QueueOverflow);
            return None;
        }
        self.flows[flow].fifo.push(Waiting { id, ip_bytes, since: packets.now });
        self.total.add(ip_bytes);
        self.note_change(flow);
        if length == 0 {
            self.flows[flow].allotment = self.quantum;
            self.active.push_back(flow);
        }
        let mut is_dropped = false;
        while self.total.depth().exceeds(self.limit) {
            is_dropped |= self.relieve(id, packets);
        }
        (!is_dropped).then_some(self.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, _packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        Wait::unless_fits(self.room_needed(), room)?;
        loop {
            let next = *self.active.front().ok_or(Wait::ARRIVAL)?;
            let flow = &mut self.flows[next];
            if flow.allotment <= 0 {
                flow.allotment += self.quantum;
                self.active.rotate_left(1);
                continue;
            }
            let Waiting { id, ip_bytes, .. } = flow.fifo.pop().ok_or(Wait::ARRIVAL)?;
            flow.allotment -= i64::from(ip_bytes);
            if flow.fifo.packets() == 0 {
                self.active.pop_front();
            }
            self.note_change(next);
            self.total.take(ip_bytes);
            return Ok(Dequeued { id, ip_bytes, depth: self.depth() });
        }
    }

    fn depth(&self) -> QueueDepth {
        self.total.depth()
    }
}
