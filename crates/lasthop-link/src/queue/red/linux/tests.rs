use lasthop_core::{Duration, Ecn, Instant, Probability, QueueDepth};

use super::{FixedPointRed, Judge, LinuxRed, PERCENT, Verdict};
use crate::testing::SEED;

/// Thresholds of 20 and 70 kB.
fn red(max_probability: f64, weight_log: u8, ecn: bool, adaptive: bool) -> FixedPointRed {
    let max_probability = Probability::new(max_probability).unwrap();
    FixedPointRed::new(
        LinuxRed { min: 20_000, max: 70_000, max_probability, weight_log, ecn, harddrop: true, adaptive },
        SEED.stream("red"),
    )
}

fn queue(bytes: u32) -> QueueDepth {
    QueueDepth { packets: bytes / 1_000, bytes, class: 0, class_packets: 0, average: f64::NAN }
}

fn judge(red: &mut FixedPointRed, bytes: u32) -> Verdict {
    red.judge(Instant::ZERO, queue(bytes), Ecn::NotEct)
}

/// `avg + (backlog - avg / 2^W)` with the fraction kept, and an empty queue is a sample like any other,
/// regardless of how long it was empty.
#[test]
fn the_average_moves_by_a_power_of_a_half_and_not_in_idle_time() {
    let mut red = red(0.1, 1, false, false);
    for (bytes, average) in [(4_000, 4_000), (4_000, 6_000), (0, 3_000), (1, 1_501), (0, 751)] {
        judge(&mut red, bytes);
        assert_eq!(red.average, average);
        red.queue_emptied(Instant::ZERO);
    }
    assert!((red.average() - 375.5).abs() < 1e-12);
    red.judge(Instant::ZERO + Duration::from_secs(1_000), queue(0), Ecn::NotEct);
    assert_eq!(red.average, 751 - 375);
}

/// With a probability of 1/25, the next packet to be hit is number 1 to 25 after a hit: one more than in the
/// paper's figure.
#[test]
fn gaps_between_hits_are_uniform_up_to_the_inverse_of_the_probability() {
    let mut red = red(0.1, 0, false, false);
    assert_eq!(judge(&mut red, 40_000), Verdict::Pass, "the first above the threshold is spared");
    let mut gaps = [0_u32; 26];
    let mut gap = 0;
    for _ in 0..130_000 {
        gap += 1;
        if judge(&mut red, 40_000) == Verdict::Drop {
            gaps[gap] += 1;
            gap = 0;
        }
    }
    assert_eq!(gaps[0], 0);
    for (gap, &seen) in gaps.iter().enumerate().skip(1) {
        assert!((320..=480).contains(&seen), "gap {gap} seen {seen} times, 400 expected");
    }
}

#[test]
fn outside_of_the_thresholds_the_count_starts_anew() {
    let mut red = red(1.0, 0, true, false);
    let mut verdict = |bytes, ecn| red.judge(Instant::ZERO, queue(bytes), ecn);
    assert_eq!(verdict(19_999, Ecn::Ect0), Verdict::Pass);
    assert_eq!(verdict(69_999, Ecn::Ect0), Verdict::Pass, "the first one is spared");
    assert_eq!(verdict(69_999, Ecn::Ect0), Verdict::Mark);
    assert_eq!(verdict(69_999, Ecn::NotEct), Verdict::Drop);
    assert_eq!(verdict(70_000, Ecn::Ect0), Verdict::Drop, "above `max` marks end");
    assert_eq!(verdict(69_999, Ecn::Ect0), Verdict::Pass, "the first one again");
}

#[test]
fn without_harddrop_ecn_capable_packets_are_marked_above_the_thresholds() {
    let mut red = FixedPointRed { harddrop: false, ..red(1.0, 0, true, false) };
    assert_eq!(red.judge(Instant::ZERO, queue(70_000), Ecn::Ect0), Verdict::Mark);
    assert_eq!(red.judge(Instant::ZERO, queue(70_000), Ecn::NotEct), Verdict::Drop);
}

#[test]
fn the_probability_moves_every_512_ms_towards_the_middle_of_the_range() {
    let mut red = red(0.02, 0, false, true);
    let mut after = |millis, bytes| {
        red.judge(Instant::ZERO + Duration::from_millis(millis), queue(bytes), Ecn::NotEct);
        red.max_probability
    };
    let start = after(511, 60_000);
    assert_eq!(start, Probability::new(0.02).unwrap().share_of_u32());
    assert_eq!(after(512, 60_000), start + start / 4);
    assert_eq!(after(1_023, 39_999), start + start / 4);
    assert_eq!(after(1_024, 40_000), (start + start / 4) / 10 * 9);
    assert_eq!(after(1_536, 50_001), (start + start / 4) / 10 * 9, "in the middle it stays");
    // A long overload, and a long pause.
    assert!((50 * PERCENT..52 * PERCENT).contains(&after(100_000, 20_000)));
    assert!((PERCENT / 10 * 9..PERCENT).contains(&after(100_000_000, 20_000)));
}
