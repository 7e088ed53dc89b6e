//! The data that a Linux stack still has to send, and the segments on their way to the wire.

use std::collections::VecDeque;

use lasthop_core::Ecn;

use super::buffers::Packing;
use super::context::Transmission;
use super::retransmission_queue::SentSegment;
use super::stream::{Cut, NewSegment, Stream};

/// The stream, the receiver's window over it, and the segments on their way to the wire.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a moment of its own")]
pub(crate) struct SendQueue {
    pub mss: u32,
    /// First unacknowledged byte.
    pub una: u64,
    /// First byte never sent.
    pub nxt: u64,
    /// Window that the receiver advertises.
    pub window_bytes: u64,
    pub fin_sent: bool,
    /// Both ends want ECN.
    pub ecn: bool,
    /// Code point of segments that are ECN-capable.
    pub ect: Ecn,
    /// Every segment is ECN-capable, not only new data.
    pub is_all_ect: bool,
    /// True if the next new segment must signal a reduced window (CWR); never if the flag is a part of a
    /// counter.
    pub cwr_pending: bool,
    pub out: VecDeque<Transmission>,
    stream: Stream,
    /// Nagle's algorithm: end of the last segment that was not full; none without the algorithm.
    small_end: Option<u64>,
}

impl SendQueue {
    /// An empty queue; the SYN comes first.
    pub fn new(mss: u32, cut: Cut) -> Self {
        Self {
            mss,
            una: 0,
            nxt: 0,
            window_bytes: 0,
            fin_sent: false,
            ecn: false,
            ect: Ecn::Ect0,
            is_all_ect: false,
            cwr_pending: false,
            out: VecDeque::new(),
            stream: Stream::new(cut),
            small_end: None,
        }
    }

    /// Switches on Nagle's algorithm (RFC 896) with Minshall's modification (draft-minshall-nagle-01), as in
    /// Linux: data that does not fill a segment waits while another such segment is unacknowledged.
    pub fn use_nagle(&mut self) {
        self.small_end = Some(0);
        self.join_writes();
    }

    /// Lets all data written from now on join waiting data.
    pub fn join_writes(&mut self) {
        self.stream.join_writes();
    }

    /// True if Nagle's algorithm delays the next new segment. An application that is still writing then
    /// continues, and its data is joined.
    pub fn is_held(&mut self) -> bool {
        if !self.awaits_small() || !self.holds_if_last() {
            return false;
        }
        self.end_writing();
        self.holds_if_last()
    }

    /// True under Nagle's algorithm if a segment that was not full is unacknowledged.
    fn awaits_small(&self) -> bool {
        self.small_end.is_some_and(|end| end > self.una)
    }

    /// True if the next segment is not full, and no data follows that could fill it. The FIN does not wait
    /// (`tcp_nagle_test`).
    fn holds_if_last(&self) -> bool {
        self.next().is_some_and(|new| {
            let is_small = (1..self.mss).contains(&new.payload_bytes) && !new.fin;
            is_small && self.stream.is_last(self.nxt, new.payload_bytes)
        })
    }

    /// The connection is open without a handshake; the peer advertises `window_bytes`.
    pub fn skip_handshake(&mut self, window_bytes: u64) {
        (self.una, self.nxt, self.window_bytes) = (1, 1, window_bytes);
    }

    /// Queues `bytes` of application data, written `write_bytes` at a time.
    pub fn write(&mut self, bytes: u64, write_bytes: u64) {
        self.stream.write(bytes, write_bytes);
    }

    /// Notes that the windows delay all data that has not left by now.
    pub fn end_writing(&mut self) {
        self.stream.end_writing(self.nxt, &self.packing());
    }

    fn packing(&self) -> Packing {
        Packing { mss: self.mss, window_bytes: self.window_bytes }
    }

    /// Packs new data so that up to this number of segments may leave together. Returns the number of bytes
    /// in the first buffer.
    pub fn pack(&mut self, segments: u32) -> u64 {
        let bytes = u64::from(self.mss) * u64::from(segments);
        self.stream.pack(self.nxt, bytes, &self.packing())
    }

    /// Forgets data that was written and not sent yet.
    pub fn forget_unsent(&mut self) {
        self.stream.cut(self.nxt);
    }

    /// No more data will be written: the FIN follows the last byte. Returns true if it is added to the last
    /// segment, which still waits to be put on the wire.
    pub fn close(&mut self) -> bool {
        self.stream.close();
        let fin_is_next = self.next().is_some_and(|new| new.payload_bytes == 0) && self.fits();
        let rides = fin_is_next && ride_on_last(&mut self.out, self.nxt);
        if rides {
            self.nxt += 1;
            self.fin_sent = true;
        }
        rides
    }

    /// True if everything sent is acknowledged, the FIN included.
    pub fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Bytes that were written and not sent yet.
    pub fn unsent(&self) -> u64 {
        self.stream.unsent(self.nxt)
    }

    /// Bytes that were written and not acknowledged yet.
    pub fn unacknowledged(&self) -> u64 {
        self.nxt.max(1) - self.una.max(1) + self.unsent()
    }

    /// The next new segment.
    pub fn next(&self) -> Option<NewSegment> {
        if self.fin_sent { None } else { self.stream.next(self.nxt, self.mss) }
    }

    /// Payload of the next new segments, if at most this number leave together.
    pub fn next_bytes(&self, segments: u32) -> u32 {
        self.stream.next(self.nxt, self.mss.saturating_mul(segments)).map_or(0, |burst| burst.payload_bytes)
    }

    /// The next new segment, if the receiver's window has room for it.
    pub fn next_fitting(&self) -> Option<NewSegment> {
        self.next().filter(|new| u64::from(new.payload_bytes) + u64::from(new.fin) <= self.receiver_room())
    }

    /// Bytes for which the receiver's window has room.
    pub fn receiver_room(&self) -> u64 {
        self.una.saturating_add(self.window_bytes).saturating_sub(self.nxt)
    }

    /// True if there is something new to send and the receiver's window has room for it.
    pub fn fits(&self) -> bool {
        // Mostly there is room for any segment.
        let is_data = self.nxt > 0 && self.unsent() > 0;
        (is_data && self.receiver_room() > u64::from(self.mss)) || self.next_fitting().is_some()
    }

    /// Sends the SYN, or the SYN of a SYN-ACK.
    pub fn send_syn<T>(&mut self, sent: T) -> SentSegment<T> {
        self.send(NewSegment { payload_bytes: 0, fin: false, push: false, ends_write: true }, true, sent)
    }

    #[inline]
    pub fn send_new<T>(&mut self, new: NewSegment, sent: T) -> SentSegment<T> {
        let segment = self.send(new, false, sent);
        self.stream.advance(self.nxt);
        segment
    }

    #[inline]
    fn send<T>(&mut self, new: NewSegment, syn: bool, sent: T) -> SentSegment<T> {
        let NewSegment { payload_bytes, fin, push, .. } = new;
        let seq = self.nxt;
        let end = seq + u64::from(payload_bytes) + u64::from(syn) + u64::from(fin);
        let is_data = self.ecn && payload_bytes > 0;
        let cwr = is_data && std::mem::take(&mut self.cwr_pending);
        let ecn = self.ecn_field(is_data);
        self.out.push_back(Transmission { seq, payload_bytes, syn, fin, ecn, cwr, push });
        self.nxt = end;
        self.fin_sent |= fin;
        if self.small_end.is_some() && (1..self.mss).contains(&payload_bytes) {
            self.small_end = Some(end);
        }
        SentSegment::new(seq..end, new, syn, sent)
    }

    /// The ECN field of a segment; `is_new`: with data that are sent for the first time.
    #[inline]
    pub fn ecn_field(&self, is_new: bool) -> Ecn {
        if is_new || self.is_all_ect { self.ect } else { Ecn::NotEct }
    }

    /// Probes a window without room: an ACK from below what was acknowledged, which the peer answers
    /// (`tcp_xmit_probe_skb`).
    pub fn probe_window(&mut self) {
        let seq = self.una.saturating_sub(1);
        let ecn = self.ecn_field(false);
        self.out.push_back(Transmission {
            seq,
            payload_bytes: 0,
            syn: false,
            fin: false,
            ecn,
            cwr: false,
            push: false,
        });
    }

    /// The next new segment as far as the receiver's window has room, if that is less than the segment
    /// (`tcp_write_wakeup`).
    pub fn next_cut(&self) -> Option<NewSegment> {
        let payload_bytes = u32::try_from(self.receiver_room()).ok()?;
        let is_cut = self.next().is_some_and(|new| (1..new.payload_bytes).contains(&payload_bytes));
        is_cut.then_some(NewSegment { payload_bytes, fin: false, push: true, ends_write: false })
    }

    /// The same within a burst, if Nagle's algorithm does not delay it (`tcp_mss_split_point`).
    pub fn next_cut_of_burst(&self) -> Option<NewSegment> {
        self.next_cut().filter(|_| !self.awaits_small())
    }

    /// True if data wait that the receiver's window has no room for.
    pub fn awaits_window(&self) -> bool {
        self.next().is_some() && !self.fits()
    }

    /// Sets PSH on the last sent segment.
    pub fn push_last(&mut self) {
        if let Some(last) = self.out.back_mut() {
            last.push = true;
        }
    }

    /// Retransmits a segment. Retransmissions are not ECN-capable (RFC 3168, section 6.1.5), unless all
    /// segments are.
    pub fn send_again<T>(&mut self, segment: &SentSegment<T>) {
        let &SentSegment { seq, payload_bytes, syn, fin, push, .. } = segment;
        let ecn = self.ecn_field(false);
        self.out.push_back(Transmission { seq, payload_bytes, syn, fin, ecn, cwr: false, push });
    }
}

/// Puts the FIN on the last segment that waits to be put on the wire, if that is data up to `end`.
pub(crate) fn ride_on_last(out: &mut VecDeque<Transmission>, end: u64) -> bool {
    let last = out
        .back_mut()
        .filter(|last| last.payload_bytes > 0 && last.seq + u64::from(last.payload_bytes) == end);
    last.is_some_and(|last| {
        last.fin = true;
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The handshake is over, and the peer's window is open.
    fn open() -> SendQueue {
        let mut queue = SendQueue::new(100, Cut::ByWrites);
        queue.skip_handshake(1_000);
        queue
    }

    fn send(queue: &mut SendQueue) -> Option<(u64, u64)> {
        let new = queue.next()?;
        let SentSegment { seq, end, .. } = queue.send_new(new, ());
        Some((seq, end))
    }

    #[test]
    fn segments_end_with_their_write() {
        let mut queue = open();
        queue.write(250, 150);
        assert_eq!(
            [send(&mut queue), send(&mut queue), send(&mut queue)],
            [Some((1, 101)), Some((101, 151)), Some((151, 251))]
        );
        assert!(queue.next().is_none());
    }

    #[test]
    fn fin_rides_on_data_that_has_not_left_and_follows_data_that_has() {
        for left in [false, true] {
            let mut queue = open();
            queue.write(100, 100);
            send(&mut queue);
            if left {
                queue.out.clear();
            }
            assert_eq!(queue.close(), !left);
            assert_eq!(queue.fin_sent, !left);
            assert_eq!(queue.next().is_some_and(|new| new.fin), left);
            send(&mut queue);
            queue.una = 102;
            assert!(queue.fin_acknowledged());
        }
    }

    #[test]
    fn what_was_not_sent_can_be_taken_back_and_the_fin_follows_what_was() {
        let mut queue = open();
        queue.write(1_000_000, 150);
        send(&mut queue);
        queue.out.clear();
        queue.forget_unsent();
        assert!(queue.next().is_none());
        queue.close();
        assert_eq!((send(&mut queue), queue.fin_sent), (Some((101, 102)), true));
        // Before the handshake is over nothing was sent but the SYN.
        let mut queue = SendQueue::new(100, Cut::ByWrites);
        queue.write(100, 100);
        queue.forget_unsent();
        queue.send_syn(());
        queue.close();
        assert_eq!(send(&mut queue), Some((1, 2)));
    }

    #[test]
    fn nothing_leaves_beyond_the_receivers_window() {
        let mut queue = open();
        queue.window_bytes = 150;
        queue.write(200, 200);
        assert!(queue.fits());
        send(&mut queue);
        assert!(!queue.fits(), "200 bytes are more than the window");
    }

    #[test]
    fn nagles_algorithm_lets_one_segment_be_cut_at_the_end_of_the_window() {
        let mut queue = SendQueue::new(100, Cut::Joined);
        queue.skip_handshake(150);
        queue.use_nagle();
        queue.write(1_000, 1_000);
        send(&mut queue);
        let bytes = |cut: Option<NewSegment>| cut.map(|cut| cut.payload_bytes);
        let cut = queue.next_cut_of_burst().expect("the window has room for half of a segment");
        assert_eq!(cut.payload_bytes, 50);
        queue.send_new(cut, ());
        (queue.una, queue.window_bytes) = (101, 120);
        assert_eq!((bytes(queue.next_cut()), bytes(queue.next_cut_of_burst())), (Some(70), None));
        (queue.una, queue.window_bytes) = (151, 70);
        assert_eq!(bytes(queue.next_cut_of_burst()), Some(70), "the small segment is acknowledged");
    }

    #[test]
    fn only_new_data_is_ecn_capable_and_tells_of_the_reduction_once() {
        let mut queue = SendQueue::new(100, Cut::ByWrites);
        queue.send_syn(());
        (queue.ecn, queue.cwr_pending) = (true, true);
        queue.write(200, 200);
        let first = queue.send_new(queue.next().expect("data"), ());
        send(&mut queue);
        queue.send_again(&first);
        let flags: Vec<_> = queue.out.iter().map(|t| (t.ecn, t.cwr)).collect();
        let (none, capable) = (Ecn::NotEct, Ecn::Ect0);
        assert_eq!(flags, [(none, false), (capable, true), (capable, false), (none, false)]);
    }
}
