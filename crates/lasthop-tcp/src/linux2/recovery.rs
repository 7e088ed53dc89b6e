//! The state machine of loss recovery in Linux 2.4 (Open, Disorder, CWR, Recovery, Loss).

use crate::common::State;

#[derive(Clone, Copy, Debug)]
pub(super) struct Linux2Recovery {
    pub state: State,
    /// `snd_nxt` when the current state was entered.
    pub point: u64,
    /// Duplicate ACKs, or segments SACKed, that start fast recovery.
    pub reordering: u32,
    /// Duplicate ACKs since the window last moved.
    pub duplicates: u32,
}

/// How a state ends when its recovery point is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    Not,
    Loss,
    Cwr,
    Disorder,
    Recovery,
}

impl Linux2Recovery {
    pub fn new(reordering: u32) -> Self {
        Self { state: State::Open, point: 0, reordering, duplicates: 0 }
    }

    /// A state begins, with everything below `point` sent.
    pub fn enter(&mut self, state: State, point: u64) {
        (self.state, self.point) = (state, point);
    }

    /// The end of the state with `una`, if it ends. `undoable`: a reduction may still be undone.
    pub fn finished(&self, una: u64, undoable: bool) -> Finished {
        // CWR and Disorder are held until data *beyond* the point is acknowledged, so that the CWR flag has
        // reached the receiver and late duplicates have passed.
        let passed = una > self.point;
        match self.state {
            _ if una < self.point => Finished::Not,
            State::Loss => Finished::Loss,
            State::Recovery => Finished::Recovery,
            State::Cwr if passed => Finished::Cwr,
            State::Disorder if passed || !undoable => Finished::Disorder,
            State::Open | State::Cwr | State::Disorder => Finished::Not,
        }
    }

    /// True if a timeout now is the first of its episode, so that ssthresh falls.
    pub fn is_fresh_timeout(&self, una: u64, expiries: u32) -> bool {
        self.state <= State::Disorder || una == self.point || (self.state == State::Loss && expiries == 0)
    }

    /// True if too few segments are outstanding for three duplicates (RFC 5827, section 3.2, counted in
    /// segments).
    pub fn is_early(outstanding: u32, sacked: u32) -> bool {
        (2..4).contains(&outstanding) && sacked >= outstanding - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_state(state: State) -> Linux2Recovery {
        let mut recovery = Linux2Recovery::new(3);
        recovery.enter(state, 100);
        recovery
    }

    #[test]
    fn recovery_and_loss_end_at_the_point_and_reductions_beyond_it() {
        let ends = |state, una| in_state(state).finished(una, true);
        assert_eq!(
            [ends(State::Recovery, 99), ends(State::Recovery, 100)],
            [Finished::Not, Finished::Recovery]
        );
        assert_eq!([ends(State::Loss, 99), ends(State::Loss, 100)], [Finished::Not, Finished::Loss]);
        assert_eq!([ends(State::Cwr, 100), ends(State::Cwr, 101)], [Finished::Not, Finished::Cwr]);
        assert_eq!(
            [ends(State::Disorder, 100), ends(State::Disorder, 101)],
            [Finished::Not, Finished::Disorder]
        );
    }

    #[test]
    fn disorder_ends_at_the_point_when_nothing_can_be_undone() {
        assert_eq!(in_state(State::Disorder).finished(100, false), Finished::Disorder);
    }

    #[test]
    fn a_second_timeout_in_a_row_reduces_no_more() {
        assert!(in_state(State::Open).is_fresh_timeout(50, 0));
        assert!(!in_state(State::Loss).is_fresh_timeout(50, 1));
        assert!(in_state(State::Loss).is_fresh_timeout(50, 0), "progress since the last one");
        assert!(in_state(State::Loss).is_fresh_timeout(100, 1), "all of the episode is acknowledged");
    }
}
