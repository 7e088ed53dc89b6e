//! Model engine: event queue, topology, virtual clock.

#[doc(hidden)] // The micro benchmarks use it.
pub mod agenda;
mod engine;
mod flows;
mod network;
mod relay;
mod transport;

pub use engine::{HostMemory, RunEnd, RunFailure, run, try_run, try_run_for};
pub use network::{Entry, Network};
