//! Shared helpers of the engine's tests: the study, analysed runs, small scenarios.

use std::collections::BTreeMap;

use std::num::NonZeroU16;
use std::path::Path;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Observer, QueueSize, Rate, Seed};
use lasthop_link::{BufferRelease, LinkConfig, PathConfig, QueueConfig};
use lasthop_scenario::{Flow, LanConfig, Roles, RouterConfig, Scenario, Study};
use lasthop_sim::{HostMemory, RunEnd, run};
use lasthop_tcp::{Profile, TcpConfig};
use lasthop_trace::{Analysis, Records};
use lasthop_traffic::{BulkConfig, ConstantUdpConfig, FlowConfig, HttpConfig, HttpPageConfig, HttpProtocol};

/// The study kulve2003 as shipped.
pub fn kulve2003() -> Study {
    study("kulve2003")
}

/// A study as shipped.
pub fn study(name: &str) -> Study {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies").join(name).join("study.toml");
    Study::from_path(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// The scenario of the cell with this key.
pub fn cell<'a>(study: &'a Study, key: &str) -> &'a Scenario {
    let cell = study.cells.iter().find(|cell| cell.key() == key);
    &cell.unwrap_or_else(|| panic!("no cell {key}")).scenario
}

/// Runs once, with empty memory, under an observer, and returns it.
pub fn observe<O: Observer>(scenario: &Scenario, seed: Seed, mut observer: O) -> (O, RunEnd) {
    let end = run(scenario, seed, &mut HostMemory::default(), &mut observer);
    (observer, end)
}

/// The records of replications 1 to `count`, as one chain.
pub fn replications(scenario: &Scenario, study: u64, count: u64) -> Vec<Records> {
    let mut memory = HostMemory::default();
    let one = |replication| {
        let mut analysis = Analysis::of(scenario);
        let end = run(scenario, Seed { study, replication }, &mut memory, &mut analysis);
        analysis.finish(end.time)
    };
    (1..=count).map(one).collect()
}

/// All switches as the profile linux-2.4 sets them.
pub fn linux24() -> TcpConfig {
    toml::from_str(Profile::Linux24.toml()).expect("the profile is complete")
}

/// One direction: a drop-tail queue in front of a link without overhead.
pub fn path(rate: u64, delay: Duration, queue: QueueSize, send_buffer: u64) -> PathConfig {
    PathConfig {
        policer: None,
        blackhole: None,
        queue: QueueConfig::drop_tail(queue),
        htb: None,
        grant: None,
        link: LinkConfig {
            rate: Rate::from_bits_per_second(rate),
            trace: None,
            course: None,
            framing: None,
            header_compression: None,
            delay,
            change: Vec::new(),
            overhead: Distribution::Static(Duration::ZERO),
            send_buffer: Bytes(send_buffer),
            receive_buffer: None,
            release: BufferRelease::Serialised,
            loss: None,
            bit_error_rate: None,
            gilbert_elliott: None,
            error_model: None,
            errors: None,
            jitter: None,
            reorder: false,
            slots: None,
            corrupt: None,
            duplicate: None,
        },
    }
}

/// A scenario without errors and with equal directions.
pub fn scenario(mtu: u64, both: &PathConfig, flow: Vec<FlowConfig>) -> Scenario {
    Scenario {
        mtu: Bytes(mtu),
        lan: Some(LanConfig {
            rate: Rate::from_bits_per_second(100_000_000),
            delay: Duration::from_micros(150),
        }),
        down: Some(both.clone()),
        up: Some(both.clone()),
        hop: BTreeMap::new(),
        host: BTreeMap::new(),
        atm: None,
        medium: None,
        router: RouterConfig::default(),
        errors: None,
        tcp: linux24(),
        http: None,
        flow: flow.into_iter().map(Flow::from).collect(),
        roles: Roles::ByName,
        time_limit: Duration::from_secs(1_000_000),
        measure: None,
        kernel: None,
    }
}

/// A bulk transfer of `bytes` that starts at `start`.
pub fn bulk(name: &str, bytes: u64, start: Duration) -> FlowConfig {
    let start = Distribution::Static(start);
    FlowConfig::BulkTcp(BulkConfig {
        name: name.into(),
        bytes: Some(Bytes(bytes)),
        duration: None,
        write: None,
        start,
        dscp: Dscp::default(),
        port: None,
    })
}

/// A stream of datagrams of `payload` bytes.
pub fn udp(name: &str, rate: u64, payload: u64, duration: Duration, start: Duration) -> FlowConfig {
    FlowConfig::ConstantUdp(ConstantUdpConfig {
        name: name.into(),
        rate: Rate::from_bits_per_second(rate),
        payload: Bytes(payload),
        duration,
        start: Distribution::Static(start),
        dscp: Dscp::default(),
        ecn: None,
        port: None,
    })
}

/// How pages are loaded: requests of 100 bytes, no response headers, in-line objects after the main one.
pub fn http(protocol: HttpProtocol, connections: u32) -> HttpConfig {
    HttpConfig {
        protocol,
        connections,
        request: Bytes(100),
        response_header: Bytes(0),
        header_write: lasthop_traffic::HeaderWrite::Together,
        inline_after: None,
        close_after: Duration::ZERO,
        server_closes: false,
        server: lasthop_traffic::HttpServer::BuiltIn,
    }
}

/// A page load of a main object and `inline_count` in-line ones, of `bytes` each.
pub fn page(name: &str, bytes: u64, inline_count: u32, start: Duration) -> FlowConfig {
    FlowConfig::HttpPage(HttpPageConfig {
        name: name.into(),
        start: Distribution::Static(start),
        main: Bytes(bytes),
        inline: Bytes(bytes),
        inline_count,
        dscp: Dscp::default(),
        port: NonZeroU16::new(80).expect("not zero"),
    })
}
