//! The queue of a router, or of a class: one of the disciplines.

use crate::config::{self, QueueConfig};
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};
use lasthop_core::{Instant, Observer, PacketId, QueueDepth, RandomStream};

mod codel;
mod drop_tail;
mod red;

use codel::CoDel;
use drop_tail::DropTail;
use red::RedQueue;

/// A queue without classes.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    DropTail(DropTail),
    Red(Box<RedQueue>),
    CoDel(CoDel),
}

/// Calls a method of whichever discipline it is.
macro_rules! each {
    ($queue:expr, $discipline:ident => $call:expr) => {
        match $queue {
            Queue::DropTail($discipline) => $call,
            Queue::Red($discipline) => $call,
            Queue::CoDel($discipline) => $call,
        }
    };
}

impl Queue {
    /// `stream` is for the discipline's draws.
    pub(crate) fn new(config: &QueueConfig, outlet: Outlet, stream: RandomStream) -> Self {
        let queue = DropTail::new(config.limit, outlet);
        match (config.discipline, &config.red) {
            (config::Discipline::DropTail, None) => Self::DropTail(queue),
            (config::Discipline::DropTail, Some(red)) => {
                Self::Red(Box::new(RedQueue::new(red, outlet.rate, stream, queue)))
            }
            (config::Discipline::Codel, _) => Self::CoDel(CoDel::new(config.codel(), outlet.mtu, queue)),
        }
    }

    /// The room that the link needs for the next packet, whichever that will be; none if nothing waits.
    pub(crate) fn room_needed(&self) -> Option<u32> {
        each!(self, discipline => discipline.room_needed())
    }
}

impl Discipline for Queue {
    fn enqueue<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        each!(self, discipline => discipline.enqueue(now, id, packets))
    }

    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait> {
        each!(self, discipline => discipline.dequeue(now, room, packets))
    }

    fn depth(&self) -> QueueDepth {
        each!(self, discipline => discipline.depth())
    }
}
