//! Processing of ACKs: accounting, the window, loss recovery, and the undoing of unnecessary reductions.
//!
//! Undo is by timestamps (Eifel detection, RFC 3522) or by D-SACK (RFC 3708), with Linux' response. There are
//! two sets of rules for window and scoreboard in recovery, see [`RecoveryRules`].

use lasthop_core::{Flags, Observer, RetransmissionKind, SackList, Segment, TransportEvent, UndoCause};

use super::Linux2Sender;
use super::frto::{Linux2Progress, Linux2Shown, Linux2Verdict};
use super::recovery::{Finished, Linux2Recovery};
use super::scoreboard::{Acknowledged, SackOutcome};
use crate::common::{Context, State, is_dsack};
use crate::config::{FRtoMode, RecoveryRules};
use crate::control::{Congestion, Controller, Prior, RateSample};

/// Maximum to which reordering raises the threshold in Linux.
const REORDERING_MAX: u32 = 127;

/// The information in one ACK, apart from its number.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can say all of it at once")]
struct AckSigns {
    /// True if it advanced the window over data.
    data_acked: bool,
    /// Segments acknowledged for the first time.
    acked_segments: u32,
    /// True if it brought new SACK information.
    sacked: bool,
    /// True if SACK reached beyond the recovery point.
    data_lost: bool,
    /// ECN echo.
    ece: bool,
    /// True if it carried data, changed the window or acknowledged data, so that it is not a duplicate.
    not_duplicate: bool,
}

impl Linux2Sender {
    /// Processes the acknowledgment of a segment and sends the data that it allows.
    pub fn on_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        if self.take_ack(cx, segment) {
            if self.board.queue.outstanding() == 0 {
                // An ACK restarts the persist timer (tcp_ack_probe).
                self.timer.due = None;
            }
            self.send_new(cx);
            self.report_window(cx);
        }
    }

    /// Processes the acknowledgment of a segment. Returns false if it is old or impossible.
    pub fn take_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) -> bool {
        if segment.ack > self.queue.nxt {
            return false;
        }
        let prior_una = self.queue.una;
        if segment.ack < prior_una {
            self.apply_sack(&segment.sack, segment.ack, prior_una);
            return false;
        }
        let prior_flight = self.flight();
        let prior_outstanding = self.board.queue.outstanding();
        let mut signs = AckSigns {
            ece: self.queue.ecn && segment.flags.contains(Flags::ECE),
            not_duplicate: segment.sequence_length() > 0
                || segment.window_bytes > self.queue.window_bytes
                || segment.ack > prior_una,
            ..AckSigns::default()
        };
        self.queue.window_bytes = segment.window_bytes;
        self.queue.una = segment.ack;
        self.echo = segment.timestamps.and_then(crate::clock::echoed_tick);
        let sack = self.apply_sack(&segment.sack, segment.ack, prior_una);
        signs.sacked = sack.news;
        signs.data_lost = sack.beyond_recovery_point;
        let acked = self.board.acknowledge(self.queue.una);
        signs.data_acked = acked.data;
        signs.acked_segments = acked.segments;
        if !self.config.sack {
            self.count_duplicates(signs, prior_una);
        }
        if acked.segments > 0 {
            self.on_progress(cx, &acked);
        }
        if prior_outstanding > 0 {
            self.on_congestion_signs(cx, signs, prior_una, prior_flight);
        }
        true
    }

    fn apply_sack(&mut self, sack: &SackList, ack: u64, prior_una: u64) -> SackOutcome {
        let mut outcome = self.board.outcome();
        let mut furthest = 0;
        let is_dsack = is_dsack(sack, ack);
        for (index, &block) in sack.as_slice().iter().enumerate() {
            let duplicate = index == 0 && is_dsack;
            let forgotten = duplicate && block.end <= prior_una;
            if forgotten && self.episode.covers(block.end) {
                outcome.duplicates += 1;
            }
            outcome.beyond_recovery_point |= block.end > self.recovery.point;
            self.board.apply_block(block, ack, duplicate, &self.episode, &mut outcome);
            furthest = furthest.max(block.end);
        }
        if self.recovery.state == State::Recovery {
            let reordering_bytes = u64::from(self.recovery.reordering) * u64::from(self.queue.mss);
            outcome.news |= self.board.mark_lost_retransmissions(furthest, reordering_bytes);
        }
        self.board.find_filled_hole(ack, furthest, &mut outcome);
        self.learn_reordering(outcome.latecomer);
        self.episode.retransmissions -= i64::from(outcome.duplicates);
        outcome
    }

    /// A late segment shows how much segments can be reordered without being lost (`tcp_sacktag_write_queue`
    /// of Linux 2.4).
    fn learn_reordering(&mut self, latecomer: Option<u32>) {
        let furthest = self.board.furthest_sacked();
        if let Some(place) = latecomer.filter(|place| *place < furthest)
            && self.recovery.state != State::Loss
        {
            self.raise_reordering(furthest + 1 - place);
        }
    }

    fn raise_reordering(&mut self, extent: u32) {
        self.recovery.reordering = self.recovery.reordering.max(extent.min(REORDERING_MAX));
    }

    /// Without SACK, duplicate ACKs show how many segments have left the network.
    fn count_duplicates(&mut self, signs: AckSigns, prior_una: u64) {
        let Linux2Recovery { state, point, .. } = self.recovery;
        let recovering = state == State::Recovery && self.queue.una < point;
        if self.queue.una == prior_una {
            if !signs.not_duplicate && (recovering || state <= State::Cwr) {
                self.board.count_duplicate();
            }
        } else if recovering && signs.acked_segments > 0 {
            self.board.settle_duplicates(signs.acked_segments);
        } else {
            self.board.forget_duplicates();
        }
    }

    /// A cumulative ACK moved the window: RTT sample and timer.
    fn on_progress<O: Observer>(&mut self, cx: &mut Context<'_, O>, acked: &Acknowledged) {
        self.recovery.duplicates = 0;
        if self.recovery.state == State::Open {
            self.control.note_acked(acked.segments);
        }
        if acked.data {
            // Retries are counted per segment (RFC 9293, section 3.8.3).
            self.timer.expiries = 0;
        }
        let sample = if self.config.timestamps {
            // The echo identifies the transmission, so Karn's rule is not needed (RFC 7323, section 4.1).
            self.echo.map(|echo| cx.tick.saturating_sub(echo))
        } else if acked.retransmitted {
            None
        } else {
            acked.sent.map(|sent| cx.tick - sent)
        };
        if let Some(ticks) = sample {
            self.timer.rtt.sample(ticks, self.queue.una, self.queue.nxt);
            self.timer.backed_off = false;
            let [rtt, rto] = [ticks, self.timer.rtt.rto()].map(|ticks| self.clock.length(ticks));
            self.control.on_rtt(&self.moment(cx), rtt.as_nanos() / 1000);
            // A sample that is forgotten at once does not count.
            if acked.data || self.config.timestamps || self.config.handshake_rtt {
                cx.emit(TransportEvent::RttSample { rtt, rto });
            }
        }
        if self.board.queue.outstanding() == 0 {
            self.timer.due = None;
        } else {
            self.timer.restart(cx.tick);
        }
    }

    fn on_congestion_signs<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        signs: AckSigns,
        prior_una: u64,
        prior_flight: u32,
    ) {
        if let Some(progress) = self.frto.progress {
            self.on_ack_in_frto(cx, signs, prior_una, progress);
            if self.frto.progress.is_some() || self.recovery.state != State::Loss {
                return;
            }
        }
        let state = self.recovery.state;
        let (cwnd, ssthresh) = (self.control.window(), self.control.ssthresh());
        let dubious = !signs.not_duplicate || signs.sacked || signs.ece || state != State::Open;
        let may_raise = !dubious || (!state.is_reducing() && (!signs.ece || cwnd < ssthresh));
        if signs.data_acked && may_raise {
            // Congestion window validation (RFC 2861): only a window that was in use may grow.
            let is_window_limited = prior_flight >= cwnd;
            self.control.on_ack(&RateSample { at: self.moment(cx), acked: 1, is_window_limited, rate: None });
        }
        if dubious {
            self.on_dubious_ack(cx, signs, prior_una);
        }
    }

    /// An ACK that is a duplicate, has new SACK or ECE information, or arrives outside the open state.
    fn on_dubious_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, signs: AckSigns, prior_una: u64) {
        let mut duplicate = !signs.not_duplicate;
        if duplicate {
            self.recovery.duplicates += 1;
        }
        if signs.ece {
            self.episode.prior_ssthresh = 0;
        }
        let Linux2Recovery { state, point, reordering, .. } = self.recovery;
        let furthest = self.board.furthest_sacked();
        let beyond = furthest > reordering;
        if signs.data_lost && self.queue.una < point && state != State::Open && beyond {
            // SACKs for data sent after the recovery point: every hole that far back is lost.
            self.board.mark_lost(furthest - reordering, point);
        }
        self.leave_finished_state(cx);
        match self.recovery.state {
            State::Recovery | State::Loss if self.is_held() => {
                self.moderate_window();
                return;
            }
            State::Recovery => {
                if self.queue.una != prior_una {
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
                if self.recovery.state == State::Disorder {
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
        let una = self.queue.una;
        match self.recovery.state {
            State::Open => self.episode.stamp = None,
            State::Disorder if una >= self.recovery.point => self.try_undo_dsack(cx),
            _ => {}
        }
        match self.recovery.finished(una, self.episode.marker.is_some()) {
            Finished::Not => {}
            Finished::Loss => {
                self.try_undo_recovery(cx);
                self.leave_recovery(cx);
            }
            Finished::Cwr => {
                let ssthresh = self.control.ssthresh();
                self.control.state_mut().limit(ssthresh);
                self.recovery.state = State::Open;
            }
            Finished::Disorder => {
                self.episode.marker = None;
                self.recovery.state = State::Open;
            }
            Finished::Recovery => {
                // While recovery is held, an undone reduction stays undone.
                if !self.try_undo_recovery(cx) && self.episode.marker.is_some() {
                    if falls_to_ssthresh(self.config.recovery) {
                        let ssthresh = self.control.ssthresh();
                        self.control.state_mut().limit(ssthresh);
                    } else {
                        self.control.state_mut().fall();
                    }
                }
                self.leave_recovery(cx);
            }
        }
    }

    fn leave_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if !self.is_held() {
            self.recovery.state = State::Open;
            cx.emit(TransportEvent::RecoveryLeft);
        }
    }

    /// Without SACK, duplicates caused by retransmissions cannot be distinguished from signs of loss:
    /// recovery is held until data sent after its beginning is acknowledged (RFC 6582, section 4.1).
    fn is_held(&self) -> bool {
        !self.config.sack && self.queue.una == self.recovery.point
    }

    fn time_to_recover<O>(&self, cx: &Context<'_, O>) -> bool {
        let sacked = self.board.sacked_out();
        // Early retransmit applies only if no new data may be sent that would cause more duplicates.
        let early = self.config.early_retransmit
            && Linux2Recovery::is_early(self.board.queue.outstanding(), sacked)
            && !self.queue.fits();
        self.board.queue.lost_out() > 0
            || sacked >= self.recovery.reordering
            || self.recovery.duplicates >= self.recovery.reordering
            || early
            || self.head_timed_out(cx)
    }

    fn head_timed_out<O>(&self, cx: &Context<'_, O>) -> bool {
        let rto = self.timer.rtt.rto();
        self.config.lost_by_age && self.board.queue.head().is_some_and(|head| cx.tick - head.sent.tick > rto)
    }

    fn enter_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>, signs: AckSigns) {
        self.episode.prior_ssthresh = 0;
        self.episode.marker = Some(self.queue.una);
        self.episode.retransmissions = i64::from(self.board.queue.retransmitted_out());
        if self.recovery.state < State::Cwr {
            if !signs.ece {
                self.episode.prior_ssthresh = self.ssthresh_worth_restoring();
            }
            // Half of the flight size.
            self.control.on_congestion(Congestion::Loss, self.control.window().min(self.flight()));
            self.queue.cwr_pending = self.queue.ecn;
            if !falls_to_ssthresh(self.config.recovery) {
                self.control.state_mut().fall();
            }
        }
        self.control.state_mut().recount();
        self.recovery.enter(State::Recovery, self.queue.nxt);
        cx.emit(TransportEvent::RecoveryEntered { recovery_point: self.queue.nxt });
    }

    /// A sign of loss in recovery: the head is lost, and so are segments older than the timeout if the head
    /// is older.
    fn mark_lost<O>(&mut self, cx: &Context<'_, O>) {
        if self.config.recovery.halves_rate() {
            self.board.mark_lost_rfc3517(self.recovery.reordering);
        }
        self.board.mark_lost(1, self.recovery.point);
        if self.head_timed_out(cx) {
            self.board.mark_timed_out(cx.tick, self.timer.rtt.rto());
        }
    }

    /// At most one segment more than has left the network. With rate halving the window also falls by one on
    /// every second ACK, counted from the start of recovery.
    fn shrink_window(&mut self) {
        let floor = self.control.floor();
        let window = self.control.state_mut();
        if self.config.recovery.halves_rate() {
            window.step_down(floor);
        }
        window.limit(self.board.in_flight() + 1);
    }

    /// The burst limit for dubious ACKs.
    fn moderate_window(&mut self) {
        let most = self.flight() + self.config.max_burst;
        self.control.state_mut().limit(most);
    }

    /// Retransmits lost segments while the window allows (`force`: the first one in any case), then, in fast
    /// recovery and without new data to send, the holes below the highest SACK.
    fn retransmit_lost<O: Observer>(&mut self, cx: &mut Context<'_, O>, force: bool) {
        let recovering = self.recovery.state == State::Recovery;
        let kind = self.recovery.state.retransmission_kind();
        let window = self.control.window();
        let mut forced = force;
        let mut from = 0;
        while forced || self.board.in_flight() < window {
            let Some(index) = self.board.next_lost(from) else { break };
            self.retransmit(cx, index, kind);
            from = index + 1;
            forced = false;
        }
        if !recovering || !self.config.sack || self.may_send_new() {
            return;
        }
        from = 0;
        while self.board.in_flight() < window {
            let Some(index) = self.board.next_hole(from) else { break };
            self.retransmit(cx, index, RetransmissionKind::Forward);
            from = index + 1;
        }
    }

    /// Open, or Disorder while segments are unsettled; an ECN echo reduces the window.
    fn try_to_open<O: Observer>(&mut self, cx: &mut Context<'_, O>, signs: AckSigns) {
        let none_out = self.board.queue.retransmitted_out() == 0;
        if none_out {
            self.episode.stamp = None;
        }
        if signs.ece {
            self.enter_cwr(cx);
        }
        if self.recovery.state == State::Cwr {
            return;
        }
        let settled = self.board.sacked_out() == 0 && none_out && self.episode.marker.is_none();
        let state = if settled { State::Open } else { State::Disorder };
        if self.recovery.state != state {
            self.recovery.enter(state, self.queue.nxt);
        }
        self.moderate_window();
    }

    /// ECN echo: half the window, once per window of data (RFC 3168, section 6.1.2).
    fn enter_cwr<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.recovery.state >= State::Cwr {
            return;
        }
        self.episode.prior_ssthresh = 0;
        self.episode.marker = None;
        self.control.on_congestion(Congestion::Ecn, self.control.window());
        self.control.state_mut().fall();
        self.recovery.enter(State::Cwr, self.queue.nxt);
        self.queue.cwr_pending = true;
        cx.emit(TransportEvent::EcnReduction);
    }

    /// An ACK while F-RTO examines a timeout.
    fn on_ack_in_frto<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        signs: AckSigns,
        prior_una: u64,
        progress: Linux2Progress,
    ) {
        let Linux2Recovery { point, .. } = self.recovery;
        let una = self.queue.una;
        let shown = Linux2Shown {
            moved: una != prior_una,
            not_duplicate: signs.not_duplicate,
            sacked: signs.sacked,
            all_old: una >= point,
            some_new: signs.data_lost || una > point,
        };
        let in_flight = self.board.in_flight();
        match self.frto.verdict(progress, shown, self.config.sack) {
            Linux2Verdict::Ignore => {}
            Linux2Verdict::Wait => self.control.state_mut().limit(in_flight.max(1)),
            Linux2Verdict::Real => {
                // Data outstanding at the timeout is lost; data sent since, including the retransmitted head,
                // stays in flight.
                self.frto.progress = None;
                self.board.mark_all_lost(point);
                self.board.forget_duplicates();
                let window = self.board.in_flight() + if progress.advanced { 3 } else { 2 };
                self.control.on_persistent(&self.moment(cx), window);
                self.episode.marker = None;
                self.go_back(point);
            }
            Linux2Verdict::Advance => {
                // Step 2b: two new segments, so that the next ACK decides.
                self.frto.progress = Some(Linux2Progress { advanced: true, ..progress });
                self.control.state_mut().set(in_flight + 2);
                self.send_new(cx);
                if self.frto.mode == FRtoMode::Draft2002 {
                    self.control.state_mut().fall();
                }
            }
            Linux2Verdict::Spurious => {
                self.frto.progress = None;
                if self.frto.mode == FRtoMode::Draft2002 {
                    let ssthresh = self.control.ssthresh();
                    self.control.state_mut().limit(ssthresh);
                } else {
                    // ssthresh is set to the old flight size.
                    self.control.on_spurious(Prior { window: 0, ssthresh: progress.flight });
                }
                cx.emit(TransportEvent::Undone(UndoCause::FRto));
            }
        }
    }

    /// The evidence that every retransmission of the episode was unnecessary, if there is any.
    fn evidence(&self) -> Option<UndoCause> {
        self.episode.marker?;
        if self.config.dsack && self.episode.all_reported() {
            return Some(UndoCause::Dsack);
        }
        let original = self.config.eifel && self.episode.is_older(self.echo);
        original.then_some(UndoCause::Timestamps)
    }

    fn restore_window<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        cause: UndoCause,
        with_ssthresh: bool,
    ) {
        let now = self.control.ssthresh();
        let prior = self.episode.prior_ssthresh;
        let window = if prior > 0 { self.control.undone() } else { now };
        let ssthresh = if with_ssthresh { prior } else { 0 };
        if ssthresh > now {
            self.queue.cwr_pending = false;
        }
        self.control.on_spurious(Prior { window, ssthresh });
        self.moderate_window();
        cx.emit(TransportEvent::Undone(cause));
    }

    /// At the end of fast or loss recovery: checks whether no retransmission was necessary. Returns true if
    /// the reduction was undone.
    fn try_undo_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(cause) = self.evidence() else { return false };
        self.restore_window(cx, cause, true);
        self.episode.marker = None;
        true
    }

    /// A partial ACK in fast recovery was for the original, so the following segments are probably delayed,
    /// too. The `acked` segments show how much segments can be reordered without being lost.
    fn try_undo_partial<O: Observer>(&mut self, cx: &mut Context<'_, O>, acked: u32) -> bool {
        let Some(cause) = self.evidence() else { return false };
        let extent = self.board.furthest_sacked() + acked;
        self.raise_reordering(extent);
        if self.board.queue.retransmitted_out() == 0 {
            self.episode.stamp = None;
        }
        self.restore_window(cx, cause, false);
        true
    }

    /// An ACK after a timeout proves it spurious: loss marks are cleared, and sending continues with new
    /// data.
    fn try_undo_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(cause) = self.evidence() else { return false };
        self.board.queue.clear_lost();
        self.restore_window(cx, cause, true);
        self.timer.expiries = 0;
        self.episode.marker = None;
        self.recovery.state = State::Open;
        true
    }

    /// Every retransmission of the episode has been reported as a duplicate.
    fn try_undo_dsack<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.config.dsack && self.episode.all_reported() {
            self.restore_window(cx, UndoCause::Dsack, true);
            self.episode.marker = None;
        }
    }
}

/// Only rate halving reduces the window (`tcp_cwnd_down`, `tcp_complete_cwr` of Linux 2.6).
fn falls_to_ssthresh(rules: RecoveryRules) -> bool {
    rules == RecoveryRules::RateHalving
}
