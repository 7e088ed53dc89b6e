use lasthop_core::{Bytes, DropCause, Duration, Ecn, Faults, Instant, Rate};
use proptest::prelude::*;

use super::*;
use crate::config::PathConfig;
use crate::testing::{Lab, at_us, studied_path};

fn policer(bits_per_second: u64, burst: u64) -> PolicerConfig {
    PolicerConfig { rate: Rate::from_bits_per_second(bits_per_second), burst: Bytes(burst) }
}

fn policed(bits_per_second: u64, burst: u64) -> PathConfig {
    PathConfig { policer: Some(policer(bits_per_second, burst)), ..studied_path() }
}

/// 8 kbit/s are a byte in each millisecond.
#[test]
fn the_bucket_worked_by_hand() {
    let mut bucket = Policer::new(policer(8_000, 1_500));
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    // Time, bytes, whether it passes, and the tokens that are left, in bytes.
    for (millis, bytes, passes, left) in [
        (0, 1_000, true, 500),
        (0, 501, false, 500),
        (0, 500, true, 0),
        (499, 500, false, 499),
        (500, 500, true, 0),
        (600, 40, true, 60),
        (5_000, 1_500, true, 0),
        (5_001, 1, true, 0),
    ] {
        assert_eq!(bucket.passes(at(millis), bytes), passes, "{millis} ms, {bytes} B");
        assert_eq!(bucket.tokens, left * 8 * NANOS, "{millis} ms, {bytes} B");
    }
}

#[test]
fn what_finds_no_token_is_dropped_before_the_queue() {
    let mut lab = Lab::new(&policed(46_080, 1_152), None);
    // 46 080 bit/s are 576 bytes every 100 ms, and the bucket holds two such packets.
    lab.burst(Instant::ZERO, 3);
    lab.burst(at_us(99_999), 1);
    lab.burst(at_us(100_000), 2);
    lab.run();
    let dropped = [(0, 2), (99_999, 3), (100_000, 5)].map(|(us, packet)| (at_us(us), packet));
    assert_eq!(lab.dropped(DropCause::Policer), dropped);
    assert_eq!(lab.delivered().iter().map(|(_, packet)| *packet).collect::<Vec<_>>(), [0, 1, 4]);
    assert!(lab.arena.is_empty());
}

#[test]
fn a_policer_with_tokens_left_changes_nothing() {
    let runs = [studied_path(), policed(1_000_000, 10_000)].map(|config| {
        let mut lab = Lab::new(&config, None);
        for packet in 0..50 {
            lab.send(at_us(packet * 50_000), 100 + packet as u32, Ecn::NotEct);
        }
        lab.run();
        lab.log.lines
    });
    assert!(runs[0].len() > 100);
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn a_bucket_without_room_for_a_packet_is_refused() {
    let faults = |burst| Faults::collect(|faults| policed(8_000, burst).check(Bytes(576), faults));
    assert_eq!(faults(576), []);
    assert_eq!(faults(575)[0].key, "policer.burst");
    assert_eq!(faults(1_000_000_001)[0].key, "policer.burst");
}

proptest! {
    /// What passes in any period is at most what the bucket holds and what flows into it; a packet is dropped
    /// only if the bucket is nearly empty.
    #[test]
    fn no_period_carries_more_than_rate_and_burst(
        rate in 1_000_u64..10_000_000,
        burst in 1_500_u64..100_000,
        packets in prop::collection::vec((0_u64..50_000_000, 20_u32..=1_500), 1..200),
    ) {
        let mut bucket = Policer::new(policer(rate, burst));
        let (mut now, mut passed) = (Instant::ZERO, Vec::new());
        for (pause, bytes) in packets {
            now += Duration::from_nanos(pause);
            if bucket.passes(now, bytes) {
                passed.push((now, u128::from(bytes)));
            }
            for (first, (start, _)) in passed.iter().enumerate() {
                let bits: u128 = passed[first..].iter().map(|(_, bytes)| bytes * 8).sum();
                let time = u128::from(now.saturating_since(*start).as_nanos());
                prop_assert!(
                    bits * u128::from(NANOS) <= u128::from(burst * 8 * NANOS) + u128::from(rate) * time
                );
            }
        }
        // The bucket fills up again, and takes a burst at once.
        now += Duration::from_secs(1_000);
        prop_assert!(bucket.passes(now, burst.min(u64::from(u32::MAX)) as u32));
        prop_assert!(!bucket.passes(now, 1));
    }
}
