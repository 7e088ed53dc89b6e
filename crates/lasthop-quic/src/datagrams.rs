//! The datagrams of a connection (RFC 9221), as one of its ends sees them. Datagrams are not retransmitted.
//! Each begins with its number, so that both ends can identify it in a packet.

use std::mem;

use bytes::{Bytes, BytesMut};
use quinn_proto::Connection;

/// Bytes of the number.
const NUMBER_BYTES: usize = size_of::<u64>();

/// The number of the datagram with this content.
pub(crate) fn number(content: &[u8]) -> Option<u64> {
    content.first_chunk::<NUMBER_BYTES>().map(|number| u64::from_be_bytes(*number))
}

/// The datagrams that an application has written, and those that have arrived for it.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    has_begun: bool,
    written: u64,
    /// One more than the number of the last datagram sent.
    sent: u64,
    pub received_bytes: u64,
    /// The application writes no more.
    pub closing: bool,
}

impl Datagrams {
    /// Allows sending from now on; true if that is new.
    pub fn begin(&mut self) -> bool {
        !mem::replace(&mut self.has_begun, true)
    }

    /// Gives quinn the next datagram, which leaves as soon as congestion control lets it. When quinn's buffer
    /// is full ([`quinn_proto::TransportConfig::datagram_send_buffer_size`]), the oldest in it is dropped.
    pub fn write(&mut self, bytes: u64, connection: &mut Connection) {
        let mut content = BytesMut::zeroed(bytes as usize);
        content[..NUMBER_BYTES].copy_from_slice(&self.written.to_be_bytes());
        self.written += 1;
        // It fits the smallest packet, and the other end accepts datagrams.
        connection.datagrams().send(content.freeze(), true).expect("the scenario was checked");
    }

    /// Takes the next datagram that has arrived, and returns its number.
    pub fn read(&mut self, connection: &mut Connection) -> Option<u64> {
        let content: Bytes = connection.datagrams().recv()?;
        self.received_bytes += content.len() as u64;
        number(&content)
    }

    /// A packet carries the datagram with this number.
    pub fn carry(&mut self, number: u64) {
        self.sent = number + 1;
    }

    /// All written datagrams have been sent or dropped, and no more will be written.
    pub fn is_done(&self) -> bool {
        self.closing && self.sent == self.written
    }
}
