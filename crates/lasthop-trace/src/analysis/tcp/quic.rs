//! Translates QUIC's stream information into TCP's terms. Nothing is inlined into the code for segments.

use super::TcpFlow;
use crate::records::FlowRecord;
use lasthop_core::{Instant, PacketEvent, QuicDatagram, SackList};

/// Serials of the parts of a datagram: as many as its maximum number of blocks.
const PARTS: u64 = SackList::CAPACITY as u64;

impl TcpFlow {
    /// A datagram in the data direction. A datagram without bytes of the stream is not a data packet. A
    /// datagram with several parts is judged by the first part that was sent before.
    #[inline(never)]
    pub(in crate::analysis) fn datagram(
        &mut self,
        now: Instant,
        event: PacketEvent,
        serial: u64,
        datagram: &QuicDatagram,
        record: &mut FlowRecord,
    ) {
        let parts = (PARTS * serial..).zip(datagram.blocks.as_slice());
        match event {
            PacketEvent::Sent => {
                if datagram.stream_bytes > 0 {
                    self.counts.sent_packets += 1;
                    self.counts.sent_bytes += u64::from(datagram.stream_bytes);
                    self.first_data_sent.get_or_insert(now);
                }
                if let Some(end) = datagram.end {
                    self.fin_end = Some(end.get() + 1);
                }
                for (part, (serial, block)) in (0..).zip(parts) {
                    let sequence = block.start..block.end;
                    let again = (datagram.repeated == Some(part)).then(|| sequence.clone());
                    self.copies.sent(now, serial, sequence, again);
                    self.data_end = self.data_end.max(block.end);
                }
                record.retransmitted_packets += u64::from(datagram.repeated.is_some());
            }
            PacketEvent::Dropped(_) => parts.for_each(|(serial, _)| {
                self.copies.settled(serial, false);
            }),
            PacketEvent::Delivered => {
                let sent_at =
                    parts.fold(None, |sent_at, (serial, _)| self.copies.settled(serial, true).or(sent_at));
                if datagram.stream_bytes > 0 {
                    self.counts.received_packets += 1;
                    if let Some(sent_at) = sent_at {
                        self.one_way_delay.record(now.saturating_since(sent_at));
                    }
                }
            }
            _ => {}
        }
    }

    /// A datagram of the receiver, which has received everything before `ack`.
    #[inline(never)]
    pub(in crate::analysis) fn answer(&mut self, now: Instant, event: PacketEvent, ack: u64) {
        match event {
            PacketEvent::Sent => self.answered(now, ack),
            PacketEvent::Delivered | PacketEvent::Duplicated
                if self.highest_ack.is_none_or(|highest| ack > highest) =>
            {
                self.advanced(now, ack);
            }
            _ => {}
        }
    }
}
