//! A policer in front of the queue.

use lasthop_core::{Bytes, Faults, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A larger bucket would overflow 64 bits.
const BURST_MAX: Bytes = Bytes(1_000_000_000);

/// A policer: a token bucket that drops packets above its rate and never queues (like `tc police` of Linux, or RFC
/// 2697 without its excess burst).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicerConfig {
    /// The rate at which the bucket fills, counted over IP packets.
    #[schemars(extend("examples" = ["1 Mbit/s"]))]
    pub rate: Rate,
    /// The size of the bucket, which is full at the start. It must hold a packet of the largest size.
    #[schemars(extend("examples" = ["15 kB"]))]
    pub burst: Bytes,
}

impl PolicerConfig {
    pub(super) fn check(self, mtu: Bytes, faults: &mut Faults) {
        let Self { burst, .. } = self;
        faults.require(burst >= mtu, "burst", || {
            format!("a bucket of {burst} is too small for a packet of {mtu}; write at least \"{mtu}\"")
        });
        faults.at_most(burst, BURST_MAX, "burst");
    }
}
