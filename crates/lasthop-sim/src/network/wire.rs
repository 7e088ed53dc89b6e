//! A wire: a rate, a delay, no queue limit. The fast network between a host and the router is one.

use std::collections::VecDeque;

use lasthop_core::{Duration, Instant, PacketId, Rate, Transmission};

/// One direction of a wire.
#[derive(Debug)]
pub struct Wire {
    /// Its rate; without one, transmission takes no time.
    transmission: Option<Transmission>,
    delay: Duration,
    free_at: Instant,
    /// The next packet to arrive, and when.
    next: Option<(Instant, PacketId)>,
    /// The packets after it; usually empty.
    behind: VecDeque<(Instant, PacketId)>,
}

impl Wire {
    /// An idle wire; without a rate, transmission takes no time.
    pub fn new(rate: Option<Rate>, delay: Duration) -> Self {
        let transmission = rate.map(Transmission::at);
        Self { transmission, delay, free_at: Instant::ZERO, next: None, behind: VecDeque::new() }
    }

    /// Takes a packet of `ip_bytes` bytes that a host sends at `now`.
    pub fn send(&mut self, now: Instant, id: PacketId, ip_bytes: u32) {
        let length =
            self.transmission.as_mut().map_or(Duration::ZERO, |transmission| transmission.time(ip_bytes));
        self.free_at = self.free_at.max(now) + length;
        let packet = (self.free_at + self.delay, id);
        if self.next.is_none() {
            self.next = Some(packet);
        } else {
            self.behind.push_back(packet);
        }
    }

    /// When the next packet arrives; `Instant::MAX` if none is in flight.
    #[inline]
    pub fn next_wakeup(&self) -> Instant {
        self.next.map_or(Instant::MAX, |(arrival, _)| arrival)
    }

    /// The next packet that has arrived by `now`.
    #[inline]
    pub fn poll_arrival(&mut self, now: Instant) -> Option<PacketId> {
        let (_, id) = self.next.filter(|&(arrival, _)| arrival <= now)?;
        self.next = self.behind.pop_front();
        Some(id)
    }
}
