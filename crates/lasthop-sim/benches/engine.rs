//! Measures the speed of the model engine: `cargo bench -p lasthop-sim [-- SCENARIO ... OBSERVER ...]`.
//! Without names, all scenarios and observers are measured.
//!
//! Figures are per second of CPU time, so that a busy machine does not distort them.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints")]

#[path = "../tests/engine/support/mod.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod support;

use std::fs;
use std::path::Path;

use lasthop_core::{Instant, Observer, Packet, PacketEvent, Seed};
use lasthop_scenario::{Cell, Scenario, Study};
use lasthop_sim::{HostMemory, run, try_run_for};
use lasthop_trace::Analysis;
use support::kulve2003;

const SEED: Seed = Seed { study: 1, replication: 1 };

const STUDY: &str = "kulve2003";
const RUNS: [&str; 4] = ["fat", "crowd", "long", STUDY];
const OBSERVERS: [&str; 2] = ["unobserved", "analysed"];

fn main() {
    for file in RUNS.into_iter().filter(|run| *run != STUDY && is_wanted(run, &RUNS)) {
        let scenario = bench(file);
        let mut packets = Delivered::default();
        run(&scenario, SEED, &mut HostMemory::default(), &mut packets);
        println!("{file}, {:.2} million packets", packets.0 as f64 / 1e6);
        for observer in OBSERVERS.into_iter().filter(|observer| is_wanted(observer, &OBSERVERS)) {
            let seconds = match observer {
                "unobserved" => least(&scenario, |_| ()),
                _ => least(&scenario, Analysis::of),
            };
            let rate = packets.0 as f64 / seconds;
            println!("  {observer:10} {:6.2} million packets/s, {:4.0} ns each", rate / 1e6, 1e9 / rate);
        }
    }
    if is_wanted(STUDY, &RUNS) {
        let study = kulve2003();
        let runs = study.cells.len() as u64 * u64::from(study.replications);
        println!("{STUDY}, {runs} runs analysed: {:.2} s", timed(|| whole(&study)));
    }
}

/// True if the command line names it, or names nothing of its kind.
fn is_wanted(name: &str, kind: &[&str]) -> bool {
    let named: Vec<String> = std::env::args().filter(|argument| kind.contains(&argument.as_str())).collect();
    named.is_empty() || named.iter().any(|argument| argument == name)
}

/// A scenario of `benches/scenarios`: its second cell, if there are several.
fn bench(file: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/scenarios");
    let study = Study::from_path(&folder.join(format!("{file}.toml"))).expect("a valid scenario");
    study.cells.get(1).unwrap_or(&study.cells[0]).scenario.clone()
}

/// Counts the packets that arrive: data and ACKs.
#[derive(Default)]
struct Delivered(u64);

impl Observer for Delivered {
    fn packet(&mut self, _now: Instant, event: PacketEvent, _packet: &Packet) {
        self.0 += u64::from(event == PacketEvent::Delivered);
    }
}

/// The fastest of three runs, in seconds.
fn least<O: Observer>(scenario: &Scenario, observer: impl Fn(&Scenario) -> O) -> f64 {
    let once = || timed(|| run_for(scenario, SEED, &mut HostMemory::default(), observer(scenario)));
    (0..3).map(|_| once()).fold(f64::MAX, f64::min)
}

/// All cells and replications, as the command line runs them on one thread.
fn whole(study: &Study) {
    for Cell { scenario, .. } in &study.cells {
        let mut memory = HostMemory::default();
        for replication in 1..=u64::from(study.replications) {
            let seed = Seed { study: study.seed, replication };
            run_for(scenario, seed, &mut memory, Analysis::of(scenario));
        }
    }
}

fn run_for<O: Observer>(scenario: &Scenario, seed: Seed, memory: &mut HostMemory, mut observer: O) {
    try_run_for(scenario, seed, memory, &mut observer, &mut || ()).expect("there is no user code");
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = cpu_nanos();
    work();
    (cpu_nanos() - start) as f64 / 1e9
}

/// CPU time of this process, which has one thread (Linux).
fn cpu_nanos() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel with scheduler statistics");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds on the CPU first")
}
