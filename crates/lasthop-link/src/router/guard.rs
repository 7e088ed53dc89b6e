//! Elements in front of the queues that drop packets: policer, blackhole, drop list.

use lasthop_core::{DropCause, FlowId, Observer, PacketId, QueueDepth};

use super::Router;
use crate::blackhole::{Blackhole, BlackholeConfig};
use crate::config::PolicerConfig;
use crate::discipline::{Discipline, Packets};
use crate::drop_list::DropList;
use crate::policer::Policer;

/// A router behind elements that drop packets before its queues. A packet that one of them drops is not counted by
/// the next.
#[derive(Debug)]
pub(crate) struct Guarded {
    drop_list: DropList,
    blackhole: Option<Blackhole>,
    policer: Option<Policer>,
    pub(super) router: Router,
}

impl Guarded {
    pub(super) fn new(
        policer: Option<PolicerConfig>,
        blackhole: Option<BlackholeConfig>,
        router: Router,
    ) -> Self {
        Self {
            drop_list: DropList::default(),
            blackhole: blackhole.map(Blackhole::new),
            policer: policer.map(Policer::new),
            router,
        }
    }

    /// Also drops the packets of a flow with these numbers.
    pub(super) fn lose(&mut self, flow: FlowId, numbers: &[u64]) {
        self.drop_list.add(flow, numbers);
    }

    #[inline(never)]
    pub(super) fn enqueue<O: Observer>(
        &mut self,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        let now = packets.now;
        let packet = packets.arena.get(id);
        let cause = if self.drop_list.names(packet) {
            DropCause::DropList
        } else if self.blackhole.is_some_and(|blackhole| blackhole.swallows(now)) {
            DropCause::Blackhole
        } else if self.policer.as_mut().is_some_and(|policer| !policer.passes(now, packet.ip_bytes)) {
            DropCause::Policer
        } else {
            return self.router.enqueue(id, packets);
        };
        packets.discard(id, cause);
        None
    }
}
