//! The schedule of events. Every component has at most one live entry, for its own earliest wakeup.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::Instant;

use crate::network::Component;

/// A component of the run. The number is its rank among simultaneous events.
pub type ComponentId = u32;

/// Components of the network come first.
pub const NETWORK_COMPONENTS: ComponentId = Component::ALL.len() as ComponentId;

/// The agenda of a run, in the total order (time, component).
///
/// Nearly every event concerns the components of the network. They have no entry in the heap, because
/// checking all of them is cheaper. Entries of other components are never cancelled: a component whose wakeup
/// moves earlier gets a second entry, and an entry that is no longer the component's earliest is skipped when
/// its time comes.
#[derive(Debug)]
pub struct Agenda {
    network: [Instant; Component::ALL.len()],
    heap: BinaryHeap<Reverse<(Instant, ComponentId)>>,
    /// Wakeups of the components after those of the network, as entered in the heap.
    earliest: Vec<Instant>,
}

impl Agenda {
    /// An agenda of the network's components and `others` further ones.
    pub fn new(others: u32) -> Self {
        let network = [Instant::MAX; Component::ALL.len()];
        Self { network, heap: BinaryHeap::new(), earliest: vec![Instant::MAX; others as usize] }
    }

    /// Makes room for further components, which rank last.
    pub fn grow(&mut self, components: u32) {
        self.earliest.resize(self.earliest.len() + components as usize, Instant::MAX);
    }

    /// Sets the wakeup of a component of the network; it replaces the previous one.
    #[inline]
    pub fn schedule_network(&mut self, component: Component, wakeup: Instant) {
        self.network[component as usize] = wakeup;
    }

    /// Makes sure that another component is woken at `wakeup`, or earlier.
    #[inline]
    pub fn schedule(&mut self, component: ComponentId, wakeup: Option<Instant>) {
        let Some(wakeup) = wakeup else { return };
        let earliest = &mut self.earliest[(component - NETWORK_COMPONENTS) as usize];
        if wakeup < *earliest {
            *earliest = wakeup;
            self.heap.push(Reverse((wakeup, component)));
        }
    }

    /// The next live entry.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, ComponentId)> {
        let of = |component: usize| (self.network[component], component);
        let (time, first) = sooner(sooner(of(0), of(1)), sooner(of(2), of(3)));
        // At the same instant a component of the network comes first.
        if self.heap.peek().is_some_and(|Reverse((queued, _))| *queued < time)
            && let Some(other) = self.pop_other(time)
        {
            return Some(other);
        }
        self.network[first] = Instant::MAX;
        (time < Instant::MAX).then_some((time, first as ComponentId))
    }

    /// The next live entry of the heap, if its time comes before `time`.
    #[inline(never)]
    fn pop_other(&mut self, time: Instant) -> Option<(Instant, ComponentId)> {
        while let Some(&Reverse((queued, component))) = self.heap.peek()
            && queued < time
        {
            self.heap.pop();
            let earliest = &mut self.earliest[(component - NETWORK_COMPONENTS) as usize];
            if *earliest == queued {
                *earliest = Instant::MAX;
                return Some((queued, component));
            }
        }
        None
    }
}

/// The one whose time comes first, or the first of two at the same time.
#[inline]
fn sooner(first: (Instant, usize), second: (Instant, usize)) -> (Instant, usize) {
    if second.0 < first.0 { second } else { first }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(agenda: &mut Agenda, component: ComponentId, nanos: u64) {
        let wakeup = Instant::from_nanos(nanos);
        match Component::ALL.get(component as usize) {
            Some(component) => agenda.schedule_network(*component, wakeup),
            None => agenda.schedule(component, Some(wakeup)),
        }
    }

    fn drain(agenda: &mut Agenda) -> Vec<(u64, ComponentId)> {
        std::iter::from_fn(|| agenda.pop()).map(|(time, id)| (time.as_nanos(), id)).collect()
    }

    #[test]
    fn simultaneous_entries_come_in_the_order_of_their_components() {
        let mut agenda = Agenda::new(3);
        for component in [6, 2, 0, 5, 1] {
            schedule(&mut agenda, component, 5);
        }
        assert_eq!(drain(&mut agenda), [(5, 0), (5, 1), (5, 2), (5, 5), (5, 6)]);
    }

    #[test]
    fn the_network_is_woken_when_it_was_said_last_and_others_when_it_is_earliest() {
        for (component, wakeup) in [(0, 7), (5, 4)] {
            let mut agenda = Agenda::new(2);
            for nanos in [9, 4, 7] {
                schedule(&mut agenda, component, nanos);
            }
            assert_eq!(drain(&mut agenda), [(wakeup, component)]);
        }
    }

    #[test]
    fn nothing_scheduled_is_nothing_due() {
        let mut agenda = Agenda::new(1);
        agenda.schedule_network(Component::Down, Instant::MAX);
        agenda.schedule(NETWORK_COMPONENTS, None);
        assert_eq!(agenda.pop(), None);
    }

    proptest! {
        #[test]
        fn the_earliest_entry_comes_next(
            others in 0..16_u32,
            steps in prop::collection::vec((any::<bool>(), 0..20_u32, 0..50_u64), 0..200),
        ) {
            let components = NETWORK_COMPONENTS + others;
            let mut agenda = Agenda::new(others);
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
                    let replaces = component < NETWORK_COMPONENTS;
                    *entry = Some(entry.filter(|_| !replaces).map_or(nanos, |at| at.min(nanos)));
                }
            }
        }
    }
}
