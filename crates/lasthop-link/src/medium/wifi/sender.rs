//! The data of a category of a node: a queue and a window for each receiver, and the order of receivers. The
//! access point sends to each station, a station to the access point only.

use std::collections::VecDeque;

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, DropCause, Duration, Observer, PacketId, QueueDepth, Rate, Seed};

use super::window::Window;
use crate::config::{
    CoDelConfig, DisciplineConfig, FlowsConfig, FqCoDelConfig, QueueConfig, WifiConfig, WifiQueue,
};
use crate::discipline::{Discipline, Outlet, Packets};
use crate::queue::Queue;
use crate::queue::fifo::{Fifo, Total, Waiting};
use crate::queue::rounds::Rounds;

/// Airtime of a station per round in microseconds, as in Høiland-Jørgensen et al., USENIX ATC 2017.
const AIRTIME_QUANTUM: u64 = 300;
/// The parameters of FQ-CoDel in mac80211 (`ieee80211_txq_setup_flows`).
const TARGET: Duration = Duration::from_millis(20);
const INTERVAL: Duration = Duration::from_millis(100);
const QUANTUM: Bytes = Bytes(300);

/// The limits of a frame, from its rate and category.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Packets.
    pub(super) mpdus: u32,
    /// Bytes of several packets.
    pub(super) bytes: u32,
}

/// The packets of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) mpdus: u32,
    /// Bytes that packets take in a frame with several, padded.
    bytes: u32,
    /// Padding of the last one.
    padding: u32,
    /// Bytes of the first packet.
    first: u32,
}

impl Load {
    pub(super) const fn bytes(self, single_bytes: u32) -> u32 {
        if self.mpdus == 1 { single_bytes } else { self.bytes - self.padding }
    }

    /// Bytes of its first packet.
    pub(super) const fn first(self) -> u32 {
        self.first
    }

    /// Adds a packet that takes `bytes` if it fits; the first one always does.
    fn add(&mut self, ip_bytes: u32, (bytes, padding): (u32, u32), limits: Limits) -> bool {
        let fits =
            self.mpdus == 0 || self.mpdus < limits.mpdus && self.bytes + bytes - padding <= limits.bytes;
        if fits {
            if self.mpdus == 0 {
                self.first = ip_bytes;
            }
            (self.mpdus, self.bytes, self.padding) = (self.mpdus + 1, self.bytes + bytes, padding);
        }
        fits
    }
}

/// The queue of a receiver.
#[derive(Debug)]
enum Queued {
    Fifo(Fifo),
    /// Made for the first packet.
    Fair(Option<Box<Queue>>),
}

#[derive(Debug)]
struct Receiver {
    queued: Queued,
    window: Window,
    /// Packets taken ahead of those of other receivers that had arrived earlier.
    ahead: u32,
}

/// The order of receivers.
#[derive(Debug)]
enum Order {
    /// That of the oldest packet. The receivers of packets in the order of arrival.
    Arrival(VecDeque<usize>),
    /// Round robin, by credit or by airtime in microseconds.
    Turns { rounds: Rounds, by_time: bool },
}

#[derive(Debug)]
pub(super) struct Sender {
    receivers: Vec<Receiver>,
    order: Order,
    limit: QueueSize,
    /// All packets in its queues.
    total: QueueDepth,
    /// The receivers whose packets are to be sent again, those that wait longest first.
    again: VecDeque<usize>,
    /// The prefix of the names of its random streams, and their seed.
    stream: (String, Seed),
    mtu: Bytes,
}

impl Sender {
    /// A sender to `receivers`.
    pub(super) fn new(wifi: &WifiConfig, receivers: usize, mtu: Bytes, stream: (String, Seed)) -> Self {
        let receiver = || Receiver {
            queued: if wifi.queue == WifiQueue::Fifo {
                Queued::Fifo(Fifo::default())
            } else {
                Queued::Fair(None)
            },
            window: Window::default(),
            ahead: 0,
        };
        let turns = |quantum, by_time| Order::Turns {
            rounds: Rounds::new(receivers as u32, Bytes(quantum)),
            by_time,
        };
        Self {
            receivers: (0..receivers).map(|_| receiver()).collect(),
            order: match wifi.queue {
                WifiQueue::Fifo => Order::Arrival(VecDeque::new()),
                WifiQueue::FqCodel => turns(1, false),
                WifiQueue::Airtime => turns(AIRTIME_QUANTUM, true),
            },
            limit: wifi.limit(),
            total: Total::default().depth(),
            again: VecDeque::new(),
            stream,
            mtu,
        }
    }

    /// All packets in its queues.
    pub(super) const fn depth(&self) -> (u32, u32) {
        (self.total.packets, self.total.bytes)
    }

    /// Packets that have left their queue and are not released.
    pub(super) fn under_way(&self) -> usize {
        self.receivers.iter().map(|to| to.window.packets()).sum()
    }

    /// True if it has a packet to send.
    pub(super) fn has_packets(&self) -> bool {
        self.total.packets > 0 || !self.again.is_empty()
    }

    /// A packet for `receiver` arrives. True if its queue accepts it.
    pub(super) fn enqueue<O: Observer>(
        &mut self,
        id: PacketId,
        receiver: usize,
        packets: &mut Packets<'_, O>,
    ) -> bool {
        let ip_bytes = packets.arena.get(id).ip_bytes;
        let to = &mut self.receivers[receiver];
        match &mut to.queued {
            Queued::Fifo(fifo) => {
                if self.total.is_full(self.limit, ip_bytes) {
                    packets.discard(id, DropCause::QueueOverflow);
                    return false;
                }
                fifo.push(Waiting { id, ip_bytes, since: packets.now });
                (self.total.packets, self.total.bytes) =
                    (self.total.packets + 1, self.total.bytes + ip_bytes);
                if let Order::Arrival(order) = &mut self.order {
                    order.push_back(receiver);
                }
            }
            Queued::Fair(queue) => {
                let (name, seed) = &self.stream;
                let queue = queue.get_or_insert_with(|| fair(self.limit, self.mtu, receiver, name, *seed));
                let before = queue.depth();
                let accepted = queue.enqueue(id, packets).is_some();
                changed(&mut self.total, before, queue.depth());
                if let Order::Turns { rounds, .. } = &mut self.order {
                    rounds.activate(receiver);
                }
                return accepted;
            }
        }
        true
    }

    /// Takes the packets of the next frame: those to be sent again, then new ones. `bytes_of` returns the bytes of a
    /// packet in an A-MPDU, and how many of them are padding; `limits` returns the limits of a frame to a receiver.
    /// `None` if the disciplines have dropped all packets.
    pub(super) fn take<O: Observer>(
        &mut self,
        limits: impl Fn(usize) -> Limits,
        bytes_of: impl Fn(u32) -> (u32, u32),
        packets: &mut Packets<'_, O>,
        mut tell: impl FnMut(&mut Packets<'_, O>, PacketId, (u32, u32)),
    ) -> Option<(usize, Load)> {
        loop {
            let receiver = self.turn()?;
            let load = self.load(receiver, limits(receiver), &bytes_of, packets, &mut tell);
            if load.mpdus > 0 {
                if let Order::Turns { rounds, by_time: false } = &mut self.order {
                    rounds.charge(receiver, 1);
                }
                return Some((receiver, load));
            }
            if let Order::Turns { rounds, .. } = &mut self.order {
                rounds.retire(receiver);
            }
        }
    }

    fn load<O: Observer>(
        &mut self,
        receiver: usize,
        limits: Limits,
        bytes_of: &impl Fn(u32) -> (u32, u32),
        packets: &mut Packets<'_, O>,
        tell: &mut impl FnMut(&mut Packets<'_, O>, PacketId, (u32, u32)),
    ) -> Load {
        let mut load = Load::default();
        self.receivers[receiver].window.send_again(|ip_bytes| load.add(ip_bytes, bytes_of(ip_bytes), limits));
        self.note_again(receiver);
        let to = &mut self.receivers[receiver];
        while load.mpdus < limits.mpdus && to.window.has_room() && !to.window.has_again() {
            let (id, ip_bytes) = match &mut to.queued {
                Queued::Fifo(fifo) => {
                    let Some(front) = fifo.front() else { break };
                    let (id, ip_bytes) = (front.id, front.ip_bytes);
                    if !load.add(ip_bytes, bytes_of(ip_bytes), limits) {
                        break;
                    }
                    fifo.pop();
                    self.total.packets -= 1;
                    self.total.bytes -= ip_bytes;
                    to.ahead += 1;
                    (id, ip_bytes)
                }
                Queued::Fair(queue) => {
                    let Some(queue) = queue else { break };
                    // The discipline wants room for the largest packet.
                    let mut whole = load;
                    if !whole.add(0, bytes_of(self.mtu.0 as u32), limits) {
                        break;
                    }
                    let before = queue.depth();
                    let next = queue.dequeue(u64::MAX, packets);
                    changed(&mut self.total, before, queue.depth());
                    let Ok(next) = next else { break };
                    load.add(next.ip_bytes, bytes_of(next.ip_bytes), limits);
                    (next.id, next.ip_bytes)
                }
            };
            to.window.send(id, ip_bytes);
            tell(packets, id, (self.total.packets, self.total.bytes));
        }
        load
    }

    /// The receiver whose turn it is.
    fn turn(&mut self) -> Option<usize> {
        match &mut self.order {
            Order::Arrival(order) => {
                if let Some(receiver) = self.again.front() {
                    return Some(*receiver);
                }
                loop {
                    let receiver = *order.front()?;
                    let ahead = &mut self.receivers[receiver].ahead;
                    if *ahead == 0 {
                        return Some(receiver);
                    }
                    *ahead -= 1;
                    order.pop_front();
                }
            }
            Order::Turns { rounds, .. } => rounds.turn(),
        }
    }

    /// The window towards a receiver, whose frame has ended.
    pub(super) fn window(&mut self, receiver: usize) -> &mut Window {
        &mut self.receivers[receiver].window
    }

    /// Notes whether packets to a receiver are to be sent again.
    pub(super) fn note_again(&mut self, receiver: usize) {
        let place = self.again.iter().position(|other| *other == receiver);
        match (place, self.receivers[receiver].window.has_again()) {
            (None, true) => self.again.push_back(receiver),
            (Some(place), false) => drop(self.again.remove(place)),
            _ => {}
        }
    }

    /// Charges the airtime of a frame to or from a station to that station, in either direction.
    pub(super) fn charge(&mut self, station: usize, time: Duration) {
        if let Order::Turns { rounds, by_time: true } = &mut self.order {
            rounds.charge(station, (time.as_nanos() / 1000) as u32);
        }
    }
}

fn changed(total: &mut QueueDepth, before: QueueDepth, after: QueueDepth) {
    total.packets = total.packets + after.packets - before.packets;
    total.bytes = total.bytes + after.bytes - before.bytes;
}

/// A queue with FQ-CoDel, as mac80211 has it for each station.
fn fair(limit: QueueSize, mtu: Bytes, receiver: usize, name: &str, seed: Seed) -> Box<Queue> {
    let fair = FqCoDelConfig::default();
    let codel = CoDelConfig { target: TARGET, interval: INTERVAL, ..fair.codel };
    let flows = FlowsConfig { quantum: Some(QUANTUM), ..fair.flows };
    let discipline = DisciplineConfig::FqCodel(FqCoDelConfig { codel, flows });
    let config = QueueConfig { discipline, ..QueueConfig::drop_tail(limit) };
    // FQ-CoDel does not ask for the rate.
    let outlet = Outlet { rate: Rate::from_bits_per_second(1), framing: None, mtu };
    Box::new(Queue::new(&config, outlet, seed.stream(&format!("{name}.{receiver}"))))
}
