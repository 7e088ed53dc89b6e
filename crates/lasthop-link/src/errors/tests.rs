use lasthop_core::dist::Cut;
use lasthop_core::{Distribution, Duration, Instant, Seed};
use proptest::prelude::*;

use super::{LinkState, Period, Periods, StateTimeline};
use crate::config::{ErrorConfig, Start};
use crate::testing::{SEED, at_us, errors};

fn timeline(config: &ErrorConfig) -> StateTimeline {
    StateTimeline::new(config, None, SEED)
}

fn random_lengths() -> ErrorConfig {
    let exponential = |mean_ms| Distribution::Exponential {
        mean: Duration::from_millis(mean_ms),
        min: None,
        max: None,
        cut: Cut::Redraw,
    };
    ErrorConfig { good: exponential(700), bad: exponential(300), ..errors(0, 0, None) }
}

#[test]
fn starts_good_and_alternates_at_the_drawn_lengths() {
    let mut timeline = timeline(&errors(2_000, 1_000, None));
    for (at, state) in [
        (0, LinkState::Good),
        (1_999_999, LinkState::Good),
        (2_000_000, LinkState::Bad),
        (2_999_999, LinkState::Bad),
        (3_000_000, LinkState::Good),
        (5_500_000, LinkState::Bad),
    ] {
        assert_eq!(timeline.state(at_us(at)), state, "at {at} us");
    }
}

#[test]
fn sequences_of_lengths_are_followed_in_order() {
    let lengths = |ms: [u64; 2]| Distribution::Sequence(ms.map(Duration::from_millis).to_vec());
    let config = ErrorConfig { good: lengths([10, 30]), bad: lengths([5, 1]), ..errors(0, 0, None) };
    let ends: Vec<_> = Periods::new(&config, None, SEED).take(5).map(|period| period.end).collect();
    assert_eq!(ends, [10_000, 15_000, 45_000, 46_000, 56_000].map(at_us));
}

fn random_phase(config: ErrorConfig) -> ErrorConfig {
    ErrorConfig { start: Start::RandomPhase, ..config }
}

/// First stays of 4000 replications.
fn first_stays(config: &ErrorConfig) -> Vec<Period> {
    let first = |replication| Periods::new(config, None, Seed { replication, ..SEED }).next();
    (1..=4_000).filter_map(first).collect()
}

#[test]
fn a_random_phase_of_fixed_lengths_is_uniform_over_the_cycle() {
    let stays = first_stays(&random_phase(errors(3_000, 1_000, None)));
    let count = |state, from_ms: u64, to_ms: u64| {
        let range = at_us(from_ms * 1_000)..at_us(to_ms * 1_000);
        stays.iter().filter(|stay| stay.state == state && range.contains(&stay.end)).count()
    };
    // Each second of the cycle begins a quarter of the runs: 1000 with a standard deviation of 27.
    for (state, from_ms, to_ms) in [
        (LinkState::Good, 0, 1_000),
        (LinkState::Good, 1_000, 2_000),
        (LinkState::Good, 2_000, 3_001),
        (LinkState::Bad, 0, 1_001),
    ] {
        let runs = count(state, from_ms, to_ms);
        assert!((890..=1_110).contains(&runs), "{state:?} {from_ms} to {to_ms} ms: {runs}");
    }
}

#[test]
fn a_random_phase_meets_long_stays_more_often() {
    let length =
        |min, max| Distribution::Uniform { min: Duration::from_millis(min), max: Duration::from_millis(max) };
    // The mixtures of iip2004: bad 1.8 to 4 s, good 10 to 25 s.
    let config =
        ErrorConfig { good: length(10_000, 25_000), bad: length(1_800, 4_000), ..errors(0, 0, None) };
    let stays = first_stays(&random_phase(config));
    let bad: Vec<_> = stays.iter().filter(|stay| stay.state == LinkState::Bad).collect();
    // 2.9 s of 20.4 s: 568 of 4000, standard deviation 22.
    assert!((480..=660).contains(&bad.len()), "{}", bad.len());
    // Mean residual life E[L^2] / 2 E[L]: 1.52 s.
    let mean = bad.iter().map(|stay| stay.end.as_secs_f64()).sum::<f64>() / bad.len() as f64;
    assert!((1.38..1.66).contains(&mean), "{mean}");
}

#[test]
fn a_run_inside_the_first_good_state_has_what_is_left_of_it() {
    let length =
        |min, max| Distribution::Uniform { min: Duration::from_millis(min), max: Duration::from_millis(max) };
    let config = ErrorConfig {
        start: Start::InsideGood,
        good: length(10_000, 25_000),
        bad: length(1_800, 4_000),
        ..errors(0, 0, None)
    };
    let stays = first_stays(&config);
    assert!(stays.iter().all(|stay| stay.state == LinkState::Good && stay.end <= at_us(25_000_000)));
    // Half of the mean length, independently of the length: 8.75 s, standard error 0.09 s.
    let mean = stays.iter().map(|stay| stay.end.as_secs_f64()).sum::<f64>() / stays.len() as f64;
    assert!((8.4..9.1).contains(&mean), "{mean}");
    // The stays that follow are those of a run that begins with the good state.
    let follow = |config: &ErrorConfig| {
        let stays = Periods::new(config, None, SEED).skip(1).take(20);
        stays.map(|stay| (stay.state, stay.end - stay.start)).collect::<Vec<_>>()
    };
    assert_eq!(follow(&config), follow(&ErrorConfig { start: Start::Good, ..config.clone() }));
}

#[test]
fn a_random_phase_goes_on_with_the_same_sequence() {
    let config = random_lengths();
    let all: Vec<_> = Periods::new(&config, None, SEED).take(140).collect();
    let shifted: Vec<_> = Periods::new(&random_phase(config), None, SEED).take(5).collect();
    assert_eq!(shifted[0].start, Instant::ZERO);
    let length = |period: &Period| (period.state, period.end - period.start);
    let place = all.iter().position(|period| length(period) == length(&shifted[1])).unwrap();
    let whole = &all[place - 1];
    assert_eq!(whole.state, shifted[0].state);
    assert!(whole.end - whole.start >= shifted[0].end - shifted[0].start);
    assert!(all[place..].iter().zip(&shifted[1..]).all(|(a, b)| length(a) == length(b)));
}

#[test]
fn a_state_of_length_zero_is_never_met() {
    let mut always_bad = timeline(&errors(0, 10, None));
    let mut always_good = timeline(&errors(10, 0, None));
    for at in (0..100_000).step_by(5_000).map(at_us) {
        assert_eq!(always_bad.state(at), LinkState::Bad);
        assert_eq!(always_good.state(at), LinkState::Good);
    }
}

#[test]
fn what_was_pruned_is_not_kept() {
    let mut timeline = timeline(&errors(1, 1, None));
    let late = at_us(5_000_500);
    timeline.prune(late);
    assert_eq!(timeline.state(late), LinkState::Good);
    assert_eq!(timeline.stays.len(), 1, "the stays before were drawn, but nobody can ask for them");
}

#[test]
#[should_panic(expected = "all have length zero")]
fn states_that_take_no_time_are_refused_rather_than_searched_for_ever() {
    timeline(&errors(0, 0, None)).state(Instant::ZERO);
}

#[test]
fn an_endless_state_does_not_wrap() {
    let config =
        ErrorConfig { bad: Distribution::Static(Duration::from_nanos(u64::MAX)), ..errors(1, 0, None) };
    assert_eq!(timeline(&config).state(at_us(1_000_000_000_000)), LinkState::Bad);
}

#[test]
fn pruning_keeps_the_state_of_the_moment() {
    let mut timeline = timeline(&errors(2_000, 1_000, None));
    timeline.state(at_us(60_000_000));
    timeline.prune(at_us(2_500_000));
    assert_eq!(timeline.state(at_us(2_500_000)), LinkState::Bad);
    assert_eq!(timeline.state(at_us(3_000_000)), LinkState::Good);
    assert_eq!(timeline.stays.front().map(|period| period.start), Some(at_us(2_000_000)));
    timeline.prune(at_us(3_000_000));
    assert_eq!(timeline.stays.front().map(|period| period.start), Some(at_us(3_000_000)));
}

#[test]
#[should_panic(expected = "forgotten")]
fn looking_before_the_pruned_time_is_a_bug() {
    let mut timeline = timeline(&errors(2_000, 1_000, None));
    timeline.prune(at_us(2_500_000));
    timeline.state(at_us(2_499_999));
}

#[test]
fn other_replications_see_other_states() {
    let config = random_lengths();
    let other = lasthop_core::Seed { replication: 2, ..SEED };
    let ends = |seed| Periods::new(&config, None, seed).take(4).map(|period| period.end).collect::<Vec<_>>();
    assert_eq!(ends(SEED), ends(SEED));
    assert_ne!(ends(SEED), ends(other));
}

#[test]
fn good_lengths_do_not_depend_on_bad_ones() {
    let config = random_lengths();
    let longer = ErrorConfig { bad: Distribution::Static(Duration::from_secs(9)), ..config.clone() };
    let good = |config| {
        let periods = Periods::new(config, None, SEED).filter(|period| period.state == LinkState::Good);
        periods.take(5).map(|period| period.end - period.start).collect::<Vec<_>>()
    };
    assert_eq!(good(&config), good(&longer));
}

proptest! {
    #[test]
    fn lookups_in_any_order_agree_with_the_list_of_stays(
        times in prop::collection::vec(0_u64..20_000_000, 1..50),
    ) {
        let config = random_lengths();
        let mut timeline = timeline(&config);
        let end = at_us(20_000_000);
        let stays: Vec<Period> =
            Periods::new(&config, None, SEED).take_while(|period| period.start <= end).collect();
        for at in times.into_iter().map(at_us) {
            let inside = stays.iter().find(|period| period.start <= at && at < period.end);
            prop_assert_eq!(Some(timeline.state(at)), inside.map(|period| period.state));
        }
    }
}
