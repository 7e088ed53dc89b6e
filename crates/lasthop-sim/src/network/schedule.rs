//! Which port is woken next: the earliest of many times, kept as a tree of winners, so that a change takes few steps.

use lasthop_core::Instant;

/// Times by number, and the earliest of them; of several at the same time, the one with the lowest number.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The earliest time below each node. The children of `n` are `2 n` and `2 n + 1`, the root is 1. The
    /// second half are the leaves, the times themselves; behind the last follow times that never come, up to
    /// a power of two.
    nodes: Vec<Instant>,
}

impl Schedule {
    /// `many` times that never come.
    pub fn new(many: usize) -> Self {
        Self { nodes: vec![Instant::MAX; 2 * many.next_power_of_two().max(2)] }
    }

    /// The earliest time, `Instant::MAX` if none will come.
    #[inline]
    pub fn earliest(&self) -> Instant {
        self.nodes[1]
    }

    /// The number of the earliest time.
    #[inline]
    pub fn first(&self) -> usize {
        let (earliest, leaves) = (self.earliest(), self.nodes.len() / 2);
        let mut node = 1;
        while node < leaves {
            node *= 2;
            node += usize::from(self.nodes[node] != earliest);
        }
        node - leaves
    }

    /// Changes a time.
    #[inline]
    pub fn set(&mut self, number: usize, mut time: Instant) {
        let mut node = self.nodes.len() / 2 + number;
        // A node that is as before leaves those above as they are.
        while self.nodes[node] != time {
            self.nodes[node] = time;
            if node == 1 {
                return;
            }
            time = time.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn at_the_same_time_the_lowest_number_wins() {
        let mut schedule = Schedule::new(5);
        assert_eq!((schedule.earliest(), schedule.first()), (Instant::MAX, 0));
        for number in [4, 2, 3] {
            schedule.set(number, Instant::from_nanos(7));
        }
        assert_eq!((schedule.earliest(), schedule.first()), (Instant::from_nanos(7), 2));
    }

    proptest! {
        #[test]
        fn the_earliest_is_that_of_a_search(
            many in 1..40_usize,
            steps in prop::collection::vec((0..40_usize, prop::option::of(0..20_u64)), 0..200),
        ) {
            let mut schedule = Schedule::new(many);
            let mut times = vec![Instant::MAX; many];
            for (number, time) in steps {
                let (number, time) = (number % many, time.map_or(Instant::MAX, Instant::from_nanos));
                schedule.set(number, time);
                times[number] = time;
                let least = times.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!((schedule.earliest(), schedule.first()), least);
            }
        }
    }
}
