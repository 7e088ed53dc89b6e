//! Aggregated acknowledgments: the excess of arrivals over the bandwidth. The window is increased by it, so
//! that sending does not stop in between.

use crate::control::PathSample;
use crate::control::bandwidth::{BANDWIDTH_ONE, BANDWIDTH_SHIFT};

/// Number of round trips in a span; the maximum of the current and the last span counts.
const ROUNDS: u32 = 5;
/// The excess is limited to the delivery of the bandwidth in this time.
const EXTRA_US_MAX: u64 = 100_000;
/// An epoch ends after this number of segments.
const EPOCH_SEGMENTS_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    epoch_us: u64,
    epoch_segments: u64,
    /// The maximum in this span of round trips, and in the last one.
    most: [u32; 2],
    present: usize,
    rounds: u32,
}

impl Aggregation {
    pub fn new(now_us: u64) -> Self {
        Self { epoch_us: now_us, ..Self::default() }
    }

    pub fn begin_epoch(&mut self, now_us: u64) {
        (self.epoch_us, self.epoch_segments) = (now_us, 0);
    }

    pub fn take(&mut self, path: &PathSample, is_round_start: bool, bandwidth: u64, window: u32) {
        if is_round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.present = 1 - self.present;
                self.most[self.present] = 0;
            }
        }
        let acked = u64::from(path.ack.acked);
        let mut expected = (bandwidth * path.delivered_us.saturating_sub(self.epoch_us)) >> BANDWIDTH_SHIFT;
        if self.epoch_segments <= expected || self.epoch_segments + acked >= EPOCH_SEGMENTS_MAX {
            self.begin_epoch(path.delivered_us);
            expected = 0;
        }
        self.epoch_segments = (self.epoch_segments + acked).min(EPOCH_SEGMENTS_MAX - 1);
        let extra = (self.epoch_segments - expected).min(u64::from(window)) as u32;
        self.most[self.present] = self.most[self.present].max(extra);
    }

    /// Segments to add to the window.
    pub fn extra(&self, bandwidth: u64) -> u32 {
        let most = bandwidth * EXTRA_US_MAX / BANDWIDTH_ONE;
        self.most[0].max(self.most[1]).min(most as u32)
    }
}
