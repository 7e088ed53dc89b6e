use lasthop_core::{Bytes, DropCause, Ecn, Faults, Probability, Rate};
use proptest::prelude::*;

use super::*;
use crate::config::{BufferRelease, GilbertElliott, PathConfig, SlotsConfig};
use crate::testing::{Lab, at_us, studied_path};

/// A packet of 100 bytes takes 1 ms, and arrives 10 ms later.
fn path(every_us: u64) -> PathConfig {
    let mut path = studied_path();
    path.link.rate = Rate::from_bits_per_second(800_000);
    path.link.overhead = lasthop_core::Distribution::Static(Duration::ZERO);
    path.link.delay = Duration::from_millis(10);
    path.link.release = BufferRelease::Serialised;
    path.link.slots = Some(SlotsConfig { every: Duration::from_micros(every_us) });
    path
}

fn sent(path: &PathConfig, times_us: &[u64]) -> Lab {
    let mut lab = Lab::new(path, None);
    for us in times_us {
        lab.send(at_us(*us), 100, Ecn::NotEct);
    }
    lab.run();
    assert!(lab.arena.is_empty());
    lab
}

fn delivered_us(lab: &Lab) -> Vec<u64> {
    lab.delivered().iter().map(|(at, _)| at.as_nanos() / 1_000).collect()
}

/// Arrivals after 11, 12, 13, 15, 15.001, 30 ms; `get_slot_next` sets the slot 4 ms after the first packet
/// that comes after the slot before, and `netem_dequeue` lets all go whose time has come by then.
#[test]
fn netems_slots_worked_by_hand() {
    let lab = sent(&path(4_000), &[0, 0, 0, 4_000, 4_001, 19_000]);
    // The fifth is serialised behind the fourth.
    assert_eq!(delivered_us(&lab), [15_000, 15_000, 15_000, 15_000, 20_000, 34_000]);
}

#[test]
fn a_lost_packet_has_its_place_in_a_slot() {
    let mut path = path(4_000);
    path.link.gilbert_elliott = Some(GilbertElliott {
        p: Probability::ONE,
        r: Probability::ONE,
        loss_bad: Probability::default(),
        loss_good: Probability::ONE,
    });
    // The first is lost, and opened the slot at 15 ms.
    let lab = sent(&path, &[0, 3_000]);
    assert_eq!(lab.dropped(DropCause::LinkError), [(at_us(1_000), 0)]);
    assert_eq!(delivered_us(&lab), [15_000]);
}

#[test]
fn slots_that_last_no_time_or_are_overtaken_are_refused() {
    let refused = |change: fn(&mut PathConfig)| {
        let mut path = path(4_000);
        change(&mut path);
        Faults::collect(|faults| path.check(Bytes(576), faults))
            .into_iter()
            .map(|fault| fault.key)
            .collect::<Vec<_>>()
    };
    assert_eq!(refused(|_| ()), [""; 0]);
    let none = |path: &mut PathConfig| path.link.slots = Some(SlotsConfig { every: Duration::ZERO });
    assert_eq!(refused(none), ["link.slots.every"]);
    let overtaken = |path: &mut PathConfig| {
        path.link.jitter = Some(lasthop_core::Distribution::Static(Duration::from_millis(1)));
        path.link.reorder = true;
    };
    assert_eq!(refused(overtaken), ["link.slots"]);
}

/// netem's dequeue function (Linux 6.12), for packets whose time has come at `times`: it looks when the first
/// packet waits and at each slot.
fn netem(times: &[u64], every: u64) -> Vec<u64> {
    let (mut slot_next, mut now, mut left) = (0, 0, Vec::new());
    for &time_to_send in times {
        if slot_next < time_to_send {
            slot_next = time_to_send + every;
        }
        // The watchdog: max(time_to_send, slot_next).
        now = now.max(time_to_send).max(slot_next);
        left.push(now);
    }
    left
}

proptest! {
    /// Deliveries come in order, none early, none more than a slot late, and as netem's code has them.
    #[test]
    fn they_are_those_of_netem(
        pauses in prop::collection::vec(0_u64..10_000, 1..60),
        every in 1_u64..20_000,
    ) {
        let times: Vec<u64> = pauses.iter().scan(0, |at, pause| { *at += pause; Some(*at) }).collect();
        let mut plain = path(1);
        plain.link.slots = None;
        let arrivals = delivered_us(&sent(&plain, &times));
        let slotted = delivered_us(&sent(&path(every), &times));
        prop_assert_eq!(&slotted, &netem(&arrivals, every));
        for (slot, arrival) in slotted.iter().zip(&arrivals) {
            prop_assert!((*arrival..=arrival + every).contains(slot));
        }
    }
}
