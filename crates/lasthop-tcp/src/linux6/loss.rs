//! The state machine of loss recovery (Open, Disorder, CWR, Recovery, Loss), F-RTO with SACK (RFC 5682,
//! section 3.1) and the undoing of reductions by timestamps (RFC 3522) and D-SACK (RFC 3708), as in Linux.

use lasthop_core::{Observer, TransportEvent, UndoCause};

use super::facts::AckFacts;
use super::frto::{self, Verdict};
use super::prr::{PrrProgress, Reduction};
use super::scoreboard::Linux6SentSegment;
use super::timer::Alarm;
use super::{Linux6Sender, TIMEOUT_MIN_US};
use crate::common::{Context, State};
use crate::config::FRtoMode;
use crate::control::{Congestion, Controller, Prior};

/// The data to send once the window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Nothing,
    Lost,
    /// New data for F-RTO.
    New,
}

impl Linux6Sender {
    /// An ACK that is a duplicate, has new SACK or ECE information, or arrives outside the open state.
    pub(super) fn on_dubious_ack<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &mut AckFacts,
        prior_una: u64,
    ) -> Repair {
        let mut failed = facts.duplicate || (facts.data_sacked && self.is_far_sacked());
        if self.board.queue.outstanding() == 0 {
            self.forget_duplicates();
        }
        if facts.ece {
            self.episode.prior_ssthresh = 0;
        }
        if self.leave_finished_state(cx) {
            return Repair::Nothing;
        }
        let mut entered = false;
        match self.recovery.state {
            State::Recovery => {
                if !facts.advanced {
                    self.count_duplicate(facts);
                } else if self.holds_partial_ack(cx, prior_una) {
                    return Repair::Nothing;
                } else if self.recovery.state == State::Recovery {
                    failed = self.is_far_sacked();
                }
                if self.try_undo_by_dsack(cx) {
                    self.try_to_open(cx, facts.ece);
                }
                self.identify_losses(cx, facts);
                if self.recovery.state != State::Recovery {
                    if !self.is_time_to_recover() {
                        return Repair::Nothing;
                    }
                    self.enter_recovery(cx, facts.ece);
                }
            }
            State::Loss => {
                let repair = self.process_loss(cx, facts);
                self.identify_losses(cx, facts);
                if self.recovery.state != State::Open && !facts.retransmission_lost {
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

    /// Before recovery. Returns true if recovery begins.
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
        if self.recovery.state <= State::Disorder {
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

    /// Ends a state whose recovery point is acknowledged. Returns true if there is nothing more to do.
    fn leave_finished_state<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        if self.recovery.state == State::Open {
            self.episode.stamp = None;
        } else if self.queue.una >= self.recovery.point {
            match self.recovery.state {
                // Held until data beyond the point is acknowledged, so that CWR has reached the receiver.
                State::Cwr if self.queue.una != self.recovery.point => {
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
        let distance = u64::from(self.recovery.reordering) * u64::from(self.queue.mss);
        self.board.highest_sacked(self.queue.una) > self.queue.una + distance
    }

    fn is_time_to_recover(&self) -> bool {
        let enough = self.board.queue.sacked_out >= self.recovery.reordering;
        self.board.queue.lost_out() > 0 || (!self.config.rack && enough)
    }

    fn identify_losses<O: Observer>(&mut self, cx: &Context<'_, O>, facts: &mut AckFacts) {
        let Some(head) = self.board.queue.head() else { return };
        if !self.config.sack {
            // RFC 6582: the head is lost on three duplicates, and on every partial ACK.
            let state = self.recovery.state;
            let enough = self.board.queue.sacked_out >= self.recovery.reordering;
            let starts = state < State::Recovery && enough;
            let goes_on = state == State::Recovery && facts.advanced;
            if !head.lost && (starts || goes_on) {
                self.mark_lost(0);
            }
        } else if self.config.rack {
            let before = self.board.queue.retransmitted_out();
            if self.mark_lost_by_rack(cx) {
                facts.set_timer = false;
            }
            facts.retransmission_lost |= before > self.board.queue.retransmitted_out();
        }
    }

    fn mark_lost(&mut self, index: usize) {
        self.counts.lost += u64::from(self.board.mark_lost(index));
    }

    /// RFC 6675: a segment with `reordering` SACKed segments above it is lost; at the start of recovery, the
    /// head is lost.
    fn mark_lost_by_count(&mut self, entered: bool) {
        let Some(limit) = self.board.queue.sacked_out.checked_sub(self.recovery.reordering) else {
            if entered && !self.board.queue.get(0).lost {
                self.mark_lost(0);
            }
            return;
        };
        let mut sacked = 0;
        for index in 0..self.board.queue.outstanding() as usize {
            let segment = self.board.queue.get(index);
            sacked += u32::from(segment.sacked);
            if sacked > limit {
                break;
            }
            if !segment.lost {
                self.mark_lost(index);
            }
        }
    }

    /// Informs an algorithm that needs every loss.
    pub(super) fn tell_losses(&mut self) {
        if !self.nature.hears_losses || self.board.queue.lost_out() == 0 {
            return;
        }
        let now = self.progress(0);
        for index in 0..self.board.queue.outstanding() as usize {
            let &Linux6SentSegment { seq, end, lost, retransmitted, .. } = self.board.queue.get(index);
            if lost
                && !retransmitted
                && let Some(lost) = self.rates.take_lost(index, now, (seq, end))
            {
                self.control.on_segment_lost(&lost);
            }
        }
    }

    fn detect_loss(&mut self, now_us: u64) -> Option<u64> {
        let sacked = self.board.queue.sacked_out;
        let certain = self.recovery.state >= State::Recovery || sacked >= self.recovery.reordering;
        let window = if certain && !self.recovery.reordering_seen {
            0
        } else {
            self.rack.window_us(self.rtt.least_us(), self.rtt.srtt_us())
        };
        let (lost, wait) = self.rack.detect(&mut self.board, window, now_us);
        self.counts.lost += lost;
        wait
    }

    /// Detects losses after an ACK. Returns true if the timer is set for undecided segments.
    fn mark_lost_by_rack<O: Observer>(&mut self, cx: &Context<'_, O>) -> bool {
        if !std::mem::take(&mut self.rack.advanced) {
            return false;
        }
        let Some(wait) = self.detect_loss(cx.us) else { return false };
        let delta = self.rtt.ticks(wait + TIMEOUT_MIN_US).min(self.rtt.rto());
        self.set_timer(cx, Alarm::Reordering, delta);
        true
    }

    /// RACK's reordering window is over.
    pub(super) fn on_reordering_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let in_flight = self.board.in_flight();
        let lost = self.counts.lost;
        self.detect_loss(cx.us);
        if self.board.in_flight() != in_flight {
            if self.recovery.state != State::Recovery {
                self.enter_recovery(cx, false);
                let lost = self.counts.lost - lost;
                self.tell_losses();
                if !self.nature.is_rate_based {
                    self.reduce_window(PrrProgress { delivered: 1, lost, advanced: false });
                }
            }
            self.retransmit_lost(cx);
        }
        if self.timer.alarm() != Some(Alarm::Retransmission) {
            self.rearm_timer(cx);
        }
    }

    fn enter_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>, ece: bool) {
        self.forget_stamp_of_settled();
        self.episode.prior_ssthresh = 0;
        self.begin_undo();
        if !self.recovery.state.is_reducing() {
            if !ece {
                self.episode.prior_ssthresh = self.ssthresh_worth_restoring();
            }
            self.begin_reduction(Congestion::Loss);
        }
        self.set_state(cx, State::Recovery);
        cx.emit(TransportEvent::RecoveryEntered { recovery_point: self.recovery.point });
    }

    /// A reduction begins: ssthresh falls at once, the window with each delivered segment.
    pub(super) fn begin_reduction(&mut self, sign: Congestion) {
        let window = self.control.window();
        self.recovery.point = self.queue.nxt;
        self.probe.forget();
        self.episode.prior_cwnd = window;
        self.reduction = Reduction::begin(window);
        self.control.on_congestion(sign, window);
        self.tell_reduction();
    }

    /// The reduction is over, and the window is ssthresh unless it was undone.
    pub(super) fn end_reduction(&mut self) {
        if self.nature.is_rate_based {
            return;
        }
        let stands = self.recovery.state == State::Cwr || self.episode.marker.is_some();
        if self.control.ssthresh() != u32::MAX && stands {
            self.control.state_mut().fall();
        }
        self.control.on_reduced();
    }

    /// Sets the state, and reports the end of recovery.
    pub(super) fn set_state<O: Observer>(&mut self, cx: &mut Context<'_, O>, state: State) {
        let before = std::mem::replace(&mut self.recovery.state, state);
        self.control.on_state(&self.moment(cx), state);
        if before >= State::Recovery && state < State::Recovery {
            cx.emit(TransportEvent::RecoveryLeft);
        }
    }

    fn try_to_open<O: Observer>(&mut self, cx: &mut Context<'_, O>, ece: bool) {
        self.forget_stamp_of_settled();
        if ece {
            self.enter_cwr(cx);
        }
        if self.recovery.state != State::Cwr {
            self.keep_open(cx);
        }
    }

    /// Open, or Disorder while segments are unsettled.
    pub(super) fn keep_open<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let unsettled = self.board.left_out() > 0 || self.board.any_retransmission();
        let state = if unsettled { State::Disorder } else { State::Open };
        if self.recovery.state != state {
            self.set_state(cx, state);
            self.recovery.point = self.queue.nxt;
        }
    }

    /// ECN echo: a reduction, once per window of data (RFC 3168, section 6.1.2).
    fn enter_cwr<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.episode.prior_ssthresh = 0;
        if self.recovery.state < State::Cwr {
            self.episode.marker = None;
            self.begin_reduction(Congestion::Ecn);
            self.set_state(cx, State::Cwr);
            cx.emit(TransportEvent::EcnReduction);
        }
    }

    /// The timeout: segments that were sent long enough ago are lost, and the window is one segment.
    pub(super) fn enter_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let before = self.recovery;
        let moment = self.moment(cx);
        self.mark_lost_by_timeout(moment.us);
        self.control.on_lost(self.counts.lost);
        self.tell_losses();
        let in_flight = self.board.in_flight();
        if before.is_fresh_timeout(self.queue.una, self.expiries) {
            let window = self.control.window();
            self.episode.prior_ssthresh = self.ssthresh_worth_restoring();
            self.episode.prior_cwnd = window;
            self.control.on_timeout(&moment, window, in_flight + 1);
            self.begin_undo();
        } else {
            self.control.on_persistent(&moment, in_flight + 1);
        }
        let least = self.config.dupack_threshold;
        if before.state <= State::Disorder && self.board.queue.sacked_out >= least {
            self.recovery.reordering = before.reordering.min(least);
        }
        self.set_state(cx, State::Loss);
        self.recovery.point = self.queue.nxt;
        self.probe.forget();
        self.tell_reduction();
        let examined = before.state < State::Recovery || self.expiries > 0;
        self.frto.is_active = self.config.frto != FRtoMode::Off && examined;
    }

    fn mark_lost_by_timeout(&mut self, now_us: u64) {
        self.forget_duplicates();
        let patience = self.rack.patience_us(0);
        for index in 0..self.board.queue.outstanding() as usize {
            let young = self.board.queue.get(index).sent.us + patience > now_us;
            if index > 0 && self.config.rack && young {
                continue;
            }
            self.mark_lost(index);
        }
    }

    /// An ACK after a timeout.
    fn process_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>, facts: &AckFacts) -> Repair {
        let recovered = self.queue.una >= self.recovery.point;
        if facts.advanced && self.try_undo_loss(cx, false) {
            return Repair::Nothing;
        }
        let shown = frto::Shown {
            original: facts.original_acked,
            advanced: facts.advanced,
            recovered,
            sent_new: self.queue.nxt > self.recovery.point,
            doubtful: facts.data_sacked || facts.duplicate,
        };
        match self.frto.verdict(shown) {
            Verdict::None => {}
            Verdict::Spurious => {
                self.try_undo_loss(cx, true);
                return Repair::Nothing;
            }
            Verdict::Advance => {
                self.recovery.point = self.queue.nxt;
                if self.queue.fits() {
                    return Repair::New;
                }
                self.frto.is_active = false;
            }
        }
        if recovered {
            self.try_undo_recovery(cx);
            return Repair::Nothing;
        }
        if self.queue.nxt > self.recovery.point && facts.duplicate {
            self.count_duplicate(facts);
        } else if facts.advanced {
            self.forget_duplicates();
        }
        Repair::Lost
    }

    /// Makes the retransmissions after an ACK.
    pub(super) fn repair<O: Observer>(&mut self, cx: &mut Context<'_, O>, repair: Repair) {
        if repair == Repair::New {
            self.send_new(cx);
            if self.queue.nxt > self.recovery.point {
                return;
            }
            self.frto.is_active = false;
        }
        if repair != Repair::Nothing {
            self.retransmit_lost(cx);
        }
    }

    /// Retransmits lost segments while the window allows.
    pub(super) fn retransmit_lost<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let kind = self.recovery.state.retransmission_kind();
        let window = self.control.window();
        let mut from = 0;
        let mut head = false;
        while self.board.in_flight() < window {
            let Some(index) = self.board.next_lost(from).filter(|&index| self.may_retransmit(cx.now, index))
            else {
                break;
            };
            self.retransmit(cx, index, kind);
            self.note_sent_in_reduction(1);
            head |= index == 0 && self.timer.alarm() != Some(Alarm::Reordering);
            from = index + 1;
        }
        if head {
            self.set_timer(cx, Alarm::Retransmission, self.rtt.rto());
        }
    }

    // Undo.

    fn begin_undo(&mut self) {
        self.episode.marker = Some(self.queue.una);
        let out = i64::from(self.board.queue.retransmitted_out()) + i64::from(self.probe.is_retransmission());
        // No retransmission yet does not mean "all are settled".
        self.episode.retransmissions = if out == 0 { -1 } else { out };
    }

    fn forget_stamp_of_settled(&mut self) {
        if !self.board.any_retransmission() {
            self.episode.stamp = None;
        }
    }

    /// True if the ACK was sent before the first retransmission arrived, or if there was no retransmission.
    fn is_for_originals(&self) -> bool {
        match self.episode.stamp {
            Some(_) => self.config.eifel && self.episode.is_older(self.echo),
            None => self.config.sack || self.queue.una < self.recovery.point,
        }
    }

    fn evidence(&self) -> Option<UndoCause> {
        self.episode.marker?;
        if self.episode.all_reported() {
            return Some(UndoCause::Dsack);
        }
        self.is_for_originals().then_some(UndoCause::Timestamps)
    }

    fn undo<O: Observer>(&mut self, cx: &mut Context<'_, O>, cause: UndoCause, unmark: bool) {
        if unmark {
            self.board.queue.clear_lost();
        }
        let (window, ssthresh) = (self.episode.prior_cwnd, self.episode.prior_ssthresh);
        if ssthresh > 0 {
            if ssthresh > self.control.ssthresh() {
                self.queue.cwr_pending = false;
            }
            self.control.on_spurious(Prior { window, ssthresh });
        }
        self.episode.marker = None;
        self.rack.advanced = true;
        cx.emit(TransportEvent::Undone(cause));
    }

    /// The end of fast or loss recovery. Returns true if the state is held.
    fn try_undo_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        if let Some(cause) = self.evidence() {
            self.undo(cx, cause, false);
        } else {
            self.rack.on_recovery_end(false);
        }
        if self.is_held() {
            return true;
        }
        self.set_state(cx, State::Open);
        false
    }

    /// Without SACK, the state is held until data beyond the point is acknowledged (RFC 6582, section 4.1).
    fn is_held(&mut self) -> bool {
        let held = self.queue.una == self.recovery.point && !self.config.sack;
        if held {
            self.forget_stamp_of_settled();
        }
        held
    }

    fn try_undo_by_dsack<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let unnecessary = self.episode.all_reported();
        if unnecessary {
            self.rack.on_recovery_end(true);
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

    /// A partial ACK in fast recovery. Returns true if it was for an original while retransmissions are still
    /// in flight; there is then nothing more to do.
    fn holds_partial_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, prior_una: u64) -> bool {
        if self.episode.marker.is_none() || !self.is_for_originals() {
            return false;
        }
        self.note_reordering(prior_una);
        if self.board.queue.retransmitted_out() > 0 {
            return true;
        }
        self.forget_stamp_of_settled();
        self.undo(cx, UndoCause::Timestamps, true);
        self.keep_open(cx);
        false
    }

    /// A segment from `low` on arrived after higher ones.
    pub(super) fn note_reordering(&mut self, low: u64) {
        let highest = self.board.highest_sacked(self.queue.una);
        if low < highest {
            self.recovery.note_reordering(highest - low, self.queue.mss);
        }
    }

    // Without SACK, duplicate ACKs show how many segments have left the network.

    fn count_duplicate(&mut self, facts: &AckFacts) {
        if self.config.sack || !facts.duplicate {
            return;
        }
        let before = self.board.queue.sacked_out;
        self.board.queue.sacked_out += 1;
        self.limit_duplicates(0);
        self.counts.delivered += u64::from(self.board.queue.sacked_out.saturating_sub(before));
    }

    /// More duplicates than segments that could cause them: reordering.
    fn limit_duplicates(&mut self, acked: u32) {
        let outstanding = self.board.queue.outstanding();
        let holes = self.board.queue.lost_out().max(1).min(outstanding);
        if self.board.queue.sacked_out + holes > outstanding {
            self.board.queue.sacked_out = outstanding - holes;
            self.recovery.set_reordering(outstanding + acked);
        }
    }

    /// Without SACK an ACK of `acked` segments covers a hole and segments that duplicate ACKs had reported.
    pub(super) fn settle_duplicates(&mut self, acked: u32) {
        let sacked = &mut self.board.queue.sacked_out;
        if acked > 0 {
            self.counts.delivered += u64::from(acked.saturating_sub(*sacked).max(1));
            *sacked = sacked.saturating_sub(acked - 1);
        }
        self.limit_duplicates(acked);
    }

    fn forget_duplicates(&mut self) {
        if !self.config.sack {
            self.board.queue.sacked_out = 0;
        }
    }
}
