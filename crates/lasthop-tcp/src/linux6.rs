//! The sending half of a connection as in Linux 6: windows in segments, time in microseconds, losses found by the time
//! at which what has arrived was sent.
//!
//! Loss recovery is in `recovery`, proportional rate reduction in `prr`, RACK in `rack`, tail loss probes in `probe`,
//! growth in `growth` and `cubic`.

mod probe;
mod prr;
mod rack;
mod recovery;
mod rtt;
mod sack;
mod scoreboard;
mod timer;

use std::collections::VecDeque;

use lasthop_core::{Duration, Ecn, Flags, Observer, RetransmissionKind, Segment, TcpEvent};

use crate::clock::{Tick, TickClock};
use crate::common::metrics::{CachedMetrics, Knowledge};
use crate::common::stream::{NewSegment, Stream};
use crate::common::{Context, State, Transmission};
use crate::config::{InitialSsthresh, TcpConfig};
use crate::control::{AckTime, Growth};
use prr::Reduction;
use rack::Rack;
use recovery::Repair;
use rtt::RttEstimator;
use scoreboard::{Scoreboard, SentSegment};
use timer::{Alarm, Timer};

/// The timeout without any round-trip time from the handshake (RFC 6298, section 5.7).
const TIMEOUT_FALLBACK: Duration = Duration::from_secs(3);
/// SYNs that are sent again at the same distance, before the timeout doubles (`tcp_syn_linear_timeouts`).
const SYN_LINEAR_TIMEOUTS: u32 = 4;

/// What one ACK said, beyond its number.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one ACK can say all of it at once")]
pub(crate) struct AckFacts {
    /// It moved the window.
    advanced: bool,
    /// Segments acknowledged for the first time.
    acked: bool,
    data_acked: bool,
    /// Data or a window update came with it.
    data: bool,
    window_update: bool,
    ece: bool,
    /// SACK information that was news.
    data_sacked: bool,
    dsack: bool,
    dsack_of_probe: bool,
    /// Something below the recovery point arrived that was never sent again.
    original_acked: bool,
    retransmission_acked: bool,
    /// A retransmission was found lost.
    retransmission_lost: bool,
    /// A duplicate ACK in the sense of RFC 5681.
    duplicate: bool,
    /// The timer is to be set anew.
    set_timer: bool,
}

impl AckFacts {
    fn not_duplicate(&self) -> bool {
        self.data || self.window_update || self.acked
    }

    fn is_dubious(&self, state: State) -> bool {
        !self.not_duplicate() || self.data_sacked || self.ece || self.dsack || state != State::Open
    }
}

/// Round-trip samples of one ACK, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    /// When the first and the last segment were sent that were acknowledged in order.
    acked: Option<(u64, u64)>,
    /// The same of those that were SACKed.
    sacked: Option<(u64, u64)>,
    /// What had been delivered when the newest segment was sent, with its time and end.
    newest: Option<((u64, u64), u64)>,
}

impl Samples {
    fn note_delivered(&mut self, segment: &SentSegment) {
        let key = (segment.sent_us, segment.end);
        if self.newest.is_none_or(|(newest, _)| key > newest) {
            self.newest = Some((key, segment.delivered_before));
        }
    }
}

/// The sending half.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts; the congestion state is an enum")]
pub(crate) struct Sender {
    pub config: TcpConfig,
    clock: TickClock,
    mss: u32,
    pub una: u64,
    pub nxt: u64,
    pub window_bytes: u64,
    stream: Stream,
    pub fin_sent: bool,
    board: Scoreboard,
    rtt: RttEstimator,
    rack: Rack,
    growth: Growth,
    reduction: Reduction,
    cwnd: u32,
    /// Segments acknowledged since the window last grew.
    cwnd_count: u32,
    ssthresh: u32,
    state: State,
    /// `snd_nxt` when the present state was entered.
    recovery_point: u64,
    reordering: u32,
    reordering_seen: bool,
    undo_marker: Option<u64>,
    undo_retransmissions: i64,
    prior_ssthresh: u32,
    prior_cwnd: u32,
    /// Timestamp of the first retransmission of the episode, and that echoed by the ACK being processed.
    retransmission_stamp: Option<Tick>,
    echo: Option<Tick>,
    frto: bool,
    /// `snd_nxt` after the probe that is out.
    probe_end: Option<u64>,
    probe_retransmits: bool,
    timer: Timer,
    /// Expiries in a row.
    expiries: u32,
    total_retransmissions: u64,
    dsack_duplicates: u64,
    /// Segments delivered, and segments found lost.
    delivered: u64,
    lost: u64,
    /// Whether the window was full, and how full it was, since what was sent at that time.
    is_window_limited: bool,
    most_outstanding: u32,
    usage_seq: u64,
    /// Most segments outstanding, and when the window was last full.
    window_used: u32,
    window_stamp: Tick,
    last_sent: Tick,
    pub ecn_negotiated: bool,
    cwr_pending: bool,
    /// Timestamp of the first SYN.
    syn_stamp: Tick,
    reported: (u32, u32, u32),
    pub out: VecDeque<Transmission>,
}

impl Sender {
    pub fn new(config: &TcpConfig, clock: TickClock, mss: u32) -> Self {
        let tick_us = (clock.length(1).as_nanos() / 1000).max(1);
        Self {
            mss,
            una: 0,
            nxt: 0,
            window_bytes: 0,
            stream: Stream::new(),
            fin_sent: false,
            board: Scoreboard::default(),
            rtt: RttEstimator::new(
                tick_us,
                clock.ticks(config.rto_min),
                clock.ticks(config.rto_initial),
                clock.ticks(config.rto_max),
            ),
            rack: Rack::default(),
            growth: Growth::new(config.congestion_control, (1_000_000 / tick_us).max(1)),
            reduction: Reduction::default(),
            cwnd: config.initial_window,
            cwnd_count: 0,
            ssthresh: match config.initial_ssthresh {
                InitialSsthresh::Infinite => u32::MAX,
                InitialSsthresh::Bytes(bytes) => ((bytes.0 / u64::from(mss)).max(2)) as u32,
            },
            state: State::Open,
            recovery_point: 0,
            reordering: config.dupack_threshold,
            reordering_seen: false,
            undo_marker: None,
            undo_retransmissions: 0,
            prior_ssthresh: 0,
            prior_cwnd: 0,
            retransmission_stamp: None,
            echo: None,
            frto: false,
            probe_end: None,
            probe_retransmits: false,
            timer: Timer::default(),
            expiries: 0,
            total_retransmissions: 0,
            dsack_duplicates: 0,
            delivered: 0,
            lost: 0,
            is_window_limited: false,
            most_outstanding: 0,
            usage_seq: 0,
            window_used: 0,
            window_stamp: 0,
            last_sent: 0,
            ecn_negotiated: false,
            cwr_pending: false,
            syn_stamp: 0,
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

    /// No more data will be written: the FIN follows the last byte, or rides on it if it still waits to be put on the
    /// wire.
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

    /// True if everything sent is acknowledged, the FIN included.
    pub fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Tick at which the timer fires.
    pub fn timer(&self) -> Option<Tick> {
        self.timer.due()
    }

    /// Smoothed round-trip time and timeout in ticks, for the receiving half.
    pub fn rtt_and_rto(&self) -> (Tick, Tick) {
        (self.rtt.ticks(self.rtt.srtt_us()), self.rtt.rto())
    }

    /// Sends the SYN (or the SYN of a SYN-ACK).
    pub fn send_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.syn_stamp = cx.micros() / 1000;
        self.push_new(cx, NewSegment { payload_bytes: 0, fin: false, push: false }, true);
    }

    /// Answers a repeated SYN with the SYN-ACK again; the timer starts anew.
    pub fn repeat_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if let Some(&head) = self.board.head() {
            self.board.note_retransmission(0, cx.micros(), self.delivered, false);
            self.total_retransmissions += 1;
            self.put_on_wire(&head);
            self.timer.set(Alarm::Retransmission, cx.tick, self.rtt.rto());
        }
    }

    /// What the next connection to this destination may learn.
    pub fn knowledge(&self) -> Knowledge {
        Knowledge {
            rtt: self.rtt.knowledge(),
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            is_steady: self.cwnd >= self.ssthresh && self.state == State::Open,
            reordering: (self.reordering != self.config.dupack_threshold).then_some(self.reordering),
        }
    }

    /// The handshake is complete.
    pub fn establish<O: Observer>(&mut self, cx: &mut Context<'_, O>, cache: Option<&CachedMetrics>) {
        self.ecn_negotiated = self.config.ecn;
        let cached = cache.copied().unwrap_or_default();
        if cached.ssthresh != 0 {
            self.ssthresh = cached.ssthresh;
        }
        if cached.reordering != 0 {
            self.reordering = cached.reordering;
        }
        // One SYN or SYN-ACK sent again is forgiven: the timeout of a second may have been too short. So are more if the
        // answer is to the first (tcp_try_undo_spurious_syn).
        let spurious = self.echo == Some(self.syn_stamp);
        if self.total_retransmissions > 1 && !spurious && self.config.syn_timeout_cuts_window {
            self.cwnd = 1;
        }
        self.expiries = 0;
        self.undo_marker = None;
        self.retransmission_stamp = None;
        self.rtt.begin(cached.srtt_8, self.clock.ticks(TIMEOUT_FALLBACK));
        self.growth.reset(cx.micros(), self.nxt);
        (self.window_stamp, self.last_sent) = (cx.tick, cx.tick);
        cx.emit(TcpEvent::Established);
        self.send_new(cx);
        self.report_window(cx);
    }

    /// Takes in the acknowledgment part of a segment and sends what it allows.
    pub fn on_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        self.take_ack(cx, segment);
        self.send_new(cx);
        self.report_window(cx);
    }

    /// Takes in the acknowledgment part of a segment. Returns false if it is old or impossible.
    pub fn take_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) -> bool {
        if segment.ack > self.nxt {
            return false;
        }
        let prior_una = self.una;
        let mut facts = AckFacts {
            advanced: segment.ack > prior_una,
            data: segment.sequence_length() > 0,
            ..AckFacts::default()
        };
        let mut samples = Samples::default();
        self.echo = segment.timestamps.and_then(crate::clock::echoed_tick);
        if segment.ack < prior_una {
            if !segment.sack.as_slice().is_empty() {
                self.apply_sack(cx.micros(), segment, prior_una, &mut facts, &mut samples);
                let repair = self.on_dubious_ack(cx, &mut facts, prior_una);
                self.repair(cx, repair);
            }
            return false;
        }
        let outstanding = self.board.outstanding();
        let prior_delivered = self.delivered;
        let prior_lost = self.lost;
        let prior_highest = if self.config.sack { self.board.highest_sacked(self.una) } else { self.una };
        if facts.advanced {
            self.expiries = 0;
        }
        facts.window_update = facts.advanced || segment.window_bytes > self.window_bytes;
        self.window_bytes = segment.window_bytes;
        self.una = segment.ack;
        facts.ece = self.ecn_negotiated && segment.flags.contains(Flags::ECE);
        self.apply_sack(cx.micros(), segment, prior_una, &mut facts, &mut samples);
        if outstanding == 0 {
            if facts.dsack {
                self.on_dubious_ack(cx, &mut facts, prior_una);
            }
            self.process_probe_ack(cx, &facts);
            return true;
        }
        self.acknowledge(cx, &mut facts, samples, prior_highest);
        self.process_probe_ack(cx, &facts);
        let mut repair = Repair::Nothing;
        if facts.is_dubious(self.state) {
            facts.duplicate = !(facts.advanced || facts.not_duplicate() || facts.dsack);
            repair = self.on_dubious_ack(cx, &mut facts, prior_una);
        }
        if facts.set_timer && !self.schedule_probe(cx, true) {
            self.rearm_timer(cx);
        }
        let delivered = self.delivered - prior_delivered;
        self.control_window(cx, &facts, delivered, self.lost - prior_lost);
        self.repair(cx, repair);
        true
    }

    /// Removes what is acknowledged in order, and takes the round-trip samples (`tcp_clean_rtx_queue`).
    fn acknowledge<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &mut AckFacts,
        mut samples: Samples,
        prior_highest: u64,
    ) {
        let now = cx.micros();
        let mut lowest = self.nxt;
        let mut count = 0;
        while let Some(segment) = self.board.pop_acknowledged(self.una) {
            count += 1;
            if segment.ever_retransmitted {
                facts.retransmission_acked = true;
            } else if !segment.sacked {
                let first = samples.acked.map_or(segment.sent_us, |(first, _)| first);
                samples.acked = Some((first, segment.sent_us));
                lowest = lowest.min(segment.seq);
                facts.original_acked |= segment.end <= self.recovery_point;
            }
            if segment.sacked {
                self.board.sacked_out -= 1;
            } else {
                samples.note_delivered(&segment);
                if self.config.sack {
                    self.delivered += 1;
                    if !self.is_spurious(&segment) {
                        self.rack.advance(now, &segment, self.rtt.least_us());
                    }
                }
            }
            facts.acked = true;
            facts.data_acked |= !segment.syn;
            if segment.syn {
                self.retransmission_stamp = None;
            }
        }
        let measured = self.take_samples(cx, facts, &samples);
        if facts.acked {
            facts.set_timer = true;
            if !self.config.sack {
                self.settle_duplicates(count);
                facts.original_acked &= !facts.retransmission_acked;
            } else if lowest < prior_highest {
                self.note_reordering(lowest);
            }
        } else if let (true, Some((first, _)), Some(head)) = (measured, samples.sacked, self.board.head()) {
            // What was SACKed was sent before the head was sent last.
            facts.set_timer |= first < head.sent_us;
        }
        self.rack.update_window(samples.newest.map_or(0, |(_, delivered)| delivered), self.delivered);
    }

    /// The echoed timestamp is older than the retransmission: the original arrived.
    fn is_spurious(&self, segment: &SentSegment) -> bool {
        segment.ever_retransmitted && self.echo.is_some_and(|echo| echo < segment.sent_us / 1000)
    }

    /// Returns true if there was a sample for the timeout.
    fn take_samples<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        facts: &AckFacts,
        samples: &Samples,
    ) -> bool {
        let now = cx.micros();
        let in_order = samples.acked.filter(|_| !facts.retransmission_acked);
        let mut latest = samples.sacked.or(in_order).map(|(_, last)| now - last);
        let mut rtt = in_order.or(samples.sacked).map(|(first, _)| now - first);
        if rtt.is_none() && facts.acked {
            // The timestamp option, in milliseconds, names the transmission (RFC 7323, section 4.1).
            rtt = self.echo.map(|echo| (now / 1000).saturating_sub(echo).max(1) * 1000);
            latest = rtt;
        }
        if let (Some(rtt), Some(latest)) = (rtt, latest) {
            self.rtt.note_least(now, latest);
            self.rtt.sample(rtt, self.una, self.nxt);
            cx.emit(TcpEvent::RttSample {
                rtt: Duration::from_micros(rtt),
                rto: self.clock.length(self.rtt.rto()),
            });
        }
        if let Some(latest) = latest {
            let at = AckTime { us: now, tick: cx.tick, una: self.una, nxt: self.nxt };
            let slow_start = self.cwnd < self.ssthresh;
            if self.growth.on_sample(at, latest, self.cwnd, slow_start) {
                self.ssthresh = self.cwnd;
            }
        }
        rtt.is_some()
    }

    /// The window after an ACK.
    fn control_window<O: Observer>(
        &mut self,
        cx: &Context<'_, O>,
        facts: &AckFacts,
        delivered: u64,
        lost: u64,
    ) {
        let raise = if self.reordering > self.config.dupack_threshold {
            facts.acked || facts.data_sacked
        } else {
            facts.data_acked
        };
        if self.is_reducing() {
            self.reduce_window(delivered, lost, facts.advanced);
        } else if raise {
            self.grow_window(cx.tick, delivered as u32);
        }
    }

    /// Slow start and congestion avoidance for `acked` segments.
    fn grow_window(&mut self, tick: Tick, mut acked: u32) {
        // In slow start twice what was used is enough (RFC 7661 has the thought).
        self.window_stamp = tick;
        let half_used = self.cwnd < self.ssthresh && self.cwnd < 2 * self.most_outstanding;
        if !(self.is_window_limited || half_used) {
            return;
        }
        if self.cwnd < self.ssthresh {
            let window = self.cwnd.saturating_add(acked).min(self.ssthresh);
            acked -= window - self.cwnd;
            self.cwnd = window;
        }
        if acked > 0 {
            let count = self.growth.count(tick, self.cwnd, acked);
            if self.cwnd_count >= count {
                self.cwnd_count = 0;
                self.cwnd += 1;
            }
            self.cwnd_count += acked;
            self.cwnd += self.cwnd_count / count;
            self.cwnd_count %= count;
        }
    }

    /// Sends new data as long as in-flight < cwnd and the receiver's window allow it.
    pub fn send_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let mut sent = 0;
        if self.board.outstanding() == 0 && self.next_new().is_some_and(|new| new.payload_bytes > 0) {
            self.restart_after_idle(cx.tick);
        }
        while self.board.in_flight() < self.cwnd && self.new_data_fits() {
            self.send_one_new(cx);
            sent += 1;
        }
        let limited = self.board.in_flight() >= self.cwnd;
        if sent > 0 || limited {
            self.validate_window(cx.tick, limited);
        }
        if sent > 0 {
            if self.is_reducing() {
                self.reduction.sent += sent;
            }
            self.schedule_probe(cx, false);
        }
    }

    /// The window shrinks over idle times (RFC 2861).
    fn restart_after_idle(&mut self, tick: Tick) {
        let mut idle = tick - self.last_sent;
        let rto = self.rtt.rto();
        if idle <= rto {
            return;
        }
        self.ssthresh = self.ssthresh_worth_restoring();
        let restart = self.config.initial_window.min(self.cwnd);
        while idle > rto && self.cwnd > restart {
            self.cwnd /= 2;
            idle -= rto;
        }
        self.cwnd = self.cwnd.max(restart);
        self.window_stamp = tick;
        self.window_used = 0;
    }

    /// Congestion window validation (RFC 2861): was the window in use?
    fn validate_window(&mut self, tick: Tick, limited: bool) {
        let outstanding = self.board.outstanding();
        if self.una >= self.usage_seq
            || limited
            || (!self.is_window_limited && outstanding > self.most_outstanding)
        {
            self.is_window_limited = limited;
            self.most_outstanding = outstanding;
            self.usage_seq = self.nxt;
        }
        let half_used = self.cwnd < self.ssthresh && self.cwnd < 2 * self.most_outstanding;
        if self.is_window_limited || half_used {
            self.window_used = 0;
            self.window_stamp = tick;
            return;
        }
        self.window_used = self.window_used.max(outstanding);
        if tick - self.window_stamp >= self.rtt.rto() {
            if self.state == State::Open {
                let used = self.window_used.max(self.config.initial_window);
                if used < self.cwnd {
                    self.ssthresh = self.ssthresh_worth_restoring();
                    self.cwnd = u32::midpoint(self.cwnd, used);
                }
                self.window_used = 0;
            }
            self.window_stamp = tick;
        }
    }

    /// True if there is something new to send and the receiver's window has room for it.
    fn new_data_fits(&self) -> bool {
        self.next_new().is_some_and(|new| {
            let end = self.nxt + u64::from(new.payload_bytes) + u64::from(new.fin);
            end <= self.una.saturating_add(self.window_bytes)
        })
    }

    fn next_new(&self) -> Option<NewSegment> {
        if self.fin_sent { None } else { self.stream.next(self.nxt, self.mss) }
    }

    /// Sends the next new segment whatever the congestion window says.
    fn send_one_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let Some(new) = self.next_new() else { return };
        self.push_new(cx, new, false);
        self.stream.advance(self.nxt);
    }

    fn push_new<O: Observer>(&mut self, cx: &mut Context<'_, O>, new: NewSegment, syn: bool) {
        let NewSegment { payload_bytes, fin, push } = new;
        let seq = self.nxt;
        let end = seq + u64::from(payload_bytes) + u64::from(syn) + u64::from(fin);
        let ect = self.ecn_negotiated && payload_bytes > 0;
        let cwr = ect && std::mem::take(&mut self.cwr_pending);
        let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
        self.out.push_back(Transmission { seq, payload_bytes, syn, fin, ecn, cwr, push });
        if payload_bytes > 0 {
            if self.board.in_flight() == 0 {
                self.growth.on_restart(cx.tick, self.last_sent);
            }
            self.last_sent = cx.tick;
        }
        let first = self.board.outstanding() == 0;
        self.board.push(SentSegment {
            seq,
            end,
            payload_bytes,
            syn,
            fin,
            push,
            sent_us: cx.micros(),
            delivered_before: self.delivered,
            transmissions: 1,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
        });
        self.nxt = end;
        self.fin_sent |= fin;
        if first || self.timer.alarm() == Some(Alarm::Probe) {
            self.rearm_timer(cx);
        }
    }

    /// Sends an outstanding segment again.
    fn retransmit<O: Observer>(&mut self, cx: &mut Context<'_, O>, index: usize, kind: RetransmissionKind) {
        let segment = *self.board.get(index);
        self.board.note_retransmission(index, cx.micros(), self.delivered, true);
        self.retransmission_stamp.get_or_insert(cx.micros() / 1000);
        self.undo_retransmissions = self.undo_retransmissions.max(0) + 1;
        self.total_retransmissions += 1;
        self.put_again(cx, &segment, kind);
    }

    fn put_again<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        segment: &SentSegment,
        kind: RetransmissionKind,
    ) {
        self.put_on_wire(segment);
        self.last_sent = cx.tick;
        cx.emit(TcpEvent::Retransmitted { seq: segment.seq, kind });
    }

    /// Retransmissions are not ECN-capable (RFC 3168, section 6.1.5).
    fn put_on_wire(&mut self, segment: &SentSegment) {
        let &SentSegment { seq, payload_bytes, syn, fin, push, .. } = segment;
        self.out.push_back(Transmission { seq, payload_bytes, syn, fin, ecn: Ecn::NotEct, cwr: false, push });
    }

    /// Microseconds until the timeout, counted from when the head was sent last; 0 if that is over.
    fn timeout_left_us<O: Observer>(&self, cx: &Context<'_, O>) -> u64 {
        let rto = self.rtt.micros(self.rtt.rto());
        self.board.head().map_or(0, |head| (head.sent_us + rto).saturating_sub(cx.micros()))
    }

    /// Sets the retransmission timer, or clears it if nothing is outstanding. What a probe's or RACK's timer has waited
    /// counts.
    fn rearm_timer<O: Observer>(&mut self, cx: &Context<'_, O>) {
        if self.board.outstanding() == 0 {
            self.timer.clear();
            return;
        }
        let wait = match self.timer.alarm() {
            Some(Alarm::Probe | Alarm::Reordering) => self.rtt.ticks(self.timeout_left_us(cx).max(1)),
            _ => self.rtt.rto(),
        };
        self.timer.set(Alarm::Retransmission, cx.tick, wait);
    }

    /// The timer fired. Returns false if the retries are used up.
    pub fn on_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let mut goes_on = true;
        match self.timer.alarm() {
            Some(Alarm::Probe) => self.send_probe(cx),
            Some(Alarm::Reordering) => self.on_reordering_timeout(cx),
            Some(Alarm::Retransmission) => {
                self.timer.clear();
                goes_on = self.on_retransmission_timeout(cx);
            }
            None => {}
        }
        self.report_window(cx);
        goes_on
    }

    fn on_retransmission_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(&head) = self.board.head() else { return true };
        let limit = if head.syn { self.config.syn_retries } else { self.config.retries };
        if self.expiries >= limit {
            return false;
        }
        cx.emit(TcpEvent::Timeout { seq: head.seq, backoff: self.expiries + 1 });
        if !head.syn {
            self.enter_loss(cx);
        }
        self.retransmit(cx, 0, RetransmissionKind::Timeout);
        self.expiries += 1;
        let linear = head.syn && self.window_bytes == 0 && self.expiries <= SYN_LINEAR_TIMEOUTS;
        if !linear {
            self.rtt.back_off();
        }
        self.timer.set(Alarm::Retransmission, cx.tick, self.rtt.rto());
        true
    }

    pub fn report_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let window = (self.cwnd, self.ssthresh, self.board.in_flight());
        if window != self.reported {
            self.reported = window;
            cx.emit(TcpEvent::Window { cwnd: window.0, ssthresh: window.1, in_flight: window.2 });
        }
    }
}
