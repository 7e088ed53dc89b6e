//! Runs replications of a scenario on the model engine and analyses them.

use lasthop_core::{FlowId, Instant, Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_sim::{HostMemory, RunEnd};
use lasthop_trace::{
    Addresses, Analysis, Capture, CapturePoint, FlowRecord, PageRecord, Recorder, RunRecord,
};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

/// Rows of consecutive replications, with the replication of each.
pub struct Table<R> {
    pub rows: Vec<R>,
    pub replications: Vec<u64>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), replications: Vec::new() }
    }
}

impl<R> Table<R> {
    fn extend(&mut self, replication: u64, rows: Vec<R>) {
        self.replications.extend(rows.iter().map(|_| replication));
        self.rows.extend(rows);
    }
}

/// Records of consecutive replications.
#[derive(Default)]
pub struct Batch {
    pub flows: Table<FlowRecord>,
    pub pages: Table<PageRecord>,
    pub runs: Table<RunRecord>,
}

/// One replication with everything that happened in it.
pub struct Recording {
    pub recorder: Recorder,
    pub flows: Vec<FlowRecord>,
    pub end: Instant,
}

/// Seed of one replication of a study.
pub fn seed_of(study: u64, replication: u64) -> Seed {
    Seed { study, replication }
}

/// Runs replications `first`, `first + 1`, ..., `count` of them, as one chain: what the hosts remember
/// passes from each to the next.
pub fn batch(scenario: &Scenario, seed: u64, first: u64, count: u64) -> Batch {
    let mut memory = HostMemory::default();
    let mut batch = Batch::default();
    for replication in first..first + count {
        let mut analysis = Analysis::of(scenario);
        let end = lasthop_sim::run(scenario, seed_of(seed, replication), &mut memory, &mut analysis);
        let records = analysis.finish(end.time);
        batch.flows.extend(replication, records.flows);
        batch.pages.extend(replication, records.pages);
        batch.runs.extend(replication, vec![records.run]);
    }
    batch
}

/// Runs the chain from `first` and records `replication`.
pub fn record(scenario: &Scenario, seed: u64, first: u64, replication: u64) -> Recording {
    let mut observer = (Analysis::of(scenario), Recorder::default());
    let RunEnd { time, .. } = observe(scenario, seed, first, replication, &mut observer);
    let (analysis, recorder) = observer;
    Recording { recorder, flows: analysis.finish(time).flows, end: time }
}

/// Runs the chain from `first` and writes the packets of `replication` into new files in `folder`:
/// one pcapng per capture point and `drops.csv`. `comment` and the ports of each flow describe them.
pub fn capture(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    folder: &Path,
    comment: &str,
) -> io::Result<()> {
    let create = |name: &str| File::create_new(folder.join(name)).map(BufWriter::new);
    let mut description = vec![comment.to_owned()];
    for (index, info) in (0..).zip(lasthop_traffic::flows(&scenario.flow, scenario.http.as_ref())) {
        let addresses = Addresses::of(FlowId(index), info.server_port)?;
        description.push(format!("flow {index} ({}): {addresses}", info.name));
    }
    let description = description.join("\n");
    let open = |point: CapturePoint| create(&format!("{}.pcapng", point.name()));
    let mut capture = Capture::new(open, create("drops.csv")?, &description)?;
    observe(scenario, seed, first, replication, &mut capture);
    capture.finish().map(drop)
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
