//! The sent and unacknowledged segments, in the order of their numbers and in the order of their latest
//! transmission.

use std::collections::VecDeque;

use lasthop_core::ring;

use crate::common::{self, RetransmissionQueue};

/// Data about the latest transmission of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linux6Sent {
    /// Send time in microseconds.
    pub us: u64,
    /// Segments delivered when it was sent.
    pub delivered_before: u64,
    /// Number of transmissions of the segment.
    pub number: u32,
}

pub(super) type Linux6SentSegment = common::SentSegment<Linux6Sent>;

/// The retransmission queue, and its order in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Linux6Scoreboard {
    /// Without SACK, its count of SACKed segments is that of duplicate ACKs.
    pub queue: RetransmissionQueue<Linux6Sent>,
    /// Segments that have left the front of the queue; the count may have wrapped.
    gone: u32,
    /// 32-bit numbers of segments, and of their transmissions, in the order of transmission. Outdated entries
    /// stay until they reach the front.
    by_time: VecDeque<(u32, u32)>,
    /// End of the highest SACKed segment.
    highest_sacked: u64,
}

impl Linux6Scoreboard {
    /// Segments believed to be in the network.
    pub fn in_flight(&self) -> u32 {
        (self.queue.outstanding() + self.queue.retransmitted_out()).saturating_sub(self.left_out())
    }

    /// SACKed or lost.
    pub fn left_out(&self) -> u32 {
        self.queue.sacked_out + self.queue.lost_out()
    }

    /// End of the highest SACKed segment; `una` if none is.
    pub fn highest_sacked(&self, una: u64) -> u64 {
        if self.queue.sacked_out == 0 { una } else { self.highest_sacked }
    }

    /// Adds a segment that is sent for the first time.
    #[inline]
    pub fn push(&mut self, segment: Linux6SentSegment) {
        let number = self.gone.wrapping_add(self.queue.outstanding());
        self.by_time.push_back((number, segment.sent.number));
        self.queue.push(segment);
    }

    /// Removes the first segment if it lies completely below `una`.
    #[inline]
    pub fn pop_acknowledged(&mut self, una: u64) -> Option<Linux6SentSegment> {
        let segment = self.queue.pop_acknowledged(una)?;
        let own = (self.gone, segment.sent.number);
        self.gone = self.gone.wrapping_add(1);
        if self.by_time.front() == Some(&own) {
            self.forget_first();
        } else {
            self.forget_outdated();
        }
        Some(segment)
    }

    /// Marks a segment SACKed and removes its loss mark.
    pub fn mark_sacked(&mut self, index: usize) {
        let end = self.queue.get(index).end;
        self.highest_sacked = if self.queue.sacked_out == 0 { end } else { self.highest_sacked.max(end) };
        self.queue.mark_sacked(index);
    }

    /// Marks a segment or its retransmission as lost. Returns true if that is new.
    pub fn mark_lost(&mut self, index: usize) -> bool {
        let &Linux6SentSegment { sacked, lost, retransmitted, .. } = self.queue.get(index);
        if sacked || (lost && !retransmitted) {
            return false;
        }
        if lost {
            self.queue.retransmission_is_gone(index);
        } else {
            self.queue.mark_lost(index);
        }
        true
    }

    /// Notes a retransmission of a segment. `counted`: the retransmission counts as in flight (that of a
    /// probe does not).
    pub fn note_retransmission(&mut self, index: usize, us: u64, delivered_before: u64, counted: bool) {
        let number = self.queue.get(index).sent.number + 1;
        self.by_time.push_back((self.gone.wrapping_add(index as u32), number));
        self.queue.note_retransmission(index, Linux6Sent { us, delivered_before, number }, counted);
    }

    /// The first segment that is lost and whose retransmission is not in flight, at or after `from`.
    pub fn next_lost(&mut self, from: usize) -> Option<usize> {
        let all_out = self.queue.retransmitted_out() >= self.queue.lost_out();
        if all_out { None } else { self.queue.next_lost(from) }
    }

    /// True if a retransmission is in flight, or the head is one.
    pub fn any_retransmission(&self) -> bool {
        self.queue.retransmitted_out() > 0 || self.queue.head().is_some_and(|head| head.ever_retransmitted)
    }

    /// Visits the segments that are not SACKed, in the order of their latest transmission. `visit` returns
    /// whether to continue, and whether to leave the segment out from now on.
    pub fn visit_by_time(&mut self, mut visit: impl FnMut(&mut Self, usize) -> Visit) {
        self.forget_outdated();
        let mut position = 0;
        while let Some(&entry) = self.by_time.get(position) {
            if let Some(index) = self.place(entry) {
                match visit(self, index) {
                    Visit::Stop => break,
                    Visit::Keep => {}
                    // A number that no segment has; it is dropped when it reaches the front.
                    Visit::Leave => self.by_time[position].1 = 0,
                }
            }
            position += 1;
        }
    }

    fn forget_outdated(&mut self) {
        while self.by_time.front().is_some_and(|&entry| self.place(entry).is_none()) {
            self.forget_first();
        }
    }

    #[inline]
    fn forget_first(&mut self) {
        self.by_time.pop_front();
        ring::trim(&mut self.by_time);
    }

    fn place(&self, (number, transmission): (u32, u32)) -> Option<usize> {
        // Removed segments have numbers far from those of outstanding ones.
        let index = number.wrapping_sub(self.gone);
        if index >= self.queue.outstanding() {
            return None;
        }
        let index = index as usize;
        let segment = self.queue.get(index);
        (segment.sent.number == transmission && !segment.sacked).then_some(index)
    }
}

/// The decision of a visitor of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    Keep,
    Leave,
    Stop,
}
