//! Cached metrics per destination: stored at the end, read at the start.

use lasthop_tcp::CachedMetrics;

use crate::wire::{INFINITE, Wire, config, numbers};

/// A path of 600 ms that has been measured, window threshold `ssthresh`.
fn measured(ssthresh: u32) -> CachedMetrics {
    CachedMetrics { ssthresh, cwnd: 10, srtt_8: 60 * 8, rttvar_4: 120, reordering: 0 }
}

fn opened(ssthresh: u32, timestamps: bool) -> Wire {
    Wire::open_with_cache(&config(|c| c.timestamps = timestamps), 60, Some(&measured(ssthresh)))
}

fn stored(wire: &Wire, mut cache: CachedMetrics) -> CachedMetrics {
    wire.tcp.store_metrics(&mut cache);
    cache
}

/// Opens with `cache`, sends `segments`, and acknowledges them one by one.
fn after_transfer(cache: &CachedMetrics, segments: u64) -> Wire {
    let mut wire = Wire::open_with_cache(&config(|c| c.timestamps = true), segments, Some(cache));
    for number in 1..=segments {
        wire.wait(10);
        wire.ack(number);
    }
    wire
}

#[test]
fn initial_window_is_four_capped_by_the_cached_ssthresh() {
    assert_eq!(opened(10, true).window(), (4, 10, 4));
    assert_eq!(opened(3, true).window(), (3, 3, 3));
    assert_eq!(opened(0, true).window(), (4, INFINITE, 4), "nothing cached but the round-trip time");
}

#[test]
fn without_timestamps_a_short_timeout_is_not_trusted() {
    // 600 ms measured: the timeout stays at its initial value, and so does the window.
    let mut wire = opened(10, false);
    assert_eq!(wire.window(), (2, 10, 2));
    assert_eq!(wire.expire(), [0]);
    assert!(wire.now_millis() >= 600 + 3_000 - 1_200, "{}", wire.now_millis());
}

#[test]
fn empty_cache_changes_nothing() {
    let config = config(|c| c.timestamps = true);
    let wire = Wire::open_with_cache(&config, 60, Some(&CachedMetrics::default()));
    assert_eq!(wire.window(), (2, INFINITE, 2));
    let mut plain = Wire::open(&config, 60);
    assert_eq!(plain.ack(1), numbers(2, 4));
}

#[test]
fn slow_start_to_the_end_raises_a_stored_ssthresh_only() {
    let wire = after_transfer(&CachedMetrics::default(), 20);
    let (cwnd, ssthresh, _) = wire.window();
    assert_eq!(ssthresh, INFINITE);
    assert!(cwnd > 10, "{cwnd}");
    assert_eq!(stored(&wire, CachedMetrics::default()).ssthresh, 0);
    assert_eq!(stored(&wire, measured(3)).ssthresh, cwnd / 2);
    assert_eq!(stored(&wire, measured(50)).ssthresh, 50);
    assert_eq!(stored(&wire, measured(3)).cwnd, cwnd);
}

#[test]
fn undisturbed_close_above_ssthresh_stores_half_the_window_or_ssthresh() {
    for (segments, cwnd, expected) in [(20, 7, 4), (60, 10, 5)] {
        let wire = after_transfer(&measured(4), segments);
        assert_eq!(wire.window(), (cwnd, 4, 0));
        assert_eq!(stored(&wire, measured(9)).ssthresh, expected, "lowered too");
        assert_eq!(stored(&wire, CachedMetrics::default()).ssthresh, expected);
        assert_eq!(stored(&wire, measured(9)).cwnd, u32::midpoint(10, cwnd));
    }
}

#[test]
fn disturbed_close_raises_a_stored_ssthresh_only() {
    // Fast recovery just ended: window = ssthresh = 4.
    let mut wire = Wire::open(
        &config(|c| {
            c.initial_window = 8;
            c.timestamps = true;
        }),
        60,
    );
    wire.wait(600);
    wire.ack(1);
    for end in 3..=5 {
        wire.sack(1, &[(2, end)]);
    }
    wire.wait(100);
    wire.ack_echoing(12, &[], 1, 1);
    assert_eq!(wire.window().1, 4);
    assert_eq!(stored(&wire, CachedMetrics::default()).ssthresh, 0, "nothing to raise");
    assert_eq!(stored(&wire, measured(3)).ssthresh, 4);
    assert_eq!(stored(&wire, measured(9)).ssthresh, 9);
    assert_eq!(stored(&wire, measured(9)).cwnd, u32::midpoint(10, 4));
}

#[test]
fn round_trip_time_is_smoothed_into_the_cache() {
    let mut wire = Wire::open(&config(|c| c.timestamps = true), 2);
    wire.wait(600);
    wire.ack(2);
    // One sample of 60 ticks twice: srtt_8 = 480, mdev_4 = 120 * 3/4.
    let fresh = stored(&wire, CachedMetrics::default());
    assert_eq!((fresh.srtt_8, fresh.rttvar_4), (480, 240));
    let slower = CachedMetrics { srtt_8: 800, rttvar_4: 1_000, ..CachedMetrics::default() };
    let smoothed = stored(&wire, slower);
    // Down by an eighth of the difference; the deviation by a quarter of the way to half the difference.
    assert_eq!((smoothed.srtt_8, smoothed.rttvar_4), (800 - 320 / 8, 1_000 - (1_000 - 160) / 4));
}

#[test]
fn connection_that_ends_backed_off_forgets_the_round_trip_time() {
    let mut wire = Wire::open(&config(|_| ()), 60);
    wire.expire();
    let cached = stored(&wire, measured(9));
    assert_eq!((cached.srtt_8, cached.ssthresh), (0, 9));
    // A valid sample ends the back-off, and the metrics count again.
    wire.wait(600);
    wire.ack(1);
    assert_eq!(stored(&wire, measured(9)).srtt_8, 0, "Karn: the head was retransmitted");
    wire.ack(2);
    wire.wait(600);
    wire.ack(3);
    assert_ne!(stored(&wire, measured(9)).srtt_8, 0);
}
