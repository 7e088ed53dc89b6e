//! Drops of a full queue, by hand.

use lasthop_core::{Ecn, FlowId};

use super::*;
use crate::testing::{QueueLab, SEED, Seen, outlet};

fn head(limit: QueueSize) -> QueueLab<PushOut> {
    QueueLab::new(PushOut::head(limit, outlet(1_500).mtu))
}

fn any(limit: QueueSize) -> QueueLab<PushOut> {
    QueueLab::new(PushOut::any(limit, outlet(1_500).mtu, SEED.stream("red.down")))
}

const PUSHED_OUT: Seen = Seen::Dropped(DropCause::PushedOut);
const REFUSED: Seen = Seen::Dropped(DropCause::QueueOverflow);

#[test]
fn the_head_makes_room_for_an_arrival() {
    let mut lab = head(QueueSize::Packets(3));
    lab.arrive(0, 3, 1_500, Ecn::NotEct);
    lab.arrive(5, 2, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(PUSHED_OUT), [(5, 0), (5, 1)]);
    assert_eq!(lab.drain(6), [2, 3, 4], "the newest are left, in order");
    assert_eq!(lab.met(REFUSED), []);
}

#[test]
fn a_limit_in_bytes_takes_as_many_heads_as_it_needs() {
    let mut lab = head(QueueSize::Bytes(1_500));
    lab.arrive(0, 5, 300, Ecn::NotEct);
    lab.arrive(1, 1, 700, Ecn::NotEct);
    assert_eq!(lab.met(PUSHED_OUT), [(1, 0), (1, 1), (1, 2)]);
    lab.arrive(2, 1, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(PUSHED_OUT), [(2, 3), (2, 4), (2, 5)]);
    assert_eq!(lab.drain(3), [6]);
}

#[test]
fn a_queue_that_is_not_full_loses_nothing_and_keeps_the_order() {
    for mut lab in [head(QueueSize::Packets(4)), any(QueueSize::Packets(4))] {
        lab.arrive(0, 4, 1_500, Ecn::NotEct);
        assert_eq!(lab.drain(0), [0, 1, 2, 3]);
        assert_eq!(lab.met(PUSHED_OUT), []);
    }
}

/// The next packet may change, so any of them must fit.
#[test]
fn a_short_packet_waits_for_the_room_of_a_long_one() {
    let mut lab = head(QueueSize::Packets(4));
    lab.arrive(0, 1, 40, Ecn::NotEct);
    assert_eq!(lab.leave(1, 1_499), None);
    assert_eq!(lab.leave(1, 1_500), Some(0));
}

/// Each of four packets, including the arrival, is dropped in a quarter of the cases. The packets inside keep
/// their order.
#[test]
fn random_drop_takes_each_place_alike() {
    let (mut lost_at, rounds) = ([0_u32; 4], 8_000);
    let mut lab = any(QueueSize::Packets(3));
    for round in 0..rounds {
        let first = 4 * u64::from(round);
        lab.arrive(first, 4, 1_500, Ecn::NotEct);
        let left = lab.drain(first);
        let lost: Vec<_> = (first..first + 4).filter(|serial| !left.contains(serial)).collect();
        assert_eq!((lost.len(), left.is_sorted()), (1, true));
        lost_at[(lost[0] - first) as usize] += 1;
    }
    // Five standard deviations of 2000 are 194.
    assert!(lost_at.iter().all(|lost| lost.abs_diff(rounds / 4) < 194), "{lost_at:?}");
    assert_eq!(lab.met(PUSHED_OUT).len() as u32, rounds - lost_at[3], "the others were refused");
}

/// RFC 1254, section 2.2: a flow loses packets in proportion to its sending rate. Drop-tail rejects the last
/// arrival.
#[test]
fn random_drop_hits_flows_by_what_they_have_in_the_queue() {
    let mut lab = any(QueueSize::Packets(20));
    let mut lost = [0.0_f64; 2];
    for round in 0..4_000_u64 {
        // Flow 0 sends three of four packets; the link takes two of four.
        for flow in [0, 0, 0, 1] {
            lab.arrive_of(FlowId(flow), round, 1, 1_500, Ecn::NotEct);
        }
        lab.leave(round, 1_500);
        lab.leave(round, 1_500);
    }
    for (_, serial, _) in lab.log.lines.iter().filter(|line| [PUSHED_OUT, REFUSED].contains(&line.2)) {
        lost[usize::from(serial % 4 == 3)] += 1.0;
    }
    let share = lost[0] / (lost[0] + lost[1]);
    assert!((share - 0.75).abs() < 0.02, "{share}");
}
