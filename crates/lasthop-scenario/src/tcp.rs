//! What no type can say of the switches of TCP: which of them go together.

use std::ops::RangeInclusive;

use lasthop_core::Duration;
use lasthop_tcp::{CongestionControl, FRtoMode, RecoveryRules, Stack, TcpConfig};
use serde::Deserialize;

use crate::assume::Assumption;
use crate::faults::{Faults, RETRIES_MAX, SEGMENTS_MAX};
use crate::tree::Node;

/// What a switch cannot be without.
#[derive(Clone, Copy)]
enum Need {
    Sack,
    Timestamps,
    /// This stack.
    Only(Stack),
    /// Another stack.
    Not(Stack),
    /// The stack that knows these rules of recovery.
    Own,
}

/// A switch that needs something of the others.
struct Rule {
    key: &'static str,
    /// It has a value that needs it.
    is_on: fn(&TcpConfig) -> bool,
    needs: Need,
    /// The value that needs nothing, in TOML.
    off: &'static str,
}

const fn rule(key: &'static str, is_on: fn(&TcpConfig) -> bool, needs: Need, off: &'static str) -> Rule {
    Rule { key, is_on, needs, off }
}

/// The rules of recovery are none of this stack's.
const fn foreign(stack: Stack) -> fn(&TcpConfig) -> bool {
    match stack {
        Stack::Linux2 => |tcp| tcp.stack == Stack::Linux2,
        Stack::Linux6 => |tcp| tcp.stack == Stack::Linux6,
        Stack::Classic => |tcp| tcp.stack == Stack::Classic,
    }
}

/// Those that others need come first.
const RULES: [Rule; 22] = [
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
    rule("timestamps", |tcp| tcp.timestamps, Need::Not(Stack::Classic), "false"),
    rule("frto", |tcp| tcp.frto != FRtoMode::Off, Need::Not(Stack::Classic), "\"off\""),
    rule("early_retransmit", |tcp| tcp.early_retransmit, Need::Not(Stack::Classic), "false"),
    rule("cached_metrics", |tcp| tcp.cached_metrics, Need::Not(Stack::Classic), "false"),
    rule("lost_by_age", |tcp| tcp.lost_by_age, Need::Not(Stack::Classic), "false"),
    rule("fast_retransmit_guard", |tcp| tcp.fast_retransmit_guard, Need::Only(Stack::Classic), "false"),
    rule("silly_window_avoidance", |tcp| !tcp.silly_window_avoidance, Need::Only(Stack::Classic), "true"),
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
    // RFC 8985, section 7.1. RACK itself does without SACK: it spares young segments after a timeout.
    rule("tail_loss_probe", |tcp| tcp.tail_loss_probe, Need::Sack, "false"),
    rule("eifel", |tcp| tcp.eifel, Need::Timestamps, "false"),
];

impl Rule {
    fn is_broken(&self, tcp: &TcpConfig) -> bool {
        (self.is_on)(tcp) && !self.needs.is_met(tcp)
    }

    fn message(&self, tcp: &TcpConfig) -> String {
        let Self { key, off, .. } = self;
        match self.needs {
            Need::Sack => format!("it needs sack = true; set that too, or write {key} = {off}"),
            Need::Timestamps => format!("it needs timestamps = true; set that too, or write {key} = {off}"),
            Need::Only(stack) => {
                format!("only stack = \"{stack}\" knows it; write {key} = {off}, or a profile of that stack")
            }
            Need::Not(stack) => format!("stack = \"{stack}\" does not know it; write {key} = {off}"),
            Need::Own => {
                let (stack, own) = (tcp.stack, tcp.recovery.stack());
                format!(
                    "these are rules of stack = \"{own}\", and the stack is \"{stack}\"; write stack = \"{own}\" \
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
            Self::Only(stack) => tcp.stack == stack,
            Self::Not(stack) => tcp.stack != stack,
            Self::Own => tcp.recovery.stack() == tcp.stack,
        }
    }

    /// The switch that it is about.
    const fn key(self) -> &'static str {
        match self {
            Self::Sack => "sack",
            Self::Timestamps => "timestamps",
            Self::Only(_) | Self::Not(_) | Self::Own => "stack",
        }
    }
}

/// Lets the switches that only the profile sets follow those that are stated: without SACK there are no D-SACKs.
pub fn follow(scenario: &mut Node) -> Vec<Assumption> {
    let read = |scenario: &Node| TcpConfig::deserialize(scenario.get("tcp")?.to_toml()).ok();
    let mut followed = Vec::new();
    let Some(mut tcp) = read(scenario) else { return followed };
    for rule in &RULES {
        let key = format!("tcp.{}", rule.key);
        let is_stated = scenario.at(&key).is_some_and(|switch| switch.span.is_some());
        let Some(off) = Node::literal(rule.off).filter(|_| rule.is_broken(&tcp) && !is_stated) else {
            continue;
        };
        let cause = rule.needs.key();
        let value = scenario.at(&format!("tcp.{cause}")).map(Node::shown).unwrap_or_default();
        followed.push(Assumption::new(key, off.shown(), format!("follows {cause} = {value}")));
        scenario.set(&["tcp", rule.key], off);
        tcp = read(scenario).unwrap_or(tcp);
    }
    followed
}

/// Checks the switches.
pub fn validate(config: &TcpConfig, faults: &mut Faults) {
    ranges(config, faults);
    for (key, value) in [("rto_min", config.rto_min), ("rto_initial", config.rto_initial)] {
        let max = config.rto_max;
        faults.require(value <= max, &format!("tcp.{key}"), || {
            format!("\"{value}\" is above rto_max = \"{max}\"; lower it, or raise rto_max")
        });
    }
    for (index, rule) in RULES.iter().enumerate() {
        let told = RULES[..index].iter().any(|earlier| earlier.key == rule.key && earlier.is_broken(config));
        faults
            .require(told || !rule.is_broken(config), &format!("tcp.{}", rule.key), || rule.message(config));
    }
    let (initial, max) = (config.receive_window_initial, config.receive_window_max);
    faults.require(initial <= max, "tcp.receive_window_initial", || {
        format!("{initial} is above receive_window_max = {max}; lower it, or raise receive_window_max")
    });
}

fn ranges(config: &TcpConfig, faults: &mut Faults) {
    const SEGMENTS: RangeInclusive<u32> = 1..=SEGMENTS_MAX;
    for (key, value, range) in [
        ("initial_window", config.initial_window, SEGMENTS),
        ("dupack_threshold", config.dupack_threshold, SEGMENTS),
        ("max_burst", config.max_burst, SEGMENTS),
        ("ack_every", config.ack_every, SEGMENTS),
        ("retries", config.retries, 0..=RETRIES_MAX),
        ("syn_retries", config.syn_retries, 0..=RETRIES_MAX),
        // Room for a full segment and the FIN that rides on it: the window would never open further.
        ("receive_window_initial", config.receive_window_initial, 2..=SEGMENTS_MAX),
        ("receive_window_growth", config.receive_window_growth, 0..=SEGMENTS_MAX),
        ("receive_window_max", config.receive_window_max, 2..=SEGMENTS_MAX),
    ] {
        faults.require(range.contains(&value), &format!("tcp.{key}"), || {
            let (min, max) = (range.start(), range.end());
            format!(
                "{value} is out of range; write from {min} to {max}, the nearest is {}",
                value.clamp(*min, *max)
            )
        });
    }
    for (key, value, example) in [
        ("tick", config.tick, "10 ms"),
        ("rto_initial", config.rto_initial, "3 s"),
        ("fin_timeout", config.fin_timeout, "60 s"),
        ("delayed_ack", config.delayed_ack, "200 ms"),
    ] {
        faults.not_zero(&value, &format!("tcp.{key}"), example);
    }
}

/// Timestamps are 32 bits wide (RFC 7323, section 3.2); the model does not let them wrap.
pub fn timestamp_clock(config: &TcpConfig, time_limit: Duration, faults: &mut Faults) {
    let tick = config.tick;
    if tick.is_zero() {
        return;
    }
    // One tick for the phase of the host's clock, one for the value 0, which is left out.
    let last = time_limit.as_nanos() / tick.as_nanos() + 2;
    faults.require(!config.timestamps || u32::try_from(last).is_ok(), "tcp.tick", || {
        format!(
            "timestamps of \"{tick}\" wrap before time_limit = \"{time_limit}\"; write \"10 ms\", say, or lower \
             time_limit"
        )
    });
}
