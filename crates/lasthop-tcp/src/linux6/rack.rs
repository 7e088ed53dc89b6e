//! RACK: a segment that was sent long enough before another one that has arrived is lost (RFC 8985, section
//! 6, as in Linux).

use super::scoreboard::{Linux6Scoreboard, Linux6SentSegment, Visit};

/// Number of recoveries for which a widened reordering window lasts.
const WINDOW_PERSISTS: u8 = 16;
/// Widest reordering window, in quarters of the least round-trip time.
const STEPS_MAX: u64 = 255;

/// RACK's data about the latest transmission that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Its send time and its end.
    sent: (u64, u64),
    rtt_us: u64,
    /// True if segments have arrived since the last detection of losses.
    pub advanced: bool,
    /// Width of the reordering window, in quarters of the least round-trip time.
    steps: u64,
    persists: u8,
    /// True if a D-SACK has arrived that RACK may have caused.
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
    pub fn advance(&mut self, now_us: u64, segment: &Linux6SentSegment, least_rtt_us: u64) {
        let rtt_us = now_us.saturating_sub(segment.sent.us);
        if rtt_us < least_rtt_us && segment.ever_retransmitted {
            // This is rather the original than its retransmission.
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        self.sent = self.sent.max((segment.sent.us, segment.end));
    }

    /// Microseconds until a segment counts as lost, from its latest transmission on.
    pub fn patience_us(&self, window_us: u64) -> u64 {
        self.rtt_us + window_us
    }

    /// Width of the reordering window, if there is one.
    pub fn window_us(&self, least_rtt_us: u64, srtt_us: u64) -> u64 {
        (least_rtt_us / 4 * self.steps).min(srtt_us)
    }

    /// Once per round trip a D-SACK widens the reordering window (section 6.2, step 4). `prior_delivered` is
    /// what had been delivered when the newest segment of this ACK was sent.
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

    /// A recovery is over. If it was `unnecessary`, the window should stay wide.
    pub fn on_recovery_end(&mut self, unnecessary: bool) {
        self.persists = if unnecessary {
            (self.persists + 1).min(WINDOW_PERSISTS)
        } else {
            self.persists.saturating_sub(1)
        };
    }

    /// Marks lost segments. Returns their number, and the microseconds to wait if further segments are
    /// undecided (section 6.2, step 5).
    pub fn detect(&self, board: &mut Linux6Scoreboard, window_us: u64, now_us: u64) -> (u64, Option<u64>) {
        let patience = self.patience_us(window_us);
        let mut wait = None;
        let mut lost = 0;
        board.visit_by_time(|board, index| {
            let segment = board.queue.get(index);
            if segment.lost && !segment.retransmitted {
                return Visit::Keep;
            }
            if (segment.sent.us, segment.end) >= self.sent {
                return Visit::Stop;
            }
            let remaining = (segment.sent.us + patience).saturating_sub(now_us);
            if remaining > 0 {
                wait = wait.max(Some(remaining));
                return Visit::Keep;
            }
            lost += u64::from(board.mark_lost(index));
            Visit::Leave
        });
        (lost, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scoreboard::Linux6Sent;
    use super::*;
    use crate::common::NewSegment;

    /// Segment `number` of 10 bytes, sent at `number` ms.
    fn segment(number: u64) -> Linux6SentSegment {
        let new = NewSegment { payload_bytes: 10, fin: false, push: false, ends_write: false };
        let sent = Linux6Sent { us: number * 1_000, delivered_before: 0, number: 1 };
        Linux6SentSegment::new(number * 10..number * 10 + 10, new, false, sent)
    }

    fn four_sent() -> Linux6Scoreboard {
        let mut board = Linux6Scoreboard::default();
        (0..4).for_each(|number| board.push(segment(number)));
        board
    }

    #[test]
    fn what_was_sent_a_window_before_what_arrived_is_lost() {
        let mut board = four_sent();
        let mut rack = Rack::default();
        rack.advance(100_000, &segment(3), 90_000);
        board.mark_sacked(3);
        // A round-trip time of 97 ms and a window of 2 ms: 0 is over at 99 ms, 1 at 100 ms, 2 at 101 ms.
        assert_eq!(rack.detect(&mut board, 2_000, 100_000), (2, Some(1_000)));
        assert_eq!(board.queue.lost_out(), 2);
        assert_eq!(rack.detect(&mut board, 2_000, 101_000), (1, None));
    }

    #[test]
    fn an_answer_faster_than_any_is_of_the_original() {
        let mut rack = Rack::default();
        let mut again = segment(3);
        again.ever_retransmitted = true;
        rack.advance(10_000, &again, 90_000);
        assert!(!rack.advanced);
    }

    #[test]
    fn a_duplicate_widens_the_window_for_sixteen_recoveries() {
        let mut rack = Rack { dsack_seen: true, ..Rack::default() };
        rack.update_window(5, 9);
        assert_eq!(rack.window_us(40_000, 100_000), 20_000);
        for _ in 0..16 {
            rack.update_window(10, 12);
            assert_eq!(rack.window_us(40_000, 100_000), 20_000);
            rack.on_recovery_end(false);
        }
        rack.update_window(10, 12);
        assert_eq!(rack.window_us(40_000, 100_000), 10_000);
    }
}
