//! The sending half of a connection as in Linux up to 2.6: windows count segments, and time counts ticks.
//!
//! This module contains sending and timeouts; `ack` contains the processing of ACKs.

mod ack;
mod control;
mod frto;
mod info;
mod persist;
mod recovery;
mod rto;
mod scoreboard;

use std::rc::Rc;

use lasthop_core::{Observer, RetransmissionKind, TransportEvent};

use crate::clock::{Tick, TickClock};
use crate::common::metrics::{CachedMetrics, Knowledge};
use crate::common::rtt::signed;
use crate::common::{Context, Cut, Episode, Persist, SendQueue, State, WindowReport};
use crate::config::{CachedInitialWindow, TcpConfig};
use crate::control::{Congestion, Controller, Moment};
use control::Control;
use frto::{Linux2FRto, Linux2Progress};
use recovery::Linux2Recovery;
use rto::{Linux2RttEstimator, Linux2Timer};
use scoreboard::{Linux2Scoreboard, Linux2Sent, Linux2SentSegment};

#[derive(Clone, Debug)]
pub(crate) struct Linux2Sender {
    pub config: Rc<TcpConfig>,
    pub queue: SendQueue,
    clock: TickClock,
    board: Linux2Scoreboard,
    control: Control,
    timer: Linux2Timer,
    persist: Persist,
    recovery: Linux2Recovery,
    /// The reduction that may be undone.
    episode: Episode,
    frto: Linux2FRto,
    /// Timestamp echoed by the ACK being processed, in ticks.
    echo: Option<Tick>,
    report: WindowReport,
}

impl Linux2Sender {
    pub fn new(config: &Rc<TcpConfig>, clock: TickClock, mss: u32) -> Self {
        let [least, initial, most] =
            [config.rto_min, config.rto_initial, config.rto_max].map(|t| clock.ticks(t));
        let cut = if config.joined_writes { Cut::Joined } else { Cut::ByWrites };
        let mut queue = SendQueue::new(mss, cut);
        if config.joined_writes {
            queue.join_writes();
        }
        Self {
            queue,
            clock,
            board: Linux2Scoreboard::default(),
            control: Control::new(config, mss, clock),
            timer: Linux2Timer::new(Linux2RttEstimator::new(least, initial, most)),
            persist: Persist::default(),
            recovery: Linux2Recovery::new(config.dupack_threshold),
            episode: Episode::default(),
            frto: Linux2FRto::new(config.frto),
            echo: None,
            report: WindowReport::default(),
            config: Rc::clone(config),
        }
    }

    /// The handshake has agreed on another segment size.
    pub fn set_mss(&mut self, mss: u32) {
        self.queue.mss = mss;
        self.control = Control::new(&self.config, mss, self.clock);
    }

    /// No more data will be written.
    pub fn close(&mut self) {
        if self.queue.close() {
            self.board.queue.add_fin();
        }
    }

    /// Tick at which the retransmission timer expires.
    pub fn timer(&self) -> Option<Tick> {
        self.timer.due
    }

    /// The metrics for the next connection to this destination.
    pub fn knowledge(&self) -> Knowledge {
        let rtt = &self.timer.rtt;
        let (cwnd, ssthresh, reordering) =
            (self.control.window(), self.control.ssthresh(), self.recovery.reordering);
        Knowledge {
            rtt: (rtt.has_sample() && !self.timer.backed_off).then(|| (rtt.srtt_8(), rtt.mdev_4())),
            cwnd,
            ssthresh,
            is_steady: cwnd > ssthresh && self.recovery.state == State::Open,
            reordering: (reordering != self.config.dupack_threshold).then_some(reordering),
        }
    }

    /// Sends the SYN (or the SYN of a SYN-ACK).
    pub fn send_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let segment = self.queue.send_syn(first_transmission(cx.tick));
        self.push(cx.tick, segment);
    }

    /// Answers a repeated SYN with the SYN-ACK again. The timer continues, as in Linux.
    pub fn repeat_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if let Some(&head) = self.board.queue.head() {
            self.note_retransmission(cx.tick, 0);
            self.queue.send_again(&head);
        }
    }

    /// The handshake is complete: the first flight leaves.
    pub fn establish<O: Observer>(&mut self, cx: &mut Context<'_, O>, cache: Option<&CachedMetrics>) {
        self.queue.ecn = self.config.ecn;
        let sent_again = std::mem::take(&mut self.timer.expiries) > 0;
        if sent_again && self.config.syn_timeout_cuts_window {
            self.control.state_mut().set(1);
        } else if let Some(cached) = cache {
            self.start_from_cache(cached);
        } else if !self.config.handshake_rtt {
            self.forget_handshake();
        }
        self.control.on_start(&self.moment(cx), 0);
        cx.emit(TransportEvent::Established);
        self.send_written(cx);
        self.report_window(cx);
    }

    fn start_from_cache(&mut self, cached: &CachedMetrics) {
        if cached.ssthresh != 0 {
            self.control.state_mut().set_ssthresh(cached.ssthresh);
        }
        if cached.reordering != 0 {
            self.recovery.reordering = cached.reordering;
        }
        let initial = self.clock.ticks(self.config.rto_initial);
        let rtt = &mut self.timer.rtt;
        let sampled = rtt.has_sample();
        let usable = cached.srtt_8 != 0 && (sampled || cached.srtt_8 >= signed(initial) << 3);
        if usable {
            rtt.raise(cached.srtt_8, cached.rttvar_4);
            if rtt.rto() >= initial || self.config.timestamps {
                let window = self.cached_initial_window().min(self.control.ssthresh());
                self.control.state_mut().set(window);
                return;
            }
        }
        self.forget_handshake();
    }

    /// Without timestamps, a timeout that is too small could never be corrected.
    fn forget_handshake(&mut self) {
        if !self.config.timestamps && self.timer.rtt.has_sample() {
            self.timer.rtt.forget();
        }
    }

    fn cached_initial_window(&self) -> u32 {
        match (self.config.cached_initial_window, self.queue.mss) {
            (CachedInitialWindow::Configured, _) => self.config.initial_window,
            (CachedInitialWindow::BySegmentSize, 0..=1095) => 4,
            (CachedInitialWindow::BySegmentSize, 1096..=1460) => 3,
            (CachedInitialWindow::BySegmentSize, _) => 2,
        }
    }

    fn moment<O>(&self, cx: &Context<'_, O>) -> Moment
    where
        O: Observer,
    {
        Moment { us: cx.us, tick: cx.tick, una: self.queue.una, nxt: self.queue.nxt }
    }

    /// Sends the data that the application has just written, if the windows allow.
    pub fn send_written<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.send_new(cx);
        self.queue.end_writing();
    }

    /// Sends new data as long as in-flight < cwnd and the receiver's window allow it.
    pub fn send_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        while self.may_send_new() {
            let Some(new) = self.queue.next() else { break };
            let segment = self.queue.send_new(new, first_transmission(cx.tick));
            self.push(cx.tick, segment);
        }
        if self.board.queue.outstanding() == 0 && self.timer.due.is_none() {
            self.await_window(cx.tick);
        }
    }

    /// True if there is new data and both windows allow one more segment.
    fn may_send_new(&self) -> bool {
        self.flight() < self.control.window() && self.queue.fits()
    }

    /// The flight size that is compared with the window. Before recovery, only limited transmit (RFC 3042)
    /// sends a segment for each one that SACK or a duplicate ACK reports; without it, reported segments count
    /// until they are acknowledged (`FlightSize`, RFC 5681, section 2).
    fn flight(&self) -> u32 {
        let examining = self.frto.progress.is_some();
        let limited = !self.config.limited_transmit && self.recovery.state <= State::Cwr && !examining;
        self.board.in_flight() + if limited { self.board.sacked_out() } else { 0 }
    }

    fn push(&mut self, tick: Tick, segment: Linux2SentSegment) {
        if self.board.queue.outstanding() == 0 {
            self.timer.restart(tick);
        }
        self.board.queue.push(segment);
    }

    fn note_retransmission(&mut self, tick: Tick, index: usize) {
        let sent = Linux2Sent { tick, before: self.queue.nxt };
        self.board.queue.note_retransmission(index, sent, true);
    }

    /// Retransmits outstanding segment `index`.
    fn retransmit<O: Observer>(&mut self, cx: &mut Context<'_, O>, index: usize, kind: RetransmissionKind) {
        let segment = *self.board.queue.get(index);
        self.note_retransmission(cx.tick, index);
        self.queue.send_again(&segment);
        self.episode.note_retransmission(cx.tick);
        cx.emit(TransportEvent::Retransmitted { seq: segment.seq, kind });
        if index == 0 {
            self.timer.restart(cx.tick);
        }
    }

    /// The retransmission timer expired. Returns false if the retries are used up.
    pub fn on_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(&head) = self.board.queue.head() else {
            return self.probe_window(cx);
        };
        if self.timer.expiries >= self.config.most_retries(head.syn) {
            self.timer.due = None;
            return false;
        }
        cx.emit(TransportEvent::Timeout { seq: head.seq, backoff: self.timer.expiries + 1 });
        if !head.syn {
            // Without new data, F-RTO could not decide.
            if self.frto.may_begin(self.recovery.state) && self.queue.fits() {
                self.enter_frto();
            } else {
                self.enter_loss(cx);
            }
        }
        self.retransmit(cx, 0, RetransmissionKind::Timeout);
        self.timer.back_off(cx.tick);
        self.report_window(cx);
        true
    }

    /// Step 1 of F-RTO: ssthresh is reduced, the head will be retransmitted, nothing is marked lost yet.
    fn enter_frto(&mut self) {
        let flight = self.board.queue.outstanding();
        if self.recovery.is_fresh_timeout(self.queue.una, self.timer.expiries) {
            self.episode.prior_ssthresh = self.ssthresh_worth_restoring();
            self.control.on_congestion(Congestion::Loss, flight);
        }
        self.control.state_mut().recount();
        self.board.queue.clear_retransmitted(true);
        self.episode.marker = None;
        self.frto.progress = Some(Linux2Progress { flight, advanced: false });
        self.recovery.enter(State::Open, self.queue.nxt);
    }

    /// Conventional recovery after a timeout: everything outstanding is lost, slow start from one segment.
    fn enter_loss<O: Observer>(&mut self, cx: &Context<'_, O>) {
        let moment = self.moment(cx);
        if self.recovery.is_fresh_timeout(self.queue.una, self.timer.expiries) {
            self.episode.prior_ssthresh = self.ssthresh_worth_restoring();
            self.control.on_timeout(&moment, self.control.window(), 1);
        } else {
            self.control.on_persistent(&moment, 1);
        }
        self.episode.marker = Some(self.queue.una);
        self.episode.retransmissions = 0;
        self.episode.stamp = None;
        self.board.queue.clear_retransmitted(false);
        self.board.forget_duplicates();
        if self.board.mark_all_lost(u64::MAX) {
            // There was a retransmission already, so a later ACK would prove nothing.
            self.episode.marker = None;
        }
        self.frto.progress = None;
        self.go_back(self.queue.nxt);
    }

    /// Go-back-N up to `recovery_point`.
    fn go_back(&mut self, recovery_point: u64) {
        self.recovery.reordering = self.recovery.reordering.min(self.config.dupack_threshold);
        self.recovery.enter(State::Loss, recovery_point);
        self.queue.cwr_pending = self.queue.ecn;
    }

    fn ssthresh_worth_restoring(&self) -> u32 {
        self.control.state().ssthresh_worth_restoring(self.recovery.state)
    }

    fn report_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        debug_assert!(self.board.queue.is_balanced(), "the scoreboard's counters have gone astray");
        self.report.tell(cx, self.control.window(), self.control.ssthresh(), self.board.in_flight());
    }
}

fn first_transmission(tick: Tick) -> Linux2Sent {
    Linux2Sent { tick, before: 0 }
}
