//! A period in which a router drops every arriving packet, like a blackhole route.

use lasthop_core::{Duration, Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A period in which every packet that arrives at the router of this direction is lost. Packets that are already
/// in the queue or on the link are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlackholeConfig {
    /// Start, counted from the start of the run.
    #[schemars(extend("examples" = ["10 s"]))]
    pub at: Duration,
    /// Duration.
    #[serde(rename = "for")]
    pub lasts: Duration,
}

impl BlackholeConfig {
    pub(crate) fn check(self, faults: &mut Faults) {
        faults.not_zero(&self.lasts, "for", "2 s");
    }
}

/// Start and end.
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

    /// True if a packet that arrives at `now` is lost. The end is exclusive.
    pub(crate) fn swallows(self, now: Instant) -> bool {
        (self.begin..self.end).contains(&now)
    }
}
