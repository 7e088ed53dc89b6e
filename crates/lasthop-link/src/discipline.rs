//! What a queue discipline is to the router.

use lasthop_core::{
    Bytes, DropCause, Duration, Ecn, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth, Rate,
};

use crate::config::Framing;
use crate::link::discard;

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

    /// Hands out the packet that goes next, if one may go at `now` and the link has `room` bytes for it. Otherwise it
    /// says what to wait for; to ask again before that changes nothing.
    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait>;

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

/// What a discipline that has handed out nothing waits for. An arrival ends every wait, unless the packet stands behind
/// another one of its class ([`QueueDepth::class_packets`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// This time.
    Until(Instant),
    /// Room for so many bytes on the link.
    Room(u32),
}

impl Wait {
    /// Only an arrival helps.
    pub(crate) const ARRIVAL: Self = Self::Until(Instant::MAX);

    /// Says what a discipline waits for if the packet that goes next, if there is one, needs more room than the link has.
    #[inline]
    pub(crate) fn unless_fits(needed: Option<u32>, room: u64) -> Result<(), Self> {
        match needed {
            None => Err(Self::ARRIVAL),
            Some(bytes) if u64::from(bytes) > room => Err(Self::Room(bytes)),
            Some(_) => Ok(()),
        }
    }

    /// True if a packet may go at `now` if the link has `room` bytes for it.
    pub(crate) fn is_over(self, now: Instant, room: u64) -> bool {
        match self {
            Self::Until(at) => at <= now,
            Self::Room(bytes) => u64::from(bytes) <= room,
        }
    }

    /// When it is over by itself; `Instant::MAX` if that takes an arrival or room on the link.
    pub(crate) fn end(self) -> Instant {
        match self {
            Self::Until(at) => at,
            Self::Room(_) => Instant::MAX,
        }
    }
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
    pub(crate) framing: Option<Framing>,
    /// The largest packet.
    pub(crate) mtu: Bytes,
}

impl Outlet {
    /// How long a packet takes.
    pub(crate) fn transmission_time(self, ip_bytes: u32) -> Duration {
        let bytes = self.framing.map_or(ip_bytes, |framing| framing.bytes(ip_bytes));
        self.rate.transmission_time(bytes)
    }
}
