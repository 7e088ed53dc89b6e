//! What the models know of a router that is not theirs: which packets are in it, in the order in which they entered, and
//! which are on the link behind it.

use lasthop_core::{DropCause, Duration, FlowId, Instant, PacketId, QueueDepth, QueueSize};
use lasthop_link::{LinuxDiscipline, LinuxQueues};
use lasthop_scenario::{RouterImplementation, Scenario, Topology};
use std::collections::VecDeque;

/// A packet in the router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub id: PacketId,
    pub flow: FlowId,
    ip_bytes: u32,
    /// It found no room within the limit, and a discipline that refuses whoever does.
    found_full: bool,
}

/// One direction of a router that somebody else keeps: a queue for so many packets, and the link behind it.
#[derive(Debug)]
pub(super) struct Forwarded {
    limit: QueueSize,
    discipline: LinuxDiscipline,
    delay: Duration,
    inside: VecDeque<Inside>,
    bytes: u32,
    on_link: VecDeque<(Instant, PacketId)>,
}

/// Both directions of the router, down and up, of a scenario whose router is none of the models.
pub(super) fn routers(scenario: &Scenario) -> Option<[Forwarded; 2]> {
    let Topology::LastHop { down, up, .. } = scenario.topology() else { return None };
    let linux = scenario.router.implementation == RouterImplementation::Linux;
    linux.then(|| [down, up].map(|path| Forwarded::new(&path.linux_queues(scenario.mtu))))
}

impl Forwarded {
    /// An empty one.
    pub fn new(queues: &LinuxQueues) -> Self {
        let is_delayed = queues.discipline == LinuxDiscipline::Netem;
        Self {
            limit: queues.limit,
            discipline: queues.discipline,
            delay: if is_delayed { Duration::ZERO } else { queues.delay },
            inside: VecDeque::new(),
            bytes: 0,
            on_link: VecDeque::new(),
        }
    }

    /// A packet has entered.
    pub fn push(&mut self, id: PacketId, flow: FlowId, ip_bytes: u32) {
        let found_full = self.is_full(ip_bytes) && !self.discipline.takes_arrivals();
        self.inside.push_back(Inside { id, flow, ip_bytes, found_full });
        self.bytes += ip_bytes;
    }

    /// Takes out the first packet that `is_it`, and why each of those was dropped that should have come before. None if
    /// there is no such packet, or if the discipline cannot have dropped what stands before it.
    pub fn take(
        &mut self,
        is_it: impl FnMut(&Inside) -> bool,
        mut dropped: impl FnMut(PacketId, DropCause),
    ) -> Option<PacketId> {
        let mut place = self.inside.iter().position(is_it)?;
        let flow = self.inside[place].flow;
        let before = |other: &Inside| !self.discipline.has_flows() || other.flow == flow;
        let mut lost: Vec<usize> = (0..place).filter(|&index| before(&self.inside[index])).collect();
        if self.discipline.drops_arrivals_only() && !lost.is_empty() {
            return None;
        }
        while let Some(index) = lost.pop() {
            self.drop_at(index, &mut dropped);
            place -= 1;
        }
        let Inside { id, ip_bytes, .. } = self.inside.remove(place)?;
        self.bytes -= ip_bytes;
        Some(id)
    }

    /// The router has been seen to be empty: what is known to be in it was dropped.
    pub fn clear(&mut self, mut dropped: impl FnMut(PacketId, DropCause)) {
        while !self.inside.is_empty() {
            self.drop_at(0, &mut dropped);
        }
    }

    fn drop_at(&mut self, index: usize, dropped: &mut impl FnMut(PacketId, DropCause)) {
        let Some(Inside { id, ip_bytes, found_full, .. }) = self.inside.remove(index) else { return };
        self.bytes -= ip_bytes;
        dropped(id, if found_full { DropCause::QueueOverflow } else { self.discipline.drop_cause() });
    }

    /// Why a packet of this length is dropped that enters now. At a full queue it is lost whether or not chance has hit it before
    /// (`netem_enqueue` draws first).
    pub fn drop_cause(&self, ip_bytes: u32) -> DropCause {
        if self.is_full(ip_bytes) { DropCause::QueueOverflow } else { self.discipline.drop_cause() }
    }

    /// Whether a packet of this length exceeds the limit.
    pub fn is_full(&self, ip_bytes: u32) -> bool {
        match self.limit {
            QueueSize::Packets(limit) => self.inside.len() >= limit as usize,
            QueueSize::Bytes(limit) => self.bytes.saturating_add(ip_bytes) > limit,
        }
    }

    /// Whether nothing is known to be in it.
    pub fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// A packet has come out, and is on the link; true if that takes no time.
    pub fn start(&mut self, now: Instant, id: PacketId) -> bool {
        if self.delay.is_zero() {
            return true;
        }
        self.on_link.push_back((now + self.delay, id));
        false
    }

    /// When the next packet comes off the link; `Instant::MAX` if none is on it.
    pub fn next_arrival(&self) -> Instant {
        self.on_link.front().map_or(Instant::MAX, |(due, _)| *due)
    }

    /// Takes it off.
    pub fn arrive(&mut self) -> Option<(Instant, PacketId)> {
        self.on_link.pop_front()
    }

    /// Packets inside.
    pub fn depth(&self) -> QueueDepth {
        let packets = self.inside.len() as u32;
        QueueDepth { packets, bytes: self.bytes, class: 0, class_packets: packets, average: f64::NAN }
    }
}
