//! The overhead of the layer below for each packet.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use lasthop_core::{Bytes, Faults};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Headers and trailers of any layer are shorter than this.
const ADDED_MAX: Bytes = Bytes(1000);
/// Sizes of a cell and of its payload (ITU-T I.361).
const CELL: (u32, u32) = (53, 48);
/// LLC/SNAP header of routed packets (RFC 2684, section 5.1), and trailer of AAL5 (ITU-T I.363.5).
const LLC_SNAP_AND_TRAILER: u32 = 8 + 8;

/// The per-packet overhead of the layer below. The rate of the link is then the rate of that layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// This number of bytes.
    PerPacket(Bytes),
    /// Whole ATM cells for a packet with LLC/SNAP header and AAL5 trailer, as `tc stab overhead 16 linklayer atm`.
    Atm,
}

impl Framing {
    /// The bytes that a packet of `ip_bytes` takes on the layer below.
    pub fn bytes(self, ip_bytes: u32) -> u32 {
        match self {
            Self::PerPacket(added) => ip_bytes.saturating_add(added.0 as u32),
            Self::Atm => {
                ip_bytes.saturating_add(LLC_SNAP_AND_TRAILER).div_ceil(CELL.1).saturating_mul(CELL.0)
            }
        }
    }

    /// The bytes that it adds to a packet, before cells.
    pub const fn added(self) -> Bytes {
        match self {
            Self::PerPacket(added) => added,
            Self::Atm => Bytes(LLC_SNAP_AND_TRAILER as u64),
        }
    }

    pub(super) fn check(self, key: &str, faults: &mut Faults) {
        if let Self::PerPacket(added) = self {
            faults.at_most(added, ADDED_MAX, key);
        }
    }
}

impl FromStr for Framing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "atm" {
            return Ok(Self::Atm);
        }
        let added = text.parse().map(Self::PerPacket);
        added.map_err(|error| format!("{error}; or write \"atm\""))
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerPacket(added) => added.fmt(f),
            Self::Atm => f.write_str("atm"),
        }
    }
}

impl Serialize for Framing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Framing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Framing {
    fn schema_name() -> Cow<'static, str> {
        "Framing".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes that are added to each packet, or \"atm\"",
            "anyOf": [Bytes::json_schema(generator), { "type": "string", "const": "atm" }],
        })
    }
}
