//! Scenario files: types, validation, JSON Schema, factor matrix.
//!
//! A file goes through these steps, each a module, and every error names file, line, key and remedy:
//!
//! 1. `source`: bytes to text, with lines;
//! 2. `tree`: text to a tree of values that know where they stand; merging of trees; `extends`: a file laid
//!    over another;
//! 3. `schema` and `check`: the tree against the JSON Schema derived from the types;
//! 4. `matrix`: which combinations of levels are cells; `when`: what levels say beside other levels;
//! 5. `study`: each cell's levels merged over the base, over the TCP profile;
//! 6. `validate`: what no type can say of the merged [`Scenario`].

mod check;
mod error;
mod extends;
mod matrix;
mod schema;
mod source;
mod study;
mod tree;
mod types;
mod validate;
mod when;

pub use error::ScenarioError;
pub use schema::json_schema;
pub use study::{Cell, Study};
pub use types::{LanConfig, Roles, RouterConfig, RouterImplementation, Scenario, Topology};
