//! The window of time that the metrics of a run are of.

use lasthop_core::{Duration, Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::suggest;

/// A window of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureConfig {
    /// When the window begins.
    #[serde(default)]
    pub from: Duration,
    /// When the window ends; with the run if absent.
    pub until: Option<Duration>,
    /// Flow whose first packet both times count from; the start of the run if absent.
    pub flow: Option<String>,
}

impl MeasureConfig {
    /// The beginning and the end of the window if its times count from `origin`.
    pub fn after(&self, origin: Instant) -> [Instant; 2] {
        let end = self.until.map_or(Instant::MAX, |until| origin + until);
        [origin + self.from, end]
    }

    /// Finds faults of the window of a run that ends at `limit`, with flows of these names.
    pub(crate) fn check(&self, limit: Duration, flows: &[&str], faults: &mut Faults) {
        let from = self.from;
        if let Some(until) = self.until {
            faults.require(until > from, "until", || {
                format!(
                    "the window ends at \"{until}\", but begins at \"{from}\"; write more than \"{from}\""
                )
            });
        }
        faults.require(from < limit, "from", || {
            format!(
                "the window begins at \"{from}\", after the end of the run; lower it, or raise time_limit, which \
                 is \"{limit}\""
            )
        });
        if let Some(name) = &self.flow {
            faults.require(flows.contains(&name.as_str()), "flow", || {
                format!("there is no flow \"{name}\"{}", suggest(name, flows))
            });
        }
    }
}
