//! Counters of marks (RFC 9768): the three bits of an ACK count the marks that the peer has received.

use lasthop_core::{Ecn, Segment};

use super::Linux6Sender;
use super::ecn_bytes::PeerEcnBytes;
use super::facts::AckFacts;
use crate::common::{Handshake, State};
use crate::control::{Congestion, Controller};

/// The field wraps at this value.
const ACE_SIZE: u64 = 8;
/// The weight of an ACK in the average of segments per ACK is 1 divided by this.
const AVERAGE_WEIGHT: u64 = 8;
/// If ACKs acknowledge more segments than this on average, large ones are not a sign of missing ACKs.
const THINNED: u64 = 4;

/// `s.cep`, and the mean number of segments per ACK, times its weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    counted: u64,
    average: u64,
    bytes: PeerEcnBytes,
}

/// The information of an option in addition to the counter in the header.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Bytes that came with a mark.
    marked: u64,
    mss: u64,
    /// Whether the delivered segments are known well enough to set bytes against them.
    is_exact: bool,
}

impl Told {
    /// With `least` marks, or as many as `most` if the counter has wrapped (`__tcp_accecn_process`).
    fn marks(self, least: u64, most: u64, delivered: u64) -> u64 {
        let Self { marked, mss, is_exact } = self;
        if marked == 0 {
            least
        } else if is_exact && delivered >= 2 * ACE_SIZE {
            let segments = marked.div_ceil(mss);
            if delivered <= segments { most } else { most.min(least + segments / ACE_SIZE * ACE_SIZE) }
        } else if marked <= least * mss && marked < most * mss / 2 {
            least
        } else {
            most
        }
    }
}

impl Marks {
    fn new(counted: u8) -> Self {
        Self { counted: counted.into(), ..Self::default() }
    }

    /// Number of marked segments according to an ACK that shows the arrival of `delivered`: if ACKs are
    /// missing, the counter is assumed to have wrapped as often as possible (section 3.2.2.5.2; appendix
    /// A.2.1).
    fn read(&mut self, ace: u8, delivered: u64, reported: Option<Told>) -> u64 {
        let least = (u64::from(ace) + ACE_SIZE - self.counted % ACE_SIZE) % ACE_SIZE;
        let is_usual = self.average > THINNED * AVERAGE_WEIGHT;
        self.average = self.average - self.average / AVERAGE_WEIGHT + delivered;
        let marks = if delivered < ACE_SIZE {
            least
        } else {
            let most = delivered - (delivered - least) % ACE_SIZE;
            let guess = if is_usual { least } else { most };
            reported.map_or(guess, |reported| reported.marks(least, most, delivered))
        };
        self.counted += marks;
        marks
    }
}

impl Linux6Sender {
    /// Starts counting marks at both ends.
    pub(super) fn begin_counting(&mut self, handshake: Handshake) {
        self.marks = Marks::new(handshake.marks);
        self.queue.ecn = handshake.heeds;
        // Retransmissions, too, as in Linux (`tcp_ecn_send`); so Prague's stay in the same queue
        // (draft-ietf-tcpm-generalized-ecn).
        self.queue.is_all_ect = true;
        self.queue.ect = match (handshake.sends_ect, self.config.is_l4s()) {
            (false, _) => Ecn::NotEct,
            (true, true) => Ecn::Ect1,
            (true, false) => Ecn::Ect0,
        };
        if handshake.is_marked {
            let window = self.control.window();
            self.control.on_congestion(Congestion::Ecn, window);
            self.control.state_mut().fall();
        }
    }

    /// Reads the counter of an ACK, if the ACK shows the arrival of data beyond `before`; otherwise a later
    /// ACK may have come already (appendix A.1).
    #[inline]
    pub(super) fn read_marks(&mut self, segment: &Segment, facts: &mut AckFacts, before: u64) {
        let delivered = self.counts.delivered - before;
        if !self.queue.ecn || !self.config.accurate_ecn || delivered == 0 {
            return;
        }
        let reported =
            if self.config.accurate_ecn_option { self.read_option(segment, delivered) } else { None };
        let marks = self.marks.read(segment.flags.ace(), delivered, reported);
        self.counts.delivered_ce += marks;
        facts.ece = marks > 0;
    }

    fn read_option(&mut self, segment: &Segment, delivered: u64) -> Option<Told> {
        let mss = u64::from(self.queue.mss);
        let marked = self.marks.bytes.read(segment.ecn_option().as_ref(), delivered * mss)?;
        let is_exact = self.config.sack || matches!(self.recovery.state, State::Open | State::Cwr);
        Some(Told { marked, mss, is_exact })
    }

    /// The next new segment must signal a reduction.
    pub(super) fn tell_reduction(&mut self) {
        self.queue.cwr_pending = self.queue.ecn && !self.config.accurate_ecn;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(counted: u8, ace: u8, delivered: u64) -> u64 {
        Marks::new(counted).read(ace, delivered, None)
    }

    /// The examples of appendix A.2.1.
    #[test]
    fn a_counter_that_may_have_gone_round_has() {
        assert_eq!(after(5, 7, 9), 2, "9 - (9 - 2) % 8");
        assert_eq!(after(5, 7, 10), 10, "10 - (10 - 2) % 8");
        assert_eq!(after(5, 5, 8), 8, "all of them, or none");
        assert_eq!(after(5, 5, 7), 0, "seven fit");
    }

    #[test]
    fn three_bits_wrap() {
        let mut marks = Marks::new(5);
        assert_eq!([7, 0, 2, 2, 1].map(|ace| marks.read(ace, 2, None)), [2, 1, 2, 0, 7]);
        assert_eq!(marks.counted, 5 + 12);
    }

    #[test]
    fn marked_bytes_say_whether_the_counter_has_wrapped() {
        let read = |marked, is_exact, delivered| {
            Marks::new(5).read(7, delivered, Some(Told { marked, mss: 1_000, is_exact }))
        };
        assert_eq!(read(0, true, 10), 2, "not a byte: the ACE field alone");
        assert_eq!(read(2_000, true, 10), 2, "two segments, where ten could be");
        assert_eq!(read(10_000, true, 10), 10, "ten segments");
        assert_eq!(read(9_500, true, 26), 10, "2 and 8, where 26 could be");
        assert_eq!(read(9_500, false, 26), 26, "without SACK during recovery: the safe side");
        assert_eq!(read(26_000, true, 26), 26);
    }

    /// Section 3.2.2.5.2: the counter is right, and the number of packets incomplete.
    #[test]
    fn more_marks_than_segments_are_believed() {
        assert_eq!(after(5, 0, 1), 3);
    }

    /// Appendix A.2.1: if ACKs are thinned out, each would seem to hide a wrap.
    #[test]
    fn usual_stretches_are_no_missing_acks() {
        let mut marks = Marks::new(5);
        let read: Vec<u64> = (0..8).map(|_| marks.read(5, 16, None)).collect();
        assert_eq!(read, [16, 16, 16, 0, 0, 0, 0, 0]);
        assert_eq!(marks.read(6, 1, None), 1, "and a short one");
    }
}
