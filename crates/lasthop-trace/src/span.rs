//! A part of a run.

use serde::Deserialize;

/// The time that is wanted in detail: both ends count.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// From here, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// To here.
    pub stop_ns: u64,
}
