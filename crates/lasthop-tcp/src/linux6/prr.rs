//! Proportional rate reduction (RFC 6937) as Linux has it: with the conservative reduction bound, and that of slow start
//! where an ACK moves the left edge and shows no further loss.

use super::Sender;
use crate::common::State;

/// Segments delivered and sent since the reduction began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    pub prior_window: u32,
    delivered: u64,
    pub sent: u64,
}

impl Sender {
    /// A reduction begins: ssthresh falls at once, the window with the segments that are delivered.
    pub(super) fn begin_reduction(&mut self) {
        self.recovery_point = self.nxt;
        self.probe_end = None;
        self.cwnd_count = 0;
        self.prior_cwnd = self.cwnd;
        self.reduction = Reduction { prior_window: self.cwnd, ..Reduction::default() };
        self.ssthresh = self.growth.ssthresh(self.cwnd);
        self.cwr_pending = self.ecn_negotiated;
    }

    /// The window after an ACK that delivered so many segments and showed so many losses (section 3).
    pub(super) fn reduce_window(&mut self, delivered: u64, lost: u64, advanced: bool) {
        if delivered == 0 {
            return;
        }
        let in_flight = i64::from(self.board.in_flight());
        let room = i64::from(self.ssthresh) - in_flight;
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let sent = reduction.sent.cast_signed();
        let mut count = if room < 0 {
            let prior = u64::from(reduction.prior_window);
            let share = (u64::from(self.ssthresh) * reduction.delivered).div_ceil(prior);
            share.cast_signed() - sent
        } else {
            let conserved = (reduction.delivered.cast_signed() - sent).max(delivered.cast_signed());
            room.min(conserved + i64::from(advanced && lost == 0))
        };
        // The first retransmission leaves in any case.
        count = count.max(i64::from(reduction.sent == 0));
        self.cwnd = u32::try_from(in_flight + count).unwrap_or(0).max(1);
    }

    /// The reduction is over, and the window is ssthresh unless it was undone.
    pub(super) fn end_reduction(&mut self) {
        if self.ssthresh != u32::MAX && (self.state == State::Cwr || self.undo_marker.is_some()) {
            self.cwnd = self.ssthresh;
        }
    }

    pub(super) fn is_reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }
}
