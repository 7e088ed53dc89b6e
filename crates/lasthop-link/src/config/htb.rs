//! Classes in front of the link: their configuration and its checks.

use std::num::NonZeroU16;

use lasthop_core::{Bytes, Dscp, Duration, Faults, Protocol, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::QueueConfig;

/// Maximum number of classes of one router: with the root, a set of them fits 64 bits.
const CLASSES_MAX: usize = 63;
/// Priorities are `0..PRIORITIES`, as in Linux (`TC_HTB_NUMPRIO`).
pub(crate) const PRIORITIES: usize = 8;
/// Maximum number of classes on a path through the tree, including the root (`TC_HTB_MAXDEPTH`).
pub(crate) const LEVELS: usize = 8;
/// Maximum bucket size. Its duration at a rate of 1 bit/s fits 64 bits.
const BURST_MAX: Bytes = Bytes(1_000_000_000);
/// More than any link layer's header.
const OVERHEAD_MAX: Bytes = Bytes(1000);
/// The default of `tc`: `mtu` of its rate estimator (`iproute2`, `tc/q_htb.c`).
pub(super) const fn tc_burst() -> Bytes {
    Bytes(1600)
}

/// Hierarchical token buckets in front of the link, as Linux' `sch_htb`: classes with a queue each, which borrow
/// from the root or from other classes.
///
/// Whenever the link's send buffer has room, the router chooses the class that sends the next packet. Classes
/// that are within their own `rate` come before classes that borrow, and classes that borrow from a class
/// deep in the tree come before classes that borrow from one above. Among equals, the lowest `priority`
/// number comes first, and classes of equal priority share by `quantum`. If the chosen packet does not fit the
/// buffer, the router waits for more room and then chooses again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HtbConfig {
    /// Rate of the root, which lends the part that classes do not use within their own rates. If absent, classes
    /// cannot borrow from the root. (The root has no ceiling, because it has no parent to borrow from.)
    pub rate: Option<Rate>,
    /// Bucket of the root's rate.
    #[serde(default = "tc_burst")]
    pub burst: Bytes,
    /// Bytes added to the IP length of each packet in rates and bursts, such as Linux' link-layer header of 14
    /// bytes on Ethernet.
    #[serde(default)]
    pub overhead: Bytes,
    /// The classes. A packet belongs to the first class that it matches, otherwise to the default class.
    pub class: Vec<ClassConfig>,
}

/// One class of the router. A class with inner classes (`parent`) holds no packets itself, but lends them the
/// unused part of its own rate, and the rate that it may borrow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Name of the class, and of the random stream of its RED.
    pub name: String,
    /// The class that contains it: the name of an earlier class. If absent, it is under the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Guaranteed rate, counted over IP packets.
    pub rate: Rate,
    /// Maximum rate including borrowing; `rate` if absent.
    pub ceil: Option<Rate>,
    /// Priority, from 0 to 7; lower numbers are served first.
    #[serde(default)]
    pub priority: u8,
    /// Bytes per round among classes of equal priority. If absent, a tenth of a second of `rate`, but from 1000
    /// to 200000 bytes (Linux with `r2q` 10).
    pub quantum: Option<Bytes>,
    /// Bytes that the class may send back to back after a pause, within its own rate; 1600 bytes if absent, as in
    /// `tc`. The last packet may exceed it: a class sends while its bucket is not in debt.
    #[serde(default = "tc_burst")]
    pub burst: Bytes,
    /// The same for `ceil`.
    #[serde(default = "tc_burst")]
    pub cburst: Bytes,
    /// A packet that matches one of these belongs to the class.
    #[serde(default, rename = "match")]
    pub matches: Vec<MatchConfig>,
    /// True for the class of packets that match no class; exactly one class is the default.
    #[serde(default)]
    pub default: bool,
    /// Queue of the class; if absent, like the router's `queue`.
    pub queue: Option<QueueConfig>,
}

/// The conditions on a packet; absent keys match any packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatchConfig {
    /// Code point.
    pub dscp: Option<Dscp>,
    /// Port of the server.
    pub port: Option<NonZeroU16>,
    /// Transport protocol.
    pub protocol: Option<Protocol>,
}

impl ClassConfig {
    /// Bytes per round: `quantum`, or derived from the rate as in Linux (`htb_change_class`).
    pub fn quantum_bytes(&self) -> u64 {
        self.quantum.map_or((self.rate.bits_per_second() / 8 / 10).clamp(1_000, 200_000), |quantum| quantum.0)
    }
}

impl HtbConfig {
    /// The index of the class that contains class number `index`; none if that is the root, or no class.
    pub fn parent_of(&self, index: usize) -> Option<usize> {
        let name = self.class[index].parent.as_ref()?;
        self.class[..index].iter().position(|class| class.name == *name)
    }

    /// True if class number `index` contains no other class, so that it holds packets.
    pub(crate) fn is_leaf(&self, index: usize) -> bool {
        let name = &self.class[index].name;
        self.class[index + 1..].iter().all(|class| class.parent.as_ref() != Some(name))
    }

    /// The classes that hold packets.
    pub fn leaves(&self) -> impl Iterator<Item = &ClassConfig> {
        let leaves = (0..self.class.len()).filter(|index| self.is_leaf(*index));
        leaves.map(|index| &self.class[index])
    }

    /// Maximum long-term rate in bit/s of IP packets of `ip_bytes` bytes.
    pub(crate) fn ip_rate(&self, ip_bytes: u32) -> f64 {
        self.most_bits() as f64 * f64::from(ip_bytes) / (f64::from(ip_bytes) + self.overhead.0 as f64)
    }

    /// Maximum long-term rate in bit/s. Classes may use their own rates even if the sum exceeds the rate of
    /// the class or the root that contains them.
    pub(crate) fn most_bits(&self) -> u64 {
        let bits = Rate::bits_per_second;
        let mut within = vec![0; self.class.len()];
        let mut all = 0;
        for (index, class) in self.class.iter().enumerate().rev() {
            let own = bits(class.rate).max(within[index]);
            match self.parent_of(index) {
                Some(parent) => within[parent] += own,
                None if self.rate.is_some() => all += own,
                None => all += own.max(class.ceil.map_or(0, bits)),
            }
        }
        self.rate.map_or(all, |root| all.max(bits(root)))
    }

    /// Finds faults of the classes, for packets of up to `mtu` bytes.
    pub(super) fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let classes = self.class.len();
        faults.require((1..=CLASSES_MAX).contains(&classes), "class", || {
            format!("{classes} classes; write from 1 to {CLASSES_MAX} tables [[htb.class]]")
        });
        faults.at_most(self.burst, BURST_MAX, "burst");
        faults.at_most(self.overhead, OVERHEAD_MAX, "overhead");
        let leaves = self.leaves().count();
        for (index, class) in self.class.iter().enumerate() {
            faults.below(&format!("class[{index}]"), |faults| {
                class.check_among(&self.class[..index], faults);
                self.check_place(index, faults);
                class.check(mtu, faults);
                if let Some(queue) = &class.queue {
                    faults.below("queue", |faults| queue.check(mtu, leaves, faults));
                }
            });
        }
        if let Some(last) = self.leaves().last() {
            faults.require(self.class.iter().any(|class| class.default), "class", || {
                format!(
                    "there is no default class for packets without a match; add default = true, for example to {:?}",
                    last.name
                )
            });
        }
    }

    /// Finds faults of the place of a class, and keys that a class with inner classes may not have.
    fn check_place(&self, index: usize, faults: &mut Faults) {
        let class = &self.class[index];
        if let Some(parent) = &class.parent {
            faults.require(self.parent_of(index).is_some(), "parent", || {
                let nearest = self.class[..index].last().map(|class| class.name.as_str());
                let instead = nearest.map_or_else(
                    || "leave it out, or move this class after its parent".to_owned(),
                    |name| {
                        format!(
                            "write an earlier class such as {name:?}, or move this class after its parent"
                        )
                    },
                );
                format!("there is no class {parent:?} before this one; {instead}")
            });
        }
        let depth = std::iter::successors(Some(index), |index| self.parent_of(*index)).count();
        let most = LEVELS - usize::from(self.rate.is_some());
        faults.require(depth <= most, "parent", || {
            format!("{depth} levels of classes are more than Linux' HTB supports; write at most {most}")
        });
        if self.is_leaf(index) {
            return;
        }
        for (key, stated) in [
            ("match", !class.matches.is_empty()),
            ("default", class.default),
            ("queue", class.queue.is_some()),
            ("quantum", class.quantum.is_some()),
            ("priority", class.priority != 0),
        ] {
            faults.require(!stated, key, || {
                format!(
                    "{:?} contains other classes, so it has no queue itself; write this key in one of them",
                    class.name
                )
            });
        }
    }
}

impl ClassConfig {
    /// Finds conflicts with `earlier` classes.
    fn check_among(&self, earlier: &[Self], faults: &mut Faults) {
        let name = &self.name;
        faults.require(!name.is_empty(), "name", || "the name is empty; write for example \"tcp\"".into());
        faults.require(earlier.iter().all(|other| other.name != *name), "name", || {
            let number = earlier.len() + 1;
            format!("two classes are named {name:?}; rename one, for example to \"{name}-{number}\"")
        });
        faults.require(!self.default || earlier.iter().all(|other| !other.default), "default", || {
            "another class is the default, too; write default = true in one class only".into()
        });
    }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let time = self.rate.transmission_time(mtu.0 as u32);
        faults.require(time < Duration::from_secs(60), "rate", || {
            let rate = self.rate;
            format!("a packet of {mtu} takes {time} at \"{rate}\", but HTB limits the debt to 60 s; raise it")
        });
        let (rate, ceil) = (self.rate, self.ceil.unwrap_or(self.rate));
        faults.require(ceil >= rate, "ceil", || {
            format!("\"{ceil}\" is below rate = \"{rate}\"; write at least \"{rate}\"")
        });
        faults.in_range(self.priority, 0..=PRIORITIES as u8 - 1, "priority");
        if let Some(quantum) = self.quantum {
            faults.require(quantum >= mtu, "quantum", || {
                format!("\"{quantum}\" is below the largest packet; write at least \"{mtu}\"")
            });
            faults.at_most(quantum, BURST_MAX, "quantum");
        }
        faults.at_most(self.burst, BURST_MAX, "burst");
        faults.at_most(self.cburst, BURST_MAX, "cburst");
        let is_visible = |protocol| matches!(protocol, Protocol::Tcp | Protocol::Udp);
        let quic = self.matches.iter().position(|matching| !matching.protocol.is_none_or(is_visible));
        faults.require(quic.is_none(), &format!("match[{}].protocol", quic.unwrap_or_default()), || {
            "\"quic\": a router sees only UDP; write \"udp\", or a port".into()
        });
        let empty = self.matches.iter().position(|matching| *matching == MatchConfig::default());
        faults.require(empty.is_none(), &format!("match[{}]", empty.unwrap_or_default()), || {
            "it would match every packet; add dscp, port or protocol, or write default = true for the class"
                .into()
        });
    }
}
