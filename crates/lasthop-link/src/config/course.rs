//! The course of a link: a table, or a random process that is drawn for each replication.

use std::borrow::Cow;

use lasthop_core::{Distribution, Duration, Faults, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::timetable::Timetable;

/// Maximum number of rows of a drawn course.
const ROWS_MAX: u64 = 1_000_000;
/// With a larger spread, the rate of a walk would be near 0 most of the time.
const SPREAD_MAX: f64 = 3.0;

/// A table, or a random process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CourseConfig {
    /// The same in all replications.
    Table(Timetable),
    /// Drawn for each replication.
    Drawn(DrawnCourse),
}

/// A random course. Its random streams depend on hop and direction only, so all variants of a scenario get the
/// same course.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DrawnCourse {
    /// Epochs of the same length, as between two reallocations of satellites. Each has a rate and a delay.
    Epochs(Epochs),
    /// The logarithm of the rate is a mean-reverting walk (Ornstein and Uhlenbeck 1930).
    Walk(Walk),
    /// A Markov chain in continuous time: states with exponential durations. It begins in the first state.
    States(States),
}

/// Epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Epochs {
    /// Length of an epoch.
    pub every: Duration,
    /// Start of the first epoch after that of the run; if absent, an epoch begins with the run. It is the
    /// same in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Distribution<Duration>>,
    /// Rate of an epoch.
    pub rate: Distribution<Rate>,
    /// Delay of an epoch, the same draw in both directions; if absent, that of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Distribution<Duration>>,
    /// Outage at the start of each epoch, except at the start of the run, the same draw in both directions; none
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Distribution<Duration>>,
}

/// A walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Mean of the rate.
    pub mean: Rate,
    /// Standard deviation of the natural logarithm of the rate: 0.3 for about 30 %.
    pub spread: f64,
    /// Time after which the autocorrelation of the logarithm has fallen to 1/e.
    pub time_constant: Duration,
    /// Time between two rates.
    #[serde(default = "step")]
    pub step: Duration,
}

const fn step() -> Duration {
    Duration::from_millis(100)
}

/// States.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct States {
    /// The states, at least two.
    pub states: Vec<StateConfig>,
}

/// A state of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateConfig {
    /// Rate; an outage if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Delay; if absent, that of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Mean of its exponential duration.
    pub mean: Duration,
    /// Weights of the possible next states, one for each state, 0 for this state; if absent, all other states
    /// are equally likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<f64>>,
}

impl JsonSchema for CourseConfig {
    fn schema_name() -> Cow<'static, str> {
        "CourseConfig".into()
    }

    /// A string, or one of several tables.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = DrawnCourse::json_schema(generator);
        let text = Timetable::json_schema(generator).to_value();
        if let Some(choices) = schema.get_mut("oneOf").and_then(|choices| choices.as_array_mut()) {
            choices.insert(0, text);
        }
        schema
    }
}

impl CourseConfig {
    /// The table, if it is one.
    pub const fn table(&self) -> Option<&Timetable> {
        match self {
            Self::Table(table) => Some(table),
            Self::Drawn(_) => None,
        }
    }

    pub fn mean_rate(&self) -> Rate {
        match self {
            Self::Table(table) => table.mean_rate(),
            Self::Drawn(drawn) => drawn.mean_rate(),
        }
    }

    /// The delay at the start, or the mean of the drawn delays; `None` without delays.
    pub fn delay(&self) -> Option<Duration> {
        match self {
            Self::Table(table) => table.first_delay(),
            Self::Drawn(DrawnCourse::Epochs(Epochs { delay, .. })) => delay.as_ref().map(Distribution::mean),
            Self::Drawn(DrawnCourse::States(States { states })) => states.first()?.delay,
            Self::Drawn(DrawnCourse::Walk(_)) => None,
        }
    }

    /// The time from which the last row of a table holds.
    pub fn end(&self) -> Duration {
        self.table().map(Timetable::end).unwrap_or_default()
    }

    pub(crate) fn has_loss(&self) -> bool {
        self.table().is_some_and(Timetable::has_loss)
    }
}

impl DrawnCourse {
    fn mean_rate(&self) -> Rate {
        match self {
            Self::Epochs(epochs) => epochs.rate.mean(),
            Self::Walk(walk) => walk.mean,
            // Approximated by the means alone, as if all transitions were equally frequent.
            Self::States(States { states }) => {
                let bits = |state: &StateConfig| {
                    state.rate.map_or(0.0, |rate| rate.bits_per_second() as f64) * state.mean.as_secs_f64()
                };
                let seconds: f64 = states.iter().map(|state| state.mean.as_secs_f64()).sum();
                let mean = states.iter().map(bits).sum::<f64>() / seconds.max(f64::MIN_POSITIVE);
                Rate::from_bits_per_second((mean.round() as u64).max(1))
            }
        }
    }

    /// Checks the length of a course for a run that ends at `until` at the latest.
    pub fn check_length(&self, until: Duration, faults: &mut Faults) {
        let (key, row) = match self {
            Self::Epochs(epochs) => ("every", epochs.every),
            Self::Walk(walk) => ("step", walk.step),
            Self::States(States { states }) => {
                ("states", states.iter().map(|state| state.mean).min().unwrap_or_default())
            }
        };
        let rows = until.as_nanos() / row.as_nanos().max(1);
        faults.require(rows <= ROWS_MAX || row.is_zero(), key, || {
            format!(
                "\"{row}\" results in about {rows} rows until time_limit = \"{until}\", more than {ROWS_MAX}; \
                 write a longer time, or a shorter time_limit"
            )
        });
    }

    pub(crate) fn check(&self, faults: &mut Faults) {
        match self {
            Self::Epochs(epochs) => epochs.check(faults),
            Self::Walk(walk) => walk.check(faults),
            Self::States(states) => states.check(faults),
        }
    }
}

impl Epochs {
    fn check(&self, faults: &mut Faults) {
        let Self { every, gap, .. } = self;
        faults.not_zero(every, "every", "15 s");
        let gap = gap.as_ref().map(Distribution::most).unwrap_or_default();
        faults.require(gap < *every || every.is_zero(), "gap", || {
            format!(
                "an outage of {gap} is not shorter than an epoch of {every}; write a shorter one, or a max"
            )
        });
    }
}

impl Walk {
    fn check(&self, faults: &mut Faults) {
        let Self { spread, time_constant, step, .. } = self;
        faults.require((0.0..=SPREAD_MAX).contains(spread), "spread", || {
            format!("{spread} is out of range; write from 0 to {SPREAD_MAX}, such as 0.3 for about 30 %")
        });
        faults.not_zero(time_constant, "time_constant", "5 s");
        faults.not_zero(step, "step", "100 ms");
        faults.require(step <= time_constant, "step", || {
            format!("steps of {step} are too long for a time constant of {time_constant}; write less")
        });
    }
}

impl States {
    fn check(&self, faults: &mut Faults) {
        let Self { states } = self;
        faults.require(states.len() > 1, "states", || {
            "at least two states are required; add one, or write rate and delay instead of a course".into()
        });
        faults.require(states.iter().any(|state| state.rate.is_some()), "states", || {
            "the link is never up; add a rate to at least one state".into()
        });
        for (index, state) in states.iter().enumerate() {
            faults.below(&format!("states[{index}]"), |faults| {
                faults.not_zero(&state.mean, "mean", "3 s");
                let Some(next) = &state.next else { return };
                let holds = next.len() == states.len()
                    && next.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
                    && next.iter().sum::<f64>() > 0.0
                    && next[index] == 0.0;
                faults.require(holds, "next", || {
                    format!(
                        "write {} weights, one for each state: 0 for this state, more for at least one other",
                        states.len()
                    )
                });
            });
        }
    }
}
