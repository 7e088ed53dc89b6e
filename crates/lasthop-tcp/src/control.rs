//! How the window grows, and how far a loss cuts it: Reno or CUBIC.

mod cubic;

use crate::clock::Tick;
use crate::config::CongestionControl;
pub use cubic::AckTime;
use cubic::Cubic;

/// The algorithm of a connection.
#[derive(Clone, Debug)]
pub enum Growth {
    Reno,
    Cubic(Box<Cubic>),
}

impl Growth {
    pub fn new(algorithm: CongestionControl, ticks_per_second: u64) -> Self {
        match algorithm {
            CongestionControl::Reno => Self::Reno,
            CongestionControl::Cubic => Self::Cubic(Box::new(Cubic::new(ticks_per_second))),
            CongestionControl::Bbr => unreachable!("a scenario with BBR is refused before it runs"),
        }
    }

    /// ssthresh after a loss.
    pub fn ssthresh(&mut self, window: u32) -> u32 {
        match self {
            Self::Reno => (window / 2).max(2),
            Self::Cubic(cubic) => cubic.ssthresh(window),
        }
    }

    /// Segments to be acknowledged per segment of growth in congestion avoidance, when `acked` more are.
    pub fn count(&mut self, now: Tick, window: u32, acked: u32) -> u32 {
        match self {
            Self::Reno => window,
            Self::Cubic(cubic) => cubic.count(now, window, acked),
        }
    }

    /// Begins anew: at the start, and after a timeout.
    pub fn reset(&mut self, now_us: u64, nxt: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.reset(now_us, nxt);
        }
    }

    /// Data leaves while nothing is in flight.
    pub fn on_restart(&mut self, now: Tick, last_sent: Tick) {
        if let Self::Cubic(cubic) = self {
            cubic.on_restart(now, last_sent);
        }
    }

    /// A round-trip sample; true if slow start is to end at this window.
    pub fn on_sample(&mut self, at: AckTime, rtt_us: u64, window: u32, slow_start: bool) -> bool {
        match self {
            Self::Reno => false,
            Self::Cubic(cubic) => cubic.on_sample(at, rtt_us, window, slow_start),
        }
    }
}
