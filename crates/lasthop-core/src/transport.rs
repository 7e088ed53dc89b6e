//! One end of a flow: the layer between an application and the network.

use crate::{Instant, Observer, Packet};

/// News for the application at one end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Bytes received so far, in order if the transport keeps order. Absent unless the number has grown since
    /// last time.
    pub received: Option<u64>,
    /// The other end will send no more, or the flow is lost. Reported once.
    pub ended: bool,
    /// The end that connected may send datagrams from now on. Reported once, by a transport that needs a
    /// handshake first.
    pub ready: bool,
}

impl News {
    pub const fn is_none(&self) -> bool {
        self.received.is_none() && self.is_only_data()
    }

    /// True if there is no news but data.
    pub const fn is_only_data(&self) -> bool {
        !self.ended && !self.ready
    }
}

/// One end of a flow. Sans-IO: its owner
///
/// 1. calls [`Transport::connect`], [`Transport::write`], [`Transport::send`] and [`Transport::close`] for
///    the application, [`Transport::handle_packet`] for the network, and [`Transport::handle_wakeup`] at
///    [`Transport::next_wakeup`];
/// 2. then passes [`Transport::news`] and the result of [`Transport::poll_stream`], if any, to the
///    application, which may write or close;
/// 3. then sends the packets that [`Transport::poll_transmit`] writes, until it writes none.
///
/// Time never runs backwards.
pub trait Transport {
    /// Begins a handshake; the other end waits for it.
    fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// Skips the handshake, as if the flow had been open for a long time. Both ends must be opened.
    fn open<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// Takes `bytes` of application data, written `write_bytes` at a time. A transport that preserves message
    /// boundaries sends each write separately.
    fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, observer: &mut O);

    /// Takes a complete message of the application. It travels on a separate stream with this number, and the
    /// other end answers on the same stream. Called only for a transport with streams.
    fn send<O: Observer>(&mut self, now: Instant, stream: u32, bytes: u64, observer: &mut O) {
        let _ = (now, stream, bytes, observer);
        unreachable!("no stream of a message is asked for")
    }

    /// The application withdraws the data that it has written and that has not been sent yet. Datagrams are
    /// sent at once, so they cannot be withdrawn.
    fn stop(&mut self) {}

    /// The application will write no more.
    fn close<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// Takes in a packet that the network has delivered.
    fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, observer: &mut O);

    /// When [`Transport::handle_wakeup`] must be called, if at all.
    fn next_wakeup(&self) -> Option<Instant>;

    /// Runs the timers that are due.
    fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// False if there is certainly nothing to send. This check is faster than a call of
    /// [`Transport::poll_transmit`].
    fn may_transmit(&self) -> bool {
        true
    }

    /// Writes length, ECN field and body of the next packet to send into `packet` and returns true; returns
    /// false when everything is sent. The caller adds flow, code point and port.
    fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, observer: &mut O) -> bool;

    /// The news that the application has not received yet.
    fn news(&mut self) -> News;

    /// For a transport with streams: a stream on which more data has arrived than the application knows of,
    /// and the number of bytes received in order on it so far. Each datagram of UDP counts as a stream with
    /// its number.
    fn poll_stream(&mut self) -> Option<(u32, u64)> {
        None
    }

    /// From now on the owner reports its reads by [`Transport::read`]. Its writes form one stream.
    /// Called only for TCP, like the methods that follow.
    fn hold(&mut self) {
        unreachable!("only TCP ends at a relay")
    }

    /// The owner has read this many bytes so far. Unread bytes reduce the window.
    fn read(&mut self, bytes: u64) {
        let _ = bytes;
        unreachable!("only TCP ends at a relay")
    }

    /// Number of written bytes that the other end has acknowledged; one more with the end of the stream.
    fn acknowledged(&self) -> u64 {
        unreachable!("only TCP ends at a relay")
    }

    /// True from the end of the handshake until the end is over.
    fn is_open(&self) -> bool {
        unreachable!("only TCP ends at a relay")
    }

    /// Aborts the flow, and informs the other end.
    fn abort<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        let _ = (now, observer);
        unreachable!("only TCP ends at a relay")
    }

    /// True once this end is finished, apart from answers to stray packets.
    fn is_over(&self) -> bool;
}
