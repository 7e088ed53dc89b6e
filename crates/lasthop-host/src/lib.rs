//! The live engine: two hosts as network namespaces of this machine, their own TCP, real programs, and between them
//! the last hop's models on the host's clock.
//!
//! ```text
//! server namespace                  this process                    client namespace
//! programs -- TUN <══> LAN, router queue, link: the models <══> TUN -- programs
//! ```
//!
//! [`Hop`](hop::Hop) is sans-IO, like the models in it. Around it, one thread waits for packets, for the time at which
//! the models have something to do, and for nothing else.

mod calls;
pub mod clock;
pub mod counters;
pub mod emulator;
pub mod error;
pub mod features;
pub mod guest;
pub mod header;
pub mod hop;
pub mod lateness;
pub mod namespace;
pub mod netlink;
pub mod pairs;
mod priority;
mod program_run;
pub mod programs;
pub mod qdisc;
pub mod router;
pub mod run;
mod servers;
pub mod shell;
pub mod status;
pub mod terminal;
pub mod tun;
mod workload;

pub use error::Error;
