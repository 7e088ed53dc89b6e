//! The streams of a connection, as one of its ends sees them.

use std::ops::Range;

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId};

/// Bytes given to quinn in advance of sending. An application cannot withdraw the data that quinn has.
const AHEAD_BYTES: u64 = 16_384;
/// The content that applications write; the models only count bytes.
static FILLER: [u8; AHEAD_BYTES as usize] = [0; AHEAD_BYTES as usize];

/// One stream in both directions.
#[allow(clippy::struct_excessive_bools, reason = "each direction of a stream ends in steps of its own")]
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// quinn's stream, once it is open.
    id: Option<StreamId>,
    /// True if the data is a message: the stream carries only this message and ends after it.
    is_message: bool,
    /// Its start position in the data that this end writes on all streams.
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
    reported: u64,
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
        // The credit that this grants is sent with the next packets, which are polled in any case.
        let _ = chunks.finalize();
    }
}

/// A part of a stream that a packet carries.
pub(crate) struct Part {
    /// Its position in the data that this end writes on all streams.
    pub place: Range<u64>,
    /// True if it contains the end of the connection's only stream.
    pub ends: bool,
    /// True if some of it was sent before.
    pub is_again: bool,
}

/// Streams by number, in the order in which the connecting host opens them.
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

    /// The application writes a message, which begins at `first` in the data of this end.
    pub fn send(&mut self, number: u32, first: u64, bytes: u64) {
        let stream = self.at(number);
        (stream.is_message, stream.first, stream.unwritten) = (true, first, bytes);
    }

    /// Withdraws the data that quinn has not been given.
    pub fn stop(&mut self) {
        self.list.iter_mut().for_each(|stream| stream.unwritten = 0);
    }

    /// Opens the streams with data, as many as the other end allows, and the first stream in any case.
    pub fn open(&mut self, connection: &mut Connection) {
        self.at(0);
        for stream in self.list.iter_mut().filter(|stream| stream.id.is_none()) {
            stream.id = connection.streams().open(Dir::Bi);
        }
    }

    /// Accepts the streams that the other end has opened.
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

    /// Gives quinn the data that it may send next. Messages leave in the order of their streams, as HTTP/3
    /// sends responses of equal urgency (RFC 9218, section 10).
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

    /// This end has nothing more to send, and the other end has signalled the same.
    pub fn is_finished(&self) -> bool {
        self.list.iter().all(|stream| stream.is_finished && stream.has_peer_finished)
    }

    /// Both ends have received everything.
    pub fn is_done(&self) -> bool {
        self.closing && self.list.iter().all(Stream::is_done)
    }

    /// A stream with unreported bytes, and the number of bytes that have arrived on it.
    pub fn poll(&mut self) -> Option<(u32, u64)> {
        let (number, stream) =
            (0..).zip(&mut self.list).find(|(_, stream)| stream.received > stream.reported)?;
        stream.reported = stream.received;
        Some((number, stream.received))
    }
}
