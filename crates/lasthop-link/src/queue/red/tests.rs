use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, Duration, Ecn, Instant, QueueDepth, Rate};

use super::{Judge, Red, Verdict};
use crate::discipline::Outlet;
use crate::testing::{SEED, outlet, red};

fn second(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

fn new(config: &crate::RedConfig) -> Red {
    Red::new(
        config,
        Outlet { rate: Rate::from_bits_per_second(64_000), ..outlet(1_500) },
        SEED.stream("red.down"),
    )
}

/// RED's verdict on a packet that finds this number of packets and bytes.
fn judge(red: &mut Red, now: Instant, packets: u32, bytes: u32, ecn: Ecn) -> Verdict {
    red.judge(now, QueueDepth { packets, bytes, class: 0, class_packets: packets, average: f64::NAN }, ecn)
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

#[test]
fn average_moves_by_the_weight_towards_the_queue() {
    let mut red = new(&red(100, 200, 0.1, 0.5));
    for (packets, average) in [(4, 2.0), (4, 3.0), (1, 2.0), (10, 6.0)] {
        judge(&mut red, second(1), packets, 0, Ecn::NotEct);
        assert_near(red.average(), average);
    }
}

#[test]
fn average_counts_bytes_if_the_thresholds_do() {
    let mut config = red(0, 0, 0.1, 0.25);
    (config.min, config.max) = (QueueSize::Bytes(10_000), QueueSize::Bytes(20_000));
    let mut red = new(&config);
    judge(&mut red, second(1), 2, 1_152, Ecn::NotEct);
    assert_near(red.average(), 288.0);
}

#[test]
fn empty_queue_decays_the_average_by_the_packets_that_could_have_left() {
    let mut red = new(&red(100, 200, 0.1, 0.5));
    judge(&mut red, second(1), 4, 0, Ecn::NotEct);
    judge(&mut red, second(1), 4, 0, Ecn::NotEct);
    red.queue_emptied(second(2));
    // 250 ms of idle time are two and a half packets of 100 ms: 3 * 0.5^2.5.
    judge(&mut red, second(2) + Duration::from_millis(250), 0, 0, Ecn::NotEct);
    assert_near(red.average(), 3.0 * 0.176_776_695_296_636_87);
}

/// The router of iip2004: `tc qdisc ... red limit 11000 min 2000 max 6000 avpkt 500 probability 0.1`.
#[test]
fn avpkt_is_the_packet_that_could_have_left() {
    let mut config = red(0, 0, 0.1, 0.002);
    (config.min, config.max) = (QueueSize::Bytes(2_000), QueueSize::Bytes(6_000));
    (config.idle_packet_time, config.avpkt) = (None, Some(Bytes(500)));
    let mut red = new(&config);
    for _ in 0..2_000 {
        judge(&mut red, second(1), 5, 2_880, Ecn::NotEct);
    }
    let busy = red.average();
    assert!((2_820.0..2_880.0).contains(&busy), "{busy}");
    red.queue_emptied(second(1));
    // 500 bytes take 62.5 ms at 64 kbit/s: 16 packets in a second.
    judge(&mut red, second(2), 0, 0, Ecn::NotEct);
    assert_near(red.average() / busy, libm::pow(0.998, 16.0));
}

/// Unlike the paper's byte mode, but like Linux' `red`: a short packet is as likely to be hit as a long one.
#[test]
fn in_bytes_the_average_is_of_the_backlog_before_the_packet_and_the_thresholds_are_bytes() {
    let mut config = red(0, 0, 1.0, 1.0);
    (config.min, config.max) = (QueueSize::Bytes(2_000), QueueSize::Bytes(6_000));
    let mut red = new(&config);
    assert_eq!(judge(&mut red, second(1), 3, 1_999, Ecn::NotEct), Verdict::Pass);
    assert_eq!(judge(&mut red, second(1), 150, 6_000, Ecn::Ect0), Verdict::Drop);
    let mut hits = |bytes| {
        (0..4_000).filter(|_| judge(&mut red, second(1), 9, bytes, Ecn::NotEct) == Verdict::Drop).count()
    };
    // Hits come every 1/p_b packets at most: uniformly spread over that, about 2 p_b of them.
    let (near_min, near_max) = (hits(2_400), hits(5_600));
    assert!((600..=1_000).contains(&near_min), "{near_min}");
    assert!(near_max > 3_600, "{near_max}");
}

#[test]
fn packets_that_pass_straight_through_count_the_idle_time_once() {
    let config = red(100, 200, 0.1, 0.002);
    let mut often = new(&config);
    judge(&mut often, second(1), 1_000, 0, Ecn::NotEct);
    often.queue_emptied(second(1));
    let mut once = often.clone();
    for n in 2..=10 {
        judge(&mut often, second(n), 0, 0, Ecn::NotEct);
    }
    judge(&mut once, second(10), 0, 0, Ecn::NotEct);
    assert_near(once.average(), 2.0 * 0.835_119_675_573_912_3);
    assert_near(often.average(), once.average());
}

#[test]
fn probability_grows_with_the_count_since_the_last_hit() {
    let mut red = new(&red(2, 7, 0.1, 1.0));
    red.average = 4.0;
    // p_b = 0.1 * (4 - 2) / (7 - 2) = 0.04.
    for (count, probability) in
        [(0, 0.04), (1, 0.04 / 0.96), (12, 0.04 / 0.52), (24, 1.0), (25, 1.0), (30, 1.0)]
    {
        red.count = count;
        assert_near(red.probability(), probability);
    }
}

/// Method 2 of Floyd and Jacobson 1993 (uniform random variables). Their figure 2 raises the count
/// before it is used, so with `p_b` = 1/25 the gaps are 1 to 24; only the first, from count -1, can be 25.
#[test]
fn gaps_between_hits_are_uniform() {
    let mut red = new(&red(2, 7, 0.1, 1.0));
    let mut gaps = [0_u32; 26];
    let mut gap = 0;
    for _ in 0..120_000 {
        gap += 1;
        if judge(&mut red, second(1), 4, 0, Ecn::NotEct) == Verdict::Drop {
            gaps[gap] += 1;
            gap = 0;
        }
    }
    let hits: u32 = gaps[1..=24].iter().sum();
    assert!((9_400..=9_800).contains(&hits), "{hits} hits, 120000 / 12.5 expected");
    assert_eq!(gaps[0], 0);
    assert!(gaps[25] <= 1, "only the first gap can be 25");
    for (gap, &seen) in gaps.iter().enumerate().take(25).skip(1) {
        assert!((300..=500).contains(&seen), "gap {gap} seen {seen} times, 400 expected");
    }
}

#[test]
fn below_the_lower_threshold_everything_passes_and_the_count_starts_anew() {
    let mut red = new(&red(2, 7, 1.0, 1.0));
    red.count = 5;
    assert_eq!(judge(&mut red, second(1), 1, 0, Ecn::NotEct), Verdict::Pass);
    assert_eq!(red.count, -1);
    // On the threshold p_b is 0, but the packet is counted.
    assert_eq!(judge(&mut red, second(1), 2, 0, Ecn::NotEct), Verdict::Pass);
    assert_eq!(red.count, 0);
}

#[test]
fn from_the_upper_threshold_everything_is_dropped_even_with_ecn() {
    let mut config = red(2, 7, 0.1, 1.0);
    config.ecn = true;
    let mut red = new(&config);
    red.count = 5;
    assert_eq!(judge(&mut red, second(1), 7, 0, Ecn::Ect0), Verdict::Drop);
    assert_eq!(red.count, 0);
}

#[test]
fn without_harddrop_ecn_capable_packets_are_marked_from_the_upper_threshold() {
    let mut config = red(2, 7, 0.1, 1.0);
    (config.ecn, config.harddrop) = (true, false);
    let mut abrupt = new(&config);
    assert_eq!(judge(&mut abrupt, second(1), 7, 0, Ecn::Ect0), Verdict::Mark);
    assert_eq!(judge(&mut abrupt, second(1), 7, 0, Ecn::NotEct), Verdict::Drop);
    config.gentle = true;
    let mut gentle = new(&config);
    gentle.count = 100; // The next packet is hit for sure.
    assert_eq!(judge(&mut gentle, second(1), 8, 0, Ecn::Ect0), Verdict::Mark);
}

#[test]
fn ecn_marks_capable_packets_and_drops_others() {
    let mut config = red(2, 7, 1.0, 1.0);
    for (ecn_on, ecn, verdict) in [
        (true, Ecn::Ect0, Verdict::Mark),
        (true, Ecn::NotEct, Verdict::Drop),
        (false, Ecn::Ect0, Verdict::Drop),
    ] {
        config.ecn = ecn_on;
        let mut red = new(&config);
        red.count = 3; // p_b = 0.4, so the fourth packet is hit for sure.
        assert_eq!(judge(&mut red, second(1), 4, 0, ecn), verdict);
        assert_eq!(red.count, 0);
    }
}

/// Floyd 2000: between `max` and twice `max` the probability rises from `max_probability` to 1; marks end at
/// `max`.
#[test]
fn the_gentle_variant_rises_to_one_at_twice_the_upper_threshold() {
    let mut config = red(2, 7, 0.1, 1.0);
    (config.gentle, config.ecn) = (true, true);
    let mut red = new(&config);
    red.count = 0;
    for (average, probability) in [(7.0, 0.1), (10.5, 0.55), (13.999, 0.1 + 0.9 * 6.999 / 7.0)] {
        red.average = average;
        assert_near(red.probability(), probability);
    }
    red.count = 1_000;
    assert_eq!(judge(&mut red, second(1), 6, 0, Ecn::Ect0), Verdict::Mark);
    red.count = 1_000;
    assert_eq!(judge(&mut red, second(1), 13, 0, Ecn::Ect0), Verdict::Drop);
    let hits = |packets, red: &mut Red| {
        (0..4_000).filter(|_| judge(red, second(1), packets, 0, Ecn::NotEct) == Verdict::Drop).count()
    };
    assert!(hits(8, &mut red) < 2_500);
    assert_eq!(hits(14, &mut red), 4_000);
}

/// Floyd, Gummadi and Shenker 2001, section 3.3: every half second, the probability grows by the smaller of
/// 0.01 and a quarter if the average is above the target, and shrinks by a tenth if below.
#[test]
fn the_adaptive_variant_moves_the_probability_twice_a_second() {
    let mut config = red(10, 20, 0.02, 1.0);
    config.adaptive = true;
    let mut adaptive = new(&config);
    let mut after = |millis, packets| {
        judge(&mut adaptive, Instant::ZERO + Duration::from_millis(millis), packets, 0, Ecn::NotEct);
        adaptive.max_probability
    };
    // The average is that of the previous arrival.
    for (millis, packets, probability) in [
        (499, 17, 0.02),
        (500, 17, 0.025),
        (1_400, 17, 0.031_25),
        (1_500, 15, 0.039_062_5),
        (2_999, 15, 0.039_062_5),
        (3_000, 13, 0.039_062_5),
        (4_000, 17, 0.039_062_5 * 0.81),
    ] {
        assert_near(after(millis, packets), probability);
    }
    assert_near(after(4_500, 17), 0.039_062_5 * 0.81 * 1.25);
    // In a long overload it reaches a half; after a long pause, a hundredth.
    assert!((0.5..=0.51).contains(&after(60_000, 19)));
    adaptive.queue_emptied(second(60));
    let mut after = |seconds| {
        judge(&mut adaptive, second(seconds), 0, 0, Ecn::NotEct);
        adaptive.max_probability
    };
    let low = after(1_000);
    assert!((0.009..0.01).contains(&low), "{low}");
    assert_near(after(1_000_000), low);
}
