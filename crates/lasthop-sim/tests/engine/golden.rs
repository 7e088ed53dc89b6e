//! Outcomes of a grid of losses, queues and switches, to the packet and the nanosecond. Every change of
//! behaviour shows as a difference of `golden/outcomes.txt`, or of `golden/pages.txt` for page loads.
//!
//! After an intended change: `UPDATE_GOLDEN=1 cargo test -p lasthop-sim --test engine golden`, and read the
//! difference before committing it.

use std::fmt::Write;
use std::{env, fs, path::Path};

use crate::support::{bulk, http, linux24, page, path, replications, scenario};
use lasthop_core::{Bytes, Distribution, Duration, Probability, QueueSize};
use lasthop_link::{ErrorConfig, Start};
use lasthop_scenario::Scenario;
use lasthop_tcp::{FRtoMode, TcpConfig};
use lasthop_trace::Records;
use lasthop_traffic::{FlowConfig, HttpConfig, HttpProtocol};

const HEADER: &str =
    "switch      queue  loss  seed  flow   elapsed_s      drops  retx  unnecessary  timeouts  spurious";

const PAGES_HEADER: &str =
    "protocol          connections  loss  seed  response_s     objects  opened  aborted";

/// Two transfers over 64 kbit/s and 300 ms; `loss` in percent, without ARQ.
fn cell(tcp: TcpConfig, queue: u32, loss: u32) -> Scenario {
    let flows =
        vec![bulk("tcp-1", 100_000, Duration::ZERO), bulk("tcp-2", 100_000, Duration::from_millis(50))];
    lossy(tcp, queue, loss, flows)
}

fn lossy(tcp: TcpConfig, queue: u32, loss: u32, flows: Vec<FlowConfig>) -> Scenario {
    let link = path(64_000, Duration::from_millis(300), QueueSize::Packets(queue), 9600);
    let errors = ErrorConfig {
        start: Start::Good,
        // The link is always in the bad state.
        good: Distribution::Static(Duration::ZERO),
        bad: Distribution::Static(Duration::from_secs(1)),
        packet_error_probability: Some(Probability::new(f64::from(loss) / 100.0).expect("a percentage")),
        bit_error_rate: None,
        arq: None,
    };
    Scenario { tcp, errors: (loss > 0).then_some(errors), ..scenario(576, &link, flows) }
}

fn switches() -> Vec<(&'static str, TcpConfig)> {
    vec![
        ("sack", linux24()),
        ("no-sack", TcpConfig { sack: false, ..linux24() }),
        ("timestamps", TcpConfig { timestamps: true, eifel: true, ..linux24() }),
        ("frto", TcpConfig { frto: FRtoMode::Draft2002, ..linux24() }),
    ]
}

fn table() -> String {
    let mut table = format!("{HEADER}\n");
    for (switch, tcp) in switches() {
        for queue in [5, 20, 50] {
            for loss in [0, 1, 3] {
                for seed in [1, 2] {
                    let label = format!("{switch:<11} {queue:>5}  {loss:>3}%  {seed:>4}");
                    rows(&mut table, &label, &cell(tcp.clone(), queue, loss), seed);
                }
            }
        }
    }
    table
}

/// One line for each flow.
fn rows(table: &mut String, label: &str, scenario: &Scenario, seed: u64) {
    for Records { flows, .. } in replications(scenario, seed, 1) {
        for flow in flows {
            let elapsed_s = flow.elapsed_s.map_or("-".into(), |elapsed_s| format!("{elapsed_s:.9}"));
            writeln!(
                table,
                "{label}  {}  {elapsed_s:>13}  {:>5}  {:>4}  {:>11}  {:>8}  {:>8}",
                flow.flow,
                flow.data_drops_queue + flow.data_drops_error,
                flow.retransmitted_packets,
                flow.unnecessary_retransmissions,
                flow.timeouts,
                flow.spurious_timeouts,
            )
            .expect("writing to a string");
        }
    }
}

/// A page of nine objects of 8 kB.
fn pages() -> String {
    let mut table = format!("{PAGES_HEADER}\n");
    for (name, protocol, connections) in [
        ("http1.0", HttpProtocol::Http10, 4),
        ("http1.1", HttpProtocol::Http11, 2),
        ("http1.1-pipelined", HttpProtocol::Http11Pipelined, 1),
    ] {
        for loss in [0, 3] {
            let http = HttpConfig { inline_after: Some(Bytes(4000)), ..http(protocol, connections) };
            let flows = vec![page("page", 8000, 8, Duration::ZERO)];
            let scenario = Scenario { http: Some(http), ..lossy(linux24(), 20, loss, flows) };
            for Records { pages, .. } in replications(&scenario, 1, 1) {
                let page = &pages[0];
                let response_s = page.response_time_s.map_or("-".into(), |time_s| format!("{time_s:.9}"));
                writeln!(
                    table,
                    "{name:<17} {connections:>11}  {loss:>3}%  {:>4}  {response_s:>13}  {:>7}  {:>6}  {:>7}",
                    1, page.objects_received, page.connections, page.connections_aborted
                )
                .expect("writing to a string");
            }
        }
    }
    table
}

/// The lines that differ: `-` for lines in the file, `+` for the current ones.
fn difference(golden: &str, now: &str) -> String {
    let mut difference = String::new();
    let lines = golden.lines().count().max(now.lines().count());
    for index in 0..lines {
        let (old, new) = (golden.lines().nth(index), now.lines().nth(index));
        if old != new {
            for (sign, line) in [('-', old), ('+', new)] {
                if let Some(line) = line {
                    writeln!(difference, "{sign} {line}").expect("writing to a string");
                }
            }
        }
    }
    difference
}

#[test]
fn outcomes_are_those_of_the_golden_table() {
    compare("outcomes.txt", &table());
}

#[test]
fn page_loads_are_those_of_the_golden_table() {
    compare("pages.txt", &pages());
}

fn compare(name: &str, now: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/golden").join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, now).expect("the table can be written");
    }
    let golden = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        golden == now,
        "the outcomes differ from tests/engine/golden/{name}:\n{}\nIf the change is intended: \
         UPDATE_GOLDEN=1 cargo test -p lasthop-sim --test engine golden",
        difference(&golden, now)
    );
}

#[test]
fn a_difference_shows_both_lines() {
    assert_eq!(difference("same\nold\n", "same\nnew\nmore\n"), "- old\n+ new\n+ more\n");
    assert_eq!(difference("same\n", "same\n"), "");
}
