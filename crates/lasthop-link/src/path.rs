//! One complete direction of the last hop: the router queue, then the link.

use lasthop_core::{
    Bytes, Direction, FlowId, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth, Seed,
};

use crate::config::{ErrorConfig, PathConfig};
use crate::discipline::{Dequeued, Discipline, Packets, Wait};
use crate::link::LinkDirection;
use crate::queue::Queue;
use crate::router::Router;

#[cfg(test)]
mod tests;

/// One direction of the last hop, from the router to the far end of the link. Sans-IO: it acts only when
/// called, and only at the given instants.
///
/// The owner
/// 1. calls [`Path::handle_wakeup`] once [`Path::next_wakeup`] has come;
/// 2. then fetches packets with [`Path::poll_delivery`] until there is none;
/// 3. then passes in packets that arrive at the same instant with [`Path::handle_packet`], so that they find
///    the freed room.
///
/// Time never runs backwards from call to call. The packets inside are owned by the path: a lost one is
/// removed from the arena right after its [`PacketEvent::Dropped`]. The path reports `Marked`,
/// `Enqueued`, `Dequeued`, `LinkRetry` and `Dropped`, each when it happens; the owner reports `Sent` and
/// `Delivered`.
#[derive(Debug)]
pub struct Path {
    router: Router,
    link: LinkDirection,
    /// The condition that the router waits for.
    wait: Wait,
    /// Time of the next event; cached, because it is read more often than it changes.
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
    /// An empty path for packets of up to `mtu` bytes. `config` must have passed [`PathConfig::check`] and
    /// `errors` [`ErrorConfig::check`]. Random numbers come from the streams `link.state.good` and
    /// `link.state.bad` (the same states in both directions; a direction's own errors have
    /// `link.down.state.good` and so on), `link.overhead` (the same in both), `link.down.error`, `.loss`,
    /// `.jitter`, `.corruption` and `.duplication`, and `red.down`, or with `up` for `down`; with classes
    /// from `red.down.<class>` for each.
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

    /// A model of Linux' queue disciplines for `config`, which must have passed [`PathConfig::check_linux`].
    /// It does not model netem: a drop-tail queue is lasthop's own.
    pub fn linux(config: &PathConfig, mtu: Bytes, direction: Direction, seed: Seed) -> Self {
        let router = Router::linux(config, mtu, stream(direction), seed);
        Self::behind(router, LinkDirection::new(&config.linux_link(mtu), None, direction, seed))
    }

    /// The same path, which loses the packets of `flow` with these rising numbers on arrival at its router.
    /// TCP segments with data count, each transmission by itself, and datagrams; from 1 for each flow.
    #[must_use]
    pub fn losing(self, flow: FlowId, numbers: &[u64]) -> Self {
        Self { router: self.router.losing(flow, numbers), ..self }
    }

    fn behind(router: Router, link: LinkDirection) -> Self {
        Self { router, link, wait: Wait::ARRIVAL, due: Instant::MAX }
    }

    /// Announces a flow between these hosts, by their numbers: the sender and the receiver of the direction down.
    /// CAKE shares the link among hosts; flows that are not announced have the same two hosts.
    pub fn announce(&mut self, flow: FlowId, hosts: [u32; 2]) {
        self.router.announce(flow, hosts);
    }

    /// A packet arrives at the router, whose queue accepts or drops it. It moves directly to the send buffer
    /// if it is its turn and the buffer has room.
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
        let mut packets = Packets { now, arena, observer };
        let mut is_first = false;
        if let Some(depth) = self.router.enqueue(id, &mut packets) {
            let packet = packets.arena.get_mut(id);
            packet.queued_at = now;
            packets.observer.packet(now, PacketEvent::Enqueued(depth), packet);
            is_first = depth.class_packets == 1;
        }
        // A dropped packet may have come at the end of a serialisation, before its wakeup: others can go on.
        if is_first || self.wait.is_over(now, self.link.room()) {
            self.fill_send_buffer(&mut packets);
        }
        self.due = self.earliest();
    }

    /// When [`Path::handle_wakeup`] must be called next; none while the path is empty. Packets that wait for
    /// a full send buffer need no separate wakeup.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        Some(self.due.min(self.link.next_delivery())).filter(|at| *at < Instant::MAX)
    }

    fn earliest(&self) -> Instant {
        let room_wanted = matches!(self.wait, Wait::Room(_));
        self.link.next_wakeup(room_wanted).min(self.wait.end())
    }

    /// The earliest time at which the far side can release a packet, if the next packet arrives at the router
    /// at `next_arrival`; none if neither that packet nor those inside lead to a release. An engine that
    /// needs only deliveries may postpone all other events until then: see [`Path::handle_wakeup`] on late
    /// calls.
    pub fn earliest_delivery(&self, next_arrival: Option<Instant>) -> Option<Instant> {
        let next = next_arrival.unwrap_or(Instant::MAX).min(self.wait.end());
        Some(self.link.earliest_delivery(next)).filter(|at| *at < Instant::MAX)
    }

    /// Handles everything due at or before `now`, in order of time. A late call (by a live engine) handles
    /// each event at the time at which it was due.
    ///
    /// Order at one instant: link-layer acknowledgements free the send buffer; a serialised packet makes its
    /// first transmission, and the next serialisation begins; retransmissions are made, in the order of their
    /// failures; the far side releases packets in order; the router moves packets into the send buffer.
    /// Events that thereby become due at the same instant (delays of zero) follow in another round.
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        while self.due <= now {
            let due = self.due;
            self.link.handle_wakeup(due, arena, observer);
            if self.wait.is_over(due, self.link.room()) {
                self.fill_send_buffer(&mut Packets { now: due, arena, observer });
            }
            self.due = self.earliest();
        }
    }

    /// The next packet that the far side has released at or before `now`, in the order of arrival at
    /// the router; the caller owns it from then on.
    #[inline]
    pub fn poll_delivery(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        self.link.poll_delivery(now, arena)
    }

    /// The router queue, all classes together (and class number 0), without the send buffer.
    pub fn queue_depth(&self) -> QueueDepth {
        self.router.depth()
    }

    /// Used bytes of the link's send buffer, including those that wait for their acknowledgement.
    pub fn send_buffer_bytes(&self) -> u64 {
        self.link.occupied_bytes()
    }

    /// Number of packets that were passed in and neither dropped nor fetched. Iterates over the packets in
    /// flight.
    pub fn packets_inside(&self) -> usize {
        self.queue_depth().packets as usize + self.link.packets_inside()
    }

    fn fill_send_buffer<O: Observer>(&mut self, packets: &mut Packets<'_, O>) {
        let wait = match &mut self.router {
            // Dispatches once, rather than again for each packet.
            Router::Plain(Queue::DropTail(queue)) => drain(queue, &mut self.link, packets),
            router => drain(router, &mut self.link, packets),
        };
        // The value is mostly unchanged. Copying data that was just written in parts takes longer than
        // comparing it.
        if wait != self.wait {
            self.wait = wait;
        }
    }
}

/// Moves packets to the link as long as they may leave. Returns the condition for the next one.
#[inline]
fn drain<O: Observer>(
    from: &mut impl Discipline,
    link: &mut LinkDirection,
    packets: &mut Packets<'_, O>,
) -> Wait {
    let now = packets.now;
    loop {
        match from.dequeue(link.room(), packets) {
            Ok(Dequeued { id, depth, .. }) => {
                let packet = packets.arena.get_mut(id);
                packets.observer.packet(now, PacketEvent::Dequeued(depth), packet);
                packet.queued_at = Instant::MAX;
                link.accept(now, id, packet);
            }
            Err(wait) => return wait,
        }
    }
}
