//! The information in one ACK.

use super::scoreboard::Linux6SentSegment;
use crate::common::State;

/// The information in one ACK, apart from its number.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can say all of it at once")]
pub(super) struct AckFacts {
    /// True if it moved the window.
    pub advanced: bool,
    /// Segments acknowledged for the first time.
    pub acked: bool,
    pub data_acked: bool,
    /// Their number, if any segment was outstanding.
    pub acknowledged: Option<u32>,
    /// True if it carried data or a window update.
    pub data: bool,
    pub window_update: bool,
    pub ece: bool,
    /// True if it moves the window and has no SACK blocks, no ECN echo and no new window (Linux: header
    /// prediction; plain duplicates are off the fast path, too, as a guest's estimates show). For an
    /// algorithm that needs every ACK.
    pub predicted: bool,
    /// True if it brought new SACK information.
    pub data_sacked: bool,
    pub dsack: bool,
    pub dsack_of_probe: bool,
    /// True if data below the recovery point arrived that was never retransmitted.
    pub original_acked: bool,
    pub retransmission_acked: bool,
    /// True if a retransmission was found to be lost.
    pub retransmission_lost: bool,
    /// True for a duplicate ACK in the sense of RFC 5681.
    pub duplicate: bool,
    /// True if the timer must be set again.
    pub set_timer: bool,
}

impl AckFacts {
    /// True if it moved the window, or brought more than its number.
    pub fn not_duplicate(&self) -> bool {
        self.data || self.window_update || self.acked
    }

    pub fn is_dubious(&self, state: State) -> bool {
        !self.not_duplicate() || self.data_sacked || self.ece || self.dsack || state != State::Open
    }
}

/// Round-trip samples of one ACK, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    /// Send times of the first and the last segment that were acknowledged in order.
    pub acked: Option<(u64, u64)>,
    /// The same for SACKed segments.
    pub sacked: Option<(u64, u64)>,
    /// The delivered segments when the newest segment was sent, with its send time and end.
    pub newest: Option<((u64, u64), u64)>,
}

impl Samples {
    pub fn note_delivered(&mut self, segment: &Linux6SentSegment) {
        let key = (segment.sent.us, segment.end);
        if self.newest.is_none_or(|(newest, _)| key > newest) {
            self.newest = Some((key, segment.sent.delivered_before));
        }
    }

    pub fn note_acked(&mut self, sent_us: u64) {
        note(&mut self.acked, sent_us);
    }

    pub fn note_sacked(&mut self, sent_us: u64) {
        note(&mut self.sacked, sent_us);
    }
}

fn note(range: &mut Option<(u64, u64)>, sent_us: u64) {
    let first = range.map_or(sent_us, |(first, _)| first);
    *range = Some((first, sent_us));
}
