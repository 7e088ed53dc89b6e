//! The earliest of many times, kept as a tree of winners: one time changes in a few steps.

use lasthop_core::Instant;

/// Times by number, and the earliest of them; of several at the same time, the one with the lowest number.
#[derive(Debug)]
pub(crate) struct Winners {
    /// The earliest time below each node, and its number. The children of `n` are `2 n` and `2 n + 1`, the
    /// root is 1. The second half are the leaves, the times themselves; behind the last follow times that
    /// never come, up to a power of two.
    nodes: Vec<(Instant, u32)>,
}

impl Winners {
    /// `many` times that never come.
    pub fn new(many: usize) -> Self {
        let leaves = many.next_power_of_two().max(2);
        let mut nodes: Vec<_> =
            (0..leaves as u32).cycle().take(2 * leaves).map(|number| (Instant::MAX, number)).collect();
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Self { nodes }
    }

    /// The earliest time, `Instant::MAX` if none will come, and its number.
    #[inline]
    pub fn first(&self) -> (Instant, usize) {
        let (time, number) = self.nodes[1];
        (time, number as usize)
    }

    /// Changes a time.
    #[inline]
    pub fn set(&mut self, number: usize, time: Instant) {
        let mut node = self.nodes.len() / 2 + number;
        if self.nodes[node].0 == time {
            return;
        }
        self.nodes[node].0 = time;
        while node > 1 {
            let (left, right) = (self.nodes[node & !1], self.nodes[node | 1]);
            let winner = if right.0 < left.0 { right } else { left };
            node /= 2;
            if self.nodes[node] == winner {
                // Another one wins as before, here and so above.
                return;
            }
            self.nodes[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn at_the_same_time_the_lowest_number_wins() {
        let mut winners = Winners::new(5);
        assert_eq!(winners.first(), (Instant::MAX, 0));
        for number in [4, 2, 3] {
            winners.set(number, Instant::from_nanos(7));
        }
        assert_eq!(winners.first(), (Instant::from_nanos(7), 2));
    }

    proptest! {
        #[test]
        fn the_earliest_is_that_of_a_search(
            many in 1..40_usize,
            steps in prop::collection::vec((0..40_usize, prop::option::of(0..20_u64)), 0..200),
        ) {
            let mut winners = Winners::new(many);
            let mut times = vec![Instant::MAX; many];
            for (number, time) in steps {
                let (number, time) = (number % many, time.map_or(Instant::MAX, Instant::from_nanos));
                winners.set(number, time);
                times[number] = time;
                let least = times.iter().copied().zip(0..).min().unwrap();
                let (time, number) = winners.first();
                prop_assert_eq!(time, least.0);
                prop_assert!(time == Instant::MAX || number == least.1);
            }
        }
    }
}
