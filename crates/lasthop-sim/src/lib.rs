//! Model engine: event queue, topology, virtual clock.

mod agenda;
mod application;
mod engine;
mod network;
mod wire;

pub use engine::{HostMemory, RunEnd, run};
pub use network::{Component, Entry, Network};
