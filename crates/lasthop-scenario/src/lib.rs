//! Scenario files: types, validation, JSON Schema, factor matrix.
//!
//! A file passes through these modules. Every error gives the file, line, key and a remedy:
//!
//! 1. `source` turns bytes into text, with lines;
//! 2. `tree` turns text into a tree of values with positions, and merges trees; `extends` merges a file over
//!    another file or over one of the `presets`;
//! 3. `schema` and `check` compare the tree with the JSON Schema that is derived from the types;
//! 4. `matrix` determines which combinations of levels are cells; `range` handles factors that are ranges, and
//!    their points; `when` handles levels that depend on other levels; `study` combines these steps;
//! 5. `compose` merges each cell's levels over the base and over the TCP profile; `assume` adds defaults;
//! 6. `validate` collects the faults within the parts of the merged [`Scenario`] and between them; `notes`
//!    reports settings that are probably unintended; `estimate` computes the cost of a run; `facts` collects
//!    the facts for stories and pictures.
//!
//! Each step repairs the faults that it finds, so that the next steps can report others.

mod assume;
mod check;
mod command;
mod compose;
mod courses;
mod desugar;
mod error;
mod estimate;
mod extends;
mod facts;
mod faults;
mod findings;
mod flow;
mod hops;
mod lan;
mod matrix;
mod measure;
mod mptcp;
mod notes;
mod presets;
mod range;
mod relay;
mod schema;
mod source;
mod study;
mod topology;
mod traces;
mod transfer;
mod tree;
mod types;
mod user;
mod validate;
mod when;
mod write;

pub use assume::Assumption;
pub use error::{ScenarioError, ScenarioErrors};
pub use estimate::Estimate;
pub use facts::{ApplicationFacts, Facts, QueueFacts, VoiceFacts};
pub use faults::DropList;
pub use flow::{AccessConfig, DataDirection, Flow, FlowStack, MigrateConfig, RelayConfig};
pub use hops::{Behind, HopConfig, HostConfig, ONLY_HOP, RouterConfig, RouterImplementation, SERVER};
pub use measure::MeasureConfig;
pub use mptcp::MptcpConfig;
pub use range::{Draw, Method, Sample, Sampler};
pub use relay::HostPair;
pub use schema::json_schema;
pub use source::{open as open_file, read as read_file};
pub use study::{Cell, RangeInfo, Space, Study};
pub use topology::{Hop, HopKind, PortSetup, Tree};
pub use types::{LanConfig, Roles, Scenario};
pub use user::{Found, Library};
pub use write::to_toml;
