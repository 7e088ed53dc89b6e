//! RFC 8033 by hand: alpha 0.125 Hz, beta 1.25 Hz, a target of 15 ms, updates every 15 ms.

use lasthop_core::units::QueueSize;

use super::*;
use crate::testing::{QueueLab, SEED, Seen, ms, outlet};

const CONFIG: PieConfig =
    PieConfig { target: Duration::from_millis(15), tupdate: Duration::from_millis(15), ecn: true };

fn parameters() -> PieParameters {
    PieParameters::new(CONFIG, outlet(1_500))
}

fn share(probability: u64) -> f64 {
    probability as f64 / ONE as f64
}

fn of(probability: f64) -> u64 {
    (probability * ONE as f64) as u64
}

fn millis(millis: u64) -> u64 {
    units(Duration::from_millis(millis))
}

/// Section 4.2: `alpha (delay - target) + beta (delay - delay before)`, scaled down by 2048 to 2 while the
/// probability is below 0.0001 % to 10 %.
#[test]
fn the_probability_moves_as_the_rfc_says() {
    for (before, scale) in [
        (0.0, 2_048.0),
        (0.000_005, 512.0),
        (0.000_05, 128.0),
        (0.000_5, 32.0),
        (0.005, 8.0),
        (0.05, 2.0),
        (0.2, 1.0),
    ] {
        for (delay_ms, delay_before_ms) in [(20, 10), (15, 30), (100, 98), (30, 30)] {
            let (delay, delay_before) = (millis(delay_ms), millis(delay_before_ms));
            let mut state = PieState { probability: of(before), delay, delay_before, ..PieState::START };
            state.update(&parameters(), 10_000);
            let [now, then] = [delay_ms, delay_before_ms].map(|delay| delay as f64 / 1e3);
            let expected = (before + (0.125 * (now - 0.015) + 1.25 * (now - then)) / scale).max(0.0);
            let found = share(state.probability);
            assert!(
                (found - expected).abs() < 1e-4 * (expected - before).abs() + 1e-12,
                "{found}, not {expected}"
            );
            assert_eq!(state.delay_before, delay);
        }
    }
}

#[test]
fn from_a_tenth_on_it_rises_by_2_per_cent_at_most_and_by_2_more_above_250_ms() {
    for (before, delay_ms, rise) in [(0.2, 200, 0.02), (0.2, 260, 0.04), (0.05, 260, 0.02 + 0.177_812_5)] {
        let mut state = PieState { probability: of(before), delay: millis(delay_ms), ..PieState::START };
        state.update(&parameters(), 10_000);
        assert!((share(state.probability) - before - rise).abs() < 1e-5, "{}", share(state.probability));
    }
}

/// Section 4.2, by 2 % then: Linux takes a 64th.
#[test]
fn without_delay_it_decays() {
    let mut state = PieState { probability: of(0.5), ..PieState::START };
    state.update(&parameters(), 0);
    let expected = (0.5 - 0.125 * 0.015) * 63.0 / 64.0;
    assert!((share(state.probability) - expected).abs() < 1e-6);
    // A queue of less than a packet's time does not raise it.
    let mut state = PieState { probability: of(0.5), ..PieState::START };
    state.update(&parameters(), 100);
    assert!((share(state.probability) - (0.5 - 0.125 * 0.015)).abs() < 1e-6);
}

/// Section 4.1: no drops while a burst may pass, in a short queue, or below half the target unless the
/// probability is high.
#[test]
fn what_is_safe_from_chance() {
    let certain = PieState { probability: ONE, burst_allowance: 0, delay: millis(10), ..PieState::START };
    let mut stream = SEED.stream("red.down");
    let mut hits = |state: PieState, backlog| state.clone().hits(&parameters(), backlog, &mut stream);
    assert!(hits(certain, 3_000));
    assert!(!hits(certain, 2_999));
    assert!(!hits(PieState { burst_allowance: 1, ..certain }, 9_000));
    let low = PieState { probability: of(0.19), accumulated: ONE * 9, ..certain };
    assert!(hits(low, 9_000));
    assert!(!hits(PieState { delay: millis(7), ..low }, 9_000));
    assert!(hits(PieState { delay: millis(7), probability: of(0.21), ..low }, 9_000));
}

/// Section 5.4: with a probability of 0.1 the next drop is never before the ninth packet, and never after the
/// 85th.
#[test]
fn drops_come_evenly_spread() {
    let mut stream = SEED.stream("red.down");
    let mut state =
        PieState { probability: of(0.1), burst_allowance: 0, delay: millis(20), ..PieState::START };
    let (mut gaps, mut gap) = (Vec::new(), 0);
    while gaps.len() < 2_000 {
        gap += 1;
        if state.hits(&parameters(), 9_000, &mut stream) {
            state.accumulated = 0;
            gaps.push(gap);
            gap = 0;
        }
    }
    assert_eq!(gaps.iter().min(), Some(&9));
    assert!(*gaps.iter().max().unwrap() <= 86);
    // Eight safe packets, then a geometric number with a mean of 10: within four standard deviations.
    let mean = f64::from(gaps.iter().sum::<i32>()) / gaps.len() as f64;
    assert!((mean - 18.0).abs() < 4.0 * (90.0_f64 / 2_000.0).sqrt(), "{mean}");
}

fn lab(limit: u32) -> QueueLab<Pie> {
    let queue = DropTail::new(QueueSize::Packets(limit), outlet(1_500));
    QueueLab::new(Pie::new(CONFIG, outlet(1_500), SEED.stream("red.down"), queue))
}

/// Section 4.4: 150 ms of departures pass at any delay; then the probability takes effect.
#[test]
fn a_burst_passes_and_an_overload_does_not() {
    let mut lab = lab(1_000);
    for step in 0..1_000_u64 {
        // Twice the rate of the link.
        lab.arrive(12 * step, 2, 1_500, Ecn::NotEct);
        lab.leave(12 * step, 1_500);
    }
    let drops = lab.met(Seen::Dropped(DropCause::Pie));
    assert!(drops[0].0 > 150, "{:?}", drops[0]);
    let late = drops.iter().filter(|drop| drop.0 > 6_000).count();
    assert!((400..=600).contains(&late), "half of a thousand: {late}");
}

#[test]
fn with_ecn_it_marks_up_to_a_tenth_and_drops_above() {
    let mut lab = lab(1_000);
    for (probability, seen) in [(0.09, Seen::Marked), (0.11, Seen::Dropped(DropCause::Pie))] {
        let state = PieState {
            probability: of(probability),
            accumulated: 9 * ONE,
            burst_allowance: 0,
            ..PieState::START
        };
        lab.queue.control.state = PieState { delay: millis(20), ..state };
        lab.queue.control.next_update = ms(1_000);
        lab.arrive(0, 4, 1_500, Ecn::Ect0);
        assert_eq!(lab.met(seen).len(), if seen == Seen::Marked { 2 } else { 1 });
    }
}

/// Missed updates lead to the same state as updates on time.
#[test]
fn a_long_pause_ends_in_rest() {
    let with = parameters();
    let mut control = PieControl::new(&with);
    control.state = PieState { probability: of(0.3), delay: millis(20), ..PieState::START };
    control.departure(ms(0), ms(0), 0);
    control.advance(&with, ms(86_400_000), 0);
    assert_eq!(control.state, PieState::START);
    assert_eq!(control.next_update, ms(86_400_015));
}

#[test]
fn a_full_queue_drops_at_the_tail_and_starts_the_count_again() {
    let mut lab = lab(5);
    lab.queue.control.state.accumulated = 7;
    lab.arrive(0, 6, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(0, 5)]);
    assert_eq!(lab.queue.control.state.accumulated, 0);
}
