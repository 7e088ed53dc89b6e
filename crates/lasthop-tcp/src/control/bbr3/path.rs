//! The model of the path: the greatest bandwidth, the shortest round-trip time, and the aggregation of ACKs
//! ("Updating the Model").

use super::INFINITE;
use crate::common::Maximum;
use crate::control::bandwidth::{BANDWIDTH_SHIFT, Round};
use crate::control::{DeliveryRate, PathSample};

/// How long the shortest round-trip time counts, and after how long without a shorter one it is measured
/// again.
const MIN_RTT_US: u64 = 10_000_000;
const PROBE_RTT_INTERVAL_US: u64 = 5_000_000;
/// Round trips whose greatest aggregation counts; one in Startup.
const EXTRA_ROUNDS: u64 = 10;

#[derive(Clone, Debug)]
pub(super) struct PathModel {
    /// The greatest bandwidth of the last cycle and of the current one.
    greatest: [u64; 2],
    pub round: Round,
    pub rounds: u64,
    min_rtt_us: u64,
    min_rtt_stamp_us: u64,
    probe_rtt_us: u64,
    pub probe_rtt_stamp_us: u64,
    extra: Maximum,
    extra_since_us: u64,
    extra_acked: u64,
}

impl PathModel {
    pub fn new(rtt_us: Option<u64>, now_us: u64) -> Self {
        Self {
            greatest: [0; 2],
            round: Round::default(),
            rounds: 0,
            min_rtt_us: rtt_us.unwrap_or(INFINITE),
            min_rtt_stamp_us: now_us,
            probe_rtt_us: rtt_us.unwrap_or(INFINITE),
            probe_rtt_stamp_us: now_us,
            extra: Maximum::new(0),
            extra_since_us: now_us,
            extra_acked: 0,
        }
    }

    pub fn bandwidth(&self) -> u64 {
        self.greatest[0].max(self.greatest[1])
    }

    pub fn min_rtt_us(&self) -> Option<u64> {
        (self.min_rtt_us != INFINITE).then_some(self.min_rtt_us)
    }

    /// Adds a sample (`UpdateMaxBw`). Returns true if a round trip is over.
    pub fn update(&mut self, rate: &DeliveryRate, delivered: u64) -> bool {
        let is_start = self.round.take(rate, delivered);
        self.rounds += u64::from(is_start);
        let bandwidth = rate.bandwidth();
        if bandwidth >= self.bandwidth() || !rate.is_app_limited {
            self.greatest[1] = self.greatest[1].max(bandwidth);
        }
        is_start
    }

    /// A cycle is over (`AdvanceMaxBwFilter`).
    pub fn advance_cycle(&mut self) {
        self.greatest = [self.greatest[1], 0];
    }

    /// Adds a round-trip time (`UpdateMinRTT`). True if it is time to measure a shorter one.
    pub fn update_min_rtt(&mut self, now_us: u64, rtt_us: Option<u64>) -> bool {
        let is_old = now_us > self.probe_rtt_stamp_us + PROBE_RTT_INTERVAL_US;
        if let Some(rtt) = rtt_us
            && (rtt < self.probe_rtt_us || is_old)
        {
            (self.probe_rtt_us, self.probe_rtt_stamp_us) = (rtt, now_us);
        }
        let is_over = now_us > self.min_rtt_stamp_us + MIN_RTT_US;
        if self.probe_rtt_us < self.min_rtt_us || is_over {
            (self.min_rtt_us, self.min_rtt_stamp_us) = (self.probe_rtt_us, self.probe_rtt_stamp_us);
        }
        is_old
    }

    pub fn begin_aggregation(&mut self, now_us: u64) {
        self.extra_since_us = now_us;
    }

    /// `UpdateACKAggregation`.
    pub fn update_aggregation(&mut self, path: &PathSample, bandwidth: u64, is_full: bool, window: u64) {
        let now = path.ack.at.us;
        let mut expected = (bandwidth * (now - self.extra_since_us)) >> BANDWIDTH_SHIFT;
        if self.extra_acked <= expected {
            (self.extra_acked, self.extra_since_us, expected) = (0, now, 0);
        }
        self.extra_acked += u64::from(path.ack.acked);
        let extra = (self.extra_acked - expected).min(window);
        self.extra.take(if is_full { EXTRA_ROUNDS } else { 1 }, self.rounds, extra);
    }

    /// Segments that arrive at once in excess of the bandwidth.
    pub fn extra_acked(&self) -> u64 {
        self.extra.get()
    }
}
