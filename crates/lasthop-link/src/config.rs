//! What a scenario says about the last hop, and which combinations of it are impossible.

use std::fmt;

use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{Bytes, Distribution, Duration, Instant, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) mod codel;
pub(crate) mod htb;
pub(crate) mod linux;
#[cfg(test)]
mod tests;

use crate::opportunities::Schedule;
use htb::HtbConfig;

/// One direction of the last hop: the router queue, then the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// The router queue in front of the link; with classes, the queue of each that states none of its own.
    pub queue: QueueConfig,
    /// Classes of packets in front of the link, each with a queue; one queue for all if absent.
    pub htb: Option<HtbConfig>,
    /// The link itself.
    pub link: LinkConfig,
}

/// The router queue: drop-tail, with RED in front of the limit if asked for, or another discipline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Most the queue holds; an arriving packet that would exceed it is dropped. The router queue of a direction that
    /// states none: the product of the link's rate and the round-trip time, but at least 10 packets.
    pub limit: QueueSize,
    /// Which packets are dropped before the queue is full, and how.
    #[serde(default, skip_serializing_if = "Discipline::is_default")]
    pub discipline: Discipline,
    /// Random early detection (Floyd and Jacobson 1993) in front of a drop-tail queue; off if absent.
    pub red: Option<RedConfig>,
    /// CoDel: time in the queue that is short enough; 5 ms if absent. On slow links more than a packet takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Duration>,
    /// CoDel: how long every packet must have waited longer than that before one is dropped; 100 ms if absent. A
    /// round-trip time of the slowest flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// CoDel: mark ECN-capable packets instead of dropping them (RFC 3168).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
}

/// A queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// None before the queue is full, or those that RED says.
    #[default]
    DropTail,
    /// Controlled delay (RFC 8289): from the head of the queue, while packets have to wait too long.
    Codel,
}

impl Discipline {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Random early detection (Floyd and Jacobson 1993). Both thresholds must have the same unit, which is
/// the unit the average is kept in. It judges a packet at its arrival, before the limit is looked at; the
/// average covers the router queue without the link's send buffer and without the arriving packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedConfig {
    /// Average below which nothing is dropped.
    pub min: QueueSize,
    /// Average from which everything is dropped.
    pub max: QueueSize,
    /// Probability of a drop just below `max`, before the correction by the count.
    pub max_probability: Probability,
    /// Weight of one sample in the exponential average.
    pub weight: Probability,
    /// While the queue is empty the average decays as if a packet left every `idle_packet_time`: by the
    /// factor (1 - weight)^(idle time / `idle_packet_time`), with a real exponent. Either this or `avpkt`.
    pub idle_packet_time: Option<Duration>,
    /// Length of a typical packet: `idle_packet_time` is the time it takes at the link's rate.
    pub avpkt: Option<Bytes>,
    /// Mark ECN-capable packets instead of dropping them while the average is below `max` (RFC 3168,
    /// section 7); a marked packet can still meet a full queue. Others are dropped.
    #[serde(default)]
    pub ecn: bool,
}

/// One direction of the link: send buffer, serialiser, propagation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Bit rate, counted over IP packets; the mean of the trace, if there is one and no rate.
    pub rate: Rate,
    /// A file with a recorded schedule of opportunities to deliver 1500 bytes, as Mahimahi's `mm-link` has them, from the
    /// folder of the scenario: a line for each, with its time in milliseconds. After the last line it starts again. The
    /// link then follows it, and `rate` only says what the link is said to carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Schedule>,
    /// Propagation delay.
    pub delay: Duration,
    /// What becomes of rate and delay in the course of a run, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<LinkChange>,
    /// Extra time the emulator needs for each packet, added to its serialisation: the next packet
    /// begins after it. Drawn once per run and alike in both directions: it belongs to the state of the
    /// machine, not to the packet.
    #[serde(default = "no_overhead")]
    pub overhead: Distribution<Duration>,
    /// Send buffer, counted over IP packets; the packet being serialised is in it. Holds at least one packet
    /// of the largest size, which is what it holds if absent, unless `release` is "acknowledged".
    pub send_buffer: Bytes,
    /// When a packet's bytes leave the send buffer.
    #[schemars(default = "serialised")]
    pub release: BufferRelease,
}

/// A change of the link: another cell, another technology, a train in a tunnel. What is not stated stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    /// When, from the start of the run.
    pub at: Duration,
    /// The new bit rate. What is left of a packet on the link goes on at it.
    pub rate: Option<Rate>,
    /// The new propagation delay, of packets that leave the sending side from then on. None overtakes an earlier one.
    pub delay: Option<Duration>,
}

const fn serialised() -> BufferRelease {
    BufferRelease::Serialised
}

const fn no_overhead() -> Distribution<Duration> {
    Distribution::Static(Duration::ZERO)
}

/// When a packet's bytes leave the link's send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferRelease {
    /// When the packet is serialised.
    Serialised,
    /// When the link-layer acknowledgement returns: one propagation delay after the receiving side
    /// released the packet in order. A lost packet counts as one that travels on from the moment of its loss
    /// and is released in order without being delivered: its bytes leave two propagation delays after the
    /// loss, or later if it waits behind others.
    Acknowledged,
}

/// The two-state error process of the link and its ARQ; one state timeline rules both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorConfig {
    /// Where in its sequence of states the process is at the start of a run.
    #[serde(default)]
    pub start: Start,
    /// Lengths of the good states, in which nothing is hit.
    pub good: Distribution<Duration>,
    /// Lengths of the bad states.
    pub bad: Distribution<Duration>,
    /// Probability that a try in a bad state is hit.
    pub packet_error_probability: Probability,
    /// Link-layer retransmission; without it a hit packet is lost.
    pub arq: Option<ArqConfig>,
}

/// Where the sequence of states starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the beginning of a good state.
    #[default]
    Good,
    /// At an instant that is equally likely to be any of the first 64 good and 64 bad states, so that long
    /// states are met in proportion to their length and the first one is what is left of it.
    RandomPhase,
}

/// Link-layer retransmission by iterated delay: a hit packet is tried again `delay` later. The serialiser
/// goes on meanwhile; later packets that got through wait at the far side and are released together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArqConfig {
    /// Most retransmissions of one packet; the next hit drops it.
    pub retransmissions: u32,
    /// Time from a failed try to the next.
    pub delay: Duration,
    /// A retransmission is serialised like any packet, ahead of those that wait for their first try. If not,
    /// only its delay is felt, and the link carries other packets meanwhile.
    #[serde(default)]
    pub serialised: bool,
    /// Which tries see the error process.
    #[serde(default)]
    pub state_lookup: StateLookup,
}

/// Which state of the error process a retransmission meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateLookup {
    /// Each try meets the state of its own moment.
    #[default]
    EachTry,
    /// Every try of a packet meets the state of its first try.
    FirstTry,
}

/// An impossible combination, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Key below the validated table, as in `queue.red.max`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for ConfigError {}

pub(crate) fn check(
    holds: bool,
    key: impl Into<String>,
    message: impl FnOnce() -> String,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { key: key.into(), message: message() }) }
}

/// What is impossible, as far as it has been checked.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<ConfigError>);

impl Faults {
    pub(crate) fn check(&mut self, holds: bool, key: impl Into<String>, message: impl FnOnce() -> String) {
        self.0.extend(check(holds, key, message).err());
    }

    pub(crate) fn result(self) -> Result<(), Vec<ConfigError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

impl PathConfig {
    /// Most that passes, in bit/s of IP packets of `ip_bytes` bytes, from the start and after each change of the link's
    /// rate: that rate, or what HTB lets go.
    pub fn ip_rates(&self, ip_bytes: u32) -> Vec<(Instant, f64)> {
        let changes = self.link.change.iter();
        let changes = changes.filter_map(|change| Some((Instant::ZERO + change.at, change.rate?)));
        let shaped = self.htb.as_ref().map_or(f64::INFINITY, |htb| htb.ip_rate(ip_bytes));
        std::iter::once((Instant::ZERO, self.link.rate))
            .chain(changes)
            .map(|(since, rate)| (since, shaped.min(rate.bits_per_second() as f64)))
            .collect()
    }

    /// Checks what would make the path useless: a queue or send buffer that can never hold a packet of `mtu`
    /// bytes, queues whose bytes 32 bits cannot count, RED thresholds in different units or out of order, a RED
    /// that never hits, an idle decay without a packet time, classes that contradict each other.
    pub fn validate(&self, mtu: Bytes) -> Result<(), Vec<ConfigError>> {
        let mut faults = Faults::default();
        self.queue.validate(&mut faults, "queue", mtu, 1);
        if let Some(htb) = &self.htb {
            htb.validate(&mut faults, &self.queue, mtu);
        }
        self.link.validate_changes(&mut faults);
        let buffer = self.link.send_buffer;
        faults.check(buffer >= mtu, "link.send_buffer", || {
            format!("a send buffer of {buffer} never takes a packet of {mtu}: give it room for one at least")
        });
        faults.result()
    }
}

impl LinkConfig {
    fn validate_changes(&self, faults: &mut Faults) {
        let mut before = None;
        for (index, LinkChange { at, rate, delay }) in self.change.iter().enumerate() {
            let place = format!("link.change[{index}]");
            faults.check(before.is_none_or(|before| before < *at), format!("{place}.at"), || {
                format!(
                    "{at} is not after the change before it: write changes in order of time, one for each time"
                )
            });
            faults.check(rate.is_some() || delay.is_some(), &place, || {
                "nothing changes: state a rate, a delay or both".to_owned()
            });
            faults.check(rate.is_none() || self.trace.is_none(), format!("{place}.rate"), || {
                "the link follows its trace; leave out the rate here, or the trace".to_owned()
            });
            before = Some(*at);
        }
    }
}

impl QueueConfig {
    /// Checks the queue at the key `place`, one of `queues` that are counted together.
    fn validate(&self, faults: &mut Faults, place: &str, mtu: Bytes, queues: usize) {
        let limit = self.limit;
        let holds_one = match limit {
            QueueSize::Packets(packets) => packets > 0,
            QueueSize::Bytes(bytes) => u64::from(bytes) >= mtu.0,
        };
        faults.check(holds_one, format!("{place}.limit"), || {
            format!("a queue of {limit} never holds a packet of {mtu}: give it room for one at least")
        });
        let most_bytes = u64::from(u32::MAX) / queues as u64;
        let (held, most) = match limit {
            QueueSize::Packets(packets) => (packets, most_bytes / mtu.0.max(1)),
            QueueSize::Bytes(bytes) => (bytes, most_bytes),
        };
        faults.check(u64::from(held) <= most, format!("{place}.limit"), || {
            format!(
                "{queues} x a queue of {limit} of {mtu} holds more than 4 GiB: give it room for {most} at most"
            )
        });
        if let Some(red) = &self.red {
            red.validate(faults, &format!("{place}.red"));
        }
        self.validate_codel(faults, place);
    }
}

impl RedConfig {
    /// The time of a packet that could have left while the queue was empty, in front of a link of `rate`.
    pub(crate) fn idle_packet_time(&self, rate: Rate) -> Duration {
        let typical = self.avpkt.map(|length| rate.transmission_time(length.0 as u32));
        self.idle_packet_time.or(typical).unwrap_or(Duration::ZERO)
    }

    fn validate(&self, faults: &mut Faults, place: &str) {
        let ordered = match (self.min, self.max) {
            (QueueSize::Packets(min), QueueSize::Packets(max))
            | (QueueSize::Bytes(min), QueueSize::Bytes(max)) => Some(min < max),
            _ => None,
        };
        let (min, max) = (self.min, self.max);
        let key = |key| format!("{place}.{key}");
        faults.check(ordered.is_some(), key("max"), || {
            format!("min = \"{min}\" and max = \"{max}\" must have the same unit, packets or bytes")
        });
        faults.check(ordered != Some(false), key("max"), || {
            format!("max = \"{max}\" must be above min = \"{min}\"")
        });
        faults.check(self.max_probability.get() > 0.0, key("max_probability"), || {
            "must be above zero; leave out the red table to switch RED off".to_owned()
        });
        faults.check(self.weight.get() > 0.0, key("weight"), || {
            "must be above zero, else the average stays at zero".to_owned()
        });
        let (time, avpkt) = (self.idle_packet_time, self.avpkt);
        faults.check(time.is_some() || avpkt.is_some(), place, || {
            "the idle time is counted in packets: add avpkt = \"500 B\" or idle_packet_time = \"72 ms\", say"
                .into()
        });
        faults.check(time.is_none() || avpkt.is_none(), key("avpkt"), || {
            "idle_packet_time says the same; leave out one of the two".to_owned()
        });
        faults.check(time.is_none_or(|time| !time.is_zero()), key("idle_packet_time"), || {
            "must be above zero: the serialisation time of a typical packet, say".to_owned()
        });
        faults.check(avpkt.is_none_or(|length| (1..=65_535).contains(&length.0)), key("avpkt"), || {
            "no packet has this length; write from \"1 B\" to \"65535 B\"".to_owned()
        });
    }
}

impl ErrorConfig {
    /// Checks that the states can take time: not both lengths are always zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(can_be_positive(&self.good) || can_be_positive(&self.bad), "good", || {
            "good and bad states both have length zero: give one of them a length".to_owned()
        })
    }
}

fn can_be_positive(lengths: &Distribution<Duration>) -> bool {
    match lengths {
        Distribution::Static(length) | Distribution::Uniform { max: length, .. } => !length.is_zero(),
        Distribution::Exponential { max, .. } => max.is_none_or(|max| !max.is_zero()),
        Distribution::Sequence(lengths) => lengths.iter().any(|length| !length.is_zero()),
    }
}
