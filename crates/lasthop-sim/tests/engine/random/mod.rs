//! Random scenarios, and a receiver of its own that judges what a run did to the byte streams.

mod scenarios;
mod streams;

pub use scenarios::scenarios;
pub use streams::Streams;
