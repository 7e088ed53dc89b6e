//! The sending half of a connection as in Linux: what may be sent, what an ACK does, what a timeout does.
//!
//! Windows count segments, as in Linux. Loss recovery is in `recovery`, its undoing in
//! `undo`, F-RTO in `frto`, the retransmission queue in `scoreboard`.

mod frto;
mod recovery;
mod rto;
mod scoreboard;
mod undo;

use std::collections::VecDeque;

use lasthop_core::{Ecn, Observer, RetransmissionKind, SackList, Segment, TcpEvent};

use crate::clock::{Tick, TickClock};
use crate::common::metrics::{CachedMetrics, Knowledge};
use crate::common::rtt::signed;
use crate::common::stream::{NewSegment, Stream};
use crate::common::{Context, State, Transmission};
use crate::config::{CachedInitialWindow, InitialSsthresh, TcpConfig};
use rto::RttEstimator;
use scoreboard::{Acknowledged, SackOutcome, Scoreboard, SentSegment};

/// What one ACK said, beyond its number.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can say all of it at once")]
pub(crate) struct AckSigns {
    /// Advanced the window over data.
    pub data_acked: bool,
    /// Segments acknowledged for the first time.
    pub acked_segments: u32,
    /// SACK information that was news.
    pub sacked: bool,
    /// SACK reached beyond the recovery point.
    pub data_lost: bool,
    /// ECN echo.
    pub ece: bool,
    /// Carried data, moved the window or acknowledged something: no duplicate.
    pub not_duplicate: bool,
}

/// F-RTO in progress; the recovery point is what had been sent at the timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FRto {
    /// Segments outstanding at the timeout.
    pub flight: u32,
    /// True once an ACK has advanced the window.
    pub advanced: bool,
}

/// The sending half.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts; the congestion state is an enum")]
pub(crate) struct Sender {
    pub config: TcpConfig,
    pub clock: TickClock,
    pub mss: u32,
    pub una: u64,
    pub nxt: u64,
    pub window_bytes: u64,
    stream: Stream,
    pub fin_sent: bool,
    pub board: Scoreboard,
    pub rtt: RttEstimator,
    pub cwnd: u32,
    /// ACKs since the window last changed: in congestion avoidance, and in recovery with rate halving.
    pub cwnd_count: u32,
    pub ssthresh: u32,
    pub state: State,
    /// `snd_nxt` when the present state was entered.
    pub recovery_point: u64,
    pub reordering: u32,
    /// Duplicate ACKs since the window last moved.
    pub duplicates: u32,
    pub undo_marker: Option<u64>,
    pub undo_retransmissions: i64,
    /// ssthresh before the reduction that may be undone; 0 if it must stay.
    pub prior_ssthresh: u32,
    /// Tick of the first retransmission of the episode.
    pub retransmission_stamp: Option<Tick>,
    /// Timestamp echoed by the ACK being processed, in ticks.
    pub echo: Option<Tick>,
    pub frto: Option<FRto>,
    pub timer: Option<Tick>,
    /// Expiries in the present loss episode.
    pub expiries: u32,
    backed_off: bool,
    pub ecn_negotiated: bool,
    pub cwr_pending: bool,
    reported: (u32, u32, u32),
    pub out: VecDeque<Transmission>,
}

impl Sender {
    pub fn new(config: &TcpConfig, clock: TickClock, mss: u32) -> Self {
        Self {
            mss,
            una: 0,
            nxt: 0,
            window_bytes: 0,
            stream: Stream::new(),
            fin_sent: false,
            board: Scoreboard::default(),
            rtt: RttEstimator::new(
                clock.ticks(config.rto_min),
                clock.ticks(config.rto_initial),
                clock.ticks(config.rto_max),
            ),
            cwnd: config.initial_window,
            cwnd_count: 0,
            ssthresh: match config.initial_ssthresh {
                InitialSsthresh::Infinite => u32::MAX,
                InitialSsthresh::Bytes(bytes) => ((bytes.0 / u64::from(mss)).max(2)) as u32,
            },
            state: State::Open,
            recovery_point: 0,
            reordering: config.dupack_threshold,
            duplicates: 0,
            undo_marker: None,
            undo_retransmissions: 0,
            prior_ssthresh: 0,
            retransmission_stamp: None,
            echo: None,
            frto: None,
            timer: None,
            expiries: 0,
            backed_off: false,
            ecn_negotiated: false,
            cwr_pending: false,
            reported: (0, 0, 0),
            out: VecDeque::new(),
            clock,
            config: config.clone(),
        }
    }

    /// Queues `bytes` of application data, written `write_bytes` at a time.
    pub fn write(&mut self, bytes: u64, write_bytes: u64) {
        self.stream.write(bytes, write_bytes);
    }

    /// No more data will be written: the FIN follows the last byte, or rides on it if it still waits to be
    /// put on the wire.
    pub fn close(&mut self) {
        self.stream.close();
        let fin_is_next = self.next_new().is_some_and(|new| new.payload_bytes == 0) && self.new_data_fits();
        if let Some(last) = self.out.back_mut()
            && fin_is_next
            && last.payload_bytes > 0
            && last.seq + u64::from(last.payload_bytes) == self.nxt
        {
            last.fin = true;
            self.board.add_fin();
            self.nxt += 1;
            self.fin_sent = true;
        }
    }

    /// What the next connection to this destination may learn.
    pub fn knowledge(&self) -> Knowledge {
        let measured = self.rtt.has_sample() && !self.backed_off;
        Knowledge {
            rtt: measured.then(|| (self.rtt.srtt_8(), self.rtt.mdev_4())),
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            is_steady: self.cwnd > self.ssthresh && self.state == State::Open,
            reordering: (self.reordering != self.config.dupack_threshold).then_some(self.reordering),
        }
    }

    /// True if everything sent is acknowledged, the FIN included.
    pub fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Sends the SYN (or the SYN of a SYN-ACK).
    pub fn send_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.push_new(cx, 0, true, false);
    }

    /// Answers a repeated SYN with the SYN-ACK again. The timer runs on, as in Linux.
    pub fn repeat_syn(&mut self, tick: Tick) {
        self.board.note_retransmission(0, tick, self.nxt);
        let ecn = Ecn::NotEct;
        self.out.push_back(Transmission {
            seq: 0,
            payload_bytes: 0,
            syn: true,
            fin: false,
            ecn,
            cwr: false,
            push: false,
        });
    }

    /// Initial window and cached metrics, once the handshake is complete.
    pub fn start<O: Observer>(&mut self, cx: &mut Context<'_, O>, cache: Option<&CachedMetrics>) {
        let sent_again = std::mem::take(&mut self.expiries) > 0;
        if sent_again && self.config.syn_timeout_cuts_window {
            self.cwnd = 1;
        } else if let Some(cached) = cache {
            self.start_from_cache(cached);
        }
        cx.emit(TcpEvent::Established);
    }

    fn start_from_cache(&mut self, cached: &CachedMetrics) {
        if cached.ssthresh != 0 {
            self.ssthresh = cached.ssthresh;
        }
        if cached.reordering != 0 {
            self.reordering = cached.reordering;
        }
        let initial = self.clock.ticks(self.config.rto_initial);
        let sampled = self.rtt.has_sample();
        let usable = cached.srtt_8 != 0 && (sampled || cached.srtt_8 >= signed(initial) << 3);
        if usable {
            self.rtt.raise(cached.srtt_8, cached.rttvar_4);
            if self.rtt.rto() >= initial || self.config.timestamps {
                let window = match (self.config.cached_initial_window, self.mss) {
                    (CachedInitialWindow::Configured, _) => self.config.initial_window,
                    (CachedInitialWindow::BySegmentSize, 0..=1095) => 4,
                    (CachedInitialWindow::BySegmentSize, 1096..=1460) => 3,
                    (CachedInitialWindow::BySegmentSize, _) => 2,
                };
                self.cwnd = window.min(self.ssthresh);
                return;
            }
        }
        if !self.config.timestamps && sampled {
            // Without timestamps a timeout that is too small could never be corrected.
            self.rtt.forget();
        }
    }

    /// Takes in the acknowledgment part of a segment and sends what it allows.
    pub fn on_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        if self.take_ack(cx, segment) {
            self.send_new(cx);
            self.report_window(cx);
        }
    }

    /// Takes in the acknowledgment part of a segment. Returns false if it is old or impossible.
    pub fn take_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) -> bool {
        if segment.ack > self.nxt {
            return false;
        }
        let prior_una = self.una;
        if segment.ack < prior_una {
            self.apply_sack(&segment.sack, segment.ack, prior_una);
            return false;
        }
        let prior_flight = self.flight();
        let prior_outstanding = self.board.outstanding();
        let mut signs = AckSigns {
            ece: self.ecn_negotiated && segment.flags.contains(lasthop_core::Flags::ECE),
            not_duplicate: segment.sequence_length() > 0
                || segment.window_bytes > self.window_bytes
                || segment.ack > prior_una,
            ..AckSigns::default()
        };
        self.window_bytes = segment.window_bytes;
        self.una = segment.ack;
        self.echo = segment.timestamps.and_then(crate::clock::echoed_tick);
        let sack = self.apply_sack(&segment.sack, segment.ack, prior_una);
        signs.sacked = sack.news;
        signs.data_lost = sack.beyond_recovery_point;
        let acked = self.board.acknowledge(self.una);
        signs.data_acked = acked.data;
        signs.acked_segments = acked.segments;
        if !self.config.sack {
            self.count_duplicates(signs, prior_una);
        }
        if acked.segments > 0 {
            self.on_progress(cx, &acked);
        }
        if prior_outstanding > 0 {
            self.on_congestion_signs(cx, signs, prior_una, prior_flight);
        }
        true
    }

    /// Without SACK, duplicate ACKs say how much has left the network.
    fn count_duplicates(&mut self, signs: AckSigns, prior_una: u64) {
        let recovering = self.state == State::Recovery && self.una < self.recovery_point;
        if self.una == prior_una {
            if !signs.not_duplicate && (recovering || self.state <= State::Cwr) {
                self.board.count_duplicate();
            }
        } else if recovering && signs.acked_segments > 0 {
            self.board.settle_duplicates(signs.acked_segments);
        } else {
            self.board.forget_duplicates();
        }
    }

    /// A cumulative ACK moved the window: RTT sample and timer.
    fn on_progress<O: Observer>(&mut self, cx: &mut Context<'_, O>, acked: &Acknowledged) {
        self.duplicates = 0;
        if acked.data {
            // Retries count for one segment (RFC 9293, section 3.8.3).
            self.expiries = 0;
        }
        let sample = if self.config.timestamps {
            // The echo names the transmission, so Karn's rule is not needed (RFC 7323, section 4.1).
            self.echo.map(|echo| cx.tick.saturating_sub(echo))
        } else if acked.retransmitted {
            None
        } else {
            acked.sent.map(|sent| cx.tick - sent)
        };
        if let Some(ticks) = sample {
            self.rtt.sample(ticks, self.una, self.nxt);
            self.backed_off = false;
            cx.emit(TcpEvent::RttSample {
                rtt: self.clock.length(ticks),
                rto: self.clock.length(self.rtt.rto()),
            });
        }
        if self.board.outstanding() == 0 {
            self.timer = None;
        } else {
            self.restart_timer(cx.tick);
        }
    }

    fn on_congestion_signs<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        signs: AckSigns,
        prior_una: u64,
        prior_flight: u32,
    ) {
        if self.frto.is_some() {
            self.on_ack_in_frto(cx, signs, prior_una);
            if self.frto.is_some() || self.state != State::Loss {
                return;
            }
        }
        let dubious = !signs.not_duplicate || signs.sacked || signs.ece || self.state != State::Open;
        let reducing = matches!(self.state, State::Cwr | State::Recovery);
        let may_raise = !dubious || (!reducing && (!signs.ece || self.cwnd < self.ssthresh));
        // Congestion window validation (RFC 2861): only a window that was in use may grow.
        if signs.data_acked && prior_flight >= self.cwnd && may_raise {
            self.grow_window();
        }
        if dubious {
            self.on_dubious_ack(cx, signs, prior_una);
        }
    }

    /// Slow start and congestion avoidance (RFC 5681, section 3.1), counted in ACKs as Linux does.
    fn grow_window(&mut self) {
        if self.cwnd <= self.ssthresh {
            self.cwnd += 1;
        } else if self.cwnd_count >= self.cwnd {
            self.cwnd += 1;
            self.cwnd_count = 0;
        } else {
            self.cwnd_count += 1;
        }
    }

    fn apply_sack(&mut self, sack: &SackList, ack: u64, prior_una: u64) -> SackOutcome {
        let mut outcome = SackOutcome::default();
        let mut furthest = 0;
        let blocks = sack.as_slice();
        for (index, &block) in blocks.iter().enumerate() {
            // A first block below the ACK, or inside the second, is a D-SACK (RFC 2883, section 4).
            let enclosed = blocks.get(1).is_some_and(|b| block.start >= b.start && block.end <= b.end);
            let duplicate = index == 0 && (block.start < ack || enclosed);
            let forgotten = duplicate && block.end <= prior_una;
            if forgotten && self.undo_marker.is_some_and(|marker| block.end > marker) {
                outcome.duplicates += 1;
            }
            outcome.beyond_recovery_point |= block.end > self.recovery_point;
            self.board.apply_block(block, ack, duplicate, self.undo_marker, &mut outcome);
            furthest = furthest.max(block.end);
        }
        if self.state == State::Recovery {
            let reordering_bytes = u64::from(self.reordering) * u64::from(self.mss);
            outcome.news |= self.board.mark_lost_retransmissions(furthest, reordering_bytes);
        }
        self.undo_retransmissions -= i64::from(outcome.duplicates);
        outcome
    }

    /// Sends new data as long as in-flight < cwnd and the receiver's window allow it.
    pub fn send_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        while self.may_send_new() {
            self.send_one_new(cx);
        }
    }

    /// True if new data is at hand and both windows allow one segment more.
    pub fn may_send_new(&self) -> bool {
        self.flight() < self.cwnd && self.new_data_fits()
    }

    /// What the window is compared with. Before recovery only limited transmit (RFC 3042) lets a segment go
    /// for one that SACK or a duplicate ACK reports; without it they count until they are acknowledged
    /// (`FlightSize`, RFC 5681, section 2).
    pub fn flight(&self) -> u32 {
        let limited = !self.config.limited_transmit && self.state <= State::Cwr && self.frto.is_none();
        self.board.in_flight() + if limited { self.board.sacked_out() } else { 0 }
    }

    /// True if there is something new to send and the receiver's window has room for it.
    pub fn new_data_fits(&self) -> bool {
        self.next_new().is_some_and(|new| {
            let end = self.nxt + u64::from(new.payload_bytes) + u64::from(new.fin);
            end <= self.una.saturating_add(self.window_bytes)
        })
    }

    fn next_new(&self) -> Option<NewSegment> {
        if self.fin_sent { None } else { self.stream.next(self.nxt, self.mss) }
    }

    /// Sends the next new segment whatever the congestion window says.
    pub fn send_one_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let Some(NewSegment { payload_bytes, fin, .. }) = self.next_new() else { return };
        self.push_new(cx, payload_bytes, false, fin);
        self.stream.advance(self.nxt);
    }

    fn push_new<O: Observer>(&mut self, cx: &mut Context<'_, O>, payload_bytes: u32, syn: bool, fin: bool) {
        let seq = self.nxt;
        let end = seq + u64::from(payload_bytes) + u64::from(syn) + u64::from(fin);
        let ect = self.ecn_negotiated && payload_bytes > 0;
        let cwr = ect && std::mem::take(&mut self.cwr_pending);
        let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
        self.out.push_back(Transmission { seq, payload_bytes, syn, fin, ecn, cwr, push: false });
        if self.board.outstanding() == 0 {
            self.restart_timer(cx.tick);
        }
        self.board.push(SentSegment {
            seq,
            end,
            payload_bytes,
            syn,
            fin,
            sent: cx.tick,
            retransmitted_before: 0,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
        });
        self.nxt = end;
        self.fin_sent |= fin;
    }

    /// Sends outstanding segment `index` again. Retransmissions are not ECN-capable (RFC 3168, 6.1.5).
    pub fn retransmit<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        index: usize,
        kind: RetransmissionKind,
    ) {
        let &SentSegment { seq, payload_bytes, syn, fin, .. } = self.board.get(index);
        self.board.note_retransmission(index, cx.tick, self.nxt);
        self.out.push_back(Transmission {
            seq,
            payload_bytes,
            syn,
            fin,
            ecn: Ecn::NotEct,
            cwr: false,
            push: false,
        });
        self.retransmission_stamp.get_or_insert(cx.tick);
        self.undo_retransmissions += 1;
        cx.emit(TcpEvent::Retransmitted { seq, kind });
        if index == 0 {
            self.restart_timer(cx.tick);
        }
    }

    pub fn restart_timer(&mut self, tick: Tick) {
        self.timer = Some(tick + self.rtt.rto());
    }

    /// The retransmission timer expired. Returns false if the retries are used up.
    pub fn on_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(&head) = self.board.head() else {
            self.timer = None;
            return true;
        };
        let limit = if head.syn { self.config.syn_retries } else { self.config.retries };
        if self.expiries >= limit {
            self.timer = None;
            return false;
        }
        cx.emit(TcpEvent::Timeout { seq: head.seq, backoff: self.expiries + 1 });
        if !head.syn {
            if self.may_enter_frto() {
                self.enter_frto();
            } else {
                self.enter_loss();
            }
        }
        self.retransmit(cx, 0, RetransmissionKind::Timeout);
        self.expiries += 1;
        self.backed_off = true;
        self.rtt.back_off();
        self.restart_timer(cx.tick);
        self.report_window(cx);
        true
    }

    pub fn report_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        debug_assert!(self.board.is_balanced(), "the scoreboard's counters have gone astray");
        let window = (self.cwnd, self.ssthresh, self.board.in_flight());
        if window != self.reported {
            self.reported = window;
            cx.emit(TcpEvent::Window { cwnd: window.0, ssthresh: window.1, in_flight: window.2 });
        }
    }
}
