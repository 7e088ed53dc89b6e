//! The router queue, or that of a class: what all disciplines share.

use std::fmt;

use lasthop_core::{Bytes, Duration, Faults, QueueSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{self, CoDelConfig};
use super::red::RedConfig;

/// The router queue: drop-tail, with RED in front of the limit if asked for, or another discipline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Most the queue holds; an arriving packet that would exceed it is dropped. The router queue of a direction that
    /// states none: the product of the link's rate and the round-trip time, but at least 10 packets.
    pub limit: QueueSize,
    /// Which packets are dropped before the queue is full, and how.
    #[serde(default, skip_serializing_if = "Discipline::is_default")]
    pub discipline: Discipline,
    /// Random early detection (Floyd and Jacobson 1993) in front of a drop-tail queue; off if absent.
    pub red: Option<RedConfig>,
    /// CoDel: time in the queue that is short enough; 5 ms if absent. On slow links more than a packet takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Duration>,
    /// CoDel: how long every packet must have waited longer than that before one is dropped; 100 ms if absent. A
    /// round-trip time of the slowest flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// CoDel: mark ECN-capable packets instead of dropping them (RFC 3168).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
}

/// A queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// None before the queue is full, or those that RED says.
    #[default]
    DropTail,
    /// Controlled delay (RFC 8289): from the head of the queue, while packets have to wait too long.
    Codel,
}

impl Discipline {
    const ALL: [Self; 2] = [Self::DropTail, Self::Codel];

    /// The keys of a queue that not every discipline knows.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::DropTail => &["red"],
            Self::Codel => &codel::KEYS,
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl QueueConfig {
    /// The parameters of CoDel.
    pub(crate) fn codel(&self) -> CoDelConfig {
        CoDelConfig::new(self.target, self.interval, self.ecn)
    }

    /// Finds what is wrong with one of `queues` that hold as much as this one.
    pub(super) fn check(&self, mtu: Bytes, queues: usize, faults: &mut Faults) {
        self.check_limit(mtu, queues, faults);
        self.check_keys(faults);
        match self.discipline {
            Discipline::DropTail => {}
            Discipline::Codel => self.codel().check(faults),
        }
        if let Some(red) = &self.red {
            faults.below("red", |faults| red.check(faults));
        }
    }

    fn check_limit(&self, mtu: Bytes, queues: usize, faults: &mut Faults) {
        let limit = self.limit;
        let holds_one = match limit {
            QueueSize::Packets(packets) => packets > 0,
            QueueSize::Bytes(bytes) => u64::from(bytes) >= mtu.0,
        };
        faults.require(holds_one, "limit", || {
            format!("a queue of {limit} never holds a packet of {mtu}; give it room for one at least")
        });
        let most_bytes = u64::from(u32::MAX) / queues as u64;
        let (held, most) = match limit {
            QueueSize::Packets(packets) => (packets, most_bytes / mtu.0.max(1)),
            QueueSize::Bytes(bytes) => (bytes, most_bytes),
        };
        faults.require(u64::from(held) <= most, "limit", || {
            let queues = if queues > 1 { format!("{queues} queues") } else { "a queue".into() };
            format!(
                "{queues} of {limit} with packets of {mtu} would hold more than 4 GiB; give it room for {most} at most"
            )
        });
    }

    /// Finds the keys that belong to another discipline.
    fn check_keys(&self, faults: &mut Faults) {
        let stated = [
            ("red", self.red.is_some()),
            ("target", self.target.is_some()),
            ("interval", self.interval.is_some()),
            ("ecn", self.ecn),
        ];
        let own = self.discipline;
        for (key, _) in stated.into_iter().filter(|(key, stated)| *stated && !own.keys().contains(key)) {
            let owners = Discipline::ALL.into_iter().filter(|discipline| discipline.keys().contains(&key));
            let owners: Vec<_> = owners.map(|discipline| format!("\"{discipline}\"")).collect();
            let reds = if key == "ecn" && self.red.is_some() { "; that of RED is red.ecn" } else { "" };
            faults.require(false, key, || {
                let owners = owners.join(" or ");
                format!(
                    "belongs to discipline = {owners}, but this queue has \"{own}\"; leave it out, or write \
                     discipline = {owners}{reds}"
                )
            });
        }
    }
}
