//! Hierarchical token buckets: which class's packet goes next, and when one may go.
//!
//! The rules are those of Linux' `net/sched/sch_htb.c` (Linux 6.1), for leaf classes under at most one root.
//! Tokens are nanoseconds, the time that a packet takes at the bucket's rate. A bucket that is not in debt lets
//! a packet of any length go and is charged for it (`htb_class_mode`, `htb_accnt_tokens`; without hysteresis,
//! the default). A class
//!
//! - may send on its own while neither its rate nor its ceiling is in debt; this charges both, and the root;
//! - may borrow while only its rate is in debt and the root is not; this charges its ceiling and the root.
//!
//! Own comes before borrowed whatever the priorities (`htb_dequeue` goes through the levels from the leaves up).
//! Turns are kept per level and priority (`htb_dequeue_tree`).

use lasthop_core::{Duration, Instant, Observer, Packet, PacketId, QueueDepth, Rate, Seed, Transmission};

use crate::config::htb::{ClassConfig, HtbConfig, MatchConfig, PRIORITIES};
use crate::config::{LinuxQueues, QueueConfig};
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};
use crate::queue::Queue;

#[cfg(test)]
mod tests;

/// Deepest debt of a bucket, and the longest pause that fills it, in nanoseconds (`mbuffer`).
const DEBT_MAX: i64 = 60_000_000_000;

/// A token bucket, by the time at which it was last charged.
#[derive(Clone, Debug)]
struct Bucket {
    transmission: Transmission,
    depth: i64,
    tokens: i64,
}

impl Bucket {
    fn full(rate: Rate, burst_bytes: u64) -> Self {
        let depth = rate.transmission_time(burst_bytes as u32).as_nanos().cast_signed();
        Self { transmission: Transmission::at(rate), depth, tokens: depth }
    }

    /// When it is out of debt, if it was last charged at `charged`.
    fn ready(&self, charged: Instant) -> Instant {
        charged + Duration::from_nanos((-self.tokens).max(0) as u64)
    }

    /// `pause` nanoseconds after the last time.
    fn charge(&mut self, pause: i64, length: u32) {
        let price = self.transmission.time(length).as_nanos().cast_signed();
        self.tokens = ((self.tokens + pause).min(self.depth) - price).max(1 - DEBT_MAX);
    }
}

/// Nanoseconds from `charged` to `now`, as far as they count.
fn pause(charged: Instant, now: Instant) -> i64 {
    i64::try_from(now.saturating_since(charged).as_nanos()).map_or(DEBT_MAX, |nanos| nanos.min(DEBT_MAX))
}

/// Where the right to send comes from. The order is the order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Own,
    Borrowed,
}

#[derive(Debug)]
struct Class {
    queue: Queue,
    matches: Vec<MatchConfig>,
    priority: u8,
    rate: Bucket,
    ceil: Bucket,
    charged: Instant,
    /// When neither its rate nor its ceiling is in debt, and when its ceiling is not.
    own_from: Instant,
    ceil_from: Instant,
    quantum: i64,
    /// What is left of its turn, per level.
    deficit: [i64; 2],
}

impl Class {
    fn new(config: &ClassConfig, queue: Queue) -> Self {
        Self {
            queue,
            matches: config.matches.clone(),
            priority: config.priority,
            rate: Bucket::full(config.rate, config.burst.0),
            ceil: Bucket::full(config.ceil.unwrap_or(config.rate), config.cburst.0),
            charged: Instant::ZERO,
            own_from: Instant::ZERO,
            ceil_from: Instant::ZERO,
            quantum: config.quantum_bytes().cast_signed(),
            deficit: [0; 2],
        }
    }

    fn charge(&mut self, now: Instant, level: Level, length: u32) {
        let pause = pause(self.charged, now);
        match level {
            Level::Own => self.rate.charge(pause, length),
            Level::Borrowed => self.rate.tokens += pause,
        }
        self.ceil.charge(pause, length);
        self.charged = now;
        self.ceil_from = self.ceil.ready(now);
        self.own_from = self.rate.ready(now).max(self.ceil_from);
    }
}

/// A class's right to send its next packet now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    class: usize,
    level: Level,
    /// Room that the link needs for the packet.
    room: u32,
}

/// The classes of one direction with their queues.
#[derive(Debug)]
pub(crate) struct Htb {
    classes: Vec<Class>,
    default: usize,
    /// Bytes that a packet counts more than its IP length.
    overhead: u32,
    /// Its bucket, and when it was last charged.
    root: Option<(Bucket, Instant)>,
    /// The class whose turn it is, per level and priority, or the number behind the last; if it has none, the next one
    /// in order.
    turns: [[usize; PRIORITIES]; 2],
}

impl Htb {
    /// Classes without a queue of their own have one like `queue`; their random streams are called `stream` and the
    /// class's name.
    pub(crate) fn new(
        htb: &HtbConfig,
        queue: &QueueConfig,
        outlet: Outlet,
        (stream, seed): (&str, Seed),
    ) -> Self {
        let class = |config: &ClassConfig| {
            let queue = config.queue.as_ref().unwrap_or(queue);
            let stream = seed.stream(&format!("{stream}.{}", config.name));
            Class::new(config, Queue::new(queue, outlet, stream))
        };
        Self {
            classes: htb.class.iter().map(class).collect(),
            default: htb.class.iter().position(|class| class.default).unwrap_or_default(),
            overhead: htb.overhead.0 as u32,
            root: htb.rate.map(|rate| (Bucket::full(rate, htb.burst.0), Instant::ZERO)),
            turns: [[0; PRIORITIES]; 2],
        }
    }

    /// The only class of Linux' router.
    pub(crate) fn linux(queues: &LinuxQueues, queue: Queue) -> Self {
        Self {
            classes: vec![Class::new(&queues.class(), queue)],
            default: 0,
            overhead: queues.overhead.0 as u32,
            root: None,
            turns: [[0; PRIORITIES]; 2],
        }
    }

    /// The class of a packet, in the order of the scenario.
    fn classify(&self, packet: &Packet) -> usize {
        let matching = |class: &Class| class.matches.iter().any(|matching| matching.fits(packet));
        self.classes.iter().position(matching).unwrap_or(self.default)
    }

    /// The queue of a class, with what waits in all of them.
    fn with_all(&self, class: usize, depth: QueueDepth) -> QueueDepth {
        let (mut packets, mut bytes) = (0, 0);
        for class in &self.classes {
            let depth = class.queue.depth();
            packets += depth.packets;
            bytes += depth.bytes;
        }
        QueueDepth { packets, bytes, class: class as u8, ..depth }
    }

    /// Whose packet goes next, if one may go at `now`; else when one may.
    fn next(&self, now: Instant) -> Result<Turn, Instant> {
        let root_from = self.root.as_ref().map_or(Instant::MAX, |(bucket, charged)| bucket.ready(*charged));
        let mut first = None;
        let mut ready = Instant::MAX;
        for (index, class) in self.classes.iter().enumerate() {
            let Some(room) = class.queue.room_needed() else { continue };
            let from = class.own_from.min(class.ceil_from.max(root_from));
            if from > now {
                ready = ready.min(from);
                continue;
            }
            let level = if class.own_from <= now { Level::Own } else { Level::Borrowed };
            let turn = self.turns[level as usize][usize::from(class.priority)];
            // Those before the one whose turn it is come after the last one.
            let rank = (level, class.priority, index < turn);
            if first.is_none_or(|(least, _)| rank < least) {
                first = Some((rank, Turn { class: index, level, room }));
            }
        }
        first.map(|(_, turn)| turn).ok_or(ready)
    }

    /// Charges a class, whose turn it was, for a packet that has left its queue.
    fn charge(&mut self, now: Instant, turn: Turn, ip_bytes: u32) {
        let Turn { class: index, level, .. } = turn;
        let class = &mut self.classes[index];
        let length = ip_bytes + self.overhead;
        class.charge(now, level, length);
        if let Some((bucket, charged)) = &mut self.root {
            bucket.charge(pause(*charged, now), length);
            *charged = now;
        }
        let deficit = &mut class.deficit[level as usize];
        *deficit -= i64::from(length);
        let used_up = *deficit < 0;
        if used_up {
            *deficit += class.quantum;
        }
        // A class that leaves the row of those within their rates passes its turn on; a borrower's is kept, as
        // Linux keeps the place of a child in its parent's row.
        let leaves = level == Level::Own && (class.queue.room_needed().is_none() || class.own_from > now);
        self.turns[level as usize][usize::from(class.priority)] = index + usize::from(used_up || leaves);
    }
}

impl Discipline for Htb {
    fn enqueue<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        let class = self.classify(packets.arena.get(id));
        let depth = self.classes[class].queue.enqueue(now, id, packets)?;
        Some(self.with_all(class, depth))
    }

    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait> {
        loop {
            let turn = self.next(now).map_err(Wait::Until)?;
            if u64::from(turn.room) > room {
                // By the time there is more, it may be another class's turn.
                let waiting = self.classes.iter().filter_map(|class| class.queue.room_needed());
                return Err(Wait::Room(waiting.fold(turn.room, u32::min)));
            }
            // A queue may have dropped all that it held.
            if let Ok(dequeued) = self.classes[turn.class].queue.dequeue(now, room, packets) {
                self.charge(now, turn, dequeued.ip_bytes);
                return Ok(Dequeued { depth: self.with_all(turn.class, dequeued.depth), ..dequeued });
            }
        }
    }

    fn depth(&self) -> QueueDepth {
        self.with_all(0, self.classes[0].queue.depth())
    }
}

impl MatchConfig {
    fn fits(&self, packet: &Packet) -> bool {
        self.dscp.is_none_or(|dscp| dscp == packet.dscp)
            && self.port.is_none_or(|port| port.get() == packet.server_port)
            && self.protocol.is_none_or(|protocol| protocol == packet.body.protocol())
    }
}
