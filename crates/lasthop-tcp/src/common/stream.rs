//! The written data that is still to be sent, and the ends of segments.

use std::collections::VecDeque;

use super::buffers::{Buffers, Packing};

/// How a stack makes segments of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Segments end with their write at the latest.
    ByWrites,
    /// Waiting data is joined in buffers, as in Linux.
    Joined,
}

/// Data that the application writes at once: bytes, in writes of one size. No segment spans its end.
#[derive(Clone, Copy, Debug)]
struct Order {
    end: u64,
    write_bytes: u64,
    /// End of the current write within this order.
    boundary: u64,
    buffers: Buffers,
    /// True while the application is writing: data then leaves write by write.
    writing: bool,
}

/// The next new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSegment {
    pub payload_bytes: u32,
    pub fin: bool,
    /// True if it tells the receiver not to wait for more (PSH).
    pub push: bool,
    /// True if a write ends with it.
    pub ends_write: bool,
}

/// The stream from the first byte that was never sent on.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    cut: Cut,
    orders: VecDeque<Order>,
    end: u64,
    closing: bool,
    /// True if data written later joins waiting data.
    joins_later: bool,
}

impl Stream {
    /// An empty stream; it begins after the SYN.
    pub fn new(cut: Cut) -> Self {
        Self { cut, orders: VecDeque::new(), end: 1, closing: false, joins_later: false }
    }

    /// Lets all data written from now on join waiting data.
    pub fn join_writes(&mut self) {
        self.joins_later = true;
    }

    /// True if the written data ends `bytes` bytes after `nxt`, or a write does while the application is
    /// writing.
    pub fn is_last(&self, nxt: u64, bytes: u32) -> bool {
        let end = nxt + u64::from(bytes);
        end == self.end || self.orders.front().is_some_and(|order| order.writing && end == order.boundary)
    }

    /// Queues `bytes` of application data, written `write_bytes` at a time.
    pub fn write(&mut self, bytes: u64, write_bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(last) = self
            .orders
            .back_mut()
            .filter(|last| self.joins_later && !(self.cut == Cut::Joined && last.writing))
        {
            self.end += bytes;
            last.end = self.end;
            return;
        }
        if self.orders.is_empty() {
            // Nearly all that write do it once, and every connection of a run has a stream.
            self.orders.reserve_exact(1);
        }
        let boundary = self.end.saturating_add(write_bytes);
        let buffers = Buffers::new(self.end);
        self.end += bytes;
        self.orders.push_back(Order { end: self.end, write_bytes, boundary, buffers, writing: true });
    }

    /// The windows hold back what has not left by now.
    pub fn end_writing(&mut self, nxt: u64, packing: &Packing) {
        for order in self.orders.iter_mut().filter(|order| order.writing) {
            order.writing = false;
            order.buffers.settle(nxt, order.end, order.write_bytes, packing);
        }
    }

    /// Forgets data written after `nxt`, up to which the stream is sent.
    pub fn cut(&mut self, nxt: u64) {
        self.orders.clear();
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

    /// Packs the data after `nxt` so that up to `bytes` of it may leave together. Returns the number of bytes
    /// in the first buffer.
    pub fn pack(&mut self, nxt: u64, bytes: u64, packing: &Packing) -> u64 {
        let Some(order) = self.orders.front_mut().filter(|_| nxt > 0) else { return 0 };
        let limit = if order.writing { order.boundary.min(order.end) } else { order.end };
        order.buffers.pack(nxt, (nxt + bytes).min(limit), order.end, order.write_bytes, packing);
        order.buffers.head_end().min(limit) - nxt
    }

    /// The next new segment if the stream is sent up to `nxt`, not the FIN.
    pub fn next(&self, nxt: u64, mss: u32) -> Option<NewSegment> {
        if nxt == 0 {
            return None;
        }
        let left = self.end - nxt;
        if left == 0 {
            let fin = NewSegment { payload_bytes: 0, fin: true, push: false, ends_write: false };
            return self.closing.then_some(fin);
        }
        let order = self.orders.front()?;
        let write_end = order.boundary.min(order.end);
        let limit = if self.cut == Cut::ByWrites || order.writing { write_end } else { order.end };
        let payload = u64::from(mss).min(limit - nxt);
        let end = nxt + payload;
        Some(NewSegment {
            payload_bytes: payload as u32,
            fin: self.closing && payload == left,
            push: self.cut == Cut::Joined && (end == limit || order.buffers.pushes(end)),
            ends_write: end == write_end,
        })
    }

    /// Everything below `nxt` has been sent.
    pub fn advance(&mut self, nxt: u64) {
        let Some(order) = self.orders.front_mut() else { return };
        if nxt >= order.end {
            self.orders.pop_front();
        } else if nxt >= order.boundary {
            if order.writing && nxt == order.boundary {
                // The next write finds nothing to join.
                order.buffers = Buffers::new(nxt);
            }
            let writes = (nxt - order.boundary) / order.write_bytes + 1;
            order.boundary = order.boundary.saturating_add(writes * order.write_bytes);
        }
    }
}
