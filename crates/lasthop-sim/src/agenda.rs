//! What happens next. Every component has at most one live entry, for its own earliest wakeup.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::Instant;

/// A component of the run. The number is its rank among simultaneous events.
pub(crate) type ComponentId = u32;

/// The agenda of a run, in the total order (time, component).
///
/// Entries are never cancelled: a component whose wakeup moved earlier gets a second entry, and an entry
/// that no longer is the component's earliest is skipped when its time comes.
#[derive(Debug)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, ComponentId)>>,
    earliest: Vec<Instant>,
}

impl Agenda {
    pub fn new(components: u32) -> Self {
        Self { heap: BinaryHeap::new(), earliest: vec![Instant::MAX; components as usize] }
    }

    /// Makes sure that `component` is woken at `wakeup`, or earlier.
    pub fn schedule(&mut self, component: ComponentId, wakeup: Option<Instant>) {
        let Some(wakeup) = wakeup else { return };
        let earliest = &mut self.earliest[component as usize];
        if wakeup < *earliest {
            *earliest = wakeup;
            self.heap.push(Reverse((wakeup, component)));
        }
    }

    /// The next live entry.
    pub fn pop(&mut self) -> Option<(Instant, ComponentId)> {
        while let Some(Reverse((time, component))) = self.heap.pop() {
            let earliest = &mut self.earliest[component as usize];
            if *earliest == time {
                *earliest = Instant::MAX;
                return Some((time, component));
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

    fn drain(agenda: &mut Agenda) -> Vec<(u64, ComponentId)> {
        std::iter::from_fn(|| agenda.pop()).map(|(time, id)| (time.as_nanos(), id)).collect()
    }

    #[test]
    fn simultaneous_entries_come_in_the_order_of_their_components() {
        let mut agenda = Agenda::new(3);
        for component in [2, 0, 1] {
            schedule(&mut agenda, component, 5);
        }
        assert_eq!(drain(&mut agenda), [(5, 0), (5, 1), (5, 2)]);
    }

    #[test]
    fn an_earlier_wakeup_replaces_a_later_one() {
        let mut agenda = Agenda::new(1);
        schedule(&mut agenda, 0, 9);
        schedule(&mut agenda, 0, 4);
        schedule(&mut agenda, 0, 7);
        assert_eq!(drain(&mut agenda), [(4, 0)]);
    }

    #[test]
    fn nothing_scheduled_is_nothing_due() {
        let mut agenda = Agenda::new(1);
        agenda.schedule(0, None);
        assert_eq!(agenda.pop(), None);
    }

    proptest! {
        #[test]
        fn the_earliest_entry_comes_next(
            components in 1..20_u32,
            steps in prop::collection::vec((any::<bool>(), 0..20_u32, 0..50_u64), 0..200),
        ) {
            let mut agenda = Agenda::new(components);
            let mut earliest = vec![None; components as usize];
            for (pop, component, nanos) in steps {
                if pop {
                    let next = (0..).zip(&earliest).filter_map(|(id, at)| at.map(|at| (at, id))).min();
                    prop_assert_eq!(agenda.pop().map(|(at, id)| (at.as_nanos(), id)), next);
                    if let Some((_, id)) = next {
                        earliest[id as usize] = None;
                    }
                } else {
                    let component = component % components;
                    schedule(&mut agenda, component, nanos);
                    let entry: &mut Option<u64> = &mut earliest[component as usize];
                    *entry = Some(entry.map_or(nanos, |at| at.min(nanos)));
                }
            }
        }
    }
}
