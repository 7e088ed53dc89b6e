//! FQ-CoDel (RFC 8290): a queue with CoDel for each flow, and deficit round robin among them.
//!
//! It follows Linux' `sch_fq_codel`: all flows together share the limit. When it is exceeded, the flow with
//! the most bytes loses up to half of them from its head, at most 64 packets. CoDel spares the last packets
//! of the whole discipline, not of each flow. The link takes a packet only when it has room for the largest.

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, Observer, PacketId, QueueDepth, RandomStream};

use super::codel::{CoDelControl, CoDelParameters, Front};
use super::fifo::{Fifo, Total, Waiting};
use super::rounds::{Hash, Rounds};
use crate::config::FqCoDelConfig;
use crate::discipline::{Dequeued, Discipline, Packets, Wait};

#[cfg(test)]
mod tests;

/// Maximum number of packets that are dropped at once when the discipline is full (RFC 8290, section 4.1.3).
const DROP_BATCH: u32 = 64;

#[derive(Clone, Debug)]
struct CoDelFlow {
    fifo: Fifo,
    codel: CoDelControl,
}

#[derive(Clone, Debug)]
pub(crate) struct FqCoDel {
    parameters: CoDelParameters,
    limit: QueueSize,
    mtu: u32,
    hash: Hash,
    flows: Vec<CoDelFlow>,
    rounds: Rounds,
    total: Total,
}

impl FqCoDel {
    pub(crate) fn new(config: FqCoDelConfig, limit: QueueSize, mtu: Bytes, mut stream: RandomStream) -> Self {
        let FqCoDelConfig { codel, flows } = config;
        let flow = CoDelFlow { fifo: Fifo::default(), codel: CoDelControl::new() };
        Self {
            parameters: CoDelParameters::new(codel, mtu),
            limit,
            mtu: mtu.0 as u32,
            hash: Hash::new(flows.flows, &mut stream),
            flows: vec![flow; flows.flows as usize],
            rounds: Rounds::new(flows.flows, flows.quantum.unwrap_or(mtu)),
            total: Total::default(),
        }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        (self.total.depth().packets > 0).then_some(self.mtu)
    }

    /// Drops from the head of the flow with the most bytes; true if `arrived` is among the dropped packets.
    fn relieve<O: Observer>(&mut self, arrived: PacketId, packets: &mut Packets<'_, O>) -> bool {
        let most = self.flows.iter().map(|flow| flow.fifo.bytes()).max().unwrap_or_default();
        let fattest = self.flows.iter_mut().find(|flow| flow.fifo.bytes() == most);
        let Some(CoDelFlow { fifo, codel }) = fattest else { return false };
        let (mut bytes, mut is_among) = (0, false);
        for _ in 0..DROP_BATCH {
            let Some(Waiting { id, ip_bytes, .. }) = fifo.pop() else { break };
            self.total.take(ip_bytes);
            // CoDel counts them as its own: Linux' `fq_codel_drop`.
            codel.count = codel.count.wrapping_add(1);
            is_among |= packets.discard_of_longest(id, arrived);
            bytes += ip_bytes;
            if bytes >= most / 2 {
                break;
            }
        }
        is_among
    }
}

impl Discipline for FqCoDel {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let packet = packets.arena.get(id);
        let (flow, ip_bytes) = (self.hash.queue_of(packet.flow), packet.ip_bytes);
        self.flows[flow].fifo.push(Waiting { id, ip_bytes, since: packets.now });
        self.total.add(ip_bytes);
        self.rounds.activate(flow);
        let mut is_dropped = false;
        while self.total.depth().exceeds(self.limit) {
            is_dropped |= self.relieve(id, packets);
        }
        (!is_dropped).then_some(self.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        Wait::unless_fits(self.room_needed(), room)?;
        let Self { parameters, flows, rounds, total, .. } = self;
        loop {
            let turn = rounds.turn().ok_or(Wait::ARRIVAL)?;
            let CoDelFlow { fifo, codel } = &mut flows[turn];
            let pop = || {
                let packet = fifo.pop()?;
                total.take(packet.ip_bytes);
                Some(Front { packet, backlog: total.depth().bytes })
            };
            match codel.choose(parameters, pop, packets) {
                Some(Waiting { id, ip_bytes, .. }) => {
                    rounds.charge(turn, ip_bytes);
                    return Ok(Dequeued { id, ip_bytes, depth: total.depth() });
                }
                None => rounds.retire(turn),
            }
        }
    }

    fn depth(&self) -> QueueDepth {
        self.total.depth()
    }
}
