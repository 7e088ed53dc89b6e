//! CAKE: the keys, their defaults and their valid values.

use lasthop_core::{Bytes, Duration, Faults, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Framing;

/// Maximum padding; Ethernet pads to 64 or 84 bytes.
const MPU_MAX: Bytes = Bytes(256);
/// Minimum rate of Linux (`cake_set_rate`).
const RATE_MIN: Rate = Rate::from_bits_per_second(64 * 8);

/// The classes of CAKE, by the code points of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tins {
    /// One class for all packets.
    Besteffort,
    /// Three: voice (EF, VA, CS6, CS7, 4), best effort, and bulk (CS1, LE).
    #[default]
    Diffserv3,
    /// Four: voice (EF, VA, CS4 to CS7), video (AF21 to AF43, CS2, CS3, 4), best effort, and bulk (CS1, LE).
    Diffserv4,
}

/// Entities that share the rate of a class fairly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Sending hosts and receiving hosts, then the flows of each.
    #[default]
    TripleIsolate,
    /// Sending hosts, then the flows of each.
    DualSrchost,
    /// Receiving hosts, then the flows of each.
    DualDsthost,
    /// Flows.
    Flows,
    /// None: a class is one queue.
    None,
}

/// Dropping of pure ACKs that later ACKs in the queue make superfluous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AckFilter {
    /// No ACKs are dropped.
    #[default]
    Off,
    /// Of two superfluous ACKs the older is dropped, so that at least two ACKs remain.
    On,
    /// An ACK is also dropped if the next packet of the flow makes it superfluous.
    Aggressive,
}

impl Isolation {
    /// Whether hosts share evenly: those that send, and those that receive.
    pub(crate) const fn hosts(self) -> [bool; 2] {
        [
            matches!(self, Self::TripleIsolate | Self::DualSrchost),
            matches!(self, Self::TripleIsolate | Self::DualDsthost),
        ]
    }
}

/// The keys of CAKE.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CakeConfig {
    /// Rate of the shaper, counted over IP packets with `overhead` and `mpu`. If absent, CAKE sends whenever the
    /// link accepts a packet. Not allowed with several classes of HTB.
    pub rate: Option<Rate>,
    /// Classes of packets by code point ("tins"); "diffserv3" if absent.
    pub tins: Tins,
    /// Entities that share the rate fairly; "triple-isolate", hosts and then flows, if absent.
    pub isolation: Isolation,
    /// Dropping of superfluous ACKs; "off" if absent.
    pub ack_filter: AckFilter,
    /// Overhead of the layer below for each packet, bytes or "atm" as in `framing` of a link; 0 bytes if
    /// absent.
    pub overhead: Framing,
    /// Minimum size of a packet, including overhead, before cells; 0 if absent.
    pub mpu: Bytes,
    /// Round-trip time of typical flows; 100 ms if absent. The target delay is a twentieth of it, or 1.5 times the
    /// transmission time of a packet if that is longer.
    pub rtt: Duration,
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self {
            rate: None,
            tins: Tins::default(),
            isolation: Isolation::default(),
            ack_filter: AckFilter::default(),
            overhead: Framing::PerPacket(Bytes(0)),
            mpu: Bytes(0),
            rtt: Duration::from_millis(100),
        }
    }
}

impl CakeConfig {
    /// The size of a packet with overhead (`cake_calc_overhead`).
    pub(crate) fn bytes(&self, ip_bytes: u32) -> u32 {
        let least = self.mpu.0.saturating_sub(self.overhead.added().0);
        self.overhead.bytes(ip_bytes.max(least as u32))
    }

    /// COBALT's target delay: a twentieth of the round-trip time (`tc`, `q_cake.c`).
    pub fn target(&self) -> Duration {
        Duration::from_nanos(self.rtt.as_nanos() / 20)
    }

    /// Notes a missing rate in front of a slow link.
    pub(super) fn note(&self, link: Rate, mtu: Bytes) -> Option<String> {
        let (target, packet) = (self.target(), link.transmission_time(mtu.0 as u32));
        let is_slow = packet.as_nanos() * 3 / 2 > target.as_nanos();
        (self.rate.is_none() && is_slow).then(|| {
            let shaped = Rate::from_bits_per_second((link.bits_per_second() * 95 / 100).max(1));
            format!(
                "without a rate, CAKE does not adapt to slow links: it drops packets that wait longer than \
                 \"{target}\", but a packet takes {:.1} ms here; add for example rate = \"{shaped}\"",
                packet.as_secs_f64() * 1e3
            )
        })
    }

    /// Maximum rate, in bit/s of IP packets of `ip_bytes` bytes.
    pub(super) fn ip_rate(&self, ip_bytes: u32) -> f64 {
        let share = f64::from(ip_bytes) / f64::from(self.bytes(ip_bytes));
        self.rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64 * share)
    }

    pub(super) fn check(&self, faults: &mut Faults) {
        if let Some(rate) = self.rate {
            faults.require(rate >= RATE_MIN, "rate", || {
                format!("\"{rate}\" is below CAKE's minimum; write \"{RATE_MIN}\" or more")
            });
        }
        self.overhead.check("overhead", faults);
        faults.at_most(self.mpu, MPU_MAX, "mpu");
        faults.in_range(self.rtt, Duration::from_micros(20)..=Duration::from_secs(4), "rtt");
    }
}
