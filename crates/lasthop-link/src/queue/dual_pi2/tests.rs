//! RFC 9332, appendix A by hand: a target of 15 ms, updates every 16 ms, gains of 41/256 and 819/256 Hz.

use super::*;
use crate::testing::{QueueLab, SEED, Seen, ms, outlet};

const CONFIG: DualPi2Config = DualPi2Config {
    target: Duration::from_millis(15),
    tupdate: Duration::from_millis(16),
    step_threshold: Duration::from_millis(1),
    min_qlen_step: 0,
};

fn queue() -> DualPi2 {
    DualPi2::new(CONFIG, QueueSize::Packets(200), outlet(1_500), SEED.stream("test"))
}

fn lab() -> QueueLab<DualPi2> {
    QueueLab::new(queue())
}

fn share(probability: u64) -> f64 {
    probability as f64 / ONE as f64
}

/// A queue with this base probability.
fn with_probability(p: f64) -> DualPi2 {
    let mut queue = queue();
    queue.pi.probability = (p * ONE as f64) as u64;
    queue
}

/// Shares of packets that are marked and dropped, of a hundred thousand with 100 kB behind them.
fn fates(p: f64, is_low_latency: bool, ecn: Ecn) -> (f64, f64) {
    let mut queue = with_probability(p);
    let verdicts: Vec<_> =
        (0..100_000).map(|_| queue.judge(is_low_latency, ecn, Duration::ZERO, 100_000)).collect();
    let share = |verdict| verdicts.iter().filter(|found| **found == verdict).count() as f64 / 1e5;
    (share(HeadVerdict::Mark), share(HeadVerdict::Drop))
}

/// `p += alpha (delay - target) + beta (delay - delay before)`.
#[test]
fn the_base_probability_follows_the_head_that_waits_longest() {
    let mut lab = lab();
    lab.arrive(0, 5, 1_500, Ecn::NotEct);
    lab.arrive(10, 5, 1_500, Ecn::Ect1);
    let (alpha, beta) = (41.0 / 256.0, 819.0 / 256.0);
    lab.queue.advance(ms(16));
    let first = alpha * 0.001 + beta * 0.016;
    assert!((share(lab.queue.pi.probability) - first).abs() < 1e-8);
    // Both classic and low-latency packets leave; then the last low-latency one has waited since 10 ms.
    for _ in 0..9 {
        lab.leave(20, 1_500);
    }
    lab.queue.advance(ms(32));
    let head = lab.queue.classic.front().or(lab.queue.low_latency.front()).unwrap();
    let delay = 0.032 - head.since.as_nanos() as f64 / 1e9;
    let second = first + alpha * (delay - 0.015) + beta * (delay - 0.016);
    assert!((share(lab.queue.pi.probability) - second).abs() < 1e-8);
}

/// The pseudo-code of appendix A.1 with its own gains, 0.16 and 3.2 Hz, over updates that see these delays:
/// `p' += alpha * (curq - target) + beta * (curq - prevq)`, then `p_CL = k p'` and `p_C = p'^2`.
#[test]
fn a_rising_and_falling_queue_has_the_probabilities_of_the_pseudo_code() {
    let mut pi = queue().pi;
    let mut expected = 0.0;
    let mut before = 0.0;
    for (delay_ms, p_cl, p_c) in [
        (10.0, 0.062_4, 0.000_973),
        (20.0, 0.128_0, 0.004_096),
        (30.0, 0.196_8, 0.009_683),
        (30.0, 0.201_6, 0.010_161),
        (15.0, 0.105_6, 0.002_788),
        (0.0, 0.004_8, 0.000_006),
        (0.0, 0.0, 0.0),
    ] {
        pi.update(Duration::from_micros((delay_ms * 1e3) as u64));
        expected = f64::max(0.0, expected + 0.16e-3 * (delay_ms - 15.0) + 3.2e-3 * (delay_ms - before));
        before = delay_ms;
        let p = share(pi.probability);
        assert!((p - expected).abs() < 0.000_2, "{delay_ms} ms: {p}, not {expected}");
        assert!((2.0 * p - p_cl).abs() < 0.000_4 && (p * p - p_c).abs() < 0.000_02, "{delay_ms} ms: {p}");
    }
}

/// Appendix A.1: `p_CL` reaches 1 at `p'` = 1/k, where `p_C` is `p_Cmax` = 1/k^2, a quarter.
#[test]
fn when_all_low_latency_packets_are_marked_a_quarter_of_the_others_is_dropped() {
    let (mark, drop) = fates(0.499_999_9, true, Ecn::Ect1);
    assert!((mark - 1.0).abs() < 1e-4 && drop == 0.0);
    let (_, drop) = fates(0.499_999_9, false, Ecn::NotEct);
    assert!((drop - 0.25).abs() < 0.006, "{drop}");
}

#[test]
fn it_falls_while_nothing_waits_and_ends_at_zero() {
    let mut queue = with_probability(0.5);
    queue.advance(ms(16));
    assert!((share(queue.pi.probability) - (0.5 - 41.0 / 256.0 * 0.015)).abs() < 1e-8);
    queue.advance(ms(1_000_000));
    assert_eq!(queue.pi.probability, 0);
    assert_eq!(queue.pi.next_update, ms(1_000_000 / 16 * 16 + 16));
    // And it is at most 1.
    let mut pi = with_probability(0.9).pi;
    pi.update(Duration::from_secs(10));
    assert_eq!(pi.probability, ONE);
}

/// Section 2.1: `p_CL` = k p, and `p_C` = p squared.
#[test]
fn low_latency_packets_are_marked_with_twice_the_root_of_what_others_meet() {
    for p in [0.05, 0.2, 0.4] {
        let near = |(mark, drop): (f64, f64), wanted: (f64, f64)| {
            assert!((mark - wanted.0).abs() < 0.006 && (drop - wanted.1).abs() < 0.006, "{p}: {mark} {drop}");
        };
        near(fates(p, true, Ecn::Ect1), (2.0 * p, 0.0));
        near(fates(p, false, Ecn::NotEct), (0.0, p * p));
        near(fates(p, false, Ecn::Ect0), (p * p, 0.0));
    }
}

/// Section 2.5.1.1: with `p_CL` at 1 it drops in both queues.
#[test]
fn in_an_overload_both_queues_drop() {
    let (mark, drop) = fates(0.7, true, Ecn::Ect1);
    assert!((drop - 0.49).abs() < 0.006 && (mark + drop - 1.0).abs() < 1e-9);
    let (mark, drop) = fates(0.7, false, Ecn::Ect0);
    assert!((drop - 0.49).abs() < 0.006 && mark == 0.0);
}

#[test]
fn ect1_and_ce_have_the_low_latency_queue() {
    let mut lab = lab();
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        lab.arrive(0, 1, 1_500, ecn);
    }
    assert_eq!((lab.queue.classic.packets(), lab.queue.low_latency.packets()), (2, 2));
    assert_eq!([(); 4].map(|()| lab.leave(0, 1_500).unwrap()), [2, 3, 0, 1]);
    assert_eq!(lab.leave(0, 1_500), None);
}

#[test]
fn low_latency_packets_that_wait_longer_than_the_threshold_are_marked() {
    let mut lab = lab();
    lab.arrive(0, 2, 1_500, Ecn::Ect1);
    assert_eq!(lab.leave_whole(1, 1_500).unwrap().ecn, Ecn::Ect1);
    assert_eq!(lab.leave_whole(2, 1_500).unwrap().ecn, Ecn::Ce);
    assert_eq!(lab.met(Seen::Marked), [(2, 1)]);
    // A mark is reported once; the threshold does not apply to classic packets.
    lab.arrive(3, 1, 1_500, Ecn::Ce);
    lab.arrive(3, 1, 1_500, Ecn::Ect0);
    assert_eq!(lab.leave_whole(10, 1_500).unwrap().ecn, Ecn::Ce);
    assert_eq!(lab.leave_whole(10, 1_500).unwrap().ecn, Ecn::Ect0);
    assert_eq!(lab.met(Seen::Marked), []);
}

/// On a slow link, a packet leaves later than the threshold even if it finds only one packet before it.
#[test]
fn the_threshold_counts_for_packets_that_find_enough_of_them_waiting() {
    let config = DualPi2Config { min_qlen_step: 2, ..CONFIG };
    let queue = DualPi2::new(config, QueueSize::Packets(200), outlet(1_500), SEED.stream("test"));
    let mut lab = QueueLab::new(queue);
    // Classic packets do not count.
    lab.arrive(0, 3, 100, Ecn::NotEct);
    lab.arrive(0, 3, 100, Ecn::Ect1);
    let left: Vec<_> = (2..8).map(|at_ms| lab.leave_whole(at_ms, 1_500).unwrap().ecn).collect();
    assert_eq!(left.iter().filter(|ecn| **ecn == Ecn::Ect1).count(), 2);
    assert_eq!(left.iter().filter(|ecn| **ecn == Ecn::Ce).count(), 1, "the third found two");
    // Whether the threshold applies is decided at the arrival of a packet, not at its departure.
    lab.arrive(10, 1, 100, Ecn::Ect1);
    lab.arrive(11, 2, 100, Ecn::Ect1);
    let left: Vec<_> = (12..15).map(|at_ms| lab.leave_whole(at_ms, 1_500).unwrap().ecn).collect();
    assert_eq!(left, [Ecn::Ect1, Ecn::Ect1, Ecn::Ce]);
}

/// Section 4.2.2: a weighted scheduler keeps the classic queue from starving.
#[test]
fn a_tenth_of_the_bytes_is_classic_while_both_wait() {
    let mut lab = lab();
    lab.queue.pi.next_update = Instant::MAX;
    lab.arrive(0, 60, 1_500, Ecn::NotEct);
    lab.arrive(0, 120, 750, Ecn::Ect1);
    let left: Vec<u64> = (0..110).map(|_| lab.leave(0, 1_500).unwrap()).collect();
    let classic = left.iter().filter(|serial| **serial < 60).count();
    // 5 classic packets of 1500 bytes and 90 others of 750: classic packets have a tenth of the bytes. The
    // credit starts with 80 packets of debt.
    assert_eq!((left[0], classic), (60, left.len() - 105), "{left:?}");
    let gaps: Vec<usize> = (0..110).filter(|at| left[*at] < 60).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] - pair[0] == 19), "{gaps:?}");
}

#[test]
fn a_dropped_packet_makes_way_for_the_next_at_once() {
    let mut lab = QueueLab::new(with_probability(1.0));
    lab.queue.pi.next_update = Instant::MAX;
    lab.arrive(0, 5, 1_500, Ecn::NotEct);
    // With at most two packets after it, no packet is dropped.
    assert_eq!(lab.leave(0, 1_500), Some(3));
    assert_eq!(lab.met(Seen::Dropped(DropCause::DualPi2)), [(0, 0), (0, 1), (0, 2)]);
    assert_eq!((lab.leave(0, 1_500), lab.leave(0, 1_500)), (Some(4), None));
}

#[test]
fn the_limit_is_that_of_both_queues_and_room_that_of_the_largest_packet() {
    let limit = QueueSize::Packets(2);
    let mut lab = QueueLab::new(DualPi2::new(CONFIG, limit, outlet(1_500), SEED.stream("test")));
    lab.arrive(0, 1, 100, Ecn::Ect1);
    lab.arrive(0, 2, 100, Ecn::Ect0);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(0, 2)]);
    assert_eq!(lab.leave(0, 1_499), None);
    assert_eq!(lab.leave(0, 1_500), Some(0));
}
