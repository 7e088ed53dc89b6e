//! Random early detection: its keys and their valid values.

use lasthop_core::{Bytes, Duration, Faults, Probability, QueueSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The keys of a drop-tail queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct DropTailConfig {
    /// Random early detection (Floyd and Jacobson 1993) in front of the limit; off if absent.
    pub red: Option<RedConfig>,
}

/// Random early detection (Floyd and Jacobson 1993). Both thresholds must have the same unit, which is also
/// the unit of the average. RED decides on a packet at its arrival, before the limit is checked. The average
/// includes neither the link's send buffer nor the arriving packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct RedConfig {
    /// Average queue below which no packet is dropped.
    #[schemars(extend("examples" = ["5 packets"]))]
    pub min: QueueSize,
    /// Average queue from which every packet is dropped.
    #[schemars(extend("examples" = ["15 packets"]))]
    pub max: QueueSize,
    /// Probability of a drop just below `max`, before the correction by the count.
    #[schemars(extend("examples" = [0.1]))]
    pub max_probability: Probability,
    /// Weight of one sample in the exponential average.
    #[schemars(extend("examples" = [0.002]))]
    pub weight: Probability,
    /// While the queue is empty the average decays as if a packet left every `idle_packet_time`: by the
    /// factor (1 - weight)^(idle time / `idle_packet_time`), with a real exponent. Either this or `avpkt`.
    pub idle_packet_time: Option<Duration>,
    /// Length of a typical packet: `idle_packet_time` is the time it takes at the link's rate.
    pub avpkt: Option<Bytes>,
    /// Mark ECN-capable packets instead of dropping them while the average is below `max` (RFC 3168,
    /// section 7); a marked packet can still meet a full queue. Other packets are dropped.
    #[serde(default)]
    pub ecn: bool,
    /// With `ecn`, drop ECN-capable packets, too, from `max` on. Linux' `tc` marks them unless `harddrop` is
    /// given.
    #[serde(default = "harddrop", skip_serializing_if = "Clone::clone")]
    pub harddrop: bool,
    /// Above `max`, the probability rises linearly to 1 at twice `max`, instead of being 1 (Floyd 2000,
    /// "Recommendation on using the gentle variant of RED").
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gentle: bool,
    /// Every half second, `max_probability` is adapted between 1 % and 50 % to hold the average midway
    /// between the thresholds (Floyd, Gummadi and Shenker 2001, "Adaptive RED"). Its value here is the initial one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adaptive: bool,
}

const fn harddrop() -> bool {
    true
}

impl RedConfig {
    /// Finds thresholds in different units or out of order, an early detection that never drops, and an idle
    /// decay without a packet time.
    pub(super) fn check(&self, faults: &mut Faults) {
        let ordered = match (self.min, self.max) {
            (QueueSize::Packets(min), QueueSize::Packets(max))
            | (QueueSize::Bytes(min), QueueSize::Bytes(max)) => Some(min < max),
            _ => None,
        };
        let (min, max) = (self.min, self.max);
        faults.require(ordered.is_some(), "max", || {
            format!("min = \"{min}\" and max = \"{max}\" must have the same unit, packets or bytes")
        });
        faults.require(ordered != Some(false), "max", || {
            format!("max = \"{max}\" must be above min = \"{min}\"")
        });
        faults.require(self.max_probability.get() > 0.0, "max_probability", || {
            "must be above zero; leave out the red table to switch RED off".to_owned()
        });
        faults.require(self.weight.get() > 0.0, "weight", || {
            "must be above zero, else the average stays at zero; write for example 0.002".to_owned()
        });
        let (time, avpkt) = (self.idle_packet_time, self.avpkt);
        faults.require(time.is_some() || avpkt.is_some(), "", || {
            "the idle time is counted in packets; add for example avpkt = \"500 B\" or idle_packet_time = \"72 ms\""
                .into()
        });
        faults.require(time.is_none() || avpkt.is_none(), "avpkt", || {
            "idle_packet_time sets the same; leave out one of the two".to_owned()
        });
        faults.require(self.harddrop || self.ecn, "harddrop", || {
            "without ecn every packet is dropped; leave it out, or add ecn = true".to_owned()
        });
        if let Some(time) = time {
            faults.not_zero(&time, "idle_packet_time", "72 ms");
        }
        if let Some(length) = avpkt {
            faults.in_range(length, Bytes(1)..=Bytes(65_535), "avpkt");
        }
    }
}
