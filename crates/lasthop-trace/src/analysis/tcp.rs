//! A TCP flow, seen from its sender; or a QUIC flow, whose stream follows the same rules.

mod quic;

use super::copies::Copies;
use super::{outcome, rate, rate_within};
use crate::records::FlowRecord;
use crate::samples::Samples;
use lasthop_core::{Duration, Flags, Instant, PacketEvent, Segment, TransportEvent};

/// Stream offset of the first data byte: the SYN has 0, even if there was no SYN.
const FIRST_BYTE: u64 = 1;

/// The fields that nearly every packet changes, kept together: in the flow's record they are far apart.
#[derive(Clone, Debug, Default)]
struct SegmentCounts {
    sent_packets: u64,
    sent_bytes: u64,
    received_packets: u64,
    cwnd_max: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TcpFlow {
    counts: SegmentCounts,
    copies: Copies,
    /// First byte after the highest data byte sent.
    data_end: u64,
    /// First sequence number after the sender's FIN, once sent.
    fin_end: Option<u64>,
    first_data_sent: Option<Instant>,
    /// Everything sent below this position has been acknowledged; with the time of that.
    data_acknowledged: Option<(u64, Instant)>,
    fin_acknowledged: Option<Instant>,
    aborted: Option<Instant>,
    closed: Option<Instant>,
    /// Highest ACK number the receiver sent.
    receiver_ack: u64,
    /// When it is to stop sending, if it has a duration, and the highest ACK number until then.
    stop: Option<(Instant, u64)>,
    /// Highest ACK number that reached the sender, and how often in a row it was repeated.
    highest_ack: Option<u64>,
    repeats: u64,
    rtt: Samples,
    one_way_delay: Samples,
    /// When counting restarted, and the data bytes that the receiver had acknowledged then.
    restarted: Option<(Instant, u64)>,
}

impl TcpFlow {
    pub(super) fn without_times() -> Self {
        Self { rtt: Samples::Ignored, one_way_delay: Samples::Ignored, ..Self::default() }
    }

    /// The whole connection through a relay, from what both connections know: the `first` has the sender, and
    /// the `last` has the receiver. It ends when both have.
    pub(super) fn join(&mut self, first: &Self, last: &Self) {
        self.first_data_sent = first.first_data_sent;
        (self.data_end, self.fin_end) = (first.data_end, first.fin_end);
        self.receiver_ack = last.receiver_ack;
        (self.stop, self.restarted) = (last.stop, last.restarted);
        self.data_acknowledged = last.data_acknowledged;
        let later = |[one, other]: [Option<Instant>; 2]| Some(one?.max(other?));
        self.fin_acknowledged = later([first.fin_acknowledged, last.fin_acknowledged]);
        self.closed = later([first.closed, last.closed]);
        self.aborted = first.aborted.into_iter().chain(last.aborted).min();
    }

    pub(super) fn data_packet(
        &mut self,
        now: Instant,
        event: PacketEvent,
        serial: u64,
        segment: &Segment,
        record: &mut FlowRecord,
    ) {
        match event {
            PacketEvent::Sent => self.sent(now, serial, segment, record),
            PacketEvent::Dropped(_) => {
                self.copies.settled(serial, false);
            }
            PacketEvent::Delivered => {
                let sent_at = self.copies.settled(serial, true);
                if segment.payload_bytes > 0 {
                    self.counts.received_packets += 1;
                    if let Some(sent_at) = sent_at {
                        self.one_way_delay.record(now.saturating_since(sent_at));
                    }
                }
            }
            _ => {}
        }
    }

    fn sent(&mut self, now: Instant, serial: u64, segment: &Segment, record: &mut FlowRecord) {
        if segment.flags.contains(Flags::FIN) {
            self.fin_end = Some(segment.end());
        }
        let mut retransmitted = None;
        if segment.payload_bytes > 0 {
            // The SYN comes before the payload in sequence space (RFC 9293, section 3.4).
            let start = segment.seq + u64::from(segment.flags.contains(Flags::SYN));
            let end = start + u64::from(segment.payload_bytes);
            self.counts.sent_packets += 1;
            self.counts.sent_bytes += u64::from(segment.payload_bytes);
            if start < self.data_end {
                record.retransmitted_packets += 1;
                retransmitted = Some(start..end);
            }
            self.data_end = self.data_end.max(end);
            self.first_data_sent.get_or_insert(now);
        }
        if segment.sequence_length() > 0 {
            self.copies.sent(now, serial, segment.seq..segment.end(), retransmitted);
        }
    }

    pub(super) fn ack_packet(
        &mut self,
        now: Instant,
        event: PacketEvent,
        segment: &Segment,
        record: &mut FlowRecord,
    ) {
        if !segment.flags.contains(Flags::ACK) {
            return;
        }
        match event {
            PacketEvent::Sent => self.answered(now, segment.ack),
            // The sender cannot tell a copy from the ACK itself.
            PacketEvent::Delivered | PacketEvent::Duplicated => self.acknowledged(now, segment, record),
            _ => {}
        }
    }

    #[inline]
    fn answered(&mut self, now: Instant, ack: u64) {
        self.receiver_ack = self.receiver_ack.max(ack);
        if let Some((end, ack)) = &mut self.stop
            && now <= *end
        {
            *ack = self.receiver_ack;
        }
    }

    fn acknowledged(&mut self, now: Instant, segment: &Segment, record: &mut FlowRecord) {
        if !segment.sack.is_empty() {
            record.sack_blocks += 1;
            record.sack_blocks_total += segment.sack.len() as u64;
        }
        if self.highest_ack.is_none_or(|highest| segment.ack > highest) {
            self.advanced(now, segment.ack);
        } else if self.highest_ack == Some(segment.ack) {
            if repeats_ack(segment) {
                record.duplicate_acks += 1;
                self.repeats += 1;
                record.triple_duplicate_acks += u64::from(self.repeats == 3);
            } else {
                self.repeats = 0;
            }
        }
    }

    /// A new highest ACK number reached the sender.
    #[inline]
    fn advanced(&mut self, now: Instant, ack: u64) {
        self.highest_ack = Some(ack);
        self.repeats = 0;
        self.copies.acknowledged(ack);
        if self.data_acknowledged.is_none_or(|(end, _)| end < self.data_end) && ack >= self.data_end {
            self.data_acknowledged = Some((self.data_end, now));
        }
        if self.fin_end.is_some_and(|fin_end| ack >= fin_end) {
            self.fin_acknowledged.get_or_insert(now);
        }
    }

    pub(super) fn window(&mut self, cwnd: u32) {
        self.counts.cwnd_max = self.counts.cwnd_max.max(Some(cwnd));
    }

    pub(super) fn round_trip(&mut self, rtt: Duration) {
        self.rtt.record(rtt);
    }

    /// An event inside the sender, except for those that nearly every ACK causes.
    pub(super) fn event(&mut self, now: Instant, event: TransportEvent, record: &mut FlowRecord) {
        match event {
            TransportEvent::Timeout { seq, .. } => {
                record.timeouts += 1;
                record.syn_timeouts += u64::from(seq == 0);
                self.copies.timeout(now, seq);
            }
            TransportEvent::TailLossProbe { .. } => {
                record.tail_loss_probes = record.tail_loss_probes.map(|probes| probes + 1);
            }
            TransportEvent::RecoveryEntered { .. } => record.fast_retransmits += 1,
            TransportEvent::Undone(_) => record.undone += 1,
            TransportEvent::Closed => self.closed = Some(now),
            TransportEvent::Aborted => self.aborted = Some(now),
            TransportEvent::Established
            | TransportEvent::Window { .. }
            | TransportEvent::State(_)
            | TransportEvent::RttSample { .. }
            | TransportEvent::RecoveryLeft
            | TransportEvent::PersistentCongestion
            | TransportEvent::EcnReduction
            | TransportEvent::Retransmitted { .. } => {}
        }
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.restarted = Some((now, self.in_sequence_bytes()));
        self.counts = SegmentCounts::default();
        self.copies.restart();
        self.rtt.restart();
        self.one_way_delay.restart();
    }

    pub(super) fn stops(&mut self, end: Instant) {
        self.stop = Some((end, 0));
    }

    /// Data bytes that the receiver acknowledged, whether or not the ACK arrived.
    pub(super) fn in_sequence_bytes(&self) -> u64 {
        self.in_sequence(self.receiver_ack)
    }

    /// The part of them from before counting restarted.
    pub(super) fn bytes_before(&self) -> u64 {
        self.restarted.map_or(0, |(_, bytes)| bytes)
    }

    fn in_sequence(&self, ack: u64) -> u64 {
        ack.min(self.data_end).saturating_sub(FIRST_BYTE)
    }

    #[cfg(test)]
    pub(super) fn remembered_copies(&self) -> usize {
        self.copies.len()
    }

    /// When the connection ended for its sender.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.aborted.or(self.fin_acknowledged).or(self.closed)
    }

    pub(super) fn finish(self, started: Option<Instant>, end: Instant, record: &mut FlowRecord) {
        record.outcome = outcome(self.aborted, self.closed.is_some());
        record.sent_packets = self.counts.sent_packets;
        record.sent_bytes = self.counts.sent_bytes;
        record.received_packets = self.counts.received_packets;
        record.cwnd_max = self.counts.cwnd_max.map(u64::from);
        record.unnecessary_retransmissions = self.copies.unnecessary;
        record.spurious_timeouts = self.copies.spurious;
        let elapsed_s = seconds_between(started, self.fin_acknowledged);
        record.elapsed_s = elapsed_s.filter(|_| self.stop.is_none());
        // The stream is known to be complete once the FIN follows it.
        let data_end = self.fin_end.map(|fin_end| fin_end - 1);
        let whole = self.data_acknowledged.filter(|(end, _)| Some(*end) == data_end).map(|(_, at)| at);
        record.data_transmit_s = seconds_between(self.first_data_sent, whole);
        let sent = self.data_end.saturating_sub(FIRST_BYTE);
        let cut = self.aborted.unwrap_or(end);
        let throughput = started.map(|started| match (self.stop, self.fin_acknowledged) {
            (Some((stop, ack)), _) => rate(self.in_sequence(ack), started, stop.min(cut)),
            (None, Some(fin_acknowledged)) => rate(sent, started, fin_acknowledged),
            (None, None) => rate(self.in_sequence_bytes(), started, self.ended().unwrap_or(end)),
        });
        record.throughput_Bps = match self.restarted {
            None => throughput,
            Some((from, before)) => {
                let (last, bytes) = match self.stop {
                    Some((stop, ack)) if stop < cut => (stop, self.in_sequence(ack)),
                    _ => (self.ended().unwrap_or(end), self.in_sequence_bytes()),
                };
                started.and_then(|started| rate_within(bytes.saturating_sub(before), from.max(started), last))
            }
        };
        [record.rtt_min_s, record.rtt_median_s, record.rtt_p95_s, record.rtt_max_s] =
            self.rtt.quantiles_s([0.0, 0.5, 0.95, 1.0]);
        record.set_one_way_delay(self.one_way_delay);
    }
}

/// True for a packet in which the sender sees only an ACK number or the FIN.
fn repeats_ack(segment: &Segment) -> bool {
    segment.payload_bytes == 0 && !segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::RST)
}

fn seconds_between(from: Option<Instant>, to: Option<Instant>) -> Option<f64> {
    Some(to?.saturating_since(from?).as_secs_f64())
}
