//! A rate whose logarithm is a mean-reverting walk (an Ornstein-Uhlenbeck process). At the steps its
//! values are exact for any step length: an autoregressive process of the first order.

use lasthop_core::{Duration, RandomStream, Rate};

use super::{RATE_MAX, normal, row};
use crate::config::Walk;
use crate::timetable::Row;

pub(super) fn rows(walk: &Walk, mut stream: RandomStream, until: Duration) -> Vec<Row> {
    let Walk { mean, spread, time_constant, step } = *walk;
    // The mean of a log-normal distribution is exp(m + s²/2).
    let middle = libm::log(mean.bits_per_second() as f64) - spread * spread / 2.0;
    let decay = libm::exp(-step.as_secs_f64() / time_constant.as_secs_f64());
    let fresh = spread * libm::sqrt(1.0 - decay * decay);
    let (mut rows, mut at) = (Vec::new(), Duration::ZERO);
    // The process is stationary, so the first value has the stationary distribution.
    let mut away = spread * normal(&mut stream);
    while rows.is_empty() || at < until {
        let bits = libm::round(libm::exp(middle + away)).clamp(1.0, RATE_MAX);
        rows.push(row(at, Some(Rate::from_bits_per_second(bits as u64)), None));
        away = decay * away + fresh * normal(&mut stream);
        at += step;
    }
    rows
}
