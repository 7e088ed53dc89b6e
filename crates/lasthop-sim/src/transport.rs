//! The transports of the model engine, one line each in `End`.

mod udp;

use lasthop_core::{Instant, News, Observer, Packet, Transport, dispatched, forward};
use lasthop_quic::Quic;
use lasthop_tcp::Tcp;

pub(crate) use udp::Udp;

dispatched! {
    each:
    /// One end of a flow, with any of the transports.
    #[allow(clippy::large_enum_variant, reason = "flows keep both ends in one box")]
    #[derive(Debug)]
    pub(crate) enum End {
        Tcp(Tcp),
        Udp(Udp),
        Quic(Box<Quic>),
    }
}

impl Transport for End {
    forward! { each:
        fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O);
        fn open<O: Observer>(&mut self, now: Instant, observer: &mut O);
        fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, observer: &mut O);
        fn send<O: Observer>(&mut self, now: Instant, stream: u32, bytes: u64, observer: &mut O);
        fn stop(&mut self);
        fn close<O: Observer>(&mut self, now: Instant, observer: &mut O);
        #[inline]
        fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, observer: &mut O);
        #[inline]
        fn next_wakeup(&self) -> Option<Instant>;
        #[inline]
        fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O);
        #[inline]
        fn may_transmit(&self) -> bool;
        #[inline]
        fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, observer: &mut O) -> bool;
        #[inline]
        fn news(&mut self) -> News;
        #[inline]
        fn poll_stream(&mut self) -> Option<(u32, u64)>;
        fn hold(&mut self);
        fn read(&mut self, bytes: u64);
        fn acknowledged(&self) -> u64;
        fn is_open(&self) -> bool;
        fn abort<O: Observer>(&mut self, now: Instant, observer: &mut O);
        #[inline]
        fn is_over(&self) -> bool;
    }
}
