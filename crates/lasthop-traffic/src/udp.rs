//! A constant-bit-rate UDP source.

use lasthop_core::{Bytes, Datagram, Duration, Faults, Instant};

use crate::{ConstantUdpConfig, TRANSFER_MAX};

#[cfg(test)]
mod tests;

/// Sends one datagram every interval; the payload rate sets the interval.
#[derive(Clone, Debug)]
pub struct ConstantUdp {
    next: Instant,
    end: Instant,
    interval: Duration,
    number: u64,
    payload_bytes: u32,
}

impl ConstantUdpConfig {
    /// Time between two datagrams; it must not be zero.
    pub fn interval(&self) -> Duration {
        self.rate.transmission_time(self.payload.0 as u32)
    }

    /// Payload of all datagrams together, in bytes; `u64::MAX` if it is more.
    pub fn total_bytes(&self) -> u64 {
        let datagrams = self.duration.as_nanos().div_ceil(self.interval().as_nanos());
        datagrams.saturating_mul(self.payload.0)
    }

    pub(crate) fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let room = mtu.0 - u64::from(Datagram::HEADER_BYTES);
        let payload = self.payload.0;
        let fits = (1..=room).contains(&payload);
        faults.require(fits, "payload", || {
            format!(
                "a datagram of {payload} bytes of payload does not fit mtu = \"{mtu}\"; \
                 write from \"1 B\" to \"{room} B\""
            )
        });
        if fits {
            self.check_rate(faults);
        }
        faults.not_zero(&self.duration, "duration", "60 s");
    }

    /// Finds a rate at which datagrams take no time, or too many are sent.
    fn check_rate(&self, faults: &mut Faults) {
        let Self { rate, payload, duration, .. } = self;
        let takes_time = !self.interval().is_zero();
        faults.require(takes_time, "rate", || {
            format!(
                "at \"{rate}\" datagrams of {} bytes of payload follow each other without any time between; lower it",
                payload.0
            )
        });
        faults.require(!takes_time || self.total_bytes() <= TRANSFER_MAX.0, "duration", || {
            format!("\"{duration}\" at \"{rate}\" makes more than \"{TRANSFER_MAX}\"; shorten it, or lower the rate")
        });
    }
}

impl ConstantUdp {
    /// A source whose first datagram leaves at `start`.
    pub fn new(config: &ConstantUdpConfig, start: Instant) -> Self {
        Self {
            next: start,
            end: start + config.duration,
            interval: config.interval(),
            number: 0,
            payload_bytes: config.payload.0 as u32,
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
