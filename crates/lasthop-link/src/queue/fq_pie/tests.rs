//! Each flow has its own PIE state; the limit and the turns are common to all flows.

use lasthop_core::{Duration, Ecn, FlowId};

use super::*;
use crate::config::{FlowsConfig, PieConfig};
use crate::testing::{QueueLab, SEED, Seen, outlet};

fn lab(limit: u32) -> QueueLab<FqPie> {
    let update = Duration::from_millis(15);
    let pie = PieConfig { target: update, tupdate: update, ecn: false };
    let config = FqPieConfig { pie, flows: FlowsConfig::default() };
    let limit = QueueSize::Packets(limit);
    QueueLab::new(FqPie::new(config, limit, outlet(1_500), SEED.stream("red.down")))
}

#[test]
fn the_flow_that_overloads_is_hit_and_the_sparse_one_is_not() {
    let mut lab = lab(1_000);
    for step in 0..500_u64 {
        lab.arrive_of(FlowId(1), 12 * step, 2, 1_500, Ecn::NotEct);
        if step % 5 == 0 {
            lab.arrive_of(FlowId(2), 12 * step, 1, 100, Ecn::NotEct);
        }
        lab.leave(12 * step, 1_500);
    }
    let drops = lab.met(Seen::Dropped(DropCause::Pie));
    assert!(drops.len() > 100, "{}", drops.len());
    // The packets of the second flow have the serial numbers 2, 13, 24 ...
    assert!(drops.iter().all(|(_, serial)| serial % 11 != 2));
}

#[test]
fn an_arrival_at_the_limit_is_dropped_itself() {
    let mut lab = lab(3);
    lab.arrive_of(FlowId(1), 0, 3, 1_500, Ecn::NotEct);
    lab.arrive_of(FlowId(2), 0, 1, 100, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(0, 3)]);
    assert_eq!(lab.drain(0), [0, 1, 2]);
}

#[test]
fn flows_take_turns() {
    let mut lab = lab(100);
    lab.arrive_of(FlowId(1), 0, 3, 1_500, Ecn::NotEct);
    lab.arrive_of(FlowId(2), 0, 3, 1_500, Ecn::NotEct);
    assert_eq!(lab.drain(0), [0, 3, 1, 4, 2, 5]);
    assert_eq!((lab.queue.depth().packets, lab.queue.depth().bytes), (0, 0));
}
