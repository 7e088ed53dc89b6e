//! The results of a handshake with accurate ECN (RFC 9768).

use lasthop_core::{Flags, Segment};

/// Initial value of the counters of marks (section 3.2.1).
pub(crate) const MARKS_FIRST: u8 = 5;

/// The results of the handshake for the sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// `s.cep`: the peer's counter of marks.
    pub marks: u8,
    /// True if this end's SYN or SYN-ACK arrived with a mark.
    pub is_marked: bool,
    /// True if segments may be ECN-capable.
    pub sends_ect: bool,
    /// True if the peer's counter is usable.
    pub heeds: bool,
}

impl Default for Handshake {
    fn default() -> Self {
        Self { marks: MARKS_FIRST, is_marked: false, sends_ect: true, heeds: true }
    }
}

impl Handshake {
    /// A SYN-ACK that agrees to counters: table 2.
    pub fn note_syn_ack(&mut self, flags: Flags) {
        self.note(flags.ace());
    }

    /// The ACK of this end's SYN-ACK: table 4. A segment with data or SACK blocks carries the counter
    /// instead. If the latest SYN-ACK did not agree to counters (`is_doubtful`), a counter of zero says that
    /// the peer has none: it would begin at 5.
    pub fn note_ack(&mut self, ack: &Segment, is_doubtful: bool) {
        if is_doubtful && ack.flags.ace() == 0 {
            (self.heeds, self.sends_ect) = (false, false);
        }
        if ack.sequence_length() > 0 || !ack.sack.is_empty() {
            return;
        }
        let ace = ack.flags.ace();
        self.note(ace);
        self.marks += u8::from(self.is_marked);
        self.heeds = ace != 0b000;
        self.sends_ect &= self.heeds;
    }

    /// A packet that was sent as not ECN-capable and arrives with another codepoint was mangled on the path
    /// (section 3.2.2.3).
    fn note(&mut self, ace: u8) {
        self.is_marked = ace == 0b110;
        self.sends_ect &= !matches!(ace, 0b011 | 0b100 | 0b110);
    }
}
