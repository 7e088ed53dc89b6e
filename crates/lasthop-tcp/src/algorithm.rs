//! Custom congestion controls: their trait, and their place in a scenario.

use std::fmt;

use lasthop_core::{Instant, RandomStream, Rate, UserCode};

/// A user's own congestion control, as named in a scenario.
pub type UserControl = UserCode<ControlSetup, dyn CongestionAlgorithm>;

/// A user's own congestion control, for one end of a connection. The stack `linux-6` detects losses, repairs
/// them and runs the timers; the algorithm sets the window. It may change its window in every call.
///
/// A window of 0 segments ends the run, as the sender would never send again. So does an infinite one.
pub trait CongestionAlgorithm: fmt::Debug {
    /// The handshake is complete.
    fn on_start(&mut self, _now: Instant, _own: &mut CongestionWindow) {}

    /// An ACK that shows progress while nothing is being repaired; for a rate-based algorithm, any ACK.
    fn on_ack(&mut self, ack: &Ack, own: &mut CongestionWindow);

    /// A round-trip sample in microseconds, before its ACK is checked for losses.
    fn on_rtt(&mut self, _now: Instant, _rtt_us: u64, _own: &mut CongestionWindow) {}

    /// A loss, or an ECN echo; once per window of data. `in_use` is the used part of the window, in segments.
    /// The stack reduces the window to the threshold that is set here.
    fn on_congestion(&mut self, sign: Sign, in_use: u32, own: &mut CongestionWindow);

    /// The first timeout of an episode. The window set here is the one to continue with; `in_use` is the
    /// window before.
    fn on_timeout(&mut self, _now: Instant, in_use: u32, own: &mut CongestionWindow) {
        self.on_congestion(Sign::Loss, in_use, own);
    }

    /// Data sent after a timeout is lost, too. The window set here is the one to continue with.
    fn on_repeated_timeout(&mut self, _now: Instant, _own: &mut CongestionWindow) {}

    /// The latest reduction was unnecessary; with the window and threshold before it.
    fn on_spurious(&mut self, window: u32, ssthresh: u32, own: &mut CongestionWindow) {
        own.window = own.window.max(window);
        own.ssthresh = own.ssthresh.max(ssthresh);
    }

    /// True if the algorithm models the path: it gets a delivery rate with every ACK, and also sets its
    /// window while the stack repairs losses. The answer must stay the same.
    fn is_rate_based(&self) -> bool {
        false
    }

    /// The name of its state, if it is a state machine: traces then record each change.
    fn state(&self) -> Option<&'static str> {
        None
    }
}

/// The decisions of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionWindow {
    /// The window in segments; at least 1, and below `u32::MAX`.
    pub window: u32,
    /// The slow-start threshold in segments; `u32::MAX` before the first sign of congestion.
    pub ssthresh: u32,
    /// The maximum sending rate; none if only ACKs clock the data.
    pub pacing_rate: Option<Rate>,
}

#[derive(Clone, Debug)]
pub struct ControlSetup {
    pub stream: RandomStream,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// The initial window and threshold.
    pub start: CongestionWindow,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    pub now: Instant,
    /// Segments that have newly arrived according to this ACK.
    pub acked: u32,
    /// True if the window was in use: only then may it grow (RFC 7661).
    pub is_window_limited: bool,
    /// For a rate-based algorithm: the delivery rate, if the ACK gives one.
    pub delivery: Option<Delivery>,
}

/// A delivery rate (draft-ietf-ccwg-bbr, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub segments: u64,
    /// The time in which they arrived.
    pub interval_us: u64,
    /// True if the sender had too little to send, so that the path may be faster.
    pub is_app_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Loss,
    /// The receiver echoes a mark (RFC 3168).
    Ecn,
}
