//! The models' view of an external router: the packets in it, in the order of their entry, and the packets on
//! the link after it.

use lasthop_core::{DropCause, Duration, Instant, Packet, PacketId, QueueDepth};
use lasthop_link::{Classifier, LinuxDiscipline, LinuxQueue, LinuxQueues};
use lasthop_scenario::Scenario;
use std::collections::VecDeque;

/// A packet in the router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub id: PacketId,
    class: usize,
    /// Its queue inside the discipline of the class.
    queue: u32,
    ip_bytes: u32,
    /// True if it exceeded the limit on entry, and the discipline rejects such packets.
    found_full: bool,
}

/// The queue of a class, and the packets believed to be in it; `None` for an inner class.
#[derive(Debug)]
struct Class {
    queue: Option<LinuxQueue>,
    packets: u32,
    bytes: u32,
}

/// One direction of an external router: a queue with a limit in each class, and the link after them.
#[derive(Debug)]
pub(super) struct Forwarded {
    classifier: Classifier,
    classes: Vec<Class>,
    delay: Duration,
    inside: VecDeque<Inside>,
    on_link: VecDeque<(Instant, PacketId)>,
}

/// Both directions of the external router, down and up, if the scenario has one.
pub(super) fn routers(scenario: &Scenario) -> Option<[Forwarded; 2]> {
    Some(scenario.behind_linux()?.map(|path| Forwarded::new(&path.linux_queues(scenario.mtu))))
}

impl Forwarded {
    /// An empty direction.
    pub fn new(queues: &LinuxQueues) -> Self {
        let class = |queue: &Option<LinuxQueue>| Class { queue: *queue, packets: 0, bytes: 0 };
        Self {
            classifier: Classifier::new(&queues.htb),
            classes: queues.queues.iter().map(class).collect(),
            delay: if queues.has_netem() { Duration::ZERO } else { queues.delay },
            inside: VecDeque::new(),
            on_link: VecDeque::new(),
        }
    }

    /// The class of a packet.
    pub fn class_of(&self, packet: &Packet) -> usize {
        self.classifier.class_of(packet)
    }

    /// A packet has entered.
    pub fn push(&mut self, packet: &Packet, id: PacketId) {
        let class = self.class_of(packet);
        let discipline = self.classes[class].queue.map(|queue| queue.discipline);
        let takes_arrivals = discipline.is_some_and(LinuxDiscipline::takes_arrivals);
        let found_full = self.is_full(packet) && !takes_arrivals;
        let queue = discipline.map_or(0, |discipline| discipline.queue_of(packet));
        self.inside.push_back(Inside { id, class, queue, ip_bytes: packet.ip_bytes, found_full });
        self.classes[class].packets += 1;
        self.classes[class].bytes += packet.ip_bytes;
    }

    /// Removes the first packet that `is_it` accepts, and the packets before it, with the cause of each of
    /// their drops. None if there is no such packet, or if the discipline cannot have dropped the packets
    /// before it.
    pub fn take(
        &mut self,
        is_it: impl FnMut(&Inside) -> bool,
        mut dropped: impl FnMut(PacketId, DropCause),
    ) -> Option<PacketId> {
        let mut place = self.inside.iter().position(is_it)?;
        let Inside { class, queue, .. } = self.inside[place];
        let discipline = self.classes[class].queue?.discipline;
        let before = |other: &Inside| (other.class, other.queue) == (class, queue);
        let mut lost: Vec<usize> = (0..place).filter(|&index| before(&self.inside[index])).collect();
        if discipline.drops_arrivals_only() && !lost.is_empty() {
            return None;
        }
        while let Some(index) = lost.pop() {
            self.drop_at(index, &mut dropped);
            place -= 1;
        }
        Some(self.remove(place)?.id)
    }

    /// A class is empty: the packets that were in it have been dropped.
    pub fn clear(&mut self, class: usize, mut dropped: impl FnMut(PacketId, DropCause)) {
        while let Some(index) = self.inside.iter().position(|packet| packet.class == class) {
            self.drop_at(index, &mut dropped);
        }
    }

    fn drop_at(&mut self, index: usize, dropped: &mut impl FnMut(PacketId, DropCause)) {
        let Some(Inside { id, class, found_full, .. }) = self.remove(index) else { return };
        dropped(id, if found_full { DropCause::QueueOverflow } else { self.chance_of(class) });
    }

    fn remove(&mut self, index: usize) -> Option<Inside> {
        let packet = self.inside.remove(index)?;
        self.classes[packet.class].packets -= 1;
        self.classes[packet.class].bytes -= packet.ip_bytes;
        Some(packet)
    }

    /// The cause of a drop in this class while the queue had room.
    fn chance_of(&self, class: usize) -> DropCause {
        self.classes[class].queue.map_or(DropCause::QueueOverflow, |queue| queue.discipline.drop_cause())
    }

    /// The cause if a packet is dropped on entry now. At a full queue it is lost regardless of the random
    /// loss (`netem_enqueue` draws first).
    pub fn drop_cause(&self, packet: &Packet) -> DropCause {
        if self.is_full(packet) { DropCause::QueueOverflow } else { self.chance_of(self.class_of(packet)) }
    }

    /// True if a packet exceeds the limit of its class.
    pub fn is_full(&self, packet: &Packet) -> bool {
        let Class { queue, packets, bytes } = &self.classes[self.class_of(packet)];
        let depth = QueueDepth { packets: *packets, bytes: *bytes, ..QueueDepth::default() };
        queue.is_some_and(|queue| depth.is_full(queue.limit, packet.ip_bytes))
    }

    /// The classes believed to hold packets.
    pub fn not_empty(&self) -> impl Iterator<Item = usize> {
        (0..self.classes.len()).filter(|class| self.classes[*class].packets > 0)
    }

    /// A packet has left the router and is on the link; true if the link takes no time.
    pub fn start(&mut self, now: Instant, id: PacketId) -> bool {
        if self.delay.is_zero() {
            return true;
        }
        self.on_link.push_back((now + self.delay, id));
        false
    }

    /// When the next packet leaves the link; `Instant::MAX` if none is on it.
    pub fn next_arrival(&self) -> Instant {
        self.on_link.front().map_or(Instant::MAX, |(due, _)| *due)
    }

    /// Removes that packet from the link.
    pub fn arrive(&mut self) -> Option<(Instant, PacketId)> {
        self.on_link.pop_front()
    }

    /// Number of packets inside, and of packets of a class.
    pub fn depth(&self, class: usize) -> QueueDepth {
        QueueDepth {
            packets: self.inside.len() as u32,
            bytes: self.classes.iter().map(|class| class.bytes).sum(),
            class: class as u8,
            class_packets: self.classes[class].packets,
            average: f64::NAN,
        }
    }
}
