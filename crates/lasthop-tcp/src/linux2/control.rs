//! The algorithms of the stack, and the additional methods that this stack needs.

use crate::clock::TickClock;
use crate::config::{CongestionControl, TcpConfig};
use crate::control::{Congestion, Controller, Counting, Cubic23, Moment, RateSample, Reno, Segments};

#[derive(Clone, Debug)]
pub(super) enum Control {
    Reno(Reno<Segments>),
    Cubic(Cubic23<true>),
}

/// Forwards a call.
macro_rules! either {
    ($control:expr, $algorithm:ident => $call:expr) => {
        match $control {
            Control::Reno($algorithm) => $call,
            Control::Cubic($algorithm) => $call,
        }
    };
}

impl Control {
    pub fn new(config: &TcpConfig, mss: u32, clock: TickClock) -> Self {
        let window = Segments::new(config, mss, Counting::Acks);
        match config.congestion_control {
            CongestionControl::Cubic => Self::Cubic(Cubic23::new(window, clock.per_second())),
            _ => Self::Reno(Reno(window)),
        }
    }

    /// An ACK acknowledges this number of segments while no loss is being repaired (`pkts_acked`).
    pub fn note_acked(&mut self, segments: u32) {
        if let Self::Cubic(cubic) = self {
            cubic.note_acked(segments);
        }
    }

    /// Minimum of the window in rate halving (`min_cwnd`): for Reno, half of ssthresh.
    pub fn floor(&self) -> u32 {
        match self {
            Self::Reno(reno) => reno.ssthresh() / 2,
            Self::Cubic(cubic) => cubic.ssthresh(),
        }
    }

    /// The window after the undoing of a reduction (`undo_cwnd`).
    pub fn undone(&self) -> u32 {
        match self {
            Self::Reno(reno) => reno.ssthresh() * 2,
            Self::Cubic(cubic) => cubic.undone(),
        }
    }
}

impl Controller for Control {
    type Window = Segments;

    fn state(&self) -> &Segments {
        either!(self, algorithm => algorithm.state())
    }

    fn state_mut(&mut self) -> &mut Segments {
        either!(self, algorithm => algorithm.state_mut())
    }

    fn on_start(&mut self, at: &Moment, delivered: u64) {
        either!(self, algorithm => algorithm.on_start(at, delivered));
    }

    fn on_rtt(&mut self, at: &Moment, rtt_us: u64) {
        either!(self, algorithm => algorithm.on_rtt(at, rtt_us));
    }

    fn on_ack(&mut self, sample: &RateSample) {
        either!(self, algorithm => algorithm.on_ack(sample));
    }

    fn on_congestion(&mut self, sign: Congestion, flight: u32) {
        either!(self, algorithm => algorithm.on_congestion(sign, flight));
    }

    fn on_persistent(&mut self, at: &Moment, window: u32) {
        either!(self, algorithm => algorithm.on_persistent(at, window));
    }
}
