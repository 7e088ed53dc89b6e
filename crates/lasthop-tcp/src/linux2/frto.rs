//! F-RTO: telling a spurious timeout from a real one by the first two ACKs after it
//! (draft-sarolahti-tsvwg-tcp-frto-00; RFC 4138, section 2.1; with SACK: RFC 5682, section 3.1).

use lasthop_core::{Observer, TcpEvent, UndoCause};

use super::{AckSigns, FRto, Sender};
use crate::common::{Context, State};
use crate::config::FRtoMode;

/// What one ACK means to F-RTO.
enum Verdict {
    Ignore,
    /// With SACK: duplicates before the first advance are only taken down (step 2).
    Wait,
    Advance,
    Real,
    Spurious,
}

impl Sender {
    /// True if a timeout now is to be examined. Without new data nothing could be learnt; with SACK an
    /// acknowledged segment must not have been retransmitted earlier (RFC 5682, section 3.1, step 1).
    pub(super) fn may_enter_frto(&self) -> bool {
        let examined = match self.config.frto {
            FRtoMode::Off => false,
            FRtoMode::Draft2002 | FRtoMode::Rfc4138 => true,
            FRtoMode::Rfc5682Sack => self.state < State::Recovery,
        };
        examined && self.frto.is_none() && self.new_data_fits()
    }

    /// Step 1: ssthresh is reduced, the head will be retransmitted, nothing is marked lost yet.
    pub(super) fn enter_frto(&mut self) {
        let flight = self.board.outstanding();
        self.reduce_for_timeout(flight);
        self.cwnd_count = 0;
        self.board.forget_retransmissions();
        self.undo_marker = None;
        self.frto = Some(FRto { flight, advanced: false });
        self.recovery_point = self.nxt;
        self.state = State::Open;
    }

    /// Steps 2 and 3.
    pub(super) fn on_ack_in_frto<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        signs: AckSigns,
        prior_una: u64,
    ) {
        let Some(frto) = self.frto else { return };
        let moved = self.una != prior_una;
        let verdict = if !moved && signs.not_duplicate && !signs.sacked {
            Verdict::Ignore
        } else if self.config.frto == FRtoMode::Rfc5682Sack && self.config.sack {
            self.verdict_with_sack(frto, signs, moved)
        } else if !moved || self.una >= self.recovery_point {
            // Basic algorithm: a duplicate, or an ACK of everything sent before the timeout.
            Verdict::Real
        } else if frto.advanced {
            Verdict::Spurious
        } else {
            Verdict::Advance
        };
        match verdict {
            Verdict::Ignore => {}
            Verdict::Wait => self.cwnd = self.cwnd.min(self.board.in_flight().max(1)),
            Verdict::Real => self.leave_frto_for_loss(),
            Verdict::Advance => {
                // Step 2b: two new segments, so that the next ACK tells.
                self.frto = Some(FRto { advanced: true, ..frto });
                self.cwnd = self.board.in_flight() + 2;
                self.send_new(cx);
                if self.config.frto == FRtoMode::Draft2002 {
                    self.cwnd = self.ssthresh;
                }
            }
            Verdict::Spurious => {
                self.frto = None;
                if self.config.frto == FRtoMode::Draft2002 {
                    self.cwnd = self.cwnd.min(self.ssthresh);
                } else {
                    // RFC 4015, section 3.2: ssthresh back to what was in flight.
                    self.ssthresh = self.ssthresh.max(frto.flight);
                }
                cx.emit(TcpEvent::Undone(UndoCause::FRto));
            }
        }
    }

    /// RFC 5682, section 3.1, steps 2 and 3.
    fn verdict_with_sack(&self, frto: FRto, signs: AckSigns, moved: bool) -> Verdict {
        if !frto.advanced {
            return match (moved, self.una >= self.recovery_point) {
                (false, _) => Verdict::Wait,
                (true, true) => Verdict::Real,
                (true, false) => Verdict::Advance,
            };
        }
        // Step 3a: something sent after the timeout has arrived, or nothing that was not known.
        let above = signs.data_lost || self.una > self.recovery_point;
        if above || !(moved || signs.sacked) { Verdict::Real } else { Verdict::Spurious }
    }

    /// The timeout was real: what was outstanding at the timeout is lost; what was sent since, the
    /// retransmitted head too, stays in flight.
    fn leave_frto_for_loss(&mut self) {
        let Some(frto) = self.frto.take() else { return };
        self.board.mark_all_lost(self.recovery_point);
        self.board.forget_duplicates();
        self.cwnd = self.board.in_flight() + if frto.advanced { 3 } else { 2 };
        self.undo_marker = None;
        self.enter_loss_state(self.recovery_point);
    }
}
