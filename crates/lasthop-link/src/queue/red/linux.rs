//! RED of Linux in a class of HTB (`sch_red`, `red.h`): bytes in fixed point, and the paper's method 2 with
//! one draw for each drop or mark.
//!
//! Idle time has no effect: `htb_dequeue_tree` never dequeues from a class without packets, and only an
//! unsuccessful `red_dequeue` begins an idle period. A packet that finds the queue empty is one sample of
//! zero.

use lasthop_core::{Duration, Ecn, Instant, QueueDepth, RandomStream};

use super::{Judge, Verdict};
use crate::config::LinuxRed;

#[cfg(test)]
mod tests;

/// `RED_ONE_PERCENT` of a 32-bit probability.
const PERCENT: u32 = ((1 << 32) / 100_u64) as u32 + 1;
/// `HZ / 2` ticks of 250 Hz, rounded up to the timer wheel's slots of eight.
const ADAPTATION: Duration = Duration::from_millis(512);

/// The average, and the gap since the last drop or mark.
#[derive(Clone, Debug)]
pub(crate) struct FixedPointRed {
    min: u64,
    max: u64,
    /// Bits of the fraction of the average, and the weight of a sample as a power of one half.
    log: u8,
    max_probability: u32,
    ecn: bool,
    harddrop: bool,
    /// When the probability may be adapted; `Instant::MAX` if it is fixed.
    next_adaptation: Instant,
    average: u64,
    /// Number of packets since the last drop or mark; -1 outside of the thresholds.
    count: i64,
    /// A packet is dropped or marked once its number times the average's excess over `min` reaches this.
    goal: u64,
    stream: RandomStream,
}

impl FixedPointRed {
    pub(crate) fn new(config: LinuxRed, stream: RandomStream) -> Self {
        let LinuxRed { min, max, max_probability, weight_log, ecn, harddrop, adaptive } = config;
        Self {
            min: u64::from(min),
            max: u64::from(max),
            log: weight_log,
            max_probability: max_probability.share_of_u32(),
            ecn,
            harddrop,
            next_adaptation: if adaptive { Instant::ZERO + ADAPTATION } else { Instant::MAX },
            average: 0,
            count: -1,
            goal: 0,
            stream,
        }
    }

    fn marks(&self, ecn: Ecn) -> bool {
        self.ecn && ecn != Ecn::NotEct
    }

    /// The average in whole bytes.
    fn bytes(&self) -> u64 {
        self.average >> self.log
    }

    /// `red_random`: uniform up to the range between the thresholds over the probability.
    fn draw(&mut self) {
        let per_byte = (u64::from(self.max_probability) / (self.max - self.min)).max(1);
        self.goal = (self.stream.bits() >> 32) / per_byte;
    }

    /// `red_adaptative_algo`, for every period until `now`.
    fn adapt(&mut self, now: Instant) {
        while self.next_adaptation <= now {
            let before = self.max_probability;
            let range = self.max - self.min;
            if self.bytes() > self.min + 3 * range / 5 && before <= 50 * PERCENT {
                self.max_probability += PERCENT.min(before / 4);
            } else if self.bytes() < self.min + 2 * range / 5 && before >= PERCENT {
                self.max_probability = before / 10 * 9;
            }
            // Without an arrival the average is constant: if this step did not adapt the probability, later
            // ones will not.
            let left = now.saturating_since(self.next_adaptation).as_nanos() / ADAPTATION.as_nanos();
            let settled = self.max_probability == before;
            self.next_adaptation += ADAPTATION * if settled { left + 1 } else { 1 };
        }
    }
}

impl Judge for FixedPointRed {
    fn judge(&mut self, now: Instant, queue: QueueDepth, ecn: Ecn) -> Verdict {
        self.adapt(now);
        self.average = self.average - self.bytes() + u64::from(queue.bytes);
        if self.average < self.min << self.log {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.average >= self.max << self.log {
            self.count = -1;
            return if self.marks(ecn) && !self.harddrop { Verdict::Mark } else { Verdict::Drop };
        }
        self.count += 1;
        let excess = (self.average - (self.min << self.log)) >> self.log;
        let hits = self.count > 0 && excess * self.count.cast_unsigned() >= self.goal;
        if hits {
            self.count = 0;
        }
        if self.count == 0 {
            self.draw();
        }
        match (hits, self.marks(ecn)) {
            (false, _) => Verdict::Pass,
            (true, true) => Verdict::Mark,
            (true, false) => Verdict::Drop,
        }
    }

    fn queue_emptied(&mut self, _: Instant) {}

    fn average(&self) -> f64 {
        self.average as f64 / f64::from(1_u32 << self.log)
    }
}
