//! QUIC in virtual time: `quinn-proto`, the state machine of a stack in production, behind [`lasthop_core::Transport`].
//!
//! The parts: `end` is one end of a flow, `streams` what its connection
//! carries, `datagrams` what it carries without repeating it, `tls` its handshake, `null` a twin of that for speed, `random` where all randomness comes from, `tap` what is
//! seen of packets that are not encrypted, `frames` how these are read, `controller` what is seen of congestion
//! control, `qlog` what qvis draws of it all, `flight` the datagrams between the ends.
//!
//! quinn-proto is told the time as `std::time::Instant`. They are made of virtual nanoseconds on a base that both ends of
//! a flow share; as only differences count, results do not depend on it.

mod config;
mod controller;
mod datagrams;
mod end;
mod flight;
mod frames;
mod null;
mod qlog;
mod random;
mod streams;
mod tap;
mod tls;

#[cfg(test)]
mod tests;

pub use config::{CongestionControl, Crypto, QuicConfig};
pub use end::{Quic, ends};
