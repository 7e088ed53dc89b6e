//! Determines the port to wake next: the earliest of many times.

use lasthop_core::Instant;

/// The wakeup of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    pub at: Instant,
    /// Its number.
    pub(super) port: usize,
}

/// Times by number, and the earliest of them; among equal times, that of the lowest number.
#[derive(Debug)]
pub(super) enum Schedule {
    /// A single hop has four ports, with nearly all events: comparing all four is the fastest.
    Few([Instant; FEW]),
    /// The earliest time below each node of a tree of winners, so that a change takes few steps. The children of
    /// `n` are `2 n` and `2 n + 1`, the root is 1. The second half are the leaves, the times themselves; behind
    /// the last follow times that never come, up to a power of two.
    Many(Vec<Instant>),
}

const FEW: usize = 4;

impl Schedule {
    /// `many` times, all `Instant::MAX`.
    pub fn new(many: usize) -> Self {
        if many <= FEW {
            return Self::Few([Instant::MAX; FEW]);
        }
        Self::Many(vec![Instant::MAX; 2 * many.next_power_of_two()])
    }

    /// The first wakeup; its time is `Instant::MAX` if none will come.
    #[inline]
    pub fn first(&self) -> Wakeup {
        match self {
            Self::Few(times) => {
                let of = |port: usize| Wakeup { at: times[port], port };
                let sooner =
                    |first: Wakeup, second: Wakeup| if second.at < first.at { second } else { first };
                sooner(sooner(of(0), of(1)), sooner(of(2), of(3)))
            }
            Self::Many(nodes) => {
                let (at, leaves) = (nodes[1], nodes.len() / 2);
                let mut node = 1;
                while node < leaves {
                    node *= 2;
                    node += usize::from(nodes[node] != at);
                }
                Wakeup { at, port: node - leaves }
            }
        }
    }

    /// Changes a time.
    #[inline]
    pub fn set(&mut self, port: usize, time: Instant) {
        match self {
            // Its number is below four; the rest of the division spares a check.
            Self::Few(times) => times[port % FEW] = time,
            Self::Many(nodes) => set(nodes, port, time),
        }
    }
}

fn set(nodes: &mut [Instant], port: usize, mut time: Instant) {
    let mut node = nodes.len() / 2 + port;
    // A node that is as before leaves those above as they are.
    while nodes[node] != time {
        nodes[node] = time;
        if node == 1 {
            return;
        }
        time = time.min(nodes[node ^ 1]);
        node /= 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn at_the_same_time_the_lowest_number_wins() {
        let mut schedule = Schedule::new(5);
        assert_eq!(schedule.first(), Wakeup { at: Instant::MAX, port: 0 });
        for number in [4, 2, 3] {
            schedule.set(number, Instant::from_nanos(7));
        }
        assert_eq!(schedule.first(), Wakeup { at: Instant::from_nanos(7), port: 2 });
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
                let (at, port) = times.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!(schedule.first(), Wakeup { at, port });
            }
        }
    }
}
