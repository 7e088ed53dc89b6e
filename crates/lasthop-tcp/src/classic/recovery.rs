//! Reactions of the classic sender to duplicate ACKs: none, fast retransmit (Tahoe), fast recovery (Reno,
//! `NewReno`), recovery by SACK and the pipe (Fall and Floyd 1996).

use lasthop_core::{Observer, RetransmissionKind, SackBlock, TransportEvent};

use super::{ClassicSender, Piece};
use crate::common::Context;
use crate::config::RecoveryRules;
use crate::control::{Congestion, Controller};

/// The state of fast recovery. Positions are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassicRecovery {
    /// Duplicate ACKs since the last new ACK; in recovery, since the last new ACK before it.
    pub duplicates: u32,
    /// In fast recovery: end of the data that had been sent when it began.
    pub point: Option<u64>,
    /// The last new ACK was a partial one.
    pub heard_partial: bool,
    /// Inflation of the window by duplicate ACKs (Reno, `NewReno`).
    pub inflation: u64,
    /// Estimate of the data in the network (SACK).
    pub pipe: i64,
    /// Holes below this position have been retransmitted in this recovery.
    pub repaired: u64,
    /// Segments sent by limited transmit since the last new ACK.
    pub limited: u32,
    /// End of the data that had been sent at the last fast retransmit or timeout.
    pub recover: u64,
    /// True after going back by a timeout or by Tahoe, until `recover` is acknowledged.
    pub gone_back: bool,
    /// End of the data that had been sent when the window was last reduced.
    pub reduced_at: u64,
}

impl ClassicSender {
    /// A duplicate ACK; `reported` if SACK reported new data.
    pub(super) fn on_duplicate<O: Observer>(&mut self, cx: &mut Context<'_, O>, reported: bool) {
        let rules = self.config.recovery;
        let recovering = self.recovery.point.is_some();
        // With SACK, an ACK without new reports shows that a duplicate has arrived (RFC 6675, section 2).
        if rules == RecoveryRules::None || (self.uses_sack() && !recovering && !reported) {
            return;
        }
        self.recovery.duplicates += 1;
        let threshold = self.config.dupack_threshold;
        if recovering {
            self.on_further_duplicate(cx);
        } else if self.recovery.duplicates == threshold {
            self.fast_retransmit(cx);
        } else if self.recovery.duplicates < threshold && self.config.limited_transmit {
            // One new segment for each of the first duplicates (RFC 3042).
            let edge = self.una + self.congestion_window() + u64::from(self.recovery.duplicates) * self.mss;
            self.recovery.limited += u32::from(self.send_next(cx, edge));
        }
    }

    fn on_further_duplicate<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.uses_sack() {
            self.recovery.pipe -= self.mss.cast_signed();
            return;
        }
        self.recovery.inflation += self.mss;
        let second = (self.recovery.duplicates - self.config.dupack_threshold).is_multiple_of(2);
        if self.config.recovery == RecoveryRules::Newreno && !self.send(cx) && second {
            // One new segment for every two duplicates keeps the flywheel turning (Hoe 1995).
            self.send_next(cx, u64::MAX);
        }
    }

    fn fast_retransmit<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        // Unnecessary retransmissions cause further duplicates (RFC 2582, section 5).
        if self.config.fast_retransmit_guard && self.una <= self.recovery.recover {
            return;
        }
        self.resending = RetransmissionKind::Fast;
        cx.emit(TransportEvent::RecoveryEntered { recovery_point: self.max });
        if self.config.recovery == RecoveryRules::Tahoe {
            self.reduce_to_one_segment(cx);
            return;
        }
        let three = u64::from(self.config.dupack_threshold) * self.mss;
        // The pipe: the window minus the segments that the duplicates report, plus those sent by limited
        // transmit.
        let sent =
            self.congestion_window().min(self.window_bytes) + u64::from(self.recovery.limited) * self.mss;
        self.recovery.pipe = sent.cast_signed() - three.cast_signed();
        self.recovery.inflation = if self.uses_sack() { 0 } else { three };
        self.control.on_congestion(Congestion::Loss, self.flight());
        self.control.state_mut().fall();
        self.cwr_pending = self.config.ecn;
        self.recovery.reduced_at = self.max;
        // With SACK a duplicate counts only if it reports new data, so an echo of an unnecessary
        // retransmission cannot start the next recovery.
        if !self.uses_sack() {
            self.recovery.recover = self.max;
        }
        self.recovery.point = Some(self.max);
        self.recovery.heard_partial = false;
        self.recovery.gone_back = false;
        self.timer.timed = None;
        self.timer.due = None;
        let everything = SackBlock { start: self.una, end: self.max };
        let hole = self.board.next_hole(self.una).unwrap_or(everything);
        self.recovery.repaired = self.resend(cx, hole);
    }

    /// Retransmits the first segment of `hole`; returns its end.
    fn resend<O: Observer>(&mut self, cx: &mut Context<'_, O>, hole: SackBlock) -> u64 {
        let SackBlock { start, end } = hole;
        let payload = self.mss.min(end.min(self.data_end) - start);
        let fin = end > self.data_end && start + payload == self.data_end;
        self.transmit(cx, Piece { seq: start, payload, syn: false, fin });
        start + payload + u64::from(fin)
    }

    /// True if `ack` is new but does not end recovery, because it does not cover all data that had been sent
    /// before.
    pub(super) fn is_partial(&self, ack: u64) -> bool {
        self.config.recovery != RecoveryRules::Reno && self.recovery.point.is_some_and(|point| ack < point)
    }

    pub(super) fn on_partial_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, acked: u64) {
        if self.uses_sack() {
            // The retransmission has left the network, and so has the original.
            self.recovery.pipe -= 2 * self.mss.cast_signed();
            return;
        }
        if self.config.recovery == RecoveryRules::NewrenoRfc2582 {
            self.deflate(acked);
        } else {
            self.recovery.inflation = 0;
        }
        self.resend(cx, SackBlock { start: self.una, end: self.max });
    }

    /// Partial window deflation (RFC 2582, section 3, step 5).
    fn deflate(&mut self, acked: u64) {
        if self.recovery.inflation > acked {
            self.recovery.inflation -= acked - self.mss.min(acked);
        } else {
            self.control.state_mut().deflate(acked - self.recovery.inflation);
            self.recovery.inflation = self.mss;
        }
    }

    /// A new ACK that is not partial ends fast recovery. Going back ends when all data that had been sent is
    /// acknowledged.
    pub(super) fn leave_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let caught_up = self.recovery.gone_back && self.una >= self.recovery.recover;
        if caught_up || self.recovery.point.is_some() {
            cx.emit(TransportEvent::RecoveryLeft);
        }
        self.recovery.gone_back &= !caught_up;
        self.recovery.point = None;
        self.recovery.inflation = 0;
        self.recovery.duplicates = 0;
    }

    /// A timeout ends any recovery, and discards the reports of SACK.
    pub(super) fn abandon_recovery(&mut self) {
        self.recovery.point = None;
        self.recovery.inflation = 0;
        self.recovery.duplicates = 0;
        self.recovery.limited = 0;
        self.board.clear();
    }

    /// Slow start from one segment, back from the first unacknowledged byte.
    pub(super) fn reduce_to_one_segment<O: Observer>(&mut self, cx: &Context<'_, O>) {
        self.control.on_timeout(&self.moment(cx), self.flight(), self.mss);
        self.cwr_pending = self.config.ecn;
        self.recovery.reduced_at = self.max;
        self.recovery.recover = self.max;
        // A retransmitted SYN starts no recovery.
        self.recovery.gone_back = self.una > 0;
        self.nxt = self.una;
        self.timer.timed = None;
        self.timer.due = None;
    }

    /// While the pipe is not full, sends the next hole below the highest reported byte (in order, each once),
    /// otherwise new data. Each segment counts as a full segment in the pipe, regardless of its length.
    pub(super) fn send_by_pipe<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let mut any = false;
        loop {
            let room = self.congestion_window().cast_signed() - self.recovery.pipe;
            let Ok(room @ 1..) = u64::try_from(room) else { break };
            let hole = self.board.next_hole(self.recovery.repaired.max(self.una));
            if let Some(SackBlock { start, end }) = hole {
                self.recovery.repaired = self.resend(cx, SackBlock { start, end: end.min(start + room) });
            } else if !self.send_next(cx, self.nxt + room) {
                break;
            }
            self.recovery.pipe += self.mss.cast_signed();
            any = true;
        }
        any
    }
}
