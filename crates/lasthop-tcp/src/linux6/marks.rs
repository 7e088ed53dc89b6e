//! Counters of marks (RFC 9768): the three bits of an ACK count the marks that the peer has received.

use lasthop_core::{Ecn, Segment};

use super::Sender;
use super::facts::AckFacts;
use crate::common::Handshake;
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
}

impl Marks {
    fn new(counted: u8) -> Self {
        Self { counted: counted.into(), average: 0 }
    }

    /// Number of marked segments according to an ACK that shows the arrival of `delivered`: if ACKs are
    /// missing, the counter is assumed to have wrapped as often as possible (section 3.2.2.5.2; appendix
    /// A.2.1).
    fn read(&mut self, ace: u8, delivered: u64) -> u64 {
        let least = (u64::from(ace) + ACE_SIZE - self.counted % ACE_SIZE) % ACE_SIZE;
        let is_usual = self.average > THINNED * AVERAGE_WEIGHT;
        self.average = self.average - self.average / AVERAGE_WEIGHT + delivered;
        let marks =
            if delivered < ACE_SIZE || is_usual { least } else { delivered - (delivered - least) % ACE_SIZE };
        self.counted += marks;
        marks
    }
}

impl Sender {
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
        let marks = self.marks.read(segment.flags.ace(), delivered);
        self.counts.delivered_ce += marks;
        facts.ece = marks > 0;
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
        Marks::new(counted).read(ace, delivered)
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
        assert_eq!([7, 0, 2, 2, 1].map(|ace| marks.read(ace, 2)), [2, 1, 2, 0, 7]);
        assert_eq!(marks.counted, 5 + 12);
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
        let read: Vec<u64> = (0..8).map(|_| marks.read(5, 16)).collect();
        assert_eq!(read, [16, 16, 16, 0, 0, 0, 0, 0]);
        assert_eq!(marks.read(6, 1), 1, "and a short one");
    }
}
