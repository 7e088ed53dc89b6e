//! The tick clock of a host: timers fire and timestamps advance on its ticks only.

use lasthop_core::{Duration, Instant, Timestamps};

/// A clock that ticks every `tick`, with a phase of its own: hosts do not boot in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    tick: Duration,
    phase: Duration,
}

/// Number of a tick since the start of the run.
pub type Tick = u64;

impl TickClock {
    /// A clock whose first tick began `phase` before the run; `phase` is less than `tick`.
    pub fn new(tick: Duration, phase: Duration) -> Self {
        assert!(phase < tick, "the phase lies within one tick");
        Self { tick, phase }
    }

    /// The tick in progress at `now`.
    pub fn at(&self, now: Instant) -> Tick {
        (now.as_nanos() + self.phase.as_nanos()) / self.tick.as_nanos()
    }

    /// When tick number `tick` begins.
    pub fn begin(&self, tick: Tick) -> Instant {
        Instant::from_nanos((tick * self.tick.as_nanos()).saturating_sub(self.phase.as_nanos()))
    }

    /// Whole ticks in `length`, at least one.
    pub fn ticks(&self, length: Duration) -> Tick {
        (length.as_nanos() / self.tick.as_nanos()).max(1)
    }

    /// Length of `ticks` ticks.
    pub fn length(&self, ticks: Tick) -> Duration {
        self.tick * ticks
    }
}

/// The timestamp option's value for a tick. Zero is left out: an echo of zero means "nothing yet". Runs
/// end before 2^32 ticks, so values never wrap.
pub fn timestamp(tick: Tick) -> u32 {
    tick as u32 + 1
}

/// The tick whose timestamp was echoed, if anything was.
pub fn echoed_tick(timestamps: Timestamps) -> Option<Tick> {
    timestamps.echo.checked_sub(1).map(Tick::from)
}
