//! How Linux packs data that waits to be sent into buffers (`sk_buff`), and which buffers are marked to tell
//! the receiver not to wait for more: their last segment carries PSH.
//!
//! The application writes faster than the network sends, so a buffer is filled whole; a write that ends
//! within a buffer loses its mark to the next write, which continues there (`tcp_sendmsg_locked`). Buffers
//! that are farther behind the head than the socket's memory are filled when there is room again.

/// Maximum size of a buffer: the limit of an offload, minus the headers (`gso_max_size`).
const BUFFER_BYTES_MAX: u64 = 65_343;
/// Bytes that a socket accepts at once, as on the engines with real hosts.
const SOCKET_BYTES: u64 = 16 << 20;
/// Up to this window in bytes, one buffer may fill the window (`TCP_MSS_DEFAULT`).
const WINDOW_BYTES_SMALL: u64 = 536;

/// The parameters of the size of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub mss: u32,
    /// The largest window that the receiver has advertised.
    pub window_bytes: u64,
}

impl Packing {
    /// Size of a full buffer: whole segments, and at most half of the window (`tcp_xmit_size_goal`).
    fn goal(&self) -> u64 {
        let mss = u64::from(self.mss);
        let half =
            if self.window_bytes > WINDOW_BYTES_SMALL { self.window_bytes / 2 } else { self.window_bytes };
        (half.min(BUFFER_BYTES_MAX) / mss).max(1) * mss
    }
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    end: u64,
    push: bool,
}

/// The buffers of the data that an application writes at once, from the first unsent one on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    /// Start of the first buffer, and of the write in it.
    begin: u64,
    head: Buffer,
    /// The rest of the buffer after the head, if the head has taken a part of it (`tcp_grow_skb`).
    following: Option<Buffer>,
    /// End of the first burst that left while the application was writing.
    first_end: Option<u64>,
    /// End of the written data when a buffer was last marked (`pushed_seq`).
    pushed: u64,
    /// When the first buffer was filled: the size of a full buffer, and half of the window.
    filling: Option<(u64, u64)>,
}

impl Buffers {
    /// Without buffers. The data begins at `begin`, and so does a write.
    pub fn new(begin: u64) -> Self {
        let head = Buffer { end: begin, push: false };
        Self { begin, head, following: None, first_end: None, pushed: begin, filling: None }
    }

    /// End of the first buffer.
    pub fn head_end(&self) -> u64 {
        self.head.end
    }

    /// True if a segment that ends at `end` carries PSH.
    pub fn pushes(&self, end: u64) -> bool {
        self.head.push && end == self.head.end
    }

    /// Lets the buffer that begins at `nxt` extend up to `target`. The written data ends at `last`.
    pub fn pack(&mut self, nxt: u64, target: u64, last: u64, write_bytes: u64, packing: &Packing) {
        if self.head.end <= nxt {
            self.head = self.take_next(nxt, last, write_bytes, packing);
        }
        self.first_end.get_or_insert(target);
        while self.head.end < target {
            let more = self.take_next(self.head.end, last, write_bytes, packing);
            if more.end <= target {
                self.head = Buffer { end: more.end, push: self.head.push | more.push };
            } else {
                self.following = Some(more);
                self.head.end = target;
            }
        }
    }

    /// The application has written everything, and data up to `nxt` could leave at once. Each buffer was
    /// refilled after data was taken from it, and the first one was marked.
    pub fn settle(&mut self, nxt: u64, last: u64, write_bytes: u64, packing: &Packing) {
        let Some(first_end) = self.first_end.filter(|_| nxt < last) else { return };
        let (goal, half) = self.measures(self.begin, packing);
        let full_again = first_end + goal;
        let in_write = |end: u64| end - self.begin <= write_bytes;
        let is_marked = full_again - self.begin > half && in_write(full_again);
        let keeps_mark = is_marked && in_write((nxt + goal).min(last));
        if is_marked {
            self.pushed = full_again;
        }
        self.following = None;
        self.head = self.fill(nxt, last, write_bytes, packing);
        self.head.push |= keeps_mark;
    }

    fn take_next(&mut self, from: u64, last: u64, write_bytes: u64, packing: &Packing) -> Buffer {
        self.following.take().unwrap_or_else(|| self.fill(from, last, write_bytes, packing))
    }

    /// Size of a full buffer and half of the window, at the time when the buffer that begins at `from` is
    /// filled.
    fn measures(&mut self, from: u64, packing: &Packing) -> (u64, u64) {
        let now = || (packing.goal(), packing.window_bytes / 2);
        if from - self.begin < SOCKET_BYTES { *self.filling.get_or_insert_with(now) } else { now() }
    }

    /// Fills the buffer that begins at `from`.
    fn fill(&mut self, from: u64, last: u64, write_bytes: u64, packing: &Packing) -> Buffer {
        let (goal, half) = self.measures(from, packing);
        let end = (from + goal).min(last);
        let written = end - (end - self.begin) % write_bytes;
        if written > from {
            self.pushed = written;
        }
        // More than half of the window without a mark (`forced_push`).
        let forced = end == from + goal && end > self.pushed + half;
        let push = end == last || written == end || forced;
        if push {
            self.pushed = end;
        }
        Buffer { end, push }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    /// The ends of the segments that leave in bursts of `segments`, and the ends of those with PSH.
    fn bursts(bytes: u64, write_bytes: u64, window_bytes: u64, segments: u64) -> (Vec<u64>, Vec<u64>) {
        let packing = Packing { mss: MSS, window_bytes };
        let (mut buffers, mut nxt) = (Buffers::new(0), 0);
        let (mut ends, mut pushed) = (Vec::new(), Vec::new());
        while nxt < bytes {
            let target = (nxt + segments * u64::from(MSS)).min(bytes);
            buffers.pack(nxt, target, bytes, write_bytes, &packing);
            nxt = target.min(buffers.head_end());
            ends.push(nxt);
            pushed.extend(buffers.pushes(nxt).then_some(nxt));
        }
        (ends, pushed)
    }

    #[test]
    fn every_second_full_buffer_has_a_mark_and_so_has_the_end() {
        // Buffers of ten segments, half of the window.
        let (ends, pushed) = bursts(55_500, 1 << 20, 20_000, 1);
        assert_eq!(ends.len(), 56);
        assert_eq!(pushed, [20_000, 40_000, 55_500]);
    }

    #[test]
    fn a_buffer_that_takes_from_the_next_takes_its_mark_along() {
        // 20 is not a multiple of 3: the third buffer contributes a segment to the last burst of the second.
        let (_, pushed) = bursts(40_000, 1 << 20, 20_000, 3);
        assert_eq!(pushed, [21_000, 40_000]);
    }

    #[test]
    fn a_write_that_ends_in_a_buffer_defers_the_next_mark() {
        // A write ends at 15 000: from there on the distance to the mark exceeds 10 000.
        let (_, pushed) = bursts(60_000, 15_000, 20_000, 1);
        assert_eq!(pushed, [30_000, 60_000], "where writes and buffers end together");
        let (_, pushed) = bursts(49_000, 25_000, 20_000, 1);
        assert_eq!(pushed, [20_000, 40_000, 49_000]);
    }

    #[test]
    fn one_buffer_is_as_large_as_an_offload_takes() {
        let packing = Packing { mss: 1_448, window_bytes: 1 << 20 };
        assert_eq!(packing.goal(), 45 * 1_448);
        assert_eq!(Packing { mss: 1_448, window_bytes: 500 }.goal(), 1_448);
    }
}
