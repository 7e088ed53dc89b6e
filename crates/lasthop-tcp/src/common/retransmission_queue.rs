//! The sent and unacknowledged segments of Linux' stacks, in sequence order, with their marks.

use std::collections::VecDeque;
use std::ops::Range;

use super::stream::NewSegment;

/// One sent, not yet cumulatively acknowledged segment. `T` is what the stack notes of its latest transmission.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent marks, as in Linux' scoreboard")]
pub(crate) struct SentSegment<T> {
    pub seq: u64,
    /// First sequence number after it; counts SYN and FIN.
    pub end: u64,
    pub payload_bytes: u32,
    pub syn: bool,
    pub fin: bool,
    pub push: bool,
    /// The latest transmission.
    pub sent: T,
    /// Reported by a SACK block.
    pub sacked: bool,
    /// Believed to be lost.
    pub lost: bool,
    /// A retransmission is believed to be in flight.
    pub retransmitted: bool,
    /// Was retransmitted at some time.
    pub ever_retransmitted: bool,
}

impl<T> SentSegment<T> {
    /// A segment that is sent for the first time.
    pub fn new(range: Range<u64>, new: NewSegment, syn: bool, sent: T) -> Self {
        Self {
            seq: range.start,
            end: range.end,
            payload_bytes: new.payload_bytes,
            syn,
            fin: new.fin,
            push: new.push,
            sent,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
        }
    }

    /// Neither reported, nor lost, nor retransmitted.
    pub fn untagged(&self) -> bool {
        !self.sacked && !self.lost && !self.retransmitted
    }
}

/// The queue and its counters, in segments.
#[derive(Clone, Debug)]
pub(crate) struct RetransmissionQueue<T> {
    segments: VecDeque<SentSegment<T>>,
    pub sacked_out: u32,
    lost_out: u32,
    retransmitted_out: u32,
}

impl<T> Default for RetransmissionQueue<T> {
    fn default() -> Self {
        Self { segments: VecDeque::new(), sacked_out: 0, lost_out: 0, retransmitted_out: 0 }
    }
}

impl<T: Copy> RetransmissionQueue<T> {
    /// Segments sent and not cumulatively acknowledged.
    pub fn outstanding(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Segments marked lost.
    pub fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// Retransmissions in flight.
    pub fn retransmitted_out(&self) -> u32 {
        self.retransmitted_out
    }

    /// True if the counters equal a recount. For debug assertions.
    pub fn is_balanced(&self) -> bool {
        let count =
            |mark: fn(&SentSegment<T>) -> bool| self.segments.iter().filter(|s| mark(s)).count() as u32;
        let counted = (count(|s| s.sacked), count(|s| s.lost), count(|s| s.retransmitted));
        counted == (self.sacked_out, self.lost_out, self.retransmitted_out)
            && count(|s| s.sacked && s.lost) == 0
    }

    /// The oldest outstanding segment.
    pub fn head(&self) -> Option<&SentSegment<T>> {
        self.segments.front()
    }

    /// The newest outstanding segment.
    pub fn last(&self) -> Option<&SentSegment<T>> {
        self.segments.back()
    }

    /// Outstanding segment number `index` from the head.
    pub fn get(&self, index: usize) -> &SentSegment<T> {
        &self.segments[index]
    }

    /// Index of the first segment that begins at `seq` or after it.
    pub fn first_from(&self, seq: u64) -> usize {
        self.segments.partition_point(|segment| segment.seq < seq)
    }

    /// Indices of the segments that lie whole between `start` and `end`.
    pub fn within(&self, start: u64, end: u64) -> Range<usize> {
        let first = self.first_from(start);
        let last = self.segments.partition_point(|segment| segment.end <= end);
        first..last.max(first)
    }

    /// Adds a segment that was just sent for the first time.
    pub fn push(&mut self, segment: SentSegment<T>) {
        self.segments.push_back(segment);
    }

    /// The FIN rides on the newest segment.
    pub fn add_fin(&mut self) {
        if let Some(last) = self.segments.back_mut() {
            last.fin = true;
            last.end += 1;
        }
    }

    /// Takes the first segment away if all of it lies below `una`.
    pub fn pop_acknowledged(&mut self, una: u64) -> Option<SentSegment<T>> {
        let segment = *self.segments.front()?;
        if segment.end > una {
            return None;
        }
        self.segments.pop_front();
        self.retransmitted_out -= u32::from(segment.retransmitted);
        self.sacked_out -= u32::from(segment.sacked);
        self.lost_out -= u32::from(segment.lost);
        Some(segment)
    }

    /// Marks a segment SACKed; it is lost no more. Its retransmission cannot be told from the original: both are
    /// settled.
    pub fn mark_sacked(&mut self, index: usize) {
        if self.segments[index].lost {
            self.retransmission_is_gone(index);
            self.segments[index].lost = false;
            self.lost_out -= 1;
        }
        self.segments[index].sacked = true;
        self.sacked_out += 1;
    }

    /// Marks a segment lost that neither is nor was SACKed.
    pub fn mark_lost(&mut self, index: usize) {
        self.segments[index].lost = true;
        self.lost_out += 1;
    }

    /// No retransmission of this segment is in flight: it has arrived, or is lost itself.
    pub fn retransmission_is_gone(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        self.retransmitted_out -= u32::from(std::mem::take(&mut segment.retransmitted));
    }

    /// Takes back all loss marks.
    pub fn clear_lost(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
        }
        self.lost_out = 0;
    }

    /// No retransmission is in flight any more. `forget`: nor is it remembered that there were any.
    pub fn clear_retransmitted(&mut self, forget: bool) {
        for segment in &mut self.segments {
            segment.retransmitted = false;
            segment.ever_retransmitted &= !forget;
        }
        self.retransmitted_out = 0;
    }

    /// Notes that a segment is sent again. `counted`: the retransmission is in flight (a probe's is not counted).
    pub fn note_retransmission(&mut self, index: usize, sent: T, counted: bool) {
        let segment = &mut self.segments[index];
        segment.sent = sent;
        segment.ever_retransmitted = true;
        if counted && !segment.retransmitted {
            segment.retransmitted = true;
            self.retransmitted_out += 1;
        }
    }

    /// Index of the first segment at or after `from` that is lost and whose retransmission is not in flight.
    pub fn next_lost(&self, from: usize) -> Option<usize> {
        (from..self.segments.len()).find(|&i| self.segments[i].lost && !self.segments[i].retransmitted)
    }
}
