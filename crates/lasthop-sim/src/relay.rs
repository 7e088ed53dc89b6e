//! A relay: an ordinary program on a separate host, between the two connections of a flow, such as a proxy or a
//! performance-enhancing proxy (RFC 3135).
//!
//! It connects onward when it has accepted, like haproxy and socat. In each direction it reads up to its buffer
//! size and writes immediately. Data count against the buffer until the far end has acknowledged them; data that
//! it does not read wait in the receive buffer of the first connection. The end of a stream follows the data. If
//! a connection fails, the other one is reset.

use lasthop_core::{Host, Instant, Observer, Transport};

/// The relay of one flow.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Maximum number of buffered bytes in each direction.
    buffer: u64,
    /// The side from which the flow is opened.
    accepts: usize,
    has_connected: bool,
    /// From the peer's side to the host's, and back.
    ways: [Transfer; 2],
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    received: u64,
    read: u64,
    /// True if no more will arrive.
    ended: bool,
    has_closed: bool,
}

impl Relay {
    /// A relay for a flow that `caller` opens.
    pub fn new(buffer: u64, caller: Host) -> Self {
        let accepts = caller as usize;
        Self { buffer, accepts, has_connected: false, ways: [Transfer::default(); 2] }
    }

    /// Moves data after news at its ends: the one on the peer's side, and the one on the host's.
    pub fn run<T: Transport, O: Observer>(&mut self, now: Instant, ends: [&mut T; 2], observer: &mut O) {
        let [peer_side, host_side] = ends;
        for (way, from) in self.ways.iter_mut().zip([&mut *peer_side, &mut *host_side]) {
            let news = from.news();
            way.received = news.received.unwrap_or(way.received);
            way.ended |= news.ended;
        }
        let is_open = [peer_side.is_open(), host_side.is_open()];
        if !self.has_connected && is_open[self.accepts] {
            self.has_connected = true;
            let onward = if self.accepts == 0 { &mut *host_side } else { &mut *peer_side };
            onward.connect(now, observer);
        }
        let [onward, back] = &mut self.ways;
        onward.copy(now, self.buffer, (&mut *peer_side, &mut *host_side), observer);
        back.copy(now, self.buffer, (host_side, peer_side), observer);
    }
}

impl Transfer {
    fn copy<T: Transport, O: Observer>(
        &mut self,
        now: Instant,
        buffer: u64,
        (from, to): (&mut T, &mut T),
        observer: &mut O,
    ) {
        if to.is_over() {
            if !self.has_closed {
                self.has_closed = true;
                from.abort(now, observer);
            }
            return;
        }
        if !to.is_open() || self.has_closed {
            return;
        }
        let held = self.read - to.acknowledged().min(self.read);
        let more = (self.received - self.read).min(buffer.saturating_sub(held));
        if more > 0 {
            self.read += more;
            from.read(self.read);
            // One stream: the ends of writes do not matter.
            to.write(now, more, u64::MAX, observer);
        }
        if self.ended && self.read == self.received {
            self.has_closed = true;
            to.close(now, observer);
        }
    }
}
