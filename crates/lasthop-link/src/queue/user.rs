//! A custom discipline: the user's code decides on numbers, and this module stores the packets.

use std::collections::BTreeMap;

use lasthop_core::{DropCause, Failure, Observer, PacketId, QueueDepth};

use super::fifo::{Total, Waiting};
use crate::algorithm::{QueueAlgorithm, QueuedPacket, Verdicts};
use crate::discipline::{Dequeued, Discipline, Packets, Wait};

#[cfg(test)]
mod tests;

/// The discipline, and the packets that wait in it.
#[derive(Debug)]
pub(crate) struct UserQueue {
    name: String,
    algorithm: Box<dyn QueueAlgorithm>,
    held: BTreeMap<u64, Waiting>,
    total: Total,
    /// A packet that the discipline has passed on, and for which the link had no room yet.
    staged: Option<u64>,
    verdicts: Verdicts,
}

impl UserQueue {
    pub(crate) fn new(name: String, algorithm: Box<dyn QueueAlgorithm>) -> Self {
        Self {
            name,
            algorithm,
            held: BTreeMap::new(),
            total: Total::default(),
            staged: None,
            verdicts: Verdicts::default(),
        }
    }

    /// The length of the next packet.
    pub(crate) fn room_needed(&self) -> Option<u32> {
        if self.held.is_empty() {
            return None;
        }
        let next = self.staged.or_else(|| self.algorithm.peek())?;
        Some(self.waiting("peek returned", next).ip_bytes)
    }

    fn waiting(&self, did: &str, number: u64) -> Waiting {
        self.held.get(&number).copied().unwrap_or_else(|| {
            Failure::new(format!(
                "{}.{did} packet {number}, which is not in the queue: it never arrived, was dropped, or has left",
                self.name
            ))
            .raise()
        })
    }

    fn take(&mut self, did: &str, number: u64) -> Waiting {
        let packet = self.waiting(did, number);
        if self.staged == Some(number) {
            self.staged = None;
        }
        self.held.remove(&number);
        self.total.take(packet.ip_bytes);
        packet
    }

    /// Carries out the algorithm's drops and marks.
    fn carry_out<O: Observer>(&mut self, packets: &mut Packets<'_, O>) {
        let mut verdicts = std::mem::take(&mut self.verdicts);
        for number in verdicts.marked.drain(..) {
            packets.mark(self.waiting("mark was given", number).id);
        }
        for number in verdicts.dropped.drain(..) {
            let packet = self.take("drop was given", number);
            packets.discard(packet.id, DropCause::User);
        }
        self.verdicts = verdicts;
    }
}

impl Discipline for UserQueue {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let now = packets.now;
        let packet = QueuedPacket::of(packets.arena.get(id));
        let QueuedPacket { number, ip_bytes, .. } = packet;
        self.held.insert(number, Waiting { id, ip_bytes, since: now });
        self.total.add(ip_bytes);
        let is_taken = self.algorithm.enqueue(now, &packet, &mut self.verdicts);
        self.carry_out(packets);
        if !is_taken && self.held.contains_key(&number) {
            self.take("enqueue refused", number);
            packets.discard(id, DropCause::QueueOverflow);
        }
        self.held.contains_key(&number).then(|| self.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        Wait::unless_fits(self.room_needed(), room)?;
        if self.staged.is_none() {
            self.staged = self.algorithm.dequeue(packets.now, &mut self.verdicts);
            self.carry_out(packets);
        }
        let number = self.staged.ok_or(Wait::ARRIVAL)?;
        let Waiting { ip_bytes, .. } = self.waiting("dequeue handed back", number);
        Wait::unless_fits(Some(ip_bytes), room)?;
        let Waiting { id, .. } = self.take("dequeue handed back", number);
        Ok(Dequeued { id, ip_bytes, depth: self.depth() })
    }

    fn depth(&self) -> QueueDepth {
        self.total.depth()
    }
}
