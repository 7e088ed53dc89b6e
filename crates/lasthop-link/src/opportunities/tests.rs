use lasthop_core::{Direction, Ecn};
use proptest::prelude::*;

use super::*;
use crate::config::{BufferRelease, PathConfig};
use crate::testing::{Lab, SEED, drop_tail, studied_path};

fn millis(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A path that follows a trace. Its send buffer holds one packet of 4000 bytes, or several shorter ones.
fn path(trace: &str, delay_ms: u64) -> PathConfig {
    let mut path = PathConfig { queue: drop_tail(100), ..studied_path() };
    path.link.trace = Some(Schedule::parse(trace).unwrap());
    path.link.delay = Duration::from_millis(delay_ms);
    path.link.overhead = lasthop_core::Distribution::Static(Duration::ZERO);
    path.link.send_buffer = lasthop_core::Bytes(4000);
    path.link.release = BufferRelease::Serialised;
    path
}

/// Sends packets, each (arrival in ms, bytes), in order. Returns the deliveries: (ms, number of the packet).
fn run_over(path: &PathConfig, packets: &[(u64, u32)]) -> Vec<(u64, u64)> {
    let mut lab = Lab::with(path, None, Direction::Down, SEED);
    for &(at, ip_bytes) in packets {
        lab.send(millis(at), ip_bytes, Ecn::NotEct);
    }
    lab.run();
    lab.delivered().into_iter().map(|(at, serial)| (at.as_nanos() / 1_000_000, serial)).collect()
}

fn run(trace: &str, delay_ms: u64, packets: &[(u64, u32)]) -> Vec<(u64, u64)> {
    run_over(&path(trace, delay_ms), packets)
}

#[test]
fn each_line_delivers_one_full_packet() {
    assert_eq!(run("10\n20\n20\n50\n", 0, &[(0, 1500); 4]), [(10, 0), (20, 1), (20, 2), (50, 3)]);
}

#[test]
fn the_trace_wraps_at_its_last_time() {
    // 3, 10 | 13, 20 | 23, 30
    assert_eq!(run("3\n10", 0, &[(0, 1500); 5]), [(3, 0), (10, 1), (13, 2), (20, 3), (23, 4)]);
    // An opportunity at 0 coincides with the last one of the previous round.
    assert_eq!(run("0\n10", 0, &[(1, 1500); 4]), [(10, 0), (10, 1), (20, 2), (20, 3)]);
}

#[test]
fn small_packets_share_an_opportunity() {
    assert_eq!(run("5\n10", 0, &[(0, 500); 4]), [(5, 0), (5, 1), (5, 2), (10, 3)]);
}

#[test]
fn a_packet_goes_on_in_the_next_opportunity_and_others_use_what_it_leaves() {
    // 1000 of the first and 500 of the second packet; its other 500, the third, and half of the fourth; the
    // rest.
    assert_eq!(
        run("10", 0, &[(0, 1000), (0, 1000), (0, 500), (0, 1000)]),
        [(10, 0), (20, 1), (20, 2), (30, 3)]
    );
    assert_eq!(run("10", 0, &[(0, 4000)]), [(30, 0)]);
}

#[test]
fn unused_opportunities_are_lost() {
    assert_eq!(run("1\n2\n3\n10", 0, &[(3, 1500), (995, 1500)]), [(10, 0), (1000, 1)]);
    // Long after the start, in the middle of a round.
    assert_eq!(run("4\n7\n10", 0, &[(1_000_005, 1500), (1_000_005, 1500)]), [(1_000_007, 0), (1_000_010, 1)]);
}

#[test]
fn propagation_comes_after_the_opportunity() {
    assert_eq!(run("10", 35, &[(0, 1500), (0, 1500)]), [(45, 0), (55, 1)]);
}

/// The limit counts the packets that wait for the send buffer, which holds two of these.
#[test]
fn the_queue_discipline_stays_in_force() {
    let mut path = path("10", 0);
    path.queue = drop_tail(3);
    assert_eq!(run_over(&path, &[(0, 1500); 9]), [(10, 0), (20, 1), (30, 2), (40, 3), (50, 4)]);
}

#[test]
fn a_trace_is_told_as_its_text_and_carries_its_mean_rate() {
    let schedule = Schedule::parse("0\n5\n5\n10").unwrap();
    assert_eq!(schedule.mean_rate(), Rate::from_bits_per_second(4_800_000));
    assert_eq!(schedule.to_string(), "0\n5\n5\n10\n");
    assert_eq!(Schedule::parse(&schedule.to_string()), Ok(schedule));
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    for (trace, line) in
        [("", 1), ("1\n\n2", 2), ("1\n1.5", 2), ("5\n4", 2), ("0\n0", 2), ("-1", 1), ("1\nx", 2)]
    {
        assert_eq!(Schedule::parse(trace).unwrap_err().line, line, "{trace:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_line_that_it_has(
        text in "\\PC*|([0-9 .,-]{0,11}\r?\n)*|([0-9]{1,3}\n)*",
    ) {
        match Schedule::parse(&text) {
            Ok(schedule) => prop_assert_eq!(Schedule::parse(&schedule.to_string()), Ok(schedule)),
            Err(error) => prop_assert!((1..=text.lines().count().max(1)).contains(&error.line)),
        }
    }

    #[test]
    fn packets_arrive_in_order_and_no_faster_than_the_opportunities(
        mut times in prop::collection::vec(0..50_u32, 1..20),
        sizes in prop::collection::vec(1..4000_u32, 1..40),
        gaps in prop::collection::vec(0..200_u64, 40),
    ) {
        times.push(50);
        times.sort_unstable();
        let text = times.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let mut at = 0;
        let packets: Vec<_> = sizes.iter().zip(gaps).map(|(&size, gap)| { at += gap; (at, size) }).collect();
        let delivered = run(&text, 0, &packets);
        prop_assert_eq!(delivered.len(), packets.len());
        let opportunities = |until: u64| times.iter().map(|&time| {
            let time = u64::from(time);
            if time > until { 0 } else { (until - time) / 50 + 1 }
        }).sum::<u64>();
        let mut bytes = 0;
        for (index, &(at, serial)) in delivered.iter().enumerate() {
            prop_assert_eq!(serial, index as u64);
            prop_assert!(at > packets[index].0, "delivered by an opportunity that had passed");
            bytes += u64::from(packets[index].1);
            prop_assert!(bytes <= 1500 * opportunities(at));
        }
    }
}
