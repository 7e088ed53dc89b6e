//! The streams of a connection, as one of its ends sees them.

use std::ops::Range;

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId};

/// Bytes given to quinn beyond those sent: what it has, an application cannot take back.
const AHEAD_BYTES: u64 = 16_384;
/// What applications write: the models only count bytes.
static FILLER: [u8; AHEAD_BYTES as usize] = [0; AHEAD_BYTES as usize];

/// One stream in both directions.
#[allow(clippy::struct_excessive_bools, reason = "each direction of a stream ends in steps of its own")]
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Of quinn, once it is open.
    id: Option<StreamId>,
    /// What is written is a message, and so a stream of its own that ends behind it.
    is_message: bool,
    /// Where it begins in what this end writes, all streams together.
    first: u64,
    /// Written by the application and not given to quinn yet.
    unwritten: u64,
    given: u64,
    /// First byte that has not been sent yet.
    sent: u64,
    is_end_sent: bool,
    is_finished: bool,
    is_finish_acknowledged: bool,
    received: u64,
    told: u64,
    has_peer_finished: bool,
}

impl Stream {
    fn is_done(&self) -> bool {
        self.is_finish_acknowledged && self.has_peer_finished
    }

    /// Gives quinn what it may send next.
    fn feed(&mut self, connection: &mut Connection, closing: bool) {
        let Some(id) = self.id.filter(|_| !self.is_finished) else { return };
        while self.unwritten > 0 && self.given < self.sent + AHEAD_BYTES {
            let room = (self.sent + AHEAD_BYTES - self.given).min(self.unwritten) as usize;
            let mut filler = [Bytes::from_static(&FILLER[..room])];
            let Ok(written) = connection.send_stream(id).write_chunks(&mut filler) else { return };
            self.unwritten -= written.bytes as u64;
            self.given += written.bytes as u64;
        }
        if (self.is_message || closing) && self.unwritten == 0 {
            self.is_finished = connection.send_stream(id).finish().is_ok();
        }
    }

    fn read(&mut self, id: StreamId, connection: &mut Connection) {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.received += chunk.bytes.len() as u64,
                Ok(None) | Err(ReadError::Reset(_)) => {
                    self.has_peer_finished = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        // Credit that this grants leaves with the next packets, which are polled in any case.
        let _ = chunks.finalize();
    }
}

/// A part of a stream that a packet carries.
pub(crate) struct Part {
    /// Its place in what this end writes, all streams together.
    pub place: Range<u64>,
    /// The end of the connection's only stream is in it.
    pub ends: bool,
    /// Some of it was sent before.
    pub is_again: bool,
}

/// By number, in the order in which the host that connects opens them.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Stream>,
    /// The application writes no more.
    pub closing: bool,
}

impl Streams {
    fn at(&mut self, number: u32) -> &mut Stream {
        let number = number as usize;
        if self.list.len() <= number {
            self.list.resize_with(number + 1, Stream::default);
        }
        &mut self.list[number]
    }

    /// The application writes to the connection's only stream.
    pub fn write(&mut self, bytes: u64) {
        self.at(0).unwritten += bytes;
    }

    /// The application writes a message, which begins at `first` of what this end writes.
    pub fn send(&mut self, number: u32, first: u64, bytes: u64) {
        let stream = self.at(number);
        (stream.is_message, stream.first, stream.unwritten) = (true, first, bytes);
    }

    /// Takes back what quinn has not been given.
    pub fn stop(&mut self) {
        self.list.iter_mut().for_each(|stream| stream.unwritten = 0);
    }

    /// Opens those that have been written to, as many as the other end allows; the first one in any case.
    pub fn open(&mut self, connection: &mut Connection) {
        self.at(0);
        for stream in self.list.iter_mut().filter(|stream| stream.id.is_none()) {
            stream.id = connection.streams().open(Dir::Bi);
        }
    }

    /// Takes those that the other end has opened.
    pub fn accept(&mut self, connection: &mut Connection) {
        while let Some(id) = connection.streams().accept(Dir::Bi) {
            self.at(id.index() as u32).id = Some(id);
            self.read(id, connection);
        }
    }

    pub fn read(&mut self, id: StreamId, connection: &mut Connection) {
        self.at(id.index() as u32).read(id, connection);
    }

    pub fn finish_acknowledged(&mut self, id: StreamId) {
        self.at(id.index() as u32).is_finish_acknowledged = true;
    }

    /// Gives quinn what it may send next. Messages leave in the order of their streams, as HTTP/3 sends responses that are
    /// equally urgent (RFC 9218, section 10).
    pub fn feed(&mut self, connection: &mut Connection) {
        for (number, stream) in (0..).zip(&mut self.list) {
            if stream.given == 0
                && stream.is_message
                && let Some(id) = stream.id
            {
                // A stream that is closed already needs no priority.
                let _ = connection.send_stream(id).set_priority(-number);
            }
            stream.feed(connection, self.closing);
        }
    }

    /// A packet carries these bytes of a stream, and its end if `fin`.
    pub fn carry(&mut self, number: u32, bytes: &Range<u64>, fin: bool) -> Part {
        let stream = self.at(number);
        let is_again = bytes.start < stream.sent || fin && stream.is_end_sent;
        stream.sent = stream.sent.max(bytes.end);
        stream.is_end_sent |= fin;
        let place = stream.first + bytes.start..stream.first + bytes.end;
        Part { place, ends: fin && !stream.is_message, is_again }
    }

    /// Bytes that have arrived in order on a stream.
    pub fn received_on(&self, number: u32) -> u64 {
        self.list.get(number as usize).map_or(0, |stream| stream.received)
    }

    /// Bytes that have arrived in order, on all streams.
    pub fn received(&self) -> u64 {
        self.list.iter().map(|stream| stream.received).sum()
    }

    /// The other end has ended the connection's only stream.
    pub fn has_peer_finished(&self) -> bool {
        self.list.first().is_some_and(|stream| stream.has_peer_finished)
    }

    /// This end has nothing more to send, and the other end has said the same.
    pub fn is_finished(&self) -> bool {
        self.list.iter().all(|stream| stream.is_finished && stream.has_peer_finished)
    }

    /// The other end has it all, and so does this one.
    pub fn is_done(&self) -> bool {
        self.closing && self.list.iter().all(Stream::is_done)
    }

    /// A stream with bytes that nobody was told of, and how many have arrived on it.
    pub fn poll(&mut self) -> Option<(u32, u64)> {
        let (number, stream) = (0..).zip(&mut self.list).find(|(_, stream)| stream.received > stream.told)?;
        stream.told = stream.received;
        Some((number, stream.received))
    }
}
