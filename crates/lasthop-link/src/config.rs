//! What a scenario says about the last hop, and which combinations of it are impossible.

use std::fmt;

use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{Bytes, Distribution, Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// One direction of the last hop: the router queue, then the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// The router queue in front of the link.
    pub queue: QueueConfig,
    /// The link itself.
    pub link: LinkConfig,
}

/// The router queue: drop-tail, with RED in front of the limit if asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Most the queue holds; an arriving packet that would exceed it is dropped.
    pub limit: QueueSize,
    /// Random early detection (Floyd and Jacobson 1993); off if absent.
    pub red: Option<RedConfig>,
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
    /// factor (1 - weight)^(idle time / `idle_packet_time`), with a real exponent.
    pub idle_packet_time: Duration,
    /// Mark ECN-capable packets instead of dropping them while the average is below `max` (RFC 3168,
    /// section 7); a marked packet can still meet a full queue. Others are dropped.
    #[serde(default)]
    pub ecn: bool,
}

/// One direction of the link: send buffer, serialiser, propagation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Bit rate, counted over IP packets.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Extra time the emulator needs for each packet, added to its serialisation: the next packet
    /// begins after it. Drawn once per run and alike in both directions: it belongs to the state of the
    /// machine, not to the packet.
    #[serde(default = "no_overhead")]
    pub overhead: Distribution<Duration>,
    /// Send buffer, counted over IP packets; the packet being serialised is in it. Holds at least one packet
    /// of the largest size.
    pub send_buffer: Bytes,
    /// When a packet's bytes leave the send buffer.
    pub release: BufferRelease,
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
    /// Lengths of the good states, in which nothing is hit. The process starts in a good state.
    pub good: Distribution<Duration>,
    /// Lengths of the bad states.
    pub bad: Distribution<Duration>,
    /// Probability that a try in a bad state is hit.
    pub packet_error_probability: Probability,
    /// Link-layer retransmission; without it a hit packet is lost.
    pub arq: Option<ArqConfig>,
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
    pub key: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for ConfigError {}

fn check(holds: bool, key: &'static str, message: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { key, message: message() }) }
}

impl PathConfig {
    /// Checks what would make the path useless: a queue or send buffer that can never hold a packet of `mtu`
    /// bytes, a queue whose bytes 32 bits cannot count, RED thresholds in different units or out of order, a RED that never hits, an idle decay without
    /// a packet time.
    pub fn validate(&self, mtu: Bytes) -> Result<(), ConfigError> {
        let limit = self.queue.limit;
        let holds_one = match limit {
            QueueSize::Packets(packets) => packets > 0,
            QueueSize::Bytes(bytes) => u64::from(bytes) >= mtu.0,
        };
        check(holds_one, "queue.limit", || {
            format!("a queue of {limit} never holds a packet of {mtu}: give it room for one at least")
        })?;
        let most = u64::from(u32::MAX) / mtu.0.max(1);
        let countable = match limit {
            QueueSize::Packets(packets) => u64::from(packets) <= most,
            QueueSize::Bytes(_) => true,
        };
        check(countable, "queue.limit", || {
            format!("a queue of {limit} of {mtu} holds more than 4 GiB: give it room for {most} at most")
        })?;
        if let Some(red) = &self.queue.red {
            red.validate()?;
        }
        let buffer = self.link.send_buffer;
        check(buffer >= mtu, "link.send_buffer", || {
            format!("a send buffer of {buffer} never takes a packet of {mtu}: give it room for one at least")
        })
    }
}

impl RedConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let ordered = match (self.min, self.max) {
            (QueueSize::Packets(min), QueueSize::Packets(max))
            | (QueueSize::Bytes(min), QueueSize::Bytes(max)) => Some(min < max),
            _ => None,
        };
        let (min, max) = (self.min, self.max);
        check(ordered.is_some(), "queue.red.max", || {
            format!("min = \"{min}\" and max = \"{max}\" must have the same unit, packets or bytes")
        })?;
        check(ordered == Some(true), "queue.red.max", || {
            format!("max = \"{max}\" must be above min = \"{min}\"")
        })?;
        check(self.max_probability.get() > 0.0, "queue.red.max_probability", || {
            "must be above zero; leave out the red table to switch RED off".to_owned()
        })?;
        check(self.weight.get() > 0.0, "queue.red.weight", || {
            "must be above zero, else the average stays at zero".to_owned()
        })?;
        check(!self.idle_packet_time.is_zero(), "queue.red.idle_packet_time", || {
            "must be above zero: the serialisation time of a typical packet, say".to_owned()
        })
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
