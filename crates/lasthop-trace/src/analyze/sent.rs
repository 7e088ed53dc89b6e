//! The data that one end of a connection has sent, as far as the capture shows: which bytes are repeated, and
//! which ACK answers which segment. The rules are those of tcptrace.

use lasthop_core::Duration;
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum number of remembered pieces. More are in flight only in a capture that lacks the ACKs.
const LIMIT: usize = 65_536;
/// Maximum number of acknowledged pieces with gaps, which are packets missed or on another path.
const ISLANDS: usize = 64;

/// The sequence space of one direction that still matters. Acknowledged data without gaps form one piece.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// In sequence order, without overlap.
    pieces: VecDeque<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    end: u64,
    /// When any byte of it was sent last.
    sent_ns: u64,
    retransmitted: bool,
    acknowledged: bool,
}

/// How a new segment relates to what was sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Novelty {
    /// Sequence numbers that were sent before.
    pub(super) repeated: u64,
    /// It fills a gap below data seen earlier.
    pub(super) out_of_order: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// It repeats the ACK number of an earlier one.
    pub(super) repeats: bool,
    /// A sample of the round-trip time, free of ambiguity (Karn and Partridge, 1987).
    pub(super) rtt: Option<Duration>,
}

impl Sent {
    /// A segment that occupies `range` was seen at `now_ns`.
    pub(super) fn segment(&mut self, now_ns: u64, range: Range<u64>) -> Novelty {
        let mut novelty = Novelty::default();
        let Range { mut start, end } = range;
        let mut index = self.pieces.partition_point(|piece| piece.end <= start);
        let mut first = true;
        while let Some(piece) = self.pieces.get_mut(index) {
            if start >= end {
                return novelty;
            }
            if start < piece.start {
                // Segments retransmitted as one begin below the last one, but end at its end or after it.
                novelty.out_of_order |= end < piece.end;
                let gap_end = end.min(piece.start);
                self.pieces.insert(index, Piece::new(now_ns, start..gap_end));
                start = gap_end;
            } else {
                piece.retransmitted = true;
                if first {
                    piece.sent_ns = now_ns;
                }
                novelty.repeated += end.min(piece.end) - start;
                start = end.min(piece.end);
                first = false;
            }
            index += 1;
        }
        if start < end {
            self.pieces.push_back(Piece::new(now_ns, start..end));
            if self.pieces.len() > LIMIT {
                self.fold_lowest();
            }
        }
        novelty
    }

    /// An ACK up to `ack` was seen at `now_ns`.
    pub(super) fn acknowledged(&mut self, now_ns: u64, ack: u64) -> Answer {
        let mut answer = Answer::default();
        let (mut newest_ns, mut changed) = (0, false);
        for piece in self.pieces.iter_mut().take_while(|piece| piece.start < ack) {
            newest_ns = newest_ns.max(piece.sent_ns);
            let answers_it = ack == piece.end;
            if piece.acknowledged {
                answer.repeats |= answers_it;
            } else {
                changed = true;
                piece.acknowledged = true;
                // If data below the segment were sent after it, the ACK had to wait for them.
                if answers_it && !piece.retransmitted && newest_ns <= piece.sent_ns {
                    answer.rtt = Some(Duration::from_nanos(now_ns.saturating_sub(piece.sent_ns)));
                }
            }
        }
        if changed {
            self.join();
        }
        answer
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Merges adjacent acknowledged pieces.
    fn join(&mut self) {
        let mut index = 0;
        while let (Some(below), Some(piece)) =
            (self.pieces.get(index).copied(), self.pieces.get_mut(index + 1))
        {
            if !below.acknowledged {
                break;
            }
            if piece.acknowledged && piece.start == below.end {
                piece.start = below.start;
                piece.sent_ns = piece.sent_ns.max(below.sent_ns);
                self.pieces.remove(index);
            } else {
                index += 1;
            }
        }
        if index > ISLANDS {
            self.fold_lowest();
        }
    }

    /// Bounds the memory: treats the lowest gap as sent and acknowledged.
    fn fold_lowest(&mut self) {
        if let (Some(below), Some(piece)) = (self.pieces.pop_front(), self.pieces.front_mut()) {
            piece.start = below.start;
            piece.sent_ns = piece.sent_ns.max(below.sent_ns);
            piece.acknowledged = true;
        }
    }
}

impl Piece {
    fn new(sent_ns: u64, range: Range<u64>) -> Self {
        Self { start: range.start, end: range.end, sent_ns, retransmitted: false, acknowledged: false }
    }
}
