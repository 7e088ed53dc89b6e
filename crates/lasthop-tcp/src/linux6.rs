//! The sending half of a connection as in Linux 6: windows in segments, time in microseconds, losses detected
//! by the send times of arrived segments.
//!
//! This module contains sending and the timer; `ack` and `sack` contain the processing of ACKs, `loss` the
//! states of loss recovery.

mod ack;
mod ecn_bytes;
mod facts;
mod frto;
mod info;
mod loss;
mod marks;
mod pace;
mod persist;
mod probe;
mod prr;
mod rack;
mod recovery;
mod rtt;
mod sack;
mod scoreboard;
mod socket;
mod timer;
mod usage;

use std::rc::Rc;

use lasthop_core::{Duration, Observer, Rate, RetransmissionKind, TransportEvent};

use crate::clock::{Tick, TickClock};
use crate::common::metrics::{CachedMetrics, Knowledge};
use crate::common::{
    Context, Cut, Episode, Handshake, NewSegment, Persist, SendQueue, State, StateReport, WindowReport,
};
use crate::config::{Pacing, TcpConfig};
use crate::control::{
    Control, Controller, Counting, Fq, Moment, Nature, Pacer, Progress, RateSampler, Segments, Setup, Window,
};
use frto::Linux6FRto;
use marks::Marks;
use pace::Deferral;
use probe::Probe;
use prr::Reduction;
use rack::Rack;
use recovery::Linux6Recovery;
use rtt::Linux6RttEstimator;
use scoreboard::{Linux6Scoreboard, Linux6Sent, Linux6SentSegment};
use socket::Socket;
use timer::{Alarm, Linux6Timer};
use usage::Usage;

/// The timeout without any round-trip time from the handshake (RFC 6298, section 5.7).
const TIMEOUT_FALLBACK: Duration = Duration::from_secs(3);
/// Number of SYNs that are retransmitted at constant intervals, before the timeout doubles
/// (`tcp_syn_linear_timeouts`).
const SYN_LINEAR_TIMEOUTS: u32 = 4;
/// Minimum wait of a TCP timer, in microseconds.
const TIMEOUT_MIN_US: u64 = 2_000;

/// Counters of the connection, in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    retransmissions: u64,
    dsack_duplicates: u64,
    delivered: u64,
    /// Number of these that were reported with an ECN echo.
    delivered_ce: u64,
    lost: u64,
}

#[derive(Debug)]
pub(crate) struct Linux6Sender {
    pub config: Rc<TcpConfig>,
    pub queue: SendQueue,
    /// The socket, if its send buffer is limited.
    socket: Option<Socket>,
    clock: TickClock,
    board: Linux6Scoreboard,
    rtt: Linux6RttEstimator,
    rack: Rack,
    control: Control,
    nature: Nature,
    /// True if this end has opened the connection.
    connects: bool,
    /// The pacing rate from window and round-trip time, unless the algorithm sets one. It also determines the
    /// size of bursts.
    rate: Option<Rate>,
    pacer: Pacer,
    /// The queue discipline that holds paced segments, if TCP itself does not.
    fq: Option<Box<Fq>>,
    rates: RateSampler,
    reduction: Reduction,
    recovery: Linux6Recovery,
    /// The reduction that may be undone.
    episode: Episode,
    frto: Linux6FRto,
    probe: Probe,
    timer: Linux6Timer,
    persist: Persist,
    /// Consecutive expiries.
    expiries: u32,
    counts: Counts,
    usage: Usage,
    marks: Marks,
    /// Timestamp echoed by the ACK being processed, and that of the first SYN.
    echo: Option<Tick>,
    syn_stamp: Tick,
    report: WindowReport,
    states: StateReport,
}

impl Linux6Sender {
    pub fn new(config: &Rc<TcpConfig>, clock: TickClock, mss: u32) -> Self {
        let tick_us = (clock.length(1).as_nanos() / 1000).max(1);
        let [least, initial, most] =
            [config.rto_min, config.rto_initial, config.rto_max].map(|t| clock.ticks(t));
        let control = control(config, clock, mss);
        let nature = Nature::of(&control);
        let mut queue = SendQueue::new(mss, Cut::Joined);
        queue.is_all_ect = config.is_all_ect();
        if config.nagle {
            queue.use_nagle();
        }
        Self {
            queue,
            socket: Socket::new(config.send_buffer),
            clock,
            board: Linux6Scoreboard::default(),
            rtt: Linux6RttEstimator::new(tick_us, least, initial, most),
            rack: Rack::default(),
            connects: false,
            rate: None,
            pacer: Pacer::default(),
            fq: (config.pacing == Pacing::Fq).then(Box::default),
            rates: RateSampler::new(nature.is_rate_based),
            states: StateReport::new(control.has_states()),
            control,
            nature,
            reduction: Reduction::default(),
            recovery: Linux6Recovery::new(config.dupack_threshold),
            episode: Episode::default(),
            frto: Linux6FRto::default(),
            probe: Probe::default(),
            timer: Linux6Timer::default(),
            persist: Persist::default(),
            expiries: 0,
            counts: Counts::default(),
            usage: Usage::default(),
            marks: Marks::default(),
            echo: None,
            syn_stamp: 0,
            report: WindowReport::default(),
            config: Rc::clone(config),
        }
    }

    /// The handshake has agreed on another segment size.
    pub fn set_mss(&mut self, mss: u32) {
        self.queue.mss = mss;
        self.control = control(&self.config, self.clock, mss);
    }

    /// The socket takes `bytes` of data.
    fn take_writes(&mut self, bytes: u64, write_bytes: u64) {
        if self.rates.is_on() {
            self.rates.set_writing(self.queue.unsent() < u64::from(self.queue.mss));
        }
        self.queue.write(bytes, write_bytes);
    }

    /// No more data will be written.
    pub fn close(&mut self) {
        if self.close_socket() && self.queue.close() {
            self.board.queue.add_fin();
        }
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
        self.syn_stamp = cx.us / 1000;
        // The end that answers a SYN knows the window of the other end.
        self.connects = self.queue.window_bytes == 0;
        let segment = self.queue.send_syn(self.transmission(cx));
        self.push(segment);
        self.rearm_timer(cx);
    }

    /// Answers a repeated SYN with the SYN-ACK again; the timer restarts.
    pub fn repeat_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if let Some(&head) = self.board.queue.head() {
            self.note_retransmission(cx, 0, false);
            self.queue.send_again(&head);
            self.timer.set(Alarm::Retransmission, cx.tick, self.rtt.rto());
        }
    }

    /// The metrics for the next connection to this destination.
    pub fn knowledge(&self) -> Knowledge {
        let (cwnd, ssthresh, reordering) =
            (self.control.window(), self.control.ssthresh(), self.recovery.reordering);
        Knowledge {
            rtt: self.rtt.knowledge(),
            cwnd,
            ssthresh,
            is_steady: cwnd >= ssthresh && self.recovery.state == State::Open,
            reordering: (reordering != self.config.dupack_threshold).then_some(reordering),
        }
    }

    /// The handshake is complete.
    pub fn establish<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        cache: Option<&CachedMetrics>,
        handshake: Handshake,
    ) {
        self.queue.ecn = self.config.ecn;
        self.queue.is_all_ect = self.config.is_all_ect();
        let cached = cache.copied().unwrap_or_default();
        if cached.ssthresh != 0 {
            self.control.state_mut().set_ssthresh(cached.ssthresh);
        }
        if cached.reordering != 0 {
            self.recovery.reordering = cached.reordering;
        }
        // One retransmitted SYN or SYN-ACK has no effect: the timeout of a second may have been too short.
        // More have no effect either if the response answers the first one (tcp_try_undo_spurious_syn).
        let spurious = self.echo == Some(self.syn_stamp);
        if self.counts.retransmissions > 1 && !spurious && self.config.syn_timeout_cuts_window {
            self.control.state_mut().set(1);
        }
        self.expiries = 0;
        self.episode.marker = None;
        self.episode.stamp = None;
        self.rtt.begin(cached.srtt_8, self.clock.ticks(TIMEOUT_FALLBACK));
        self.control.on_start(&self.moment(cx), self.counts.delivered);
        self.usage.begin(cx.tick);
        if self.config.counts_marks() {
            self.begin_counting(handshake);
        } else {
            self.control.do_without_counters();
            self.nature = Nature::of(&self.control);
        }
        self.begin_rate();
        cx.emit(TransportEvent::Established);
        if self.queue.unsent() == 0 {
            // The SYN took all room.
            self.refill();
        }
        self.send_written(cx);
    }

    fn moment<O: Observer>(&self, cx: &Context<'_, O>) -> Moment {
        Moment { us: cx.us, tick: cx.tick, una: self.queue.una, nxt: self.queue.nxt }
    }

    /// Sends the data that the application has just written, if the windows allow.
    pub fn send_written<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.send_new(cx);
        self.queue.end_writing();
        if self.rates.is_on() {
            // Data that pacing delays was written, too.
            self.note_write();
            self.rates.set_writing(false);
        }
        if self.board.queue.outstanding() == 0 && self.timer.alarm() != Some(Alarm::Window) {
            self.await_window(cx);
        }
        self.report_window(cx);
    }

    /// Sends new data as long as in-flight < cwnd and the receiver's window allow it, unless a larger burst
    /// will soon be possible, and sets the timer then. Returns true if anything was sent (`tcp_write_xmit`).
    fn send_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let mut sent = 0_u64;
        let mut is_full = false;
        let idle = self.board.queue.outstanding() == 0;
        if idle && self.queue.next().is_some_and(|new| new.payload_bytes > 0) {
            self.restart_after_idle(cx.tick);
        }
        let mut window = self.control.window();
        while self.board.in_flight() < window
            && self.queue.fits()
            && !self.queue.is_held()
            && self.may_send(cx.now)
        {
            let segments = self.burst_segments();
            let buffer_bytes = self.queue.pack(segments);
            if let Some(reason) = self.defers(cx, buffer_bytes) {
                is_full = reason == Deferral::Window;
                break;
            }
            sent += self.send_burst(cx, segments);
            // Data after a pause may change it.
            window = self.control.window();
        }
        is_full |= self.board.in_flight() >= window;
        if sent > 0 || is_full {
            self.validate_window(cx.tick, is_full);
        }
        if sent > 0 {
            self.note_sent_in_reduction(sent);
            if !self.schedule_probe(cx, false) && (idle || self.timer.alarm() == Some(Alarm::Probe)) {
                self.rearm_timer(cx);
            }
        }
        sent > 0
    }

    fn note_sent_in_reduction(&mut self, segments: u64) {
        if self.recovery.state.is_reducing() {
            self.reduction.sent += segments;
        }
    }

    /// The window shrinks over idle times (RFC 2861).
    fn restart_after_idle(&mut self, tick: Tick) {
        if self.nature.is_rate_based || !self.config.knobs.slow_start_after_idle {
            return;
        }
        let (rto, window) = (self.rtt.rto(), self.control.window());
        if let Some(window) = self.usage.after_idle(tick, rto, window, self.config.initial_window) {
            let ssthresh = self.ssthresh_worth_restoring();
            self.control.state_mut().set_ssthresh(ssthresh);
            self.control.state_mut().set(window);
        }
    }

    /// Checks whether the window was in use.
    fn validate_window(&mut self, tick: Tick, is_full: bool) {
        let &SendQueue { una, nxt, .. } = &self.queue;
        let now = usage::Now { tick, una, nxt, outstanding: self.board.queue.outstanding(), is_full };
        self.usage.note(now);
        let state = self.control.state();
        let window = state.window();
        let in_use = self.usage.allows_growth(window, state.ssthresh());
        let may_shrink = self.recovery.state == State::Open;
        if let Some(used) = self.usage.validate(now, in_use, self.rtt.rto(), may_shrink) {
            let used = used.max(self.config.initial_window);
            let shrinks = self.config.knobs.slow_start_after_idle && !self.nature.is_rate_based;
            if used < window && shrinks {
                let ssthresh = self.ssthresh_worth_restoring();
                self.control.state_mut().set_ssthresh(ssthresh);
                self.control.state_mut().set(u32::midpoint(window, used));
            }
        }
    }

    fn ssthresh_worth_restoring(&self) -> u32 {
        self.control.state().ssthresh_worth_restoring(self.recovery.state)
    }

    /// Sends the next new segment regardless of the congestion window. The caller sets the timer.
    fn send_next<O: Observer>(&mut self, cx: &mut Context<'_, O>, new: NewSegment) {
        let at = self.moment(cx);
        let segment = self.queue.send_new(new, self.transmission(cx));
        // Linux checks when the application writes, so a control learns of a pause at that time.
        if self.rates.is_on() {
            self.note_write();
        }
        if new.payload_bytes > 0 {
            let idle = self.board.in_flight() == 0;
            let idle_since = idle.then_some(self.usage.last_sent);
            let is_app_limited = idle && self.rates.is_app_limited();
            self.control.on_sent(&crate::control::Sent { at, idle_since, is_app_limited });
            self.usage.last_sent = cx.tick;
        }
        self.push(segment);
        self.rates.set_write_end(new.ends_write);
    }

    fn transmission<O: Observer>(&self, cx: &Context<'_, O>) -> Linux6Sent {
        Linux6Sent { us: self.departs_us(cx), delivered_before: self.counts.delivered, number: 1 }
    }

    #[allow(
        clippy::inline_always,
        reason = "else the segment is written twice, and the second time waits for the first"
    )]
    #[inline(always)]
    fn push(&mut self, segment: Linux6SentSegment) {
        if self.rates.is_on() {
            let first = self.board.queue.outstanding() == 0;
            let progress = self.progress(1);
            self.rates.on_sent(segment.sent.us, progress, first);
        }
        self.board.push(segment);
    }

    fn retransmit<O: Observer>(&mut self, cx: &mut Context<'_, O>, index: usize, kind: RetransmissionKind) {
        let segment = *self.board.queue.get(index);
        self.note_retransmission(cx, index, true);
        self.episode.retransmissions = self.episode.retransmissions.max(0);
        self.episode.note_retransmission(self.departs_us(cx) / 1000);
        self.put_again(cx, &segment, kind);
    }

    fn note_retransmission<O: Observer>(&mut self, cx: &Context<'_, O>, index: usize, counted: bool) {
        let departs_us = self.departs_us(cx);
        self.board.note_retransmission(index, departs_us, self.counts.delivered, counted);
        let progress = self.progress(0);
        self.rates.on_sent_again(index, departs_us, progress);
        self.counts.retransmissions += 1;
    }

    /// The state of the connection, with this number of additional segments in flight.
    fn progress(&self, more: u32) -> Progress {
        let Counts { delivered, lost, .. } = self.counts;
        Progress { delivered, lost, in_flight: self.board.in_flight() + more }
    }

    fn put_again<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        segment: &Linux6SentSegment,
        kind: RetransmissionKind,
    ) {
        self.queue.send_again(segment);
        self.pace(cx.now, 1, segment.payload_bytes);
        self.usage.last_sent = cx.tick;
        cx.emit(TransportEvent::Retransmitted { seq: segment.seq, kind });
    }

    /// Microseconds until the timeout, counted from the last transmission of the head; 0 if it is over.
    fn timeout_left_us<O: Observer>(&self, cx: &Context<'_, O>) -> u64 {
        let rto = self.rtt.micros(self.rtt.rto());
        self.board.queue.head().map_or(0, |head| (head.sent.us + rto).saturating_sub(cx.us))
    }

    /// Sets the retransmission timer, or clears it if nothing is outstanding. The time that the timer of a
    /// probe or of RACK has already waited counts.
    fn rearm_timer<O: Observer>(&mut self, cx: &Context<'_, O>) {
        if self.board.queue.outstanding() == 0 {
            self.timer.clear();
            return;
        }
        let wait = match self.timer.alarm() {
            Some(Alarm::Probe | Alarm::Reordering) => self.rtt.ticks(self.timeout_left_us(cx).max(1)),
            _ => self.rtt.rto(),
        };
        self.set_timer(cx, Alarm::Retransmission, wait);
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
            Some(Alarm::Window) => goes_on = self.probe_window(cx),
            None => {}
        }
        self.report_window(cx);
        goes_on
    }

    fn on_retransmission_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        let Some(&head) = self.board.queue.head() else { return true };
        let syn_sent = head.syn && self.queue.window_bytes == 0;
        // `tcp_write_timeout` does not count these.
        let linear = if syn_sent { SYN_LINEAR_TIMEOUTS } else { 0 };
        if self.expiries >= self.config.most_retries(head.syn) + linear {
            return false;
        }
        cx.emit(TransportEvent::Timeout { seq: head.seq, backoff: self.expiries + 1 });
        if !head.syn {
            self.enter_loss(cx);
        }
        self.retransmit(cx, 0, RetransmissionKind::Timeout);
        self.expiries += 1;
        if self.expiries > linear {
            self.rtt.back_off();
        }
        self.timer.set(Alarm::Retransmission, cx.tick, self.rtt.rto());
        true
    }

    /// True if a probe may reveal that the end of a flight is lost.
    fn may_probe(&self) -> bool {
        let quiet = matches!(self.recovery.state, State::Open | State::Cwr);
        quiet && self.board.queue.outstanding() > 0 && self.config.tail_loss_probe && self.config.sack
    }

    /// Sets the timer for a probe, unless the timeout would come first. Returns false if there is nothing to
    /// probe for. `from_now`: the timeout counts from now, otherwise from the transmission of the head.
    fn schedule_probe<O: Observer>(&mut self, cx: &Context<'_, O>, from_now: bool) -> bool {
        if !self.may_probe() {
            return false;
        }
        let to_timeout = if from_now { self.rtt.micros(self.rtt.rto()) } else { self.timeout_left_us(cx) };
        let to_timeout = if to_timeout > 0 { to_timeout } else { u64::MAX };
        let wait = if self.rtt.srtt_us() > 0 {
            let alone = self.board.queue.outstanding() == 1;
            let margin = if alone { self.rtt.minimum_us() } else { TIMEOUT_MIN_US };
            self.rtt.ticks(to_timeout.min(self.rtt.twice_srtt_us() + margin))
        } else {
            let initial = self.rtt.micros(self.clock.ticks(self.config.rto_initial));
            self.rtt.ticks(to_timeout.min(initial))
        };
        self.set_timer(cx, Alarm::Probe, wait);
        true
    }

    /// Sends one new segment, or otherwise retransmits the last one; one probe at a time.
    fn send_probe<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if !self.probe.is_out() {
            let mut again = false;
            self.queue.pack(1);
            if let Some(new) = self.queue.next_fitting() {
                cx.emit(TransportEvent::TailLossProbe { seq: self.queue.nxt });
                self.send_next(cx, new);
                self.pace(cx.now, 1, new.payload_bytes);
                let is_full = self.board.in_flight() >= self.control.window();
                self.validate_window(cx.tick, is_full);
                self.note_sent_in_reduction(1);
            } else if let Some(&last) = self.board.queue.last() {
                self.note_retransmission(cx, self.board.queue.outstanding() as usize - 1, false);
                cx.emit(TransportEvent::TailLossProbe { seq: last.seq });
                self.put_again(cx, &last, RetransmissionKind::Probe);
                again = true;
            }
            self.probe.sent(self.queue.nxt, again);
            self.timer.clear();
        }
        self.rearm_timer(cx);
    }

    fn report_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let state = self.control.state();
        self.report.tell(cx, state.window(), state.ssthresh(), self.board.in_flight());
        if self.states.are_there() {
            self.states.tell(cx, self.control.state_name());
        }
    }
}

fn control(config: &TcpConfig, clock: TickClock, mss: u32) -> Control {
    let window = Segments::new(config, mss, Counting::Segments);
    Control::new(config, Setup::new(config, window, clock.per_second(), mss))
}

#[cfg(test)]
mod tests;
