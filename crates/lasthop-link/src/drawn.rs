//! Random courses: from a description and a seed to a table.

use lasthop_core::{Direction, Duration, RandomStream, Rate, Seed};

use crate::config::{DrawnCourse, LinkConfig};
use crate::timetable::{Row, Timetable};

mod epochs;
mod states;
#[cfg(test)]
mod tests;
mod walk;

/// Rates of tables end here.
const RATE_MAX: f64 = 1e12;

impl DrawnCourse {
    /// The course of a direction of `link` until `until`, and at least one row. Rates and states have the
    /// stream `link.down.course`, or with `up`; what both directions share, `link.course.start`, `.delay` and
    /// `.gap`.
    pub fn draw(&self, link: &LinkConfig, direction: Direction, seed: Seed, until: Duration) -> Timetable {
        let own = seed.stream(&format!("link.{}.course", direction.name()));
        let mut rows = match self {
            Self::Epochs(epochs) => epochs::rows(epochs, link.delay, own, seed, until),
            Self::Walk(walk) => walk::rows(walk, own, until),
            Self::States(states) => states::rows(states, link.delay, own, until),
        };
        // A table ends with a rate. The run is over by then.
        if let Some(last) = rows.last().copied()
            && last.rate.is_none()
        {
            rows.push(Row {
                at: until.max(last.at + Duration::from_nanos(1)),
                rate: Some(link.rate),
                ..last
            });
        }
        Timetable::new(rows)
    }
}

const fn row(at: Duration, rate: Option<Rate>, delay: Option<Duration>) -> Row {
    Row { at, rate, delay, loss: None, bit_error_rate: None }
}

/// A draw from the standard normal distribution (Box and Muller 1958).
fn normal(stream: &mut RandomStream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.unit()));
    radius * libm::cos(std::f64::consts::TAU * stream.unit())
}
