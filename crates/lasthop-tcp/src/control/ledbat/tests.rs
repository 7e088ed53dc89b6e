use super::*;
use crate::config::{Profile, TcpConfig};
use crate::control::{Congestion, Counting};

/// A path with this round-trip time in milliseconds.
fn ledbat(window: u32, base_ms: u64) -> LedbatPlusPlus {
    let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    let mut segments = Segments::new(&config, 1_460, Counting::Segments);
    segments.set(window);
    let mut ledbat = LedbatPlusPlus::new(Setup::new(&config, segments, 250, 1_460));
    ledbat.delays.note(0, base_ms * 1_000);
    ledbat
}

fn at(ms: u64) -> Moment {
    Moment { us: ms * 1_000, tick: ms / 4, una: 0, nxt: 0 }
}

/// An ACK of `acked` segments after a round trip of this number of milliseconds. Returns the window.
fn ack(ledbat: &mut LedbatPlusPlus, now_ms: u64, rtt_ms: u64, acked: u32) -> u32 {
    ledbat.on_rtt(&at(now_ms), rtt_ms * 1_000);
    ledbat.on_ack(&RateSample { at: at(now_ms), acked, is_window_limited: true, rate: None });
    ledbat.window()
}

/// In congestion avoidance, four samples old; no slowdown is due.
fn following(window: u32, base_ms: u64, rtt_ms: u64) -> LedbatPlusPlus {
    let mut ledbat = ledbat(window, base_ms);
    ledbat.window.set_ssthresh(window);
    ledbat.phase = LedbatPhase::Follow { slowdown_us: u64::MAX };
    (0..4).for_each(|_| ledbat.delays.note(0, rtt_ms * 1_000));
    ledbat
}

/// `GAIN = 1 / min(16, ceil(2 * TARGET / base))`.
#[test]
fn the_gain_follows_the_base_delay() {
    for (base_ms, divisor) in
        [(1, 16), (7, 16), (8, 15), (20, 6), (50, 3), (60, 2), (119, 2), (120, 1), (500, 1)]
    {
        assert_eq!(ledbat(10, base_ms).gain(), PARTS / divisor, "{base_ms} ms");
    }
}

#[test]
fn slow_start_begins_with_two_segments_and_grows_by_the_gain() {
    let mut ledbat = ledbat(10, 60);
    ledbat.on_start(&at(0), 1);
    assert_eq!(ledbat.window(), 2);
    assert_eq!([ack(&mut ledbat, 60, 60, 2), ack(&mut ledbat, 120, 60, 3)], [3, 4], "half of what arrives");
    assert_eq!(ack(&mut ledbat, 121, 60, 1), 5, "the other half");
}

/// More than three quarters of the target.
#[test]
fn a_queue_of_45_ms_ends_slow_start_and_two_round_trips_later_comes_a_slowdown() {
    let mut ledbat = ledbat(40, 120);
    for now in 0..4 {
        ack(&mut ledbat, now, 165, 1);
    }
    assert_eq!(ledbat.phase, LedbatPhase::Start, "45 ms, not more");
    for now in 4..8 {
        ack(&mut ledbat, now, 166, 1);
    }
    let LedbatPhase::Follow { slowdown_us } = ledbat.phase else { panic!("{:?}", ledbat.phase) };
    assert_eq!(slowdown_us, 7_000 + 2 * ledbat.delays.smoothed);
    let before = ledbat.window();
    ack(&mut ledbat, slowdown_us / 1_000 + 1, 130, 1);
    assert_eq!((ledbat.window(), ledbat.ssthresh()), (2, before));
}

/// The slowdown, and the next one after nine times its duration.
#[test]
fn a_slowdown_lasts_two_round_trips_and_a_slow_start() {
    let mut ledbat = following(8, 120, 120);
    ledbat.phase = LedbatPhase::Follow { slowdown_us: 1_000_000 };
    assert_eq!(ack(&mut ledbat, 1_000, 120, 1), 2);
    assert_eq!([ack(&mut ledbat, 1_120, 120, 2), ack(&mut ledbat, 1_239, 120, 2)], [2, 2], "frozen");
    assert_eq!([ack(&mut ledbat, 1_240, 120, 2), ack(&mut ledbat, 1_360, 120, 4)], [4, 8]);
    ack(&mut ledbat, 1_400, 120, 1);
    assert_eq!(ledbat.phase, LedbatPhase::Follow { slowdown_us: 1_400_000 + 9 * 400_000 });
}

#[test]
fn below_the_target_the_window_grows_by_the_gain_per_round_trip() {
    let mut ledbat = following(10, 40, 100);
    // 60 ms: GAIN is a third.
    assert_eq!([10; 2].map(|acked| ack(&mut ledbat, 0, 100, acked)), [10, 10]);
    assert_eq!(ack(&mut ledbat, 0, 100, 11), 11);
}

/// `W += max(GAIN - W * (delay / target - 1), -W / 2)` per round trip.
#[test]
fn above_the_target_it_falls_by_the_excess_and_by_half_at_most() {
    let mut by_a_quarter = following(40, 120, 195);
    // 1 - 40 / 4 = -9.
    assert_eq!(ack(&mut by_a_quarter, 0, 195, 40), 31);
    let mut by_half = following(40, 120, 500);
    assert_eq!(ack(&mut by_half, 0, 500, 40), 20);
    let mut least = following(2, 120, 500);
    assert_eq!(ack(&mut least, 0, 500, 8), 2);
}

#[test]
fn one_short_sample_of_four_tells_the_delay_and_ten_minutes_the_base() {
    let mut delays = Delays::new();
    for rtt_us in [50_000, 130_000, 90_000, 140_000, 120_000] {
        delays.note(0, rtt_us);
    }
    assert_eq!((delays.base_us(), delays.queueing_us()), (50_000, 40_000));
    for minute in 1..10 {
        delays.note(minute * MINUTE_US, 80_000 + minute);
    }
    assert_eq!(delays.base_us(), 50_000);
    delays.note(10 * MINUTE_US, 90_000);
    assert_eq!(delays.base_us(), 80_001, "the first minute is forgotten");
    delays.note(100 * MINUTE_US, 200_000);
    assert_eq!(delays.base_us(), 200_000);
}

#[test]
fn a_loss_halves_the_window() {
    let mut ledbat = following(20, 40, 60);
    ledbat.on_congestion(Congestion::Loss, 20);
    assert_eq!(ledbat.ssthresh(), 10);
}
