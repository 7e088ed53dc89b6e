//! How fast the model engine is: `cargo bench -p lasthop-sim`.
//!
//! Figures are per second of CPU time, so that a busy machine does not spoil them.

#![allow(clippy::disallowed_macros, reason = "a benchmark prints")]

use std::fs;
use std::path::Path;

use lasthop_core::{
    Bytes, Direction, Distribution, Duration, Instant, Observer, Packet, PacketEvent, QueueSize, Rate, Seed,
    Segment,
};
use lasthop_link::{BufferRelease, LinkConfig, PathConfig, QueueConfig};
use lasthop_scenario::{LanConfig, Roles, Scenario, Study};
use lasthop_sim::{HostMemory, run};
use lasthop_tcp::Profile;
use lasthop_trace::{Analysis, FlowInfo, Protocol, RunInfo};
use lasthop_traffic::{BulkConfig, FlowConfig};

const FLOWS: u64 = 10;
const BYTES_PER_FLOW: u64 = 50_000_000;

fn main() {
    let scenario = long_run();
    let mut packets = Bottleneck::default();
    run(&scenario, SEED, &mut HostMemory::default(), &mut packets);
    let rate = |seconds: f64| packets.0 as f64 / seconds / 1e6;
    println!("{FLOWS} flows over 10 Mbit/s, {} packets over the bottleneck", packets.0);
    println!("  unobserved {:6.2} million packets/s", rate(long(&scenario, |_| ())));
    println!("  analysed   {:6.2} million packets/s", rate(long(&scenario, analysis)));
    let study = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/kulve2003/study.toml");
    let study = Study::from_path(&study).unwrap_or_else(|error| panic!("{error}"));
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
        let mut memory = HostMemory::default();
        for replication in 1..=u64::from(study.replications) {
            let mut analysis = analysis(&cell.scenario);
            let seed = Seed { study: study.seed, replication };
            let end = run(&cell.scenario, seed, &mut memory, &mut analysis);
            assert!(!analysis.finish(end.time).0.is_empty());
        }
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
    let path = PathConfig {
        queue: QueueConfig { limit: QueueSize::Packets(100), red: None },
        link: LinkConfig {
            rate: Rate::from_bits_per_second(10_000_000),
            delay: Duration::from_millis(50),
            overhead: Distribution::Static(Duration::ZERO),
            send_buffer: Bytes(9600),
            release: BufferRelease::Serialised,
        },
    };
    let flow = |index| {
        FlowConfig::BulkTcp(BulkConfig {
            name: format!("tcp-{index}"),
            bytes: Bytes(BYTES_PER_FLOW),
            write: None,
            start: Distribution::Static(Duration::from_millis(100 * index)),
        })
    };
    Scenario {
        mtu: Bytes(1500),
        lan: LanConfig { rate: Rate::from_bits_per_second(100_000_000), delay: Duration::from_micros(150) },
        down: path.clone(),
        up: path,
        errors: None,
        tcp: toml::from_str(Profile::Linux24.toml()).expect("the profile is complete"),
        flow: (0..FLOWS).map(flow).collect(),
        roles: Roles::ByName,
        time_limit: Duration::from_secs(1_000_000),
    }
}

fn analysis(scenario: &Scenario) -> Analysis {
    let flow = |flow: &FlowConfig| {
        let (protocol, payload) = match flow {
            FlowConfig::BulkTcp(bulk) => (Protocol::Tcp, bulk.bytes.0),
            FlowConfig::ConstantUdp(udp) => (Protocol::Udp, udp.total_bytes()),
        };
        FlowInfo { name: flow.name().to_owned(), protocol, payload, start: Instant::ZERO }
    };
    let flows: Vec<FlowInfo> = scenario.flow.iter().map(flow).collect();
    let packet_bytes = scenario.mtu.0 as u32;
    let segment_bytes = packet_bytes - Segment::BASE_HEADER_BYTES;
    let rate_bytes = scenario.down.link.rate.bits_per_second() as f64 / 8.0;
    Analysis::new(&flows, RunInfo { rate_Bps: rate_bytes, segment_bytes, packet_bytes })
}
