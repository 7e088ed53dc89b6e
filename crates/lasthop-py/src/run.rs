//! Runs replications of a scenario on the model engine and analyses them.

use lasthop_core::{Instant, Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_sim::{HostMemory, RunEnd, RunFailure};
use lasthop_trace::{
    Analysis, Batch, CaptureTarget, Column, Overview, OverviewTables, Recorder, SeriesTarget, Span,
};
use std::io;

/// One replication with everything that happened in it.
pub struct Recording {
    pub recorder: Recorder,
    pub flows: Vec<(&'static str, Column)>,
    pub end: Instant,
}

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

/// Seed of one replication of a study.
pub fn seed_of(study: u64, replication: u64) -> Seed {
    Seed { study, replication }
}

/// Runs replications `first`, `first + 1`, ..., `count` of them, as one chain: what the hosts remember
/// passes from each to the next. Captures those for which there are `targets`, in their order.
pub fn batch(
    scenario: &Scenario,
    seed: u64,
    first: u64,
    count: u64,
    targets: &[CaptureTarget],
    checkpoint: Checkpoint<'_>,
) -> Result<Batch, RunError> {
    let mut memory = HostMemory::default();
    let mut batch = Batch::of(scenario);
    let mut targets = targets.iter();
    for replication in first..first + count {
        let mut analysis = Analysis::of(scenario);
        let at = seed_of(seed, replication);
        let end = if let Some(target) = targets.next() {
            let mut observer = (analysis, target.open(scenario)?);
            let end = run_one(scenario, at, &mut memory, &mut observer, checkpoint)?;
            observer.1.finish()?;
            analysis = observer.0;
            end
        } else {
            run_one(scenario, at, &mut memory, &mut analysis, checkpoint)?
        };
        batch.add(replication, analysis.finish(end.time));
    }
    Ok(batch)
}

/// Runs the chain from `first` and records `replication`.
pub fn record(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    checkpoint: Checkpoint<'_>,
) -> Result<Recording, RunError> {
    let mut observer = (Analysis::of(scenario).keep_every_flow(), Recorder::default());
    let RunEnd { time, .. } = observe(scenario, seed, first, replication, &mut observer, checkpoint)?;
    let (analysis, recorder) = observer;
    let mut batch = Batch::of(scenario);
    batch.add(replication, analysis.finish(time));
    Ok(Recording { recorder, flows: batch.flows(), end: time })
}

/// Runs the chain from `first` and keeps what pictures of `replication` need; also when it ended.
pub fn overview(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    span: Span,
    checkpoint: Checkpoint<'_>,
) -> Result<(OverviewTables, Instant), RunError> {
    let mut overview = Overview::of(scenario, span);
    let RunEnd { time, .. } = observe(scenario, seed, first, replication, &mut overview, checkpoint)?;
    Ok((overview.finish(time), time))
}

/// Runs one replication, and keeps what pictures of it need; also when it ended.
pub fn watch(
    scenario: &Scenario,
    seed: u64,
    replication: u64,
    checkpoint: Checkpoint<'_>,
) -> Result<(Batch, OverviewTables, Instant), RunError> {
    let whole = Span { start_ns: 0, stop_ns: u64::MAX };
    let mut observer = (Analysis::of(scenario), Overview::of(scenario, whole));
    let RunEnd { time, .. } = observe(scenario, seed, replication, replication, &mut observer, checkpoint)?;
    let mut batch = Batch::of(scenario);
    batch.add(replication, observer.0.finish(time));
    Ok((batch, observer.1.finish(time), time))
}

/// Runs the chain from `first` and captures `replication`.
pub fn capture(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    target: &CaptureTarget,
    checkpoint: Checkpoint<'_>,
) -> Result<(), RunError> {
    let mut capture = target.open(scenario)?;
    observe(scenario, seed, first, replication, &mut capture, checkpoint)?;
    capture.finish()?;
    Ok(())
}

/// Runs the chain from `first` and writes the time series of `replication`.
pub fn series(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    target: &SeriesTarget,
    checkpoint: Checkpoint<'_>,
) -> Result<(), RunError> {
    let mut series = target.begin(scenario, target.create()?)?;
    let end = observe(scenario, seed, first, replication, &mut series, checkpoint)?;
    Ok(series.close(end.time)?)
}

fn observe<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    first: u64,
    replication: u64,
    observer: &mut O,
    checkpoint: Checkpoint<'_>,
) -> Result<RunEnd, RunError> {
    let mut memory = HostMemory::default();
    if scenario.sequential() {
        for earlier in first..replication {
            run_one(scenario, seed_of(seed, earlier), &mut memory, &mut (), checkpoint)?;
        }
    }
    run_one(scenario, seed_of(seed, replication), &mut memory, observer, checkpoint)
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
