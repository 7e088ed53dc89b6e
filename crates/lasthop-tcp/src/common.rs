//! The parts that the stacks share.

mod buffers;
mod context;
mod episode;
mod handshake;
pub(crate) mod metrics;
mod minimum;
mod persist;
mod retransmission_queue;
pub(crate) mod rtt;
mod sack;
mod send_queue;
mod state;
mod stream;

pub(crate) use context::{Context, StateReport, Transmission, WindowReport};
pub(crate) use episode::Episode;
pub(crate) use handshake::{Handshake, MARKS_FIRST};
pub(crate) use minimum::{Maximum, Minimum};
pub(crate) use persist::Persist;
pub(crate) use retransmission_queue::{RetransmissionQueue, SentSegment};
pub(crate) use sack::is_dsack;
pub(crate) use send_queue::{SendQueue, ride_on_last};
pub(crate) use state::{SSTHRESH_INFINITE, State};
pub(crate) use stream::{Cut, NewSegment};
