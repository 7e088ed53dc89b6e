//! What a scenario says about the last hop.

use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{Bytes, Distribution, Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
/// the unit the average is kept in.
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
    /// While the queue is empty the average decays as if a packet left every `idle_packet_time`.
    pub idle_packet_time: Duration,
    /// Mark ECN-capable packets instead of dropping them, below `max` (RFC 3168).
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
    /// Extra time the emulator needs for each packet, added to its serialisation.
    #[serde(default)]
    pub overhead: Duration,
    /// Send buffer, counted over IP packets.
    pub send_buffer: Bytes,
    /// When a packet's bytes leave the send buffer.
    pub release: BufferRelease,
}

/// When a packet's bytes leave the link's send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferRelease {
    /// When the packet is serialised.
    Serialised,
    /// When the link-layer acknowledgement returns: one propagation delay after the receiving side
    /// released the packet in order (or, for a packet that ARQ gave up, two after it was given up).
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

/// Link-layer retransmission by iterated delay: a hit packet is tried again `delay` later.
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
