//! Settings of the kernel and options of a script, as switches of the model.

use lasthop_core::Duration;
use lasthop_tcp::{CongestionControl, FRtoMode, Pacing, Stack, TcpConfig};

use crate::error::{ScriptError, error};
use crate::script::{Action, Event, Script};
use crate::shell::Setup;

/// Settings without an effect on a single connection, or for options that are rejected where they occur.
const WITHOUT_EFFECT: [&str; 17] = [
    "tcp_wmem",
    "tcp_fack",
    "tcp_notsent_lowat",
    "tcp_syncookies",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_fastopen_blackhole_timeout_sec",
    "tcp_no_metrics_save",
    "tcp_tw_reuse",
    "tcp_max_syn_backlog",
    "tcp_limit_output_bytes",
    "tcp_max_reordering",
    "tcp_ecn_fallback",
    "tcp_mem",
    "tcp_rfc1337",
    "tcp_challenge_ack_limit",
    "tcp_orphan_retries",
];
/// Options that name addresses and the like.
const OPTIONS_WITHOUT_EFFECT: [&str; 12] = [
    "local_ip",
    "gateway_ip",
    "netmask_ip",
    "remote_ip",
    "send_omit_free",
    "speed",
    "bind_port",
    "connect_port",
    "init_scripts",
    "mss",
    "verbose",
    "dry_run",
];
/// The kernels whose verdicts the scripts record tick every millisecond.
const TICK: Duration = Duration::from_millis(1);
/// Linux accepts ECN but does not request it (`tcp_ecn`).
const ECN_DEFAULT: u64 = 2;

/// The tolerance of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// At least this, in microseconds.
    pub micros: i64,
    /// And this part of the time since the event before, in per cent.
    pub percent: f64,
}

impl Default for Tolerance {
    /// packetdrill's defaults.
    fn default() -> Self {
        Self { micros: 4_000, percent: 12.5 }
    }
}

/// How a script is run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub tcp: TcpConfig,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    pub tolerance: Tolerance,
    /// Length of a tick of the timestamps, in microseconds; `None` if their values are not checked.
    pub stamp_tick: Option<i64>,
    /// Echoes that no sent timestamp fits are interpolated.
    pub scales_echo: bool,
    pub missing: Vec<(u32, String)>,
}

impl Settings {
    /// The settings of a script on a TCP with these switches.
    pub fn new(
        script: &Script,
        setup: Setup,
        tcp: TcpConfig,
        own: Option<Tolerance>,
    ) -> Result<Self, ScriptError> {
        let mut settings = Self {
            tcp,
            mtu: 1_500,
            tolerance: Tolerance::default(),
            stamp_tick: None,
            scales_echo: false,
            missing: setup.missing,
        };
        settings.take_options(script)?;
        settings.tolerance = own.unwrap_or(settings.tolerance);
        if setup.fq {
            settings.tcp.pacing = Pacing::Fq;
        }
        settings.use_nagle(script);
        let connects = calls(&script.events, "connect").next().is_some();
        if settings.tcp.stack == Stack::Linux6 {
            settings.tcp.tick = TICK;
            set_ecn(&mut settings.tcp, ECN_DEFAULT, connects);
            // The default of Linux; its use is a matter of tcp_ecn.
            settings.tcp.accurate_ecn_option = true;
        }
        for (name, (line, value)) in &setup.settings {
            if !settings.set(name, value, connects) {
                settings.missing.push((*line, format!("the setting {name} = {value}")));
            }
        }
        settings.tcp.accurate_ecn_option &= settings.tcp.accurate_ecn;
        Ok(settings)
    }

    fn take_options(&mut self, script: &Script) -> Result<(), ScriptError> {
        for option in &script.options {
            let value = option.value.as_deref().unwrap_or_default();
            let number = || match value.parse() {
                Ok(number) => Ok(number),
                Err(_) => {
                    error(option.line, format!("--{} needs a whole number; found \"{value}\"", option.name))
                }
            };
            match (option.name.as_str(), value) {
                ("tolerance_usecs", _) => self.tolerance.micros = number()?,
                ("tolerance_percent", _) => match value.parse() {
                    Ok(percent) => self.tolerance.percent = percent,
                    Err(_) => return error(option.line, format!("\"{value}\" is not a percentage")),
                },
                ("tcp_ts_tick_usecs", _) => self.stamp_tick = Some(number()?).filter(|&tick| tick > 0),
                ("tcp_ts_ecr_scaled", _) => self.scales_echo = true,
                ("mtu", _) => self.mtu = number()? as u32,
                ("ip_version", "ipv4" | "ipv4-mapped-ipv6") => {}
                (name, _) if OPTIONS_WITHOUT_EFFECT.contains(&name) => {}
                (name, _) => self.missing.push((option.line, format!("the option --{name}"))),
            }
        }
        Ok(())
    }

    /// Sockets use Nagle's algorithm by default.
    fn use_nagle(&mut self, script: &Script) {
        let no_delay = calls(&script.events, "setsockopt")
            .find(|(_, call)| call.arguments.get(2).and_then(|name| name.word()) == Some("TCP_NODELAY"));
        let first_write =
            calls(&script.events, "write").chain(calls(&script.events, "send")).map(|(line, _)| line).min();
        self.tcp.nagle = no_delay.is_none() && self.tcp.stack != Stack::Linux2;
        if let (Some((line, _)), Some(first)) = (no_delay, first_write)
            && first < line
        {
            self.missing.push((line, "TCP_NODELAY after data".to_owned()));
        }
    }

    /// Applies a setting below `net.ipv4`. Returns false if the model does not have it.
    fn set(&mut self, name: &str, value: &str, connects: bool) -> bool {
        let number = hex_or_decimal(value);
        let tcp = &mut self.tcp;
        let switch = number.filter(|&n| n <= 1).map(|n| n == 1);
        match (name, number) {
            ("tcp_timestamps", Some(n @ 0..=2)) => tcp.timestamps = n > 0,
            ("tcp_sack", _) if switch.is_some() => tcp.sack = switch == Some(true),
            ("tcp_dsack", _) if switch.is_some() => tcp.dsack = switch == Some(true),
            ("tcp_window_scaling", _) if switch.is_some() => tcp.window_scaling = switch == Some(true),
            // The older stacks keep the window.
            ("tcp_slow_start_after_idle", Some(1)) if tcp.stack != Stack::Linux6 => return false,
            ("tcp_slow_start_after_idle", _) if switch.is_some() => {
                tcp.knobs.slow_start_after_idle = switch == Some(true);
            }
            ("tcp_frto", Some(0)) => tcp.frto = FRtoMode::Off,
            ("tcp_early_retrans", Some(n @ (0 | 3 | 4))) => tcp.tail_loss_probe &= n > 0,
            ("tcp_recovery", Some(n @ (0 | 1))) => tcp.rack &= n > 0,
            ("tcp_reordering", Some(n)) => tcp.dupack_threshold = n as u32,
            ("tcp_retries2", Some(n)) => tcp.retries = n as u32,
            ("tcp_syn_retries", Some(n)) if connects => tcp.syn_retries = n as u32,
            ("tcp_synack_retries", Some(n)) if !connects => tcp.syn_retries = n as u32,
            ("tcp_fin_timeout", Some(n)) => tcp.fin_timeout = Duration::from_secs(n),
            ("tcp_min_tso_segs", Some(n @ 2..)) => tcp.knobs.burst_min = n as u32,
            ("tcp_tso_win_divisor", Some(n @ 1..)) => tcp.knobs.burst_share = n as u32,
            // The model's behaviour, and the retries of the other kind of open.
            ("tcp_frto", Some(1 | 2))
            | ("tcp_syn_retries" | "tcp_synack_retries", Some(_))
            | ("tcp_pacing_ss_ratio", Some(200))
            | ("tcp_pacing_ca_ratio", Some(120))
            | ("tcp_mtu_probing", Some(0)) => {}
            ("tcp_ecn", Some(n)) => return set_ecn(tcp, n, connects),
            ("tcp_ecn_option", Some(0)) => tcp.accurate_ecn_option = false,
            // 1: fewer options, 3: also if they seem to be dropped on the way.
            ("tcp_ecn_option", Some(n)) => return n == 2 || !tcp.accurate_ecn,
            ("tcp_rmem", _) => return set_window(tcp, self.mtu, value),
            ("tcp_congestion_control", _) => return set_algorithm(tcp, value),
            _ => return WITHOUT_EFFECT.contains(&name),
        }
        true
    }
}

/// `tcp_ecn`: 1 requests ECN (RFC 3168), 2 only accepts it; 3 to 5 are the same for accurate ECN (RFC 9768), where
/// 4 requests RFC 3168 and accepts both.
fn set_ecn(tcp: &mut TcpConfig, value: u64, connects: bool) -> bool {
    let (ecn, accurate) = match (value, connects) {
        (0, _) | (2 | 5, true) => (false, false),
        (1, _) | (2, false) | (4, true) => (true, false),
        (3, _) | (4 | 5, false) => (true, true),
        _ => return false,
    };
    (tcp.ecn, tcp.accurate_ecn) = (ecn, accurate);
    true
}

/// `tcp_rmem`: the last of its numbers sets the shift count of the window.
fn set_window(tcp: &mut TcpConfig, mtu: u32, value: &str) -> bool {
    let Some(most) = value.split_whitespace().nth(2).and_then(|most| most.parse::<u64>().ok()) else {
        return false;
    };
    let segment = u64::from(mtu) - 52;
    tcp.receive_window_max = most.div_ceil(segment).max(1) as u32;
    true
}

/// An algorithm of the model by its name in Linux. BBR draws random numbers, so scripts cannot predict it.
fn set_algorithm(tcp: &mut TcpConfig, name: &str) -> bool {
    let Ok(algorithm) = toml::Value::from(name).try_into::<CongestionControl>() else { return false };
    let changed = TcpConfig { congestion_control: algorithm, ..tcp.clone() };
    let is_usable = !name.starts_with("bbr")
        && !matches!(changed.congestion_control, CongestionControl::User(_))
        && changed.unmodelled().is_none();
    if is_usable {
        *tcp = changed;
    }
    is_usable
}

fn hex_or_decimal(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The calls whose name begins so, with their lines.
fn calls<'a>(events: &'a [Event], name: &'a str) -> impl Iterator<Item = (u32, &'a crate::script::Call)> {
    events.iter().filter_map(move |event| match &event.action {
        Action::Call(call) if call.name.starts_with(name) => Some((event.line, call)),
        _ => None,
    })
}
