//! What one ACK said.

use super::scoreboard::SentSegment;
use crate::common::State;

/// What one ACK said, beyond its number.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can say all of it at once")]
pub(super) struct AckFacts {
    /// It moved the window.
    pub advanced: bool,
    /// Segments acknowledged for the first time.
    pub acked: bool,
    pub data_acked: bool,
    /// Data or a window update came with it.
    pub data: bool,
    pub window_update: bool,
    pub ece: bool,
    /// It moves the window and brings neither SACK blocks nor an ECN echo nor another window (Linux: header prediction;
    /// plain duplicates are off the fast path, too, as a guest's estimates show). For an algorithm that hears every ACK.
    pub predicted: bool,
    /// SACK information that was news.
    pub data_sacked: bool,
    pub dsack: bool,
    pub dsack_of_probe: bool,
    /// Something below the recovery point arrived that was never sent again.
    pub original_acked: bool,
    pub retransmission_acked: bool,
    /// A retransmission was found lost.
    pub retransmission_lost: bool,
    /// A duplicate ACK in the sense of RFC 5681.
    pub duplicate: bool,
    /// The timer is to be set anew.
    pub set_timer: bool,
}

impl AckFacts {
    /// It moved something, or brought more than its number.
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
    /// When the first and the last segment were sent that were acknowledged in order.
    pub acked: Option<(u64, u64)>,
    /// The same of those that were SACKed.
    pub sacked: Option<(u64, u64)>,
    /// What had been delivered when the newest segment was sent, with its time and end.
    pub newest: Option<((u64, u64), u64)>,
}

impl Samples {
    pub fn note_delivered(&mut self, segment: &SentSegment) {
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
