//! Runs replications of a scenario on the model engine and analyses them.

use lasthop_core::{Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_sim::{HostMemory, RunEnd, RunFailure};
use lasthop_trace::{Analysis, Batch, Kept, Request};
use std::io;

/// Why replications could not be run to their end.
pub enum RunError {
    /// What they leave cannot be written.
    Io(io::Error),
    /// Code of a user's failed in this replication.
    User(u64, RunFailure),
}

/// Called now and then during a run; may end it by [`lasthop_core::Failure::raise`].
pub type Checkpoint<'a> = &'a mut dyn FnMut();

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs replications as one chain: what the hosts remember passes from each to the next. Returns their records, if `records`
/// are wanted, and what was kept of the last one that was observed. Without records, only these are run, and those that come
/// before them in a chain.
pub fn run(
    scenario: &Scenario,
    request: &Request,
    records: bool,
    checkpoint: Checkpoint<'_>,
) -> Result<(Batch, Option<Kept>), RunError> {
    let (mut memory, mut batch, mut kept) = (HostMemory::default(), Batch::of(scenario), None);
    for replication in request.numbers() {
        let seed = request.seed_of(replication);
        let analysis = records.then(|| Analysis::of(scenario));
        match (analysis, request.observations.get(&replication)) {
            // By themselves: this is what nearly all time goes into.
            (Some(mut analysis), None) => {
                let end = run_one(scenario, seed, &mut memory, &mut analysis, checkpoint)?;
                batch.add(replication, analysis.finish(end.time));
            }
            (None, None) if scenario.sequential() => {
                run_one(scenario, seed, &mut memory, &mut (), checkpoint)?;
            }
            (None, None) => {}
            (analysis, Some(observation)) => {
                let mut observer = (analysis, observation.begin(scenario, None)?);
                let RunEnd { time, .. } = run_one(scenario, seed, &mut memory, &mut observer, checkpoint)?;
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

fn run_one<O: Observer>(
    scenario: &Scenario,
    seed: Seed,
    memory: &mut HostMemory,
    observer: &mut O,
    checkpoint: Checkpoint<'_>,
) -> Result<RunEnd, RunError> {
    lasthop_sim::try_run(scenario, seed, memory, observer, checkpoint)
        .map_err(|failure| RunError::User(seed.replication, failure))
}
