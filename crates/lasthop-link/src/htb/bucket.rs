//! A token bucket. Tokens are nanoseconds, the time that a packet takes at the bucket's rate.

use lasthop_core::{Duration, Instant, Rate, Transmission};

/// Deepest debt of a bucket, and the longest pause that fills it, in nanoseconds (`mbuffer`).
const DEBT_MAX: i64 = 60_000_000_000;

/// A token bucket with the time at which it was last charged.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    transmission: Transmission,
    depth: i64,
    tokens: i64,
}

impl Bucket {
    pub(super) fn full(rate: Rate, burst_bytes: u64) -> Self {
        let depth = rate.transmission_time(burst_bytes as u32).as_nanos().cast_signed();
        Self { transmission: Transmission::at(rate), depth, tokens: depth }
    }

    /// When it will be out of debt, if it was last charged at `charged`.
    pub(super) fn ready(&self, charged: Instant) -> Instant {
        charged + Duration::from_nanos((-self.tokens).max(0) as u64)
    }

    /// `pause` nanoseconds after the last time.
    pub(super) fn charge(&mut self, pause: i64, length: u32) {
        let price = self.transmission.time(length).as_nanos().cast_signed();
        self.tokens = ((self.tokens + pause).min(self.depth) - price).max(1 - DEBT_MAX);
    }

    /// The same without a charge.
    pub(super) fn lend(&mut self, pause: i64) {
        self.tokens += pause;
    }
}

/// Nanoseconds from `charged` to `now`, up to the maximum that counts.
pub(super) fn pause(charged: Instant, now: Instant) -> i64 {
    i64::try_from(now.saturating_since(charged).as_nanos()).map_or(DEBT_MAX, |nanos| nanos.min(DEBT_MAX))
}
