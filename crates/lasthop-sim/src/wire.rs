//! A wire: a rate, a delay, no queue limit. The fast network between a host and the router is one.

use std::collections::VecDeque;

use lasthop_core::{Duration, Instant, PacketId, Rate, Transmission};

/// One direction of a wire.
#[derive(Debug)]
pub struct Wire {
    /// Without one, packets take no time.
    transmission: Option<Transmission>,
    delay: Duration,
    free_at: Instant,
    in_flight: VecDeque<(Instant, PacketId)>,
}

impl Wire {
    /// An idle wire; without a rate, packets take no time.
    pub fn new(rate: Option<Rate>, delay: Duration) -> Self {
        let transmission = rate.map(Transmission::at);
        Self { transmission, delay, free_at: Instant::ZERO, in_flight: VecDeque::new() }
    }

    /// Takes a packet of `ip_bytes` bytes that a host sends at `now`.
    pub fn send(&mut self, now: Instant, id: PacketId, ip_bytes: u32) {
        let length =
            self.transmission.as_mut().map_or(Duration::ZERO, |transmission| transmission.time(ip_bytes));
        self.free_at = self.free_at.max(now) + length;
        self.in_flight.push_back((self.free_at + self.delay, id));
    }

    /// When the next packet arrives.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.in_flight.front().map(|&(arrival, _)| arrival)
    }

    /// The next packet that has arrived by `now`.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<PacketId> {
        let &(arrival, id) = self.in_flight.front()?;
        if arrival > now {
            return None;
        }
        self.in_flight.pop_front();
        Some(id)
    }
}
