//! Congestion window validation (RFC 2861, as in Linux): a window that is not in use shrinks, and does not
//! grow.

use crate::clock::Tick;

/// The used part of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Whether the window was full, and its use, since the data sent at that time.
    is_limited: bool,
    most_outstanding: u32,
    seq: u64,
    /// Maximum number of outstanding segments, and the time when the window was last full.
    used: u32,
    stamp: Tick,
    /// Time of the last transmission of data.
    pub last_sent: Tick,
}

/// Data has just left, or could not leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub tick: Tick,
    pub una: u64,
    pub nxt: u64,
    pub outstanding: u32,
    /// No more fits into the window.
    pub is_full: bool,
}

impl Usage {
    /// The connection begins.
    pub fn begin(&mut self, tick: Tick) {
        (self.stamp, self.last_sent) = (tick, tick);
    }

    /// The window grows, or has the right size.
    pub fn touch(&mut self, tick: Tick) {
        self.stamp = tick;
    }

    /// True if the window may grow: it was full, or, in slow start, less than twice the used part (the idea
    /// of RFC 7661).
    pub fn allows_growth(&self, window: u32, ssthresh: u32) -> bool {
        self.is_limited || (window < ssthresh && window < 2 * self.most_outstanding)
    }

    /// The window after a pause: half of it for each timeout that has passed, down to `restart`. None if the
    /// pause was short.
    pub fn after_idle(&mut self, tick: Tick, rto: Tick, window: u32, restart: u32) -> Option<u32> {
        let mut idle = tick - self.last_sent;
        if idle <= rto {
            return None;
        }
        let restart = restart.min(window);
        let mut shrunk = window;
        while idle > rto && shrunk > restart {
            shrunk /= 2;
            idle -= rto;
        }
        self.stamp = tick;
        self.used = 0;
        Some(shrunk.max(restart))
    }

    /// Notes the current use of the window.
    pub fn note(&mut self, now: Now) {
        let Now { outstanding, is_full, .. } = now;
        if now.una >= self.seq || is_full || (!self.is_limited && outstanding > self.most_outstanding) {
            self.is_limited = is_full;
            self.most_outstanding = outstanding;
            self.seq = now.nxt;
        }
    }

    /// Checks whether the window was in use. Returns the used part, at least `least`, if the window has not
    /// been full for a timeout. The window shrinks only if `may_shrink`.
    pub fn validate(&mut self, now: Now, in_use: bool, rto: Tick, may_shrink: bool) -> Option<u32> {
        if in_use {
            self.used = 0;
            self.stamp = now.tick;
            return None;
        }
        self.used = self.used.max(now.outstanding);
        if now.tick - self.stamp < rto {
            return None;
        }
        self.stamp = now.tick;
        may_shrink.then(|| std::mem::take(&mut self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { tick: 0, una: 0, nxt: 100, outstanding: 4, is_full: false };

    #[test]
    fn a_window_halves_with_every_timeout_of_silence() {
        let mut usage = Usage::default();
        assert_eq!(usage.after_idle(50, 50, 40, 10), None);
        assert_eq!(usage.after_idle(101, 50, 40, 10), Some(10));
        assert_eq!(usage.after_idle(51, 50, 40, 10), Some(20));
        assert_eq!(usage.after_idle(1_000, 50, 7, 10), Some(7), "a small window stays");
    }

    #[test]
    fn what_was_used_is_told_after_a_timeout() {
        let mut usage = Usage::default();
        assert_eq!(usage.validate(Now { tick: 10, ..NOW }, false, 50, true), None);
        assert_eq!(usage.validate(Now { tick: 40, outstanding: 6, ..NOW }, false, 50, true), None);
        assert_eq!(usage.validate(Now { tick: 60, ..NOW }, false, 50, true), Some(6));
        assert_eq!(usage.validate(Now { tick: 90, ..NOW }, false, 50, true), None, "it counts anew");
    }

    #[test]
    fn only_a_window_in_use_grows() {
        let mut usage = Usage::default();
        usage.note(NOW);
        assert!(usage.allows_growth(7, 20), "slow start goes to twice what was used");
        assert!(!usage.allows_growth(8, 20));
        assert!(!usage.allows_growth(7, 7));
        usage.note(Now { is_full: true, ..NOW });
        assert!(usage.allows_growth(30, 7));
    }
}
