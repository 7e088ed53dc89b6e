//! A custom discipline: its packets are stored, and the numbers that it returns are checked.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lasthop_core::{Ecn, Failure, Instant};

use super::*;
use crate::testing::QueueLab;

/// A stack (last in, first out). The second arrival drops the first, and the third is rejected.
#[derive(Debug, Default)]
struct Stack {
    waiting: Vec<u64>,
    lies: Option<u64>,
}

impl QueueAlgorithm for Stack {
    fn enqueue(&mut self, _now: Instant, packet: &QueuedPacket, verdicts: &mut Verdicts) -> bool {
        if packet.number == 1 {
            verdicts.drop(self.waiting.remove(0));
        }
        let is_taken = packet.number != 2;
        if is_taken {
            self.waiting.push(packet.number);
        }
        is_taken
    }

    fn peek(&self) -> Option<u64> {
        self.waiting.last().copied()
    }

    fn dequeue(&mut self, _now: Instant, _verdicts: &mut Verdicts) -> Option<u64> {
        self.lies.or_else(|| self.waiting.pop())
    }
}

fn lab(lies: Option<u64>) -> QueueLab<UserQueue> {
    QueueLab::new(UserQueue::new("rust:stack".into(), Box::new(Stack { lies, ..Stack::default() })))
}

#[test]
fn it_orders_drops_and_refuses_packets() {
    let mut lab = lab(None);
    lab.arrive(0, 5, 1_500, Ecn::NotEct);
    assert_eq!(lab.queue.depth().packets, 3);
    assert_eq!(lab.drain(0), [4, 3, 1]);
    assert_eq!((lab.queue.depth().packets, lab.queue.depth().bytes), (0, 0));
}

#[test]
fn a_packet_that_it_does_not_hold_ends_the_run() {
    for lie in [0, 2, 9] {
        let mut lab = lab(Some(lie));
        lab.arrive(0, 3, 1_500, Ecn::NotEct);
        let payload =
            catch_unwind(AssertUnwindSafe(|| lab.drain(0))).expect_err("it hands back what it has not");
        let message = Failure::caught(payload).message;
        assert!(message.starts_with(&format!("rust:stack.dequeue handed back packet {lie}, ")), "{message}");
    }
}

#[test]
fn what_does_not_fit_is_handed_out_once_there_is_room() {
    let mut lab = lab(None);
    lab.arrive(0, 1, 1_500, Ecn::NotEct);
    assert_eq!(lab.queue.room_needed(), Some(1_500));
    assert!(lab.leave_whole(0, 1_499).is_none());
    assert!(lab.leave_whole(0, 1_500).is_some());
}
