//! The send buffer of the socket, and the application in front of it.

use super::Linux6Sender;
use crate::config::SizeLimit;
use crate::control::Controller;

/// Memory that Linux 4.11 counts for a buffer besides its data: the head of a kilobyte, and the `sk_buff`. A
/// segment that leaves before the next write has a buffer of its own.
const BUFFER_BYTES: u64 = 1_024 + 256;

/// A socket that takes data until its memory is used up. An application that has filled it waits until a third is
/// free, and then fills it again (`sk_stream_write_space`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Socket {
    limit: u64,
    /// Data that the application still has to write, and the size of its writes.
    waiting: u64,
    write_bytes: u64,
    /// The application closes the socket after its last write.
    closes: bool,
}

/// The memory of a socket, and how much more will be used as the application writes.
#[derive(Clone, Copy, Debug)]
struct Memory {
    used: u64,
    /// Segments that leave at once, and their payload.
    leaving: u64,
    segment_bytes: u64,
}

impl Socket {
    pub fn new(limit: SizeLimit) -> Option<Self> {
        match limit {
            SizeLimit::Infinite => None,
            SizeLimit::Bytes(bytes) => {
                Some(Self { limit: bytes.0, waiting: 0, write_bytes: 1, closes: false })
            }
        }
    }

    /// The application wants to write more. Returns what fits; an application that waits goes on waiting.
    fn write(&mut self, bytes: u64, write_bytes: u64, memory: Memory) -> u64 {
        let waits = self.waiting > 0;
        self.waiting += bytes;
        self.write_bytes = write_bytes;
        if waits { 0 } else { self.take(memory) }
    }

    /// After an ACK: what the application writes now.
    fn refill(&mut self, memory: Memory) -> u64 {
        if self.waiting > 0 && 3 * memory.used <= 2 * self.limit { self.take(memory) } else { 0 }
    }

    /// Whole writes: the last one may exceed the limit, as the socket takes a write while it has room.
    fn take(&mut self, memory: Memory) -> u64 {
        let Memory { used, leaving, segment_bytes } = memory;
        let room = self.limit.saturating_sub(used);
        let buffer_bytes = segment_bytes + BUFFER_BYTES;
        let leaving = leaving.min(room / buffer_bytes);
        let fitting = if leaving * buffer_bytes + buffer_bytes > room {
            room * segment_bytes / buffer_bytes
        } else {
            room - leaving * BUFFER_BYTES
        };
        // There is room for a write as long as any is left.
        let taken = fitting.max(room.min(1)).next_multiple_of(self.write_bytes).min(self.waiting);
        self.waiting -= taken;
        taken
    }
}

impl Linux6Sender {
    /// Queues `bytes` of application data, written `write_bytes` at a time.
    pub fn write(&mut self, bytes: u64, write_bytes: u64) {
        let memory = self.memory();
        let fitting = self.socket.as_mut().map_or(bytes, |socket| socket.write(bytes, write_bytes, memory));
        self.take_writes(fitting, write_bytes);
    }

    /// Memory of the data that is not acknowledged. SACKed segments share a buffer with their neighbours
    /// (`tcp_shift_skb_data`).
    fn memory(&self) -> Memory {
        let queue = &self.board.queue;
        let buffers = queue.outstanding().saturating_sub(queue.sacked_out);
        Memory {
            used: self.queue.unacknowledged() + BUFFER_BYTES * u64::from(buffers),
            leaving: u64::from(self.control.window().saturating_sub(self.board.in_flight())),
            segment_bytes: u64::from(self.queue.mss),
        }
    }

    /// The application writes what the socket takes. Returns true if it has.
    pub(super) fn refill(&mut self) -> bool {
        if self.socket.is_none() {
            return false;
        }
        let memory = self.memory();
        let Some(socket) = &mut self.socket else { return false };
        let bytes = socket.refill(memory);
        let (write_bytes, closes) = (socket.write_bytes, socket.closes && socket.waiting == 0);
        if bytes == 0 {
            return false;
        }
        self.take_writes(bytes, write_bytes);
        if closes {
            self.close();
        }
        true
    }

    /// No more data will be written. Returns false if data still waits in front of the socket.
    pub(super) fn close_socket(&mut self) -> bool {
        let Some(socket) = &mut self.socket else { return true };
        socket.closes = true;
        socket.waiting == 0
    }

    /// Forgets data that was not sent yet.
    pub fn forget_unsent(&mut self) {
        if let Some(socket) = &mut self.socket {
            socket.waiting = 0;
        }
        self.queue.forget_unsent();
    }
}
