//! The router in front of the link: one queue, perhaps before grants, or classes under HTB.

use lasthop_core::{Bytes, FlowId, Observer, PacketId, QueueDepth, Seed};

use crate::config::PathConfig;
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};
use crate::grants::Granted;
use crate::htb::Htb;
use crate::queue::Queue;

mod guard;

use guard::Guarded;

#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a run has two; a box would cost the plain one a step per packet"
)]
pub(crate) enum Router {
    /// One queue for all packets.
    Plain(Queue),
    /// One queue, in front of a link that grants.
    Granted(Box<Granted>),
    Classes(Htb),
    /// Either of these, behind policers and other elements that drop packets before they are queued.
    Guarded(Box<Guarded>),
}

impl Router {
    /// `stream` is the name of the random stream of the queue; followed by the name of a class, it is the
    /// name of that class's stream.
    pub(crate) fn new(config: &PathConfig, mtu: Bytes, stream: &str, seed: Seed) -> Self {
        let outlet = Outlet { rate: config.link.rate, framing: config.link.framing, mtu };
        let queue = || Queue::new(&config.queue, outlet, seed.stream(stream));
        let router = match (&config.htb, &config.grant) {
            (Some(htb), _) => Self::Classes(Htb::new(htb, &config.queue, outlet, (stream, seed))),
            (None, None) => Self::Plain(queue()),
            (None, Some(grant)) => {
                let collisions = seed.stream(&format!("{stream}.grant"));
                Self::Granted(Box::new(Granted::new(grant, config.link.rate, queue(), collisions)))
            }
        };
        if config.policer.is_some() || config.blackhole.is_some() {
            Self::Guarded(Box::new(Guarded::new(config.policer, config.blackhole, router)))
        } else {
            router
        }
    }

    /// The same router, which also drops the packets of a flow with these numbers.
    pub(crate) fn losing(self, flow: FlowId, numbers: &[u64]) -> Self {
        let mut guarded = match self {
            Self::Guarded(guarded) => guarded,
            router => Box::new(Guarded::new(None, None, router)),
        };
        guarded.lose(flow, numbers);
        Self::Guarded(guarded)
    }

    /// A router like that of Linux, with HTB. Random numbers come from the stream `stream`; with several
    /// classes, from `stream` and their names.
    pub(crate) fn linux(config: &PathConfig, mtu: Bytes, stream: &str, seed: Seed) -> Self {
        Self::Classes(Htb::linux(config, mtu, (stream, seed)))
    }

    /// Announces a flow between these hosts: the sender and the receiver of the direction down.
    pub(crate) fn announce(&mut self, flow: FlowId, hosts: [u32; 2]) {
        match self {
            Self::Plain(queue) => queue.announce(flow, hosts),
            Self::Granted(granted) => granted.announce(flow, hosts),
            Self::Guarded(guarded) => guarded.router.announce(flow, hosts),
            Self::Classes(htb) => htb.announce(flow, hosts),
        }
    }
}

impl Discipline for Router {
    #[inline]
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        match self {
            Self::Plain(queue) => queue.enqueue(id, packets),
            Self::Granted(granted) => granted.enqueue(id, packets),
            Self::Classes(htb) => htb.enqueue(id, packets),
            Self::Guarded(guarded) => guarded.enqueue(id, packets),
        }
    }

    #[inline]
    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        match self {
            Self::Plain(queue) => queue.dequeue(room, packets),
            Self::Granted(granted) => granted.dequeue(room, packets),
            Self::Classes(htb) => htb.dequeue(room, packets),
            Self::Guarded(guarded) => guarded.router.dequeue(room, packets),
        }
    }

    fn depth(&self) -> QueueDepth {
        match self {
            Self::Plain(queue) => queue.depth(),
            Self::Granted(granted) => granted.depth(),
            Self::Classes(htb) => htb.depth(),
            Self::Guarded(guarded) => guarded.router.depth(),
        }
    }
}
