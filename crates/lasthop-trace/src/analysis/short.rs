//! Short flows, grouped by their hosts.

use super::Flow;
use crate::records::{FlowRecord, ShortRecord};
use crate::samples::Samples;
use lasthop_core::Instant;

#[derive(Clone, Debug)]
pub(super) struct Group {
    record: ShortRecord,
    /// False for flows that arrange others: they have no record, and are only excluded from the background.
    pub is_recorded: bool,
    completion: Samples,
    completion_sum_s: f64,
    throughput_sum: f64,
}

impl Group {
    pub fn new(name: &str, is_recorded: bool) -> Self {
        Self {
            is_recorded,
            record: ShortRecord { application: name.to_owned(), ..ShortRecord::default() },
            completion: Samples::default(),
            completion_sum_s: 0.0,
            throughput_sum: 0.0,
        }
    }

    /// Forgets the flows so far.
    pub fn restart(&mut self) {
        *self = Self::new(self.name(), self.is_recorded);
    }

    pub fn name(&self) -> &str {
        &self.record.application
    }

    /// Adds a flow that is over at `now`, or that the end of the run cuts short; returns its record.
    pub fn take(&mut self, flow: Flow, now: Instant) -> FlowRecord {
        // When the client's first packet left, and when the client had the complete response.
        let asked = flow.first_packet.zip(flow.completed);
        let bytes = flow.offered_bytes as f64;
        let flow = flow.finish(now);
        let record = &mut self.record;
        record.flows += 1;
        record.sent_packets += flow.sent_packets;
        record.retransmitted_packets += flow.retransmitted_packets;
        record.unnecessary_retransmissions += flow.unnecessary_retransmissions;
        record.lost_packets += flow.data_drops();
        record.timeouts += flow.timeouts - flow.syn_timeouts;
        record.syn_timeouts += flow.syn_timeouts;
        record.fast_retransmits += flow.fast_retransmits;
        if let Some((asked, completed)) = asked {
            let time = completed.saturating_since(asked);
            record.completed += 1;
            self.completion.record(time);
            self.completion_sum_s += time.as_secs_f64();
            self.throughput_sum += bytes / time.as_secs_f64();
        }
        flow
    }

    pub fn finish(self) -> ShortRecord {
        let mut record = self.record;
        let mean = |sum: f64| (record.completed > 0).then(|| sum / record.completed as f64);
        record.fct_mean_s = mean(self.completion_sum_s);
        record.throughput_mean_Bps = mean(self.throughput_sum);
        [record.fct_median_s, record.fct_p95_s, record.fct_max_s] =
            self.completion.quantiles_s([0.5, 0.95, 1.0]);
        record
    }
}
