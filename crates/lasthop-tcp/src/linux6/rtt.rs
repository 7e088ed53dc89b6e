//! Round-trip times in microseconds: the estimator of Linux since 3.15, and the least one of the last five
//! minutes.

use crate::clock::{Divisor, Tick};
use crate::common::Minimum;
use crate::common::rtt::Deviation;

/// Window of the least round-trip time (`tcp_min_rtt_wlen`).
const MINIMUM_WINDOW_US: u64 = 300_000_000;

/// Smoothed round-trip time, its deviation, and the timeout that follows from them (RFC 6298 with Linux'
/// filter).
#[derive(Clone, Debug)]
pub struct Linux6RttEstimator {
    tick_us: Divisor,
    minimum_us: i64,
    maximum: Tick,
    filter: Deviation,
    rto: Tick,
    backed_off: bool,
    least: Minimum,
}

impl Linux6RttEstimator {
    /// An estimator without samples; the timeout is `initial` ticks of `tick_us` microseconds.
    pub fn new(tick_us: u64, minimum: Tick, initial: Tick, maximum: Tick) -> Self {
        Self {
            tick_us: Divisor::new(tick_us),
            minimum_us: (minimum * tick_us).cast_signed(),
            maximum,
            filter: Deviation::default(),
            rto: initial,
            backed_off: false,
            least: Minimum::new(u64::from(u32::MAX)),
        }
    }

    /// Takes a sample. `una` is the first unacknowledged byte, `nxt` the next to send.
    pub fn sample(&mut self, rtt_us: u64, una: u64, nxt: u64) {
        self.filter.sample(rtt_us.cast_signed(), self.minimum_us, una, nxt);
        self.filter.srtt_8 = self.filter.srtt_8.max(1);
        self.backed_off = false;
        self.rto = self.ticks(self.filter.timeout()).min(self.maximum);
    }

    /// Adds a candidate for the minimum round-trip time.
    pub fn note_least(&mut self, now_us: u64, rtt_us: u64) {
        self.least.take(MINIMUM_WINDOW_US, now_us, if rtt_us == 0 { self.tick_us.value() } else { rtt_us });
    }

    /// The first timeout for data. SYNs are small, so a greater round-trip time of earlier connections, in
    /// eighths of a microsecond, takes precedence. If nothing was measured, it is `cautious` ticks (RFC 6298,
    /// section 5.7).
    pub fn begin(&mut self, cached_8: i64, cautious: Tick) {
        if cached_8 > self.filter.srtt_8 {
            let cached = self.tick_us.divide((cached_8 >> 3).cast_unsigned());
            self.rto = cached + (2 * cached).max(self.tick_us.divide(self.minimum_us()));
        } else if self.filter.srtt_8 == 0 {
            self.filter.rttvar_4 = self.micros(cautious).cast_signed();
            self.filter.mdev_4 = self.filter.rttvar_4;
            self.filter.mdev_max_4 = self.filter.rttvar_4;
            self.rto = cautious;
        }
    }

    /// Smoothed round-trip time in eighths and mean deviation in quarters of a microsecond, if the path was
    /// measured.
    pub fn knowledge(&self) -> Option<(i64, i64)> {
        (self.filter.srtt_8 > 0 && !self.backed_off).then_some((self.filter.srtt_8, self.filter.mdev_4))
    }

    /// Microseconds in ticks, rounded up.
    pub fn ticks(&self, us: u64) -> Tick {
        self.tick_us.divide(us + self.tick_us.value() - 1)
    }

    /// Ticks in microseconds.
    pub fn micros(&self, ticks: Tick) -> u64 {
        ticks * self.tick_us.value()
    }

    /// Timeout now, backoff included.
    pub fn rto(&self) -> Tick {
        self.rto
    }

    /// Doubles the timeout after an expiry (RFC 6298, section 5.5).
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.maximum);
        self.backed_off = true;
    }

    /// Least timeout in microseconds.
    pub fn minimum_us(&self) -> u64 {
        self.minimum_us.cast_unsigned()
    }

    /// Smoothed round-trip time in microseconds; 0 without samples.
    pub fn srtt_us(&self) -> u64 {
        (self.filter.srtt_8 >> 3).cast_unsigned()
    }

    /// Mean deviation of the round-trip time in microseconds.
    pub fn deviation_us(&self) -> u64 {
        (self.filter.mdev_4 >> 2).cast_unsigned()
    }

    /// Smoothed round-trip time in eighths of a microsecond; 0 without samples.
    pub fn srtt_8(&self) -> u64 {
        self.filter.srtt_8.cast_unsigned()
    }

    /// Twice the smoothed round-trip time in microseconds; 0 without samples.
    pub fn twice_srtt_us(&self) -> u64 {
        (self.filter.srtt_8 >> 2).cast_unsigned()
    }

    /// Least round-trip time in microseconds; the greatest number without samples.
    pub fn least_us(&self) -> u64 {
        self.least.get()
    }
}
