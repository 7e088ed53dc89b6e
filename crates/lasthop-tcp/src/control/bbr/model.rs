//! What is known of the path: its bandwidth, and its shortest round-trip time.

use super::BANDWIDTH_ROUNDS;
use crate::common::Maximum;
use crate::control::DeliveryRate;

/// A segment per microsecond. Bandwidths are counted in parts of it, about 0.06 segments per second each.
pub(super) const BANDWIDTH_ONE: u64 = 1 << BANDWIDTH_SHIFT;
pub(super) const BANDWIDTH_SHIFT: u32 = 24;

/// The model, and the round trips it counts by what has arrived.
#[derive(Clone, Debug)]
pub(super) struct Model {
    greatest: Maximum,
    rounds: u64,
    /// A round trip ends when a segment arrives that was sent after so many had.
    round_end: u64,
    /// This ACK has ended one.
    pub is_round_start: bool,
    pub min_rtt_us: Option<u64>,
}

impl Default for Model {
    fn default() -> Self {
        Self::new(0, None)
    }
}

impl Model {
    pub fn new(delivered: u64, min_rtt_us: Option<u64>) -> Self {
        Self { greatest: Maximum::new(0), rounds: 0, round_end: delivered, is_round_start: false, min_rtt_us }
    }

    /// The greatest of the latest round trips.
    pub fn bandwidth(&self) -> u64 {
        self.greatest.get()
    }

    /// A round trip begins now.
    pub fn begin_round(&mut self, delivered: u64) {
        self.round_end = delivered;
    }

    /// Returns true if this sample ends a round trip.
    pub fn count_round(&mut self, rate: &DeliveryRate, delivered: u64) -> bool {
        self.is_round_start = rate.prior_delivered >= self.round_end;
        if self.is_round_start {
            self.round_end = delivered;
            self.rounds += 1;
        }
        self.is_round_start
    }

    /// A sample of a sender with too little to send counts only if it is no less than what is known.
    pub fn take_bandwidth(&mut self, rate: &DeliveryRate) {
        // No time at all: the greatest number that Linux' division leaves is a microsecond's.
        let sample = rate.delivered * BANDWIDTH_ONE / rate.interval_us.max(1);
        if !rate.is_app_limited || sample >= self.bandwidth() {
            self.greatest.take(BANDWIDTH_ROUNDS, self.rounds, sample);
        }
    }
}
