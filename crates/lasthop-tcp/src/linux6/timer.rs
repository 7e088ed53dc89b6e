//! The one timer of Linux' sender.

use crate::clock::{Tick, wheel};

/// The purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    Retransmission,
    /// The tail loss probe (RFC 8985, section 7).
    Probe,
    /// The end of RACK's reordering window (RFC 8985, section 6.2).
    Reordering,
    /// The persist timer (RFC 9293, section 3.8.6.1).
    Window,
}

/// A timer with one purpose at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux6Timer {
    set: Option<(Alarm, Tick)>,
}

impl Linux6Timer {
    /// Sets it to `delta` ticks from `now`; this replaces its previous setting.
    pub fn set(&mut self, alarm: Alarm, now: Tick, delta: Tick) {
        self.set = Some((alarm, wheel(now, delta)));
    }

    pub fn clear(&mut self) {
        self.set = None;
    }

    pub fn alarm(&self) -> Option<Alarm> {
        self.set.map(|(alarm, _)| alarm)
    }

    pub fn due(&self) -> Option<Tick> {
        self.set.map(|(_, tick)| tick)
    }
}
