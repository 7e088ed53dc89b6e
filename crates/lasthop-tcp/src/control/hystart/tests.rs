use super::*;
use crate::config::{Profile, TcpConfig};
use crate::control::{Congestion, Control, Counting};

type Slow = HyStartPlusPlus<Reno<Segments>>;

fn setup(config: &TcpConfig, window: u32) -> Setup<'_> {
    let mut segments = Segments::new(config, 1_460, Counting::Segments);
    segments.set(window);
    Setup::new(config, segments, 250, 1_460)
}

fn slow(window: u32) -> Slow {
    let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    let mut slow = Slow::new(setup(&config, window));
    slow.on_start(&at(0), 1);
    slow
}

/// An ACK of everything below `una`; 1000 more segments are in flight.
fn at(una: u64) -> Moment {
    Moment { us: 0, tick: 0, una, nxt: una + 1_000 }
}

fn sample(una: u64, acked: u32) -> RateSample {
    RateSample { at: at(una), acked, is_window_limited: true, rate: None }
}

/// Samples of a round, each with an ACK of one segment; the last one ends the round. Returns the window.
fn round(slow: &mut impl Controller<Window = Segments>, start: u64, rtts_ms: &[u64]) -> (u64, u32) {
    let end = start + 1_000;
    for (index, rtt) in rtts_ms.iter().enumerate() {
        let una = if index + 1 == rtts_ms.len() { end } else { start + 1 + index as u64 };
        slow.on_rtt(&at(una), rtt * 1_000);
        slow.on_ack(&sample(una, 1));
    }
    (end, slow.window())
}

/// In Conservative Slow Start since the end of a round; its baseline is 115 ms.
fn conservative() -> (Slow, u64) {
    let mut slow = slow(10);
    let (end, _) = round(&mut slow, 0, &[100; 8]);
    let (end, _) = round(&mut slow, end, &[115; 8]);
    assert_eq!(slow.rounds.css.map(|css| css.baseline_us), Some(115_000));
    (slow, end)
}

/// Section 4.2: `RttThresh` is an eighth of the round before, from 4 to 16 ms.
#[test]
fn a_delay_that_grows_by_the_threshold_ends_slow_start() {
    for (before, after, ends) in [
        (100, 112, false),
        (100, 113, true),
        (20, 23, false),
        (20, 24, true),
        (400, 415, false),
        (400, 416, true),
    ] {
        let mut slow = slow(10);
        let (end, _) = round(&mut slow, 0, &[before; 8]);
        round(&mut slow, end, &[after; 8]);
        assert_eq!(slow.rounds.css.is_some(), ends, "{before} to {after} ms");
    }
}

#[test]
fn seven_samples_do_not_tell_the_delay_of_a_round() {
    let mut slow = slow(10);
    let (end, _) = round(&mut slow, 0, &[100; 8]);
    let (end, _) = round(&mut slow, end, &[150; 7]);
    assert!(slow.rounds.css.is_none());
    // One sample as short as before makes the round count as short.
    round(&mut slow, end, &[200, 200, 200, 200, 150, 200, 200, 200, 200]);
    assert!(slow.rounds.css.is_none());
}

#[test]
fn the_window_grows_by_a_quarter_of_what_is_acknowledged() {
    let (mut slow, end) = conservative();
    // Sixteen segments, and a quarter for the one whose sample has ended slow start.
    assert_eq!(slow.window(), 10 + 15);
    let (_, window) = round(&mut slow, end, &[115; 8]);
    assert_eq!(window, 25 + 2);
}

#[test]
fn after_five_rounds_the_window_is_the_threshold() {
    let (mut slow, mut end) = conservative();
    // The round in which slow start ended counts, though only its last ACK came after that.
    for _ in 0..3 {
        (end, _) = round(&mut slow, end, &[115; 8]);
        assert_eq!(slow.ssthresh(), u32::MAX);
    }
    let (end, window) = round(&mut slow, end, &[115; 8]);
    assert_eq!((window, slow.ssthresh()), (33, 33));
    let (_, window) = round(&mut slow, end, &[115; 33]);
    assert_eq!(window, 34, "congestion avoidance");
}

#[test]
fn a_delay_below_the_baseline_resumes_slow_start() {
    let (mut slow, end) = conservative();
    let before = slow.window();
    let (end, window) = round(&mut slow, end, &[114; 8]);
    assert!(slow.rounds.css.is_none());
    // Eight quarters, one of them from the round before, and a whole segment.
    assert_eq!(window, before + 2 + 1);
    let (_, window) = round(&mut slow, end, &[114; 8]);
    assert_eq!(window, before + 3 + 8);
}

#[test]
fn an_ack_counts_for_eight_segments_at_most_unless_paced() {
    let mut plain = slow(10);
    plain.on_ack(&sample(1, 20));
    assert_eq!(plain.window(), 18);
    let mut paced = HyStartPlusPlus { is_paced: true, ..slow(10) };
    paced.on_ack(&sample(1, 20));
    assert_eq!(paced.window(), 30);
}

/// Section 4.3: later ones are standard slow starts.
#[test]
fn only_the_first_slow_start_is_another() {
    let (mut slow, end) = conservative();
    slow.on_congestion(Congestion::Loss, 30);
    slow.on_persistent(&at(end), 1);
    slow.on_ack(&sample(end + 1, 12));
    assert_eq!((slow.window(), slow.ssthresh()), (13, 15));
}

/// Linux' `HyStart` would have ended slow start at once.
#[test]
fn with_cubic_it_takes_the_place_of_linux_hystart() {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    for (is_on, rounds, ends) in [(false, 2, true), (true, 2, false), (true, 5, false), (true, 6, true)] {
        config.hystart_plus_plus = is_on;
        let mut control = Control::new(&config, setup(&config, 20));
        control.on_start(&at(0), 1);
        let (mut end, _) = round(&mut control, 0, &[100; 10]);
        for _ in 1..rounds {
            (end, _) = round(&mut control, end, &[150; 10]);
        }
        assert_eq!(control.ssthresh() < u32::MAX, ends, "{is_on}, {rounds} rounds");
    }
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut slow = slow(10);
    slow.on_ack(&RateSample { is_window_limited: false, ..sample(1, 5) });
    assert_eq!(slow.window(), 10);
}
