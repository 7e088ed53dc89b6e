//! The counters of the option of accurate ECN at the receiving half (RFC 9768, section 3.2.3).

use lasthop_core::{Ecn, EcnOption, Segment};

/// With fewer SACK blocks than this, none makes room for the counters.
const BLOCKS_MIN: usize = 2;

/// Bytes of payload received with each codepoint, in order 1, which is Linux' order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnBytes {
    counts: [u32; EcnOption::FIELDS_MAX as usize],
    /// Counters that the next option must have: all that have changed.
    needed: u8,
    latest: Ecn,
}

impl Default for EcnBytes {
    fn default() -> Self {
        Self { counts: EcnOption::FIRST, needed: 0, latest: Ecn::NotEct }
    }
}

impl EcnBytes {
    /// Counts the payload of a packet. Returns true if its codepoint is another than the last packet's, so
    /// that it must be acknowledged at once (section 3.2.3.3).
    pub fn note(&mut self, ecn: Ecn, payload_bytes: u32) -> bool {
        let place = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect1 => Some(0),
            Ecn::Ce => Some(1),
            Ecn::Ect0 => Some(2),
        };
        if let Some(place) = place
            && payload_bytes > 0
        {
            let count = &mut self.counts[usize::from(place)];
            *count = (*count + payload_bytes) % EcnOption::SIZE;
            self.needed = self.needed.max(place + 1);
        }
        std::mem::replace(&mut self.latest, ecn) != ecn
    }

    /// Adds the option to a segment that has all others, with as many counters as fit. The last SACK block
    /// makes room for the counters that must be reported; if those do not fit even so, there is no option
    /// (`tcp_options_fit_accecn`).
    pub fn tell(&mut self, segment: &mut Segment) {
        let mut shorter = *segment;
        let fields = loop {
            let (room, beside_sack) = (shorter.option_room(), !shorter.sack.is_empty());
            let fits = |&fields: &u8| EcnOption::bytes(fields, beside_sack) <= room;
            if let Some(fields) = (self.needed..=EcnOption::FIELDS_MAX).rev().find(fits) {
                break fields;
            }
            if self.needed == 0 || shorter.sack.len() <= BLOCKS_MIN {
                return;
            }
            shorter.sack.truncate(shorter.sack.len() - 1);
        };
        segment.sack.truncate(shorter.sack.len());
        self.needed = 0;
        segment.set_ecn_option(&EcnOption { fields, is_order_1: true, counts: self.counts });
    }
}
