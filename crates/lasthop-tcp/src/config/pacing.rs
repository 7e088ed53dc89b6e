//! Pacing of segments.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The pacing of segments: `true`, `false`, the name of a queue discipline, or `"never"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StatedPacing", into = "StatedPacing")]
pub enum Pacing {
    /// No pacing, unless the algorithm always paces.
    Off,
    /// TCP paces, with its own timer (`SK_PACING_NEEDED`).
    Socket,
    /// The host's queue discipline `fq` paces (`SK_PACING_FQ`).
    Fq,
    /// Not even an algorithm that sets a rate is paced: Linux up to 4.12 on a host without `fq`.
    Never,
}

impl Pacing {
    /// True if segments are paced with any algorithm.
    pub fn is_on(self) -> bool {
        matches!(self, Self::Socket | Self::Fq)
    }
}

/// The value as written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StatedPacing {
    Switch(bool),
    Word(Word),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Fq,
    Never,
}

impl From<StatedPacing> for Pacing {
    fn from(stated: StatedPacing) -> Self {
        match stated {
            StatedPacing::Switch(false) => Self::Off,
            StatedPacing::Switch(true) => Self::Socket,
            StatedPacing::Word(Word::Fq) => Self::Fq,
            StatedPacing::Word(Word::Never) => Self::Never,
        }
    }
}

impl From<Pacing> for StatedPacing {
    fn from(pacing: Pacing) -> Self {
        match pacing {
            Pacing::Off => Self::Switch(false),
            Pacing::Socket => Self::Switch(true),
            Pacing::Fq => Self::Word(Word::Fq),
            Pacing::Never => Self::Word(Word::Never),
        }
    }
}

impl JsonSchema for Pacing {
    fn schema_name() -> Cow<'static, str> {
        "Pacing".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Pacing of segments: by TCP (true), none unless the algorithm paces (false), by the \
                            queue discipline \"fq\", or none with any algorithm (\"never\")",
            "anyOf": [
                { "type": "boolean" },
                { "type": "string", "const": "fq" },
                { "type": "string", "const": "never" },
            ],
        })
    }
}
