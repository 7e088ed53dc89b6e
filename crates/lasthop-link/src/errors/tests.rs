use lasthop_core::dist::Cut;
use lasthop_core::{Distribution, Duration, Instant};
use proptest::prelude::*;

use super::{LinkState, Period, Periods, StateTimeline};
use crate::ErrorConfig;
use crate::testing::{SEED, at_us, errors};

fn timeline(config: &ErrorConfig) -> StateTimeline {
    StateTimeline::new(config, SEED)
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
    let ends: Vec<_> = Periods::new(&config, SEED).take(5).map(|period| period.end).collect();
    assert_eq!(ends, [10_000, 15_000, 45_000, 46_000, 56_000].map(at_us));
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
    assert_eq!(timeline.known.len(), 1, "the stays before were drawn, but nobody can ask for them");
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
    assert_eq!(timeline.known.front().map(|period| period.start), Some(at_us(2_000_000)));
    timeline.prune(at_us(3_000_000));
    assert_eq!(timeline.known.front().map(|period| period.start), Some(at_us(3_000_000)));
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
    let ends = |seed| Periods::new(&config, seed).take(4).map(|period| period.end).collect::<Vec<_>>();
    assert_eq!(ends(SEED), ends(SEED));
    assert_ne!(ends(SEED), ends(other));
}

#[test]
fn good_lengths_do_not_depend_on_bad_ones() {
    let config = random_lengths();
    let longer = ErrorConfig { bad: Distribution::Static(Duration::from_secs(9)), ..config.clone() };
    let good = |config| {
        let periods = Periods::new(config, SEED).filter(|period| period.state == LinkState::Good);
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
        let stays: Vec<Period> =
            Periods::new(&config, SEED).take_while(|period| period.start <= at_us(20_000_000)).collect();
        for at in times.into_iter().map(at_us) {
            let inside = stays.iter().find(|period| period.start <= at && at < period.end);
            prop_assert_eq!(Some(timeline.state(at)), inside.map(|period| period.state));
        }
    }
}
