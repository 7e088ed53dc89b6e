//! The schedule of events. Every component has at most one live entry, for its own earliest wakeup.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::Instant;

/// A component of the run. The number is its rank among simultaneous events.
pub type ComponentId = u32;

/// The network comes first.
pub const NETWORK: ComponentId = 0;

/// Applications and hosts come after it.
pub const FIRST_APPLICATION: ComponentId = 1;

/// The agenda of a run, in the total order (time, component).
///
/// Nearly every event concerns the network, which has its own schedule and no entry in the heap.
/// Entries of other components are never cancelled: a component whose wakeup moves earlier gets a second entry,
/// and an entry that is no longer the component's earliest is skipped when its time comes.
#[derive(Debug)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, ComponentId)>>,
    /// Wakeups of the components after the network, as entered in the heap.
    earliest: Vec<Instant>,
}

impl Agenda {
    /// An agenda of the network and `others` further components.
    pub fn new(others: u32) -> Self {
        Self { heap: BinaryHeap::new(), earliest: vec![Instant::MAX; others as usize] }
    }

    /// Makes room for further components, which rank last.
    pub fn grow(&mut self, components: u32) {
        self.earliest.resize(self.earliest.len() + components as usize, Instant::MAX);
    }

    /// Ensures that a component is woken at `wakeup`, or earlier.
    #[inline]
    pub fn schedule(&mut self, component: ComponentId, wakeup: Option<Instant>) {
        let Some(wakeup) = wakeup else { return };
        let earliest = &mut self.earliest[(component - FIRST_APPLICATION) as usize];
        if wakeup < *earliest {
            *earliest = wakeup;
            self.heap.push(Reverse((wakeup, component)));
        }
    }

    /// The next live entry; `network` is the next wakeup of the network, `Instant::MAX` if there is none.
    #[inline]
    pub fn pop(&mut self, network: Instant) -> Option<(Instant, ComponentId)> {
        // At the same instant the network comes first.
        if self.heap.peek().is_some_and(|Reverse((queued, _))| *queued < network)
            && let Some(other) = self.pop_other(network)
        {
            return Some(other);
        }
        (network < Instant::MAX).then_some((network, NETWORK))
    }

    /// The next live entry of the heap, if its time comes before `time`.
    #[inline(never)]
    fn pop_other(&mut self, time: Instant) -> Option<(Instant, ComponentId)> {
        while let Some(&Reverse((queued, component))) = self.heap.peek()
            && queued < time
        {
            self.heap.pop();
            let earliest = &mut self.earliest[(component - FIRST_APPLICATION) as usize];
            if *earliest == queued {
                *earliest = Instant::MAX;
                return Some((queued, component));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(agenda: &mut Agenda, component: ComponentId, nanos: u64) {
        agenda.schedule(component, Some(Instant::from_nanos(nanos)));
    }

    #[test]
    fn simultaneous_entries_come_in_the_order_of_their_components() {
        let mut agenda = Agenda::new(3);
        for component in [3, 1, 2] {
            schedule(&mut agenda, component, 5);
        }
        let now = Instant::from_nanos(5);
        assert_eq!(agenda.pop(now), Some((now, NETWORK)));
        let rest: Vec<_> = std::iter::from_fn(|| agenda.pop(Instant::MAX)).collect();
        assert_eq!(rest, [(now, 1), (now, 2), (now, 3)]);
    }

    #[test]
    fn nothing_scheduled_is_nothing_due() {
        let mut agenda = Agenda::new(1);
        agenda.schedule(FIRST_APPLICATION, None);
        assert_eq!(agenda.pop(Instant::MAX), None);
    }

    proptest! {
        #[test]
        fn the_earliest_entry_comes_next(
            others in 1..16_u32,
            steps in prop::collection::vec((any::<bool>(), 0..20_u32, 0..50_u64), 0..200),
        ) {
            let mut agenda = Agenda::new(others);
            let mut earliest = vec![None; 1 + others as usize];
            for (pop, component, nanos) in steps {
                if pop {
                    let network = earliest[0].map_or(Instant::MAX, Instant::from_nanos);
                    let next = (0..).zip(&earliest).filter_map(|(id, at)| at.map(|at| (at, id))).min();
                    prop_assert_eq!(agenda.pop(network).map(|(at, id)| (at.as_nanos(), id)), next);
                    if let Some((_, id)) = next {
                        earliest[id as usize] = None;
                    }
                } else if component % (1 + others) == NETWORK {
                    earliest[0] = Some(nanos);
                } else {
                    let component = component % (1 + others);
                    schedule(&mut agenda, component, nanos);
                    let entry: &mut Option<u64> = &mut earliest[component as usize];
                    *entry = Some(entry.map_or(nanos, |at| at.min(nanos)));
                }
            }
        }
    }
}
