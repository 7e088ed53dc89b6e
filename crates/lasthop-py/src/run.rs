//! Runs replications of a scenario on the model engine and analyses them.

use lasthop_core::{FlowId, Instant, Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_sim::{HostMemory, RunEnd};
use lasthop_trace::{
    Addresses, Analysis, Batch, Capture, CapturePoint, DROPS_FILE, FlowRecord, Recorder, Table,
};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// One replication with everything that happened in it.
pub struct Recording {
    pub recorder: Recorder,
    pub flows: Table<FlowRecord>,
    pub end: Instant,
}

/// Where the captures of a replication go, and what its files say of themselves.
pub struct CaptureTarget {
    /// An existing folder without captures.
    pub folder: PathBuf,
    /// Leads the description of each file.
    pub comment: String,
    /// Bytes kept of a packet at most.
    pub snap_length: u32,
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
    let mut batch = Batch::default();
    let mut targets = targets.iter();
    for replication in first..first + count {
        let mut analysis = Analysis::of(scenario);
        let seed = seed_of(seed, replication);
        let end = if let Some(target) = targets.next() {
            let mut observer = (analysis, start_capture(scenario, target)?);
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
    let mut batch = Batch::default();
    batch.add(replication, analysis.finish(time));
    Recording { recorder, flows: batch.flows, end: time }
}

/// Runs the chain from `first` and captures `replication`.
pub fn capture(
    scenario: &Scenario,
    (seed, first, replication): (u64, u64, u64),
    target: &CaptureTarget,
) -> io::Result<()> {
    let mut capture = start_capture(scenario, target)?;
    observe(scenario, seed, first, replication, &mut capture);
    capture.finish().map(drop)
}

/// Makes the files of a capture, new ones: a pcapng per capture point and the side table. The comment and
/// the ports of each flow describe them.
fn start_capture(scenario: &Scenario, target: &CaptureTarget) -> io::Result<Capture<BufWriter<File>>> {
    let folder: &Path = &target.folder;
    let create = |name: &str| File::create_new(folder.join(name)).map(BufWriter::new);
    let mut description = vec![target.comment.clone()];
    for (index, info) in (0..).zip(lasthop_traffic::flows(&scenario.flow, scenario.http.as_ref())) {
        let addresses = Addresses::of(FlowId(index), info.server_port)?;
        description.push(format!("flow {index} ({}): {addresses}", info.name));
    }
    let description = description.join("\n");
    let open = |point: CapturePoint| create(point.file_name());
    Capture::new(open, create(DROPS_FILE)?, &description, target.snap_length)
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
