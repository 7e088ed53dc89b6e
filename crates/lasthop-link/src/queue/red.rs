//! Random early detection by Floyd and Jacobson ("Random Early Detection Gateways for Congestion Avoidance",
//! IEEE/ACM Transactions on Networking 1(4), 1993, figure 2), with the marks of RFC 3168.
//!
//! Gentle RED adds a ramp above the upper threshold (Floyd 2000), adaptive RED moves the probability (Floyd,
//! Gummadi and Shenker 2001).
//!
//! Not modelled: the paper's byte-weighted probability. With thresholds in bytes the average counts bytes,
//! but a short packet is as likely to be dropped or marked as a long one. `linux` is the RED of Linux.

use lasthop_core::units::QueueSize;
use lasthop_core::{DropCause, Duration, Ecn, Instant, Observer, PacketId, QueueDepth, RandomStream};

use super::drop_tail::DropTail;
use crate::config::RedConfig;
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

pub(super) mod linux;
#[cfg(test)]
mod tests;

/// Adaptive RED's parameters (section 3.3 of the paper, table 1; Linux' `red_adaptative_algo`): twice a
/// second it checks whether the average is in the middle fifth of the range.
const ADAPTATION: Duration = Duration::from_millis(500);
const TARGET: (f64, f64) = (0.4, 0.6);
const INCREMENT_MAX: f64 = 0.01;
const DECREASE: f64 = 0.9;
const PROBABILITIES: (f64, f64) = (0.01, 0.5);

/// RED's verdict on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// An average of the queue, and the state that depends on it.
pub(crate) trait Judge {
    /// Judges an arriving packet; `queue` is without it.
    fn judge(&mut self, now: Instant, queue: QueueDepth, ecn: Ecn) -> Verdict;

    /// The queue's last packet left.
    fn queue_emptied(&mut self, now: Instant);

    /// The average queue in the unit of the thresholds.
    fn average(&self) -> f64;
}

/// RED in front of a queue with a limit.
#[derive(Clone, Debug)]
pub(crate) struct RedQueue<R> {
    red: R,
    queue: DropTail,
}

impl<R> RedQueue<R> {
    pub(crate) fn new(red: R, queue: DropTail) -> Self {
        Self { red, queue }
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        self.queue.room_needed()
    }
}

impl<R: Judge> Discipline for RedQueue<R> {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        match self.red.judge(packets.now, self.queue.depth(), packets.arena.get(id).ecn) {
            Verdict::Pass => {}
            Verdict::Mark => packets.mark(id),
            Verdict::Drop => {
                packets.discard(id, DropCause::Red);
                return None;
            }
        }
        let depth = self.queue.enqueue(id, packets)?;
        Some(QueueDepth { average: self.red.average(), ..depth })
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let mut dequeued = self.queue.dequeue(room, packets)?;
        if dequeued.depth.packets == 0 {
            self.red.queue_emptied(packets.now);
        }
        dequeued.depth.average = self.red.average();
        Ok(dequeued)
    }

    fn depth(&self) -> QueueDepth {
        QueueDepth { average: self.red.average(), ..self.queue.depth() }
    }
}

/// The average queue and the count since the last hit. Thresholds and the average share one unit.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    min: f64,
    max: f64,
    in_bytes: bool,
    max_probability: f64,
    weight: f64,
    idle_packet_time: Duration,
    /// The average below which ECN-capable packets are marked.
    marked_below: f64,
    gentle: bool,
    /// The next check of an adaptive RED; `Instant::MAX` for others.
    next_adaptation: Instant,
    average: f64,
    /// Number of packets since the last drop or mark while the average was between the thresholds; -1 outside
    /// of them.
    count: i64,
    /// Idle time before this instant is already in the average.
    idle_from: Instant,
    stream: RandomStream,
}

impl Red {
    pub(crate) fn new(config: &RedConfig, outlet: Outlet, stream: RandomStream) -> Self {
        let ((min, in_bytes), (max, _)) = (threshold(config.min), threshold(config.max));
        let typical = config.avpkt.map(|length| outlet.transmission_time(length.0 as u32));
        Self {
            min,
            max,
            in_bytes,
            max_probability: config.max_probability.get(),
            weight: config.weight.get(),
            idle_packet_time: config.idle_packet_time.or(typical).unwrap_or_default(),
            marked_below: match (config.ecn, config.harddrop) {
                (false, _) => 0.0,
                (true, true) => max,
                (true, false) => f64::INFINITY,
            },
            gentle: config.gentle,
            next_adaptation: if config.adaptive { Instant::ZERO + ADAPTATION } else { Instant::MAX },
            average: 0.0,
            count: -1,
            idle_from: Instant::ZERO,
            stream,
        }
    }

    /// The average from which everything is dropped or marked.
    fn top(&self) -> f64 {
        if self.gentle { 2.0 * self.max } else { self.max }
    }

    /// Adapts the probability for each half second until `now`; `is_idle` is true if the queue was idle
    /// all that time.
    fn adapt(&mut self, now: Instant, is_idle: bool) {
        while self.next_adaptation <= now {
            let at = self.next_adaptation;
            let average = self.average * if is_idle { self.decay(at) } else { 1.0 };
            let place = (average - self.min) / (self.max - self.min);
            let probability = self.max_probability;
            if place > TARGET.1 && probability <= PROBABILITIES.1 {
                self.max_probability += INCREMENT_MAX.min(probability / 4.0);
            } else if place < TARGET.0 && probability >= PROBABILITIES.0 {
                self.max_probability *= DECREASE;
            } else if is_idle && place < TARGET.0 {
                // The average only falls.
                let missed = now.saturating_since(at).as_nanos() / ADAPTATION.as_nanos();
                self.next_adaptation += ADAPTATION * missed;
            }
            self.next_adaptation += ADAPTATION;
        }
    }

    /// The decayed average of a queue that has been idle until `at`: `f(time - q_time)` packets could have
    /// left, a real number.
    fn decay(&self, at: Instant) -> f64 {
        let idle = at.saturating_since(self.idle_from);
        let departures = idle.as_secs_f64() / self.idle_packet_time.as_secs_f64();
        libm::pow(1.0 - self.weight, departures)
    }

    fn update_average(&mut self, now: Instant, queue: QueueDepth) {
        if queue.packets == 0 {
            self.average *= self.decay(now);
            // A packet that passes directly leaves the queue empty: idle time must not count twice.
            self.idle_from = now;
        } else {
            let length = f64::from(if self.in_bytes { queue.bytes } else { queue.packets });
            self.average += self.weight * (length - self.average);
        }
    }

    /// RFC 3168, section 5: only ECN-capable transports are marked; CE is one of their codepoints. Section 7:
    /// above the upper threshold packets are dropped.
    fn hit(&self, ecn: Ecn) -> Verdict {
        let is_marked = ecn != Ecn::NotEct && self.average < self.marked_below;
        if is_marked { Verdict::Mark } else { Verdict::Drop }
    }

    /// `p_a = p_b / (1 - count p_b)`: drops and marks are evenly spread rather than clustered.
    fn probability(&self) -> f64 {
        let p_b = if self.average < self.max {
            self.max_probability * (self.average - self.min) / (self.max - self.min)
        } else {
            self.max_probability + (1.0 - self.max_probability) * (self.average - self.max) / self.max
        };
        let rest = 1.0 - self.count as f64 * p_b;
        if rest > 0.0 { p_b / rest } else { 1.0 }
    }
}

impl Judge for Red {
    fn judge(&mut self, now: Instant, queue: QueueDepth, ecn: Ecn) -> Verdict {
        self.adapt(now, queue.packets == 0);
        self.update_average(now, queue);
        if self.average < self.min {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.average >= self.top() {
            self.count = 0;
            return self.hit(ecn);
        }
        self.count += 1;
        if self.stream.unit() >= self.probability() {
            return Verdict::Pass;
        }
        self.count = 0;
        self.hit(ecn)
    }

    fn queue_emptied(&mut self, now: Instant) {
        self.idle_from = now;
    }

    fn average(&self) -> f64 {
        self.average
    }
}

fn threshold(size: QueueSize) -> (f64, bool) {
    match size {
        QueueSize::Packets(packets) => (f64::from(packets), false),
        QueueSize::Bytes(bytes) => (f64::from(bytes), true),
    }
}
