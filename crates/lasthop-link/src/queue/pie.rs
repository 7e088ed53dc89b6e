//! Proportional integral controller enhanced (PIE, RFC 8033). Every 15 ms it sets the drop probability
//! according to the difference of the queueing delay from a target, and to its trend. Packets are dropped at
//! their arrival.
//!
//! The arithmetic is that of Linux' `sch_pie`: probabilities are integers of 56 bits, time counts in units of
//! 64 ns. Linux and the RFC differ in their measurements. The delay is that of the last packet that left (the
//! RFC estimates it from the departure rate, or measures it in the same way, section 5.2). The burst
//! allowance shrinks with the time between departures (in the RFC: with each update, section 4.4). Also,
//! Linux does not limit the probability to 1: after a long overload it takes equally long to recover. Linux'
//! timer has the resolution of its ticks: 16 ms in place of 15.

use lasthop_core::{DropCause, Duration, Ecn, Instant, Observer, PacketId, QueueDepth, RandomStream};

use super::drop_tail::DropTail;
use super::fifo::Waiting;
use crate::config::PieConfig;
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

#[cfg(test)]
mod tests;

/// Probability 1.
const ONE: u64 = u64::MAX >> 8;
/// Nanoseconds per unit of time, as a shift.
const TIME_SHIFT: u32 = 6;
const UNITS_PER_SECOND: u64 = 1_000_000_000 >> TIME_SHIFT;
/// How long a queue may grow before packets are dropped (`MAX_BURST`, section 4.4).
const BURST_MAX: u64 = 150_000_000 >> TIME_SHIFT;
/// Above this delay the probability grows by another 2 % at each update (section 4.2).
const DELAY_HIGH: u64 = 250_000_000 >> TIME_SHIFT;
/// Gains in sixteenths, the unit of `tc`: 0.125 and 1.25 Hz (section 4.2).
const ALPHA: u64 = 2;
const BETA: u64 = 20;

fn units(duration: Duration) -> u64 {
    duration.as_nanos() >> TIME_SHIFT
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PieParameters {
    target: u64,
    update: Duration,
    mtu: u32,
    ecn: bool,
}

impl PieParameters {
    pub(super) fn new(config: PieConfig, outlet: Outlet) -> Self {
        let PieConfig { target, tupdate, ecn } = config;
        Self { target: units(target), update: tupdate, mtu: outlet.mtu.0 as u32, ecn }
    }
}

/// The inputs of the probability, and the state that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieState {
    probability: u64,
    /// Sum of the probabilities since the last drop (section 5.4: drops are evenly spread).
    accumulated: u64,
    burst_allowance: u64,
    delay: u64,
    delay_before: u64,
    /// When the last packet left.
    departure: Option<Instant>,
}

impl PieState {
    const START: Self = Self {
        probability: 0,
        accumulated: 0,
        burst_allowance: BURST_MAX,
        delay: 0,
        delay_before: 0,
        departure: None,
    };
}

/// The state of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieControl {
    state: PieState,
    next_update: Instant,
}

/// The treatment of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieVerdict {
    Pass,
    Mark,
    Drop,
}

impl PieControl {
    pub(super) fn new(with: &PieParameters) -> Self {
        Self { state: PieState::START, next_update: Instant::ZERO + with.update }
    }

    /// Performs the missed updates until `now`; the queue has held `backlog` bytes meanwhile.
    pub(super) fn advance(&mut self, with: &PieParameters, now: Instant, backlog: u32) {
        while self.next_update <= now {
            let before = self.state;
            self.state.update(with, backlog);
            self.next_update += with.update;
            if self.state == before && self.next_update <= now {
                // The remaining updates would change nothing, either.
                let missed = now.saturating_since(self.next_update).as_nanos() / with.update.as_nanos();
                self.next_update += with.update * (missed + 1);
            }
        }
    }

    /// Judges a packet that finds `backlog` bytes in the queue (section 4.1).
    pub(super) fn judge(
        &mut self,
        with: &PieParameters,
        backlog: u32,
        ecn: Ecn,
        stream: &mut RandomStream,
    ) -> PieVerdict {
        let state = &mut self.state;
        if !state.hits(with, backlog, stream) {
            return PieVerdict::Pass;
        }
        // Section 5.1: above a probability of a tenth it drops packets that it could mark.
        if with.ecn && state.probability <= ONE / 10 && ecn != Ecn::NotEct {
            return PieVerdict::Mark;
        }
        state.accumulated = 0;
        PieVerdict::Drop
    }

    /// A packet found no room.
    pub(super) fn overflow(&mut self) {
        self.state.accumulated = 0;
    }

    /// A packet that had waited since `since` has left `backlog` bytes in the queue.
    pub(super) fn departure(&mut self, now: Instant, since: Instant, backlog: u32) {
        let state = &mut self.state;
        state.delay = if backlog == 0 { 0 } else { units(now.saturating_since(since)) };
        let pause = state.departure.map_or(0, |before| units(now.saturating_since(before)));
        state.departure = Some(now);
        state.burst_allowance = state.burst_allowance.saturating_sub(pause);
    }
}

impl PieState {
    /// Draws whether a packet is dropped.
    fn hits(&mut self, with: &PieParameters, backlog: u32, stream: &mut RandomStream) -> bool {
        if self.burst_allowance > 0
            || (self.delay < with.target / 2 && self.probability < ONE / 5)
            || backlog < 2 * with.mtu
        {
            return false;
        }
        self.accumulated =
            if self.probability == 0 { 0 } else { self.accumulated.saturating_add(self.probability) };
        if self.accumulated < ONE / 100 * 85 {
            return false;
        }
        if self.accumulated >= ONE / 2 * 17 {
            return true;
        }
        let hit = stream.bits() >> 8 < self.probability;
        if hit {
            self.accumulated = 0;
        }
        hit
    }

    /// The next probability (section 4.2).
    fn update(&mut self, with: &PieParameters, backlog: u32) {
        let delta = self.change(with);
        let may_decay = self.delay > 0 || backlog == 0;
        let sum = i128::from(self.probability) + i128::from(delta);
        let overflows = sum > i128::from(u64::MAX);
        self.probability = if overflows { ONE } else { sum.max(0) as u64 };
        if self.delay == 0 && self.delay_before == 0 && may_decay && !overflows {
            self.probability -= self.probability / 64;
        }
        let is_low = |delay| delay < with.target / 2;
        let delay = self.delay;
        if is_low(delay) && is_low(self.delay_before) && self.probability == 0 {
            // Section 4.4: the next burst may pass. Measurements are kept.
            *self = Self { delay, ..Self::START };
        }
        self.delay_before = delay;
    }

    fn change(&self, with: &PieParameters) -> i64 {
        let scale = ONE / UNITS_PER_SECOND;
        let shift = self.caution();
        let gain = |sixteenths: u64| ((sixteenths * scale) >> 4 >> shift).cast_signed();
        let distance = |from: u64| self.delay.cast_signed() - from.cast_signed();
        let integral = gain(ALPHA).saturating_mul(distance(with.target));
        let delta = integral.saturating_add(gain(BETA).saturating_mul(distance(self.delay_before)));
        let two_percent = (ONE / 50).cast_signed();
        let delta = if self.probability >= ONE / 10 { delta.min(two_percent) } else { delta };
        if self.delay > DELAY_HIGH { delta.saturating_add(two_percent) } else { delta }
    }

    /// Number of bits by which alpha and beta are scaled down while the probability is small (section 4.2,
    /// `PIE->drop_prob_`), to avoid overshoot.
    fn caution(&self) -> u32 {
        if self.probability >= ONE / 10 {
            return 0;
        }
        let powers = [100, 1_000, 10_000, 100_000, 1_000_000];
        1 + 2 * powers.iter().take_while(|&&power| self.probability < ONE / power).count() as u32
    }
}

/// PIE for a queue with a limit.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    parameters: PieParameters,
    control: PieControl,
    queue: DropTail,
    stream: RandomStream,
}

impl Pie {
    pub(crate) fn new(config: PieConfig, outlet: Outlet, stream: RandomStream, queue: DropTail) -> Self {
        let parameters = PieParameters::new(config, outlet);
        Self { parameters, control: PieControl::new(&parameters), queue, stream }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        self.queue.room_needed()
    }
}

impl Discipline for Pie {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let Self { parameters, control, queue, stream } = self;
        let backlog = queue.depth().bytes;
        control.advance(parameters, packets.now, backlog);
        let packet = packets.arena.get(id);
        if queue.is_full(packet.ip_bytes) {
            control.overflow();
        } else {
            match control.judge(parameters, backlog, packet.ecn, stream) {
                PieVerdict::Pass => {}
                PieVerdict::Mark => packets.mark(id),
                PieVerdict::Drop => {
                    packets.discard(id, DropCause::Pie);
                    return None;
                }
            }
        }
        queue.enqueue(id, packets)
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let now = packets.now;
        Wait::unless_fits(self.room_needed(), room)?;
        self.control.advance(&self.parameters, now, self.queue.depth().bytes);
        let Waiting { id, ip_bytes, since } = self.queue.pop().ok_or(Wait::ARRIVAL)?;
        let depth = self.queue.depth();
        self.control.departure(now, since, depth.bytes);
        Ok(Dequeued { id, ip_bytes, depth })
    }

    fn depth(&self) -> QueueDepth {
        self.queue.depth()
    }
}
