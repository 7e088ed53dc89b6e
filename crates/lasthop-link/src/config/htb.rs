//! Classes in front of the link: what a scenario says about them, and what of it is impossible.

use std::num::NonZeroU16;

use lasthop_core::{Bytes, Dscp, Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Faults, QueueConfig};

/// Most classes of one router.
const CLASSES_MAX: usize = 64;
/// Priorities are `0..PRIORITIES`, as in Linux (`TC_HTB_NUMPRIO`).
pub(crate) const PRIORITIES: usize = 8;
/// Largest bucket; its time at a rate of 1 bit/s still fits 64 bits.
const BURST_MAX: Bytes = Bytes(1_000_000_000);
/// More than any link layer's header.
const OVERHEAD_MAX: Bytes = Bytes(1000);
/// What `tc` takes: `mtu` of its rate estimator (`iproute2`, `tc/q_htb.c`).
pub(super) const fn tc_burst() -> Bytes {
    Bytes(1600)
}

/// Hierarchical token buckets in front of the link, as Linux' `sch_htb`: classes with a queue each, under one
/// root from which they borrow.
///
/// Whenever the link's send buffer has room, the router chooses the class whose packet goes next. Classes that
/// are within their own `rate` come before those that borrow; among either, the lowest `priority` number comes
/// first, and equal priorities take turns by `quantum`. A chosen packet that is too long for the room left waits
/// for more; the choice is then made anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HtbConfig {
    /// Rate of the root, which lends what classes within their own rates leave of it. Without it nothing is
    /// lent, and no class passes its own rate. (The root's ceiling would never bind: it borrows from nobody.)
    pub rate: Option<Rate>,
    /// Bucket of the root's rate.
    #[serde(default = "tc_burst")]
    pub burst: Bytes,
    /// Bytes that every packet counts more than its IP length, in rates and bursts: Linux counts the link layer's
    /// header, 14 bytes on Ethernet.
    #[serde(default)]
    pub overhead: Bytes,
    /// The classes. A packet belongs to the first one that it matches, else to the default one.
    pub class: Vec<ClassConfig>,
}

/// One class of the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Its name; RED of this class draws from a random stream named after it.
    pub name: String,
    /// Rate that is its own, counted over IP packets.
    pub rate: Rate,
    /// Most it may send by borrowing; `rate` if absent.
    pub ceil: Option<Rate>,
    /// Served before classes with higher numbers; from 0 to 7.
    #[serde(default)]
    pub priority: u8,
    /// What it may send at a turn among equal priorities; a tenth of a second of `rate`, but from 1000 to
    /// 200000 bytes, if absent (Linux with `r2q` 10).
    pub quantum: Option<Bytes>,
    /// What it may send at once after a pause, by its own rate; 1600 bytes (as `tc`) if absent. The last packet
    /// may pass it: a class sends while its bucket is not in debt.
    #[serde(default = "tc_burst")]
    pub burst: Bytes,
    /// The same for `ceil`.
    #[serde(default = "tc_burst")]
    pub cburst: Bytes,
    /// Packets that belong to it: those that fit one of these.
    #[serde(default, rename = "match")]
    pub matches: Vec<MatchConfig>,
    /// Packets that no class matches belong to it; exactly one class is the default.
    #[serde(default)]
    pub default: bool,
    /// Its queue; like the router's `queue` if absent.
    pub queue: Option<QueueConfig>,
}

/// What a packet must have; what is not stated does not matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatchConfig {
    /// Code point.
    pub dscp: Option<Dscp>,
    /// Port of the fixed host.
    pub port: Option<NonZeroU16>,
    /// Transport protocol.
    pub protocol: Option<Transport>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl ClassConfig {
    /// What it may send at a turn, in bytes: stated, or as Linux derives it from the rate (`htb_change_class`).
    pub(crate) fn quantum_bytes(&self) -> u64 {
        self.quantum.map_or((self.rate.bits_per_second() / 8 / 10).clamp(1_000, 200_000), |quantum| quantum.0)
    }
}

impl HtbConfig {
    /// Most that may leave in the long run, in bit/s of IP packets of `ip_bytes` bytes. Classes may use their own
    /// rates even if these are more than the root's.
    pub(super) fn ip_rate(&self, ip_bytes: u32) -> f64 {
        let sum = |rate: fn(&ClassConfig) -> Rate| -> f64 {
            self.class.iter().map(|class| rate(class).bits_per_second() as f64).sum()
        };
        let rate = self.rate.map_or_else(
            || sum(|class| class.ceil.unwrap_or(class.rate)),
            |root| sum(|class| class.rate).max(root.bits_per_second() as f64),
        );
        rate * f64::from(ip_bytes) / (f64::from(ip_bytes) + self.overhead.0 as f64)
    }

    /// Checks the classes for packets of up to `mtu` bytes; their queues like `queue`, the router's.
    pub(super) fn validate(&self, faults: &mut Faults, queue: &QueueConfig, mtu: Bytes) {
        let classes = self.class.len();
        faults.check((1..=CLASSES_MAX).contains(&classes), "htb.class", || {
            format!("{classes} classes; write from 1 to {CLASSES_MAX} tables [[htb.class]]")
        });
        faults.check(self.burst <= BURST_MAX, "htb.burst", || too_large(self.burst));
        faults.check(self.overhead <= OVERHEAD_MAX, "htb.overhead", || {
            format!("\"{}\" is out of range; write at most \"{OVERHEAD_MAX}\"", self.overhead)
        });
        for (index, class) in self.class.iter().enumerate() {
            let place = format!("htb.class[{index}]");
            let earlier = self.class[..index].iter().any(|other| other.name == class.name);
            faults.check(!class.name.is_empty(), format!("{place}.name"), || {
                "the name is empty; write \"tcp\", say".into()
            });
            faults.check(!earlier, format!("{place}.name"), || {
                let name = &class.name;
                format!(
                    "two classes are called {name:?}; give each its own name, \"{name}-{}\" say",
                    index + 1
                )
            });
            let second = class.default && self.class[..index].iter().any(|other| other.default);
            faults.check(!second, format!("{place}.default"), || {
                "a second class is the default; leave default = true to one".into()
            });
            class.validate(faults, &place, mtu);
            match &class.queue {
                Some(queue) => queue.validate(faults, &format!("{place}.queue"), mtu, classes),
                None => queue.validate(faults, "queue", mtu, classes),
            }
        }
        if let Some(last) = self.class.last() {
            faults.check(self.class.iter().any(|class| class.default), "htb.class", || {
                format!(
                    "no class takes the packets that none matches; add default = true to one, to {:?} say",
                    last.name
                )
            });
        }
    }
}

impl ClassConfig {
    fn validate(&self, faults: &mut Faults, place: &str, mtu: Bytes) {
        let time = self.rate.transmission_time(mtu.0 as u32);
        faults.check(time < Duration::from_secs(60), format!("{place}.rate"), || {
            format!(
                "a packet of {mtu} takes {time} at \"{}\", more than the 60 s of debt that are kept",
                self.rate
            )
        });
        let (rate, ceil) = (self.rate, self.ceil.unwrap_or(self.rate));
        faults.check(ceil >= rate, format!("{place}.ceil"), || {
            format!("\"{ceil}\" is below rate = \"{rate}\"; write at least \"{rate}\"")
        });
        faults.check(usize::from(self.priority) < PRIORITIES, format!("{place}.priority"), || {
            let last = PRIORITIES - 1;
            format!("{} is out of range; write from 0 to {last}, the nearest is {last}", self.priority)
        });
        if let Some(quantum) = self.quantum {
            faults.check((mtu..=BURST_MAX).contains(&quantum), format!("{place}.quantum"), || {
                if quantum > mtu {
                    return too_large(quantum);
                }
                format!("\"{quantum}\" is below the largest packet; write at least \"{mtu}\"")
            });
        }
        for (key, burst) in [("burst", self.burst), ("cburst", self.cburst)] {
            faults.check(burst <= BURST_MAX, format!("{place}.{key}"), || too_large(burst));
        }
        let empty = self.matches.iter().position(|matching| *matching == MatchConfig::default());
        faults.check(empty.is_none(), format!("{place}.match[{}]", empty.unwrap_or_default()), || {
            "it would take every packet; state dscp, port or protocol, or write default = true for the class"
                .into()
        });
    }
}

fn too_large(size: Bytes) -> String {
    format!("\"{size}\" is out of range; write at most \"{BURST_MAX}\"")
}
