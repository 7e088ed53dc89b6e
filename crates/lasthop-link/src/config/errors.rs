//! The states of the link and its ARQ.

use lasthop_core::{Distribution, Duration, Faults, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most retransmissions of a packet by the link.
const RETRANSMISSIONS_MAX: u32 = 255;

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
    /// Probability that a try in a bad state is hit, whatever the packet's length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_error_probability: Option<Probability>,
    /// In its place the probability that a bit of a packet is wrong in a bad state: a try of n bits is hit with
    /// 1 - (1 - p)^n. With `framing` they are the bits of the layer below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_error_rate: Option<Probability>,
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
    /// At an instant that is equally likely to be any of the first good state.
    InsideGood,
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

impl ErrorConfig {
    /// True if bad states hit anything.
    pub fn can_hit(&self) -> bool {
        let chance = self.packet_error_probability.or(self.bit_error_rate);
        chance.is_some_and(|probability| probability.get() > 0.0)
    }

    /// Finds states that take no time, and bad ones of which it is not said once what they do.
    pub fn check(&self, faults: &mut Faults) {
        let (packet, bit) = (self.packet_error_probability.is_some(), self.bit_error_rate.is_some());
        faults.require(packet || bit, "packet_error_probability", || {
            "is missing; write the probability that a packet is hit in a bad state, or bit_error_rate in its place"
                .to_owned()
        });
        faults.require(!packet || !bit, "bit_error_rate", || {
            "packet_error_probability says what hits a packet; leave out one of the two".to_owned()
        });
        faults.require(can_be_positive(&self.good) || can_be_positive(&self.bad), "good", || {
            "good and bad states both have length zero; give one of them a length".to_owned()
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
