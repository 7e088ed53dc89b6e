//! Runs replications of a scenario on the model engine and analyses them.

use lasthop_core::{Instant, Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_sim::{HostMemory, RunEnd};
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
) -> io::Result<Batch> {
    let mut memory = HostMemory::default();
    let mut batch = Batch::of(scenario);
    let mut targets = targets.iter();
    for replication in first..first + count {
        let mut analysis = Analysis::of(scenario);
        let seed = seed_of(seed, replication);
        let end = if let Some(target) = targets.next() {
            let mut observer = (analysis, target.open(scenario)?);
            let end = lasthop_sim::run(scenario, seed, &mut memory, &mut observer);
            observer.1.finish()?;
            analysis = observer.0;
            end
        } else {
            lasthop_sim::run(scenario, seed, &mut memory, &mut analysis)
        };
        batch.add(replication, analysis.finish(end.time));
    }
    Ok(batch)
}

/// Runs the chain from `first` and records `replication`.
pub fn record(scenario: &Scenario, seed: u64, first: u64, replication: u64) -> Recording {
    let mut observer = (Analysis::of(scenario).keep_every_flow(), Recorder::default());
    let RunEnd { time, .. } = observe(scenario, seed, first, replication, &mut observer);
    let (analysis, recorder) = observer;
    let mut batch = Batch::of(scenario);
    batch.add(replication, analysis.finish(time));
    Recording { recorder, flows: batch.flows(), end: time }
}

/// Runs the chain from `first` and keeps what pictures of `replication` need; also when it ended.
pub fn overview(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    span: Span,
) -> (OverviewTables, Instant) {
    let mut overview = Overview::of(scenario, span);
    let RunEnd { time, .. } = observe(scenario, seed, first, replication, &mut overview);
    (overview.finish(time), time)
}

/// Runs one replication, and keeps what pictures of it need; also when it ended.
pub fn watch(scenario: &Scenario, seed: u64, replication: u64) -> (Batch, OverviewTables, Instant) {
    let whole = Span { start_ns: 0, stop_ns: u64::MAX };
    let mut observer = (Analysis::of(scenario), Overview::of(scenario, whole));
    let RunEnd { time, .. } = observe(scenario, seed, replication, replication, &mut observer);
    let mut batch = Batch::of(scenario);
    batch.add(replication, observer.0.finish(time));
    (batch, observer.1.finish(time), time)
}

/// Runs the chain from `first` and captures `replication`.
pub fn capture(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    target: &CaptureTarget,
) -> io::Result<()> {
    let mut capture = target.open(scenario)?;
    observe(scenario, seed, first, replication, &mut capture);
    capture.finish().map(drop)
}

/// Runs the chain from `first` and writes the time series of `replication`.
pub fn series(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    target: &SeriesTarget,
) -> io::Result<()> {
    let mut series = target.begin(scenario, target.create()?)?;
    let end = observe(scenario, seed, first, replication, &mut series);
    series.close(end.time)
}

fn observe<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    first: u64,
    replication: u64,
    observer: &mut O,
) -> RunEnd {
    let mut memory = HostMemory::default();
    if scenario.sequential() {
        for earlier in first..replication {
            lasthop_sim::run(scenario, seed_of(seed, earlier), &mut memory, &mut ());
        }
    }
    lasthop_sim::run(scenario, seed_of(seed, replication), &mut memory, observer)
}
