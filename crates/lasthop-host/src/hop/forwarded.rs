//! What the models know of a router that is not theirs: which packets are in it, in the order in which they entered.

use lasthop_core::{DropCause, PacketId, QueueDepth};
use lasthop_scenario::{RouterImplementation, Scenario, Topology};
use std::collections::VecDeque;

/// One direction of a router that somebody else keeps: a FIFO for so many packets, delayed ones included.
#[derive(Debug)]
pub(super) struct Forwarded {
    limit: usize,
    inside: VecDeque<(PacketId, u32)>,
    bytes: u32,
}

/// Both directions of the router, down and up, of a scenario whose router is none of the models.
pub(super) fn routers(scenario: &Scenario) -> Option<[Forwarded; 2]> {
    let Topology::LastHop { down, up, .. } = scenario.topology() else { return None };
    let linux = scenario.router.implementation == RouterImplementation::Linux;
    linux.then(|| [down, up].map(|path| Forwarded::new(path.linux_queues(scenario.mtu).limit)))
}

impl Forwarded {
    /// An empty one that holds up to `limit` packets.
    pub fn new(limit: u32) -> Self {
        Self { limit: limit as usize, inside: VecDeque::new(), bytes: 0 }
    }

    /// A packet has entered.
    pub fn push(&mut self, id: PacketId, ip_bytes: u32) {
        self.inside.push_back((id, ip_bytes));
        self.bytes += ip_bytes;
    }

    /// The packet that comes out next.
    pub fn front(&self) -> Option<PacketId> {
        self.inside.front().map(|(id, _)| *id)
    }

    /// The front has come out.
    pub fn pop(&mut self) {
        if let Some((_, ip_bytes)) = self.inside.pop_front() {
            self.bytes -= ip_bytes;
        }
    }

    /// Why a packet is dropped that enters now. At a full queue it is lost whether or not chance has hit it before
    /// (`netem_enqueue` draws first).
    pub fn drop_cause(&self) -> DropCause {
        if self.is_full() { DropCause::QueueOverflow } else { DropCause::LinkError }
    }

    /// Whether it holds as many as it may.
    pub fn is_full(&self) -> bool {
        self.inside.len() >= self.limit
    }

    /// Packets inside.
    pub fn depth(&self) -> QueueDepth {
        let packets = self.inside.len() as u32;
        QueueDepth { packets, bytes: self.bytes, class: 0, class_packets: packets, average: f64::NAN }
    }
}
