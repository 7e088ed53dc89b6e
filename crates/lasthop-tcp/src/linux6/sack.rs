//! What SACK and D-SACK blocks say (RFC 2018, RFC 2883).

use super::{AckFacts, Samples, Sender};
use crate::common::State;
use lasthop_core::{SackBlock, Segment};

impl Sender {
    /// Takes in the SACK option of an ACK.
    pub(super) fn apply_sack(
        &mut self,
        now_us: u64,
        segment: &Segment,
        prior_una: u64,
        facts: &mut AckFacts,
        samples: &mut Samples,
    ) {
        let blocks = segment.sack.as_slice();
        if blocks.is_empty() || !self.config.sack {
            return;
        }
        let duplicate = is_dsack(blocks, segment.ack) && self.note_dsack(blocks[0], prior_una, facts);
        let duplicate = duplicate.then_some(blocks[0]);
        let mut lowest = self.nxt;
        // In the order of sequence numbers, so that the newest of what arrived is what RACK sees last
        // (tcp_sacktag_write_queue).
        let mut walked = 0;
        for block in segment.sack.in_order().as_slice() {
            let valid = block.start < block.end && block.end <= self.nxt && block.end > prior_una;
            if valid {
                let rest = SackBlock { start: block.start.max(walked), ..*block };
                self.apply_block(now_us, rest, duplicate, facts, samples, &mut lowest);
                walked = walked.max(block.end);
            }
        }
        if self.state != State::Loss || self.undo_marker.is_some() {
            self.note_reordering(lowest);
        }
    }

    /// A duplicate that the receiver reports. Returns false if it can be none of ours.
    fn note_dsack(&mut self, block: SackBlock, prior_una: u64, facts: &mut AckFacts) -> bool {
        let Some(length) = block.end.checked_sub(block.start).filter(|&length| length > 0) else {
            return false;
        };
        let mss = u64::from(self.mss);
        let segments = length.div_ceil(mss);
        let of_probe = length <= mss && self.probe_end == Some(block.end);
        self.dsack_duplicates += segments;
        facts.dsack_of_probe |= of_probe;
        if self.dsack_duplicates > self.total_retransmissions {
            return false;
        }
        // Without reordering, and for probes, RACK is not to blame.
        self.rack.dsack_seen |= self.reordering_seen && !of_probe;
        facts.dsack = true;
        self.delivered += segments;
        let counted = self.undo_marker.is_some_and(|marker| block.end > marker);
        if counted && self.undo_retransmissions > 0 && block.end <= prior_una {
            self.undo_retransmissions = (self.undo_retransmissions - segments.cast_signed()).max(0);
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
        for index in self.board.within(block.start, block.end) {
            let segment = *self.board.get(index);
            let duplicate = duplicate.is_some_and(|d| d.start <= segment.seq && segment.end <= d.end);
            if duplicate && segment.ever_retransmitted {
                let counted = self.undo_marker.is_some_and(|marker| segment.end > marker);
                if counted && self.undo_retransmissions > 0 {
                    self.undo_retransmissions -= 1;
                }
                if segment.sacked {
                    *lowest = segment.seq.min(*lowest);
                }
            }
            if segment.end <= self.una {
                continue;
            }
            if !segment.sacked {
                self.rack.advance(now_us, &segment, self.rtt.least_us());
                samples.note_delivered(&segment);
                if !segment.ever_retransmitted {
                    if segment.seq < self.board.highest_sacked(self.una) {
                        *lowest = segment.seq.min(*lowest);
                    }
                    facts.original_acked |= segment.end <= self.recovery_point;
                    let first = samples.sacked.map_or(segment.sent_us, |(first, _)| first);
                    samples.sacked = Some((first, segment.sent_us));
                }
                self.board.mark_sacked(index);
                facts.data_sacked = true;
                self.delivered += 1;
            }
            if duplicate {
                self.board.retransmission_arrived(index);
            }
        }
    }
}

/// A first block below the ACK, or inside the second, is a D-SACK (RFC 2883, section 4).
fn is_dsack(blocks: &[SackBlock], ack: u64) -> bool {
    let first = blocks[0];
    first.start < ack || blocks.get(1).is_some_and(|b| first.start >= b.start && first.end <= b.end)
}
