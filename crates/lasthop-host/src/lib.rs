//! The live engine: hosts as network namespaces of this machine, with the machine's TCP and real
//! programs, and between them the models of the network, driven by the host's clock.
//!
//! ```text
//! server namespace                  this process                    client namespace
//! programs -- TUN <══> LAN, router queue, link: the models <══> TUN -- programs
//! ```
//!
//! [`Hop`](hop::Hop) is sans-IO, like the models in it. Around it, one thread waits only for packets and for
//! the wakeups of the models.

mod calls;
pub mod clock;
pub mod counters;
pub mod emulator;
pub mod error;
pub mod features;
mod generic_netlink;
pub mod guest;
pub mod header;
pub mod hop;
pub mod hosts;
mod kept_servers;
pub mod lateness;
mod mptcp;
pub mod namespace;
mod nat;
pub mod netlink;
mod priority;
mod program_hosts;
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
