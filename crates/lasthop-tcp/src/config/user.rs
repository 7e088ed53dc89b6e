//! A congestion control of a user's own, as a scenario names it.

use std::fmt;

use lasthop_core::{RandomStream, UserCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::algorithm::{CongestionAlgorithm, CongestionWindow, ControlSetup};

/// The code, and what its next instance draws from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct UserControl {
    /// What is named.
    pub code: UserCode<ControlSetup, dyn CongestionAlgorithm>,
    #[serde(skip)]
    stream: Option<RandomStream>,
}

impl UserControl {
    /// The code of one end of a connection, with draws of its own.
    pub(crate) fn new(code: UserCode<ControlSetup, dyn CongestionAlgorithm>, stream: RandomStream) -> Self {
        Self { code, stream: Some(stream) }
    }

    pub(crate) fn make(&self, segment_bytes: u32, start: CongestionWindow) -> Box<dyn CongestionAlgorithm> {
        let stream = self.stream.clone().expect("an engine gives every end a stream");
        self.code.make(ControlSetup { stream, segment_bytes, start })
    }
}

impl PartialEq for UserControl {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for UserControl {}

impl fmt::Display for UserControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)
    }
}
