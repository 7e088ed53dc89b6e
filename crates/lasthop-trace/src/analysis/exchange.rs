//! Completion times of requests on a persistent connection.

use crate::records::FlowRecord;
use crate::samples::Samples;
use lasthop_core::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// When the request was made whose response is not complete yet.
    request: Option<Instant>,
    requests: u64,
    times: Samples,
    sum: Duration,
    completed: u64,
}

impl Exchanges {
    pub fn request(&mut self, now: Instant) {
        self.requests += 1;
        self.request = Some(now);
    }

    pub fn completed(&mut self, now: Instant) {
        if let Some(request) = self.request.take() {
            let time = now.saturating_since(request);
            self.completed += 1;
            self.sum += time;
            self.times.record(time);
        }
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

    #[test]
    fn each_completion_counts_from_its_own_request() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut exchanges = Exchanges::default();
        for (request, completed) in [(0, 100), (150, 200), (200, 500)] {
            exchanges.request(at(request));
            exchanges.completed(at(completed));
        }
        exchanges.request(at(900));
        let mut record = FlowRecord::default();
        exchanges.finish(&mut record);
        assert_eq!((record.requests, record.requests_completed), (Some(4), Some(3)));
        assert_eq!((record.completion_mean_s, record.completion_p50_s), (Some(0.15), Some(0.1)));
        assert_eq!(record.completion_max_s, Some(0.3));
    }

    #[test]
    fn without_a_response_there_is_no_time() {
        let mut exchanges = Exchanges::default();
        exchanges.request(Instant::ZERO);
        let mut record = FlowRecord::default();
        exchanges.finish(&mut record);
        assert_eq!((record.requests, record.requests_completed), (Some(1), Some(0)));
        assert_eq!((record.completion_mean_s, record.completion_max_s), (None, None));
    }
}
