//! One direction of a UDP flow.

use super::decode::TransportPacket;
use super::record::StreamRecord;
use super::stream::seconds;
use crate::samples::Samples;
use lasthop_core::Duration;

/// Bytes that throughput counts for each datagram besides its payload.
const UDP_HEADER: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct Datagrams {
    pub(super) record: StreamRecord,
    last_ns: Option<u64>,
    spacing: Samples,
}

impl Datagrams {
    pub(super) fn packet(&mut self, now_ns: u64, packet: &TransportPacket) {
        let record = &mut self.record;
        record.start_ns.get_or_insert(now_ns);
        record.packets += 1;
        record.sent_packets += 1;
        record.sent_bytes += packet.payload_bytes;
        record.unique_bytes += packet.payload_bytes;
        record.marks_ecn += u64::from(packet.congestion_experienced);
        if let Some(last_ns) = self.last_ns.replace(now_ns) {
            self.spacing.record(Duration::from_nanos(now_ns.saturating_sub(last_ns)));
        }
    }

    /// Fills in the record, except for the fields that both directions share.
    pub(super) fn finish(self) -> StreamRecord {
        let mut record = self.record;
        record.elapsed_s = seconds(record.start_ns, self.last_ns);
        let bytes = record.sent_bytes + UDP_HEADER * record.sent_packets;
        record.throughput_Bps =
            record.elapsed_s.filter(|elapsed_s| *elapsed_s > 0.0).map(|elapsed_s| bytes as f64 / elapsed_s);
        let spacing_s = self.spacing.quantiles_s([0.5, 0.75, 0.9, 1.0]);
        [record.spacing_p50_ms, record.spacing_p75_ms, record.spacing_p90_ms, record.spacing_max_ms] =
            spacing_s.map(|spacing_s| spacing_s.map(|spacing_s| spacing_s * 1e3));
        record
    }
}
