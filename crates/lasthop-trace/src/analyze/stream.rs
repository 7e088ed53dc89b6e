//! One direction of a TCP connection.

use super::decode::{Header, TransportPacket};
use super::record::StreamRecord;
use super::sent::Sent;
use crate::samples::Samples;
use lasthop_core::Flags;

/// The data that one end has sent, and the ACKs that it has received.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Counters are kept in the record itself; the other fields are filled in at the end.
    pub(super) record: StreamRecord,
    sent: Sent,
    rtt: Samples,
    /// The highest sequence number seen, unwrapped: the reference for unwrapping others.
    reference: Option<u64>,
    syn_seq: Option<u32>,
    syn_ns: Option<u64>,
    /// Its SYN-ACK has agreed to count marks (RFC 9768, table 2): the ECN flags are not echoes from then on.
    counts_marks: bool,
    fin_end: Option<u64>,
    fin_acknowledged_ns: Option<u64>,
    data_end: u64,
    first_data_ns: Option<u64>,
    data_acknowledged_ns: Option<u64>,
    /// The last window that it advertised, in bytes.
    window: Option<u64>,
    last_ack: Option<u64>,
    /// Consecutive duplicates of the last ACK that it was sent.
    repeats: u32,
}

impl Stream {
    /// Unwraps a sequence number, or an ACK number of the other direction: nearest to the highest so far.
    fn unwrap(&mut self, seq: u32) -> u64 {
        let reference = *self.reference.get_or_insert((1 << 32) | u64::from(seq));
        let distance = seq.wrapping_sub(reference as u32).cast_signed();
        let unwrapped = reference.saturating_add_signed(distance.into());
        self.reference = Some(reference.max(unwrapped));
        unwrapped
    }

    /// True if a SYN with this number begins another connection.
    pub(super) fn is_new(&self, syn_seq: u32) -> bool {
        self.record.packets > 0 && self.syn_seq != Some(syn_seq)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fin_acknowledged_ns.is_some()
    }
}

/// A packet from the end that `this` belongs to.
pub(super) fn packet(
    this: &mut Stream,
    other: &mut Stream,
    now_ns: u64,
    packet: &TransportPacket,
    header: &Header,
) {
    let has = |flag| header.flags.contains(flag);
    let record = &mut this.record;
    record.start_ns.get_or_insert(now_ns);
    record.packets += 1;
    record.marks_ecn += u64::from(packet.congestion_experienced);
    record.syns += u64::from(has(Flags::SYN));
    record.fins += u64::from(has(Flags::FIN));
    record.resets += u64::from(has(Flags::RST));
    if has(Flags::SYN) {
        this.syn_seq.get_or_insert(header.seq);
        this.syn_ns.get_or_insert(now_ns);
        record.mss_bytes = header.mss.map(u32::from).or(record.mss_bytes);
        record.window_scale = header.window_scale.map(u32::from).or(record.window_scale);
        this.counts_marks |= has(Flags::ACK) && matches!(header.flags.ace(), 0b010..=0b110);
    } else if !this.counts_marks && !other.counts_marks {
        record.cwr_packets += u64::from(has(Flags::CWR));
        other.record.ecn_echoes += u64::from(has(Flags::ACK) && has(Flags::ECE));
    }
    this.segment(other, now_ns, packet.payload_bytes, header);
    let window = this.offered_window(other, header);
    if has(Flags::ACK) {
        other.acknowledged(now_ns, packet.payload_bytes, header, this.window == Some(window));
    }
    if !has(Flags::RST) {
        this.window = Some(window);
        other.record.zero_windows += u64::from(window == 0 && has(Flags::ACK));
    }
}

impl Stream {
    /// The window in bytes: scaled if both ends announced a scale, never in a SYN (RFC 7323, section 2.2).
    fn offered_window(&self, other: &Self, header: &Header) -> u64 {
        match (self.record.window_scale, other.record.window_scale) {
            (Some(scale), Some(_)) if !header.flags.contains(Flags::SYN) => {
                u64::from(header.window) << scale.min(14)
            }
            _ => u64::from(header.window),
        }
    }

    /// The sequence space that a packet of this direction occupies.
    fn segment(&mut self, other: &Self, now_ns: u64, payload_bytes: u64, header: &Header) {
        let syn = u64::from(header.flags.contains(Flags::SYN));
        let fin = u64::from(header.flags.contains(Flags::FIN));
        let seq = self.unwrap(header.seq);
        let end = seq + syn + payload_bytes + fin;
        self.reference = self.reference.max(Some(end));
        if fin > 0 {
            self.fin_end = Some(end);
        }
        if payload_bytes > 0 {
            self.record.sent_packets += 1;
            self.record.sent_bytes += payload_bytes;
            self.first_data_ns.get_or_insert(now_ns);
            if end - fin > self.data_end {
                self.data_end = end - fin;
                self.data_acknowledged_ns = None;
            }
        }
        if seq == end {
            return;
        }
        if other.window == Some(0) {
            self.record.zero_window_probes += 1;
            return;
        }
        let novelty = self.sent.segment(now_ns, seq..end);
        let record = &mut self.record;
        record.out_of_order_packets += u64::from(novelty.out_of_order);
        if payload_bytes == 0 {
            record.retransmitted_syns_fins += u64::from(novelty.repeated > 0);
            return;
        }
        // A SYN or FIN that is sent again is not payload.
        let flags = u64::from(syn > 0 && record.syns > 1) + u64::from(fin > 0 && record.fins > 1);
        let again = novelty.repeated.saturating_sub(flags).min(payload_bytes);
        record.retransmitted_packets += u64::from(again > 0);
        record.retransmitted_bytes += again;
        record.unique_bytes += payload_bytes - again;
    }

    /// An ACK comes back to this direction. tcptrace counts as 4.4BSD does: duplicates have no payload and
    /// leave the window as it was.
    fn acknowledged(&mut self, now_ns: u64, payload_bytes: u64, header: &Header, same_window: bool) {
        let ack = self.unwrap(header.ack);
        self.count_sack(header);
        let answer = self.sent.acknowledged(now_ns, ack);
        if let Some(rtt) = answer.rtt {
            self.record.rtt_samples += 1;
            self.rtt.record(rtt);
        }
        let same_ack = self.last_ack == Some(ack);
        if !header.flags.contains(Flags::RST) {
            self.last_ack = Some(ack);
        }
        // An end that has sent only SYNs waits for nothing else.
        let waits = self.record.packets > self.record.syns;
        if answer.repeats && same_ack && waits && payload_bytes == 0 && same_window {
            self.repeats += 1;
            self.record.duplicate_acks += 1;
            self.record.triple_duplicate_acks += u64::from(self.repeats == 3);
        } else {
            self.repeats = 0;
        }
        if self.data_end > 0 && ack >= self.data_end {
            self.data_acknowledged_ns.get_or_insert(now_ns);
        }
        if self.fin_end.is_some_and(|fin_end| ack >= fin_end) {
            self.fin_acknowledged_ns.get_or_insert(now_ns);
        }
    }

    fn count_sack(&mut self, header: &Header) {
        let [Some(first), second, ..] = header.sack else { return };
        self.record.sack_blocks += 1;
        self.record.sack_blocks_total += header.sack.iter().flatten().count() as u64;
        // RFC 2883, section 4: the first block lies below the ACK, or within the second one.
        let below = |low: u32, high: u32| high.wrapping_sub(low).cast_signed() >= 0;
        let duplicate = below(first.1, header.ack)
            || second.is_some_and(|second| below(second.0, first.0) && below(first.1, second.1));
        self.record.dsacks += u64::from(duplicate);
    }

    /// Fills in the record, except for the fields that both directions share.
    pub(super) fn finish(self, span_s: f64) -> StreamRecord {
        let mut record = self.record;
        record.elapsed_s = seconds(self.syn_ns, self.fin_acknowledged_ns);
        record.data_transmit_s = seconds(self.first_data_ns, self.data_acknowledged_ns);
        let time_s = record.elapsed_s.unwrap_or(span_s);
        record.throughput_Bps = (time_s > 0.0).then(|| record.unique_bytes as f64 / time_s);
        [record.rtt_min_s, record.rtt_median_s, record.rtt_p95_s, record.rtt_max_s] =
            self.rtt.quantiles_s([0.0, 0.5, 0.95, 1.0]);
        record
    }
}

/// Between two times since 1970, which may be out of order if packets were captured in the wrong order.
pub(super) fn seconds(from_ns: Option<u64>, to_ns: Option<u64>) -> Option<f64> {
    Some(to_ns?.saturating_sub(from_ns?) as f64 / 1e9)
}
