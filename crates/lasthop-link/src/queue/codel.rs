//! Controlled delay (CoDel, RFC 8289). Once packets have waited longer than a target for a whole interval, it
//! drops from the head of the queue, at increasing frequency, until a packet has waited less.
//!
//! The state machine is that of RFC 8289, section 5. Its arithmetic is that of Linux' `sch_codel`, so that
//! both drop the same packets: time counts in units of 1024 ns, an interval is over once it has passed, and
//! the square root of the control law (section 5.4) comes from one Newton step per drop. That root is off for
//! the second interval only: 50 ms pass before the third drop instead of 70.7, then 56.2 instead of 57.7,
//! 48.8 instead of 50.
//!
//! As in Linux, a second threshold may mark every packet that has waited longer, regardless of the state.

use lasthop_core::{Bytes, DropCause, Duration, Ecn, Instant, Observer, PacketId, QueueDepth};

use super::drop_tail::DropTail;
use super::fifo::Waiting;
use crate::config::CoDelConfig;
use crate::discipline::{Dequeued, Discipline, Packets, Wait};

#[cfg(test)]
mod tests;

/// Number of intervals after the last drop until the drop rate that controlled the queue is forgotten
/// (section 5.5).
const MEMORY_INTERVALS: u64 = 16;
/// Nanoseconds per unit of time, as a shift.
const TIME_SHIFT: u32 = 10;
/// Slightly less than 1, as a 16-bit inverse root.
const ONE: u32 = 0xffff;

/// The parameters, in units of time and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoDelParameters {
    target: u64,
    interval: u64,
    /// No packet is dropped if this number of bytes or fewer would be left.
    mtu: u64,
    ecn: bool,
    ce_threshold: Option<u64>,
}

impl CoDelParameters {
    pub(super) fn new(config: CoDelConfig, mtu: Bytes) -> Self {
        let units = |duration: Duration| duration.as_nanos() >> TIME_SHIFT;
        Self {
            target: units(config.target),
            interval: units(config.interval),
            mtu: mtu.0,
            ecn: config.ecn,
            ce_threshold: config.ce_threshold.map(units),
        }
    }
}

/// The front packet, removed from its queue, and the rest of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) packet: Waiting,
    pub(super) backlog: u32,
}

/// The state of one queue, with the names of RFC 8289, section 5.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoDelControl {
    /// When the time in the queue will have been above the target for an interval; none while it is not.
    first_above_time: Option<u64>,
    dropping: bool,
    drop_next: u64,
    pub(super) count: u32,
    last_count: u32,
    /// 1 / sqrt(count), in units of 2^-16.
    inverse_root: u32,
}

fn units(at: Instant) -> u64 {
    at.as_nanos() >> TIME_SHIFT
}

impl CoDelControl {
    pub(super) const fn new() -> Self {
        Self {
            first_above_time: None,
            dropping: false,
            drop_next: 0,
            count: 0,
            last_count: 0,
            inverse_root: 0,
        }
    }

    /// The packet to be sent. `pop` removes the front.
    pub(super) fn choose<O: Observer>(
        &mut self,
        with: &CoDelParameters,
        pop: impl FnMut() -> Option<Front>,
        packets: &mut Packets<'_, O>,
    ) -> Option<Waiting> {
        let packet = self.dequeue(with, pop, packets)?;
        if with.ce_threshold.is_some_and(|threshold| units(packets.now) - units(packet.since) > threshold)
            && matches!(packets.arena.get(packet.id).ecn, Ecn::Ect0 | Ecn::Ect1)
        {
            packets.mark(packet.id);
        }
        Some(packet)
    }

    /// `deque` of section 5.5.
    fn dequeue<O: Observer>(
        &mut self,
        with: &CoDelParameters,
        mut pop: impl FnMut() -> Option<Front>,
        packets: &mut Packets<'_, O>,
    ) -> Option<Waiting> {
        let at = units(packets.now);
        let mut front = pop();
        let due = self.is_due(with, at, front.as_ref());
        if !self.dropping {
            return if due { self.start(with, front?, pop, packets) } else { Some(front?.packet) };
        }
        self.dropping = due;
        while self.dropping && at >= self.drop_next {
            self.count = self.count.wrapping_add(1);
            self.step();
            if mark(with, front?.packet, packets) {
                self.drop_next = self.control_law(with, self.drop_next);
                break;
            }
            packets.discard(front?.packet.id, DropCause::CoDel);
            front = pop();
            self.dropping = self.is_due(with, at, front.as_ref());
            if self.dropping {
                self.drop_next = self.control_law(with, self.drop_next);
            }
        }
        Some(front?.packet)
    }

    /// The first drop after a period without drops.
    fn start<O: Observer>(
        &mut self,
        with: &CoDelParameters,
        front: Front,
        mut pop: impl FnMut() -> Option<Front>,
        packets: &mut Packets<'_, O>,
    ) -> Option<Waiting> {
        let at = units(packets.now);
        let mut front = Some(front);
        if !mark(with, front?.packet, packets) {
            packets.discard(front?.packet.id, DropCause::CoDel);
            front = pop();
            self.is_due(with, at, front.as_ref());
        }
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.last_count);
        if delta > 1 && at.saturating_sub(self.drop_next) < MEMORY_INTERVALS * with.interval {
            self.count = delta;
            self.step();
        } else {
            (self.count, self.inverse_root) = (1, ONE);
        }
        self.last_count = self.count;
        self.drop_next = self.control_law(with, at);
        Some(front?.packet)
    }

    /// `dodequeue` of section 5.6: whether the delay has been too long for the front to be dropped.
    fn is_due(&mut self, with: &CoDelParameters, at: u64, front: Option<&Front>) -> bool {
        let long = front.filter(|front| {
            at - units(front.packet.since) >= with.target && u64::from(front.backlog) > with.mtu
        });
        if long.is_none() {
            self.first_above_time = None;
            return false;
        }
        at > *self.first_above_time.get_or_insert(at + with.interval)
    }

    /// When the next drop after one at `at` is due (section 5.4).
    fn control_law(&self, with: &CoDelParameters, at: u64) -> u64 {
        at + ((with.interval * u64::from(self.inverse_root)) >> 16)
    }

    /// One step of Newton's method for the inverse root of the count: `x (3 - count x^2) / 2`.
    fn step(&mut self) {
        let root = u64::from(self.inverse_root) << 16;
        let square = (root * root) >> 32;
        // In units of 2^-34, so that the product fits. With a count far above that of the root, the number
        // wraps, as in Linux.
        let rest = (3_u64 << 32).wrapping_sub(u64::from(self.count) * square) >> 2;
        self.inverse_root = ((rest.wrapping_mul(root) >> 31) >> 16) as u32 & ONE;
    }
}

/// Marks a packet if it and the queue are capable of ECN (section 5.1, RFC 3168).
fn mark<O: Observer>(with: &CoDelParameters, packet: Waiting, packets: &mut Packets<'_, O>) -> bool {
    let marks = with.ecn && packets.arena.get(packet.id).ecn != Ecn::NotEct;
    if marks {
        packets.mark(packet.id);
    }
    marks
}

/// CoDel for a queue with a limit.
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    parameters: CoDelParameters,
    control: CoDelControl,
    queue: DropTail,
    /// The front packet has been judged already, and waits for room on the link.
    front_is_due: bool,
}

impl CoDel {
    pub(crate) fn new(config: CoDelConfig, mtu: Bytes, queue: DropTail) -> Self {
        let parameters = CoDelParameters::new(config, mtu);
        Self { parameters, control: CoDelControl::new(), queue, front_is_due: false }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        self.queue.room_needed()
    }

    fn choose<O: Observer>(&mut self, packets: &mut Packets<'_, O>) -> Option<Waiting> {
        let Self { parameters, control, queue, .. } = self;
        let pop = || {
            let packet = queue.pop()?;
            Some(Front { packet, backlog: queue.depth().bytes })
        };
        control.choose(parameters, pop, packets)
    }
}

impl Discipline for CoDel {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        self.queue.enqueue(id, packets)
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let fits = |ip_bytes| u64::from(ip_bytes) <= room;
        if let Some(bytes) = self.room_needed()
            && !fits(bytes)
        {
            return Err(Wait::Room(bytes));
        }
        let chosen = if self.front_is_due { self.queue.pop() } else { self.choose(packets) };
        let chosen = chosen.ok_or(Wait::ARRIVAL)?;
        let Waiting { id, ip_bytes, .. } = chosen;
        self.front_is_due = !fits(ip_bytes);
        if self.front_is_due {
            // The packets before it were shorter, and are dropped.
            self.queue.put_back(chosen);
            return Err(Wait::Room(ip_bytes));
        }
        Ok(Dequeued { id, ip_bytes, depth: self.depth() })
    }

    fn depth(&self) -> QueueDepth {
        self.queue.depth()
    }
}
