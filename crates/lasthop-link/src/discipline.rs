//! What a queue discipline is to the router, and the disciplines of a single queue.

use lasthop_core::{
    Bytes, DropCause, Ecn, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth,
};
use lasthop_core::{RandomStream, Rate};

use crate::codel::CoDel;
use crate::config::{self, QueueConfig};
use crate::drop_tail::DropTail;
use crate::link::discard;
use crate::red::RedQueue;

/// A state machine between the arrival of packets and the link. It may drop or mark any packet that it holds, at any
/// call, and has [`Packets`] do so; a packet that it has taken in and neither dropped nor handed out waits in it.
pub(crate) trait Discipline {
    /// A packet arrives: the queue with it, or none if it has been dropped.
    fn enqueue<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth>;

    /// Hands out the packet that goes next, if one may go at `now` and the link has `room` bytes for it.
    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Option<Dequeued>;

    /// When to ask for a packet again; `Instant::MAX` if that takes an arrival or room on the link.
    fn next_wakeup(&self) -> Instant;

    /// What waits; of a discipline with classes, with the first of them.
    fn depth(&self) -> QueueDepth;
}

/// A packet that leaves for the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dequeued {
    pub(crate) id: PacketId,
    pub(crate) ip_bytes: u32,
    /// The queue without it.
    pub(crate) depth: QueueDepth,
}

/// The packets that a discipline decides about, and who is told of it.
pub(crate) struct Packets<'a, O> {
    pub(crate) arena: &'a mut PacketArena,
    pub(crate) observer: &'a mut O,
}

impl<O: Observer> Packets<'_, O> {
    /// Puts the congestion-experienced mark on a packet.
    pub(crate) fn mark(&mut self, now: Instant, id: PacketId) {
        let packet = self.arena.get_mut(id);
        packet.ecn = Ecn::Ce;
        self.observer.packet(now, PacketEvent::Marked, packet);
    }

    /// Drops a packet, which is gone then.
    pub(crate) fn discard(&mut self, now: Instant, id: PacketId, cause: DropCause) {
        discard(now, id, cause, self.arena, self.observer);
    }
}

/// The link that packets wait for, as far as a discipline knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlet {
    /// Its rate at the start.
    pub(crate) rate: Rate,
    /// The largest packet.
    pub(crate) mtu: Bytes,
}

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
    ) -> Option<Dequeued> {
        each!(self, discipline => discipline.dequeue(now, room, packets))
    }

    fn next_wakeup(&self) -> Instant {
        each!(self, discipline => discipline.next_wakeup())
    }

    fn depth(&self) -> QueueDepth {
        each!(self, discipline => discipline.depth())
    }
}
