//! QUIC in virtual time: `quinn-proto`, the state machine of a production stack, behind
//! [`lasthop_core::Transport`].
//!
//! The parts: `end` is one end of a flow, `streams` the streams of its connection, `datagrams` its unreliable
//! datagrams, `tls` its handshake, `null` a faster replacement for that, `random` the source of all
//! randomness, `tap` the observation of packets before encryption, `frames` the parser of their frames,
//! `controller` the observation of congestion control, `qlog` the log for qvis, and `flight` the datagrams in
//! flight between the ends.
//!
//! quinn-proto takes the time as `std::time::Instant`. These instants are virtual nanoseconds added to a base
//! that both ends of a flow share. Only differences count, so results do not depend on the base.

/// Calls what a wrapper of quinn's or rustls' parts holds.
macro_rules! inner {
    ($wrapper:expr, $inner:ident => $call:expr) => {{
        let Self { inner: $inner, .. } = $wrapper;
        $call
    }};
}

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
pub use end::{Moves, Quic, ends};
