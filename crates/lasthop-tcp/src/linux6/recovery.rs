//! The state machine of loss recovery (Open, Disorder, CWR, Recovery, Loss), F-RTO with SACK (RFC 5682, section 3.1)
//! and the undoing of reductions by timestamps (RFC 3522) and D-SACK (RFC 3708), as Linux has them.

use super::rack::WINDOW_PERSISTS;
use super::{AckFacts, Sender};
use crate::common::{Context, State};
use crate::config::FRtoMode;
use lasthop_core::{Observer, RetransmissionKind, TcpEvent, UndoCause};

/// Linux lets no amount of reordering raise the threshold beyond this.
const REORDERING_MAX: u64 = 300;

/// What is to be sent once the window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Nothing,
    Lost,
    /// F-RTO wants new data.
    New,
}

impl Sender {
    /// An ACK that is a duplicate, carries SACK or ECE news, or arrives outside the open state.
    pub(super) fn on_dubious_ack<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &mut AckFacts,
        prior_una: u64,
    ) -> Repair {
        let mut failed = facts.duplicate || (facts.data_sacked && self.is_far_sacked());
        if self.board.outstanding() == 0 {
            self.forget_duplicates();
        }
        if facts.ece {
            self.prior_ssthresh = 0;
        }
        if self.leave_finished_state(cx) {
            return Repair::Nothing;
        }
        let mut entered = false;
        match self.state {
            State::Recovery => {
                if !facts.advanced {
                    self.count_duplicate(facts);
                } else if self.holds_partial_ack(cx, prior_una) {
                    return Repair::Nothing;
                } else if self.state == State::Recovery {
                    failed = self.is_far_sacked();
                }
                if self.try_undo_by_dsack(cx) {
                    self.try_to_open(cx, facts.ece);
                }
                self.identify_losses(cx, facts);
                if self.state != State::Recovery {
                    if !self.is_time_to_recover() {
                        return Repair::Nothing;
                    }
                    self.enter_recovery(cx, facts.ece);
                }
            }
            State::Loss => {
                let repair = self.process_loss(cx, facts);
                self.identify_losses(cx, facts);
                if self.state != State::Open && !facts.retransmission_lost {
                    return repair;
                }
                if !self.in_disorder(cx, facts, &mut entered) {
                    return repair;
                }
            }
            State::Open | State::Disorder | State::Cwr => {
                if !self.in_disorder(cx, facts, &mut entered) {
                    return Repair::Nothing;
                }
            }
        }
        if self.config.sack && !self.config.rack && (failed || entered) {
            self.mark_lost_by_count(entered);
        }
        Repair::Lost
    }

    /// Before recovery. Returns true if that begins.
    fn in_disorder<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &mut AckFacts,
        entered: &mut bool,
    ) -> bool {
        if facts.advanced {
            self.forget_duplicates();
        }
        self.count_duplicate(facts);
        if self.state <= State::Disorder {
            self.try_undo_by_dsack(cx);
        }
        self.identify_losses(cx, facts);
        if !self.is_time_to_recover() {
            self.try_to_open(cx, facts.ece);
            return false;
        }
        self.enter_recovery(cx, facts.ece);
        *entered = true;
        true
    }

    /// Ends a state whose recovery point is acknowledged. Returns true if nothing more is to be done.
    fn leave_finished_state<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        if self.state == State::Open {
            self.retransmission_stamp = None;
        } else if self.una >= self.recovery_point {
            match self.state {
                // Held until something beyond is acknowledged, so that CWR has reached the receiver.
                State::Cwr if self.una != self.recovery_point => {
                    self.end_reduction();
                    self.set_state(cx, State::Open);
                }
                State::Recovery => {
                    self.forget_duplicates();
                    if self.try_undo_recovery(cx) {
                        return true;
                    }
                    self.end_reduction();
                }
                _ => {}
            }
        }
        false
    }

    /// SACK without RACK: more than `reordering` segments lie between the head and the highest SACKed one.
    fn is_far_sacked(&self) -> bool {
        let distance = u64::from(self.reordering) * u64::from(self.mss);
        self.board.highest_sacked(self.una) > self.una + distance
    }

    fn is_time_to_recover(&self) -> bool {
        self.board.lost_out > 0 || (!self.config.rack && self.board.sacked_out >= self.reordering)
    }

    fn identify_losses<O: Observer>(&mut self, cx: &Context<'_, O>, facts: &mut AckFacts) {
        let Some(head) = self.board.head() else { return };
        if !self.config.sack {
            // RFC 6582: the head is lost on three duplicates, and on every partial ACK.
            let starts = self.state < State::Recovery && self.board.sacked_out >= self.reordering;
            let goes_on = self.state == State::Recovery && facts.advanced;
            if !head.lost && (starts || goes_on) && self.board.mark_lost(0) {
                self.lost += 1;
            }
        } else if self.config.rack {
            let before = self.board.retransmitted_out;
            if self.mark_lost_by_rack(cx.micros(), cx.tick) {
                facts.set_timer = false;
            }
            facts.retransmission_lost |= before > self.board.retransmitted_out;
        }
    }

    /// RFC 6675: what has `reordering` SACKed segments above it is lost; at the start of recovery the head is.
    fn mark_lost_by_count(&mut self, entered: bool) {
        let Some(limit) = self.board.sacked_out.checked_sub(self.reordering) else {
            if entered && !self.board.get(0).lost && self.board.mark_lost(0) {
                self.lost += 1;
            }
            return;
        };
        let mut sacked = 0;
        for index in 0..self.board.outstanding() as usize {
            let segment = self.board.get(index);
            sacked += u32::from(segment.sacked);
            if sacked > limit {
                break;
            }
            if !segment.lost && self.board.mark_lost(index) {
                self.lost += 1;
            }
        }
    }

    pub(super) fn enter_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>, ece: bool) {
        if !self.any_retransmission() {
            self.retransmission_stamp = None;
        }
        self.prior_ssthresh = 0;
        self.begin_undo();
        if !self.is_reducing() {
            if !ece {
                self.prior_ssthresh = self.ssthresh_worth_restoring();
            }
            self.begin_reduction();
        }
        self.set_state(cx, State::Recovery);
        cx.emit(TcpEvent::RecoveryEntered { recovery_point: self.recovery_point });
    }

    /// Sets the state, and tells if recovery is over.
    pub(super) fn set_state<O: Observer>(&mut self, cx: &mut Context<'_, O>, state: State) {
        let before = std::mem::replace(&mut self.state, state);
        if before >= State::Recovery && state < State::Recovery {
            cx.emit(TcpEvent::RecoveryLeft);
        }
        if state == State::Loss {
            self.growth.reset(cx.micros(), self.nxt);
        }
    }

    fn try_to_open<O: Observer>(&mut self, cx: &mut Context<'_, O>, ece: bool) {
        if !self.any_retransmission() {
            self.retransmission_stamp = None;
        }
        if ece {
            self.enter_cwr(cx);
        }
        if self.state != State::Cwr {
            self.keep_open(cx);
        }
    }

    /// Open, or Disorder while something is still unsettled.
    pub(super) fn keep_open<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let unsettled = self.board.left_out() > 0 || self.any_retransmission();
        let state = if unsettled { State::Disorder } else { State::Open };
        if self.state != state {
            self.set_state(cx, state);
            self.recovery_point = self.nxt;
        }
    }

    /// ECN echo: a reduction, once per window of data (RFC 3168, section 6.1.2).
    fn enter_cwr<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.prior_ssthresh = 0;
        if self.state < State::Cwr {
            self.undo_marker = None;
            self.begin_reduction();
            self.set_state(cx, State::Cwr);
            cx.emit(TcpEvent::EcnReduction);
        }
    }

    fn any_retransmission(&self) -> bool {
        self.board.retransmitted_out > 0 || self.board.head().is_some_and(|head| head.ever_retransmitted)
    }

    /// The timeout: what was sent long enough ago is lost, and the window is one segment.
    pub(super) fn enter_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let fresh = self.state < State::Recovery;
        self.mark_lost_by_timeout(cx.micros());
        if self.state <= State::Disorder
            || self.una >= self.recovery_point
            || (self.state == State::Loss && self.expiries == 0)
        {
            self.prior_ssthresh = self.ssthresh_worth_restoring();
            self.prior_cwnd = self.cwnd;
            self.ssthresh = self.growth.ssthresh(self.cwnd);
            self.begin_undo();
        }
        self.cwnd = self.board.in_flight() + 1;
        self.cwnd_count = 0;
        if self.state <= State::Disorder && self.board.sacked_out >= self.config.dupack_threshold {
            self.reordering = self.reordering.min(self.config.dupack_threshold);
        }
        let again = self.expiries > 0;
        self.set_state(cx, State::Loss);
        self.recovery_point = self.nxt;
        self.probe_end = None;
        self.cwr_pending = self.ecn_negotiated;
        self.frto = self.config.frto != FRtoMode::Off && (fresh || again);
    }

    fn mark_lost_by_timeout(&mut self, now_us: u64) {
        self.forget_duplicates();
        let patience = self.rack.patience_us(0);
        for index in 0..self.board.outstanding() as usize {
            let young = self.board.get(index).sent_us + patience > now_us;
            if index > 0 && self.config.rack && young {
                continue;
            }
            self.lost += u64::from(self.board.mark_lost(index));
        }
    }

    /// An ACK after a timeout.
    fn process_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>, facts: &AckFacts) -> Repair {
        let recovered = self.una >= self.recovery_point;
        if facts.advanced && self.try_undo_loss(cx, false) {
            return Repair::Nothing;
        }
        if self.frto {
            // Step 3.b: what was not sent again has arrived.
            if facts.original_acked && self.try_undo_loss(cx, true) {
                return Repair::Nothing;
            }
            if self.nxt > self.recovery_point {
                // Step 3.a
                self.frto = !(facts.data_sacked || facts.duplicate);
            } else if facts.advanced && !recovered {
                self.recovery_point = self.nxt;
                // Step 2.b
                if self.new_data_fits() {
                    return Repair::New;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(cx);
            return Repair::Nothing;
        }
        if self.nxt > self.recovery_point && facts.duplicate {
            self.count_duplicate(facts);
        } else if facts.advanced {
            self.forget_duplicates();
        }
        Repair::Lost
    }

    /// Sends what is to be sent again, after an ACK.
    pub(super) fn repair<O: Observer>(&mut self, cx: &mut Context<'_, O>, repair: Repair) {
        if repair == Repair::New {
            self.send_new(cx);
            if self.nxt > self.recovery_point {
                return;
            }
            self.frto = false;
        }
        if repair != Repair::Nothing {
            self.retransmit_lost(cx);
        }
    }

    /// Sends lost segments again while the window allows.
    pub(super) fn retransmit_lost<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let kind =
            if self.state == State::Loss { RetransmissionKind::Timeout } else { RetransmissionKind::Fast };
        let mut from = 0;
        let mut head = false;
        while self.board.in_flight() < self.cwnd {
            let Some(index) = self.board.next_lost(from) else { break };
            self.retransmit(cx, index, kind);
            if self.is_reducing() {
                self.reduction.sent += 1;
            }
            head |= index == 0 && self.timer.alarm() != Some(super::timer::Alarm::Reordering);
            from = index + 1;
        }
        if head {
            self.timer.set(super::timer::Alarm::Retransmission, cx.tick, self.rtt.rto());
        }
    }

    // Undo.

    fn begin_undo(&mut self) {
        self.undo_marker = Some(self.una);
        let probe = self.probe_end.is_some() && self.probe_retransmits;
        let out = i64::from(self.board.retransmitted_out) + i64::from(probe);
        // Nothing yet is not "all is settled".
        self.undo_retransmissions = if out == 0 { -1 } else { out };
    }

    /// The ssthresh that an undo would restore: three quarters of the window if that is more.
    pub(super) fn ssthresh_worth_restoring(&self) -> u32 {
        if self.is_reducing() { self.ssthresh } else { self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4) }
    }

    /// The ACK was sent before the first retransmission arrived, or there was none.
    fn is_for_originals(&self) -> bool {
        match self.retransmission_stamp {
            Some(stamp) => self.config.eifel && self.echo.is_some_and(|echo| echo < stamp),
            None => self.config.sack || self.una < self.recovery_point,
        }
    }

    fn evidence(&self) -> Option<UndoCause> {
        self.undo_marker?;
        if self.undo_retransmissions == 0 {
            return Some(UndoCause::Dsack);
        }
        self.is_for_originals().then_some(UndoCause::Timestamps)
    }

    fn undo<O: Observer>(&mut self, cx: &mut Context<'_, O>, cause: UndoCause, unmark: bool) {
        if unmark {
            self.board.clear_lost();
        }
        if self.prior_ssthresh > 0 {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.prior_ssthresh > self.ssthresh {
                self.ssthresh = self.prior_ssthresh;
                self.cwr_pending = false;
            }
        }
        self.undo_marker = None;
        self.rack.advanced = true;
        cx.emit(TcpEvent::Undone(cause));
    }

    /// The end of fast or loss recovery. Returns true if the state is held.
    fn try_undo_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        if let Some(cause) = self.evidence() {
            self.undo(cx, cause, false);
        } else {
            self.rack.persists = self.rack.persists.saturating_sub(1);
        }
        if self.is_held() {
            return true;
        }
        self.set_state(cx, State::Open);
        false
    }

    /// Without SACK the state is held until something beyond is acknowledged (RFC 6582, section 4.1).
    fn is_held(&mut self) -> bool {
        let held = self.una == self.recovery_point && !self.config.sack;
        if held && !self.any_retransmission() {
            self.retransmission_stamp = None;
        }
        held
    }

    fn try_undo_by_dsack<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let unnecessary = self.undo_marker.is_some() && self.undo_retransmissions == 0;
        if unnecessary {
            self.rack.persists = (self.rack.persists + 1).min(WINDOW_PERSISTS);
            self.undo(cx, UndoCause::Dsack, false);
        }
        unnecessary
    }

    fn try_undo_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>, by_frto: bool) -> bool {
        let cause = if by_frto { Some(UndoCause::FRto) } else { self.evidence() };
        let Some(cause) = cause else { return false };
        self.undo(cx, cause, true);
        self.expiries = 0;
        if !self.is_held() && (by_frto || self.config.sack) {
            self.set_state(cx, State::Open);
        }
        true
    }

    /// A partial ACK in fast recovery. Returns true if it was for an original while retransmissions are still out:
    /// nothing more is to be done then.
    fn holds_partial_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, prior_una: u64) -> bool {
        if self.undo_marker.is_none() || !self.is_for_originals() {
            return false;
        }
        self.note_reordering(prior_una);
        if self.board.retransmitted_out > 0 {
            return true;
        }
        if !self.any_retransmission() {
            self.retransmission_stamp = None;
        }
        self.undo(cx, UndoCause::Timestamps, true);
        self.keep_open(cx);
        false
    }

    /// A segment from `low` on arrived after higher ones.
    pub(super) fn note_reordering(&mut self, low: u64) {
        let highest = self.board.highest_sacked(self.una);
        if low >= highest {
            return;
        }
        let distance = (highest - low).div_ceil(u64::from(self.mss)).min(REORDERING_MAX);
        self.reordering = self.reordering.max(distance as u32);
        self.reordering_seen = true;
    }

    // Without SACK, duplicate ACKs say how much has left the network.

    fn count_duplicate(&mut self, facts: &AckFacts) {
        if self.config.sack || !facts.duplicate {
            return;
        }
        let before = self.board.sacked_out;
        self.board.sacked_out += 1;
        self.limit_duplicates(0);
        self.delivered += u64::from(self.board.sacked_out.saturating_sub(before));
    }

    /// More duplicates than segments that could cause them: reordering.
    fn limit_duplicates(&mut self, acked: u32) {
        let outstanding = self.board.outstanding();
        let holes = self.board.lost_out.max(1).min(outstanding);
        if self.board.sacked_out + holes > outstanding {
            self.board.sacked_out = outstanding - holes;
            self.reordering = (outstanding + acked).min(REORDERING_MAX as u32);
            self.reordering_seen = true;
        }
    }

    /// Without SACK an ACK of `acked` segments covers a hole and segments that duplicate ACKs had reported.
    pub(super) fn settle_duplicates(&mut self, acked: u32) {
        if acked > 0 {
            self.delivered += u64::from(acked.saturating_sub(self.board.sacked_out).max(1));
            self.board.sacked_out = self.board.sacked_out.saturating_sub(acked - 1);
        }
        self.limit_duplicates(acked);
    }

    fn forget_duplicates(&mut self) {
        if !self.config.sack {
            self.board.sacked_out = 0;
        }
    }
}
