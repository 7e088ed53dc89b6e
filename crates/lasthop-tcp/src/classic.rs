//! The sender of textbooks, BSD and the simulators of the 1990s: windows in bytes, go-back-N after a timeout,
//! a coarse clock, one segment timed at a time.
//!
//! It shares the endpoint with the senders of Linux, which count segments and remember each of them. The
//! classic sender keeps only three positions in the stream, and the reports of SACK. Loss recovery is in
//! `recovery`.

mod persist;
mod recovery;
mod rto;
mod scoreboard;

use std::collections::VecDeque;
use std::rc::Rc;

use lasthop_core::{Ecn, Flags, Observer, RetransmissionKind, Segment, TransportEvent};

use crate::clock::{Tick, TickClock};
use crate::common::{Context, Transmission, WindowReport, ride_on_last};
use crate::config::{RecoveryRules, TcpConfig};
use crate::control::{Bytes, Congestion, Controller, Moment, RateSample, Reno, Window};
use persist::ClassicPersist;
use recovery::ClassicRecovery;
use rto::{ClassicRttEstimator, ClassicTimer};
use scoreboard::ClassicScoreboard;

/// The sending half under classic rules. Positions and windows are in bytes.
#[derive(Clone, Debug)]
pub(crate) struct ClassicSender {
    pub config: Rc<TcpConfig>,
    clock: TickClock,
    mss: u64,
    /// First unacknowledged byte.
    una: u64,
    /// Next byte to send; a timeout resets it to `una`.
    nxt: u64,
    /// First byte never sent.
    pub max: u64,
    /// Window that the receiver advertises.
    pub window_bytes: u64,
    data_end: u64,
    closing: bool,
    control: Reno<Bytes>,
    recovery: ClassicRecovery,
    board: ClassicScoreboard,
    /// Why segments below `max` are sent again.
    resending: RetransmissionKind,
    timer: ClassicTimer,
    /// Set while the persist timer runs in place of the retransmission timer.
    persist: Option<ClassicPersist>,
    cwr_pending: bool,
    report: WindowReport,
    pub out: VecDeque<Transmission>,
}

/// A range of sequence numbers that one segment carries. SYN and FIN occupy a number each.
#[derive(Clone, Copy, Debug)]
struct Piece {
    seq: u64,
    payload: u64,
    syn: bool,
    fin: bool,
}

impl ClassicSender {
    pub fn new(config: &Rc<TcpConfig>, clock: TickClock, mss: u32) -> Self {
        let mss = u64::from(mss);
        Self {
            clock,
            mss,
            una: 0,
            nxt: 0,
            max: 0,
            window_bytes: 0,
            data_end: 1,
            closing: false,
            control: Reno(Bytes::new(config, mss)),
            recovery: ClassicRecovery::default(),
            board: ClassicScoreboard::default(),
            resending: RetransmissionKind::Timeout,
            timer: ClassicTimer::new(ClassicRttEstimator::new(
                clock.ticks(config.rto_min),
                clock.ticks(config.rto_initial),
                clock.ticks(config.rto_max),
            )),
            persist: None,
            cwr_pending: false,
            report: WindowReport::default(),
            out: VecDeque::new(),
            config: Rc::clone(config),
        }
    }

    /// The handshake has agreed on another segment size.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss.into();
        self.control = Reno(Bytes::new(&self.config, self.mss));
    }

    /// The window of a sender that counts bytes, in whole segments.
    pub fn info(&self, fields: &mut Vec<(&'static str, u64)>) {
        fields.extend([
            ("tcpi_snd_cwnd", self.control.window() / self.mss),
            ("tcpi_rto", self.clock.length(self.timer.rtt.rto()).as_nanos() / 1000),
        ]);
    }

    /// Queues `bytes` of application data.
    pub fn write(&mut self, bytes: u64) {
        self.data_end += bytes;
    }

    /// Forgets data that was written and not sent yet.
    pub fn forget_unsent(&mut self) {
        self.data_end = self.max.max(1);
    }

    /// No more data will be written: the FIN follows the last byte, or is sent with it if it still waits to
    /// be put on the wire.
    pub fn close(&mut self) {
        self.closing = true;
        let all_sent = self.max == self.data_end && self.nxt == self.max;
        let fits = self.max < self.una.saturating_add(self.window_bytes);
        if all_sent && fits && ride_on_last(&mut self.out, self.max) {
            self.max += 1;
            self.nxt = self.max;
        }
    }

    /// Tick at which the retransmission timer expires.
    pub fn timer(&self) -> Option<Tick> {
        self.timer.due
    }

    pub fn una(&self) -> u64 {
        self.una
    }

    pub fn fin_sent(&self) -> bool {
        self.max > self.data_end
    }

    /// True if everything sent is acknowledged, the FIN included.
    pub fn fin_acknowledged(&self) -> bool {
        self.una > self.data_end
    }

    /// Sends the SYN (or the SYN of a SYN-ACK), for the first time or again.
    pub fn send_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.transmit(cx, Piece { seq: 0, payload: 0, syn: true, fin: false });
        self.nxt = 1;
    }

    /// The connection is open without a handshake.
    pub fn skip_handshake(&mut self, window_bytes: u64) {
        (self.una, self.nxt, self.max) = (1, 1, 1);
        self.window_bytes = window_bytes;
    }

    /// The handshake is complete: the first flight leaves.
    pub fn establish<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let cut = self.timer.expiries > 0 && self.config.syn_timeout_cuts_window;
        let segments = if cut { 1 } else { self.config.initial_window };
        self.control.state_mut().restart(u64::from(segments) * self.mss);
        self.timer.expiries = 0;
        cx.emit(TransportEvent::Established);
        self.send(cx);
        self.report_window(cx);
    }

    /// Processes the acknowledgment of a segment and sends the data that it allows.
    pub fn on_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        if self.take_ack(cx, segment) {
            self.heard_window();
            self.send(cx);
            self.report_window(cx);
        }
    }

    /// Processes the acknowledgment of a segment. Returns false if it is old or impossible.
    pub fn take_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) -> bool {
        if (segment.ack > self.max && !self.acknowledges_probe(segment.ack)) || segment.ack < self.una {
            return false;
        }
        let new = segment.ack > self.una;
        let duplicate = !new
            && self.max > self.una
            && segment.sequence_length() == 0
            && segment.window_bytes <= self.window_bytes;
        self.window_bytes = segment.window_bytes;
        let reported = self.uses_sack() && self.board.apply(&segment.sack, segment.ack, self.max);
        let echo = self.config.ecn && segment.flags.contains(Flags::ECE) && self.una > 0;
        if echo {
            self.on_ecn_echo(cx, segment.ack);
        }
        if new {
            self.on_new_ack(cx, segment.ack, echo);
        } else if duplicate {
            self.on_duplicate(cx, reported);
        }
        true
    }

    fn uses_sack(&self) -> bool {
        self.config.sack && self.config.recovery == RecoveryRules::SackPipe
    }

    fn on_new_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, ack: u64, echo: bool) {
        let acked = ack - std::mem::replace(&mut self.una, ack);
        self.nxt = self.nxt.max(ack);
        self.recovery.limited = 0;
        self.board.acknowledge(ack);
        self.take_sample(cx);
        let handshake = ack == 1;
        if !handshake {
            self.timer.expiries = 0;
        }
        let partial = self.is_partial(ack);
        // With SACK the window is constant until recovery is over.
        let held = self.recovery.point.is_some() && self.uses_sack();
        if partial {
            self.on_partial_ack(cx, acked);
        } else {
            self.leave_recovery(cx);
            if !(held || handshake || echo) {
                self.control.on_ack(&RateSample {
                    at: self.moment(cx),
                    acked: 1,
                    is_window_limited: true,
                    rate: None,
                });
            }
        }
        let again = partial && self.recovery.heard_partial;
        self.recovery.heard_partial = partial;
        if self.una == self.max {
            self.timer.due = None;
        } else if !(again && self.config.newreno_impatient) {
            self.timer.restart(cx.tick);
        }
    }

    /// One segment is timed at a time, and never a retransmitted one (Karn). The sample is the number of
    /// clock boundaries that were crossed, plus one.
    fn take_sample<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if let Some(ticks) = self.timer.take_sample(self.una, cx.tick) {
            cx.emit(TransportEvent::RttSample {
                rtt: self.clock.length(ticks),
                rto: self.clock.length(self.timer.rtt.rto()),
            });
        }
    }

    fn moment<O: Observer>(&self, cx: &Context<'_, O>) -> Moment {
        Moment { us: cx.us, tick: cx.tick, una: self.una, nxt: self.nxt }
    }

    /// The window in use.
    fn flight(&self) -> u64 {
        self.control.window().min(self.window_bytes)
    }

    /// ECN echo: half the window, once per window of data (RFC 3168, section 6.1.2).
    fn on_ecn_echo<O: Observer>(&mut self, cx: &mut Context<'_, O>, ack: u64) {
        if ack > self.recovery.reduced_at && self.recovery.point.is_none() {
            self.control.on_congestion(Congestion::Ecn, self.flight());
            self.control.state_mut().fall();
            self.recovery.reduced_at = self.max;
            self.cwr_pending = true;
            cx.emit(TransportEvent::EcnReduction);
        }
    }

    /// The window in bytes: `cwnd` and its inflation.
    fn congestion_window(&self) -> u64 {
        let window = self.control.window() + self.recovery.inflation;
        if self.config.silly_window_avoidance { window / self.mss * self.mss } else { window }
    }

    /// Sends the data that the windows allow, from `nxt` on. Returns true if it sent any.
    pub fn send<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        if self.recovery.point.is_some() && self.uses_sack() {
            return self.send_by_pipe(cx);
        }
        let edge = self.una + self.congestion_window();
        let before = self.nxt;
        while self.send_next(cx, edge) {}
        if self.una == self.max && self.timer.due.is_none() {
            self.await_window(cx.tick);
        }
        self.nxt > before
    }

    /// Sends the segment at `nxt`, if one that ends by `edge` and within the receiver's window may be sent.
    /// One byte of room is enough, unless silly windows are avoided (RFC 9293, section 3.8.6.2.1).
    fn send_next<O: Observer>(&mut self, cx: &mut Context<'_, O>, edge: u64) -> bool {
        let allowed = self.una.saturating_add(self.window_bytes);
        let room = edge.min(allowed).saturating_sub(self.nxt);
        if room == 0 || self.nxt > self.data_end {
            return false;
        }
        let unsent = self.data_end - self.nxt;
        let payload = unsent.min(self.mss).min(room);
        let fin = self.closing && payload == unsent && self.nxt + payload < allowed;
        let small = payload < self.mss;
        let silly = small && payload < unsent;
        // RFC 896; retransmissions do not wait.
        if self.config.nagle
            && small
            && payload == unsent
            && !fin
            && self.una < self.nxt
            && self.nxt == self.max
        {
            return false;
        }
        if (payload == 0 && !fin) || (silly && self.config.silly_window_avoidance) {
            return false;
        }
        let seq = self.nxt;
        self.nxt += payload + u64::from(fin);
        self.transmit(cx, Piece { seq, payload, syn: false, fin });
        true
    }

    fn transmit<O: Observer>(&mut self, cx: &mut Context<'_, O>, piece: Piece) {
        let Piece { seq, payload, syn, fin } = piece;
        let end = seq + payload + u64::from(syn) + u64::from(fin);
        let fresh = seq >= self.max;
        // Retransmissions are not ECN-capable (RFC 3168, section 6.1.5).
        let ect = self.config.ecn && fresh && payload > 0;
        let cwr = ect && std::mem::take(&mut self.cwr_pending);
        let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
        self.out.push_back(Transmission {
            seq,
            payload_bytes: payload as u32,
            syn,
            fin,
            ecn,
            cwr,
            push: false,
        });
        if fresh {
            self.timer.timed.get_or_insert((seq, cx.tick));
        } else {
            self.timer.spare(seq..end);
            cx.emit(TransportEvent::Retransmitted { seq, kind: self.resending });
        }
        self.max = self.max.max(end);
        if self.timer.due.is_none() {
            self.timer.restart(cx.tick);
        }
    }

    /// The retransmission timer expired. Returns false if the retries are used up.
    pub fn on_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        self.timer.due = None;
        if let Some(persist) = self.persist.take() {
            return self.probe_window(cx, persist);
        }
        if self.timer.expiries >= self.config.most_retries(self.una == 0) {
            return false;
        }
        self.timer.expiries += 1;
        cx.emit(TransportEvent::Timeout { seq: self.una, backoff: self.timer.expiries });
        self.abandon_recovery();
        self.timer.rtt.back_off();
        self.resending = RetransmissionKind::Timeout;
        self.reduce_to_one_segment(cx);
        if self.una == 0 {
            self.send_syn(cx);
        } else {
            self.send(cx);
        }
        self.report_window(cx);
        true
    }

    pub fn report_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let segments = |bytes: u64| u32::try_from(bytes / self.mss).unwrap_or(u32::MAX);
        let in_flight = segments(self.nxt - self.una + self.mss - 1);
        self.report.tell(cx, segments(self.control.window()), segments(self.control.ssthresh()), in_flight);
    }
}
