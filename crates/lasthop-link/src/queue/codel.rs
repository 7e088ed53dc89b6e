//! Controlled delay (CoDel, RFC 8289). Once the packets have waited longer than a target for a whole interval, it drops
//! from the head of the queue, ever more often, until one has waited less.
//!
//! Where Linux' `sch_codel` differs: it counts time in units of 1024 ns, and takes the square root of the control law by
//! one Newton step at each drop, which is far off at first (50 ms instead of 70.7 ms before the third drop).

use lasthop_core::{Bytes, DropCause, Duration, Ecn, Instant, Observer, PacketId, QueueDepth};

use super::drop_tail::{DropTail, Waiting};
use crate::config::codel::CoDelConfig;
use crate::discipline::{Dequeued, Discipline, Packets, Wait};

#[cfg(test)]
mod tests;

/// So many intervals after the last drop the rate of drops that had controlled the queue is forgotten (section 5.5).
const MEMORY_INTERVALS: u64 = 16;

/// CoDel's state, by the names of RFC 8289, section 5.
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    config: CoDelConfig,
    /// No packet is dropped while so much or less would be left.
    mtu: Bytes,
    queue: DropTail,
    /// When the time in the queue will have been above the target for an interval; none while it is not.
    first_above_time: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    /// The front has been judged already, and waits for room on the link.
    front_is_due: bool,
}

/// The front, out of the queue, and whether the delay has been too long for it to be dropped.
struct Candidate {
    packet: Waiting,
    ok_to_drop: bool,
}

impl CoDel {
    pub(crate) fn new(config: CoDelConfig, mtu: Bytes, queue: DropTail) -> Self {
        Self {
            config,
            mtu,
            queue,
            first_above_time: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            front_is_due: false,
        }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        self.queue.room_needed()
    }

    /// `dodequeue` of section 5.6. An empty queue needs no rule: the last packet has left less than one behind.
    fn take_front(&mut self, now: Instant) -> Option<Candidate> {
        let packet = self.queue.pop()?;
        let sojourn = now.saturating_since(packet.since);
        let short = sojourn < self.config.target || u64::from(self.queue.depth().bytes) <= self.mtu.0;
        let ok_to_drop = !short && self.first_above_time.is_some_and(|above| now >= above);
        if short {
            self.first_above_time = None;
        } else {
            self.first_above_time.get_or_insert(now + self.config.interval);
        }
        Some(Candidate { packet, ok_to_drop })
    }

    /// When the next drop is due after one at `at` (section 5.4).
    fn control_law(&self, at: Instant) -> Instant {
        let interval = self.config.interval.as_nanos() as f64;
        at + Duration::from_nanos((interval / f64::from(self.count).sqrt()) as u64)
    }

    /// `deque` of section 5.5: the packet to be sent.
    fn choose<O: Observer>(&mut self, now: Instant, packets: &mut Packets<'_, O>) -> Option<Waiting> {
        let mut front = self.take_front(now);
        let ok_to_drop = front.as_ref().is_some_and(|front| front.ok_to_drop);
        if !self.dropping {
            return if ok_to_drop { self.start_dropping(now, front?, packets) } else { Some(front?.packet) };
        }
        self.dropping = ok_to_drop;
        while self.dropping && now >= self.drop_next {
            self.count += 1;
            let (next, marked) = self.hit(now, front?, packets);
            front = next;
            self.dropping = marked || front.as_ref().is_some_and(|front| front.ok_to_drop);
            if self.dropping {
                self.drop_next = self.control_law(self.drop_next);
            }
            if marked {
                break;
            }
        }
        Some(front?.packet)
    }

    /// The first drop after a time without any.
    fn start_dropping<O: Observer>(
        &mut self,
        now: Instant,
        front: Candidate,
        packets: &mut Packets<'_, O>,
    ) -> Option<Waiting> {
        let (next, _) = self.hit(now, front, packets);
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recent = now.saturating_since(self.drop_next) < self.config.interval * MEMORY_INTERVALS;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        Some(next?.packet)
    }

    /// Drops a packet, or marks it if it and the queue are capable of ECN (section 5.1, RFC 3168): what is next then, and
    /// whether it is the same packet with a mark.
    fn hit<O: Observer>(
        &mut self,
        now: Instant,
        front: Candidate,
        packets: &mut Packets<'_, O>,
    ) -> (Option<Candidate>, bool) {
        let Waiting { id, .. } = front.packet;
        if self.config.ecn && packets.arena.get(id).ecn != Ecn::NotEct {
            packets.mark(now, id);
            return (Some(front), true);
        }
        packets.discard(now, id, DropCause::CoDel);
        (self.take_front(now), false)
    }
}

impl Discipline for CoDel {
    fn enqueue<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        self.queue.enqueue(now, id, packets)
    }

    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait> {
        let fits = |ip_bytes| u64::from(ip_bytes) <= room;
        if let Some(bytes) = self.room_needed()
            && !fits(bytes)
        {
            return Err(Wait::Room(bytes));
        }
        let chosen = if self.front_is_due { self.queue.pop() } else { self.choose(now, packets) };
        let chosen = chosen.ok_or(Wait::ARRIVAL)?;
        let Waiting { id, ip_bytes, .. } = chosen;
        self.front_is_due = !fits(ip_bytes);
        if self.front_is_due {
            // Those before it were shorter, and are dropped.
            self.queue.put_back(chosen);
            return Err(Wait::Room(ip_bytes));
        }
        Ok(Dequeued { id, ip_bytes, depth: self.depth() })
    }

    fn depth(&self) -> QueueDepth {
        self.queue.depth()
    }
}
