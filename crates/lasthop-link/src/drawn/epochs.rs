//! Epochs of the same length.

use lasthop_core::{Distribution, Duration, RandomStream, Seed};

use super::row;
use crate::config::Epochs;
use crate::timetable::Row;

/// Both directions use the same satellite in an epoch, so delays and gaps have the same draws in both; rates are
/// drawn separately.
pub(super) fn rows(
    epochs: &Epochs,
    link_delay: Duration,
    mut of_rates: RandomStream,
    seed: Seed,
    until: Duration,
) -> Vec<Row> {
    let [mut of_starts, mut of_delays, mut of_gaps] =
        ["start", "delay", "gap"].map(|what| seed.stream(&format!("link.course.{what}")));
    let mut rates = epochs.rate.sampler();
    let mut delays = epochs.delay.as_ref().map(Distribution::sampler);
    let mut gaps = epochs.gap.as_ref().map(Distribution::sampler);
    let first = epochs.start.as_ref().map(|start| start.sampler().sample(&mut of_starts));
    let (mut rows, mut at) = (Vec::new(), Duration::ZERO);
    let mut next = first.unwrap_or(epochs.every);
    let longest = Duration::from_nanos(epochs.every.as_nanos() - 1);
    while rows.is_empty() || at < until {
        let rate = rates.sample(&mut of_rates);
        let delay = delays.as_mut().map_or(link_delay, |delays| delays.sample(&mut of_delays));
        let delay = epochs.delay.is_some().then_some(delay);
        let gap = gaps.as_mut().map(|gaps| gaps.sample(&mut of_gaps).min(longest)).unwrap_or_default();
        let begins_before = rows.is_empty() && (first.is_none() || !next.is_zero());
        if !begins_before && !gap.is_zero() {
            rows.push(row(at, None, delay));
            rows.push(row(at + gap, Some(rate), delay));
        } else {
            rows.push(row(at, Some(rate), delay));
        }
        if begins_before {
            at = next;
        } else {
            next = at + epochs.every;
            at = next;
        }
    }
    rows
}
