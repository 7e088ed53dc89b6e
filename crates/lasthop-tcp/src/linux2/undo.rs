//! Taking back a reduction that turned out to be unnecessary: by timestamps (Eifel detection,
//! RFC 3522) or by D-SACK (RFC 3708), with Linux' response.

use lasthop_core::{Observer, TcpEvent, UndoCause};

use super::Sender;
use crate::common::{Context, State};

/// Linux lets no amount of reordering raise the threshold beyond this.
const REORDERING_MAX: u32 = 127;

impl Sender {
    /// The ssthresh that an undo would restore: three quarters of the window if that is more.
    pub(super) fn ssthresh_worth_restoring(&self) -> u32 {
        if matches!(self.state, State::Cwr | State::Recovery) {
            self.ssthresh
        } else {
            self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
        }
    }

    /// The evidence that every retransmission of the episode was unnecessary, if there is any.
    fn evidence(&self) -> Option<UndoCause> {
        self.undo_marker?;
        if self.config.dsack && self.undo_retransmissions == 0 {
            return Some(UndoCause::Dsack);
        }
        let older = self.echo.zip(self.retransmission_stamp).is_some_and(|(echo, stamp)| echo < stamp);
        (self.config.eifel && older).then_some(UndoCause::Timestamps)
    }

    fn restore_window<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        cause: UndoCause,
        with_ssthresh: bool,
    ) {
        if self.prior_ssthresh > 0 {
            self.cwnd = self.cwnd.max(self.ssthresh * 2);
            if with_ssthresh && self.prior_ssthresh > self.ssthresh {
                self.ssthresh = self.prior_ssthresh;
                self.cwr_pending = false;
            }
        } else {
            self.cwnd = self.cwnd.max(self.ssthresh);
        }
        self.moderate_window();
        cx.emit(TcpEvent::Undone(cause));
    }

    /// At the end of fast or loss recovery: nothing had needed retransmission after all. Returns true if
    /// the reduction was undone.
    pub(super) fn try_undo_recovery<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(cause) = self.evidence() else { return false };
        self.restore_window(cx, cause, true);
        self.undo_marker = None;
        true
    }

    /// A partial ACK in fast recovery was for the original: whatever follows is probably delayed too.
    /// The `acked` segments show how far apart segments can arrive without being lost.
    pub(super) fn try_undo_partial<O: Observer>(&mut self, cx: &mut Context<'_, O>, acked: u32) -> bool {
        let Some(cause) = self.evidence() else { return false };
        let extent = self.board.furthest_sacked() + acked;
        self.reordering = self.reordering.max(extent.min(REORDERING_MAX));
        if self.board.retransmitted_out() == 0 {
            self.retransmission_stamp = None;
        }
        self.restore_window(cx, cause, false);
        true
    }

    /// An ACK after a timeout proves it spurious: loss marks are cleared, sending goes on with new data.
    pub(super) fn try_undo_loss<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(cause) = self.evidence() else { return false };
        self.board.clear_lost();
        self.restore_window(cx, cause, true);
        self.expiries = 0;
        self.undo_marker = None;
        self.state = State::Open;
        true
    }

    /// Every retransmission of the episode has been reported as a duplicate.
    pub(super) fn try_undo_dsack<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.config.dsack && self.undo_marker.is_some() && self.undo_retransmissions == 0 {
            self.restore_window(cx, UndoCause::Dsack, true);
            self.undo_marker = None;
        }
    }
}
