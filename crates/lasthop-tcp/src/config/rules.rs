//! Dependencies between the switches of TCP, and their valid values.

use std::ops::RangeInclusive;

use lasthop_core::{Duration, Faults, Segment};

use super::{ACK_DELAY_MAX, CongestionControl, FRtoMode, Pacing, RecoveryRules, SizeLimit, Stack, TcpConfig};

/// Maximum number of retransmissions of a segment.
const RETRIES_MAX: u32 = 255;

/// A requirement of a switch.
#[derive(Clone, Copy, Debug)]
enum Need {
    Sack,
    Timestamps,
    Ecn,
    AccurateEcn,
    /// Recovery that continues through partial ACKs.
    NewReno,
    /// An algorithm with the slow start of RFC 5681.
    SlowStart,
    /// Delayed ACKs that do not adapt.
    ConstantDelay,
    Only(Stack),
    Not(Stack),
    /// The stack that supports these rules of recovery.
    Own,
}

/// A switch with a requirement on other switches.
#[derive(Debug)]
pub struct Rule {
    pub key: &'static str,
    /// True if its current value has the requirement.
    is_on: fn(&TcpConfig) -> bool,
    needs: Need,
    /// Its value without a requirement, in TOML.
    pub off: &'static str,
}

const fn rule(key: &'static str, is_on: fn(&TcpConfig) -> bool, needs: Need, off: &'static str) -> Rule {
    Rule { key, is_on, needs, off }
}

/// True if the rules of recovery do not belong to this stack.
const fn foreign(stack: Stack) -> fn(&TcpConfig) -> bool {
    match stack {
        Stack::Linux2 => |tcp| tcp.stack == Stack::Linux2,
        Stack::Linux6 => |tcp| tcp.stack == Stack::Linux6,
        Stack::Classic => |tcp| tcp.stack == Stack::Classic,
    }
}

/// The requirements of switches on each other. Switches that others need come first.
pub static RULES: [Rule; 35] = [
    rule("recovery", foreign(Stack::Linux2), Need::Own, "\"linux-in-flight\""),
    rule("recovery", foreign(Stack::Linux6), Need::Own, "\"proportional-rate\""),
    rule("recovery", foreign(Stack::Classic), Need::Own, "\"reno\""),
    rule("recovery", |tcp| tcp.recovery == RecoveryRules::SackPipe, Need::Sack, "\"newreno\""),
    rule(
        "congestion_control",
        |tcp| tcp.congestion_control != CongestionControl::Reno,
        Need::Not(Stack::Classic),
        "\"reno\"",
    ),
    rule("congestion_control", |tcp| tcp.congestion_control.needs_ecn(), Need::Ecn, "\"cubic\""),
    rule("pacing", |tcp| tcp.pacing != Pacing::Off, Need::Only(Stack::Linux6), "false"),
    rule(
        "send_buffer",
        |tcp| tcp.send_buffer != SizeLimit::Infinite,
        Need::Only(Stack::Linux6),
        "\"infinite\"",
    ),
    rule("accurate_ecn", |tcp| tcp.accurate_ecn, Need::Only(Stack::Linux6), "false"),
    rule("accurate_ecn", |tcp| tcp.accurate_ecn, Need::Ecn, "false"),
    rule("accurate_ecn_option", |tcp| tcp.accurate_ecn_option, Need::AccurateEcn, "false"),
    rule("hystart_plus_plus", |tcp| tcp.hystart_plus_plus, Need::Only(Stack::Linux6), "false"),
    rule("hystart_plus_plus", |tcp| tcp.hystart_plus_plus, Need::SlowStart, "false"),
    rule("timestamps", |tcp| tcp.timestamps, Need::Not(Stack::Classic), "false"),
    rule("frto", |tcp| tcp.frto != FRtoMode::Off, Need::Not(Stack::Classic), "\"off\""),
    rule("early_retransmit", |tcp| tcp.early_retransmit, Need::Not(Stack::Classic), "false"),
    rule("cached_metrics", |tcp| tcp.cached_metrics, Need::Not(Stack::Classic), "false"),
    rule("lost_by_age", |tcp| tcp.lost_by_age, Need::Not(Stack::Classic), "false"),
    rule("fast_retransmit_guard", |tcp| tcp.fast_retransmit_guard, Need::Only(Stack::Classic), "false"),
    rule("newreno_impatient", |tcp| tcp.newreno_impatient, Need::NewReno, "false"),
    rule("silly_window_avoidance", |tcp| !tcp.silly_window_avoidance, Need::Only(Stack::Classic), "true"),
    rule("handshake_rtt", |tcp| !tcp.handshake_rtt, Need::Only(Stack::Linux2), "true"),
    // Adaptive ACKs acknowledge every second segment at the latest, and have their own rules for earlier
    // ACKs.
    rule("ack_every", |tcp| tcp.ack_every != 2, Need::ConstantDelay, "2"),
    // Delayed data would have to be joined, but segments of this stack end with their write.
    rule("nagle", |tcp| tcp.nagle, Need::Not(Stack::Linux2), "false"),
    rule("joined_writes", |tcp| tcp.joined_writes, Need::Only(Stack::Linux2), "false"),
    rule("rack", |tcp| tcp.rack, Need::Only(Stack::Linux6), "false"),
    rule("tail_loss_probe", |tcp| tcp.tail_loss_probe, Need::Only(Stack::Linux6), "false"),
    rule("limited_transmit", |tcp| !tcp.limited_transmit, Need::Not(Stack::Linux6), "true"),
    rule("early_retransmit", |tcp| tcp.early_retransmit, Need::Not(Stack::Linux6), "false"),
    rule("lost_by_age", |tcp| tcp.lost_by_age, Need::Not(Stack::Linux6), "false"),
    rule(
        "frto",
        |tcp| matches!(tcp.frto, FRtoMode::Draft2002 | FRtoMode::Rfc4138),
        Need::Not(Stack::Linux6),
        "\"off\"",
    ),
    rule("dsack", |tcp| tcp.dsack, Need::Sack, "false"),
    rule("frto", |tcp| tcp.frto == FRtoMode::Rfc5682Sack, Need::Sack, "\"off\""),
    // RFC 8985, section 7.1. RACK itself also works without SACK: it spares young segments after a timeout.
    rule("tail_loss_probe", |tcp| tcp.tail_loss_probe, Need::Sack, "false"),
    rule("eifel", |tcp| tcp.eifel, Need::Timestamps, "false"),
];

impl Rule {
    /// True if the value of the switch requires a different value of another switch.
    pub fn is_broken(&self, tcp: &TcpConfig) -> bool {
        (self.is_on)(tcp) && !self.needs.is_met(tcp)
    }

    pub const fn cause(&self) -> &'static str {
        match self.needs {
            Need::Sack => "sack",
            Need::Timestamps => "timestamps",
            Need::Ecn => "ecn",
            Need::AccurateEcn => "accurate_ecn",
            Need::NewReno => "recovery",
            Need::SlowStart => "congestion_control",
            Need::ConstantDelay => "delayed_ack_adapts",
            Need::Only(_) | Need::Not(_) | Need::Own => "stack",
        }
    }

    fn message(&self, tcp: &TcpConfig) -> String {
        let Self { key, off, .. } = self;
        match self.needs {
            Need::Sack => format!("it needs sack = true; set that, too, or write {key} = {off}"),
            Need::Timestamps => format!("it needs timestamps = true; set that, too, or write {key} = {off}"),
            Need::Ecn => format!("it needs ecn = true; set that, too, or write {key} = {off}"),
            Need::AccurateEcn => {
                format!("it needs accurate_ecn = true; set that, too, or write {key} = {off}")
            }
            Need::NewReno => format!(
                "it needs recovery = \"newreno\" or \"newreno-rfc2582\"; set that, too, or write {key} = {off}"
            ),
            Need::SlowStart => {
                format!("only \"reno\" and \"cubic\" support it; write {key} = {off}, or choose one of them")
            }
            Need::ConstantDelay => format!(
                "it has no effect with delayed_ack_adapts = true; write {key} = {off}, or \
                 delayed_ack_adapts = false"
            ),
            Need::Only(stack) => {
                format!(
                    "only stack = \"{stack}\" supports it; write {key} = {off}, or a profile of that stack"
                )
            }
            Need::Not(stack) => format!("stack = \"{stack}\" does not support it; write {key} = {off}"),
            Need::Own => {
                let (stack, own) = (tcp.stack, tcp.recovery.stack());
                format!(
                    "it requires stack = \"{own}\", but the stack is \"{stack}\"; write stack = \"{own}\", \
                     too, or {key} = {off}"
                )
            }
        }
    }
}

impl Need {
    fn is_met(self, tcp: &TcpConfig) -> bool {
        match self {
            Self::Sack => tcp.sack,
            Self::Timestamps => tcp.timestamps,
            Self::Ecn => tcp.ecn,
            Self::AccurateEcn => tcp.accurate_ecn || tcp.congestion_control == CongestionControl::Prague,
            Self::NewReno => {
                matches!(tcp.recovery, RecoveryRules::Newreno | RecoveryRules::NewrenoRfc2582)
            }
            Self::SlowStart => tcp.congestion_control.has_slow_start(),
            Self::ConstantDelay => !tcp.delayed_ack_adapts,
            Self::Only(stack) => tcp.stack == stack,
            Self::Not(stack) => tcp.stack != stack,
            Self::Own => tcp.recovery.stack() == tcp.stack,
        }
    }
}

impl TcpConfig {
    /// Rejects switches that are out of range or contradict each other, in a run of up to `time_limit`.
    pub fn check(&self, time_limit: Duration, faults: &mut Faults) {
        self.check_ranges(faults);
        for (key, value) in [("rto_min", self.rto_min), ("rto_initial", self.rto_initial)] {
            let max = self.rto_max;
            faults.require(value <= max, key, || {
                format!("\"{value}\" is above rto_max = \"{max}\"; lower it, or raise rto_max")
            });
        }
        for (index, rule) in RULES.iter().enumerate() {
            let is_reported =
                RULES[..index].iter().any(|earlier| earlier.key == rule.key && earlier.is_broken(self));
            faults.require(is_reported || !rule.is_broken(self), rule.key, || rule.message(self));
        }
        let (initial, max) = (self.receive_window_initial, self.receive_window_max);
        faults.require(initial <= max, "receive_window_initial", || {
            format!("{initial} is above receive_window_max = {max}; lower it, or raise receive_window_max")
        });
        let least = self.delayed_ack;
        faults.require(!self.delayed_ack_adapts || least <= ACK_DELAY_MAX, "delayed_ack", || {
            format!(
                "\"{least}\" is above {ACK_DELAY_MAX}, the maximum of the adaptive delay; write \"40 ms\", \
                 as in Linux"
            )
        });
        self.check_timestamps(time_limit, faults);
    }

    fn check_ranges(&self, faults: &mut Faults) {
        const SEGMENTS: RangeInclusive<u32> = 1..=Segment::WINDOW_MAX;
        for (key, value, range) in [
            ("initial_window", self.initial_window, SEGMENTS),
            ("dupack_threshold", self.dupack_threshold, SEGMENTS),
            ("max_burst", self.max_burst, SEGMENTS),
            ("ack_every", self.ack_every, SEGMENTS),
            ("retries", self.retries, 0..=RETRIES_MAX),
            ("syn_retries", self.syn_retries, 0..=RETRIES_MAX),
            // There must be room for a full segment with a FIN; otherwise the window would never open
            // further.
            ("receive_window_initial", self.receive_window_initial, 2..=Segment::WINDOW_MAX),
            ("receive_window_growth", self.receive_window_growth, 0..=Segment::WINDOW_MAX),
            ("receive_window_max", self.receive_window_max, 2..=Segment::WINDOW_MAX),
        ] {
            faults.in_range(value, range, key);
        }
        if let SizeLimit::Bytes(bytes) = self.send_buffer {
            faults.not_zero(&bytes, "send_buffer", "4 MB");
        }
        for (key, value, example) in [
            ("tick", self.tick, "10 ms"),
            ("rto_initial", self.rto_initial, "3 s"),
            ("fin_timeout", self.fin_timeout, "60 s"),
            ("delayed_ack", self.delayed_ack, "200 ms"),
        ] {
            faults.not_zero(&value, key, example);
        }
    }

    /// Timestamps are 32 bits wide (RFC 7323, section 3.2); the model does not let them wrap.
    fn check_timestamps(&self, time_limit: Duration, faults: &mut Faults) {
        let tick = self.tick;
        if tick.is_zero() {
            return;
        }
        // One tick for the phase of the host's clock, one for the value 0, which is left out.
        let last = time_limit.as_nanos() / tick.as_nanos() + 2;
        faults.require(!self.timestamps || u32::try_from(last).is_ok(), "tick", || {
            format!(
                "timestamps of \"{tick}\" wrap before time_limit = \"{time_limit}\"; write for example \
                 \"10 ms\", or lower time_limit"
            )
        });
    }
}
