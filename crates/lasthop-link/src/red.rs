//! Random early detection as Floyd and Jacobson wrote it ("Random Early Detection Gateways for
//! Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993, figure 2), with the marks of
//! RFC 3168.
//!
//! Not modelled: the "gentle" ramp above the upper threshold, and the paper's byte-weighted probability.
//! With thresholds in bytes the average counts bytes, but a short packet is as likely to be hit as a
//! long one.

use lasthop_core::units::QueueSize;
use lasthop_core::{Duration, Ecn, Instant, RandomStream, Rate};

use crate::config::RedConfig;

#[cfg(test)]
mod tests;

/// What RED says about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
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
    ecn: bool,
    average: f64,
    /// Packets since the last hit while the average was between the thresholds; -1 outside of them.
    count: i64,
    /// Idle time before this instant is already in the average.
    idle_from: Instant,
    stream: RandomStream,
}

impl Red {
    /// `rate` is the link's.
    pub(crate) fn new(config: &RedConfig, rate: Rate, stream: RandomStream) -> Self {
        let (min, in_bytes) = threshold(config.min);
        Self {
            min,
            max: threshold(config.max).0,
            in_bytes,
            max_probability: config.max_probability.get(),
            weight: config.weight.get(),
            idle_packet_time: config.idle_packet_time(rate),
            ecn: config.ecn,
            average: 0.0,
            count: -1,
            idle_from: Instant::ZERO,
            stream,
        }
    }

    /// The average queue in RED's unit.
    pub(crate) fn average(&self) -> f64 {
        self.average
    }

    /// The queue's last packet left.
    pub(crate) fn queue_emptied(&mut self, now: Instant) {
        self.idle_from = now;
    }

    /// Judges an arriving packet; `packets` and `bytes` are the queue without it.
    pub(crate) fn judge(&mut self, now: Instant, packets: u32, bytes: u32, ecn: Ecn) -> Verdict {
        self.update_average(now, packets, bytes);
        if self.average < self.min {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.average >= self.max {
            self.count = 0;
            return Verdict::Drop;
        }
        self.count += 1;
        if self.stream.unit() >= self.probability() {
            return Verdict::Pass;
        }
        self.count = 0;
        // RFC 3168, section 5: only ECN-capable transports are marked; CE is one of their codepoints.
        if self.ecn && ecn != Ecn::NotEct { Verdict::Mark } else { Verdict::Drop }
    }

    fn update_average(&mut self, now: Instant, packets: u32, bytes: u32) {
        if packets == 0 {
            // m = f(time - q_time) packets could have left; m stays a real number.
            let idle = now.saturating_since(self.idle_from);
            let departures = idle.as_secs_f64() / self.idle_packet_time.as_secs_f64();
            self.average *= libm::pow(1.0 - self.weight, departures);
            // A packet that passes straight through leaves the queue empty: count no idle time twice.
            self.idle_from = now;
        } else {
            let length = f64::from(if self.in_bytes { bytes } else { packets });
            self.average += self.weight * (length - self.average);
        }
    }

    /// `p_a = p_b / (1 - count p_b)`: hits come evenly spread rather than in clusters.
    fn probability(&self) -> f64 {
        let p_b = self.max_probability * (self.average - self.min) / (self.max - self.min);
        let rest = 1.0 - self.count as f64 * p_b;
        if rest > 0.0 { p_b / rest } else { 1.0 }
    }
}

fn threshold(size: QueueSize) -> (f64, bool) {
    match size {
        QueueSize::Packets(packets) => (f64::from(packets), false),
        QueueSize::Bytes(bytes) => (f64::from(bytes), true),
    }
}
