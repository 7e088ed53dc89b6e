//! The error process of the link: alternating good and bad states, shared by both directions or for each
//! direction.
//!
//! Lengths are drawn from separate streams (`link.state.good`, `link.state.bad`). So all variants of a study
//! have the same states in replication n, regardless of other draws, and each direction can hold its own
//! copy.

use std::collections::VecDeque;

use lasthop_core::dist::Sampler;
use lasthop_core::{Direction, Duration, Instant, RandomStream, Seed};

use crate::config::{ErrorConfig, Start};

#[cfg(test)]
mod tests;

/// State of the error process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// No transmission fails.
    Good,
    /// A transmission fails with the configured probability.
    Bad,
}

/// One stay in a state: `start` inclusive, `end` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub state: LinkState,
    /// First instant of the stay.
    pub start: Instant,
    /// First instant of the next stay.
    pub end: Instant,
}

/// The infinite sequence of stays from time zero: good, bad, good, ... (with a random phase, bad may be
/// first). Stays of length zero are included.
#[derive(Clone, Debug)]
pub struct Periods {
    good: (Sampler<Duration>, RandomStream),
    bad: (Sampler<Duration>, RandomStream),
    next: LinkState,
    start: Instant,
    /// Remaining length of the next stay, if the run begins within it.
    rest: Option<Duration>,
}

impl Periods {
    /// The stays drawn from `seed`, for both directions or for one.
    pub fn new(config: &ErrorConfig, of: Option<Direction>, seed: Seed) -> Self {
        let of = of.map_or(String::new(), |direction| format!(".{}", direction.name()));
        let stream = |what| seed.stream(&format!("link{of}.state.{what}"));
        let periods = Self {
            good: (config.good.sampler(), stream("good")),
            bad: (config.bad.sampler(), stream("bad")),
            next: LinkState::Good,
            start: Instant::ZERO,
            rest: None,
        };
        match config.start {
            Start::Good => periods,
            Start::RandomPhase => periods.begin_within(stream("phase").unit()),
            Start::InsideGood => periods.begin_inside(stream("phase").unit()),
        }
    }

    /// The same stays, from the point at which the share `phase` of the first one has passed.
    fn begin_inside(mut self, phase: f64) -> Self {
        let first = self.good.0.sample(&mut self.good.1).as_nanos();
        self.rest = Some(Duration::from_nanos(first - (phase * first as f64) as u64));
        self
    }

    /// The same stays, from the point at which the share `phase` of the first [`PHASE_STAYS`] has passed.
    fn begin_within(mut self, phase: f64) -> Self {
        let whole = self.clone().take(PHASE_STAYS).last().map_or(0, |last| last.end.as_nanos());
        let begin = Instant::from_nanos((phase * whole as f64) as u64);
        let within = (&mut self).take(PHASE_STAYS).find(|stay| stay.end > begin);
        if let Some(stay) = within {
            self.next = stay.state;
            self.rest = Some(stay.end - begin);
        }
        self.start = Instant::ZERO;
        self
    }
}

/// Beginning and end of the bad periods, of both directions or of one, of a run that ended at `end`. Periods
/// without failures are left out.
pub fn bad_periods(
    errors: Option<&ErrorConfig>,
    of: Option<Direction>,
    seed: Seed,
    end: Instant,
) -> Vec<(Instant, Instant)> {
    let errors = errors.filter(|errors| errors.can_hit());
    let periods = errors.into_iter().flat_map(|errors| Periods::new(errors, of, seed));
    periods
        .take_while(|period| period.start < end)
        .filter(|period| period.state == LinkState::Bad)
        .map(|period| (period.start, period.end.min(end)))
        .collect()
}

impl Iterator for Periods {
    type Item = Period;

    fn next(&mut self) -> Option<Period> {
        let state = self.next;
        let (source, following) = match state {
            LinkState::Good => (&mut self.good, LinkState::Bad),
            LinkState::Bad => (&mut self.bad, LinkState::Good),
        };
        let start = self.start;
        let length = self.rest.take().unwrap_or_else(|| source.0.sample(&mut source.1));
        let end = start + length;
        self.next = following;
        self.start = end;
        Some(Period { state, start, end })
    }
}

/// The state at any instant, drawn only as far as needed.
#[derive(Clone, Debug)]
pub(crate) struct StateTimeline {
    source: Periods,
    /// Contiguous, without empty stays; the first begins at or before the pruning time.
    stays: VecDeque<Period>,
    pruned_before: Instant,
}

impl StateTimeline {
    /// The timeline drawn from `seed`, for both directions or for one.
    pub fn new(config: &ErrorConfig, of: Option<Direction>, seed: Seed) -> Self {
        Self { source: Periods::new(config, of, seed), stays: VecDeque::new(), pruned_before: Instant::ZERO }
    }

    /// The state at `at`, which must not lie before the pruning time. Lookups may come in any order.
    pub fn state(&mut self, at: Instant) -> LinkState {
        assert!(at >= self.pruned_before, "{at} is already forgotten");
        while self.stays.back().is_none_or(|last| last.end <= at) {
            let period = self.draw();
            // The first lookup after a long silence skips stays that are no longer needed.
            if period.end > self.pruned_before {
                self.stays.push_back(period);
            }
        }
        let index = self.stays.partition_point(|period| period.end <= at);
        self.stays[index].state
    }

    /// Removes stays that end at or before `before`.
    pub fn prune(&mut self, before: Instant) {
        self.pruned_before = self.pruned_before.max(before);
        while self.stays.front().is_some_and(|first| first.end <= before) {
            self.stays.pop_front();
        }
    }

    /// The next stay that is not empty.
    fn draw(&mut self) -> Period {
        for _ in 0..MOST_EMPTY_STAYS {
            if let Some(period) = self.source.next().filter(|period| period.end > period.start) {
                return period;
            }
        }
        panic!("the link's states all have length zero");
    }
}

/// Number of good and bad stays in which a random phase may begin: enough for their lengths to average out.
const PHASE_STAYS: usize = 128;

/// Number of consecutive empty stays after which time is assumed never to advance.
const MOST_EMPTY_STAYS: u32 = 1_000_000;
