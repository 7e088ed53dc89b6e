//! RFC 8290 by hand: packets of 1500 bytes, of which the link takes one every 12 ms (1 Mbit/s).

use lasthop_core::{DropCause, Ecn, FlowId};

use super::*;
use crate::config::FlowsConfig;
use crate::testing::{QueueLab, SEED, Seen, outlet};

type Lab = QueueLab<FqCoDel>;

fn lab(limit: u32, quantum: u64) -> Lab {
    let flows = FlowsConfig { quantum: Some(Bytes(quantum)), ..FlowsConfig::default() };
    let config = FqCoDelConfig { flows, ..FqCoDelConfig::default() };
    let limit = QueueSize::Packets(limit);
    Lab::new(FqCoDel::new(config, limit, outlet(1_500).mtu, SEED.stream("red.down")))
}

/// Section 4.2: a flow that becomes active while others wait is served before them, once. Then it is placed
/// after the old flow; the credit of the old flow is used up, too, so that flow moves behind it first.
#[test]
fn a_new_flow_goes_before_the_old_ones_for_a_quantum() {
    let mut lab = lab(100, 1_500);
    lab.arrive_of(FlowId(1), 0, 5, 1_500, Ecn::NotEct);
    assert_eq!((lab.leave(0, 1_500), lab.leave(12, 1_500)), (Some(0), Some(1)));
    lab.arrive_of(FlowId(2), 20, 3, 1_500, Ecn::NotEct);
    assert_eq!(lab.drain(24), [5, 6, 2, 7, 3, 4]);
}

/// Section 4.2: a flow whose queue has become empty must pass through the old ones before it counts as new
/// again.
#[test]
fn a_flow_that_comes_back_at_once_gains_nothing() {
    let mut lab = lab(100, 3_000);
    lab.arrive_of(FlowId(1), 0, 9, 1_500, Ecn::NotEct);
    assert_eq!([0, 12].map(|at| lab.leave(at, 1_500)), [Some(0), Some(1)]);
    lab.arrive_of(FlowId(2), 20, 1, 100, Ecn::NotEct);
    assert_eq!((lab.leave(24, 1_500), lab.leave(25, 1_500)), (Some(9), Some(2)));
    lab.arrive_of(FlowId(2), 26, 1, 100, Ecn::NotEct);
    assert_eq!([37, 49, 50].map(|at| lab.leave(at, 1_500)), [Some(3), Some(10), Some(4)]);
}

/// Section 4.1.3: the flow with the most bytes loses half of them from its head; the others lose nothing.
#[test]
fn a_full_queue_drops_half_of_the_fattest_flow_from_its_head() {
    let mut lab = lab(12, 1_500);
    lab.arrive_of(FlowId(1), 0, 9, 1_500, Ecn::NotEct);
    lab.arrive_of(FlowId(2), 0, 4, 1_500, Ecn::NotEct);
    let dropped = lab.met(Seen::Dropped(DropCause::LongestFlow));
    assert_eq!(dropped, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
    assert_eq!((lab.queue.depth().packets, lab.queue.depth().bytes), (8, 12_000));
    assert_eq!(lab.drain(0), [5, 9, 6, 10, 7, 11, 8, 12]);
}

#[test]
fn at_most_64_packets_are_dropped_at_once() {
    let mut lab = lab(200, 1_500);
    lab.arrive(0, 201, 100, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::LongestFlow)).len(), 64);
}

#[test]
fn codel_hits_the_flow_that_has_a_standing_queue_and_spares_the_sparse_one() {
    let mut lab = lab(1_000, 1_500);
    lab.arrive_of(FlowId(1), 0, 100, 1_500, Ecn::Ect0);
    let mut sparse = Vec::new();
    for step in 0..60 {
        let at_ms = 12 * step;
        if step % 10 == 0 {
            lab.arrive_of(FlowId(2), at_ms, 1, 100, Ecn::NotEct);
            sparse.push(at_ms);
        }
        let left = lab.leave_whole(at_ms, 1_500).unwrap();
        assert!(step % 10 != 0 || step == 0 || left.flow == FlowId(2), "a sparse flow waits for nobody");
    }
    let lines = lab.log.lines.clone();
    assert!(lines.iter().all(|line| line.2 == Seen::Marked && line.1 < 100));
    assert!(lines.len() > 3, "{lines:?}");
}

#[test]
fn the_link_is_asked_for_room_for_the_largest_packet() {
    let mut lab = lab(10, 1_500);
    assert_eq!((lab.queue.room_needed(), lab.leave(0, 10_000)), (None, None));
    lab.arrive(0, 1, 40, Ecn::NotEct);
    assert_eq!(
        (lab.queue.room_needed(), lab.leave(0, 1_499), lab.leave(0, 1_500)),
        (Some(1_500), None, Some(0))
    );
}
