//! The tick clock of a host: timers fire and timestamps advance on its ticks only.

use lasthop_core::{Duration, Instant, Timestamps};

/// Period, in ticks, of the rounding of Linux' timer wheel, for timers of up to 2^15 ticks.
pub const WHEEL_TURN: u64 = 512;

/// A clock that ticks every `tick`, with its own phase: hosts do not boot simultaneously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    tick: Duration,
    nanos: Divisor,
    phase: Duration,
}

/// A divisor with its inverse, so that repeated divisions are multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    value: u64,
    inverse: u64,
}

impl Divisor {
    /// Divides by `value`, which is not zero.
    pub fn new(value: u64) -> Self {
        // 2^64 / value, rounded down or slightly less: the quotient is correct or one too small.
        Self { value, inverse: u64::MAX / value }
    }

    pub fn value(self) -> u64 {
        self.value
    }

    #[inline]
    pub fn divide(self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        quotient + u64::from(number - quotient * self.value >= self.value)
    }
}

/// Number of a tick of a clock.
pub type Tick = u64;

impl TickClock {
    /// A clock whose first tick began `phase` before the run.
    pub fn new(tick: Duration, phase: Duration) -> Self {
        Self { tick, nanos: Divisor::new(tick.as_nanos()), phase }
    }

    /// The tick in progress at `now`.
    pub fn at(&self, now: Instant) -> Tick {
        self.nanos.divide(now.as_nanos() + self.phase.as_nanos())
    }

    /// When tick number `tick` begins.
    pub fn begin(&self, tick: Tick) -> Instant {
        Instant::from_nanos((tick * self.tick.as_nanos()).saturating_sub(self.phase.as_nanos()))
    }

    /// Ticks in a second, at least one.
    pub fn per_second(&self) -> u64 {
        (Duration::from_secs(1).as_nanos() / self.tick.as_nanos()).max(1)
    }

    /// Whole ticks in `length`, at least one.
    pub fn ticks(&self, length: Duration) -> Tick {
        self.nanos.divide(length.as_nanos()).max(1)
    }

    /// Length of `ticks` ticks.
    pub fn length(&self, ticks: Tick) -> Duration {
        self.tick * ticks
    }
}

/// The timestamp option's value for a tick. The value zero is skipped, because an echo of zero means "nothing
/// yet". Runs end before 2^32 ticks, so values never wrap.
pub fn timestamp(tick: Tick) -> u32 {
    tick as u32 + 1
}

/// The tick of an echoed timestamp, if there is an echo.
pub fn echoed_tick(timestamps: Timestamps) -> Option<Tick> {
    timestamps.echo.checked_sub(1).map(Tick::from)
}

/// Tick at which a timer of `delta` ticks fires in Linux since 4.8. The wheel has 64 slots in each of its
/// levels, which grow coarser by a factor of eight; it rounds up, by one slot even if the time fits exactly.
pub fn wheel(now: Tick, delta: Tick) -> Tick {
    let mut shift = 0;
    while shift < 24 && delta >= 63 << shift {
        shift += 3;
    }
    (((now + delta) >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::{Divisor, wheel};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_divisor_divides(number: u64, divisor in 1..=u64::MAX, small in 1..10_000_u64) {
            for value in [divisor, small, 1 << (small % 64)] {
                let multiple = number / value * value;
                for number in [number, multiple, u64::MAX, multiple.saturating_sub(1)] {
                    prop_assert_eq!(Divisor::new(value).divide(number), number / value);
                }
            }
        }
    }

    #[test]
    fn timers_fire_one_slot_late_and_long_ones_are_coarse() {
        assert_eq!(wheel(1000, 20), 1021);
        assert_eq!(wheel(1000, 62), 1063);
        assert_eq!(wheel(1000, 63), 1064, "slots of eight: 1063 rounds up to 1064");
        assert_eq!(wheel(1000, 100), 1104, "1100 rounds up to 1104");
        assert_eq!(wheel(1000, 104), 1112, "1104 lies at the edge of a slot: the next");
        assert_eq!(wheel(0, 504), 512);
    }
}
