//! CAKE: the keys, their defaults and their valid values.

use lasthop_core::{Bytes, Duration, Faults, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Framing;

/// Packets are never padded to more, on Ethernet to 64 or 84 bytes.
const MPU_MAX: Bytes = Bytes(256);
/// The least rate that Linux counts with (`cake_set_rate`).
const RATE_MIN: Rate = Rate::from_bits_per_second(64 * 8);

/// The classes of CAKE, by the code points of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tins {
    /// One for all packets.
    Besteffort,
    /// Three: voice (EF, VA, CS6, CS7, 4), best effort, and bulk (CS1, LE).
    #[default]
    Diffserv3,
    /// Four: voice (EF, VA, CS4 to CS7), video (AF21 to AF43, CS2, CS3, 4), best effort, and bulk (CS1, LE).
    Diffserv4,
}

/// Who shares the rate of a tin evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Hosts, whether they send or receive, and the flows of each.
    #[default]
    TripleIsolate,
    /// Hosts that send, and the flows of each.
    DualSrchost,
    /// Hosts that receive, and the flows of each.
    DualDsthost,
    /// Flows.
    Flows,
    /// Nobody: a tin is one queue.
    None,
}

/// Whether pure ACKs are dropped that later ones in the queue make superfluous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AckFilter {
    /// No.
    #[default]
    Off,
    /// The older of two that are superfluous, so that at least two remain.
    On,
    /// One that the next packet of the flow makes superfluous, too.
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
    /// Its own rate, counted over IP packets with `overhead` and `mpu`; none if absent, so that it sends when
    /// the link takes a packet. Behind several classes of HTB it has none.
    pub rate: Option<Rate>,
    /// Its classes of packets by code point; three if absent.
    pub tins: Tins,
    /// Who shares the rate evenly; hosts and then flows if absent ("triple-isolate").
    pub isolation: Isolation,
    /// Whether superfluous ACKs are dropped; "off" if absent.
    pub ack_filter: AckFilter,
    /// Overhead of the layer below for each packet, bytes or "atm" as in `framing` of a link; 0 bytes if
    /// absent.
    pub overhead: Framing,
    /// The least bytes of a packet, with its overhead and before cells; 0 if absent.
    pub mpu: Bytes,
    /// Round-trip time of usual flows; 100 ms if absent. Packets may wait for a twentieth of it, or one and a
    /// half times as long as a packet takes.
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
    /// The bytes that a packet counts with (`cake_calc_overhead`).
    pub(crate) fn bytes(&self, ip_bytes: u32) -> u32 {
        let least = self.mpu.0.saturating_sub(self.overhead.added().0);
        self.overhead.bytes(ip_bytes.max(least as u32))
    }

    /// The delay that COBALT aims at: a twentieth of the round-trip time (`tc`, `q_cake.c`).
    pub fn target(&self) -> Duration {
        Duration::from_nanos(self.rtt.as_nanos() / 20)
    }

    /// What it lacks in front of a link of this rate.
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

    /// The most that it sends, in bit/s of IP packets of `ip_bytes` bytes.
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
