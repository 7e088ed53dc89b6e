//! Bandwidths as BBR counts them, and the round trips that it tells apart by what has arrived (Linux: `tcp_bbr.c`).

use super::DeliveryRate;

/// A segment per microsecond. Bandwidths are counted in parts of it, about 0.06 segments per second each.
pub(super) const BANDWIDTH_ONE: u64 = 1 << BANDWIDTH_SHIFT;
pub(super) const BANDWIDTH_SHIFT: u32 = 24;

/// Bytes per second to pace at for a bandwidth in bytes: 1 % less, so that queues drain rather than grow.
pub(super) fn pacing_rate(bandwidth: u64) -> u64 {
    (bandwidth * (1_000_000 / 100 * 99)) >> BANDWIDTH_SHIFT
}

impl DeliveryRate {
    /// No time at all counts as a microsecond: that is the greatest number that Linux' division leaves.
    pub(super) fn bandwidth(&self) -> u64 {
        self.delivered * BANDWIDTH_ONE / self.interval_us.max(1)
    }
}

/// A round trip. It ends when a segment arrives that was sent after so many had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end: u64,
    /// The latest ACK began one.
    pub is_start: bool,
}

impl Round {
    /// One begins now that so many segments have arrived.
    pub fn begin(&mut self, delivered: u64) {
        self.end = delivered;
    }

    /// Returns true if this sample ends a round trip.
    pub fn take(&mut self, rate: &DeliveryRate, delivered: u64) -> bool {
        self.is_start = rate.prior_delivered >= self.end;
        if self.is_start {
            self.end = delivered;
        }
        self.is_start
    }
}
