//! What the application has written and is still to be sent, under the rules of Linux: segments end with their write
//! at the latest.

use std::collections::VecDeque;

/// A run of application data that is cut into writes of one size.
#[derive(Clone, Copy, Debug)]
struct Writes {
    end: u64,
    write_bytes: u64,
    /// End of the write that is being sent, as far as the run goes.
    boundary: u64,
}

/// The next new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSegment {
    pub payload_bytes: u32,
    pub fin: bool,
    /// The last of a write, or a FIN.
    pub push: bool,
}

/// The stream from the first byte that was never sent on.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    writes: VecDeque<Writes>,
    end: u64,
    closing: bool,
}

impl Stream {
    /// An empty stream; it begins behind the SYN.
    pub fn new() -> Self {
        Self { writes: VecDeque::new(), end: 1, closing: false }
    }

    /// Queues `bytes` of application data, written `write_bytes` at a time.
    pub fn write(&mut self, bytes: u64, write_bytes: u64) {
        if bytes == 0 {
            return;
        }
        let boundary = self.end.saturating_add(write_bytes);
        self.end += bytes;
        self.writes.push_back(Writes { end: self.end, write_bytes, boundary });
    }

    /// Forgets what was written behind `nxt`, up to which the stream is sent.
    pub fn cut(&mut self, nxt: u64) {
        self.writes.clear();
        self.end = nxt.max(1);
    }

    /// Bytes that follow `nxt`, up to which the stream is sent.
    pub fn unsent(&self, nxt: u64) -> u64 {
        self.end - nxt.clamp(1, self.end)
    }

    /// No more data will be written.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The next new segment if the stream is sent up to `nxt`, not the FIN.
    pub fn next(&self, nxt: u64, mss: u32) -> Option<NewSegment> {
        if nxt == 0 {
            return None;
        }
        let left = self.end - nxt;
        if left == 0 {
            return self.closing.then_some(NewSegment { payload_bytes: 0, fin: true, push: false });
        }
        let writes = self.writes.front()?;
        let rest = writes.boundary.min(writes.end) - nxt;
        let payload = u64::from(mss).min(rest);
        Some(NewSegment {
            payload_bytes: payload as u32,
            fin: self.closing && payload == left,
            push: payload == rest,
        })
    }

    /// Everything below `nxt` has been sent.
    pub fn advance(&mut self, nxt: u64) {
        let Some(writes) = self.writes.front_mut() else { return };
        if nxt >= writes.end {
            self.writes.pop_front();
        } else if nxt >= writes.boundary {
            // No segment goes beyond it.
            writes.boundary = writes.boundary.saturating_add(writes.write_bytes);
        }
    }
}
