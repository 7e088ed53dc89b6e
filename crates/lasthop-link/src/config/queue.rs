//! The router queue or that of a class: its limit, and the table of its discipline.

use std::{fmt, mem};

use lasthop_core::{Bytes, Faults, QueueSize, Rate, UserCode};
use schemars::{JsonSchema, Schema};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::cake::CakeConfig;
use super::codel::{CoDelConfig, FqCoDelConfig};
use super::dual_pi2::DualPi2Config;
use super::fair::FlowsConfig;
use super::pie::{FqPieConfig, PieConfig};
use super::red::{DropTailConfig, RedConfig};
use crate::algorithm::{QueueAlgorithm, QueueSetup};

/// The router queue: drop-tail, optionally with RED, or another discipline.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(transform = one_table)]
pub struct QueueConfig {
    /// Maximum size of the queue; an arriving packet that would exceed it is dropped. If absent, the product of the
    /// link's rate and the round-trip time, but at least 10 packets.
    pub limit: QueueSize,
    /// Which packets are dropped before the queue is full, and how.
    #[schemars(flatten)]
    pub discipline: DisciplineConfig,
    /// Keys in the file without effect: they repeat a default, or belong to another discipline.
    #[schemars(skip)]
    pub ineffective: Vec<String>,
}

/// A queue discipline and its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "discipline", rename_all = "kebab-case")]
pub enum DisciplineConfig {
    /// No drops before the queue is full, except by RED.
    DropTail(DropTailConfig),
    /// If an arrival exceeds the limit, the head of the queue is dropped (Lakshman, Neidhardt and Ott 1996),
    /// so that the sender detects the loss earlier.
    DropHead,
    /// If an arrival exceeds the limit, a packet is dropped: each waiting packet and the arrival with equal
    /// probability (Random Drop, RFC 1254).
    RandomDrop,
    /// Controlled delay (RFC 8289): drops from the head of the queue while packets wait too long.
    Codel(CoDelConfig),
    /// Flow queue CoDel (RFC 8290): a queue with CoDel for each flow, in round robin.
    #[serde(rename = "fq_codel")]
    FqCodel(FqCoDelConfig),
    /// Proportional integral controller enhanced (RFC 8033): drops packets at random on arrival, to hold a
    /// target delay.
    Pie(PieConfig),
    /// A queue with PIE for each flow, in round robin.
    #[serde(rename = "fq_pie")]
    FqPie(FqPieConfig),
    /// Dual queue coupled AQM (RFC 9332): a low-latency queue for packets with ECT(1), and a queue for all
    /// others.
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2Config),
    /// Stochastic fairness queueing (INFOCOM 1990): a queue for each flow, in round robin; the longest one drops
    /// from its tail.
    Sfq(FlowsConfig),
    /// Common applications kept enhanced (LANMAN 2018): a shaper, classes by code point, a queue for each
    /// flow with CoDel and BLUE, fairness among hosts, and a filter of ACKs.
    Cake(CakeConfig),
    /// A custom discipline, on the model engine only. It receives the limit, but need not enforce it.
    #[serde(untagged)]
    User {
        /// Location of the code.
        discipline: UserDiscipline,
    },
}

pub type UserDiscipline = UserCode<QueueSetup, dyn QueueAlgorithm>;

const TAG: &str = "discipline";

impl DisciplineConfig {
    /// Every built-in discipline, with its defaults.
    pub fn all() -> [Self; 10] {
        [
            Self::default(),
            Self::DropHead,
            Self::RandomDrop,
            Self::Codel(CoDelConfig::default()),
            Self::FqCodel(FqCoDelConfig::default()),
            Self::Pie(PieConfig::default()),
            Self::FqPie(FqPieConfig::default()),
            Self::DualPi2(DualPi2Config::default()),
            Self::Sfq(FlowsConfig::default()),
            Self::Cake(CakeConfig::default()),
        ]
    }

    /// RED in front of a drop-tail queue.
    pub fn red(config: RedConfig) -> Self {
        Self::DropTail(DropTailConfig { red: Some(config) })
    }

    /// Its keys with their values, without its name.
    pub fn keys(&self) -> Map<String, Value> {
        let mut table = self.table();
        table.shift_remove(TAG);
        table
    }

    fn table(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(table)) => table,
            other => unreachable!("a discipline is a table, not {other:?}"),
        }
    }

    fn defaults(&self) -> Map<String, Value> {
        let is_same = |other: &Self| mem::discriminant(other) == mem::discriminant(self);
        Self::all().iter().find(|other| is_same(other)).map_or_else(Map::new, Self::keys)
    }
}

impl Default for DisciplineConfig {
    fn default() -> Self {
        Self::DropTail(DropTailConfig::default())
    }
}

impl fmt::Display for DisciplineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table()[TAG].as_str().unwrap_or_default())
    }
}

impl QueueConfig {
    /// A queue of this limit that drops the newest packet.
    pub fn drop_tail(limit: QueueSize) -> Self {
        Self { limit, discipline: DisciplineConfig::default(), ineffective: Vec::new() }
    }

    /// RED, if it is on.
    pub fn red(&self) -> Option<&RedConfig> {
        let DisciplineConfig::DropTail(DropTailConfig { red }) = &self.discipline else { return None };
        red.as_ref()
    }

    /// CAKE, if it is the discipline.
    pub(super) fn cake(&self) -> Option<&CakeConfig> {
        let DisciplineConfig::Cake(cake) = &self.discipline else { return None };
        Some(cake)
    }

    /// Notes a setting that does not suit the rate of the link.
    pub(super) fn note(&self, link: Rate, mtu: Bytes) -> Option<String> {
        match &self.discipline {
            DisciplineConfig::Cake(cake) => cake.note(link, mtu),
            DisciplineConfig::DualPi2(dual_pi2) => dual_pi2.note(link, mtu),
            _ => None,
        }
    }

    /// Checks this queue, one of `queues` equal ones.
    pub(super) fn check(&self, mtu: Bytes, queues: usize, faults: &mut Faults) {
        self.check_limit(mtu, queues, faults);
        self.check_keys(faults);
        match &self.discipline {
            DisciplineConfig::DropHead | DisciplineConfig::RandomDrop | DisciplineConfig::User { .. } => {}
            DisciplineConfig::DropTail(DropTailConfig { red }) => {
                if let Some(red) = red {
                    faults.below("red", |faults| red.check(faults));
                }
            }
            DisciplineConfig::Codel(codel) => codel.check(faults),
            DisciplineConfig::FqCodel(fq_codel) => fq_codel.check(mtu, faults),
            DisciplineConfig::Pie(pie) => pie.check(faults),
            DisciplineConfig::FqPie(fq_pie) => fq_pie.check(mtu, faults),
            DisciplineConfig::DualPi2(dual_pi2) => dual_pi2.check(faults),
            DisciplineConfig::Sfq(flows) => flows.check(mtu, faults),
            DisciplineConfig::Cake(cake) => cake.check(faults),
        }
    }

    fn check_limit(&self, mtu: Bytes, queues: usize, faults: &mut Faults) {
        let limit = self.limit;
        let holds_one = match limit {
            QueueSize::Packets(packets) => packets > 0,
            QueueSize::Bytes(bytes) => u64::from(bytes) >= mtu.0,
        };
        faults.require(holds_one, "limit", || {
            format!("a queue of {limit} is too small for a packet of {mtu}; write at least one packet")
        });
        let most_bytes = u64::from(u32::MAX) / queues as u64;
        let (held, most) = match limit {
            QueueSize::Packets(packets) => (packets, most_bytes / mtu.0.max(1)),
            QueueSize::Bytes(bytes) => (bytes, most_bytes),
        };
        faults.require(u64::from(held) <= most, "limit", || {
            let queues = if queues > 1 { format!("{queues} queues") } else { "a queue".into() };
            format!(
                "{queues} of {limit} with packets of {mtu} would hold more than 4 GiB; write at most {most}"
            )
        });
    }

    /// Finds the keys that belong to another discipline.
    fn check_keys(&self, faults: &mut Faults) {
        let own = self.discipline.keys();
        for key in self.ineffective.iter().filter(|key| !own.contains_key(*key)) {
            let owners = DisciplineConfig::all().into_iter().filter(|other| other.keys().contains_key(key));
            let owners = owners.map(|owner| format!("\"{owner}\"")).collect::<Vec<_>>().join(" or ");
            let reds = if key == "ecn" && self.red().is_some() { "; for RED, write red.ecn" } else { "" };
            faults.require(false, key, || {
                format!(
                    "applies to discipline = {owners}, but this queue has \"{}\"; leave it out, or write \
                     discipline = {owners}{reds}",
                    self.discipline
                )
            });
        }
    }
}

/// The keys of the discipline are in the same table as the limit.
impl<'de> Deserialize<'de> for QueueConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn read<T: DeserializeOwned, E: de::Error>(value: Value) -> Result<T, E> {
            serde_json::from_value(value).map_err(E::custom)
        }
        let mut stated = Map::<String, Value>::deserialize(deserializer)?;
        stated.retain(|_, value| !value.is_null());
        let limit = stated.shift_remove("limit").ok_or_else(|| de::Error::missing_field("limit"))?;
        let name = stated.shift_remove(TAG);
        let name = name.unwrap_or_else(|| DisciplineConfig::default().to_string().into());
        let named = DisciplineConfig::all().into_iter().find(|other| name == *other.to_string());
        let defaults = named.map_or_else(Map::new, |named| named.keys());
        let mut table = defaults.clone();
        table.extend(stated.clone().into_iter().filter(|(key, _)| defaults.contains_key(key)));
        table.insert(TAG.into(), name);
        let discipline: DisciplineConfig = read(table.into())?;
        let keys = discipline.keys();
        stated.retain(|key, _| keys.get(key) == defaults.get(key));
        Ok(Self {
            limit: read(limit)?,
            discipline,
            ineffective: stated.into_iter().map(|(key, _)| key).collect(),
        })
    }
}

/// Writes only keys that are in the file or differ from a default, and whether there is RED.
impl Serialize for QueueConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Map::new();
        table.insert("limit".into(), json!(self.limit));
        if !matches!(self.discipline, DisciplineConfig::DropTail(_)) {
            table.insert(TAG.into(), self.discipline.to_string().into());
        }
        table.insert("red".into(), Value::Null);
        let (mut keys, defaults) = (self.discipline.keys(), self.discipline.defaults());
        keys.retain(|key, value| defaults.get(key) != Some(value) || self.ineffective.contains(key));
        table.extend(keys);
        Written(&table.into()).serialize(serializer)
    }
}

/// A value without its nulls, which TOML cannot express.
struct Written<'a>(&'a Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_none(),
            Value::Object(table) => {
                serializer.collect_map(table.iter().map(|(key, value)| (key, Written(value))))
            }
            value => value.serialize(serializer),
        }
    }
}

/// Turns the schema into one table with the keys of all disciplines, because a level of a scenario may set a key
/// without the discipline.
fn one_table(schema: &mut Schema) {
    let Some(Value::Array(kinds)) = schema.remove("anyOf") else { return };
    let (mut names, mut keys) = (Vec::new(), Map::new());
    for kind in &kinds {
        let mut name = kind["properties"][TAG].clone();
        name["description"] = kind["description"].clone();
        names.push(name);
        let properties = kind["properties"].as_object().into_iter().flatten();
        for (key, property) in properties.filter(|(key, _)| *key != TAG) {
            let text = &property["description"];
            let owners = kinds.iter().filter(|kind| kind["properties"][key]["description"] == *text);
            let owners = owners.filter_map(|kind| kind["properties"][TAG]["const"].as_str());
            let owners: Vec<_> = owners.map(|owner| format!("`{owner}`")).collect();
            let line = format!("{}: {}", owners.join(", "), text.as_str().unwrap_or_default());
            let merged = keys.entry(key).or_insert_with(|| {
                let mut merged = property.clone();
                merged["description"] = "".into();
                merged
            });
            let before = merged["description"].as_str().unwrap_or_default();
            if !before.contains(&line) {
                merged["description"] = format!("{before} {line}").trim_start().into();
            }
        }
    }
    let properties = &mut schema.ensure_object()["properties"];
    properties[TAG] = json!({
        "description": "Which packets are dropped before the queue is full, and how.",
        "anyOf": names,
        "default": DisciplineConfig::default().to_string(),
    });
    properties.as_object_mut().expect("a table").extend(keys);
    schema.insert("additionalProperties".into(), false.into());
}
