//! Round-trip estimation and the retransmission timeout (RFC 6298 with Linux' mean-deviation filter).
//!
//! All values are in ticks; srtt is kept times 8 and the deviations times 4, as in Linux.

use crate::clock::Tick;
use crate::common::rtt::{Deviation, signed};

/// Smoothed round-trip time, its deviation, and the timeout that follows from them.
#[derive(Clone, Debug)]
pub(super) struct Linux2RttEstimator {
    filter: Deviation,
    rto: Tick,
    minimum: Tick,
    initial: Tick,
    maximum: Tick,
}

impl Linux2RttEstimator {
    /// An estimator without samples; the timeout is `initial`.
    pub fn new(minimum: Tick, initial: Tick, maximum: Tick) -> Self {
        Self { filter: Deviation::default(), rto: initial, minimum, initial, maximum }
    }

    /// Takes a sample of `rtt` ticks. `una` is the first unacknowledged byte, `nxt` the next to send.
    pub fn sample(&mut self, rtt: Tick, una: u64, nxt: u64) {
        // A sample below one tick counts as one.
        self.filter.sample(signed(rtt).max(1), signed(self.minimum), una, nxt);
        self.update_timeout();
    }

    /// Timeout now, backoff included.
    pub fn rto(&self) -> Tick {
        self.rto
    }

    /// Doubles the timeout after an expiry (RFC 6298, section 5.5).
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.maximum);
    }

    /// True once a sample was taken.
    pub fn has_sample(&self) -> bool {
        self.filter.srtt_8 != 0
    }

    /// Smoothed round-trip time in eighths of a tick.
    pub fn srtt_8(&self) -> i64 {
        self.filter.srtt_8
    }

    /// Mean deviation in quarters of a tick.
    pub fn mdev_4(&self) -> i64 {
        self.filter.mdev_4
    }

    /// Takes over the measurements of an earlier connection to the same destination, if they are larger.
    pub fn raise(&mut self, srtt_8: i64, rttvar_4: i64) {
        self.filter.srtt_8 = self.filter.srtt_8.max(srtt_8);
        if rttvar_4 > self.filter.mdev_4 {
            self.filter.mdev_4 = rttvar_4;
            self.filter.rttvar_4 = self.filter.mdev_4.max(signed(self.minimum));
            self.filter.mdev_max_4 = self.filter.rttvar_4;
        }
        self.update_timeout();
    }

    /// Forgets the samples. Without timestamps, a first timeout that is too small could never be corrected.
    pub fn forget(&mut self) {
        *self = Self::new(self.minimum, self.initial, self.maximum);
    }

    fn update_timeout(&mut self) {
        self.rto = self.filter.timeout().min(self.maximum);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Linux2Timer {
    pub rtt: Linux2RttEstimator,
    pub due: Option<Tick>,
    /// Expiries in the current loss episode.
    pub expiries: u32,
    /// True if there was no sample since the last expiry.
    pub backed_off: bool,
}

impl Linux2Timer {
    pub fn new(rtt: Linux2RttEstimator) -> Self {
        Self { rtt, due: None, expiries: 0, backed_off: false }
    }

    pub fn restart(&mut self, tick: Tick) {
        self.due = Some(tick + self.rtt.rto());
    }

    /// It has expired and was handled: the next wait is twice as long.
    pub fn back_off(&mut self, tick: Tick) {
        self.expiries += 1;
        self.backed_off = true;
        self.rtt.back_off();
        self.restart(tick);
    }
}

#[cfg(test)]
mod tests;
