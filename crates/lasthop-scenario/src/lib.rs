//! Scenario files: types, validation, JSON Schema, factor matrix.
//!
//! A file goes through these steps, each a module, and every error names file, line, key and remedy:
//!
//! 1. `source`: bytes to text, with lines;
//! 2. `tree`: text to a tree of values that know where they stand; merging of trees; `extends`: a file laid
//!    over another, or over one of the `presets`;
//! 3. `schema` and `check`: the tree against the JSON Schema derived from the types;
//! 4. `matrix`: which combinations of levels are cells; `range`: factors between two ends, and their points; `when`:
//!    what levels say beside other levels; `study`: the whole;
//! 5. `compose`: each cell's levels merged over the base, over the TCP profile; `assume`: what none of them says;
//! 6. `validate`: what the parts of the merged [`Scenario`] find wrong with themselves, and what several of them say
//!    together; `notes`: what is hardly meant; `estimate`: what a run may take;
//!    `facts`: what stories and pictures have to know.
//!
//! A step repairs what it finds wrong, so that the next ones find what else is.

mod assume;
mod check;
mod compose;
mod error;
mod estimate;
mod extends;
mod facts;
mod findings;
mod flow;
mod lan;
mod matrix;
mod notes;
mod presets;
mod range;
mod schema;
mod source;
mod study;
mod traces;
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
pub use flow::{AccessConfig, Flow, FlowStack, Ways};
pub use range::{Draw, Method, Sample, Sampler};
pub use schema::json_schema;
pub use source::{open as open_file, read as read_file};
pub use study::{Cell, RangeInfo, Space, Study};
pub use types::{LanConfig, Roles, RouterConfig, RouterImplementation, Scenario, Topology};
pub use user::{Found, Library};
pub use write::to_toml;
