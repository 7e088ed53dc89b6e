//! FQ-PIE: a queue with PIE for each flow, and deficit round robin among them (Ramakrishnan et al., "FQ-PIE
//! Queue Discipline in the Linux Kernel", LCN 2019). It is FQ-CoDel with PIE in place of CoDel, except that
//! an arriving packet that exceeds the common limit is dropped itself. The link takes a packet only when it
//! has room for the largest.

use lasthop_core::units::QueueSize;
use lasthop_core::{DropCause, Observer, PacketId, QueueDepth, RandomStream};

use super::fifo::{Fifo, Total, Waiting};

use super::pie::{PieControl, PieParameters, PieVerdict};
use super::rounds::{Hash, Rounds};
use crate::config::FqPieConfig;
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

#[cfg(test)]
mod tests;

#[derive(Clone, Debug)]
struct PieFlow {
    fifo: Fifo,
    pie: PieControl,
}

#[derive(Clone, Debug)]
pub(crate) struct FqPie {
    parameters: PieParameters,
    limit: QueueSize,
    mtu: u32,
    hash: Hash,
    flows: Vec<PieFlow>,
    rounds: Rounds,
    stream: RandomStream,
    total: Total,
}

impl FqPie {
    pub(crate) fn new(
        config: FqPieConfig,
        limit: QueueSize,
        outlet: Outlet,
        mut stream: RandomStream,
    ) -> Self {
        let FqPieConfig { pie, flows } = config;
        let parameters = PieParameters::new(pie, outlet);
        let flow = PieFlow { fifo: Fifo::default(), pie: PieControl::new(&parameters) };
        Self {
            parameters,
            limit,
            mtu: outlet.mtu.0 as u32,
            hash: Hash::new(flows.flows, &mut stream),
            flows: vec![flow; flows.flows as usize],
            rounds: Rounds::new(flows.flows, flows.quantum.unwrap_or(outlet.mtu)),
            stream,
            total: Total::default(),
        }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        (self.total.depth().packets > 0).then_some(self.mtu)
    }
}

impl Discipline for FqPie {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let now = packets.now;
        let Self { parameters, limit, hash, flows, rounds, stream, total, .. } = self;
        let packet = packets.arena.get(id);
        let (flow, ip_bytes) = (hash.queue_of(packet.flow), packet.ip_bytes);
        let PieFlow { fifo, pie } = &mut flows[flow];
        pie.advance(parameters, now, fifo.bytes());
        if total.depth().is_full(*limit, ip_bytes) {
            pie.overflow();
            packets.discard(id, DropCause::QueueOverflow);
            return None;
        }
        match pie.judge(parameters, fifo.bytes(), packet.ecn, stream) {
            PieVerdict::Pass => {}
            PieVerdict::Mark => packets.mark(id),
            PieVerdict::Drop => {
                packets.discard(id, DropCause::Pie);
                return None;
            }
        }
        fifo.push(Waiting { id, ip_bytes, since: now });
        total.add(ip_bytes);
        rounds.activate(flow);
        Some(total.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let now = packets.now;
        Wait::unless_fits(self.room_needed(), room)?;
        loop {
            let turn = self.rounds.turn().ok_or(Wait::ARRIVAL)?;
            let PieFlow { fifo, pie } = &mut self.flows[turn];
            pie.advance(&self.parameters, now, fifo.bytes());
            let Some(Waiting { id, ip_bytes, since }) = fifo.pop() else {
                self.rounds.retire(turn);
                continue;
            };
            pie.departure(now, since, fifo.bytes());
            self.total.take(ip_bytes);
            self.rounds.charge(turn, ip_bytes);
            return Ok(Dequeued { id, ip_bytes, depth: self.depth() });
        }
    }

    fn depth(&self) -> QueueDepth {
        self.total.depth()
    }
}
