//! The mean-deviation filter of Linux (RFC 6298), in any unit of time.

use crate::clock::Tick;

/// Ticks as a signed number.
#[allow(clippy::cast_possible_wrap, reason = "a run lasts far less than 2^63 ticks")]
pub(crate) fn signed(ticks: Tick) -> i64 {
    ticks as i64
}

/// Smoothed round-trip time and its mean deviation, in any unit of time: the filter of Linux.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deviation {
    /// Eighths of the smoothed round-trip time; 0 without samples.
    pub srtt_8: i64,
    pub mdev_4: i64,
    pub mdev_max_4: i64,
    pub rttvar_4: i64,
    /// When this position is acknowledged, one window has passed and the variance may fall.
    window_end: u64,
}

impl Deviation {
    /// Adds a sample. The variance is at least `floor`; `una` is the first unacknowledged byte, `nxt` the
    /// next to send.
    pub fn sample(&mut self, rtt: i64, floor: i64, una: u64, nxt: u64) {
        if self.srtt_8 == 0 {
            // First sample: RTO = SRTT + 4 * (RTT / 2) (RFC 6298, section 2.2).
            self.srtt_8 = rtt << 3;
            self.mdev_4 = rtt << 1;
            self.rttvar_4 = self.mdev_4.max(floor);
            self.mdev_max_4 = self.rttvar_4;
            self.window_end = nxt;
            return;
        }
        let error = rtt - (self.srtt_8 >> 3);
        self.srtt_8 += error;
        let mut change = error.abs() - (self.mdev_4 >> 2);
        // A sample far below SRTT would raise the deviation: it counts with 1/32 instead of 1/4.
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.mdev_4 += change;
        // The variance rises at once ...
        if self.mdev_4 > self.mdev_max_4 {
            self.mdev_max_4 = self.mdev_4;
            self.rttvar_4 = self.rttvar_4.max(self.mdev_max_4);
        }
        // ... and falls once per window.
        if una > self.window_end {
            if self.mdev_max_4 < self.rttvar_4 {
                self.rttvar_4 -= (self.rttvar_4 - self.mdev_max_4) >> 2;
            }
            self.window_end = nxt;
            self.mdev_max_4 = floor;
        }
    }

    /// The timeout that follows (RFC 6298, section 2.3).
    pub fn timeout(&self) -> u64 {
        ((self.srtt_8 >> 3) + self.rttvar_4).cast_unsigned()
    }
}
