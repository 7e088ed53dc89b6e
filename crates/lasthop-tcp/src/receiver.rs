//! The receiving half: reassembly, when to acknowledge, SACK and D-SACK blocks, window, echoes.

use lasthop_core::{Ecn, Flags, SackBlock, SackList, Segment};

use crate::clock::{Tick, TickClock};
use crate::config::TcpConfig;

/// Most quick ACKs at the start of a connection (Linux: `TCP_MAX_QUICKACKS`).
const QUICK_ACKS_MAX: u32 = 16;

/// The receiving half.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Next byte expected.
    pub nxt: u64,
    /// Highest ACK number sent.
    acked: u64,
    /// Received out of order, disjoint; the most recently touched first (RFC 2018, section 4).
    ranges: Vec<SackBlock>,
    /// Duplicate to report in the next ACK (RFC 2883).
    duplicate: Option<SackBlock>,
    fin: Option<u64>,
    window_segments: u32,
    echo: u32,
    delayed: Option<Tick>,
    data_seen: bool,
    /// ACKs that still leave at once.
    quick: u32,
    pub congestion_experienced: bool,
}

impl Receiver {
    pub fn new(config: &TcpConfig) -> Self {
        Self {
            nxt: 0,
            acked: 0,
            ranges: Vec::new(),
            duplicate: None,
            fin: None,
            window_segments: config.receive_window_initial,
            echo: 0,
            delayed: None,
            data_seen: false,
            quick: 0,
            congestion_experienced: false,
        }
    }

    /// The peer's SYN arrived.
    pub fn on_syn(&mut self, segment: &Segment) {
        self.nxt = segment.seq + 1;
        self.echo = segment.timestamps.map_or(0, |t| t.value);
    }

    /// Takes in data or a FIN. Returns true if it must be acknowledged at once.
    pub fn on_segment(
        &mut self,
        config: &TcpConfig,
        clock: TickClock,
        tick: Tick,
        mss: u32,
        segment: &Segment,
        ecn: Ecn,
    ) -> bool {
        self.note_congestion(segment, ecn);
        if let Some(timestamps) = segment.timestamps
            && segment.seq <= self.acked
        {
            // The echo belongs to the segment at the left edge (RFC 7323, section 4.3).
            self.echo = timestamps.value;
        }
        if segment.flags.contains(Flags::FIN) {
            self.fin = Some(segment.end());
        }
        let (start, end) = (segment.seq, segment.end());
        if end <= self.nxt || start > self.nxt {
            self.on_out_of_order(config, SackBlock { start, end });
            return true;
        }
        if start < self.nxt {
            self.note_duplicate(config, SackBlock { start, end: self.nxt });
        }
        self.advance(end);
        let first = !std::mem::replace(&mut self.data_seen, true);
        if first && config.quick_acks {
            self.quick = (self.window_segments / 2).clamp(2, QUICK_ACKS_MAX);
        }
        self.window_segments =
            (self.window_segments + config.receive_window_growth).min(config.receive_window_max);
        // RFC 5681, section 4.2: at least every second full-sized segment, and while a gap is open.
        let may_be_held = u64::from(config.ack_every.saturating_sub(1)) * u64::from(mss);
        let at_once = self.nxt - self.acked > may_be_held
            || !self.ranges.is_empty()
            || self.peer_closed()
            || (first && config.first_segment_acked_at_once)
            || self.quick > 0;
        if !at_once && self.delayed.is_none() {
            self.delayed = Some(tick + clock.ticks(config.delayed_ack));
        }
        at_once
    }

    /// ECN echo: from a congestion mark until the sender says that it has reduced its window
    /// (RFC 3168, section 6.1.3).
    fn note_congestion(&mut self, segment: &Segment, ecn: Ecn) {
        if segment.flags.contains(Flags::CWR) {
            self.congestion_experienced = false;
        }
        if ecn == Ecn::Ce {
            self.congestion_experienced = true;
        }
    }

    fn on_out_of_order(&mut self, config: &TcpConfig, block: SackBlock) {
        if block.end <= self.nxt {
            self.note_duplicate(config, block);
            return;
        }
        let overlap = |r: &SackBlock| (r.start < block.end && block.start < r.end).then_some(*r);
        if let Some(known) = self.ranges.iter().filter_map(overlap).min_by_key(|r| r.start) {
            // Only the first duplicate part is reported (RFC 2883, section 4.2.2).
            let start = known.start.max(block.start);
            self.note_duplicate(config, SackBlock { start, end: known.end.min(block.end) });
        }
        let mut merged = block;
        self.ranges.retain(|r| {
            let touches = r.start <= merged.end && merged.start <= r.end;
            if touches {
                merged = SackBlock { start: r.start.min(merged.start), end: r.end.max(merged.end) };
            }
            !touches
        });
        self.ranges.insert(0, merged);
    }

    fn note_duplicate(&mut self, config: &TcpConfig, block: SackBlock) {
        if config.dsack {
            self.duplicate = Some(block);
        }
    }

    /// Moves the left edge to `end` and over everything that is now in order.
    fn advance(&mut self, end: u64) {
        self.nxt = end;
        while let Some(index) = self.ranges.iter().position(|r| r.start <= self.nxt) {
            self.nxt = self.nxt.max(self.ranges.remove(index).end);
        }
    }

    /// True once the peer's FIN is in order.
    pub fn peer_closed(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt >= fin)
    }

    /// Advertised window in bytes.
    pub fn window_bytes(&self, mss: u32) -> u64 {
        u64::from(self.window_segments) * u64::from(mss)
    }

    /// Timestamp to echo.
    pub fn echo(&self) -> u32 {
        self.echo
    }

    /// Tick at which a held ACK is due.
    pub fn delayed_ack_due(&self) -> Option<Tick> {
        self.delayed
    }

    /// A segment with the present ACK number leaves. Returns the SACK option's blocks.
    pub fn on_ack_sent(&mut self, config: &TcpConfig) -> SackList {
        self.acked = self.nxt;
        self.delayed = None;
        self.quick = self.quick.saturating_sub(1);
        let mut list = SackList::default();
        if !config.sack {
            return list;
        }
        // Timestamps leave room for three blocks (RFC 2018, section 3).
        let room = SackList::CAPACITY - usize::from(config.timestamps);
        let duplicate = self.duplicate.take();
        duplicate.iter().chain(&self.ranges).take(room).for_each(|&block| list.push(block));
        list
    }
}
