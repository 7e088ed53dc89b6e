//! Congestion window validation (RFC 2861, as Linux has it): a window that is not in use shrinks, and does not grow.

use crate::clock::Tick;

/// How much of the window was in use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Whether the window was full, and how full it was, since what was sent at that time.
    is_limited: bool,
    most_outstanding: u32,
    seq: u64,
    /// Most segments outstanding, and when the window was last full.
    used: u32,
    stamp: Tick,
    /// When data left last.
    pub last_sent: Tick,
}

/// Data has just left, or could not.
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

    /// The window grows, or is as large as it should be.
    pub fn touch(&mut self, tick: Tick) {
        self.stamp = tick;
    }

    /// True if the window may grow: it was full, or twice what was used in slow start (RFC 7661 has the thought).
    pub fn allows_growth(&self, window: u32, ssthresh: u32) -> bool {
        self.is_limited || (window < ssthresh && window < 2 * self.most_outstanding)
    }

    /// The window after a pause: half of it for each timeout that has passed, down to `restart`. None if the pause was
    /// short.
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

    /// Notes how full the window is.
    pub fn note(&mut self, now: Now) {
        let Now { outstanding, is_full, .. } = now;
        if now.una >= self.seq || is_full || (!self.is_limited && outstanding > self.most_outstanding) {
            self.is_limited = is_full;
            self.most_outstanding = outstanding;
            self.seq = now.nxt;
        }
    }

    /// Whether the window was in use. Returns what was used of it, at least `least`, if it has not been full for a
    /// timeout; nothing shrinks unless `may_shrink`.
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
