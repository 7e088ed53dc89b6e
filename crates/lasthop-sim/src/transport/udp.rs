//! UDP (RFC 768): each write is a datagram, and there are no answers.

use std::collections::VecDeque;

use lasthop_core::{Body, Datagram, Ecn, Instant, News, Observer, Packet, Transport};

/// One end of a UDP flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Udp {
    ecn: Ecn,
    waiting: VecDeque<Datagram>,
    written: u64,
    received_bytes: u64,
    /// Number and payload of the last datagram that arrived, until the application knows of it.
    arrived: Option<(u32, u64)>,
    /// Bytes that the application knows of.
    read_bytes: u64,
    is_closed: bool,
}

impl Udp {
    /// An end that sends datagrams with this ECN field.
    pub(crate) fn new(ecn: Ecn) -> Self {
        Self { ecn, ..Self::default() }
    }
}

impl Transport for Udp {
    fn connect<O: Observer>(&mut self, _now: Instant, _observer: &mut O) {}

    fn open<O: Observer>(&mut self, _now: Instant, _observer: &mut O) {}

    fn write<O: Observer>(&mut self, _now: Instant, bytes: u64, write_bytes: u64, _observer: &mut O) {
        let mut left = bytes;
        while left > 0 {
            let payload = left.min(write_bytes);
            self.waiting.push_back(Datagram { number: self.written, payload_bytes: payload as u32 });
            self.written += 1;
            left -= payload;
        }
    }

    fn close<O: Observer>(&mut self, _now: Instant, _observer: &mut O) {
        self.is_closed = true;
    }

    fn handle_packet<O: Observer>(&mut self, _now: Instant, packet: &Packet, _observer: &mut O) {
        if let Body::Udp(datagram) = &packet.body {
            let bytes = u64::from(datagram.payload_bytes);
            self.received_bytes += bytes;
            self.arrived = Some((datagram.number as u32, bytes));
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn handle_wakeup<O: Observer>(&mut self, _now: Instant, _observer: &mut O) {}

    fn may_transmit(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn poll_transmit<O: Observer>(&mut self, _now: Instant, packet: &mut Packet, _observer: &mut O) -> bool {
        let Some(datagram) = self.waiting.pop_front() else { return false };
        packet.ip_bytes = Datagram::HEADER_BYTES + datagram.payload_bytes;
        (packet.ecn, packet.body) = (self.ecn, Body::Udp(datagram));
        true
    }

    fn news(&mut self) -> News {
        let received = self.received_bytes;
        let is_more = std::mem::replace(&mut self.read_bytes, received) < received;
        News { received: is_more.then_some(received), ended: false, ..News::default() }
    }

    fn poll_stream(&mut self) -> Option<(u32, u64)> {
        self.arrived.take()
    }

    fn is_over(&self) -> bool {
        self.is_closed
    }
}
