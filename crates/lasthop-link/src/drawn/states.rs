//! States with exponential times, a Markov chain in continuous time.

use lasthop_core::{Cut, Distribution, Duration, RandomStream};

use super::row;
use crate::config::{StateConfig, States};
use crate::timetable::Row;

pub(super) fn rows(
    States { states }: &States,
    link_delay: Duration,
    mut stream: RandomStream,
    until: Duration,
) -> Vec<Row> {
    let has_delays = states.iter().any(|state| state.delay.is_some());
    let (mut rows, mut at, mut now) = (Vec::new(), Duration::ZERO, 0);
    while rows.is_empty() || at < until {
        let StateConfig { rate, delay, mean, .. } = &states[now];
        rows.push(row(at, *rate, has_delays.then_some(delay.unwrap_or(link_delay))));
        let times = Distribution::Exponential { mean: *mean, min: None, max: None, cut: Cut::default() };
        // No two rows have the same time.
        at += times.sampler().sample(&mut stream).max(Duration::from_nanos(1));
        now = following(states, now, stream.unit());
    }
    rows
}

/// The state that follows, by a number from 0 to 1.
fn following(states: &[StateConfig], now: usize, chance: f64) -> usize {
    let weight = |next: usize| match &states[now].next {
        Some(weights) => weights[next],
        None => f64::from(u8::from(next != now)),
    };
    let total: f64 = (0..states.len()).map(weight).sum();
    let mut left = chance * total;
    let is_it = |next: &usize| {
        left -= weight(*next);
        left < 0.0
    };
    // Rounding may leave something of the last.
    (0..states.len())
        .find(is_it)
        .or_else(|| (0..states.len()).rfind(|next| weight(*next) > 0.0))
        .unwrap_or(now)
}
