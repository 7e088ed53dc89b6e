//! Impairments of single packets on their way over the link.

use lasthop_core::Probability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Loss in bursts (Gilbert 1960, Elliott 1963): a two-state chain with one step per packet, like `gemodel` of
/// Linux' netem. A packet is lost with the probability of the current state; then the state may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability that the chain leaves the good state after a packet.
    #[schemars(extend("examples" = [0.01]))]
    pub p: Probability,
    /// Probability that the chain leaves the bad state after a packet.
    #[schemars(extend("examples" = [0.3]))]
    pub r: Probability,
    /// Probability that a packet is lost in the bad state.
    #[serde(default = "always")]
    pub loss_bad: Probability,
    /// Probability that a packet is lost in the good state.
    #[serde(default)]
    pub loss_good: Probability,
}

fn always() -> Probability {
    Probability::ONE
}
