//! Processing of SACK and D-SACK blocks (RFC 2018, RFC 2883).

use std::ops::Range;

use lasthop_core::{SackBlock, Segment};

use super::Linux6Sender;
use super::facts::{AckFacts, Samples};
use crate::common::{State, is_dsack};

impl Linux6Sender {
    /// Processes the SACK option of an ACK.
    pub(super) fn apply_sack(
        &mut self,
        now_us: u64,
        segment: &Segment,
        prior_una: u64,
        facts: &mut AckFacts,
        samples: &mut Samples,
    ) {
        let Some(&first) = segment.sack.as_slice().first().filter(|_| self.config.sack) else { return };
        let duplicate = is_dsack(&segment.sack, segment.ack) && self.note_dsack(first, prior_una, facts);
        let duplicate = duplicate.then_some(first);
        let mut lowest = self.queue.nxt;
        // In the order of sequence numbers, so that RACK sees the newest arrival last
        // (tcp_sacktag_write_queue).
        let mut walked = 0;
        for block in segment.sack.in_order().as_slice() {
            let valid = block.start < block.end && block.end <= self.queue.nxt && block.end > prior_una;
            if valid {
                let rest = SackBlock { start: block.start.max(walked), ..*block };
                self.apply_block(now_us, rest, duplicate, facts, samples, &mut lowest);
                walked = walked.max(block.end);
            }
        }
        if self.recovery.state != State::Loss || self.episode.marker.is_some() {
            self.note_reordering(lowest);
        }
    }

    /// A duplicate that the receiver reports. Returns false if it cannot be caused by this sender.
    fn note_dsack(&mut self, block: SackBlock, prior_una: u64, facts: &mut AckFacts) -> bool {
        let Some(length) = block.end.checked_sub(block.start).filter(|&length| length > 0) else {
            return false;
        };
        let mss = u64::from(self.queue.mss);
        let segments = length.div_ceil(mss);
        let of_probe = length <= mss && self.probe.ends_at(block.end);
        self.counts.dsack_duplicates += segments;
        facts.dsack_of_probe |= of_probe;
        if self.counts.dsack_duplicates > self.counts.retransmissions {
            return false;
        }
        // Without reordering, and for probes, RACK is not the cause.
        self.rack.dsack_seen |= self.recovery.reordering_seen && !of_probe;
        facts.dsack = true;
        self.counts.delivered += segments;
        let open = &mut self.episode.retransmissions;
        if self.episode.marker.is_some_and(|marker| block.end > marker) && *open > 0 && block.end <= prior_una
        {
            *open = (*open - segments.cast_signed()).max(0);
        }
        true
    }

    fn apply_block(
        &mut self,
        now_us: u64,
        block: SackBlock,
        duplicate: Option<SackBlock>,
        facts: &mut AckFacts,
        samples: &mut Samples,
        lowest: &mut u64,
    ) {
        let within = self.board.queue.within(block.start, block.end);
        let duplicates = duplicate.map_or(0..0, |d| self.board.queue.within(d.start, d.end));
        let mut index = self.next_told(within.start, &duplicates);
        while index < within.end {
            let duplicate = duplicates.contains(&index);
            self.apply_to_segment(now_us, index, duplicate, facts, samples, lowest);
            index = self.next_told(index + 1, &duplicates);
        }
    }

    /// The first segment at or after `index` for which a block has information: it is not SACKed yet, or is a
    /// duplicate.
    fn next_told(&mut self, index: usize, duplicates: &Range<usize>) -> usize {
        if duplicates.contains(&index) {
            return index;
        }
        let unsacked = self.board.queue.next_unsacked(index);
        let duplicate = !duplicates.is_empty() && (index..unsacked).contains(&duplicates.start);
        if duplicate { duplicates.start } else { unsacked }
    }

    fn apply_to_segment(
        &mut self,
        now_us: u64,
        index: usize,
        duplicate: bool,
        facts: &mut AckFacts,
        samples: &mut Samples,
        lowest: &mut u64,
    ) {
        let segment = *self.board.queue.get(index);
        if duplicate && segment.ever_retransmitted {
            if self.episode.covers(segment.end) && self.episode.retransmissions > 0 {
                self.episode.retransmissions -= 1;
            }
            if segment.sacked {
                *lowest = segment.seq.min(*lowest);
            }
        }
        if segment.end <= self.queue.una {
            return;
        }
        if !segment.sacked {
            self.rack.advance(now_us, &segment, self.rtt.least_us());
            samples.note_delivered(&segment);
            if !segment.ever_retransmitted {
                if segment.seq < self.board.highest_sacked(self.queue.una) {
                    *lowest = segment.seq.min(*lowest);
                }
                facts.original_acked |= segment.end <= self.recovery.point;
                samples.note_sacked(segment.sent.us);
            }
            self.board.mark_sacked(index);
            self.rates.on_sacked(index);
            facts.data_sacked = true;
            self.counts.delivered += 1;
        }
        if duplicate {
            self.board.queue.retransmission_is_gone(index);
        }
    }
}
