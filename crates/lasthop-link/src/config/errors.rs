//! The states of the link and its ARQ.

use lasthop_core::{Distribution, Duration, Faults, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of retransmissions of a packet by the link.
const RETRANSMISSIONS_MAX: u32 = 255;

/// The two-state error process of the link and its ARQ; one timeline of states applies to both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorConfig {
    /// Position in its sequence of states at the start of a run.
    #[serde(default)]
    pub start: Start,
    /// Lengths of the good states, in which no transmission fails.
    #[schemars(extend("examples" = ["10 s"]))]
    pub good: Distribution<Duration>,
    /// Lengths of the bad states.
    #[schemars(extend("examples" = ["1 s"]))]
    pub bad: Distribution<Duration>,
    /// Probability that a transmission in a bad state fails, regardless of the packet's length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_error_probability: Option<Probability>,
    /// Alternatively, the probability that a bit of a packet is wrong in a bad state: a transmission of n
    /// bits fails with probability 1 - (1 - p)^n. With `framing`, the bits are those of the layer below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_error_rate: Option<Probability>,
    /// Link-layer retransmission; without it, a packet whose transmission fails is lost.
    pub arq: Option<ArqConfig>,
}

/// Where the sequence of states starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the beginning of a good state.
    #[default]
    Good,
    /// At an instant drawn uniformly from the first 64 good and 64 bad states, so that the probability of a
    /// state is proportional to its length, and the first state is the rest of the drawn one.
    RandomPhase,
    /// At an instant drawn uniformly from the first good state.
    InsideGood,
}

/// Link-layer retransmission by iterated delay: a packet whose transmission fails is sent again after `delay`.
/// The serialiser continues meanwhile; packets that arrive earlier than a repeated one wait at the far side and
/// are released together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArqConfig {
    /// Maximum number of retransmissions of one packet; the next failure drops it.
    #[schemars(extend("examples" = [3]))]
    pub retransmissions: u32,
    /// Time from a failed transmission to the next one.
    #[schemars(extend("examples" = ["10 ms"]))]
    pub delay: Duration,
    /// If true, a retransmission is serialised like any packet, ahead of packets that wait for their first
    /// transmission. If false, it takes only the delay, and the link carries other packets meanwhile.
    #[serde(default)]
    pub serialised: bool,
    /// The state of the error process that applies to a retransmission.
    #[serde(default)]
    pub state_lookup: StateLookup,
}

/// The state of the error process that applies to a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateLookup {
    /// The state at the time of each transmission.
    #[default]
    EachTry,
    /// The state at the time of the packet's first transmission.
    FirstTry,
}

impl ErrorConfig {
    /// True if transmissions can fail in bad states.
    pub fn can_hit(&self) -> bool {
        let chance = self.packet_error_probability.or(self.bit_error_rate);
        chance.is_some_and(|probability| probability.get() > 0.0)
    }

    /// Rejects states without length, and bad states without exactly one error probability.
    pub fn check(&self, faults: &mut Faults) {
        let (packet, bit) = (self.packet_error_probability.is_some(), self.bit_error_rate.is_some());
        faults.require(packet || bit, "packet_error_probability", || {
            "is missing; write the probability that a packet is lost in a bad state, or bit_error_rate instead"
                .to_owned()
        });
        faults.require(!packet || !bit, "bit_error_rate", || {
            "packet_error_probability sets the error probability, too; leave out one of the two".to_owned()
        });
        faults.require(can_be_positive(&self.good) || can_be_positive(&self.bad), "good", || {
            "good and bad states both have length zero; write a length above zero for one of them".to_owned()
        });
        if let Some(arq) = &self.arq {
            faults.at_most(arq.retransmissions, RETRANSMISSIONS_MAX, "arq.retransmissions");
        }
    }
}

pub(super) fn can_be_positive(lengths: &Distribution<Duration>) -> bool {
    match lengths {
        Distribution::Static(length) | Distribution::Uniform { max: length, .. } => !length.is_zero(),
        Distribution::Exponential { max, .. } => max.is_none_or(|max| !max.is_zero()),
        Distribution::Sequence(lengths) => lengths.iter().any(|length| !length.is_zero()),
    }
}
