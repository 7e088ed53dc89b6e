//! Datagrams that a QUIC connection carries (RFC 9221). A packet may carry several. A packet that arrives may
//! not be understood; then its datagrams are lost.

use super::{Arrival, UDP_HEADER_BYTES, UdpFlow};
use crate::records::FlowRecord;
use lasthop_core::{Instant, PacketEvent, QuicDatagram};

impl UdpFlow {
    /// The application wrote the next datagram. It may have to wait for congestion control.
    pub(in crate::analysis) fn written(&mut self, now: Instant) {
        self.written.push(now);
    }

    /// A packet in the data direction. A packet without datagrams is not a data packet.
    #[inline(never)]
    pub(in crate::analysis) fn carried(
        &mut self,
        now: Instant,
        event: PacketEvent,
        packet: &QuicDatagram,
        record: &mut FlowRecord,
    ) {
        let numbers = packet.numbers();
        if numbers.is_empty() {
            return;
        }
        match event {
            PacketEvent::Sent => {
                record.sent_packets += 1;
                record.sent_bytes += u64::from(packet.stream_bytes);
                self.offered_bytes += u64::from(packet.stream_bytes);
                // The sender's buffer had no room for the datagrams in between.
                (self.next..numbers.start).for_each(|number| self.lost(number));
                self.next = numbers.end;
                self.on_the_way.extend(numbers.map(|number| (number, now)));
            }
            PacketEvent::Dropped(_) => numbers.for_each(|number| {
                self.settle(number);
                self.lost(number);
            }),
            PacketEvent::Delivered => {
                record.received_packets += 1;
                self.received_bytes += u64::from(packet.stream_bytes) + UDP_HEADER_BYTES;
                let mut packet_sent_at = None;
                for number in numbers {
                    self.lost(number);
                    if let Some(sent_at) = self.settle(number) {
                        packet_sent_at = Some(sent_at);
                        self.unread.push((number, sent_at));
                    }
                }
                if let Some(sent_at) = packet_sent_at {
                    self.one_way_delay.record(now.saturating_since(sent_at));
                }
            }
            _ => {}
        }
    }

    /// The receiver has understood a packet with this datagram.
    pub(in crate::analysis) fn understood(&mut self, now: Instant, number: u64) {
        let place = self.unread.iter().position(|(unread, _)| *unread == number);
        let Some((_, sent_at)) = place.map(|place| self.unread.swap_remove(place)) else { return };
        self.arrived(Arrival { number, sent_at, at: now });
        if let (Some(call), Some(written)) = (&mut self.call, self.written.get(number as usize)) {
            call.arrived(number, now.saturating_since(*written));
        }
    }

    pub(in crate::analysis) fn abort(&mut self, now: Instant) {
        self.aborted.get_or_insert(now);
    }

    fn lost(&mut self, number: u64) {
        if let Some(call) = &mut self.call {
            call.lost(number);
        }
    }
}
