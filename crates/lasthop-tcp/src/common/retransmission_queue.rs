//! The sent and unacknowledged segments of Linux' stacks, in sequence order, with their marks.

use std::collections::VecDeque;
use std::ops::Range;

use lasthop_core::ring;

use super::stream::NewSegment;

/// One segment that was sent and is not yet cumulatively acknowledged. `T` is the stack's data about its
/// latest transmission.
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
    pub sent: T,
    /// Reported by a SACK block.
    pub sacked: bool,
    /// Believed to be lost.
    pub lost: bool,
    /// A retransmission is believed to be in flight.
    pub retransmitted: bool,
    pub ever_retransmitted: bool,
    /// If it is SACKed: the number of segments from here on that are known to be SACKed.
    sacked_run: u32,
}

impl<T> SentSegment<T> {
    /// A segment that is sent for the first time.
    #[inline]
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
            sacked_run: 0,
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
    /// No segment before this index is lost without a retransmission in flight.
    first_lost: usize,
}

impl<T> Default for RetransmissionQueue<T> {
    fn default() -> Self {
        Self { segments: VecDeque::new(), sacked_out: 0, lost_out: 0, retransmitted_out: 0, first_lost: 0 }
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

    /// Its counts, by their names in Linux' `tcp_info`.
    pub fn info(&self) -> [(&'static str, u64); 4] {
        [
            ("tcpi_unacked", self.outstanding().into()),
            ("tcpi_sacked", self.sacked_out.into()),
            ("tcpi_lost", self.lost_out.into()),
            ("tcpi_retrans", self.retransmitted_out.into()),
        ]
    }

    /// True if the counters equal a recount. For debug assertions.
    pub fn is_balanced(&self) -> bool {
        let count =
            |mark: fn(&SentSegment<T>) -> bool| self.segments.iter().filter(|s| mark(s)).count() as u32;
        let counted = (count(|s| s.sacked), count(|s| s.lost), count(|s| s.retransmitted));
        counted == (self.sacked_out, self.lost_out, self.retransmitted_out)
            && count(|s| s.sacked && s.lost) == 0
    }

    pub fn head(&self) -> Option<&SentSegment<T>> {
        self.segments.front()
    }

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

    /// Index of the first segment at or after `index` that is not SACKed. Runs of SACKed segments are skipped
    /// and merged into one run, so that the cost of an ACK depends only on its new information, not on the
    /// window.
    pub fn next_unsacked(&mut self, index: usize) -> usize {
        let mut found = index;
        while let Some(segment) = self.segments.get(found).filter(|segment| segment.sacked) {
            found += segment.sacked_run as usize;
        }
        let mut at = index;
        while at < found {
            let run = std::mem::replace(&mut self.segments[at].sacked_run, (found - at) as u32);
            at += run as usize;
        }
        found
    }

    /// Adds a segment that was just sent for the first time.
    #[inline]
    pub fn push(&mut self, segment: SentSegment<T>) {
        self.segments.push_back(segment);
    }

    /// Adds the FIN to the newest segment.
    pub fn add_fin(&mut self) {
        if let Some(last) = self.segments.back_mut() {
            last.fin = true;
            last.end += 1;
        }
    }

    /// Removes the first segment if it lies completely below `una`.
    #[inline]
    pub fn pop_acknowledged(&mut self, una: u64) -> Option<SentSegment<T>> {
        if self.segments.front()?.end > una {
            return None;
        }
        let segment = self.segments.pop_front()?;
        ring::trim(&mut self.segments);
        self.first_lost = self.first_lost.saturating_sub(1);
        self.retransmitted_out -= u32::from(segment.retransmitted);
        self.sacked_out -= u32::from(segment.sacked);
        self.lost_out -= u32::from(segment.lost);
        Some(segment)
    }

    /// Marks a segment SACKed and removes its loss mark. The retransmission cannot be distinguished from the
    /// original, so both are settled.
    pub fn mark_sacked(&mut self, index: usize) {
        if self.segments[index].lost {
            self.retransmission_is_gone(index);
            self.segments[index].lost = false;
            self.lost_out -= 1;
        }
        self.segments[index].sacked = true;
        self.segments[index].sacked_run = 1;
        self.sacked_out += 1;
    }

    /// Marks a segment lost that neither is nor was SACKed.
    pub fn mark_lost(&mut self, index: usize) {
        self.segments[index].lost = true;
        self.lost_out += 1;
        self.first_lost = self.first_lost.min(index);
    }

    /// Notes that no retransmission of this segment is in flight: it has arrived, or is lost itself.
    pub fn retransmission_is_gone(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        self.retransmitted_out -= u32::from(std::mem::take(&mut segment.retransmitted));
        self.first_lost = self.first_lost.min(index);
    }

    pub fn clear_lost(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
        }
        self.lost_out = 0;
    }

    /// Notes that no retransmission is in flight any more. `forget`: also forgets that there were any.
    pub fn clear_retransmitted(&mut self, forget: bool) {
        for segment in &mut self.segments {
            segment.retransmitted = false;
            segment.ever_retransmitted &= !forget;
        }
        self.retransmitted_out = 0;
        self.first_lost = 0;
    }

    /// Notes a retransmission of a segment. `counted`: the retransmission counts as in flight (that of a
    /// probe does not).
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
    pub fn next_lost(&mut self, from: usize) -> Option<usize> {
        let start = from.max(self.first_lost);
        let found =
            (start..self.segments.len()).find(|&i| self.segments[i].lost && !self.segments[i].retransmitted);
        if from <= self.first_lost {
            self.first_lost = found.unwrap_or(self.segments.len());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEGMENTS: u64 = 40;

    fn queue() -> RetransmissionQueue<()> {
        let mut queue = RetransmissionQueue::default();
        for number in 0..SEGMENTS {
            let new = NewSegment { payload_bytes: 10, fin: false, push: false, ends_write: false };
            queue.push(SentSegment::new(number * 10..number * 10 + 10, new, false, ()));
        }
        queue
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Sack(usize),
        Lose(usize),
        Retransmit(usize),
        RetransmissionGone(usize),
        Acknowledge,
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = 0..SEGMENTS as usize;
        prop_oneof![
            4 => index.clone().prop_map(Step::Sack),
            3 => index.clone().prop_map(Step::Lose),
            3 => index.clone().prop_map(Step::Retransmit),
            1 => index.prop_map(Step::RetransmissionGone),
            1 => Just(Step::Acknowledge),
        ]
    }

    proptest! {
        #[test]
        fn leaps_lead_where_steps_would(
            steps in prop::collection::vec(step(), 0..200), from in 0..SEGMENTS as usize,
        ) {
            let mut queue = queue();
            for step in steps {
                let len = queue.outstanding() as usize;
                match step {
                    Step::Sack(i) if i < len && !queue.get(i).sacked => queue.mark_sacked(i),
                    Step::Lose(i) if i < len && !queue.get(i).sacked && !queue.get(i).lost => {
                        queue.mark_lost(i);
                    }
                    Step::Retransmit(i) if queue.next_lost(i).is_some() => {
                        let index = queue.next_lost(i).expect("just seen");
                        queue.note_retransmission(index, (), true);
                    }
                    Step::RetransmissionGone(i) if i < len => queue.retransmission_is_gone(i),
                    Step::Acknowledge => {
                        let una = queue.head().map_or(0, |head| head.end);
                        queue.pop_acknowledged(una);
                    }
                    _ => {}
                }
                let len = queue.outstanding() as usize;
                let from = from.min(len);
                let unsacked = (from..len).find(|&i| !queue.get(i).sacked).unwrap_or(len);
                prop_assert_eq!(queue.next_unsacked(from), unsacked);
                let lost = (from..len).find(|&i| queue.get(i).lost && !queue.get(i).retransmitted);
                prop_assert_eq!(queue.next_lost(from), lost);
                prop_assert!(queue.is_balanced());
            }
        }
    }
}
