//! The sent and unacknowledged segments, in the order of their numbers and in the order of their latest transmission.

use std::collections::VecDeque;

/// One sent, not yet cumulatively acknowledged segment.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent marks, as in Linux' scoreboard")]
pub struct SentSegment {
    pub seq: u64,
    /// First sequence number after it; counts SYN and FIN.
    pub end: u64,
    pub payload_bytes: u32,
    pub syn: bool,
    pub fin: bool,
    pub push: bool,
    /// Time of the latest transmission, in microseconds.
    pub sent_us: u64,
    /// Segments delivered when it was sent last.
    pub delivered_before: u64,
    /// How often it was sent.
    pub transmissions: u32,
    /// Reported by a SACK block.
    pub sacked: bool,
    /// Believed to be lost.
    pub lost: bool,
    /// A retransmission is believed to be in flight.
    pub retransmitted: bool,
    /// Was retransmitted at some time.
    pub ever_retransmitted: bool,
}

/// The retransmission queue and its counters, in segments.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    queue: VecDeque<SentSegment>,
    /// Segments that have left the front of the queue.
    gone: u64,
    /// Number of a segment and of its transmission, in the order of transmission. Entries that are out of date stay
    /// until they come to the front.
    by_time: VecDeque<(u64, u32)>,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retransmitted_out: u32,
    /// End of the highest SACKed segment.
    highest_sacked: u64,
}

impl Scoreboard {
    /// Segments sent and not cumulatively acknowledged.
    pub fn outstanding(&self) -> u32 {
        self.queue.len() as u32
    }

    /// Segments believed to be in the network.
    pub fn in_flight(&self) -> u32 {
        (self.outstanding() + self.retransmitted_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    /// SACKed or lost.
    pub fn left_out(&self) -> u32 {
        self.sacked_out + self.lost_out
    }

    /// End of the highest SACKed segment; `una` if none is.
    pub fn highest_sacked(&self, una: u64) -> u64 {
        if self.sacked_out == 0 { una } else { self.highest_sacked }
    }

    /// The oldest outstanding segment.
    pub fn head(&self) -> Option<&SentSegment> {
        self.queue.front()
    }

    /// The newest outstanding segment.
    pub fn last(&self) -> Option<&SentSegment> {
        self.queue.back()
    }

    pub fn get(&self, index: usize) -> &SentSegment {
        &self.queue[index]
    }

    /// Adds a segment that is sent for the first time.
    pub fn push(&mut self, segment: SentSegment) {
        self.by_time.push_back((self.gone + self.queue.len() as u64, segment.transmissions));
        self.queue.push_back(segment);
    }

    /// The FIN rides on the newest segment.
    pub fn add_fin(&mut self) {
        if let Some(last) = self.queue.back_mut() {
            last.fin = true;
            last.end += 1;
        }
    }

    /// Takes the first segment away if all of it lies below `una`.
    pub fn pop_acknowledged(&mut self, una: u64) -> Option<SentSegment> {
        let segment = *self.queue.front()?;
        if segment.end > una {
            return None;
        }
        self.queue.pop_front();
        self.gone += 1;
        self.forget_outdated();
        self.retransmitted_out -= u32::from(segment.retransmitted);
        self.lost_out -= u32::from(segment.lost);
        Some(segment)
    }

    /// Indices of the segments that lie whole between `start` and `end`.
    pub fn within(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let first = self.queue.partition_point(|segment| segment.seq < start);
        let last = self.queue.partition_point(|segment| segment.end <= end);
        first..last.max(first)
    }

    /// Marks a segment SACKed; it is lost no more.
    pub fn mark_sacked(&mut self, index: usize) {
        let highest = self.highest_sacked;
        let first = self.sacked_out == 0;
        let segment = &mut self.queue[index];
        if segment.lost {
            if segment.retransmitted {
                segment.retransmitted = false;
                self.retransmitted_out -= 1;
            }
            segment.lost = false;
            self.lost_out -= 1;
        }
        segment.sacked = true;
        self.sacked_out += 1;
        self.highest_sacked = if first { segment.end } else { highest.max(segment.end) };
    }

    /// A D-SACK block says that a retransmission has arrived.
    pub fn retransmission_arrived(&mut self, index: usize) {
        let segment = &mut self.queue[index];
        if segment.retransmitted {
            segment.retransmitted = false;
            self.retransmitted_out -= 1;
        }
    }

    /// Marks a segment lost, or its retransmission. Returns true if that is news.
    pub fn mark_lost(&mut self, index: usize) -> bool {
        let segment = &mut self.queue[index];
        if segment.sacked || (segment.lost && !segment.retransmitted) {
            return false;
        }
        if !segment.lost {
            segment.lost = true;
            self.lost_out += 1;
            return true;
        }
        segment.retransmitted = false;
        self.retransmitted_out -= 1;
        true
    }

    /// Takes back all loss marks.
    pub fn clear_lost(&mut self) {
        for segment in &mut self.queue {
            segment.lost = false;
        }
        self.lost_out = 0;
    }

    /// Notes that a segment is sent again. `counted`: the retransmission is in flight (a probe's is not counted).
    pub fn note_retransmission(&mut self, index: usize, now_us: u64, delivered: u64, counted: bool) {
        let segment = &mut self.queue[index];
        segment.sent_us = now_us;
        segment.delivered_before = delivered;
        segment.ever_retransmitted = true;
        segment.transmissions += 1;
        self.by_time.push_back((self.gone + index as u64, segment.transmissions));
        if counted && !segment.retransmitted {
            segment.retransmitted = true;
            self.retransmitted_out += 1;
        }
    }

    /// The first segment that is lost and whose retransmission is not in flight, at or after `from`.
    pub fn next_lost(&self, from: usize) -> Option<usize> {
        if self.retransmitted_out >= self.lost_out {
            return None;
        }
        (from..self.queue.len()).find(|&i| {
            let segment = &self.queue[i];
            segment.lost && !segment.retransmitted && !segment.sacked
        })
    }

    /// The segments not SACKed, in the order of their latest transmission, as long as `visit` wants more: it says
    /// whether to go on, and whether the segment is to be left out from now on.
    pub fn visit_by_time(&mut self, mut visit: impl FnMut(&mut Self, usize) -> Visit) {
        self.forget_outdated();
        let mut position = 0;
        while let Some(&entry) = self.by_time.get(position) {
            if let Some(index) = self.place(entry) {
                match visit(self, index) {
                    Visit::Stop => break,
                    Visit::Keep => {}
                    // A number that no segment has: dropped when it comes to the front.
                    Visit::Leave => self.by_time[position].1 = 0,
                }
            }
            position += 1;
        }
    }

    fn forget_outdated(&mut self) {
        while self.by_time.front().is_some_and(|&entry| self.place(entry).is_none()) {
            self.by_time.pop_front();
        }
    }

    fn place(&self, (number, transmission): (u64, u32)) -> Option<usize> {
        let index = number.checked_sub(self.gone)? as usize;
        let segment = self.queue.get(index)?;
        (segment.transmissions == transmission && !segment.sacked).then_some(index)
    }
}

/// What a visitor of the segments wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    Keep,
    Leave,
    Stop,
}
