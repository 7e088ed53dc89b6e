//! The interface between a queue discipline and the router.

use lasthop_core::{
    Bytes, DropCause, Duration, Ecn, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth, Rate,
};

use crate::config::Framing;
use crate::link::discard;

/// A state machine between the arrival of packets and the link. At any call it may drop or mark packets that it
/// holds, by means of [`Packets`]. It holds every accepted packet until it drops or passes it on.
pub(crate) trait Discipline {
    /// A packet arrives. Returns the queue including it, or `None` if it was dropped.
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth>;

    /// Returns the next packet, if one may leave now and the link has `room` bytes for it. Otherwise
    /// returns the condition to wait for; calling again before that has no effect.
    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait>;

    /// The waiting packets; for a discipline with classes, with those of its first class.
    fn depth(&self) -> QueueDepth;
}

/// A packet that moves to the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dequeued {
    pub(crate) id: PacketId,
    pub(crate) ip_bytes: u32,
    /// The queue after its departure.
    pub(crate) depth: QueueDepth,
}

/// The condition that a discipline waits for when no packet may leave. An arrival ends every wait, unless
/// another packet of its class precedes it ([`QueueDepth::class_packets`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Until(Instant),
    /// Room for this number of bytes on the link.
    Room(u32),
}

impl Wait {
    /// An arrival only.
    pub(crate) const ARRIVAL: Self = Self::Until(Instant::MAX);

    /// The condition to wait for if the next packet, if any, needs more room than the link has.
    #[inline]
    pub(crate) fn unless_fits(needed: Option<u32>, room: u64) -> Result<(), Self> {
        match needed {
            None => Err(Self::ARRIVAL),
            Some(bytes) if u64::from(bytes) > room => Err(Self::Room(bytes)),
            Some(_) => Ok(()),
        }
    }

    /// True if a packet may leave at `now`, given that the link has `room` bytes.
    pub(crate) fn is_over(self, now: Instant, room: u64) -> bool {
        match self {
            Self::Until(at) => at <= now,
            Self::Room(bytes) => u64::from(bytes) <= room,
        }
    }

    /// When the wait ends by itself; `Instant::MAX` if it needs an arrival or room on the link.
    pub(crate) fn end(self) -> Instant {
        match self {
            Self::Until(at) => at,
            Self::Room(_) => Instant::MAX,
        }
    }
}

/// The packets that a discipline decides on now, and the observer of its decisions.
pub(crate) struct Packets<'a, O> {
    pub(crate) now: Instant,
    pub(crate) arena: &'a mut PacketArena,
    pub(crate) observer: &'a mut O,
}

impl<O: Observer> Packets<'_, O> {
    /// Puts the congestion-experienced mark on a packet.
    pub(crate) fn mark(&mut self, id: PacketId) {
        let packet = self.arena.get_mut(id);
        packet.ecn = Ecn::Ce;
        self.observer.packet(self.now, PacketEvent::Marked, packet);
    }

    /// Drops a packet, and frees it.
    pub(crate) fn discard(&mut self, id: PacketId, cause: DropCause) {
        discard(self.now, id, cause, self.arena, self.observer);
    }

    /// Drops a packet of the longest flow, as the queue is full; true if it is the one that has `arrived`.
    pub(crate) fn discard_of_longest(&mut self, id: PacketId, arrived: PacketId) -> bool {
        let is_arrived = id == arrived;
        self.discard(id, if is_arrived { DropCause::QueueOverflow } else { DropCause::LongestFlow });
        is_arrived
    }
}

/// The properties of the link that a discipline knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlet {
    pub(crate) rate: Rate,
    pub(crate) framing: Option<Framing>,
    pub(crate) mtu: Bytes,
}

impl Outlet {
    pub(crate) fn transmission_time(self, ip_bytes: u32) -> Duration {
        let bytes = self.framing.map_or(ip_bytes, |framing| framing.bytes(ip_bytes));
        self.rate.transmission_time(bytes)
    }
}
