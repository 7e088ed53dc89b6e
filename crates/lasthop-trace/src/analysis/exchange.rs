//! Completion times of requests.

use super::take;
use crate::records::FlowRecord;
use crate::samples::Samples;
use lasthop_core::{Duration, ExchangeEvent, Instant};
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    /// Numbers of the requests whose response is not complete yet, and when they were made.
    open: VecDeque<(u64, Instant)>,
    /// Requests from the first number on count; the next request has the second number or a higher one.
    numbers: [u64; 2],
    requests: u64,
    times: Samples,
    sum: Duration,
    completed: u64,
}

impl Exchanges {
    pub fn event(&mut self, now: Instant, event: ExchangeEvent, record: &mut FlowRecord) {
        match event {
            ExchangeEvent::Requested { number } => {
                self.requests += 1;
                self.numbers[1] = number + 1;
                self.open.push_back((number, now));
            }
            ExchangeEvent::Completed { number } => {
                if let Some(request) = take(&mut self.open, number) {
                    let time = now.saturating_since(request);
                    self.completed += 1;
                    self.sum += time;
                    self.times.record(time);
                }
            }
            ExchangeEvent::Spurious { number, timeouts, retransmissions } if number >= self.numbers[0] => {
                record.spurious_timeouts += u64::from(timeouts);
                record.unnecessary_retransmissions += u64::from(retransmissions);
            }
            ExchangeEvent::Spurious { .. } => {}
        }
    }

    /// Forgets the requests so far, those that are not complete included.
    pub fn restart(&mut self) {
        *self = Self { numbers: [self.numbers[1]; 2], ..Self::default() };
    }

    pub fn finish(self, record: &mut FlowRecord) {
        record.requests = Some(self.requests);
        record.requests_completed = Some(self.completed);
        record.completion_mean_s =
            (self.completed > 0).then(|| self.sum.as_secs_f64() / self.completed as f64);
        [
            record.completion_p50_s,
            record.completion_p95_s,
            record.completion_p99_s,
            record.completion_max_s,
        ] = self.times.quantiles_s([0.5, 0.95, 0.99, 1.0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record after these events, each with its time in ms.
    fn record(events: &[(u64, ExchangeEvent)]) -> FlowRecord {
        let (mut exchanges, mut record) = (Exchanges::default(), FlowRecord::default());
        for (millis, event) in events {
            exchanges.event(Instant::from_nanos(millis * 1_000_000), *event, &mut record);
        }
        exchanges.finish(&mut record);
        record
    }

    const fn requested(number: u64) -> ExchangeEvent {
        ExchangeEvent::Requested { number }
    }

    const fn completed(number: u64) -> ExchangeEvent {
        ExchangeEvent::Completed { number }
    }

    #[test]
    fn each_completion_counts_from_its_own_request() {
        let record = record(&[
            (0, requested(0)),
            (100, completed(0)),
            (150, requested(1)),
            (200, requested(2)),
            (250, requested(3)),
            (450, completed(3)),
            (460, ExchangeEvent::Spurious { number: 0, timeouts: 2, retransmissions: 1 }),
            (800, completed(2)),
            (900, completed(2)),
        ]);
        assert_eq!((record.requests, record.requests_completed), (Some(4), Some(3)));
        assert_eq!((record.spurious_timeouts, record.unnecessary_retransmissions), (2, 1));
        assert_eq!((record.completion_mean_s, record.completion_p50_s), (Some(0.3), Some(0.2)));
        assert_eq!(record.completion_max_s, Some(0.6));
    }

    #[test]
    fn without_a_response_there_is_no_time() {
        let record = record(&[(0, requested(0))]);
        assert_eq!((record.requests, record.requests_completed), (Some(1), Some(0)));
        assert_eq!((record.completion_mean_s, record.completion_max_s), (None, None));
    }
}
