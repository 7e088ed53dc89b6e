//! A policer: a token bucket in front of the queue, like `act_police` of Linux. A packet passes if the bucket
//! holds a token for each of its bits, and takes these; any other packet is dropped and takes none. That is
//! the single-rate meter of RFC 2697, section 3, colour-blind and with an excess burst of 0.

use lasthop_core::Instant;

use crate::config::PolicerConfig;

#[cfg(test)]
mod tests;

const NANOS: u64 = 1_000_000_000;

/// The bucket. Tokens are bits times 10⁹, so that a nanosecond adds a whole number of them.
#[derive(Clone, Debug)]
pub(crate) struct Policer {
    bits_per_second: u64,
    depth: u64,
    tokens: u64,
    filled_at: Instant,
}

impl Policer {
    /// A full bucket.
    pub(crate) fn new(config: PolicerConfig) -> Self {
        let depth = config.burst.0 * 8 * NANOS;
        let bits_per_second = config.rate.bits_per_second();
        Self { bits_per_second, depth, tokens: depth, filled_at: Instant::ZERO }
    }

    /// True if a packet of `ip_bytes` bytes that arrives at `now` passes.
    pub(crate) fn passes(&mut self, now: Instant, ip_bytes: u32) -> bool {
        let added = self.bits_per_second.saturating_mul(now.saturating_since(self.filled_at).as_nanos());
        self.tokens = self.tokens.saturating_add(added).min(self.depth);
        self.filled_at = now;
        let price = u64::from(ip_bytes) * 8 * NANOS;
        let left = self.tokens.checked_sub(price);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}
