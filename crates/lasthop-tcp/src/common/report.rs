//! Reports of the window to observers.

use lasthop_core::{Observer, TransportEvent};

use super::context::Context;

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
