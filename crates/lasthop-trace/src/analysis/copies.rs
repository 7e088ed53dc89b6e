//! The fate of every copy of every segment, and the verdicts that follow.

use crate::arrived::Arrived;
use lasthop_core::{Instant, ring};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyFate {
    Open,
    Arrived,
    Lost,
}

/// One transmission of a stretch of sequence space.
#[derive(Clone, Debug)]
struct Copy {
    serial: u64,
    start: u64,
    sent_at: Instant,
    length: u32,
    fate: CopyFate,
    /// True for a retransmission, which may be in [`Copies::undecided`].
    again: bool,
}

impl Copy {
    fn sequence(&self) -> Range<u64> {
        self.start..self.start + u64::from(self.length)
    }
}

/// An expiry that is genuine unless one of the copies that were outstanding arrives later.
#[derive(Clone, Debug)]
struct OpenTimeout {
    at: Instant,
    head: u64,
}

/// The copies of one sender that can still matter, in the order of sending. A copy is forgotten once
/// its fate is known, its bytes are acknowledged and everything sent before it is forgotten, so the
/// memory is that of a flight, however long the flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    queue: VecDeque<Copy>,
    /// Index after the copy that was settled last: the next one to settle is mostly there.
    next: usize,
    /// Retransmissions in the queue without a verdict, by the start of their sequence and their serial: the
    /// data bytes that no earlier copy is known to have delivered.
    undecided: BTreeMap<(u64, u64), Vec<Range<u64>>>,
    /// No retransmission so far was longer.
    longest: u64,
    /// Data that have arrived beyond `acknowledged`.
    arrived: Arrived,
    acknowledged: u64,
    timeouts: Vec<OpenTimeout>,
    pub(super) unnecessary: u64,
    pub(super) spurious: u64,
}

impl Copies {
    /// Forgets the verdicts so far, and the expiries and retransmissions that wait for one.
    pub(super) fn restart(&mut self) {
        self.undecided.clear();
        self.timeouts.clear();
        (self.unnecessary, self.spurious) = (0, 0);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// A copy was sent; `retransmitted` holds its data bytes if it is a retransmission.
    pub(super) fn sent(
        &mut self,
        now: Instant,
        serial: u64,
        sequence: Range<u64>,
        retransmitted: Option<Range<u64>>,
    ) {
        let (start, length) = (sequence.start, sequence.end - sequence.start);
        let again = retransmitted.is_some();
        if let Some(data) = retransmitted {
            let mut missing = vec![data.clone()];
            subtract(&mut missing, &(0..self.acknowledged));
            self.arrived.within(&data).for_each(|stretch| subtract(&mut missing, stretch));
            if missing.is_empty() {
                self.unnecessary += 1;
            } else {
                self.undecided.insert((start, serial), missing);
                self.longest = self.longest.max(length);
            }
        }
        self.queue.push_back(Copy {
            serial,
            start,
            sent_at: now,
            length: length as u32,
            fate: CopyFate::Open,
            again,
        });
    }

    /// The copy with this serial reached the receiver or was lost. Returns its send time, if remembered.
    pub(super) fn settled(&mut self, serial: u64, arrived: bool) -> Option<Instant> {
        let index = self.find(serial)?;
        self.next = index + 1;
        let copy = &mut self.queue[index];
        copy.fate = if arrived { CopyFate::Arrived } else { CopyFate::Lost };
        let sent_at = copy.sent_at;
        if arrived {
            let sequence = copy.sequence();
            if sequence.end > self.acknowledged {
                self.arrived.add(&sequence);
            }
            self.bring(serial, &sequence);
            if !self.timeouts.is_empty() {
                let before = self.timeouts.len();
                self.timeouts.retain(|timeout| !(sequence.contains(&timeout.head) && sent_at < timeout.at));
                self.spurious += (before - self.timeouts.len()) as u64;
            }
        }
        if index == 0 {
            self.forget();
        }
        Some(sent_at)
    }

    fn find(&self, serial: u64) -> Option<usize> {
        if self.queue.get(self.next).is_some_and(|copy| copy.serial == serial) {
            return Some(self.next);
        }
        self.queue.binary_search_by_key(&serial, |copy| copy.serial).ok()
    }

    pub(super) fn acknowledged(&mut self, ack: u64) {
        if ack > self.acknowledged {
            self.acknowledged = ack;
            self.arrived.forget(ack);
            self.forget();
        }
    }

    /// The retransmission timer expired with `head` the first unacknowledged byte. Copies sent at the same
    /// instant are the timeout's own retransmission, regardless of the order of the events.
    pub(super) fn timeout(&mut self, now: Instant, head: u64) {
        let mut outstanding = false;
        for copy in self.queue.iter().filter(|copy| copy.sequence().contains(&head) && copy.sent_at < now) {
            match copy.fate {
                CopyFate::Arrived => {
                    self.spurious += 1;
                    return;
                }
                CopyFate::Open => outstanding = true,
                CopyFate::Lost => {}
            }
        }
        if outstanding {
            self.timeouts.push(OpenTimeout { at: now, head });
        }
    }

    /// A copy that arrived delivered `sequence`, so retransmissions sent after it need not deliver it.
    fn bring(&mut self, serial: u64, sequence: &Range<u64>) {
        if self.undecided.is_empty() {
            return;
        }
        let first = (sequence.start.saturating_sub(self.longest), 0);
        let overlapping = self.undecided.range_mut(first..(sequence.end, 0));
        let decide = |(key, missing): (&(u64, u64), &mut Vec<Range<u64>>)| {
            if key.1 > serial {
                subtract(missing, sequence);
            }
            missing.is_empty().then_some(*key)
        };
        let unnecessary: Vec<_> = overlapping.filter_map(decide).collect();
        for key in &unnecessary {
            self.undecided.remove(key);
        }
        self.unnecessary += unnecessary.len() as u64;
    }

    fn forget(&mut self) {
        while let Some(first) = self.queue.front() {
            if first.fate == CopyFate::Open || first.sequence().end > self.acknowledged {
                break;
            }
            if first.again {
                // No earlier copy can still arrive: without a verdict yet, it was needed.
                self.undecided.remove(&(first.start, first.serial));
            }
            self.queue.pop_front();
            ring::trim(&mut self.queue);
            self.next = self.next.saturating_sub(1);
        }
        if !self.timeouts.is_empty() {
            let oldest = self.queue.front().map_or(Instant::MAX, |copy| copy.sent_at);
            self.timeouts.retain(|timeout| oldest < timeout.at);
        }
    }
}

/// Removes `what` from a sorted list of disjoint ranges.
fn subtract(ranges: &mut Vec<Range<u64>>, what: &Range<u64>) {
    let mut index = 0;
    while index < ranges.len() {
        let range = ranges[index].clone();
        if what.end <= range.start || range.end <= what.start {
            index += 1;
            continue;
        }
        let left = range.start..what.start.max(range.start);
        let right = what.end.min(range.end)..range.end;
        match (left.is_empty(), right.is_empty()) {
            (true, true) => {
                ranges.remove(index);
            }
            (false, true) => ranges[index] = left,
            (true, false) => ranges[index] = right,
            (false, false) => {
                ranges[index] = left;
                ranges.insert(index + 1, right);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn subtracting_cuts_ends_splits_and_removes() {
        let cut = |what: Range<u64>| {
            let mut ranges = vec![10..20];
            subtract(&mut ranges, &what);
            ranges
        };
        assert_eq!(cut(0..10), [10..20]);
        assert_eq!(cut(20..30), [10..20]);
        assert_eq!(cut(5..15), [15..20]);
        assert_eq!(cut(15..25), [10..15]);
        assert_eq!(cut(12..14), [10..12, 14..20]);
        assert_eq!(cut(10..20), []);
        assert_eq!(cut(0..99), []);
    }
}
