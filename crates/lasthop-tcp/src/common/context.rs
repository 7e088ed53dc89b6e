//! The input of each call into a sender, and the segments that a sender produces.

use lasthop_core::{Ecn, FlowId, Host, Instant, Observer, TransportEvent};

use crate::clock::Tick;

/// Time, identity and observer of one call into an endpoint.
pub(crate) struct Context<'a, O> {
    pub now: Instant,
    pub tick: Tick,
    pub flow: FlowId,
    pub host: Host,
    pub observer: &'a mut O,
}

impl<O: Observer> Context<'_, O> {
    /// Microseconds since the start of the run.
    pub fn micros(&self) -> u64 {
        self.now.as_nanos() / 1000
    }

    pub fn emit(&mut self, event: TransportEvent) {
        self.observer.transport(self.now, self.flow, self.host, event);
    }
}

/// A segment to be sent; the connection adds acknowledgment, window and timestamps.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a header")]
pub(crate) struct Transmission {
    pub seq: u64,
    pub payload_bytes: u32,
    pub syn: bool,
    pub fin: bool,
    pub ecn: Ecn,
    pub cwr: bool,
    /// The end of a write.
    pub push: bool,
}
