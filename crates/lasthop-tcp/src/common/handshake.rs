//! What a handshake that agrees on accurate ECN (RFC 9768) has told.

use lasthop_core::{Flags, Segment};

/// Where counters of marks begin (section 3.2.1).
pub(crate) const MARKS_FIRST: u8 = 5;

/// What the handshake has told the sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// `s.cep`: the peer's counter of marks.
    pub marks: u8,
    /// The own SYN or SYN-ACK arrived with a mark.
    pub is_marked: bool,
    /// Segments may be ECN-capable.
    pub sends_ect: bool,
    /// The peer's counter means something.
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

    /// The ACK of the own SYN-ACK: table 4. What carries data or SACK blocks has the counter.
    pub fn note_ack(&mut self, ack: &Segment) {
        if ack.sequence_length() > 0 || !ack.sack.is_empty() {
            return;
        }
        let ace = ack.flags.ace();
        self.note(ace);
        self.marks += u8::from(self.is_marked);
        self.heeds = ace != 0b000;
        self.sends_ect &= self.heeds;
    }

    /// What was not ECN-capable and arrives as something else was mangled on the way (section 3.2.2.3).
    fn note(&mut self, ace: u8) {
        self.is_marked = ace == 0b110;
        self.sends_ect &= !matches!(ace, 0b011 | 0b100 | 0b110);
    }
}
