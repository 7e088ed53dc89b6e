//! COBALT, the active queue management of CAKE: CoDel and BLUE side by side ("Piece of CAKE", section III-B).
//!
//! CoDel drops or marks at increasing frequency while packets wait too long. Unlike that of RFC 8289 it
//! comes back step by step: the frequency falls with each drop that would have been due after the delay has
//! become short. BLUE drops at random, with a probability that grows while the queue overflows.

use lasthop_core::{Duration, Ecn, Instant, Observer, RandomStream};

use super::super::fifo::Waiting;
use super::shaper::Pace;
use crate::discipline::Packets;

/// Steps of BLUE's probability, in units of 2^-32: 1/256 up, 1/4096 down.
const UP: u32 = 1 << 24;
const DOWN: u32 = 1 << 20;
/// Below this number of drops the inverse root is exact, as one Newton step would be far off.
const EXACT_BELOW: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct CobaltParameters {
    pub(super) target: Duration,
    pub(super) interval: Duration,
    /// Time of the largest packet at the rate of the tin.
    packet: Duration,
}

impl CobaltParameters {
    /// For a tin of this rate. A slow tin is allowed one and a half packets (`cake_set_rate`).
    pub(super) fn new(target: Duration, rtt: Duration, pace: Option<Pace>, mtu: u32) -> Self {
        let packet = pace.map_or(Duration::ZERO, |pace| pace.time(mtu));
        let allowed = target.max(Duration::from_nanos(packet.as_nanos() * 3 / 2));
        let interval = (rtt + allowed.saturating_sub(target)).max(allowed + allowed);
        Self { target: allowed, interval, packet }
    }
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cobalt {
    pub(super) count: u32,
    /// 1 / sqrt(count), in units of 2^-32. It begins at zero as in Linux, so that a queue's first drop ever
    /// comes with the next packet and not after an interval.
    inverse_root: u32,
    /// When the next drop is due; while none is, how long the state is to be kept.
    pub(super) drop_next: Instant,
    changed: Instant,
    /// BLUE's probability, in units of 2^-32.
    pub(super) probability: u32,
    dropping: bool,
}

impl Cobalt {
    /// Whether the state has come to rest (`cake_dequeue`).
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.probability == 0 && self.count == 0 && now >= self.drop_next
    }

    /// A packet was dropped because the queue was full (`cobalt_queue_full`).
    pub(super) fn note_full(&mut self, with: &CobaltParameters, now: Instant) {
        if now.saturating_since(self.changed) > with.target {
            self.probability = self.probability.saturating_add(UP);
            self.changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// It was the turn of the queue, and it was empty (`cobalt_queue_empty`).
    pub(super) fn note_empty(&mut self, with: &CobaltParameters, now: Instant) {
        if self.probability > 0 && now.saturating_since(self.changed) > with.target {
            self.probability = self.probability.saturating_sub(DOWN);
            self.changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.step_to(self.count - 1, with);
        }
    }

    /// Whether to drop a packet that leaves now; it may mark the packet instead (`cobalt_should_drop`).
    pub(super) fn drops<O: Observer>(
        &mut self,
        with: &CobaltParameters,
        packet: Waiting,
        random: &mut RandomStream,
        packets: &mut Packets<'_, O>,
    ) -> bool {
        let now = packets.now;
        let wait = now.saturating_since(packet.since);
        let is_due = self.count > 0 && now >= self.drop_next;
        let mut is_late = now > self.drop_next;
        if wait > with.target && wait.as_nanos() > with.packet.as_nanos() * 4 {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control_law(with, now);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut drops = false;
        if is_due && self.dropping {
            drops = !mark(packet, packets);
            self.step_to(self.count.saturating_add(1), with);
            is_late = now > self.drop_next;
        } else if is_due {
            while self.count > 0 && now >= self.drop_next {
                self.step_to(self.count - 1, with);
            }
            is_late = now > self.drop_next;
        }
        if self.probability > 0 {
            drops |= ((random.bits() >> 32) as u32) < self.probability;
        }
        if self.count == 0 {
            self.drop_next = now + with.interval;
        } else if is_late && !drops {
            self.drop_next = now;
        }
        drops
    }

    /// Takes this count, and sets the time of the next drop after the last.
    fn step_to(&mut self, count: u32, with: &CobaltParameters) {
        self.count = count;
        self.inverse_root = if count < EXACT_BELOW {
            // Of 0 and 1 it is the largest number below 1.
            libm::round(libm::exp2(32.0) / libm::sqrt(f64::from(count))) as u32
        } else {
            newton(self.inverse_root, count)
        };
        self.drop_next = self.control_law(with, self.drop_next);
    }

    /// As in Linux, an interval above 4.3 s is cut to 32 bits (`reciprocal_scale`).
    fn control_law(&self, with: &CobaltParameters, after: Instant) -> Instant {
        let interval = u64::from(with.interval.as_nanos() as u32);
        after + Duration::from_nanos((interval * u64::from(self.inverse_root)) >> 32)
    }
}

/// One step of Newton's method for an inverse root: `x (3 - count x^2) / 2` (`cobalt_newton_step`).
fn newton(root: u32, count: u32) -> u32 {
    let root = u64::from(root);
    let square = (root * root) >> 32;
    // In units of 2^-30, so that the product fits.
    let rest = (3_u64 << 32).wrapping_sub(u64::from(count) * square) >> 2;
    (rest.wrapping_mul(root) >> 31) as u32
}

/// Marks a packet if it is capable of ECN.
fn mark<O: Observer>(packet: Waiting, packets: &mut Packets<'_, O>) -> bool {
    let marks = packets.arena.get(packet.id).ecn != Ecn::NotEct;
    if marks {
        packets.mark(packet.id);
    }
    marks
}
