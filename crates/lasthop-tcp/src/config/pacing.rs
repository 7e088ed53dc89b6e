//! Pacing of segments.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The pacing of segments: `true`, `false`, or the name of a queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StatedPacing", into = "StatedPacing")]
pub enum Pacing {
    /// No pacing, unless the algorithm always paces.
    Off,
    /// TCP paces, with its own timer (`SK_PACING_NEEDED`).
    Socket,
    /// The host's queue discipline `fq` paces (`SK_PACING_FQ`).
    Fq,
}

impl Pacing {
    /// True if segments are paced with any algorithm.
    pub fn is_on(self) -> bool {
        self != Self::Off
    }
}

/// The value as written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StatedPacing {
    Switch(bool),
    Discipline(Discipline),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Discipline {
    Fq,
}

impl From<StatedPacing> for Pacing {
    fn from(stated: StatedPacing) -> Self {
        match stated {
            StatedPacing::Switch(false) => Self::Off,
            StatedPacing::Switch(true) => Self::Socket,
            StatedPacing::Discipline(Discipline::Fq) => Self::Fq,
        }
    }
}

impl From<Pacing> for StatedPacing {
    fn from(pacing: Pacing) -> Self {
        match pacing {
            Pacing::Off => Self::Switch(false),
            Pacing::Socket => Self::Switch(true),
            Pacing::Fq => Self::Discipline(Discipline::Fq),
        }
    }
}

impl JsonSchema for Pacing {
    fn schema_name() -> Cow<'static, str> {
        "Pacing".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Pacing of segments: by TCP (true), none (false), or by the queue discipline \"fq\"",
            "anyOf": [{ "type": "boolean" }, { "type": "string", "const": "fq" }],
        })
    }
}
