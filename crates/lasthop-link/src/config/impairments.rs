//! What befalls packets one by one on their way over the link.

use lasthop_core::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loss in bursts (Gilbert 1960, Elliott 1963): a chain of two states that moves once for each packet, as `gemodel` of
/// Linux' netem does. A packet is lost with the probability of the state that it meets; then the state may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability that a packet leaves the good state behind it.
    pub p: Probability,
    /// Probability that a packet leaves the bad state behind it.
    pub r: Probability,
    /// Probability that a packet is lost that meets the bad state.
    #[serde(default = "always")]
    pub loss_bad: Probability,
    /// Probability that a packet is lost that meets the good state.
    #[serde(default)]
    pub loss_good: Probability,
}

fn always() -> Probability {
    Probability::ONE
}
