//! The receiving half: reassembly, when to acknowledge, SACK and D-SACK blocks, window, echoes.

use std::collections::VecDeque;

use lasthop_core::{Ecn, Flags, Instant, SackBlock, SackList, Segment};

use super::delayed_ack::DelayedAck;
use super::ecn_bytes::EcnBytes;
use super::room::Room;
use crate::clock::{Tick, TickClock};
use crate::common::MARKS_FIRST;
use crate::config::TcpConfig;

/// Maximum number of quick ACKs at the start of a connection (Linux: `TCP_MAX_QUICKACKS`).
const QUICK_ACKS_MAX: u32 = 16;

/// Number of marked ACKs without data that are acknowledged (RFC 9768, section 3.2.2.5.1).
const MARKED_ACKS_PER_ACK: u8 = 3;
/// Number of marks that are acknowledged at once (RFC 9768, section 3.2.2.5.1).
const MARKS_PER_ACK: u8 = 2;

/// Minimum payload that makes an adaptive window grow.
const GROWTH_BYTES_MIN: u32 = 128;

/// By how much data may be older than the timestamp to echo (`TCP_PAWS_WINDOW`).
const OLDER_MAX: i32 = 1;

/// A segment that has arrived, and facts of this end's sending half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub tick: Tick,
    pub segment: &'a Segment,
    pub ecn: Ecn,
    /// Smoothed round-trip time, 0 if there is none, and timeout.
    pub rtt: Tick,
    pub rto: Tick,
    pub fin_sent: bool,
}

/// An ACK that leaves before the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    pub ack: u64,
    pub ecn_flags: Flags,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Next byte expected.
    pub nxt: u64,
    /// Highest ACK number sent.
    pub acked: u64,
    /// Ranges received out of order: disjoint, and in the order of sequence numbers.
    ranges: VecDeque<SackBlock>,
    /// The blocks of the SACK option for them, the most recent first (RFC 2018, section 4).
    sack_blocks: Vec<SackBlock>,
    /// Duplicate to report in the next ACK (RFC 2883).
    duplicate: Option<SackBlock>,
    fin: Option<u64>,
    window_segments: u32,
    /// Bytes of the window in excess of whole segments, until it grows.
    window_rest: u32,
    echo: u32,
    delayed: Option<Tick>,
    data_seen: bool,
    /// Number of remaining quick ACKs.
    quick: u32,
    adaptive: Option<DelayedAck>,
    /// ECN flags of sent segments: an echo (RFC 3168), or the counter `r.cep` (RFC 9768).
    pub ecn_flags: Flags,
    /// If marks are counted: marks since the last ACK, and whether the latest packet had one.
    marks: u8,
    was_marked: bool,
    pub ecn_bytes: EcnBytes,
    /// End of the data received under the former state of an exact echo.
    pub earlier: Option<Earlier>,
    /// The receive buffer, if the owner does not read at once.
    pub room: Option<Room>,
}

impl Receiver {
    pub fn new(config: &TcpConfig, clock: TickClock, mss: u32) -> Self {
        Self {
            nxt: 0,
            acked: 0,
            ranges: VecDeque::new(),
            sack_blocks: Vec::new(),
            duplicate: None,
            fin: None,
            window_segments: config.receive_window_initial,
            window_rest: 0,
            echo: 0,
            delayed: None,
            data_seen: false,
            quick: 0,
            adaptive: config.delayed_ack_adapts.then(|| DelayedAck::new(config, clock, mss)),
            ecn_flags: Flags::default(),
            marks: 0,
            was_marked: false,
            ecn_bytes: EcnBytes::default(),
            earlier: None,
            room: None,
        }
    }

    /// This end connects: it counts its first window in segments of `offered_mss`, because it does not know
    /// yet whether timestamps will reduce the payload (Linux 2.4 and 2.6: `tcp_connect_init`). The other end
    /// knows (`tcp_make_synack`).
    pub fn on_connect(&mut self, offered_mss: u32, mss: u32) {
        self.window_rest = self.window_segments * (offered_mss - mss);
    }

    /// The peer's SYN arrived.
    pub fn on_syn(&mut self, segment: &Segment) {
        self.nxt = segment.seq + 1;
        self.echo = segment.timestamps.map_or(0, |t| t.value);
    }

    /// Processes data or a FIN. Returns true if it must be acknowledged at once.
    pub fn on_segment(
        &mut self,
        config: &TcpConfig,
        clock: TickClock,
        mss: u32,
        arrival: &Arrival<'_>,
    ) -> bool {
        let &Arrival { tick, segment, ecn, .. } = arrival;
        let mark_is_due = self.note_ecn(config, segment, ecn, mss);
        if segment.flags.contains(Flags::FIN) {
            self.fin = Some(segment.end());
        }
        let (start, end) = (segment.seq, segment.end());
        if end <= self.nxt || start > self.nxt {
            self.adapt_to_out_of_order(config, mss, segment);
            self.on_out_of_order(config, SackBlock { start, end });
            return true;
        }
        if start < self.nxt {
            self.note_duplicate(config, SackBlock { start, end: self.nxt });
        }
        let gap = !self.ranges.is_empty();
        self.advance(end);
        if self.adaptive.is_some() {
            return self.adapt_to_data(config, mss, gap, arrival) || mark_is_due;
        }
        let first = !std::mem::replace(&mut self.data_seen, true);
        if first && config.quick_acks {
            self.quick = (self.window_segments / 2).clamp(2, QUICK_ACKS_MAX);
        }
        let grown = (self.window_segments + config.receive_window_growth).min(config.receive_window_max);
        if grown > self.window_segments {
            (self.window_segments, self.window_rest) = (grown, 0);
        }
        // RFC 5681, section 4.2: at least every second full-sized segment, and while a gap is open.
        let may_be_held = u64::from(config.ack_every.saturating_sub(1)) * u64::from(mss);
        let at_once = self.nxt - self.acked > may_be_held
            || !self.ranges.is_empty()
            || self.peer_closed()
            || (first && config.first_segment_acked_at_once)
            || self.quick > 0
            || mark_is_due;
        if !at_once && self.delayed.is_none() {
            self.delayed = Some(tick + clock.ticks(config.delayed_ack));
        }
        at_once
    }

    /// Takes the timestamp of a segment, with data or without. Returns false for data that left before what
    /// the timestamp to echo belongs to: it must be refused (PAWS: RFC 7323, section 5.3, R1). On a path that
    /// reorders, that is data which the retransmission of earlier data has overtaken.
    pub fn note_timestamp(&mut self, segment: &Segment) -> bool {
        let Some(timestamps) = segment.timestamps else { return true };
        let age = self.echo.wrapping_sub(timestamps.value).cast_signed();
        if age > 0 {
            return age <= OLDER_MAX || segment.sequence_length() == 0;
        }
        if (segment.seq..=segment.end()).contains(&self.acked) {
            // The echo belongs to the segment at the left edge (RFC 7323, section 4.3). A segment that ends
            // before the edge is outside of the window, and its timestamp is ignored (section 5.3, R2; Linux:
            // tcp_sequence).
            self.echo = timestamps.value;
        }
        true
    }

    /// Refuses old data, which must be acknowledged at once (`tcp_send_dupack`).
    #[cold]
    pub fn refuse(&mut self, config: &TcpConfig, mss: u32, segment: &Segment) {
        if segment.seq < self.nxt {
            let window = self.window_bytes(mss);
            if let Some(adaptive) = &mut self.adaptive {
                adaptive.on_duplicate(window, false);
            }
            self.note_duplicate(config, SackBlock { start: segment.seq, end: segment.end().min(self.nxt) });
        }
    }

    /// Data in order under adaptive delayed ACKs; `gap`: there was a gap before it.
    fn adapt_to_data(&mut self, config: &TcpConfig, mss: u32, gap: bool, arrival: &Arrival<'_>) -> bool {
        let &Arrival { tick, segment, rtt, rto, fin_sent, .. } = arrival;
        let (window, filled, closed) =
            (self.window_bytes(mss), gap && self.ranges.is_empty(), self.peer_closed());
        let still_open = !self.ranges.is_empty();
        let unacknowledged = self.nxt - self.acked;
        let Some(adaptive) = &mut self.adaptive else { return true };
        if segment.payload_bytes > 0 {
            adaptive.on_data(tick, segment, window, rto);
        }
        if segment.payload_bytes >= GROWTH_BYTES_MIN {
            grow(&mut self.window_segments, config, adaptive);
        }
        if filled {
            adaptive.hurry_once();
        }
        if closed {
            adaptive.on_fin(fin_sent);
        }
        adaptive.is_due(tick, unacknowledged, still_open, rtt)
    }

    fn adapt_to_out_of_order(&mut self, config: &TcpConfig, mss: u32, segment: &Segment) {
        let window = self.window_bytes(mss);
        let end = segment.end();
        let Some(adaptive) = &mut self.adaptive else { return };
        if end <= self.nxt {
            adaptive.on_duplicate(window, end >= self.acked);
            return;
        }
        adaptive.on_gap(segment);
        if config.sack {
            // Without SACK, an ACK with a larger window would not count as a duplicate.
            grow(&mut self.window_segments, config, adaptive);
        }
    }

    /// The delayed-ACK timer fired.
    pub fn on_delayed_ack(&mut self, rto: Tick) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.on_timer(rto);
        }
    }

    /// Data of the application leaves.
    pub fn on_data_sent(&mut self, clock: TickClock, now: Instant) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.on_data_sent(clock, now);
        }
    }

    /// Processes the ECN field. True if it must be acknowledged at once.
    fn note_ecn(&mut self, config: &TcpConfig, segment: &Segment, ecn: Ecn, mss: u32) -> bool {
        if config.counts_marks() {
            let changes = config.accurate_ecn_option && self.ecn_bytes.note(ecn, segment.payload_bytes);
            return self.count_mark(ecn, mss) || changes;
        }
        if config.is_all_ect() {
            self.echo_exactly(segment, ecn);
        } else {
            self.note_congestion(segment, ecn, mss);
        }
        false
    }

    /// The counter `r.cep` (RFC 9768, section 3.2). The first mark after an unmarked packet, and the second
    /// mark since the last ACK, are acknowledged at once (section 3.2.2.5.1).
    fn count_mark(&mut self, ecn: Ecn, mss: u32) -> bool {
        let marked = ecn == Ecn::Ce;
        let was_marked = std::mem::replace(&mut self.was_marked, marked);
        if !marked {
            let window = self.window_bytes(mss);
            if let Some(adaptive) = &mut self.adaptive {
                adaptive.on_unmarked(ecn != Ecn::NotEct, window);
            }
            return false;
        }
        self.add_mark() >= MARKS_PER_ACK || !was_marked
    }

    /// Adds a mark to `r.cep`. Returns the number of marks since the last ACK.
    fn add_mark(&mut self) -> u8 {
        self.ecn_flags = Flags::from_ace(self.ecn_flags.ace() + 1);
        self.marks += 1;
        self.marks
    }

    /// Counts the mark of an ACK without data. With the third mark since the last ACK, `r.cep` is sent (RFC
    /// 9768, section 3.2.2.5.1), so that ACKs of ACKs come to an end.
    pub fn note_marked_ack(&mut self, ecn: Ecn) -> bool {
        ecn == Ecn::Ce && self.add_mark() >= MARKED_ACKS_PER_ACK
    }

    /// Begins to count marks: `r.cep` is 5, or 6 if the SYN-ACK was marked (RFC 9768, sections 3.2.1 and
    /// 3.2.2.2).
    pub fn begin_counting(&mut self, marked: bool) {
        self.ecn_flags = Flags::from_ace(MARKS_FIRST + u8::from(marked));
    }

    /// ECN echo: from a congestion mark until the sender signals that it has reduced its window (RFC 3168,
    /// section 6.1.3).
    fn note_congestion(&mut self, segment: &Segment, ecn: Ecn, mss: u32) {
        let window = self.window_bytes(mss);
        if let Some(adaptive) = &mut self.adaptive {
            let reduced = segment.flags.contains(Flags::CWR);
            if reduced && segment.payload_bytes > 0 {
                adaptive.hurry_once();
            }
            if ecn == Ecn::Ce {
                adaptive.on_mark(reduced || !self.ecn_flags.contains(Flags::ECE), window);
            } else {
                adaptive.on_unmarked(ecn != Ecn::NotEct, window);
            }
        }
        if segment.flags.contains(Flags::CWR) {
            self.ecn_flags = Flags::default();
        }
        if ecn == Ecn::Ce {
            self.ecn_flags = Flags::ECE;
        }
    }

    /// The echo of DCTCP (RFC 8257, section 3.2): it reports whether the latest segment was marked. When that
    /// changes, data waiting for an ACK is acknowledged with the former state, and the change at once. Data
    /// that has arrived before is ignored (`dctcp_ece_ack_update`).
    fn echo_exactly(&mut self, segment: &Segment, ecn: Ecn) {
        if ecn == Ecn::NotEct || segment.end() <= self.nxt {
            return;
        }
        let now = if ecn == Ecn::Ce { Flags::ECE } else { Flags::default() };
        let echo = std::mem::replace(&mut self.ecn_flags, now);
        let changes = echo != now;
        if changes && self.delayed_ack_due().is_some() {
            self.earlier = Some(Earlier { ack: self.nxt, ecn_flags: echo });
        }
        let reduced = segment.flags.contains(Flags::CWR) && segment.payload_bytes > 0;
        if let Some(adaptive) = self.adaptive.as_mut().filter(|_| changes || reduced) {
            adaptive.hurry_once();
        }
    }

    fn on_out_of_order(&mut self, config: &TcpConfig, block: SackBlock) {
        if block.end <= self.nxt {
            self.note_duplicate(config, block);
            return;
        }
        let first = self.ranges.partition_point(|range| range.end <= block.start);
        if let Some(known) = self.ranges.get(first).filter(|range| range.start < block.end).copied() {
            // Only the first duplicate part is reported (RFC 2883, section 4.2.2).
            let start = known.start.max(block.start);
            self.note_duplicate(config, SackBlock { start, end: known.end.min(block.end) });
        }
        self.add_range(block);
        // Linux remembers four blocks. A forgotten block reappears only with data that arrives next to it,
        // and without its other data (tcp_sack_new_ofo_skb).
        merge(&mut self.sack_blocks, block);
        self.sack_blocks.truncate(SackList::CAPACITY);
    }

    /// Adds a range, merged with the ranges that it touches.
    fn add_range(&mut self, block: SackBlock) {
        let first = self.ranges.partition_point(|range| range.end < block.start);
        let after = self.ranges.partition_point(|range| range.start <= block.end);
        if first == after {
            self.ranges.insert(first, block);
            return;
        }
        let (start, end) =
            (self.ranges[first].start.min(block.start), self.ranges[after - 1].end.max(block.end));
        self.ranges[first] = SackBlock { start, end };
        self.ranges.drain(first + 1..after);
    }

    fn note_duplicate(&mut self, config: &TcpConfig, block: SackBlock) {
        if config.dsack {
            self.duplicate = Some(block);
        }
    }

    /// Moves the left edge to `end` and past all data that is now in order.
    fn advance(&mut self, end: u64) {
        self.nxt = end;
        while let Some(range) = self.ranges.front().filter(|range| range.start <= self.nxt) {
            self.nxt = self.nxt.max(range.end);
            self.ranges.pop_front();
        }
        self.sack_blocks.retain(|block| block.start > self.nxt);
    }

    /// True once the peer's FIN is in order.
    pub fn peer_closed(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt >= fin)
    }

    /// Advertised window in bytes.
    pub fn window_bytes(&self, mss: u32) -> u64 {
        u64::from(self.window_segments) * u64::from(mss) + u64::from(self.window_rest)
    }

    /// Timestamp to echo.
    pub fn echo(&self) -> u32 {
        self.echo
    }

    /// Tick at which a delayed ACK is due.
    pub fn delayed_ack_due(&self) -> Option<Tick> {
        self.adaptive.as_ref().map_or(self.delayed, DelayedAck::due)
    }

    /// A segment with the current ACK number leaves. Adds the SACK option's blocks to `list`, which is empty.
    pub fn on_ack_sent(&mut self, config: &TcpConfig, list: &mut SackList) {
        self.acked = self.nxt;
        self.marks = 0;
        self.delayed = None;
        self.quick = self.quick.saturating_sub(1);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.on_ack_sent();
        }
        if !config.sack || (self.sack_blocks.is_empty() && self.duplicate.is_none()) {
            return;
        }
        // Timestamps leave room for three blocks (RFC 2018, section 3).
        let room = SackList::CAPACITY - usize::from(config.timestamps);
        let duplicate = self.duplicate.take();
        duplicate.iter().chain(&self.sack_blocks).take(room).for_each(|&block| list.push(block));
    }
}

/// Lets the window grow up to its maximum (`tcp_grow_window`).
fn grow(window_segments: &mut u32, config: &TcpConfig, adaptive: &mut DelayedAck) {
    if *window_segments < config.receive_window_max {
        *window_segments = (*window_segments + config.receive_window_growth).min(config.receive_window_max);
        adaptive.on_window_growth();
    }
}

/// Puts a block in front of the others, merged with the blocks that it touches.
fn merge(blocks: &mut Vec<SackBlock>, block: SackBlock) {
    let mut merged = block;
    blocks.retain(|b| {
        let touches = b.start <= merged.end && merged.start <= b.end;
        if touches {
            merged = SackBlock { start: b.start.min(merged.start), end: b.end.max(merged.end) };
        }
        !touches
    });
    blocks.insert(0, merged);
}
