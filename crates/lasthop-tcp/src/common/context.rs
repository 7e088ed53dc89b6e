//! The interface between a sender and its caller: the input of a call, segments, and reports of the window.

use lasthop_core::{Ecn, FlowId, Host, Instant, Observer, TransportEvent};

use crate::clock::Tick;

/// Time, identity and observer of one call into an endpoint.
pub(crate) struct Context<'a, O> {
    pub now: Instant,
    /// The same in microseconds since the start of the run.
    pub us: u64,
    pub tick: Tick,
    pub flow: FlowId,
    pub host: Host,
    pub observer: &'a mut O,
}

impl<O: Observer> Context<'_, O> {
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

/// Reports the window whenever it differs from the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowReport(u32, u32, u32);

impl WindowReport {
    /// Window, threshold and flight size, all in segments.
    pub fn tell<O: Observer>(&mut self, cx: &mut Context<'_, O>, cwnd: u32, ssthresh: u32, in_flight: u32) {
        let window = Self(cwnd, ssthresh, in_flight);
        if window != *self {
            *self = window;
            cx.emit(TransportEvent::Window { cwnd, ssthresh, in_flight });
        }
    }
}

/// Reports the state of a congestion control that has states, whenever it differs from the last report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateReport {
    there: bool,
    last: Option<&'static str>,
}

impl StateReport {
    pub const fn new(there: bool) -> Self {
        Self { there, last: None }
    }

    /// True if the congestion control has states.
    pub const fn are_there(self) -> bool {
        self.there
    }

    /// States that it passes through within one event are left out.
    pub fn tell<O: Observer>(&mut self, cx: &mut Context<'_, O>, state: Option<&'static str>) {
        if state == self.last {
            return;
        }
        self.last = state;
        if let Some(state) = state {
            cx.emit(TransportEvent::State(state));
        }
    }
}
