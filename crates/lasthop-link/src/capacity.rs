//! The capacity of a direction of the last hop over a period.

use lasthop_core::{Duration, Instant};

use crate::config::PathConfig;
use crate::opportunities::Schedule;

/// The bytes of full IP packets that could pass over time: by the link's rates or its trace, limited by HTB.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Rate in bytes per second of IP length, with the time from which it holds; the first holds from the
    /// start.
    rates: Vec<(Instant, f64)>,
    /// The trace, and the share of its bytes that belongs to IP packets.
    trace: Option<(Schedule, f64)>,
}

impl Capacity {
    /// The capacity of one direction for IP packets of `ip_bytes` bytes.
    pub fn of(path: &PathConfig, ip_bytes: u32) -> Self {
        let framed = path.link.framing.map_or(ip_bytes, |framing| framing.bytes(ip_bytes));
        let share = f64::from(ip_bytes) / f64::from(framed);
        let shaped = path.shaped_ip_rate(ip_bytes);
        match &path.link.trace {
            Some(trace) => {
                Self { rates: vec![(Instant::ZERO, shaped / 8.0)], trace: Some((trace.clone(), share)) }
            }
            None => Self::at(&path.ip_rates(ip_bytes)),
        }
    }

    /// The capacity of these rates in bit/s of IP length, each from its time on; the first from the start.
    pub fn at(rates: &[(Instant, f64)]) -> Self {
        Self { rates: rates.iter().map(|(since, rate)| (*since, rate / 8.0)).collect(), trace: None }
    }

    /// The time that an IP packet takes at the rate that holds at `now`; zero on a recorded link, which has
    /// no rate, and during an outage.
    #[inline]
    pub fn time(&self, ip_bytes: u32, now: Instant) -> Duration {
        let rate = match self.rates[..] {
            [(_, rate)] => rate,
            ref rates => {
                let since = rates.partition_point(|(since, _)| *since <= now);
                rates[..since].last().map_or(0.0, |(_, rate)| *rate)
            }
        };
        let seconds = if rate > 0.0 { f64::from(ip_bytes) / rate } else { 0.0 };
        Duration::from_nanos((seconds * 1e9) as u64)
    }

    /// Bytes from `start` to `end`.
    pub fn bytes(&self, start: Instant, end: Instant) -> f64 {
        let ends = self.rates.iter().skip(1).map(|(since, _)| *since).chain([Instant::MAX]);
        let pieces = self.rates.iter().zip(ends).map(|((since, rate), until)| {
            let time = until.min(end).saturating_since((*since).max(start));
            if time.is_zero() { 0.0 } else { rate * time.as_secs_f64() }
        });
        let by_rate = pieces.sum();
        self.trace.as_ref().map_or(by_rate, |(trace, share)| {
            let bytes = trace.bytes_until(end).saturating_sub(trace.bytes_until(start));
            by_rate.min(bytes as f64 * share)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn it_follows_the_changes_of_the_rate() {
        let capacity = Capacity::at(&[(ms(0), 8000.0), (ms(1000), 0.0), (ms(3000), 16_000.0)]);
        let bytes =
            [(0, 1000), (500, 1500), (1500, 2500), (2000, 4000)].map(|(a, b)| capacity.bytes(ms(a), ms(b)));
        assert_eq!(bytes.map(|bytes| bytes.round() as u64), [1000, 500, 0, 2000]);
    }

    #[test]
    fn of_a_trace_it_is_what_the_opportunities_carry_round_after_round() {
        let trace = Schedule::parse("1\n1\n5\n10\n").unwrap();
        let unshaped = vec![(Instant::ZERO, f64::INFINITY)];
        let capacity = Capacity { rates: unshaped, trace: Some((trace, 1.0)) };
        // Each opportunity counts at its time, the end of the period excluded: 1, 1, 5, 10, 11, 11, 15, 20 ms
        // ...
        let bytes = [(0, 1), (0, 2), (2, 10), (10, 12), (0, 100), (995, 1000)];
        let bytes = bytes.map(|(a, b)| capacity.bytes(ms(a), ms(b)) / 1500.0);
        assert_eq!(bytes.map(|count| count.round() as u64), [0, 2, 1, 3, 39, 1]);
    }
}
