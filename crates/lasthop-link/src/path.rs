//! One direction of the last hop as a whole: the router queue, then the link.

use lasthop_core::{
    Bytes, Direction, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth, Seed,
};

use crate::config::{ErrorConfig, PathConfig};
use crate::discipline::{Dequeued, Discipline, Packets, Wait};
use crate::link::LinkDirection;
use crate::router::Router;

#[cfg(test)]
mod tests;

/// One direction of the last hop, from the router to the far end of the link. Sans-IO: it acts only when
/// called, and only at the instants it is told.
///
/// The owner
/// 1. calls [`Path::handle_wakeup`] once [`Path::next_wakeup`] has come;
/// 2. then fetches packets with [`Path::poll_delivery`] until there is none;
/// 3. then hands over packets that arrive at the same instant with [`Path::handle_packet`], so that they
///    find the room that was freed.
///
/// Time never runs backwards from call to call. The packets inside are owned by the path: a lost one is
/// removed from the arena right after its [`PacketEvent::Dropped`]. The path reports `Marked`,
/// `Enqueued`, `Dequeued`, `LinkRetry` and `Dropped`, each when it happens; `Sent` and `Delivered` are
/// the owner's.
#[derive(Debug)]
pub struct Path {
    router: Router,
    link: LinkDirection,
    /// What the router waits for.
    wait: Wait,
    /// When something is to be done next, kept because it is asked for more often than it changes.
    due: Instant,
}

/// The name of the random stream of the router's queue.
const fn stream(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "red.down",
        Direction::Up => "red.up",
    }
}

impl Path {
    /// An empty path for packets of up to `mtu` bytes. `config` must have passed [`PathConfig::check`] and `errors`
    /// [`ErrorConfig::check`]. Random numbers come from the streams `link.state.good` and
    /// `link.state.bad` (the same states in both directions; a direction's own errors have `link.down.state.good`
    /// and so on), `link.overhead` (the same in both), `link.down.error`, `.loss`, `.jitter`, `.corruption` and `.duplication`, and
    /// `red.down`, or with `up` for `down`; with classes from `red.down.<class>` for each.
    pub fn new(
        config: &PathConfig,
        mtu: Bytes,
        errors: Option<&ErrorConfig>,
        direction: Direction,
        seed: Seed,
    ) -> Self {
        let router = Router::new(config, mtu, stream(direction), seed);
        Self::behind(router, LinkDirection::new(&config.link, errors, direction, seed))
    }

    /// A model of what Linux' queue disciplines make of `config`, which must have passed [`PathConfig::check_linux`]. It
    /// has no netem: a drop-tail queue is one of this program.
    pub fn linux(config: &PathConfig, mtu: Bytes, direction: Direction, seed: Seed) -> Self {
        let router = Router::linux(config, mtu, stream(direction), seed);
        Self::behind(router, LinkDirection::new(&config.linux_link(mtu), None, direction, seed))
    }

    fn behind(router: Router, link: LinkDirection) -> Self {
        Self { router, link, wait: Wait::ARRIVAL, due: Instant::MAX }
    }

    /// A packet arrives at the router, whose queue takes it in or drops it. It goes straight to the send buffer if its
    /// turn is now and the buffer has room.
    pub fn handle_packet<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        debug_assert!(self.next_wakeup().is_none_or(|due| due >= now), "a wakeup was missed");
        self.link.catch_up(now);
        self.link.note_arrival();
        let mut packets = Packets { arena, observer };
        if let Some(depth) = self.router.enqueue(now, id, &mut packets) {
            let packet = packets.arena.get_mut(id);
            packet.queued_at = now;
            packets.observer.packet(now, PacketEvent::Enqueued(depth), packet);
            let is_first = depth.class_packets == 1;
            if is_first || self.wait.is_over(now, self.link.room()) {
                self.fill_send_buffer(now, &mut packets);
            }
        }
        self.due = self.earliest();
    }

    /// When [`Path::handle_wakeup`] must be called next; none while nothing is under way. Packets queued
    /// behind a full send buffer need no wakeup of their own.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        Some(self.due.min(self.link.next_delivery())).filter(|at| *at < Instant::MAX)
    }

    fn earliest(&self) -> Instant {
        let room_wanted = matches!(self.wait, Wait::Room(_));
        self.link.next_wakeup(room_wanted).min(self.wait.end())
    }

    /// When the far side can release a packet at the earliest, if the next packet arrives at the router at
    /// `next_arrival`; none if neither that nor anything under way leads to one. An engine for which only deliveries
    /// count may leave everything else until then: see [`Path::handle_wakeup`] on late calls.
    pub fn earliest_delivery(&self, next_arrival: Option<Instant>) -> Option<Instant> {
        let next = next_arrival.unwrap_or(Instant::MAX).min(self.wait.end());
        Some(self.link.earliest_delivery(next)).filter(|at| *at < Instant::MAX)
    }

    /// Does everything due at or before `now`, in order of time. A late call (a live engine's) does each
    /// thing at the time it was due.
    ///
    /// Order at one instant: link-layer acknowledgements free the send buffer; the serialisation that ends
    /// makes its first try, and the next one begins; retransmissions are tried, in the order of their
    /// failures; the far side releases what is in order; the router moves packets into the send buffer. What
    /// becomes due at the same instant by that (delays of zero) follows in another round.
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        while self.due <= now {
            let due = self.due;
            self.link.handle_wakeup(due, arena, observer);
            if self.wait.is_over(due, self.link.room()) {
                self.fill_send_buffer(due, &mut Packets { arena, observer });
            }
            self.due = self.earliest();
        }
    }

    /// The next packet that the far side has released at or before `now`, in the order of arrival at
    /// the router; the caller owns it from here on.
    #[inline]
    pub fn poll_delivery(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        self.link.poll_delivery(now, arena)
    }

    /// The router queue, all classes together (of these, number 0), without the send buffer.
    pub fn queue_depth(&self) -> QueueDepth {
        self.router.depth()
    }

    /// Bytes of the link's send buffer in use, those that wait for their acknowledgement included.
    pub fn send_buffer_bytes(&self) -> u64 {
        self.link.occupied_bytes()
    }

    /// Packets that were handed over and neither dropped nor fetched. Walks over the packets in flight.
    pub fn packets_inside(&self) -> usize {
        self.queue_depth().packets as usize + self.link.packets_inside()
    }

    fn fill_send_buffer<O: Observer>(&mut self, now: Instant, packets: &mut Packets<'_, O>) {
        let wait = loop {
            match self.router.dequeue(now, self.link.room(), packets) {
                Ok(Dequeued { id, depth, .. }) => {
                    let packet = packets.arena.get_mut(id);
                    packets.observer.packet(now, PacketEvent::Dequeued(depth), packet);
                    packet.queued_at = Instant::MAX;
                    self.link.accept(now, id, packet);
                }
                Err(wait) => break wait,
            }
        };
        // Mostly the same as before. To copy what was just written in parts takes longer than to compare it.
        if wait != self.wait {
            self.wait = wait;
        }
    }
}
