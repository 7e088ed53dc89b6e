//! The parts of a stream that have arrived.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges of a stream that have arrived, in order and disjoint.
///
/// Data arrive in order, fill the first hole, or leave a new hole: a ring buffer makes room at either end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived(VecDeque<Range<u64>>);

impl Arrived {
    /// Adds a range. Returns how many of its bytes are new.
    pub(crate) fn add(&mut self, stretch: &Range<u64>) -> u64 {
        let length = stretch.end - stretch.start;
        match self.0.back_mut() {
            Some(last) if (last.start..=last.end).contains(&stretch.start) => {
                let fresh = stretch.end.saturating_sub(last.end);
                last.end += fresh;
                return fresh;
            }
            Some(last) if stretch.start < last.start => {}
            _ => {
                self.0.push_back(stretch.clone());
                return length;
            }
        }
        let first = self.0.partition_point(|range| range.end < stretch.start);
        let after = self.0.partition_point(|range| range.start <= stretch.end);
        if first == after {
            self.0.insert(first, stretch.clone());
            return length;
        }
        let common = |range: &Range<u64>| range.end.min(stretch.end) - range.start.max(stretch.start);
        let range: u64 = self.0.range(first..after).map(common).sum();
        let (start, end) = (self.0[first].start, self.0[after - 1].end);
        self.0[first] = start.min(stretch.start)..end.max(stretch.end);
        self.0.drain(first + 1..after);
        length - range
    }

    pub(crate) fn within(&self, stretch: &Range<u64>) -> impl Iterator<Item = &Range<u64>> {
        let first = self.0.partition_point(|range| range.end <= stretch.start);
        self.0.range(first..).take_while(|range| range.start < stretch.end)
    }

    /// Forgets the ranges that end at or before `below`.
    pub(crate) fn forget(&mut self, below: u64) {
        while self.0.front().is_some_and(|range| range.end <= below) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn bytes_count_once_in_whatever_order_they_arrive() {
        let mut arrived = Arrived::default();
        let fresh: Vec<u64> =
            [0..10, 20..30, 5..25, 0..40, 50..60, 40..50].iter().map(|range| arrived.add(range)).collect();
        assert_eq!(fresh, [10, 10, 10, 10, 10, 10]);
        assert_eq!(arrived.0, [0..60]);
    }

    proptest! {
        #[test]
        fn stretches_are_the_set_of_their_bytes(
            stretches in prop::collection::vec((0..60_u64, 1..9_u64), 0..40),
        ) {
            let mut arrived = Arrived::default();
            let mut bytes = BTreeSet::new();
            for (start, length) in stretches {
                let stretch = start..start + length;
                let fresh = stretch.clone().filter(|byte| bytes.insert(*byte)).count() as u64;
                prop_assert_eq!(arrived.add(&stretch), fresh);
                prop_assert!(arrived.0.iter().zip(arrived.0.iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
            let all: Vec<u64> = arrived.within(&(0..100)).cloned().flatten().collect();
            prop_assert_eq!(all, bytes.iter().copied().collect::<Vec<_>>());
            let some: Vec<_> = arrived.within(&(20..30)).collect();
            prop_assert!(some.iter().all(|range| range.start < 30 && range.end > 20));
            let mut range = (20..30).filter(|byte| bytes.contains(byte));
            prop_assert!(range.all(|byte| some.iter().any(|stretch| stretch.contains(&byte))));
            arrived.forget(25);
            prop_assert!(arrived.0.iter().all(|range| range.end > 25));
        }
    }
}
