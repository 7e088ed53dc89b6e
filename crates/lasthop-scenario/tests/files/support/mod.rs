//! A small valid file, and functions that change it.

use lasthop_scenario::{ScenarioError, Study};

/// A valid file; the line numbers in tests count from its first line.
pub const BASE: &str = r#"name = "small"
title = "Small"
seed = 7
replications = 3
mtu = "576 B"
time_limit = "300 s"
[lan]
rate = "100 Mbit/s"
delay = "0.15 ms"
[down]
queue.limit = "20 packets"
[down.link]
rate = "64 kbit/s"
delay = "300 ms"
send_buffer = "9600 B"
release = "acknowledged"
[up]
queue.limit = "1 packet"
[up.link]
rate = "64 kbit/s"
delay = "300 ms"
send_buffer = "9600 B"
release = "serialised"
[tcp]
profile = "linux-2.4"
sack = true
[[flow]]
kind = "bulk-tcp"
name = "tcp-1"
bytes = "188640 B"
start = "0 s"
[[flow]]
kind = "constant-udp"
name = "udp"
rate = "32 kbit/s"
payload = "512 B"
duration = "180 s"
start = { distribution = "uniform", min = "0 s", max = "100 ms" }
"#;

/// The shortest valid file.
pub const SHORT: &str = r#"[down.link]
rate = "1 Mbit/s"
delay = "50 ms"
[[flow]]
kind = "bulk-tcp"
bytes = "1 MB"
"#;

/// Three factors on top of [`BASE`]; they begin at line 39.
pub const FACTORS: &str = r#"[factor.link.e0]
[factor.link.r1]
errors = { good = { distribution = "exponential", mean = "15 s", min = "1 s", max = "20 s" }, bad = { distribution = "uniform", min = "0.2 s", max = "1.5 s" }, packet_error_probability = 0.63, arq = { retransmissions = 1, delay = "700 ms" } }
[factor.workload.both]
[[factor.workload.tcp.flow]]
kind = "bulk-tcp"
name = "only"
bytes = "10 kB"
start = "0 s"
[factor.variant.baseline]
[factor.variant."eifel+red"]
tcp.timestamps = true
down.queue.red = { min = "2 packets", max = "7 packets", max_probability = 0.1, weight = 0.002, idle_packet_time = "187.5 ms" }
"#;

/// Reads a text that must be valid.
#[track_caller]
pub fn read(text: &str) -> Study {
    Study::from_str(text, "f.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a text that must be invalid.
#[track_caller]
pub fn errors(text: &str) -> Vec<ScenarioError> {
    match Study::from_str(text, "f.toml") {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors.as_slice().to_vec(),
    }
}

/// Reads a text with one fault.
#[track_caller]
pub fn error(text: &str) -> ScenarioError {
    let errors = errors(text);
    let [error] = &errors[..] else { panic!("{text}\n{errors:#?}") };
    error.clone()
}

/// The base with its first `from` replaced.
#[track_caller]
pub fn base_with(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    BASE.replacen(from, to, 1)
}
