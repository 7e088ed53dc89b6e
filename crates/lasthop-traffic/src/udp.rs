//! A constant-bit-rate UDP source.

use lasthop_core::{Datagram, Duration, Instant};

use crate::ConstantUdpConfig;

/// Sends one datagram every interval; the payload rate sets the interval.
#[derive(Clone, Debug)]
pub struct ConstantUdp {
    next: Instant,
    end: Instant,
    interval: Duration,
    number: u64,
    payload_bytes: u32,
}

impl ConstantUdp {
    /// A source whose first datagram leaves at `start`.
    pub fn new(config: &ConstantUdpConfig, start: Instant) -> Self {
        let payload_bytes = config.payload.0 as u32;
        Self {
            next: start,
            end: start + config.duration,
            interval: config.rate.transmission_time(payload_bytes),
            number: 0,
            payload_bytes,
        }
    }

    /// When the next datagram leaves, if there is one.
    pub fn next_wakeup(&self) -> Option<Instant> {
        (self.next < self.end).then_some(self.next)
    }

    /// The datagram that is due at `now`, if any.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if self.next > now || self.next >= self.end {
            return None;
        }
        let datagram = Datagram { number: self.number, payload_bytes: self.payload_bytes };
        self.number += 1;
        self.next += self.interval;
        Some(datagram)
    }
}
