//! The TCP of a scenario in terms of Linux: sysctls of a network namespace and route metrics. Settings that
//! Linux does not offer are listed, not ignored.

use crate::error::Error;
use crate::namespace::HostConfig;
use lasthop_core::Duration;
use lasthop_scenario::Scenario;
use lasthop_tcp::{CongestionControl, FRtoMode, Pacing, SizeLimit, Stack, TcpConfig};
use lasthop_traffic::{HttpServer, ShortHosts};
use netlink_packet_route::route::RouteMetric;
use serde::Serialize;
use std::fs;

/// Numbers of metrics that take effect only when they are locked (`RTAX_*`).
const LOCK_SSTHRESH: u32 = 1 << 6;
const LOCK_RTO_MIN: u32 = 1 << 13;
/// `RTAX_FEATURE_ECN`.
const FEATURE_ECN: u32 = 1;
/// Linux' timeout before the first sample: `TCP_TIMEOUT_INIT`.
const RTO_INITIAL: Duration = Duration::from_secs(1);
/// Send buffer, large enough that applications never wait.
const WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// Minimum receive buffer, including the kernel's overhead for each packet.
const READ_BUFFER_BYTES_MIN: u64 = 1 << 20;

/// Settings of a host, and their differences from the scenario.
#[derive(Clone, Debug)]
pub struct Features {
    /// The host, without further addresses.
    pub host: HostConfig,
    pub differences: Vec<Difference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The scenario's setting, and the behaviour of Linux.
    pub what: String,
    pub effect: &'static str,
}

impl Features {
    pub fn of(scenario: &Scenario, tcp: &TcpConfig) -> Self {
        let segment = scenario.segment_bytes_with(tcp);
        let sysctls: Vec<_> = sysctls(tcp, segment)
            .into_iter()
            // Some of them exist only in later kernels.
            .filter(|(name, _)| has_sysctl(name))
            .map(|(name, value)| (format!("ipv4/{name}"), value))
            .collect();
        let metrics = metrics(tcp, segment, tcp.initial_window, tcp.receive_window_initial);
        let discipline = (tcp.pacing == Pacing::Fq).then_some("fq");
        let host = HostConfig { sysctls, metrics, discipline, ..HostConfig::default() };
        let server = scenario.http.as_ref().map(|http| http.server).unwrap_or_default();
        let differences = differences(tcp, has_accurate_ecn());
        let differences = differences.into_iter().chain(server_difference(server, tcp)).collect();
        Self { host, differences }
    }
}

fn has_sysctl(name: &str) -> bool {
    fs::exists(format!("/proc/sys/net/ipv4/{name}")).unwrap_or(false)
}

/// True if this kernel has the ECN of RFC 9768 (Linux 6.18).
fn has_accurate_ecn() -> bool {
    has_sysctl("tcp_ecn_option")
}

/// The metrics of the routes between hosts of short flows, which have separate addresses for that purpose.
pub fn short_metrics(scenario: &Scenario, tcp: &TcpConfig, hosts: &ShortHosts) -> Vec<RouteMetric> {
    let segment = scenario.segment_bytes_with(tcp);
    metrics(tcp, segment, hosts.initial_window, hosts.receive_window_initial)
}

fn short_hosts(scenario: &Scenario) -> impl Iterator<Item = &ShortHosts> {
    scenario.flow.iter().flat_map(|flow| flow.traffic().later_flows())
}

fn metrics(
    tcp: &TcpConfig,
    segment: u32,
    initial_window: u32,
    receive_window_initial: u32,
) -> Vec<RouteMetric> {
    let mut locks = LOCK_RTO_MIN;
    let mut metrics = vec![
        RouteMetric::InitCwnd(initial_window),
        RouteMetric::InitRwnd(receive_window_initial),
        // A window never shrinks.
        RouteMetric::Window(window_bytes(tcp, segment).max(receive_window_initial * segment)),
        RouteMetric::RtoMin((tcp.rto_min.as_nanos() / 1_000_000) as u32),
        RouteMetric::CcAlgo(tcp.congestion_control.to_string()),
    ];
    if let SizeLimit::Bytes(bytes) = tcp.initial_ssthresh {
        metrics.push(RouteMetric::SsThresh((bytes.0 / u64::from(segment)).max(2) as u32));
        locks |= LOCK_SSTHRESH;
    }
    if tcp.ecn {
        metrics.push(RouteMetric::Features(FEATURE_ECN));
    }
    if tcp.ack_every == 1 {
        metrics.push(RouteMetric::QuickAck(1));
    }
    metrics.push(RouteMetric::Lock(locks));
    metrics
}

/// The largest window that any host of the scenario with this TCP advertises, in bytes.
pub fn receive_window_max(scenario: &Scenario, tcp: &TcpConfig) -> u32 {
    let initial = short_hosts(scenario).map(|hosts| hosts.receive_window_initial);
    let segments = initial.fold(tcp.receive_window_max, u32::max);
    segments.saturating_mul(scenario.segment_bytes_with(tcp))
}

fn window_bytes(tcp: &TcpConfig, segment: u32) -> u32 {
    tcp.receive_window_max.saturating_mul(segment)
}

fn sysctls(tcp: &TcpConfig, segment: u32) -> Vec<(&'static str, String)> {
    let switch = |on: bool| u8::from(on).to_string();
    let read_buffer = READ_BUFFER_BYTES_MIN.max(4 * u64::from(window_bytes(tcp, segment)));
    let write_buffer = match tcp.send_buffer {
        SizeLimit::Infinite => WRITE_BUFFER_BYTES,
        SizeLimit::Bytes(bytes) => bytes.0,
    };
    let millis = |duration: Duration| (duration.as_nanos() / 1_000_000).to_string();
    vec![
        ("tcp_sack", switch(tcp.sack)),
        ("tcp_dsack", switch(tcp.dsack)),
        ("tcp_timestamps", switch(tcp.timestamps)),
        ("tcp_window_scaling", switch(tcp.window_scaling)),
        ("tcp_frto", if tcp.frto == FRtoMode::Off { "0" } else { "2" }.into()),
        ("tcp_ecn", if tcp.accurate_ecn && has_accurate_ecn() { "3".into() } else { switch(tcp.ecn) }),
        ("tcp_ecn_option", if tcp.accurate_ecn_option { "2" } else { "0" }.into()),
        ("tcp_no_metrics_save", switch(!tcp.cached_metrics)),
        ("tcp_no_ssthresh_metrics_save", switch(!tcp.cached_metrics)),
        ("tcp_reordering", tcp.dupack_threshold.to_string()),
        ("tcp_syn_retries", tcp.syn_retries.to_string()),
        ("tcp_retries2", tcp.retries.to_string()),
        ("tcp_fin_timeout", (tcp.fin_timeout.as_nanos() / 1_000_000_000).max(1).to_string()),
        ("tcp_rto_max_ms", millis(tcp.rto_max.max(Duration::from_secs(1)).min(Duration::from_secs(120)))),
        ("tcp_rmem", format!("4096 {read_buffer} {read_buffer}")),
        ("tcp_wmem", format!("4096 {write_buffer} {write_buffer}")),
        ("tcp_moderate_rcvbuf", "0".into()),
        ("tcp_early_retrans", if tcp.tail_loss_probe { "3" } else { "0" }.into()),
        ("tcp_recovery", switch(tcp.rack)),
        // Features that no scenario has: merged or limited ACKs, fast open.
        ("tcp_comp_sack_nr", "0".into()),
        ("tcp_backlog_ack_defer", "0".into()),
        ("tcp_invalid_ratelimit", "0".into()),
        ("tcp_fastopen", "0".into()),
    ]
}

/// True if Linux behaves like the scenario; otherwise the difference and its effect.
type Setting = (bool, String, &'static str);

/// `accurate_ecn` is true if the kernel supports it.
fn differences(tcp: &TcpConfig, accurate_ecn: bool) -> Vec<Difference> {
    let settings = recovery_settings(tcp).into_iter().chain(timing_settings(tcp, accurate_ecn));
    let different = settings.filter(|(is_same, ..)| !is_same);
    different.map(|(_, what, effect)| Difference { what, effect }).collect()
}

/// Rejects a TCP that is older than Linux: Linux has no switches for it.
pub fn needs_linux(tcp: &TcpConfig) -> Result<(), Error> {
    if tcp.stack != Stack::Classic {
        return Ok(());
    }
    Err(Error::new(format!(
        "tcp.stack = \"classic\" runs on the model engine only: Linux has no switch for recovery = {} and \
         clocks of \"{}\"; use --engine model, or profile = \"linux-6\"",
        word(tcp.recovery),
        tcp.tick
    )))
}

/// Why hosts cannot use the congestion control, if this kernel lacks it.
pub fn missing_algorithm(tcp: &TcpConfig) -> Option<Error> {
    let offered = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").ok()?;
    missing_from(&offered, &tcp.congestion_control.to_string())
}

fn missing_from(offered: &str, wanted: &str) -> Option<Error> {
    if offered.split_whitespace().any(|name| name == wanted) {
        return None;
    }
    let offered: Vec<_> = offered.split_whitespace().collect();
    Some(Error::new(format!(
        "congestion_control = \"{wanted}\": this kernel offers {}; choose one of these, or load the module \
         tcp_{wanted} as root",
        offered.join(", ")
    )))
}

fn server_difference(server: HttpServer, tcp: &TcpConfig) -> Vec<Difference> {
    let process = Difference {
        what: "server = \"nginx\": it is a separate process, and pipelined responses may share a segment"
            .into(),
        effect: "Responses leave some tenths of a millisecond later, in slightly fewer segments.",
    };
    let pacing = Difference {
        what: "pacing = true: nginx' sockets do not pace".into(),
        effect: "Its responses leave in bursts, as with pacing = false.",
    };
    match server {
        HttpServer::Nginx if tcp.pacing == Pacing::Socket => vec![process, pacing],
        HttpServer::Nginx => vec![process],
        HttpServer::BuiltIn => vec![],
    }
}

fn recovery_settings(tcp: &TcpConfig) -> Vec<Setting> {
    let modern = tcp.stack == Stack::Linux6;
    vec![
        (
            modern,
            format!(
                "recovery = {}: Linux marks lost segments by RFC 6675 or RACK and lowers its window by \
             proportional rate reduction (RFC 6937)",
                word(tcp.recovery)
            ),
            "One recovery repairs all losses of a window without waiting for partial ACKs: fewer timeouts, and \
         fairer sharing of the link afterwards.",
        ),
        (
            modern,
            format!("max_burst = {}: Linux does not moderate bursts this way", tcp.max_burst),
            "After an ACK for much data, more segments leave back to back: slightly more drops at a short queue.",
        ),
        (
            tcp.limited_transmit,
            "limited_transmit = false: Linux always uses it".into(),
            "With small windows, duplicate ACKs reveal a loss for which the scenario waits for a timeout.",
        ),
        (
            !tcp.early_retransmit,
            "early_retransmit = true: Linux no longer has it".into(),
            "A loss among the last few segments waits for a timeout where the scenario has a fast retransmit.",
        ),
        (
            tcp.eifel == tcp.timestamps,
            format!("eifel = {}: Linux uses timestamps for undo whenever they are on", tcp.eifel),
            "Matters after spurious timeouts and retransmissions, as on links with ARQ: their cost differs.",
        ),
        (
            matches!(tcp.frto, FRtoMode::Off | FRtoMode::Rfc5682Sack),
            format!("frto = {}: Linux has the version of RFC 5682", word(tcp.frto)),
            "Matters after spurious timeouts, as on links with ARQ: SACK detects more of them.",
        ),
    ]
}

/// The times and numbers of segments and ACKs.
fn timing_settings(tcp: &TcpConfig, accurate_ecn: bool) -> Vec<Setting> {
    vec![
        (
            tcp.handshake_rtt || tcp.timestamps,
            "handshake_rtt = false: Linux uses the round-trip time of the handshake".into(),
            "The first timeouts come sooner: more of them are spurious, especially on links with ARQ.",
        ),
        (
            tcp.delayed_ack_adapts,
            format!(
                "delayed_ack = \"{}\": Linux adapts the time, from 40 to 200 ms, and acknowledges the first \
             segments immediately (quick ACKs)",
                tcp.delayed_ack
            ),
            "In slow start, the window doubles every round trip instead of growing by half, and overshoots \
         further: more drops at the end.",
        ),
        (
            !tcp.hystart_plus_plus,
            "hystart_plus_plus = true: Linux has HyStart with CUBIC, and standard slow start with Reno"
                .into(),
            "Slow start ends at another window: with Reno at losses, with CUBIC when the delay grows.",
        ),
        (
            tcp.pacing != Pacing::Never || tcp.congestion_control != CongestionControl::Bbr,
            "pacing = \"never\": Linux has always paced BBR since 4.13".into(),
            "BBR sends a quarter more than it has measured, not twice as much: it tolerates fewer losses.",
        ),
        (
            accurate_ecn || !tcp.accurate_ecn,
            "accurate_ecn = true: this Linux has the ECN of RFC 3168; accurate ECN needs 6.18".into(),
            "A sender learns of one mark per round trip.",
        ),
        (
            tcp.rto_initial == RTO_INITIAL,
            format!("rto_initial = \"{}\": Linux has \"{RTO_INITIAL}\"", tcp.rto_initial),
            "Matters if a SYN is lost, or if the first round trip takes longer: the SYN is sent again sooner.",
        ),
        (
            tcp.ack_every <= 2,
            format!("ack_every = {}: Linux acknowledges at least every second segment", tcp.ack_every),
            "More ACKs in the reverse direction, and a window that grows faster.",
        ),
        (
            tcp.receive_window_growth == 2,
            format!(
                "receive_window_growth = {}: Linux' window grows by 2 segments per segment",
                tcp.receive_window_growth
            ),
            "Matters in the first round trips if the receiver's window limits the sender.",
        ),
        (
            tcp.compact_syn || !(tcp.sack && tcp.timestamps),
            "compact_syn = false: Linux permits SACK in the padding of the timestamps".into(),
            "SYN and SYN-ACK are four bytes shorter.",
        ),
        (
            !tcp.cached_metrics,
            format!(
                "cached_initial_window = {}: Linux always starts with initial_window",
                word(tcp.cached_initial_window)
            ),
            "The first flight of later connections is up to two segments smaller.",
        ),
    ]
}

/// A value in the notation of scenarios.
fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_string(&value).expect("a switch is a word")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_scenario::Study;
    use std::path::Path;

    fn features(tcp: &str) -> Features {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/kulve2003/study.toml");
        let text = fs::read_to_string(path).unwrap();
        let text = text.replace("profile = \"linux-2.4\"", &format!("profile = \"linux-2.4\"\n{tcp}"));
        let scenario = &Study::from_str(&text, "study.toml").unwrap().cells[0].scenario;
        Features::of(scenario, &scenario.tcp)
    }

    fn value(features: &Features, name: &str) -> String {
        let found = features.host.sysctls.iter().find(|(key, _)| key == &format!("ipv4/{name}"));
        found.unwrap_or_else(|| panic!("{name} is not set")).1.clone()
    }

    #[test]
    fn switches_become_sysctls_and_metrics() {
        let on = features("dsack = true\ntimestamps = true\neifel = true\necn = true\ncached_metrics = true");
        assert_eq!(["tcp_dsack", "tcp_timestamps", "tcp_ecn"].map(|name| value(&on, name)), ["1"; 3]);
        assert_eq!(value(&on, "tcp_no_metrics_save"), "0");
        assert!(on.host.metrics.contains(&RouteMetric::Features(FEATURE_ECN)));
        assert!(on.host.metrics.contains(&RouteMetric::Window(64 * 524)));
        let off = features("");
        assert_eq!(["tcp_dsack", "tcp_timestamps", "tcp_ecn"].map(|name| value(&off, name)), ["0"; 3]);
        assert_eq!(value(&off, "tcp_no_metrics_save"), "1");
        assert!(off.host.metrics.contains(&RouteMetric::InitCwnd(2)));
        assert!(off.host.metrics.contains(&RouteMetric::CcAlgo("reno".into())));
        let bbr = features("congestion_control = \"bbr\"");
        assert!(bbr.host.metrics.contains(&RouteMetric::CcAlgo("bbr".into())));
    }

    #[test]
    fn an_algorithm_that_the_kernel_lacks_is_named_with_those_it_has() {
        assert_eq!(missing_from("reno cubic\n", "cubic"), None);
        let error = missing_from("reno cubic\n", "bbr").unwrap().to_string();
        assert!(error.contains("\"bbr\": this kernel offers reno, cubic;"), "{error}");
    }

    #[test]
    fn linux_6_is_what_linux_does() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/diffserv.toml");
        let text = fs::read_to_string(path).unwrap().replace("\"linux-2.4\"", "\"linux-6\"");
        let scenario = &Study::from_str(&text, "x.toml").unwrap().cells[0].scenario;
        let features = Features::of(scenario, &scenario.tcp);
        assert!(features.differences.is_empty(), "{:?}", features.differences);
        let tcp =
            TcpConfig { hystart_plus_plus: true, ecn: true, accurate_ecn: true, ..scenario.tcp.clone() };
        let names = |accurate_ecn| -> Vec<_> {
            differences(&tcp, accurate_ecn).into_iter().map(|difference| difference.what).collect()
        };
        let (old, new) = (names(false), names(true));
        assert_eq!((old.len(), new.len()), (2, 1), "{old:?} {new:?}");
        assert!(old[0].starts_with("hystart_plus_plus") && old[1].starts_with("accurate_ecn"), "{old:?}");
        assert_eq!(new[0], old[0]);
        assert_eq!(["tcp_early_retrans", "tcp_recovery"].map(|name| value(&features, name)), ["3", "1"]);
    }

    #[test]
    fn what_linux_cannot_do_is_said() {
        let said = |tcp: &str, word: &str| {
            features(tcp).differences.iter().any(|difference| difference.what.starts_with(word))
        };
        assert!(said("", "recovery = \"linux-in-flight\""));
        assert!(said("limited_transmit = false", "limited_transmit"));
        assert!(!said("", "limited_transmit"));
        assert!(said("frto = \"2002\"", "frto = \"2002\""));
        assert!(!said("frto = \"rfc5682-sack\"", "frto"));
        assert!(said("timestamps = true", "eifel = false"));
        assert!(!said("congestion_control = \"bbr\"", "pacing"));
        assert!(said("rto_initial = \"3 s\"", "rto_initial"));
        assert!(!said("rto_initial = \"1 s\"", "rto_initial"));
        assert!(
            said("timestamps = true", "compact_syn")
                && !said("timestamps = true\ncompact_syn = true", "compact_syn")
        );
    }
}
