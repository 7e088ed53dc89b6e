//! What happens next. Every component has at most one live entry, for its own earliest wakeup.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::Instant;

use crate::network::Component;

/// A component of the run. The number is its rank among simultaneous events.
pub(crate) type ComponentId = u32;

/// Those of the network come first.
pub(crate) const NETWORK_COMPONENTS: ComponentId = Component::ALL.len() as ComponentId;

/// The agenda of a run, in the total order (time, component).
///
/// The first [`SCANNED`] components, which nearly every event concerns, have no entry in the heap: looking at all
/// of them is cheaper. For the others entries are never cancelled: a component whose wakeup moved earlier gets a
/// second entry, and an entry that no longer is the component's earliest is skipped when its time comes.
#[derive(Debug)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, ComponentId)>>,
    earliest: Vec<Instant>,
}

/// Components of the network, that is.
const SCANNED: usize = NETWORK_COMPONENTS as usize;

impl Agenda {
    pub fn new(components: u32) -> Self {
        let components = (components as usize).max(SCANNED);
        Self { heap: BinaryHeap::new(), earliest: vec![Instant::MAX; components] }
    }

    /// Makes room for further components, which rank last.
    pub fn grow(&mut self, components: u32) {
        self.earliest.resize(self.earliest.len() + components as usize, Instant::MAX);
    }

    /// Makes sure that `component` is woken at `wakeup`, or earlier.
    pub fn schedule(&mut self, component: ComponentId, wakeup: Option<Instant>) {
        let Some(wakeup) = wakeup else { return };
        let earliest = &mut self.earliest[component as usize];
        if wakeup < *earliest {
            *earliest = wakeup;
            if component as usize >= SCANNED {
                self.heap.push(Reverse((wakeup, component)));
            }
        }
    }

    /// The next live entry.
    pub fn pop(&mut self) -> Option<(Instant, ComponentId)> {
        let (scanned, others) = self.earliest.split_at_mut(SCANNED);
        let (mut first, mut time) = (0, scanned[0]);
        for (component, earliest) in scanned.iter().enumerate().skip(1) {
            if *earliest < time {
                (first, time) = (component, *earliest);
            }
        }
        // At the same instant a scanned component comes first.
        while let Some(&Reverse((queued, component))) = self.heap.peek()
            && queued < time
        {
            self.heap.pop();
            let earliest = &mut others[component as usize - SCANNED];
            if *earliest == queued {
                *earliest = Instant::MAX;
                return Some((queued, component));
            }
        }
        scanned[first] = Instant::MAX;
        (time < Instant::MAX).then_some((time, first as ComponentId))
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
        let mut agenda = Agenda::new(7);
        for component in [6, 2, 0, 5, 1] {
            schedule(&mut agenda, component, 5);
        }
        assert_eq!(drain(&mut agenda), [(5, 0), (5, 1), (5, 2), (5, 5), (5, 6)]);
    }

    #[test]
    fn an_earlier_wakeup_replaces_a_later_one() {
        for component in [0, 5] {
            let mut agenda = Agenda::new(6);
            for nanos in [9, 4, 7] {
                schedule(&mut agenda, component, nanos);
            }
            assert_eq!(drain(&mut agenda), [(4, component)]);
        }
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
