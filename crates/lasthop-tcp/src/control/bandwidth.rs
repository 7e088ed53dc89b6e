//! Bandwidths in BBR's units, and round trips counted by arrivals (Linux: `tcp_bbr.c`).

use super::DeliveryRate;

/// One segment per microsecond. Bandwidths are counted in fractions of it, each about 0.06 segments per
/// second.
pub(super) const BANDWIDTH_ONE: u64 = 1 << BANDWIDTH_SHIFT;
pub(super) const BANDWIDTH_SHIFT: u32 = 24;

/// Bytes per second to pace at for a bandwidth in bytes: 1 % less, so that queues drain rather than grow.
pub(super) fn pacing_rate(bandwidth: u64) -> u64 {
    (bandwidth * (1_000_000 / 100 * 99)) >> BANDWIDTH_SHIFT
}

impl DeliveryRate {
    /// A time of zero counts as a microsecond, which gives the greatest result of Linux' division.
    pub(super) fn bandwidth(&self) -> u64 {
        self.delivered * BANDWIDTH_ONE / self.interval_us.max(1)
    }
}

/// A round trip. It ends when a segment arrives that was sent after this number of segments had arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    end: u64,
    /// True if the latest ACK began a round trip.
    pub is_start: bool,
}

impl Round {
    /// Starts a round trip, after this number of segments have arrived.
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
