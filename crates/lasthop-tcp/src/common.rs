//! What the stacks share.

mod context;
pub(crate) mod metrics;
pub(crate) mod rtt;
mod state;
pub(crate) mod stream;

pub(crate) use context::{Context, Transmission};
pub(crate) use state::State;
