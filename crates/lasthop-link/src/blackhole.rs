//! A time in which a router loses everything that arrives, as a route to a blackhole does.

use lasthop_core::{Duration, Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A time in which everything is lost that arrives at the router of this direction. What is in the queue or
/// on the link by then goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlackholeConfig {
    /// When it begins, counted from the start of the run.
    #[schemars(extend("examples" = ["10 s"]))]
    pub at: Duration,
    /// How long it lasts.
    #[serde(rename = "for")]
    pub lasts: Duration,
}

impl BlackholeConfig {
    pub(crate) fn check(self, faults: &mut Faults) {
        faults.not_zero(&self.lasts, "for", "2 s");
    }
}

/// The same, by its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blackhole {
    begin: Instant,
    end: Instant,
}

impl Blackhole {
    pub(crate) fn new(BlackholeConfig { at, lasts }: BlackholeConfig) -> Self {
        let begin = Instant::ZERO + at;
        Self { begin, end: begin + lasts }
    }

    /// Whether a packet that arrives at `now` is lost; one that arrives at the end is not.
    pub(crate) fn swallows(self, now: Instant) -> bool {
        (self.begin..self.end).contains(&now)
    }
}
