//! Virtual time: integer nanoseconds, so that no rounding ever decides the order of two events.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

use crate::units::{self, ParseError, Rate};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point in virtual time: nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of virtual time in nanoseconds; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// The start of a run.
    pub const ZERO: Self = Self(0);
    /// Later than everything: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run, for output only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * NANOS_PER_SECOND)
    }

    /// Length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Length in seconds, for output and for models whose arithmetic is real-valued.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Difference, or zero if `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    /// Never wraps: an instant beyond the end of the clock becomes [`Instant::MAX`], "never". The tail of an
    /// exponential distribution can reach that far.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Panics (in debug builds) if `rhs` is later: time never runs backwards in a run.
    fn sub(self, rhs: Self) -> Duration {
        Duration(self.0 - rhs.0)
    }
}

impl Add for Duration {
    type Output = Self;
    /// Never wraps, like the sum of an instant and a length.
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0 * rhs)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / NANOS_PER_SECOND, self.0 % NANOS_PER_SECOND)
    }
}

impl Rate {
    /// Time to transmit an IP packet of `bytes` bytes (at most 65535), to the nearest nanosecond.
    pub fn transmission_time(self, bytes: u32) -> Duration {
        self.time_of_nanobits(u64::from(bytes) * 8 * 1_000_000_000)
    }

    /// Time to transmit this number of billionths of a bit, to the nearest nanosecond. This unit counts parts
    /// of a packet without rounding: a rate of `1 bit/s` sends one billionth of a bit in each nanosecond.
    pub fn time_of_nanobits(self, nanobits: u64) -> Duration {
        let rate = self.bits_per_second();
        Duration::from_nanos((nanobits + rate / 2) / rate)
    }
}

/// Transmission times at one rate. The latest result is cached, as lengths repeat and a division is slow.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    rate: Rate,
    latest: (u32, Duration),
}

impl Transmission {
    /// Times at `rate`.
    pub fn at(rate: Rate) -> Self {
        Self { rate, latest: (0, Duration::ZERO) }
    }

    /// Time to transmit an IP packet of `bytes` bytes: see [`Rate::transmission_time`].
    #[inline]
    pub fn time(&mut self, bytes: u32) -> Duration {
        if self.latest.0 != bytes {
            self.latest = (bytes, self.rate.transmission_time(bytes));
        }
        self.latest.1
    }
}

/// Units of a duration in nanoseconds, the smallest first.
pub(crate) const UNITS: units::UnitTable = units::UnitTable {
    what: "a duration",
    example: "300 ms",
    finest: "nanosecond",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", NANOS_PER_SECOND),
        ("min", 60 * NANOS_PER_SECOND),
        ("h", 3600 * NANOS_PER_SECOND),
    ],
    named: &[],
};

/// Thirty years: sums of stated durations stay far below the end of the clock.
const LONGEST_STATED_NANOS: u64 = 1_000_000_000 * NANOS_PER_SECOND;

impl FromStr for Duration {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match UNITS.parse(text)? {
            nanos if nanos > LONGEST_STATED_NANOS => Err(ParseError::new(format!(
                "{text:?} is too large for a duration: write at most \"1000000000 s\""
            ))),
            nanos => Ok(Self(nanos)),
        }
    }
}

/// The largest unit up to seconds in which the length is a whole number: "150 us", "5 s".
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds_and_finer = &UNITS.units[..4];
        units::write_in_largest_unit(f, self.0, seconds_and_finer)
    }
}

units::text_serde!(Duration, "Duration", "A length of time", UNITS);

#[cfg(test)]
mod tests {
    use super::{Duration, Instant};

    #[test]
    fn sums_stop_at_the_end_of_the_clock() {
        let long = Duration::from_nanos(u64::MAX - 5);
        let mut at = Instant::from_nanos(3) + long;
        assert_eq!(at, Instant::from_nanos(u64::MAX - 2));
        at += Duration::from_nanos(3);
        assert_eq!(at, Instant::MAX);
        assert_eq!(Instant::from_nanos(7) + (long + long), Instant::MAX);
    }
}
