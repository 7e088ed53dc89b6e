//! The sent and unacknowledged segments, with Linux' in-flight accounting.
//!
//! A ring in sequence order. A SACK block finds its first segment by binary search, so outside recovery
//! the cost of an ACK follows what it reports, not the window; in recovery, what is lost and what may be
//! sent again is looked for from the head on.

use std::collections::VecDeque;

use lasthop_core::SackBlock;

use crate::clock::Tick;

/// One sent, not yet cumulatively acknowledged segment.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent marks, as in Linux' scoreboard")]
pub struct SentSegment {
    /// First sequence number.
    pub seq: u64,
    /// First sequence number after it; counts SYN and FIN.
    pub end: u64,
    /// Payload in bytes.
    pub payload_bytes: u32,
    /// Carries the SYN.
    pub syn: bool,
    /// Carries the FIN.
    pub fin: bool,
    /// Tick of the latest transmission.
    pub sent: Tick,
    /// `snd_nxt` when it was last retransmitted: data from there on was sent later.
    pub retransmitted_before: u64,
    /// Reported by a SACK block.
    pub sacked: bool,
    /// Believed to be lost.
    pub lost: bool,
    /// A retransmission is believed to be in flight.
    pub retransmitted: bool,
    /// Was retransmitted at some time.
    pub ever_retransmitted: bool,
}

impl SentSegment {
    /// Neither reported, nor lost, nor retransmitted.
    fn untagged(&self) -> bool {
        !self.sacked && !self.lost && !self.retransmitted
    }
}

/// What a cumulative ACK removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acknowledged {
    /// Segments removed.
    pub segments: u32,
    /// Payload or FIN was among them.
    pub data: bool,
    /// One of them had been retransmitted (Karn's rule).
    pub retransmitted: bool,
    /// Tick at which the oldest of them was sent, if none after it was retransmitted.
    pub sent: Option<Tick>,
}

/// What a SACK option changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackOutcome {
    /// A segment was reported for the first time, or a retransmission was found lost.
    pub news: bool,
    /// A block reached beyond the recovery point.
    pub beyond_recovery_point: bool,
    /// Retransmissions that a D-SACK block reported as unnecessary.
    pub duplicates: u32,
}

/// The retransmission queue and its counters, in segments.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    queue: VecDeque<SentSegment>,
    sacked_out: u32,
    lost_out: u32,
    retransmitted_out: u32,
    /// Segments from the head to the furthest SACKed one, both counted.
    furthest_sacked: u32,
    /// Without SACK: segments that duplicate ACKs show to have left the network.
    duplicates: u32,
}

impl Scoreboard {
    /// Segments sent and not cumulatively acknowledged.
    pub fn outstanding(&self) -> u32 {
        self.queue.len() as u32
    }

    /// Segments believed to be in the network: outstanding - SACKed - lost + retransmitted.
    pub fn in_flight(&self) -> u32 {
        let left = self.outstanding() - self.sacked_out - self.lost_out;
        left.saturating_sub(self.duplicates) + self.retransmitted_out
    }

    /// True if the counters equal a recount: what in-flight is computed from. For debug assertions.
    pub fn is_balanced(&self) -> bool {
        let count = |mark: fn(&SentSegment) -> bool| self.queue.iter().filter(|s| mark(s)).count() as u32;
        let counted = (count(|s| s.sacked), count(|s| s.lost), count(|s| s.retransmitted));
        counted == (self.sacked_out, self.lost_out, self.retransmitted_out)
            && count(|s| s.sacked && s.lost) == 0
    }

    /// Segments reported by SACK, or without it by duplicate ACKs.
    pub fn sacked_out(&self) -> u32 {
        self.sacked_out + self.duplicates
    }

    /// Without SACK: a duplicate ACK shows that one segment more has arrived. The head cannot be among them.
    pub fn count_duplicate(&mut self) {
        self.duplicates = (self.duplicates + 1).min(self.outstanding().saturating_sub(1));
    }

    /// Without SACK: an ACK of `acked` segments covers a hole and segments that duplicate ACKs had reported.
    pub fn settle_duplicates(&mut self, acked: u32) {
        self.duplicates = self.duplicates.saturating_sub(acked - 1).min(self.outstanding().saturating_sub(1));
    }

    /// Without SACK: what duplicate ACKs said is settled or void.
    pub fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Segments marked lost.
    pub fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// Retransmissions in flight.
    pub fn retransmitted_out(&self) -> u32 {
        self.retransmitted_out
    }

    /// Segments from the head to the furthest SACKed one, both counted; 0 without SACKs.
    pub fn furthest_sacked(&self) -> u32 {
        self.furthest_sacked
    }

    /// The oldest outstanding segment.
    pub fn head(&self) -> Option<&SentSegment> {
        self.queue.front()
    }

    /// Outstanding segment number `index` from the head.
    pub fn get(&self, index: usize) -> &SentSegment {
        &self.queue[index]
    }

    /// Adds a segment that was just sent for the first time.
    pub fn push(&mut self, segment: SentSegment) {
        self.queue.push_back(segment);
    }

    /// The FIN rides on the newest segment.
    pub fn add_fin(&mut self) {
        if let Some(last) = self.queue.back_mut() {
            last.fin = true;
            last.end += 1;
        }
    }

    /// Removes everything below `una`.
    pub fn acknowledge(&mut self, una: u64) -> Acknowledged {
        let mut result = Acknowledged::default();
        while let Some(&segment) = self.queue.front() {
            if segment.end > una {
                break;
            }
            self.queue.pop_front();
            result.segments += 1;
            result.data |= !segment.syn;
            if segment.ever_retransmitted {
                result.retransmitted = true;
                result.sent = None;
            } else if result.sent.is_none() {
                result.sent = Some(segment.sent);
            }
            self.retransmitted_out -= u32::from(segment.retransmitted);
            self.sacked_out -= u32::from(segment.sacked);
            self.lost_out -= u32::from(segment.lost);
            self.furthest_sacked = self.furthest_sacked.saturating_sub(1);
        }
        if self.sacked_out == 0 {
            self.furthest_sacked = 0;
        }
        result
    }

    /// Takes in one SACK block. `duplicate`: it is a D-SACK block; `una` is the ACK's number,
    /// `undo_marker` the start of the episode whose retransmissions are being counted.
    pub fn apply_block(
        &mut self,
        block: SackBlock,
        una: u64,
        duplicate: bool,
        undo_marker: Option<u64>,
        outcome: &mut SackOutcome,
    ) {
        let first = self.queue.partition_point(|segment| segment.seq < block.start);
        for index in first..self.queue.len() {
            let segment = &mut self.queue[index];
            if segment.end > block.end {
                break;
            }
            let counted = undo_marker.is_some_and(|marker| segment.end > marker);
            outcome.duplicates += u32::from(duplicate && segment.ever_retransmitted && counted);
            if segment.end <= una {
                continue;
            }
            if !segment.sacked {
                if segment.lost {
                    // Its retransmission cannot be told from the original: both are settled.
                    self.retransmitted_out -= u32::from(segment.retransmitted);
                    segment.retransmitted = false;
                    segment.lost = false;
                    self.lost_out -= 1;
                }
                segment.sacked = true;
                self.sacked_out += 1;
                outcome.news = true;
                self.furthest_sacked = self.furthest_sacked.max(index as u32 + 1);
            }
            if duplicate && segment.retransmitted {
                segment.retransmitted = false;
                self.retransmitted_out -= 1;
            }
        }
    }

    /// A retransmission is lost when data sent `reordering` segments after it is SACKed up to
    /// `furthest`. Returns true if one was found.
    pub fn mark_lost_retransmissions(&mut self, furthest: u64, reordering_bytes: u64) -> bool {
        let mut found = false;
        if self.retransmitted_out == 0 {
            return found;
        }
        for segment in &mut self.queue {
            if segment.seq > furthest {
                break;
            }
            if segment.retransmitted && furthest >= segment.retransmitted_before + reordering_bytes {
                segment.retransmitted = false;
                self.retransmitted_out -= 1;
                if !segment.lost && !segment.sacked {
                    segment.lost = true;
                    self.lost_out += 1;
                    found = true;
                }
            }
        }
        found
    }

    /// Marks the first `count` segments lost, those that are untagged and end at or below `limit`.
    pub fn mark_lost(&mut self, count: u32, limit: u64) {
        for segment in self.queue.iter_mut().take(count as usize) {
            if segment.end > limit {
                break;
            }
            if segment.untagged() {
                segment.lost = true;
                self.lost_out += 1;
            }
        }
    }

    /// Marks lost every untagged segment with at least `threshold` SACKed ones above it
    /// (`IsLost`, RFC 3517, section 4).
    pub fn mark_lost_rfc3517(&mut self, threshold: u32) {
        let mut above = 0;
        for index in (0..self.furthest_sacked as usize).rev() {
            let segment = &mut self.queue[index];
            if segment.sacked {
                above += 1;
            } else if above >= threshold && segment.untagged() {
                segment.lost = true;
                self.lost_out += 1;
            }
        }
    }

    /// Marks lost every untagged segment that was sent more than `rto` ticks before `now`.
    pub fn mark_timed_out(&mut self, now: Tick, rto: Tick) {
        for segment in &mut self.queue {
            if segment.untagged() && now - segment.sent > rto {
                segment.lost = true;
                self.lost_out += 1;
            }
        }
    }

    /// After a timeout: everything that no SACK reported and that ends at or below `limit` is lost.
    /// Returns true if anything had been retransmitted before.
    pub fn mark_all_lost(&mut self, limit: u64) -> bool {
        let mut retransmitted_before = false;
        self.lost_out = 0;
        for segment in &mut self.queue {
            retransmitted_before |= segment.ever_retransmitted;
            segment.lost = !segment.sacked && segment.end <= limit;
            self.lost_out += u32::from(segment.lost);
        }
        retransmitted_before
    }

    /// Takes back all loss marks.
    pub fn clear_lost(&mut self) {
        for segment in &mut self.queue {
            segment.lost = false;
        }
        self.lost_out = 0;
    }

    /// No retransmission is in flight any more: a timeout says so.
    pub fn retransmissions_are_gone(&mut self) {
        for segment in &mut self.queue {
            segment.retransmitted = false;
        }
        self.retransmitted_out = 0;
    }

    /// Forgets which segments were ever retransmitted, so that F-RTO starts with clean books.
    pub fn forget_retransmissions(&mut self) {
        self.retransmissions_are_gone();
        for segment in &mut self.queue {
            segment.ever_retransmitted = false;
        }
    }

    /// Notes a retransmission of segment `index` at `now`, with `nxt` the next new byte.
    pub fn note_retransmission(&mut self, index: usize, now: Tick, nxt: u64) {
        let segment = &mut self.queue[index];
        segment.sent = now;
        segment.retransmitted_before = nxt;
        segment.ever_retransmitted = true;
        if !segment.retransmitted {
            segment.retransmitted = true;
            self.retransmitted_out += 1;
        }
    }

    /// Index of the first segment at or after `from` that is lost and not yet retransmitted.
    pub fn next_lost(&self, from: usize) -> Option<usize> {
        if self.lost_out == 0 {
            return None;
        }
        (from..self.queue.len()).find(|&i| self.queue[i].lost && !self.queue[i].retransmitted)
    }

    /// Index of the first untagged hole below the furthest SACK, at or after `from`.
    pub fn next_hole(&self, from: usize) -> Option<usize> {
        (from..self.furthest_sacked as usize).find(|&i| self.queue[i].untagged())
    }
}

#[cfg(test)]
mod tests;
