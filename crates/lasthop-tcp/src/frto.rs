//! F-RTO: telling a spurious timeout from a real one by the first two ACKs after it
//! (draft-sarolahti-tsvwg-tcp-frto-00; RFC 4138, section 2.1).

use lasthop_core::{Observer, TcpEvent, UndoCause};

use crate::config::FRtoMode;
use crate::sender::{AckSigns, Context, Sender, State};

/// F-RTO in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FRto {
    /// `snd_nxt` at the timeout.
    highmark: u64,
    /// Segments outstanding at the timeout.
    flight: u32,
    /// ACKs that advanced the window so far.
    advances: u32,
}

impl Sender {
    /// Step 1: ssthresh is reduced, the head will be retransmitted, nothing is marked lost yet.
    pub(crate) fn enter_frto(&mut self) {
        let flight = self.board.outstanding();
        self.reduce_for_timeout(flight);
        self.cwnd_count = 0;
        self.board.forget_retransmissions();
        self.undo_marker = None;
        self.frto = Some(FRto { highmark: self.nxt, flight, advances: 0 });
        self.state = State::Open;
    }

    /// Steps 2 and 3: an ACK that does not advance the window, or that acknowledges everything sent
    /// before the timeout, shows a real loss.
    pub(crate) fn on_ack_in_frto<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        signs: AckSigns,
        prior_una: u64,
    ) {
        let Some(frto) = self.frto.as_mut() else { return };
        let advanced = self.una != prior_una;
        if !advanced && signs.not_duplicate && !signs.sacked {
            return;
        }
        if !advanced || self.una >= frto.highmark {
            self.leave_frto_for_loss();
            return;
        }
        frto.advances += 1;
        let FRto { flight, advances, .. } = *frto;
        if advances == 1 {
            // Step 2b: two new segments, so that the next ACK tells.
            self.cwnd = self.board.in_flight() + 2;
            self.send_new(cx);
            if self.config.frto == FRtoMode::Draft2002 {
                self.cwnd = self.ssthresh;
            }
        } else {
            self.frto = None;
            match self.config.frto {
                // RFC 4015, section 3.2: ssthresh back to what was in flight.
                FRtoMode::Rfc4138 => self.ssthresh = self.ssthresh.max(flight),
                FRtoMode::Draft2002 | FRtoMode::Off => self.cwnd = self.cwnd.min(self.ssthresh),
            }
            cx.emit(TcpEvent::Undone(UndoCause::FRto));
        }
    }

    /// The timeout was real: what was outstanding at the timeout is lost; what was sent since, the
    /// retransmitted head too, stays in flight.
    fn leave_frto_for_loss(&mut self) {
        let Some(frto) = self.frto.take() else { return };
        self.board.mark_all_lost(frto.highmark);
        self.board.forget_duplicates();
        self.cwnd = self.board.in_flight() + frto.advances + 2;
        self.undo_marker = None;
        self.enter_loss_state(frto.highmark);
    }
}
