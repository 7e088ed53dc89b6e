//! Runs replications of a scenario on the model engine and analyses them.

use lasthop_scenario::Scenario;
use lasthop_sim::{HostMemory, RunEnd, RunFailure};
use lasthop_tcp::CachedMetrics;
use lasthop_trace::{Analysis, Batch, Kept, Request};
use std::io;

pub enum RunError {
    /// Their output cannot be written.
    Io(io::Error),
    /// User code failed in this replication.
    User(u64, RunFailure),
}

/// Called periodically during a run; may end it by [`lasthop_core::Failure::raise`].
pub type Checkpoint<'a> = &'a mut dyn FnMut();

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs replications as one chain: the hosts' `memory` passes from each to the next. Returns their records,
/// if `records` is set, and the data kept of the last observed replication. Without records, only the
/// observed replications are run, and those that precede them in a chain.
pub fn run(
    scenario: &Scenario,
    request: &Request,
    records: bool,
    memory: &mut HostMemory,
    checkpoint: Checkpoint<'_>,
) -> Result<(Batch, Option<Kept>), RunError> {
    let (mut batch, mut kept) = (Batch::of(scenario), None);
    for replication in request.numbers() {
        let seed = request.seed_of(replication);
        let scenario = &*scenario.drawn(seed);
        let analysis = records.then(|| Analysis::of(scenario));
        let failed = |failure| RunError::User(replication, failure);
        match (analysis, request.observations.get(&replication)) {
            // A separate loop, because it takes nearly all the time.
            (Some(mut analysis), None) => {
                let end = lasthop_sim::try_run_for(scenario, seed, memory, &mut analysis, checkpoint);
                batch.add(replication, analysis.finish(end.map_err(failed)?.time));
            }
            (None, None) if scenario.sequential() => {
                lasthop_sim::try_run(scenario, seed, memory, &mut (), checkpoint).map_err(failed)?;
            }
            (None, None) => {}
            (analysis, Some(observation)) => {
                let mut observer = (analysis, observation.begin(scenario, None)?);
                let end = lasthop_sim::try_run(scenario, seed, memory, &mut observer, checkpoint);
                let RunEnd { time, .. } = end.map_err(failed)?;
                let (analysis, watch) = observer;
                kept = Kept::of(watch, (scenario, seed, time), |_| ())?.or(kept);
                if let Some(analysis) = analysis {
                    batch.add(replication, analysis.finish(time));
                }
            }
        }
    }
    Ok((batch, kept))
}

/// The memory of hosts as JSON: a list, because the keys of objects are texts.
pub fn memory_to_json(memory: &HostMemory) -> String {
    let entries: Vec<_> = memory.metrics.iter().collect();
    serde_json::to_string(&entries).expect("names and whole numbers")
}

pub fn memory_from_json(text: &str) -> serde_json::Result<HostMemory> {
    let entries: Vec<((String, String), CachedMetrics)> = serde_json::from_str(text)?;
    Ok(HostMemory { metrics: entries.into_iter().collect() })
}
