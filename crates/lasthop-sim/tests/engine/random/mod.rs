//! Random scenarios, and an independent receiver that checks the byte streams of a run.

mod scenarios;
mod streams;

pub use scenarios::scenarios;
pub use streams::Streams;
