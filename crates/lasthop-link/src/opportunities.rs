//! A link that carries what a recorded schedule of delivery opportunities lets it carry, as Mahimahi's `mm-link`
//! (Netravali et al., USENIX ATC 2015).

use std::collections::VecDeque;
use std::fmt;

use lasthop_core::{Duration, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth};

use crate::link::pop_if;

#[cfg(test)]
mod tests;

/// IP bytes that one opportunity delivers.
const OPPORTUNITY_BYTES: u32 = 1500;

/// When a link can deliver: instants after the start, in order, repeated for ever with the last one as the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    opportunities: Vec<Duration>,
    period: Duration,
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong there, and what to do.
    pub message: String,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Schedule {
    /// Reads a Mahimahi trace: a line for each opportunity, its time in milliseconds after the start, never
    /// decreasing. A millisecond with several opportunities has several lines.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut opportunities = Vec::new();
        let mut latest = 0;
        for (line, word) in (1..).zip(text.lines().map(str::trim)) {
            let error = |message: String| ScheduleError { line, message };
            let millis = word.parse::<u32>().map_err(|_| {
                error(format!("{word:?} is no time; write a whole number of milliseconds, 20 say"))
            })?;
            if millis < latest {
                return Err(error(format!(
                    "{millis} comes after {latest}; times never decrease, sort the lines"
                )));
            }
            latest = millis;
            opportunities.push(Duration::from_millis(u64::from(millis)));
        }
        if latest == 0 {
            let message = "the last time is the length of the trace; it must be above 0".into();
            return Err(ScheduleError { line: opportunities.len().max(1), message });
        }
        Ok(Self { opportunities, period: Duration::from_millis(u64::from(latest)) })
    }
}

/// One direction of a last hop with a schedule in place of a rate: a queue without limit, the opportunities, a
/// propagation delay. Sans-IO, with the methods of [`Path`](crate::Path) and the same order of calls.
///
/// An opportunity carries 1500 bytes: a packet, several small ones, or parts; what is left of a packet waits for
/// the next one, and its last byte takes the packet along. An opportunity that finds the queue empty is lost, and so
/// is the rest of one that empties it. A packet that arrives at the time of an opportunity comes too late for it.
#[derive(Clone, Debug)]
pub struct OpportunityLink {
    schedule: Schedule,
    delay: Duration,
    /// The next opportunity: its index, and the start of its round.
    next: usize,
    round: Instant,
    queue: VecDeque<(PacketId, u32)>,
    queue_bytes: u32,
    /// Partly delivered, and the bytes that are not.
    in_transit: Option<(PacketId, u32)>,
    travelling: VecDeque<(Instant, PacketId)>,
}

impl OpportunityLink {
    /// An empty link whose schedule starts at the start of the run.
    pub fn new(schedule: Schedule, delay: Duration) -> Self {
        Self {
            schedule,
            delay,
            next: 0,
            round: Instant::ZERO,
            queue: VecDeque::new(),
            queue_bytes: 0,
            in_transit: None,
            travelling: VecDeque::new(),
        }
    }

    /// A packet arrives.
    pub fn handle_packet<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        arena: &PacketArena,
        observer: &mut O,
    ) {
        self.lose_unused(now);
        let packet = arena.get(id);
        self.queue.push_back((id, packet.ip_bytes));
        self.queue_bytes += packet.ip_bytes;
        observer.packet(now, PacketEvent::Enqueued(self.queue_depth()), packet);
    }

    /// When [`OpportunityLink::handle_wakeup`] must be called or a delivery fetched next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let arrival = self.travelling.front().map(|&(at, _)| at);
        let opportunity = self.is_busy().then(|| self.opportunity());
        arrival.into_iter().chain(opportunity).min()
    }

    /// Uses the opportunities up to `now`.
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &PacketArena, observer: &mut O) {
        while self.is_busy() && self.opportunity() <= now {
            let at = self.opportunity();
            self.turn_to_next();
            self.deliver(at, arena, observer);
        }
    }

    /// The next packet that has reached the far side by `now`; the caller owns it from here on.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<PacketId> {
        pop_if(&mut self.travelling, |&(at, _)| at <= now).map(|(_, id)| id)
    }

    /// Packets that wait, the one that is partly delivered not among them.
    pub fn queue_depth(&self) -> QueueDepth {
        let packets = self.queue.len() as u32;
        QueueDepth { packets, bytes: self.queue_bytes, class: 0, class_packets: packets, average: f64::NAN }
    }

    fn is_busy(&self) -> bool {
        self.in_transit.is_some() || !self.queue.is_empty()
    }

    fn opportunity(&self) -> Instant {
        self.round + self.schedule.opportunities[self.next]
    }

    fn turn_to_next(&mut self) {
        self.next += 1;
        if self.next == self.schedule.opportunities.len() {
            self.next = 0;
            self.round += self.schedule.period;
        }
    }

    /// Leaves behind the opportunities up to `now` that nobody waited for.
    fn lose_unused(&mut self, now: Instant) {
        if self.is_busy() {
            return;
        }
        let period = self.schedule.period.as_nanos();
        let whole_rounds = (now.saturating_since(self.round).as_nanos() / period).saturating_sub(1);
        if whole_rounds > 0 {
            self.round += Duration::from_nanos(whole_rounds * period);
            self.next = 0;
        }
        while self.opportunity() <= now {
            self.turn_to_next();
        }
    }

    fn deliver<O: Observer>(&mut self, now: Instant, arena: &PacketArena, observer: &mut O) {
        let mut left = OPPORTUNITY_BYTES;
        while left > 0 {
            let waiting = self.in_transit.take().or_else(|| self.dequeue(now, arena, observer));
            let Some((id, bytes)) = waiting else { return };
            let carried = bytes.min(left);
            left -= carried;
            if carried < bytes {
                self.in_transit = Some((id, bytes - carried));
            } else {
                self.travelling.push_back((now + self.delay, id));
            }
        }
    }

    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        arena: &PacketArena,
        observer: &mut O,
    ) -> Option<(PacketId, u32)> {
        let (id, bytes) = self.queue.pop_front()?;
        self.queue_bytes -= bytes;
        observer.packet(now, PacketEvent::Dequeued(self.queue_depth()), arena.get(id));
        Some((id, bytes))
    }
}
