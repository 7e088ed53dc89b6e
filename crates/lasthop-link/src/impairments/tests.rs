use lasthop_core::{Direction, Distribution, Duration, Probability, Seed};

use super::*;
use crate::testing::studied_path;

const SEED: Seed = Seed { study: 19, replication: 1 };
const PACKETS: usize = 100_000;

fn link() -> LinkConfig {
    studied_path().link
}

fn chance(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

fn fates(config: &LinkConfig) -> Vec<Fate> {
    let mut impairments = Impairments::new(config, Direction::Down, SEED).unwrap();
    (0..PACKETS).map(|_| impairments.draw(Instant::ZERO, Duration::ZERO, 1500)).collect()
}

fn losses(config: &LinkConfig) -> Vec<bool> {
    fates(config).into_iter().map(|fate| fate == Fate::Lost).collect()
}

fn share(hits: &[bool]) -> f64 {
    hits.iter().filter(|hit| **hit).count() as f64 / hits.len() as f64
}

/// Lengths of the runs of lost packets.
fn bursts(lost: &[bool]) -> Vec<usize> {
    lost.chunk_by(|one, next| one == next).filter(|run| run[0]).map(<[bool]>::len).collect()
}

/// Five standard deviations of a share of independent draws.
fn margin(probability: f64) -> f64 {
    5.0 * (probability * (1.0 - probability) / PACKETS as f64).sqrt()
}

#[test]
fn a_link_without_impairments_draws_nothing() {
    assert!(Impairments::new(&link(), Direction::Down, SEED).is_none());
}

#[test]
fn each_packet_is_lost_by_itself() {
    let lost = losses(&LinkConfig { loss: Some(chance(0.02)), ..link() });
    assert!((share(&lost) - 0.02).abs() < margin(0.02));
    // The loss of the previous packet has no influence.
    let after: Vec<_> = lost.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
    assert!((share(&after) - 0.02).abs() < 0.02);
}

#[test]
fn bursts_have_the_rate_and_the_length_of_the_chain() {
    let chain = GilbertElliott {
        p: chance(0.01),
        r: chance(0.25),
        loss_bad: Probability::ONE,
        loss_good: Probability::default(),
    };
    let lost = losses(&LinkConfig { gilbert_elliott: Some(chain), ..link() });
    // The chain is bad for p / (p + r) of the packets. Its draws are correlated over about 2 / (p + r)
    // packets.
    let bad = 0.01 / 0.26;
    assert!((share(&lost) - bad).abs() < margin(bad) * (2.0_f64 / 0.26).sqrt());
    let lengths = bursts(&lost);
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    assert!((mean - 4.0).abs() < 0.4, "{mean}");
}

#[test]
fn a_packet_meets_the_state_that_the_one_before_left_behind() {
    let chain = GilbertElliott {
        p: Probability::ONE,
        r: Probability::ONE,
        loss_bad: Probability::ONE,
        loss_good: Probability::default(),
    };
    let lost = losses(&LinkConfig { gilbert_elliott: Some(chain), ..link() });
    assert_eq!(lost[..4], [false, true, false, true]);
}

#[test]
fn one_impairment_changes_nothing_of_another() {
    let jitter = Some(Distribution::Uniform { min: Duration::ZERO, max: Duration::from_millis(20) });
    let plain = fates(&LinkConfig { jitter: jitter.clone(), ..link() });
    let lossy = fates(&LinkConfig { jitter, loss: Some(chance(0.1)), corrupt: Some(chance(0.05)), ..link() });
    let delay = |fate: &Fate| match fate {
        Fate::Arrives { at, .. } => Some(*at),
        Fate::Lost => None,
    };
    assert!(plain.iter().all(|fate| delay(fate) <= Some(Instant::ZERO + Duration::from_millis(20))));
    assert!(lossy.iter().zip(&plain).all(|(one, other)| *one == Fate::Lost || delay(one) == delay(other)));
    let corrupt: Vec<_> =
        lossy.iter().map(|fate| matches!(fate, Fate::Arrives { state: State::Corrupt, .. })).collect();
    assert!((share(&corrupt) - 0.05 * 0.9).abs() < margin(0.05));
}

#[test]
fn packets_that_arrive_intact_are_doubled_by_chance() {
    let config = LinkConfig { duplicate: Some(chance(0.1)), corrupt: Some(chance(0.5)), ..link() };
    let doubled: Vec<_> = fates(&config)
        .iter()
        .map(|fate| matches!(fate, Fate::Arrives { state: State::Doubled, .. }))
        .collect();
    assert!((share(&doubled) - 0.05).abs() < margin(0.05));
}

#[test]
fn directions_draw_apart() {
    let config = LinkConfig { loss: Some(chance(0.5)), ..link() };
    let draws = |direction| {
        let mut impairments = Impairments::new(&config, direction, SEED).unwrap();
        (0..64).map(|_| impairments.draw(Instant::ZERO, Duration::ZERO, 1500)).collect::<Vec<_>>()
    };
    assert_ne!(draws(Direction::Down), draws(Direction::Up));
}
