//! Turns, shares and the drops of a full queue, by hand.

use lasthop_core::{Ecn, FlowId};

use super::*;
use crate::testing::{QueueLab, SEED, Seen, outlet};

fn lab(limit: u32, quantum: u64) -> QueueLab<Sfq> {
    let config = FlowsConfig { quantum: Some(Bytes(quantum)), ..FlowsConfig::default() };
    let limit = QueueSize::Packets(limit);
    QueueLab::new(Sfq::new(config, limit, outlet(1_500).mtu, SEED.stream("red.down")))
}

#[test]
fn flows_take_turns_whatever_they_hold() {
    let mut lab = lab(100, 1_500);
    for (flow, count) in [(1, 4), (2, 1), (3, 2)] {
        lab.arrive_of(FlowId(flow), 0, count, 1_500, Ecn::NotEct);
    }
    assert_eq!(lab.drain(0), [0, 4, 5, 1, 6, 2, 3]);
}

/// Sends 400 packets of three flows that always have packets. Returns the bytes that each flow has sent,
/// after each packet.
fn saturated(lengths: [u32; 3]) -> Vec<[u32; 3]> {
    let mut lab = lab(300, 1_500);
    let mut sent = [0; 3];
    let one = |turn| {
        for (flow, length) in (0..).map(FlowId).zip(lengths) {
            while lab.queue.flows[lab.queue.hash.queue_of(flow)].fifo.packets() < 20 {
                lab.arrive_of(flow, turn, 1, length, Ecn::NotEct);
            }
        }
        let left = lab.leave_whole(turn, 1_500).unwrap();
        sent[left.flow.0 as usize] += left.ip_bytes;
        sent
    };
    (0..400).map(one).collect()
}

/// Shreedhar and Varghese 1995: flows send equally many bytes, regardless of the size of their packets. In
/// complete rounds the numbers are exactly equal if the packets divide the quantum; then 1, 3 and 15 packets
/// make a round.
#[test]
fn deficit_round_robin_is_fair_in_bytes() {
    let rounds = saturated([1_500, 500, 100]);
    for (round, sent) in (1..).zip(rounds.chunks_exact(19).map(|round| round[18])) {
        assert_eq!(sent, [1_500 * round; 3]);
    }
    for sent in saturated([1_500, 700, 333]) {
        let (most, least) = (sent.iter().max().unwrap(), sent.iter().min().unwrap());
        assert!(most - least <= 1_500 + 1_500, "a quantum and a packet: {sent:?}");
    }
}

/// `sfq_drop`: the longest flow drops from its tail; of equally long flows, the one that reached this length
/// last.
#[test]
fn a_full_queue_takes_from_the_longest_flow() {
    let mut lab = lab(6, 1_500);
    for (flow, count) in [(1, 3), (2, 2), (3, 2)] {
        lab.arrive_of(FlowId(flow), 0, count, 1_500, Ecn::NotEct);
    }
    assert_eq!(lab.met(Seen::Dropped(DropCause::LongestFlow)), [(0, 2)]);
    lab.arrive_of(FlowId(1), 1, 1, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(1, 7)]);
    lab.arrive_of(FlowId(4), 2, 1, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::LongestFlow)), [(2, 1)]);
    assert_eq!(lab.drain(2), [0, 3, 5, 8, 4, 6]);
}

#[test]
fn if_every_flow_has_one_packet_the_next_one_loses_it() {
    let mut lab = lab(3, 1_500);
    for flow in 1..=4 {
        lab.arrive_of(FlowId(flow), 0, 1, 1_500, Ecn::NotEct);
    }
    assert_eq!(lab.met(Seen::Dropped(DropCause::LongestFlow)), [(0, 0)]);
    assert_eq!(lab.drain(0), [1, 2, 3]);
}

#[test]
fn a_flow_holds_127_packets_and_128_flows_are_active() {
    let mut lab = lab(1_000, 1_500);
    lab.arrive(0, 128, 100, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(0, 127)]);
    let mut lab = self::lab(1_000, 1_500);
    for flow in 0..1_000 {
        lab.arrive_of(FlowId(flow), 0, 1, 100, Ecn::NotEct);
    }
    assert_eq!(lab.queue.active.len(), 128);
    assert!(!lab.met(Seen::Dropped(DropCause::QueueOverflow)).is_empty());
}
