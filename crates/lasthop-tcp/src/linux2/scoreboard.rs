//! The sent and unacknowledged segments, with Linux' in-flight accounting.
//!
//! A ring in sequence order. The first segment of a SACK block is found by binary search. So outside
//! recovery, the cost of an ACK depends on its reports, not on the window. In recovery, lost segments and
//! candidates for retransmission are searched from the head on.

use lasthop_core::SackBlock;

use crate::clock::Tick;
use crate::common::{self, Episode, RetransmissionQueue};

/// Data about the latest transmission of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linux2Sent {
    pub tick: Tick,
    /// `snd_nxt` when it was last retransmitted: data from there on was sent later. 0 if it never was.
    pub before: u64,
}

impl Linux2Sent {
    /// Whether it was retransmitted, even if F-RTO has cleared the mark.
    fn is_first(self) -> bool {
        self.before == 0
    }
}

pub(super) type Linux2SentSegment = common::SentSegment<Linux2Sent>;

/// The segments that a cumulative ACK removed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acknowledged {
    pub segments: u32,
    /// True if they contained payload or a FIN.
    pub data: bool,
    /// True if one of them had been retransmitted (Karn's rule).
    pub retransmitted: bool,
    /// Tick at which the oldest of them was sent, if none after it was retransmitted.
    pub sent: Option<Tick>,
}

/// The changes by a SACK option.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackOutcome {
    /// True if a segment was reported for the first time, or a retransmission was found to be lost.
    pub news: bool,
    /// True if a block reached beyond the recovery point.
    pub beyond_recovery_point: bool,
    /// Retransmissions that a D-SACK block reported as unnecessary.
    pub duplicates: u32,
    /// Lowest place, counted from the head and from 1, of a segment that arrived later than segments after
    /// it, although it was not retransmitted, or was retransmitted unnecessarily.
    pub latecomer: Option<u32>,
    /// Number of segments from the head to the highest SACKed one before this ACK.
    prior_furthest: u32,
}

impl SackOutcome {
    fn note_latecomer(&mut self, index: usize) {
        let place = index as u32 + 1;
        self.latecomer = Some(self.latecomer.map_or(place, |lowest| lowest.min(place)));
    }
}

/// The retransmission queue, and the information from SACK or duplicate ACKs.
#[derive(Clone, Debug, Default)]
pub(super) struct Linux2Scoreboard {
    pub queue: RetransmissionQueue<Linux2Sent>,
    /// Number of segments from the head to the highest SACKed one, both included; 0 without SACKs.
    furthest_sacked: u32,
    /// Without SACK: number of segments that have left the network according to duplicate ACKs.
    duplicates: u32,
}

impl Linux2Scoreboard {
    /// Segments believed to be in the network: outstanding - SACKed - lost + retransmitted.
    pub fn in_flight(&self) -> u32 {
        let left = self.queue.outstanding() - self.queue.sacked_out - self.queue.lost_out();
        left.saturating_sub(self.duplicates) + self.queue.retransmitted_out()
    }

    /// Number of segments reported by SACK or, without it, by duplicate ACKs.
    pub fn sacked_out(&self) -> u32 {
        self.queue.sacked_out + self.duplicates
    }

    /// Without SACK: a duplicate ACK shows that one more segment has arrived, which cannot be the head.
    pub fn count_duplicate(&mut self) {
        self.duplicates = (self.duplicates + 1).min(self.queue.outstanding().saturating_sub(1));
    }

    /// Without SACK: an ACK of `acked` segments covers a hole and segments that duplicate ACKs had reported.
    pub fn settle_duplicates(&mut self, acked: u32) {
        let behind_head = self.queue.outstanding().saturating_sub(1);
        self.duplicates = self.duplicates.saturating_sub(acked - 1).min(behind_head);
    }

    /// Without SACK: resets the count from duplicate ACKs.
    pub fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Changes of the SACK option of an ACK, before it is processed.
    pub fn outcome(&self) -> SackOutcome {
        SackOutcome { prior_furthest: self.furthest_sacked, ..SackOutcome::default() }
    }

    /// Number of segments from the head to the highest SACKed one, both included; 0 without SACKs.
    pub fn furthest_sacked(&self) -> u32 {
        self.furthest_sacked
    }

    /// Removes everything below `una`.
    pub fn acknowledge(&mut self, una: u64) -> Acknowledged {
        let mut result = Acknowledged::default();
        while let Some(segment) = self.queue.pop_acknowledged(una) {
            result.segments += 1;
            result.data |= !segment.syn;
            if segment.ever_retransmitted {
                result.retransmitted = true;
                result.sent = None;
            } else if result.sent.is_none() {
                result.sent = Some(segment.sent.tick);
            }
            self.furthest_sacked = self.furthest_sacked.saturating_sub(1);
        }
        if self.queue.sacked_out == 0 {
            self.furthest_sacked = 0;
        }
        result
    }

    /// Processes one SACK block. `duplicate`: it is a D-SACK block; `una` is the ACK's number, `episode` the
    /// one whose retransmissions are being counted.
    pub fn apply_block(
        &mut self,
        block: SackBlock,
        una: u64,
        duplicate: bool,
        episode: &Episode,
        outcome: &mut SackOutcome,
    ) {
        for index in self.queue.first_from(block.start)..self.queue.outstanding() as usize {
            let &Linux2SentSegment { end, sent, sacked, ever_retransmitted, .. } = self.queue.get(index);
            if end > block.end {
                break;
            }
            outcome.duplicates += u32::from(duplicate && ever_retransmitted && episode.covers(end));
            if duplicate && sacked && ever_retransmitted {
                outcome.note_latecomer(index);
            }
            if end <= una {
                continue;
            }
            if !sacked {
                if sent.is_first() && index + 1 < outcome.prior_furthest as usize {
                    outcome.note_latecomer(index);
                }
                self.queue.mark_sacked(index);
                outcome.news = true;
                self.furthest_sacked = self.furthest_sacked.max(index as u32 + 1);
            }
            if duplicate {
                self.queue.retransmission_is_gone(index);
            }
        }
    }

    /// Searches for a hole that the ACK number `una` fills although no segment in it was retransmitted.
    /// `sacked_end` is the end of the data that the ACK's SACK blocks report.
    pub fn find_filled_hole(&self, una: u64, sacked_end: u64, outcome: &mut SackOutcome) {
        for index in 0..outcome.prior_furthest.saturating_sub(1) as usize {
            let segment = self.queue.get(index);
            if segment.end > una || segment.seq >= sacked_end {
                return;
            }
            if !segment.sacked && segment.sent.is_first() {
                return outcome.note_latecomer(index);
            }
        }
    }

    /// A retransmission is lost when data sent `reordering` segments after it is SACKed up to
    /// `furthest`. Returns true if one was found.
    pub fn mark_lost_retransmissions(&mut self, furthest: u64, reordering_bytes: u64) -> bool {
        let mut found = false;
        if self.queue.retransmitted_out() == 0 {
            return found;
        }
        for index in 0..self.queue.outstanding() as usize {
            let &Linux2SentSegment { seq, sent, lost, sacked, retransmitted, .. } = self.queue.get(index);
            if seq > furthest {
                break;
            }
            if retransmitted && furthest >= sent.before + reordering_bytes {
                self.queue.retransmission_is_gone(index);
                if !lost && !sacked {
                    self.queue.mark_lost(index);
                    found = true;
                }
            }
        }
        found
    }

    /// Marks those of the first `count` segments as lost that are untagged and end at or below `limit`.
    pub fn mark_lost(&mut self, count: u32, limit: u64) {
        for index in 0..count.min(self.queue.outstanding()) as usize {
            let segment = self.queue.get(index);
            if segment.end > limit {
                break;
            }
            if segment.untagged() {
                self.queue.mark_lost(index);
            }
        }
    }

    /// Marks lost every untagged segment with at least `threshold` SACKed ones above it
    /// (`IsLost`, RFC 3517, section 4).
    pub fn mark_lost_rfc3517(&mut self, threshold: u32) {
        let mut above = 0;
        for index in (0..self.furthest_sacked as usize).rev() {
            let segment = self.queue.get(index);
            if segment.sacked {
                above += 1;
            } else if above >= threshold && segment.untagged() {
                self.queue.mark_lost(index);
            }
        }
    }

    /// Marks lost every untagged segment that was sent more than `rto` ticks before `now`.
    pub fn mark_timed_out(&mut self, now: Tick, rto: Tick) {
        for index in 0..self.queue.outstanding() as usize {
            let segment = self.queue.get(index);
            if segment.untagged() && now - segment.sent.tick > rto {
                self.queue.mark_lost(index);
            }
        }
    }

    /// After a timeout: all segments that SACK has not reported and that end at or below `limit` are lost.
    /// Returns true if there had been retransmissions before.
    pub fn mark_all_lost(&mut self, limit: u64) -> bool {
        let mut retransmitted_before = false;
        self.queue.clear_lost();
        for index in 0..self.queue.outstanding() as usize {
            let &Linux2SentSegment { end, sacked, ever_retransmitted, .. } = self.queue.get(index);
            retransmitted_before |= ever_retransmitted;
            if !sacked && end <= limit {
                self.queue.mark_lost(index);
            }
        }
        retransmitted_before
    }

    /// Index of the first segment at or after `from` that is lost and not yet retransmitted.
    pub fn next_lost(&mut self, from: usize) -> Option<usize> {
        if self.queue.lost_out() == 0 { None } else { self.queue.next_lost(from) }
    }

    /// Index of the first untagged hole below the highest SACK, at or after `from`.
    pub fn next_hole(&self, from: usize) -> Option<usize> {
        (from..self.furthest_sacked as usize).find(|&i| self.queue.get(i).untagged())
    }
}

#[cfg(test)]
mod tests;
