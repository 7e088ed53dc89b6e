//! Loss recovery: when it begins, what it marks lost and sends again, when it ends.
//!
//! The state machine of Linux 2.4 (Open, Disorder, CWR, Recovery, Loss) with two sets of rules for
//! window and scoreboard, see [`RecoveryRules`].

use lasthop_core::{Observer, RetransmissionKind, TcpEvent};

use super::{AckSigns, Sender};
use crate::common::{Context, State};
use crate::config::RecoveryRules;

impl Sender {
    /// An ACK that is a duplicate, carries SACK or ECE news, or arrives outside the open state.
    pub(super) fn on_dubious_ack<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        signs: AckSigns,
        prior_una: u64,
    ) {
        let mut duplicate = !signs.not_duplicate;
        if duplicate {
            self.duplicates += 1;
        }
        if signs.ece {
            self.prior_ssthresh = 0;
        }
        let beyond = self.board.furthest_sacked() > self.reordering;
        if signs.data_lost && self.una < self.recovery_point && self.state != State::Open && beyond {
            // SACKs for data sent after the recovery point: every hole that much further back is lost.
            self.board.mark_lost(self.board.furthest_sacked() - self.reordering, self.recovery_point);
        }
        self.leave_finished_state(cx);
        match self.state {
            State::Recovery | State::Loss if self.is_held() => {
                self.moderate_window();
                return;
            }
            State::Recovery => {
                if self.una != prior_una {
                    // Without SACK every partial ACK shows the next loss (RFC 6582, section 3.2).
                    let failed = beyond || !self.config.sack;
                    duplicate = !self.try_undo_partial(cx, signs.acked_segments) && failed;
                }
            }
            State::Loss => {
                if !self.try_undo_loss(cx) {
                    self.moderate_window();
                    self.retransmit_lost(cx, false);
                    return;
                }
                self.try_to_open(cx, signs);
                return;
            }
            State::Open | State::Disorder | State::Cwr => {
                if self.state == State::Disorder {
                    self.try_undo_dsack(cx);
                }
                if !self.time_to_recover(cx) {
                    self.try_to_open(cx, signs);
                    return;
                }
                self.enter_recovery(cx, signs);
                self.mark_lost(cx);
                self.shrink_window();
                self.retransmit_lost(cx, true);
                return;
            }
        }
        if duplicate || self.head_timed_out(cx) {
            self.mark_lost(cx);
        }
        self.shrink_window();
        self.retransmit_lost(cx, false);
    }

    /// Ends a state whose recovery point has been acknowledged.
    fn leave_finished_state<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.state == State::Open {
            self.retransmission_stamp = None;
            return;
        }
        if self.una < self.recovery_point {
            return;
        }
        // CWR and Disorder hold until something *beyond* the point is acknowledged, so that the CWR
        // flag has reached the receiver and late duplicates have passed.
        let passed = self.una > self.recovery_point;
        match self.state {
            State::Loss => {
                self.try_undo_recovery(cx);
                self.leave_recovery(cx);
            }
            State::Cwr if passed => {
                self.cwnd = self.cwnd.min(self.ssthresh);
                self.state = State::Open;
            }
            State::Disorder => {
                self.try_undo_dsack(cx);
                if self.undo_marker.is_none() || passed {
                    self.undo_marker = None;
                    self.state = State::Open;
                }
            }
            State::Recovery => {
                // While recovery is held an undone reduction stays undone.
                if !self.try_undo_recovery(cx) && self.undo_marker.is_some() {
                    let reached = if self.falls_to_ssthresh() { self.cwnd } else { self.ssthresh };
                    self.cwnd = self.ssthresh.min(reached);
                }
                self.leave_recovery(cx);
            }
            State::Open | State::Cwr => {}
        }
    }

    fn leave_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if !self.is_held() {
            self.state = State::Open;
            cx.emit(TcpEvent::RecoveryLeft);
        }
    }

    /// Rate halving alone brings the window down (`tcp_cwnd_down`, `tcp_complete_cwr` of Linux 2.6).
    fn falls_to_ssthresh(&self) -> bool {
        self.config.recovery == RecoveryRules::RateHalving
    }

    /// Without SACK, duplicates that retransmissions caused cannot be told from signs of loss: recovery holds
    /// until something sent after it began is acknowledged (RFC 6582, section 4.1).
    fn is_held(&self) -> bool {
        !self.config.sack && self.una == self.recovery_point
    }

    fn time_to_recover<O>(&self, cx: &Context<'_, O>) -> bool {
        self.board.lost_out() > 0
            || self.board.sacked_out() >= self.reordering
            || self.duplicates >= self.reordering
            || self.may_retransmit_early()
            || self.head_timed_out(cx)
    }

    /// Too little is outstanding for three duplicates, and nothing new may be sent to cause more (RFC 5827,
    /// section 3.2, counted in segments).
    fn may_retransmit_early(&self) -> bool {
        let outstanding = self.board.outstanding();
        self.config.early_retransmit
            && (2..4).contains(&outstanding)
            && self.board.sacked_out() >= outstanding - 1
            && !self.new_data_fits()
    }

    fn head_timed_out<O>(&self, cx: &Context<'_, O>) -> bool {
        self.config.lost_by_age && self.board.head().is_some_and(|head| cx.tick - head.sent > self.rtt.rto())
    }

    fn enter_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>, signs: AckSigns) {
        self.recovery_point = self.nxt;
        self.prior_ssthresh = 0;
        self.undo_marker = Some(self.una);
        self.undo_retransmissions = i64::from(self.board.retransmitted_out());
        if self.state < State::Cwr {
            if !signs.ece {
                self.prior_ssthresh = self.ssthresh_worth_restoring();
            }
            // Half of what is in flight, at least two segments (RFC 5681, equation 4).
            self.ssthresh = (self.cwnd.min(self.flight()) / 2).max(2);
            self.cwr_pending = self.ecn_negotiated;
            if !self.falls_to_ssthresh() {
                self.cwnd = self.ssthresh;
            }
        }
        self.cwnd_count = 0;
        self.state = State::Recovery;
        cx.emit(TcpEvent::RecoveryEntered { recovery_point: self.recovery_point });
    }

    /// A sign of loss in recovery: the head is lost, and what is older than the timeout if the head is.
    fn mark_lost<O>(&mut self, cx: &Context<'_, O>) {
        if self.config.recovery.halves_rate() {
            self.board.mark_lost_rfc3517(self.reordering);
        }
        self.board.mark_lost(1, self.recovery_point);
        if self.head_timed_out(cx) {
            self.board.mark_timed_out(cx.tick, self.rtt.rto());
        }
    }

    /// At most one segment more than what has left the network. With rate halving the window also falls
    /// by one on every second ACK, counted from the start of recovery (`tcp_cwnd_down` of Linux 2.4).
    fn shrink_window(&mut self) {
        if self.config.recovery.halves_rate() {
            self.cwnd_count += 1;
            if self.cwnd_count == 2 {
                self.cwnd_count = 0;
                self.cwnd -= u32::from(self.cwnd > self.ssthresh / 2);
            }
        }
        self.cwnd = self.cwnd.min(self.board.in_flight() + 1);
    }

    /// Burst limit on dubious ACKs.
    pub(super) fn moderate_window(&mut self) {
        self.cwnd = self.cwnd.min(self.flight() + self.config.max_burst);
    }

    /// Sends lost segments again while the window allows (`force`: the first of them in any case), then,
    /// in fast recovery and with no new data to send, the holes below the furthest SACK.
    fn retransmit_lost<O: Observer>(&mut self, cx: &mut Context<'_, O>, force: bool) {
        let kind =
            if self.state == State::Loss { RetransmissionKind::Timeout } else { RetransmissionKind::Fast };
        let mut forced = force;
        let mut from = 0;
        while forced || self.board.in_flight() < self.cwnd {
            let Some(index) = self.board.next_lost(from) else { break };
            self.retransmit(cx, index, kind);
            from = index + 1;
            forced = false;
        }
        if self.state != State::Recovery || !self.config.sack || self.may_send_new() {
            return;
        }
        from = 0;
        while self.board.in_flight() < self.cwnd {
            let Some(index) = self.board.next_hole(from) else { break };
            self.retransmit(cx, index, RetransmissionKind::Forward);
            from = index + 1;
        }
    }

    /// Open, or Disorder while something is still unsettled; an ECN echo reduces the window.
    fn try_to_open<O: Observer>(&mut self, cx: &mut Context<'_, O>, signs: AckSigns) {
        if self.board.retransmitted_out() == 0 {
            self.retransmission_stamp = None;
        }
        if signs.ece {
            self.enter_cwr(cx);
        }
        if self.state == State::Cwr {
            return;
        }
        let unsettled =
            self.board.sacked_out() > 0 || self.board.retransmitted_out() > 0 || self.undo_marker.is_some();
        let state = if unsettled { State::Disorder } else { State::Open };
        if self.state != state {
            self.state = state;
            self.recovery_point = self.nxt;
        }
        self.moderate_window();
    }

    /// ECN echo: half the window, once per window of data (RFC 3168, section 6.1.2).
    fn enter_cwr<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.state >= State::Cwr {
            return;
        }
        self.prior_ssthresh = 0;
        self.undo_marker = None;
        self.ssthresh = (self.cwnd / 2).max(2);
        self.cwnd = self.ssthresh;
        self.cwnd_count = 0;
        self.recovery_point = self.nxt;
        self.cwr_pending = true;
        self.state = State::Cwr;
        cx.emit(TcpEvent::EcnReduction);
    }

    /// Conventional recovery after a timeout: everything outstanding is lost, slow start from one segment.
    pub(super) fn enter_loss(&mut self) {
        self.reduce_for_timeout(self.cwnd);
        self.cwnd = 1;
        self.undo_marker = Some(self.una);
        self.undo_retransmissions = 0;
        self.retransmission_stamp = None;
        self.board.retransmissions_are_gone();
        self.board.forget_duplicates();
        if self.board.mark_all_lost(u64::MAX) {
            // Something had been retransmitted already: a later ACK would prove nothing.
            self.undo_marker = None;
        }
        self.frto = None;
        self.enter_loss_state(self.nxt);
    }

    /// ssthresh after a timeout: half of `window`, once per episode.
    pub(super) fn reduce_for_timeout(&mut self, window: u32) {
        let fresh = self.state <= State::Disorder
            || self.una == self.recovery_point
            || (self.state == State::Loss && self.expiries == 0);
        if fresh {
            self.prior_ssthresh = self.ssthresh_worth_restoring();
            self.ssthresh = (window / 2).max(2);
        }
    }

    /// Go-back-N up to `recovery_point`.
    pub(super) fn enter_loss_state(&mut self, recovery_point: u64) {
        self.cwnd_count = 0;
        self.reordering = self.reordering.min(self.config.dupack_threshold);
        self.recovery_point = recovery_point;
        self.state = State::Loss;
        self.cwr_pending = self.ecn_negotiated;
    }
}
