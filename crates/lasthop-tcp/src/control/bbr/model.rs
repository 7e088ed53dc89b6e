//! The model of the path: its bandwidth, and its shortest round-trip time.

use super::BANDWIDTH_ROUNDS;
use crate::common::Maximum;
use crate::control::DeliveryRate;
use crate::control::bandwidth::Round;

/// The model, and the round trips that it counts by arrivals.
#[derive(Clone, Debug)]
pub(super) struct Model {
    greatest: Maximum,
    rounds: u64,
    pub round: Round,
    pub min_rtt_us: Option<u64>,
}

impl Default for Model {
    fn default() -> Self {
        Self::new(0, None)
    }
}

impl Model {
    pub fn new(delivered: u64, min_rtt_us: Option<u64>) -> Self {
        let mut round = Round::default();
        round.begin(delivered);
        Self { greatest: Maximum::new(0), rounds: 0, round, min_rtt_us }
    }

    /// The greatest of the latest round trips.
    pub fn bandwidth(&self) -> u64 {
        self.greatest.get()
    }

    /// Returns true if this sample ends a round trip.
    pub fn count_round(&mut self, rate: &DeliveryRate, delivered: u64) -> bool {
        let is_start = self.round.take(rate, delivered);
        self.rounds += u64::from(is_start);
        is_start
    }

    /// A sample of a sender with too little to send counts only if it is not less than the known bandwidth.
    pub fn take_bandwidth(&mut self, rate: &DeliveryRate) {
        let sample = rate.bandwidth();
        if !rate.is_app_limited || sample >= self.bandwidth() {
            self.greatest.take(BANDWIDTH_ROUNDS, self.rounds, sample);
        }
    }
}
