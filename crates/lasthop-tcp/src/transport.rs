//! TCP as the transport of a flow: an endpoint, the read position of its application, and the metrics that
//! its host caches.

use std::cell::Cell;
use std::rc::Rc;

use lasthop_core::{Body, Instant, News, Observer, Packet, Transport};

use crate::common::metrics::CachedMetrics;
use crate::endpoint::{Endpoint, Phase};

/// One end of a TCP connection, as an engine drives it.
#[derive(Debug)]
pub struct Tcp {
    endpoint: Endpoint,
    /// The metrics that this host caches of the other, if any: read when the connection is established,
    /// written when it is closed.
    metrics: Option<Rc<Cell<CachedMetrics>>>,
    /// Bytes that the application knows of.
    read: u64,
    has_told_end: bool,
}

impl Tcp {
    /// An end at a host that caches `metrics`.
    pub fn new(endpoint: Endpoint, metrics: Option<Rc<Cell<CachedMetrics>>>) -> Self {
        Self { endpoint, metrics, read: 0, has_told_end: false }
    }
}

impl Transport for Tcp {
    fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.endpoint.connect(now, observer);
    }

    fn open<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.endpoint.open(now, observer);
    }

    fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, observer: &mut O) {
        self.endpoint.write(now, bytes, write_bytes, observer);
    }

    fn stop(&mut self) {
        self.endpoint.stop();
    }

    fn close<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.endpoint.close(now, observer);
    }

    #[inline]
    fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, observer: &mut O) {
        let Body::Tcp(segment) = &packet.body else { return };
        let Some(metrics) = &self.metrics else {
            return self.endpoint.handle_segment(now, segment, packet.ecn, None, observer);
        };
        let mut cached = metrics.get();
        let before = self.endpoint.phase();
        self.endpoint.handle_segment(now, segment, packet.ecn, Some(&cached), observer);
        if before != Phase::Closed && self.endpoint.phase() == Phase::Closed {
            self.endpoint.store_metrics(&mut cached);
            metrics.set(cached);
        }
    }

    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.endpoint.next_wakeup()
    }

    #[inline]
    fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.endpoint.handle_wakeup(now, observer);
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        self.endpoint.may_transmit()
    }

    #[inline]
    fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, _observer: &mut O) -> bool {
        let segment = packet.body.make_tcp();
        let Some(ecn) = self.endpoint.poll_transmit(now, segment) else { return false };
        (packet.ip_bytes, packet.ecn) = (segment.ip_bytes(), ecn);
        true
    }

    #[inline]
    fn news(&mut self) -> News {
        let received = self.endpoint.received_bytes();
        let ended = self.endpoint.peer_closed() || self.endpoint.phase() == Phase::Aborted;
        News {
            received: (std::mem::replace(&mut self.read, received) < received).then_some(received),
            ended: !std::mem::replace(&mut self.has_told_end, ended) && ended,
            ..News::default()
        }
    }

    fn hold(&mut self) {
        self.endpoint.hold();
    }

    fn read(&mut self, bytes: u64) {
        self.endpoint.read(bytes);
    }

    fn acknowledged(&self) -> u64 {
        self.endpoint.acknowledged_bytes()
    }

    fn is_open(&self) -> bool {
        self.endpoint.phase() == Phase::Established
    }

    fn abort<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.endpoint.abort(now, observer);
    }

    fn is_over(&self) -> bool {
        matches!(self.endpoint.phase(), Phase::Closed | Phase::Aborted)
    }
}
