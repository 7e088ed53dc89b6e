//! A part of a run.

use serde::Deserialize;

/// A period that is needed in detail; both ends are included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Start, in nanoseconds since the start of the run.
    pub start_ns: u64,
    pub stop_ns: u64,
}
