//! RACK: what was sent before something that has arrived, and long enough before, is lost (RFC 8985, section 6, as
//! Linux has it).

use super::Sender;
use super::scoreboard::{SentSegment, Visit};
use super::timer::Alarm;
use crate::clock::Tick;
use crate::common::{Context, State};
use lasthop_core::Observer;

/// Recoveries that a widened reordering window lasts for.
pub(super) const WINDOW_PERSISTS: u8 = 16;
/// Least time that a timer of TCP waits, in microseconds.
const TIMEOUT_MIN_US: u64 = 2_000;
/// Widest reordering window, in quarters of the least round-trip time.
const STEPS_MAX: u64 = 255;

/// What RACK knows of the latest transmission that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// When it was sent, and its end.
    sent: (u64, u64),
    rtt_us: u64,
    /// Something has arrived since losses were last looked for.
    pub advanced: bool,
    /// Width of the reordering window, in quarters of the least round-trip time.
    steps: u64,
    pub persists: u8,
    /// A D-SACK that may have been RACK's fault has come.
    pub dsack_seen: bool,
    last_delivered: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent: (0, 0),
            rtt_us: 0,
            advanced: false,
            steps: 1,
            persists: 0,
            dsack_seen: false,
            last_delivered: 0,
        }
    }
}

impl Rack {
    /// A segment has arrived (section 6.2, steps 1 and 2).
    pub fn advance(&mut self, now_us: u64, segment: &SentSegment, least_rtt_us: u64) {
        let rtt_us = now_us - segment.sent_us;
        if rtt_us < least_rtt_us && segment.ever_retransmitted {
            // Rather the original than its retransmission.
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        self.sent = self.sent.max((segment.sent_us, segment.end));
    }

    /// Microseconds until a segment counts as lost, from its latest transmission on.
    pub fn patience_us(&self, window_us: u64) -> u64 {
        self.rtt_us + window_us
    }

    /// Once per round trip a D-SACK widens the reordering window (section 6.2, step 4). `prior_delivered` is what had
    /// been delivered when the newest segment of this ACK was sent.
    pub fn update_window(&mut self, prior_delivered: u64, delivered: u64) {
        if prior_delivered == 0 {
            return;
        }
        if prior_delivered < self.last_delivered {
            self.dsack_seen = false;
        }
        if std::mem::take(&mut self.dsack_seen) {
            self.steps = (self.steps + 1).min(STEPS_MAX);
            self.last_delivered = delivered;
            self.persists = WINDOW_PERSISTS;
        } else if self.persists == 0 {
            self.steps = 1;
        }
    }
}

impl Sender {
    fn reordering_window_us(&self) -> u64 {
        if !self.reordering_seen
            && (self.state >= State::Recovery || self.board.sacked_out >= self.reordering)
        {
            return 0;
        }
        (self.rtt.least_us() / 4 * self.rack.steps).min(self.rtt.srtt_us())
    }

    /// Marks what is lost; returns the microseconds to wait for the rest, if anything is in doubt (section 6.2, step
    /// 5).
    fn detect_loss(&mut self, now_us: u64) -> Option<u64> {
        let patience = self.rack.patience_us(self.reordering_window_us());
        let latest = self.rack.sent;
        let mut wait = None;
        let mut lost = 0;
        self.board.visit_by_time(|board, index| {
            let segment = board.get(index);
            if segment.lost && !segment.retransmitted {
                return Visit::Keep;
            }
            if (segment.sent_us, segment.end) >= latest {
                return Visit::Stop;
            }
            let remaining = (segment.sent_us + patience).saturating_sub(now_us);
            if remaining > 0 {
                wait = wait.max(Some(remaining));
                return Visit::Keep;
            }
            lost += u64::from(board.mark_lost(index));
            Visit::Leave
        });
        self.lost += lost;
        wait
    }

    /// Looks for losses after an ACK. Returns true if the timer is set for the rest.
    pub(super) fn mark_lost_by_rack(&mut self, now_us: u64, tick: Tick) -> bool {
        if !std::mem::take(&mut self.rack.advanced) {
            return false;
        }
        let Some(wait) = self.detect_loss(now_us) else { return false };
        let delta = self.rtt.ticks(wait + TIMEOUT_MIN_US).min(self.rtt.rto());
        self.timer.set(Alarm::Reordering, tick, delta);
        true
    }

    /// The reordering window is over.
    pub(super) fn on_reordering_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let in_flight = self.board.in_flight();
        let lost = self.lost;
        self.detect_loss(cx.micros());
        if self.board.in_flight() != in_flight {
            if self.state != State::Recovery {
                self.enter_recovery(cx, false);
                self.reduce_window(1, self.lost - lost, false);
            }
            self.retransmit_lost(cx);
        }
        if self.timer.alarm() != Some(Alarm::Retransmission) {
            self.rearm_timer(cx);
        }
    }
}
