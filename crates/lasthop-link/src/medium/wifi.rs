//! Wi-Fi: an access point and its stations on one channel (IEEE 802.11-2020).
//!
//! ```text
//! handle_packet -> queue of the receiver's station and category -> contention -> frame (A-MPDU)
//!               -> lost alone by errors, or whole by a collision; again -> in-order release -> poll_delivery
//! ```
//!
//! All nodes hear each other, without delay. On an idle channel, the next event is the end of the shortest
//! backoff, so idle slots cost no events: each transmission has one event at its start and one at the end of its
//! data, which determines when the channel is idle again.

use std::collections::VecDeque;

use lasthop_core::{
    AirEvent, Bytes, Direction, DropCause, Duration, Instant, Observer, PacketArena, PacketEvent, PacketId,
    Place, QueueDepth, RandomStream, Rate, Seed,
};

use crate::config::{WINDOW, WifiConfig, WifiStation};
use crate::discipline::Packets;

mod contention;
mod others;
mod sender;
#[cfg(test)]
mod tests;
mod timing;
mod window;

use contention::{BEST_EFFORT, Contender, categories, category_of, rank};
use others::Others;
use sender::{Limits, Sender};
use timing::Phy;
use window::MpduOutcome;

/// An access point and its stations.
#[derive(Debug)]
pub struct Wifi {
    phy: Phy,
    /// Of its directions, down and up.
    places: [Place; 2],
    limits: FrameLimits,
    stations: Vec<Station>,
    /// For each node and category a contender and its sender; first those of the access point, then those
    /// of the stations.
    contenders: Vec<Contender>,
    senders: Vec<Sender>,
    /// Number of categories.
    categories: usize,
    /// The air is idle from then on; the past or near future.
    free: Instant,
    /// The next start of a transmission, if nothing changes.
    start: Instant,
    /// The frames on the air, more than one in a collision, and the end of the last.
    frames: Vec<Frame>,
    end: Instant,
    others: Option<Others>,
    backoff: RandomStream,
    errors: RandomStream,
    released: VecDeque<PacketId>,
}

/// Limits of all frames.
#[derive(Clone, Copy, Debug)]
struct FrameLimits {
    retries: u32,
    rts_above: u32,
    mpdus: u32,
    ampdu: Option<u64>,
}

#[derive(Debug)]
struct Station {
    /// Rates with their start times; the last one first.
    course: Vec<(Instant, Rate)>,
    error: f64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    contender: usize,
    /// The receiver among those of its sender.
    receiver: usize,
    station: usize,
    begin: Instant,
    /// The end of the data, or of the RTS until it is certain that no other node sends.
    end: Instant,
    /// After an RTS, the time until the end of the data.
    after_rts: Option<Duration>,
    ack: Duration,
}

impl Station {
    /// The rate at the time of the last call of [`Station::advance`].
    fn rate(&self) -> Rate {
        self.course[self.course.len() - 1].1
    }

    fn advance(&mut self, now: Instant) {
        while let [.., (at, _), _] = self.course[..]
            && at <= now
        {
            self.course.pop();
        }
    }
}

impl Wifi {
    /// Random numbers come from the streams `wifi.backoff`, `wifi.error` and `wifi.others`, and those of the
    /// queues from `wifi.<node>.<category>.<station>`.
    pub(super) fn new(
        wifi: &WifiConfig,
        stations: &[&WifiStation],
        mtu: Bytes,
        places: [Place; 2],
        seed: Seed,
    ) -> Self {
        let phy = Phy::new(wifi.standard);
        let kinds = categories(wifi.standard, phy);
        let several = if wifi.standard.aggregates() { WINDOW } else { 1 };
        let nodes = stations.len() + 1;
        let sender = |index: usize| {
            let (node, category) = (index / kinds.len(), index % kinds.len());
            let receivers = if node == 0 { stations.len() } else { 1 };
            Sender::new(wifi, receivers, mtu, (format!("wifi.{node}.{category}"), seed))
        };
        let station = |station: &&WifiStation| Station {
            course: station.course(wifi).into_iter().rev().collect(),
            error: station.error.get(),
        };
        Self {
            phy,
            places,
            limits: FrameLimits {
                retries: wifi.retries,
                rts_above: wifi
                    .rts_threshold
                    .map_or(u32::MAX, |bytes| bytes.0.min(u64::from(u32::MAX)) as u32),
                mpdus: wifi.max_mpdus.unwrap_or(several).min(several),
                ampdu: wifi.max_ampdu.map(|bytes| bytes.0),
            },
            stations: stations.iter().map(station).collect(),
            contenders: (0..nodes).flat_map(|_| kinds.iter().copied().map(Contender::new)).collect(),
            senders: (0..nodes * kinds.len()).map(sender).collect(),
            categories: kinds.len(),
            free: Instant::ZERO,
            start: Instant::MAX,
            frames: Vec::new(),
            end: Instant::MAX,
            others: Others::new(wifi.busy.get(), seed.stream("wifi.others")),
            backoff: seed.stream("wifi.backoff"),
            errors: seed.stream("wifi.error"),
            released: VecDeque::new(),
        }
    }

    pub(super) fn handle_packet<O: Observer>(
        &mut self,
        id: PacketId,
        (station, direction): (usize, Direction),
        packets: &mut Packets<'_, O>,
    ) {
        let now = packets.now;
        self.let_others_pass(now);
        let category =
            if self.categories == 1 { BEST_EFFORT } else { category_of(packets.arena.get(id).dscp) };
        let (node, receiver) = match direction {
            Direction::Down => (0, station),
            Direction::Up => (station + 1, 0),
        };
        let index = node * self.categories + category;
        packets.arena.get_mut(id).queued_at = now;
        if !self.senders[index].enqueue(id, receiver, packets) {
            return;
        }
        let depth = self.queue_depth(direction);
        packets.observer.packet(now, PacketEvent::Enqueued(depth), packets.arena.get(id));
        let contender = &mut self.contenders[index];
        if !contender.waits && !self.frames.iter().any(|frame| frame.contender == index) {
            let is_busy = !self.frames.is_empty() || now < self.free;
            contender.begin(now, is_busy, &mut self.backoff);
            self.start = self.start.min(contender.start(self.free, self.phy.slot));
        }
    }

    pub(super) fn handle_wakeup<O: Observer>(
        &mut self,
        now: Instant,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        while let Some(due) = self.next_wakeup().filter(|due| *due <= now) {
            let mut packets = Packets { now: due, arena, observer };
            if !self.frames.is_empty() {
                self.finish(&mut packets);
            } else if due < self.start {
                self.let_others_pass(due);
            } else {
                self.begin(&mut packets);
            }
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        if !self.frames.is_empty() {
            return Some(self.end);
        }
        // Nobody minds the others while nothing is to be sent.
        let start = Some(self.start).filter(|start| *start < Instant::MAX)?;
        Some(self.others.as_ref().map_or(start, |others| others.start(self.free).min(start)))
    }

    pub(super) fn poll_delivery(&mut self) -> Option<PacketId> {
        self.released.pop_front()
    }

    pub(super) fn queue_depth(&self, direction: Direction) -> QueueDepth {
        let of = match direction {
            Direction::Down => &self.senders[..self.categories],
            Direction::Up => &self.senders[self.categories..],
        };
        let sum = |(packets, bytes), (more, of_those)| (packets + more, bytes + of_those);
        let (packets, bytes) = of.iter().map(Sender::depth).fold((0, 0), sum);
        QueueDepth { packets, bytes, class: 0, class_packets: packets, average: f64::NAN }
    }

    pub(super) fn packets_inside(&self) -> usize {
        let waiting = |sender: &Sender| sender.depth().0 as usize + sender.under_way();
        self.senders.iter().map(waiting).sum::<usize>() + self.released.len()
    }

    /// The other networks send their frames due at or before `now`, unless a frame is on the air.
    fn let_others_pass(&mut self, now: Instant) {
        while let Some(others) = &mut self.others
            && self.frames.is_empty()
            && others.start(self.free) <= now.min(self.start)
        {
            let at = others.start(self.free);
            let until = others.take(at);
            self.freeze(at);
            self.free = until;
            self.plan();
        }
    }

    /// A node starts to transmit.
    fn freeze(&mut self, now: Instant) {
        for contender in &mut self.contenders {
            contender.freeze(self.free, now, self.phy.slot, &mut self.backoff);
        }
    }

    /// Determines the next sender.
    fn plan(&mut self) {
        let starts = self.contenders.iter().map(|contender| contender.start(self.free, self.phy.slot));
        self.start = starts.min().unwrap_or(Instant::MAX);
    }

    /// Starts all transmissions that begin before their senders can hear each other.
    fn begin<O: Observer>(&mut self, packets: &mut Packets<'_, O>) {
        let now = packets.now;
        let (slot, free) = (self.phy.slot, self.free);
        let mut first: Vec<(Instant, usize)> = Vec::new();
        for (index, contender) in self.contenders.iter().enumerate() {
            let start = contender.start(free, slot);
            if start < now + slot {
                first.push((start, index));
            }
        }
        first.sort_unstable();
        for &(start, index) in &first {
            let rival = first.iter().any(|(_, other)| {
                other / self.categories == index / self.categories
                    && rank(other % self.categories) > rank(index % self.categories)
            });
            if !rival {
                packets.now = start;
                self.send(index, packets);
                if self.frames.is_empty() {
                    // Its queue has dropped all it had.
                    return self.plan();
                }
            }
        }
        self.end = self.frames.iter().map(|frame| frame.end).max().unwrap_or(Instant::MAX);
        self.start = Instant::MAX;
        for (index, contender) in self.contenders.iter_mut().enumerate() {
            if self.frames.iter().any(|frame| frame.contender == index) {
                continue;
            }
            if contender.start(free, slot) < now + slot {
                // A collision within the node (clause 10.23.2.4).
                contender.failed(self.limits.retries, Duration::ZERO, &mut self.backoff);
            } else {
                contender.freeze(free, now, slot, &mut self.backoff);
            }
        }
        if let [frame] = &mut self.frames[..]
            && let Some(rest) = frame.after_rts
        {
            frame.end += rest;
            self.end = frame.end;
        }
    }

    /// Takes a frame out of a sender's queue, if there is one.
    fn send<O: Observer>(&mut self, index: usize, packets: &mut Packets<'_, O>) {
        let now = packets.now;
        let (node, phy, most) = (index / self.categories, self.phy, self.limits);
        self.stations.iter_mut().for_each(|station| station.advance(now));
        let stations = if node == 0 { &self.stations[..] } else { &self.stations[node - 1..node] };
        let contender = &mut self.contenders[index];
        contender.waits = false;
        let txop = contender.category.txop;
        let limits = |receiver: usize| Limits {
            mpdus: most.mpdus,
            bytes: phy.most_ampdu(stations[receiver].rate(), txop, most.ampdu),
        };
        let bytes_of = Phy::several_bytes;
        let direction = if node == 0 { Direction::Down } else { Direction::Up };
        let (packets_now, bytes_now) = self.senders[index].depth();
        let all = self.queue_depth(direction);
        let (packets_else, bytes_else) = (all.packets - packets_now, all.bytes - bytes_now);
        let tell = |packets: &mut Packets<'_, O>, id: PacketId, (left, bytes): (u32, u32)| {
            let depth = QueueDepth {
                packets: packets_else + left,
                bytes: bytes_else + bytes,
                class_packets: packets_else + left,
                ..all
            };
            let packet = packets.arena.get_mut(id);
            packets.observer.packet(now, PacketEvent::Dequeued(depth), packet);
            packet.queued_at = Instant::MAX;
        };
        let taken = self.senders[index].take(limits, bytes_of, packets, tell);
        let Some((receiver, load)) = taken else { return };
        let rate = stations[receiver].rate();
        let bytes = load.bytes(phy.single_bytes(load.first()));
        let data = phy.frame(rate, bytes);
        let [rts, cts] = phy.rts_and_cts(rate);
        let (part, after_rts) =
            if bytes > most.rts_above { (rts, Some(phy.sifs + cts + phy.sifs + data)) } else { (data, None) };
        let station = if node == 0 { receiver } else { node - 1 };
        self.frames.push(Frame {
            contender: index,
            receiver,
            station,
            begin: now,
            end: now + part,
            after_rts,
            ack: phy.ack(rate, load.mpdus > 1),
        });
    }

    /// The data of all frames are sent: receivers answer, or the answer is missing.
    fn finish<O: Observer>(&mut self, packets: &mut Packets<'_, O>) {
        let now = packets.now;
        let collided = self.frames.len() > 1;
        self.free = now + self.phy.after_failure();
        let mut frames = std::mem::take(&mut self.frames);
        for frame in frames.drain(..) {
            let sender = &mut self.senders[frame.contender];
            let window = sender.window(frame.receiver);
            let (error, stream) = (self.stations[frame.station].error, &mut self.errors);
            let (mut arrived, mut failed) = (0, 0);
            let fails = || collided || error > 0.0 && stream.unit() < error;
            window.end(self.limits.retries, fails, |id, outcome| match outcome {
                MpduOutcome::Arrived => arrived += 1,
                MpduOutcome::Again => {
                    failed += 1;
                    packets.observer.packet(now, PacketEvent::LinkRetry, packets.arena.get(id));
                }
                MpduOutcome::GivenUp => {
                    failed += 1;
                    packets.discard(id, DropCause::AirGivenUp);
                }
            });
            while let Some(id) = window.release() {
                self.released.push_back(id);
            }
            sender.note_again(frame.receiver);
            let has_more = sender.has_packets();
            let contender = &mut self.contenders[frame.contender];
            let mut time = frame.end.saturating_since(frame.begin);
            if arrived > 0 {
                contender.succeeded(&mut self.backoff);
                self.free = now + self.phy.sifs + frame.ack;
                time += self.phy.sifs + frame.ack;
            } else {
                contender.failed(self.limits.retries, self.phy.early(), &mut self.backoff);
            }
            contender.waits = has_more;
            let category = frame.contender % self.categories;
            self.senders[category].charge(frame.station, time);
            let place = self.places[usize::from(frame.contender >= self.categories)];
            packets.observer.air(
                now,
                place,
                AirEvent {
                    station: frame.station as u16,
                    spent: time,
                    packets: arrived + failed,
                    failed,
                    collided,
                },
            );
        }
        self.frames = frames;
        self.end = Instant::MAX;
        self.plan();
    }
}
