//! How fast the model engine is: `cargo bench -p lasthop-sim`.
//!
//! Figures are per second of CPU time, so that a busy machine does not spoil them.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints")]

#[path = "../tests/engine/support/mod.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod support;

use std::fs;

use lasthop_core::{Direction, Duration, Instant, Observer, Packet, PacketEvent, QueueSize, Seed};
use lasthop_scenario::{Scenario, Study};
use lasthop_sim::{HostMemory, run};
use lasthop_trace::Analysis;
use support::{bulk, kulve2003, path, replications, scenario};

const FLOWS: u64 = 10;
const BYTES_PER_FLOW: u64 = 50_000_000;

fn main() {
    let scenario = long_run();
    let mut packets = Bottleneck::default();
    run(&scenario, SEED, &mut HostMemory::default(), &mut packets);
    let rate = |seconds: f64| packets.0 as f64 / seconds / 1e6;
    println!("{FLOWS} flows over 10 Mbit/s, {} packets over the bottleneck", packets.0);
    println!("  unobserved {:6.2} million packets/s", rate(long(&scenario, |_| ())));
    println!("  analysed   {:6.2} million packets/s", rate(long(&scenario, Analysis::of)));
    let study = kulve2003();
    let runs = study.cells.len() as u64 * u64::from(study.replications);
    println!("kulve2003, {runs} runs analysed: {:.2} s", timed(|| whole(&study)));
}

const SEED: Seed = Seed { study: 1, replication: 1 };

/// Counts what goes down: data, the bulk of all packets over the bottleneck.
#[derive(Default)]
struct Bottleneck(u64);

impl Observer for Bottleneck {
    fn packet(&mut self, _now: Instant, event: PacketEvent, packet: &Packet) {
        let serialised = matches!(event, PacketEvent::Dequeued(_)) && packet.direction == Direction::Down;
        self.0 += u64::from(serialised);
    }
}

/// The fastest of three, in seconds.
fn long<O: Observer>(scenario: &Scenario, observer: impl Fn(&Scenario) -> O) -> f64 {
    let once = || {
        timed(|| {
            run(scenario, SEED, &mut HostMemory::default(), &mut observer(scenario));
        })
    };
    (0..3).map(|_| once()).fold(f64::MAX, f64::min)
}

/// All cells and replications, as the command line runs them on one thread.
fn whole(study: &Study) {
    for cell in &study.cells {
        replications(&cell.scenario, study.seed, u64::from(study.replications));
    }
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

fn long_run() -> Scenario {
    let link = path(10_000_000, Duration::from_millis(50), QueueSize::Packets(100), 9600);
    let flow = |index| bulk(&format!("tcp-{index}"), BYTES_PER_FLOW, Duration::from_millis(100 * index));
    scenario(1500, &link, (0..FLOWS).map(flow).collect())
}
