//! SFQ: its own keys of a queue.

use super::fair::{self, FlowsConfig};

pub(super) const KEYS: [&str; 2] = fair::KEYS;

/// An SFQ queue's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SfqConfig {
    pub(crate) flows: FlowsConfig,
}
