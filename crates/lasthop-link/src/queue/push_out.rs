//! A full queue that keeps an arrival and drops another packet in its place: its head (Lakshman, Neidhardt
//! and Ott, "The drop from front strategy in TCP and in TCP over ATM", INFOCOM 1996; `pfifo_head_drop` of
//! Linux' `sch_fifo`), so that the sender detects the loss earlier, by the time in the queue; or a random
//! packet (Random Drop, RFC 1254, section 2.2), so that a flow loses packets in proportion to its share of
//! the queue.

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, DropCause, Observer, PacketId, QueueDepth, RandomStream};

use super::fifo::{Fifo, Waiting};
use crate::discipline::{Dequeued, Discipline, Packets, Wait};

#[cfg(test)]
mod tests;

#[derive(Clone, Debug)]
pub(crate) struct PushOut {
    limit: QueueSize,
    mtu: u32,
    /// Random stream for the choice of the dropped packet; none if that is the head.
    draws: Option<RandomStream>,
    fifo: Fifo,
}

impl PushOut {
    /// A full queue drops its head.
    pub(crate) fn head(limit: QueueSize, mtu: Bytes) -> Self {
        Self { limit, mtu: mtu.0 as u32, draws: None, fifo: Fifo::default() }
    }

    /// A full queue drops each packet, including the arrival, with the same probability.
    pub(crate) fn any(limit: QueueSize, mtu: Bytes, stream: RandomStream) -> Self {
        Self { draws: Some(stream), ..Self::head(limit, mtu) }
    }

    /// The length of the largest packet: the next packet may change while it waits for room.
    pub(crate) fn room_needed(&self) -> Option<u32> {
        (self.fifo.packets() > 0).then_some(self.mtu)
    }

    fn take_victim(&mut self) -> Option<Waiting> {
        match &mut self.draws {
            None => self.fifo.pop(),
            Some(stream) => {
                let place = (stream.unit() * f64::from(self.fifo.packets())) as usize;
                self.fifo.remove(place)
            }
        }
    }
}

impl Discipline for PushOut {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let ip_bytes = packets.arena.get(id).ip_bytes;
        self.fifo.push(Waiting { id, ip_bytes, since: packets.now });
        let mut is_dropped = false;
        while self.depth().exceeds(self.limit) {
            let victim = self.take_victim()?.id;
            is_dropped |= victim == id;
            let cause = if victim == id { DropCause::QueueOverflow } else { DropCause::PushedOut };
            packets.discard(victim, cause);
        }
        (!is_dropped).then(|| self.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, _packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        Wait::unless_fits(self.room_needed(), room)?;
        let Waiting { id, ip_bytes, .. } = self.fifo.pop().ok_or(Wait::ARRIVAL)?;
        Ok(Dequeued { id, ip_bytes, depth: self.depth() })
    }

    fn depth(&self) -> QueueDepth {
        self.fifo.depth()
    }
}
