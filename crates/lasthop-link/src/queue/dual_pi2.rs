//! `DualPI2`, the coupled dual queue of RFC 9332 (appendix A): a queue of low delay for packets that are
//! ECT(1) or CE, and one for all others. A PI controller sets a base probability p by the longer of the two
//! delays. Classic packets are dropped or marked with probability p squared. Low-latency packets are marked
//! with probability 2p, and also if they waited longer than a threshold.
//!
//! Where the RFC leaves a choice, this follows Linux' `sch_dualpi2` (6.17): gains of 41/256 and 819/256 Hz
//! (0.16 and 3.2 in the RFC); a step in place of a ramp for the low-latency queue; weighted turns between the
//! queues instead of a time shift, which give the classic queue at least a tenth of the bytes while both
//! queues wait; drops at the head, and none while fewer than two packets wait. A squared probability takes
//! two draws. Above p = 1/2, where all low-latency packets are marked, both queues drop with probability p
//! squared, regardless of ECN capability (section 2.5.1.1). Linux rounds the gains slightly differently.

use std::collections::VecDeque;

use lasthop_core::units::QueueSize;
use lasthop_core::{DropCause, Duration, Ecn, Instant, Observer, PacketId, QueueDepth, RandomStream};

use super::fifo::{Fifo, Total, Waiting};
use crate::config::DualPi2Config;
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

#[cfg(test)]
mod tests;

/// Probability 1.
const ONE: u64 = u32::MAX as u64;
/// Gains in 256ths of a Hz.
const ALPHA: i128 = 41;
const BETA: i128 = 819;
/// Coupling factor between the probabilities of low-latency and classic packets (section 2.1).
const COUPLING: u64 = 2;
/// Share of classic bytes, in percent, while both queues wait.
const CLASSIC_WEIGHT: i64 = 10;
const LOW_LATENCY_WEIGHT: i64 = 100 - CLASSIC_WEIGHT;

/// The controller of the base probability.
#[derive(Clone, Copy, Debug)]
struct Pi {
    target: Duration,
    interval: Duration,
    probability: u64,
    delay_before: Duration,
    next_update: Instant,
}

impl Pi {
    /// `dualpi2_update`.
    fn update(&mut self, delay: Duration) {
        let nanos = |duration: Duration| i128::from(duration.as_nanos());
        let distance = ALPHA * (nanos(delay) - nanos(self.target));
        let trend = BETA * (nanos(delay) - nanos(self.delay_before));
        let delta = (distance + trend) * i128::from(ONE) / (256 * 1_000_000_000);
        self.probability = (i128::from(self.probability) + delta).clamp(0, i128::from(ONE)) as u64;
        self.delay_before = delay;
    }

    fn rests(&self) -> bool {
        self.probability == 0 && self.delay_before.is_zero()
    }
}

/// The treatment of a packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadVerdict {
    Pass,
    Mark,
    Drop,
}

#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    limit: QueueSize,
    mtu: u32,
    step_threshold: Duration,
    min_qlen_step: u32,
    pi: Pi,
    classic: Fifo,
    low_latency: Fifo,
    /// For each packet in it: whether the threshold applies to it.
    steps: VecDeque<bool>,
    total: Total,
    /// If above zero, it is the turn of a classic packet.
    classic_credit: i64,
    stream: RandomStream,
}

impl DualPi2 {
    pub(crate) fn new(config: DualPi2Config, limit: QueueSize, outlet: Outlet, stream: RandomStream) -> Self {
        let DualPi2Config { target, tupdate, step_threshold, min_qlen_step } = config;
        let pi = Pi {
            target,
            interval: tupdate,
            probability: 0,
            delay_before: Duration::ZERO,
            next_update: Instant::ZERO + tupdate,
        };
        let mtu = outlet.mtu.0 as u32;
        Self {
            limit,
            mtu,
            step_threshold,
            min_qlen_step,
            pi,
            classic: Fifo::default(),
            low_latency: Fifo::default(),
            steps: VecDeque::new(),
            total: Total::default(),
            classic_credit: first_credit(mtu),
            stream,
        }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        (self.total.depth().packets > 0).then_some(self.mtu)
    }

    /// Performs the missed updates until `now`; no packet has arrived or left meanwhile.
    fn advance(&mut self, now: Instant) {
        while self.pi.next_update <= now {
            let at = self.pi.next_update;
            let heads = [self.classic.front(), self.low_latency.front()].into_iter().flatten();
            let delays = heads.map(|head| at.saturating_since(head.since));
            self.pi.update(delays.max().unwrap_or_default());
            self.pi.next_update += self.pi.interval;
            if self.total.depth().packets == 0 && self.pi.rests() && self.pi.next_update <= now {
                // The remaining updates would change nothing, either.
                let missed =
                    now.saturating_since(self.pi.next_update).as_nanos() / self.pi.interval.as_nanos();
                self.pi.next_update += self.pi.interval * (missed + 1);
            }
        }
    }

    /// Removes the packet whose turn it is. Returns the packet, whether it is a low-latency packet, and the
    /// change of the credit if it is sent (`dequeue_packet` of Linux).
    fn take(&mut self) -> Option<(Waiting, bool, i64)> {
        let both_wait = self.classic.packets() > 0 && self.low_latency.packets() > 0;
        let is_low_latency = self.classic.packets() == 0 || (both_wait && self.classic_credit <= 0);
        let queue = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
        let packet = queue.pop()?;
        let weight = if is_low_latency { CLASSIC_WEIGHT } else { -LOW_LATENCY_WEIGHT };
        Some((packet, is_low_latency, if both_wait { weight * i64::from(packet.ip_bytes) } else { 0 }))
    }

    /// Whether the packet just removed waited longer than the threshold, and the threshold applies to it.
    fn passes_step(&mut self, is_low_latency: bool, sojourn: Duration) -> bool {
        is_low_latency && self.steps.pop_front().unwrap_or(true) && sojourn > self.step_threshold
    }

    /// `dualpi2_dequeue`: the treatment of a packet that leaves `backlog` bytes in the queue.
    fn judge(&mut self, is_low_latency: bool, ecn: Ecn, sojourn: Duration, backlog: u32) -> HeadVerdict {
        let steps = self.passes_step(is_low_latency, sojourn);
        let verdict = if backlog < 2 * self.mtu {
            HeadVerdict::Pass
        } else if is_low_latency {
            self.judge_low_latency()
        } else {
            self.judge_classic(ecn)
        };
        if verdict == HeadVerdict::Pass && steps { HeadVerdict::Mark } else { verdict }
    }

    fn judge_classic(&mut self, ecn: Ecn) -> HeadVerdict {
        if !self.hits_squared() {
            HeadVerdict::Pass
        } else if self.is_overloaded() || ecn == Ecn::NotEct {
            HeadVerdict::Drop
        } else {
            HeadVerdict::Mark
        }
    }

    fn judge_low_latency(&mut self) -> HeadVerdict {
        if self.is_overloaded() {
            return if self.hits_squared() { HeadVerdict::Drop } else { HeadVerdict::Mark };
        }
        if self.hits(self.pi.probability * COUPLING) { HeadVerdict::Mark } else { HeadVerdict::Pass }
    }

    /// The probability of marking low-latency packets would exceed 1.
    fn is_overloaded(&self) -> bool {
        self.pi.probability * COUPLING > ONE
    }

    fn hits_squared(&mut self) -> bool {
        self.hits(self.pi.probability) && self.hits(self.pi.probability)
    }

    fn hits(&mut self, probability: u64) -> bool {
        self.stream.bits() >> 32 < probability
    }
}

/// A low-latency packet goes first.
fn first_credit(mtu: u32) -> i64 {
    i64::from(mtu) * (CLASSIC_WEIGHT - LOW_LATENCY_WEIGHT)
}

impl Discipline for DualPi2 {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let now = packets.now;
        self.advance(now);
        let packet = packets.arena.get(id);
        let ip_bytes = packet.ip_bytes;
        if self.total.depth().is_full(self.limit, ip_bytes) {
            packets.discard(id, DropCause::QueueOverflow);
            return None;
        }
        // The classifier of RFC 9331, section 5.1.
        let is_low_latency = matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        if is_low_latency {
            // `skb_apply_step`: decided when the packet arrives.
            self.steps.push_back(self.low_latency.packets() >= self.min_qlen_step);
        }
        let queue = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
        queue.push(Waiting { id, ip_bytes, since: now });
        self.total.add(ip_bytes);
        Some(self.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let now = packets.now;
        self.advance(now);
        if self.total.depth().packets > 0 {
            Wait::unless_fits(self.room_needed(), room)?;
        }
        while let Some((Waiting { id, ip_bytes, since }, is_low_latency, credit)) = self.take() {
            self.total.take(ip_bytes);
            let ecn = packets.arena.get(id).ecn;
            let backlog = self.total.depth().bytes;
            match self.judge(is_low_latency, ecn, now.saturating_since(since), backlog) {
                HeadVerdict::Drop => {
                    packets.discard(id, DropCause::DualPi2);
                    continue;
                }
                HeadVerdict::Mark if ecn != Ecn::Ce => packets.mark(id),
                HeadVerdict::Mark | HeadVerdict::Pass => {}
            }
            self.classic_credit += credit;
            return Ok(Dequeued { id, ip_bytes, depth: self.depth() });
        }
        self.classic_credit = first_credit(self.mtu);
        Err(Wait::ARRIVAL)
    }

    fn depth(&self) -> QueueDepth {
        self.total.depth()
    }
}
