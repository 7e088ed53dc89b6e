//! What a congestion control of a user's own is: the trait for code outside of this crate.

use std::fmt;

use lasthop_core::{Instant, RandomStream, Rate};

/// A congestion control of one's own, of one end of a connection. The stack `linux-6` detects losses, repairs them and
/// runs the timers; the algorithm sets the window. It may change its window in every call.
///
/// A window of no segment ends the run: it would never send again.
pub trait CongestionAlgorithm: fmt::Debug {
    /// The handshake is complete.
    fn on_start(&mut self, _now: Instant, _own: &mut CongestionWindow) {}

    /// An ACK that shows progress while nothing is being repaired; for a rate-based algorithm, any ACK.
    fn on_ack(&mut self, ack: &Ack, own: &mut CongestionWindow);

    /// A round-trip sample in microseconds, before the ACK that brought it is looked at for losses.
    fn on_rtt(&mut self, _now: Instant, _rtt_us: u64, _own: &mut CongestionWindow) {}

    /// A loss, or an ECN echo; once per window of data. `in_use` is the window that was in use, in segments. The stack
    /// brings the window down to the threshold that is set here.
    fn on_congestion(&mut self, sign: Sign, in_use: u32, own: &mut CongestionWindow);

    /// The first timeout of an episode: the window is what sending goes on with, `in_use` what it was.
    fn on_timeout(&mut self, _now: Instant, in_use: u32, own: &mut CongestionWindow) {
        self.on_congestion(Sign::Loss, in_use, own);
    }

    /// What was sent after a timeout is lost too; the window is what sending goes on with.
    fn on_repeated_timeout(&mut self, _now: Instant, _own: &mut CongestionWindow) {}

    /// The latest reduction was unnecessary; window and threshold were these.
    fn on_spurious(&mut self, window: u32, ssthresh: u32, own: &mut CongestionWindow) {
        own.window = own.window.max(window);
        own.ssthresh = own.ssthresh.max(ssthresh);
    }

    /// It models the path: it gets a delivery rate with every ACK, and sets its window while the stack repairs losses.
    fn is_rate_based(&self) -> bool {
        false
    }
}

/// What an algorithm decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionWindow {
    /// In segments; at least 1.
    pub window: u32,
    /// The slow-start threshold in segments; `u32::MAX` before the first sign of congestion.
    pub ssthresh: u32,
    /// The rate at which data leaves at most; none if ACKs alone clock it.
    pub pacing_rate: Option<Rate>,
}

/// What an instance is told at first.
#[derive(Clone, Debug)]
pub struct ControlSetup {
    /// Draws of its own.
    pub stream: RandomStream,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// The window and the threshold at first.
    pub start: CongestionWindow,
}

/// What one ACK says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    /// When it arrived.
    pub now: Instant,
    /// Segments that have arrived, as far as is known from now on.
    pub acked: u32,
    /// The window was in use: only then may it grow (RFC 7661).
    pub is_window_limited: bool,
    /// How fast segments arrived, for a rate-based algorithm, where the ACK tells.
    pub delivery: Option<Delivery>,
}

/// How fast segments arrived (draft-ietf-ccwg-bbr, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// So many of them.
    pub segments: u64,
    /// In this time.
    pub interval_us: u64,
    /// The sender had too little to send: the path may be faster.
    pub is_app_limited: bool,
}

/// A sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A segment was lost.
    Loss,
    /// The receiver echoes a mark (RFC 3168).
    Ecn,
}
