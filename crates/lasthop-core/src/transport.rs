//! One end of a flow: what stands between an application and the network.

use crate::{Instant, Observer, Packet};

/// What is new for the application at one end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Bytes received so far, in order where the transport keeps order; absent unless there are more than last time.
    pub received: Option<u64>,
    /// The other end will send no more, or the flow is lost. Told once.
    pub ended: bool,
    /// Who connected may send datagrams from now on. Told once, by a transport with a handshake before them.
    pub ready: bool,
}

impl News {
    /// True if nothing is new.
    pub const fn is_none(&self) -> bool {
        self.received.is_none() && self.is_only_data()
    }

    /// True if all that may be new is data.
    pub const fn is_only_data(&self) -> bool {
        !self.ended && !self.ready
    }
}

/// One end of a flow. Sans-IO: its owner
///
/// 1. calls [`Transport::connect`], [`Transport::write`], [`Transport::send`] and [`Transport::close`] for the application,
///    [`Transport::handle_packet`] for the network, and [`Transport::handle_wakeup`] at [`Transport::next_wakeup`];
/// 2. then passes [`Transport::news`] on to the application, and what [`Transport::poll_stream`] says if there is any; it
///    may write or close;
/// 3. then sends what [`Transport::poll_transmit`] writes, until there is nothing.
///
/// Time never runs backwards.
pub trait Transport {
    /// Begins a handshake; the other end waits for it.
    fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// Skips the handshake, as if the flow had been open for long. Both ends must be opened.
    fn open<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// Takes `bytes` of application data, written `write_bytes` at a time. A transport that keeps the bounds of
    /// messages sends each write on its own.
    fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, observer: &mut O);

    /// Takes a whole message of the application, which travels on a stream of its own with this number; the other end
    /// answers on the same stream. Only a transport with streams is given any.
    fn send<O: Observer>(&mut self, now: Instant, stream: u32, bytes: u64, observer: &mut O) {
        let _ = (now, stream, bytes, observer);
        unreachable!("no stream of a message is asked for")
    }

    /// The application takes back what it has written and what has not been sent yet. Datagrams are sent at once.
    fn stop(&mut self) {}

    /// The application will write no more.
    fn close<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// Takes in a packet that the network has delivered.
    fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, observer: &mut O);

    /// When [`Transport::handle_wakeup`] wants to be called, if at all.
    fn next_wakeup(&self) -> Option<Instant>;

    /// Runs the timers that are due.
    fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O);

    /// False if there is certainly nothing to send: to ask [`Transport::poll_transmit`] takes longer.
    fn may_transmit(&self) -> bool {
        true
    }

    /// Writes length, ECN field and body of the next packet to send into `packet`, and returns true; false when all is
    /// sent. Whoever sends it adds flow, code point and port.
    fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, observer: &mut O) -> bool;

    /// What the application has not been told yet.
    fn news(&mut self) -> News;

    /// Of which stream, of a transport with streams, more has arrived than the application has been told, and how much
    /// in all, in order.
    fn poll_stream(&mut self) -> Option<(u32, u64)> {
        None
    }

    /// True once nothing can happen here any more, apart from answers to stray packets.
    fn is_over(&self) -> bool;
}
