//! The state of loss recovery: the states of Linux, and the extent of reordering.

use crate::common::State;

/// Maximum to which reordering raises the threshold in Linux.
const REORDERING_MAX: u64 = 300;

#[derive(Clone, Copy, Debug)]
pub(super) struct Linux6Recovery {
    pub state: State,
    /// `snd_nxt` when the current state was entered.
    pub point: u64,
    /// Duplicates, or segments SACKed, that start fast recovery without RACK.
    pub reordering: u32,
    pub reordering_seen: bool,
}

impl Linux6Recovery {
    pub fn new(reordering: u32) -> Self {
        Self { state: State::Open, point: 0, reordering, reordering_seen: false }
    }

    /// A segment arrived `bytes` below the highest one.
    pub fn note_reordering(&mut self, bytes: u64, mss: u32) {
        let distance = bytes.div_ceil(u64::from(mss)).min(REORDERING_MAX);
        self.reordering = self.reordering.max(distance as u32);
        self.reordering_seen = true;
    }

    /// Without SACK: this number of duplicates exceeds the number of segments that could cause them.
    pub fn set_reordering(&mut self, segments: u32) {
        self.reordering = segments.min(REORDERING_MAX as u32);
        self.reordering_seen = true;
    }

    /// True if a timeout now is the first of its episode, so that ssthresh falls.
    pub fn is_fresh_timeout(&self, una: u64, expiries: u32) -> bool {
        self.state <= State::Disorder || una >= self.point || (self.state == State::Loss && expiries == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_raises_the_threshold_and_never_lowers_it() {
        let mut recovery = Linux6Recovery::new(3);
        recovery.note_reordering(1_001, 1_000);
        assert_eq!((recovery.reordering, recovery.reordering_seen), (3, true));
        recovery.note_reordering(7_001, 1_000);
        assert_eq!(recovery.reordering, 8);
        recovery.note_reordering(1_000_000, 1_000);
        assert_eq!(recovery.reordering, 300);
    }

    #[test]
    fn a_second_timeout_in_a_row_reduces_no_more() {
        let mut recovery = Linux6Recovery::new(3);
        assert!(recovery.is_fresh_timeout(50, 0));
        (recovery.state, recovery.point) = (State::Loss, 100);
        assert!(!recovery.is_fresh_timeout(50, 1));
        assert!(recovery.is_fresh_timeout(50, 0), "progress since the last one");
        assert!(recovery.is_fresh_timeout(101, 1), "all of the episode is acknowledged");
    }
}
