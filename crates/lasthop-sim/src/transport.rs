//! The transports of the model engine, one line each.

mod udp;

use lasthop_core::{Instant, News, Observer, Packet, Transport};
use lasthop_quic::Quic;
use lasthop_tcp::Tcp;

pub(crate) use udp::Udp;

/// One end of a flow: dispatched without an indirect call.
macro_rules! transports {
    ($($name:ident($end:ty);)*) => {
        /// One end of a flow, whichever transport it has.
        #[allow(clippy::large_enum_variant, reason = "flows keep both ends in one box")]
        #[derive(Debug)]
        pub(crate) enum End {
            $($name($end),)*
        }

        impl Transport for End {
            fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O) {
                match self { $(Self::$name(end) => end.connect(now, observer),)* }
            }

            fn open<O: Observer>(&mut self, now: Instant, observer: &mut O) {
                match self { $(Self::$name(end) => end.open(now, observer),)* }
            }

            fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, observer: &mut O) {
                match self { $(Self::$name(end) => end.write(now, bytes, write_bytes, observer),)* }
            }

            fn send<O: Observer>(&mut self, now: Instant, stream: u32, bytes: u64, observer: &mut O) {
                match self { $(Self::$name(end) => end.send(now, stream, bytes, observer),)* }
            }

            fn stop(&mut self) {
                match self { $(Self::$name(end) => end.stop(),)* }
            }

            fn close<O: Observer>(&mut self, now: Instant, observer: &mut O) {
                match self { $(Self::$name(end) => end.close(now, observer),)* }
            }

            #[inline]
            fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, observer: &mut O) {
                match self { $(Self::$name(end) => end.handle_packet(now, packet, observer),)* }
            }

            #[inline]
            fn next_wakeup(&self) -> Option<Instant> {
                match self { $(Self::$name(end) => end.next_wakeup(),)* }
            }

            #[inline]
            fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O) {
                match self { $(Self::$name(end) => end.handle_wakeup(now, observer),)* }
            }

            #[inline]
            fn may_transmit(&self) -> bool {
                match self { $(Self::$name(end) => end.may_transmit(),)* }
            }

            #[inline]
            fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, observer: &mut O) -> bool {
                match self { $(Self::$name(end) => end.poll_transmit(now, packet, observer),)* }
            }

            #[inline]
            fn news(&mut self) -> News {
                match self { $(Self::$name(end) => end.news(),)* }
            }

            #[inline]
            fn poll_stream(&mut self) -> Option<(u32, u64)> {
                match self { $(Self::$name(end) => end.poll_stream(),)* }
            }

            #[inline]
            fn is_over(&self) -> bool {
                match self { $(Self::$name(end) => end.is_over(),)* }
            }
        }
    };
}

transports! {
    Tcp(Tcp);
    Udp(Udp);
    Quic(Box<Quic>);
}
