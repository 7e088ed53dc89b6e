//! The router in front of the link: one queue, or classes under HTB.

use lasthop_core::{Instant, Packet, PacketId, QueueDepth, Seed};

use crate::config::PathConfig;
use crate::htb::{Htb, Turn};
use crate::queue::RouterQueue;

/// What chooses the next packet.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a run has two; a box would cost the plain one a step per packet"
)]
pub(crate) enum Router {
    /// One queue for all packets.
    Plain(RouterQueue),
    /// A queue per class.
    Classes(Htb),
}

impl Router {
    /// `red` names the stream of the queue's RED, and with a class's name behind it that of the class's.
    pub(crate) fn new(config: &PathConfig, red: &str, seed: Seed) -> Self {
        match &config.htb {
            None => Self::Plain(RouterQueue::new(&config.queue, config.link.rate, seed.stream(red))),
            Some(htb) => Self::Classes(Htb::new(htb, config, red, seed)),
        }
    }

    /// The class of a packet, in the order of the scenario; 0 without classes.
    pub(crate) fn classify(&self, packet: &Packet) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Classes(htb) => htb.classify(packet),
        }
    }

    /// The queue of a class, to judge an arriving packet.
    pub(crate) fn queue_mut(&mut self, class: usize) -> &mut RouterQueue {
        match self {
            Self::Plain(queue) => queue,
            Self::Classes(htb) => htb.queue_mut(class),
        }
    }

    pub(crate) fn push(&mut self, class: usize, id: PacketId, ip_bytes: u32) {
        match self {
            Self::Plain(queue) => queue.push(id, ip_bytes),
            Self::Classes(htb) => htb.push(class, id, ip_bytes),
        }
    }

    /// The packet that goes next, if one may go at `now`; it stays until [`Router::take`].
    pub(crate) fn next(&self, now: Instant) -> Option<Turn> {
        match self {
            Self::Plain(queue) => queue.head().map(|(id, ip_bytes)| Turn::plain(id, ip_bytes)),
            Self::Classes(htb) => htb.next(now),
        }
    }

    /// Takes the packet that [`Router::next`] chose for `now`.
    pub(crate) fn take(&mut self, now: Instant, turn: Turn) {
        match self {
            Self::Plain(queue) => queue.pop(now),
            Self::Classes(htb) => htb.take(now, turn),
        }
    }

    /// When a packet may go, if none may go now; `Instant::MAX` if that needs an arrival.
    pub(crate) fn ready(&self) -> Instant {
        match self {
            Self::Plain(_) => Instant::MAX,
            Self::Classes(htb) => htb.ready(),
        }
    }

    /// Packets and bytes waiting in all queues, and the queue of `class`.
    pub(crate) fn depth(&self, class: usize) -> QueueDepth {
        match self {
            Self::Plain(queue) => queue.depth(),
            Self::Classes(htb) => {
                let (packets, bytes) = htb.backlog();
                QueueDepth { packets, bytes, class: class as u8, ..htb.queue(class).depth() }
            }
        }
    }
}
