//! Tail loss probes (RFC 8985, section 7, as Linux has them).

use super::timer::Alarm;
use super::{AckFacts, Sender};
use crate::common::{Context, State};
use lasthop_core::{Observer, RetransmissionKind, TcpEvent};

/// Least time that a timer of TCP waits, in microseconds.
const TIMEOUT_MIN_US: u64 = 2_000;

impl Sender {
    /// Sets the timer for a probe, unless the timeout would come first. Returns false if there is nothing to probe
    /// for. `from_now`: the timeout counts from now, else from when the head was sent.
    pub(super) fn schedule_probe<O: Observer>(&mut self, cx: &Context<'_, O>, from_now: bool) -> bool {
        let outstanding = self.board.outstanding();
        let quiet = matches!(self.state, State::Open | State::Cwr);
        if !self.config.tail_loss_probe || !self.config.sack || outstanding == 0 || !quiet {
            return false;
        }
        let mut wait = if self.rtt.srtt_us() > 0 {
            let alone = outstanding == 1;
            let margin = if alone { self.rtt.minimum_us() } else { TIMEOUT_MIN_US };
            self.rtt.ticks(self.rtt.twice_srtt_us() + margin)
        } else {
            self.clock.ticks(self.config.rto_initial)
        };
        let to_timeout = if from_now { self.rtt.micros(self.rtt.rto()) } else { self.timeout_left_us(cx) };
        if to_timeout > 0 {
            wait = wait.min(self.rtt.ticks(to_timeout));
        }
        self.timer.set(Alarm::Probe, cx.tick, wait);
        true
    }

    /// Sends one new segment, or else the last one again; one probe at a time.
    pub(super) fn send_probe<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if self.probe_end.is_none() {
            self.probe_retransmits = false;
            if self.new_data_fits() {
                cx.emit(TcpEvent::TailLossProbe { seq: self.nxt });
                self.send_one_new(cx);
                let limited = self.board.in_flight() >= self.cwnd;
                self.validate_window(cx.tick, limited);
                if self.is_reducing() {
                    self.reduction.sent += 1;
                }
            } else if let Some(&last) = self.board.last() {
                let index = self.board.outstanding() as usize - 1;
                self.board.note_retransmission(index, cx.micros(), self.delivered, false);
                self.total_retransmissions += 1;
                cx.emit(TcpEvent::TailLossProbe { seq: last.seq });
                self.put_again(cx, &last, RetransmissionKind::Probe);
                self.probe_retransmits = true;
            }
            self.probe_end = Some(self.nxt);
            self.timer.clear();
        }
        self.rearm_timer(cx);
    }

    /// What an ACK says of the probe: if it was needed, a segment had been lost (section 7.4).
    pub(super) fn process_probe_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, facts: &AckFacts) {
        let Some(end) = self.probe_end.filter(|&end| self.una >= end) else { return };
        if !self.probe_retransmits || facts.dsack_of_probe {
            self.probe_end = None;
        } else if self.una > end {
            self.begin_reduction();
            self.set_state(cx, State::Cwr);
            self.end_reduction();
            self.keep_open(cx);
        } else if !(facts.advanced || facts.not_duplicate() || facts.data_sacked) {
            self.probe_end = None;
        }
    }
}
