//! Bursts and pacing of data, and detection of an application with too little to send.

use lasthop_core::{Instant, Observer, Rate};

use super::Linux6Sender;
use super::timer::Alarm;
use crate::clock::Tick;
use crate::common::{Context, State};
use crate::config::Pacing;
use crate::control::{self, Controller};

/// Share of the window per round-trip time that makes the pacing rate, in per cent, in slow start and after
/// it (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const SLOW_START_RATIO: u64 = 200;
const AVOIDANCE_RATIO: u64 = 120;
/// The window of a connection that is not established yet (`TCP_INIT_CWND`).
const WINDOW_OF_SYN: u32 = 10;

/// A burst waits only if the last one left within this time, and for an ACK that is due within this time.
const DEFERRED_US: u64 = 1_000;

/// The window that makes a burst wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deferral {
    Window,
    Receiver,
}

impl Linux6Sender {
    /// The first pacing rate. The connecting end sets it with the response to the SYN, before the window is
    /// set to that of the configuration.
    pub(super) fn begin_rate(&mut self) {
        self.set_rate(if self.connects { WINDOW_OF_SYN } else { self.control.window() });
    }

    /// The pacing rate follows window and round-trip time, unless the algorithm sets one
    /// (`tcp_update_pacing_rate`).
    pub(super) fn update_rate(&mut self) {
        self.set_rate(self.control.window());
    }

    fn set_rate(&mut self, window: u32) {
        if self.nature.is_rate_based {
            return;
        }
        let ratio = if window < self.control.ssthresh() / 2 { SLOW_START_RATIO } else { AVOIDANCE_RATIO };
        let in_use = window.max(self.board.queue.outstanding());
        let bytes = u64::from(self.queue.mss) * u64::from(in_use) * ratio * (1_000_000 / 100 * 8);
        let bytes_per_second = bytes / self.rtt.srtt_8().max(1);
        self.rate = Some(Rate::from_bits_per_second(8 * bytes_per_second.max(1)));
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.control.pacing_rate().or(self.rate)
    }

    /// True if pacing lets the next new segments leave, or be passed to `fq`.
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        if self.fq.is_none() {
            return self.pacer.may_send(now);
        }
        let bytes = self.queue.next_bytes(self.burst_segments());
        self.may_hand_over(bytes, false)
    }

    /// The same for a retransmission.
    pub(super) fn may_retransmit(&mut self, now: Instant, index: usize) -> bool {
        if self.fq.is_none() {
            return self.pacer.may_send(now);
        }
        self.may_hand_over(self.board.queue.get(index).payload_bytes, true)
    }

    fn may_hand_over(&mut self, bytes: u32, again: bool) -> bool {
        let (rate, outstanding) = (self.pacing_rate(), self.board.queue.outstanding());
        self.fq.as_mut().is_none_or(|fq| fq.may_take(bytes, rate, again, outstanding))
    }

    /// A burst leaves, or waits for its time in `fq`.
    pub(super) fn pace(&mut self, now: Instant, segments: u32, bytes: u32) {
        let departs = self.pacer.next(now);
        if bytes > 0 {
            let rate = match self.config.pacing {
                Pacing::Never => None,
                Pacing::Off => self.control.pacing_rate(),
                Pacing::Socket | Pacing::Fq => self.pacing_rate(),
            };
            self.pacer.on_sent(now, segments, bytes, rate);
        }
        if let Some(fq) = &mut self.fq {
            fq.take(now, departs, &mut self.queue.out, segments);
        }
    }

    /// When a segment that is sent now departs, in microseconds: Linux' measurements of round-trip times and
    /// rates begin then.
    pub(super) fn departs_us<O: Observer>(&self, cx: &Context<'_, O>) -> u64 {
        match self.fq {
            Some(_) => self.pacer.next(cx.now).as_nanos() / 1000,
            None => cx.us,
        }
    }

    /// Sets the timer for `wait` ticks after all that `fq` holds has departed (`tcp_pacing_delay`).
    pub(super) fn set_timer<O: Observer>(&mut self, cx: &Context<'_, O>, alarm: Alarm, wait: Tick) {
        let held = match self.fq {
            Some(_) => self.pacer.wait(cx.now).as_nanos() / self.clock.length(1).as_nanos(),
            None => 0,
        };
        self.timer.set(alarm, cx.tick, wait + held);
    }

    /// Sends up to `most` segments of the first buffer together. If the receiver's window ends within a later
    /// segment, that one is cut. Returns how many were sent.
    pub(super) fn send_burst<O: Observer>(&mut self, cx: &mut Context<'_, O>, most: u32) -> u64 {
        let (mut segments, mut bytes) = (0, 0);
        while segments < most
            && (segments == 0 || !self.queue.is_held())
            && let Some(new) = self.queue.next_fitting().or_else(|| self.queue.next_cut_of_burst())
        {
            self.send_next(cx, new);
            segments += 1;
            bytes += new.payload_bytes;
            if new.push {
                break;
            }
        }
        if segments > 1 {
            // The last segment of a buffer carries PSH, except in a retransmission (`__tcp_transmit_skb`).
            self.queue.push_last();
        }
        self.pace(cx.now, segments, bytes);
        u64::from(segments)
    }

    /// Maximum number of new segments that may leave together, regardless of the window (`tcp_tso_segs`).
    fn burst_segments_max(&self) -> u32 {
        let least = self.control.burst_min().max(self.config.knobs.burst_min);
        self.pacing_rate()
            .map_or(u32::MAX, |rate| control::burst(rate, self.rtt.least_us(), self.queue.mss, least))
            .min(self.control.burst_max())
    }

    /// The segments for which the window has room. Two bursts are in flight (`tcp_cwnd_test`).
    pub(super) fn burst_segments(&self) -> u32 {
        let window = self.control.window();
        let room = (window / 2).max(1).min(window.saturating_sub(self.board.in_flight()).max(1));
        // One segment may leave at any rate.
        if room == 1 { 1 } else { room.min(self.burst_segments_max()) }
    }

    /// Whether a burst from a buffer of more than one segment waits for the next ACK, because that is near
    /// and will allow a larger one (`tcp_tso_should_defer`).
    pub(super) fn defers<O: Observer>(&self, cx: &Context<'_, O>, buffer_bytes: u64) -> Option<Deferral> {
        let mss = u64::from(self.queue.mss);
        if buffer_bytes <= mss || matches!(self.recovery.state, State::Recovery | State::Loss) {
            return None;
        }
        let now = cx.us;
        if now > self.pacer.release().as_nanos() / 1_000 + DEFERRED_US {
            return None;
        }
        let window = self.control.window();
        let by_window = u64::from(window.saturating_sub(self.board.in_flight())) * mss;
        let by_receiver = self.queue.receiver_room();
        let limit = by_window.min(by_receiver);
        let is_last = buffer_bytes >= self.queue.unsent();
        let share =
            self.queue.window_bytes.min(u64::from(window) * mss) / u64::from(self.config.knobs.burst_share);
        if (!is_last && limit >= buffer_bytes)
            || limit >= share
            || limit >= u64::from(self.burst_segments_max()) * mss
        {
            return None;
        }
        let srtt_us = self.rtt.srtt_us();
        let expected_us = self.board.queue.head()?.sent.us + srtt_us;
        if expected_us > now + DEFERRED_US.min(srtt_us / 2) {
            return None;
        }
        // No data can join the last buffer of the data that an application writes at once.
        match (by_window < by_receiver, limit <= buffer_bytes) {
            (true, true) => Some(Deferral::Window),
            (false, true) => Some(Deferral::Receiver),
            _ => None,
        }
    }

    /// At the beginning of a write: checks whether there is too little to send, although the window has room
    /// and all lost segments have been retransmitted (`tcp_rate_check_app_limited`).
    pub(super) fn note_write(&mut self) {
        if self.rates.begins_write()
            && self.board.in_flight() < self.control.window()
            && self.board.queue.lost_out() <= self.board.queue.retransmitted_out()
        {
            self.rates.on_app_limited(self.counts.delivered, self.board.in_flight());
        }
    }

    /// When pacing releases the waiting data.
    pub fn release(&self) -> Option<Instant> {
        self.fq.as_ref().map_or_else(|| self.pacer.wakeup(), |fq| fq.wakeup())
    }

    /// Continues with data that pacing has delayed, if it is due.
    pub fn on_release<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        let goes_on = match &mut self.fq {
            Some(fq) => fq.release(cx.now, &mut self.queue.out),
            None => self.pacer.take_wakeup(cx.now),
        };
        if goes_on {
            self.retransmit_lost(cx);
            self.send_new(cx);
            self.report_window(cx);
        }
    }
}
