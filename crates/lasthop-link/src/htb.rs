//! Hierarchical token buckets: the class that sends the next packet, and the time at which it may.
//!
//! The rules are those of Linux' `net/sched/sch_htb.c` (Linux 6.12). Tokens are nanoseconds, the time that a
//! packet takes at the bucket's rate. A bucket that is not in debt lets a packet of any length pass and is
//! charged for it (`htb_class_mode`, `htb_accnt_tokens`; without hysteresis, the default). A class
//!
//! - may send within its own rate while neither its rate nor its ceiling is in debt; this charges both, and
//!   all classes that contain it;
//! - may borrow while only its rate is in debt: from the class that contains it if that may send within its
//!   own rate, otherwise from the next class above if the containing class may borrow, and so on. This
//!   charges rates from the lender up, and all ceilings.
//!
//! Own comes before borrowed whatever the priorities (`htb_dequeue` goes through the levels from the leaves
//! up). Turns are kept per level and priority, and per priority among the borrowers of a class
//! (`htb_dequeue_tree`).

use lasthop_core::{Bytes, FlowId, Observer, Packet, PacketId, QueueDepth, Seed};

use crate::config::htb::{ClassConfig, HtbConfig, MatchConfig};
use crate::config::{LinuxQueues, PathConfig, QueueConfig};
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};
use crate::queue::Queue;
use tree::Tree;

mod bucket;
#[cfg(test)]
mod tests;
mod tree;

/// Assigns packets to classes.
#[derive(Debug)]
pub struct Classifier {
    matches: Vec<Vec<MatchConfig>>,
    default: usize,
}

impl Classifier {
    pub fn new(htb: &HtbConfig) -> Self {
        Self {
            matches: htb.class.iter().map(|class| class.matches.clone()).collect(),
            default: htb.class.iter().position(|class| class.default).unwrap_or_default(),
        }
    }

    /// The class of a packet, in the order of the scenario.
    pub fn class_of(&self, packet: &Packet) -> usize {
        let fits = |matches: &Vec<MatchConfig>| matches.iter().any(|matching| matching.fits(packet));
        self.matches.iter().position(fits).unwrap_or(self.default)
    }
}

/// The classes of one direction with their queues.
#[derive(Debug)]
pub(crate) struct Htb {
    classifier: Classifier,
    /// Queues by class; that of a class that contains others stays empty.
    queues: Vec<Queue>,
    /// Bytes that are added to the IP length of a packet.
    overhead: u32,
    tree: Tree,
}

impl Htb {
    /// Classes without their own queue get one like `queue`. Their random streams are named `stream` and the
    /// name of the class.
    pub(crate) fn new(
        htb: &HtbConfig,
        queue: &QueueConfig,
        outlet: Outlet,
        (stream, seed): (&str, Seed),
    ) -> Self {
        Self::with_queues(htb, |class| {
            let queue = class.queue.as_ref().unwrap_or(queue);
            Queue::new(queue, outlet, seed.stream(&format!("{stream}.{}", class.name)))
        })
    }

    /// The classes of Linux' router.
    pub(crate) fn linux(config: &PathConfig, mtu: Bytes, (stream, seed): (&str, Seed)) -> Self {
        let LinuxQueues { htb, queues, .. } = config.linux_queues(mtu);
        let mut queues = queues.iter();
        Self::with_queues(&htb, |class| {
            let queue = class.queue.as_ref().unwrap_or(&config.queue);
            let outlet = Outlet { rate: class.rate, framing: None, mtu };
            let name = if htb.class.len() == 1 { stream.into() } else { format!("{stream}.{}", class.name) };
            match queues.next().copied().flatten() {
                Some(linux) => Queue::linux(linux, queue, outlet, seed.stream(&name)),
                None => Queue::new(queue, outlet, seed.stream(&name)),
            }
        })
    }

    fn with_queues(htb: &HtbConfig, mut queue: impl FnMut(&ClassConfig) -> Queue) -> Self {
        Self {
            classifier: Classifier::new(htb),
            queues: htb.class.iter().map(&mut queue).collect(),
            overhead: htb.overhead.0 as u32,
            tree: Tree::new(htb),
        }
    }

    pub(crate) fn announce(&mut self, flow: FlowId, hosts: [u32; 2]) {
        self.queues.iter_mut().for_each(|queue| queue.announce(flow, hosts));
    }

    /// The depth of a class's queue, and that of all queues.
    fn with_all(&self, class: usize, depth: QueueDepth) -> QueueDepth {
        let (mut packets, mut bytes) = (0, 0);
        for queue in &self.queues {
            let depth = queue.depth();
            packets += depth.packets;
            bytes += depth.bytes;
        }
        QueueDepth { packets, bytes, class: class as u8, ..depth }
    }
}

impl Discipline for Htb {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let class = self.classifier.class_of(packets.arena.get(id));
        let depth = self.queues[class].enqueue(id, packets);
        self.tree.set_active(class, self.queues[class].room_needed().is_some());
        depth.map(|depth| self.with_all(class, depth))
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let now = packets.now;
        loop {
            let turn = self.tree.next(now).map_err(Wait::Until)?;
            let queue = &mut self.queues[turn.class];
            let needed = queue.room_needed();
            if needed.is_some_and(|bytes| u64::from(bytes) > room) {
                self.tree.undo();
                // When there is more room, it may be the turn of another class.
                let waiting = self.queues.iter().filter_map(Queue::room_needed);
                return Err(Wait::Room(waiting.fold(u32::MAX, u32::min)));
            }
            let dequeued = queue.dequeue(room, packets);
            let has_more = queue.room_needed().is_some();
            let dequeued = match dequeued {
                Ok(dequeued) => dequeued,
                // CAKE has its own rate; it is the only class.
                Err(wait @ Wait::Until(_)) if has_more => {
                    self.tree.undo();
                    return Err(wait);
                }
                Err(_) => {
                    // The queue has dropped all its packets.
                    self.tree.set_active(turn.class, has_more);
                    continue;
                }
            };
            self.tree.charge(now, turn, dequeued.ip_bytes + self.overhead, has_more);
            return Ok(Dequeued { depth: self.with_all(turn.class, dequeued.depth), ..dequeued });
        }
    }

    fn depth(&self) -> QueueDepth {
        self.with_all(0, self.queues[0].depth())
    }
}

impl MatchConfig {
    fn fits(&self, packet: &Packet) -> bool {
        self.dscp.is_none_or(|dscp| dscp == packet.dscp)
            && self.port.is_none_or(|port| port.get() == packet.server_port)
            && self.protocol.is_none_or(|protocol| protocol == packet.body.protocol())
    }
}
