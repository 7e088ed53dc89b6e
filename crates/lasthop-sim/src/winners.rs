//! The earliest of many times, kept as a tree of winners: one time changes in a few steps.

use lasthop_core::Instant;

/// Times by number, and the earliest of them; of several at the same time, the one with the lowest number.
#[derive(Debug)]
pub(crate) struct Winners {
    /// The times; behind the last, times that never come, up to a power of two.
    times: Vec<Instant>,
    /// The winner among the leaves below each inner node. The children of `n` are `2 n` and `2 n + 1`, the root
    /// is 1, and leaves follow the inner nodes.
    winners: Vec<u32>,
}

impl Winners {
    /// `many` times that never come.
    pub fn new(many: usize) -> Self {
        let leaves = many.next_power_of_two().max(2);
        let first = |node: usize| {
            let below = node.ilog2();
            // The leftmost leaf.
            ((node << (leaves.ilog2() - below)) - leaves) as u32
        };
        let winners = (0..leaves).map(|node| if node == 0 { 0 } else { first(node) }).collect();
        Self { times: vec![Instant::MAX; leaves], winners }
    }

    /// The earliest time, `Instant::MAX` if none will come, and its number.
    #[inline]
    pub fn first(&self) -> (Instant, usize) {
        let first = self.winners[1] as usize;
        (self.times[first], first)
    }

    /// Changes a time.
    #[inline]
    pub fn set(&mut self, number: usize, time: Instant) {
        if self.times[number] == time {
            return;
        }
        self.times[number] = time;
        let leaves = self.times.len();
        let mut node = (leaves + number) >> 1;
        while node > 0 {
            let [left, right] = [2 * node, 2 * node + 1]
                .map(|child| if child < leaves { self.winners[child] } else { (child - leaves) as u32 });
            let is_right = self.times[right as usize] < self.times[left as usize];
            let winner = if is_right { right } else { left };
            if winner == self.winners[node] && winner as usize != number {
                // Another one wins as before, here and so above.
                return;
            }
            self.winners[node] = winner;
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
