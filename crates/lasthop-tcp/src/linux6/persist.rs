//! Waiting for a window that has no room (`tcp_probe_timer`).

use lasthop_core::Observer;

use super::Linux6Sender;
use super::timer::Alarm;
use crate::common::Context;

impl Linux6Sender {
    /// Nothing is in flight. If the window has no room for what comes next, the persist timer runs
    /// (`tcp_check_probe_timer`, `tcp_ack_probe`).
    #[cold]
    pub(super) fn await_window<O: Observer>(&mut self, cx: &Context<'_, O>) {
        if !self.queue.awaits_window() {
            if self.timer.alarm() == Some(Alarm::Window) {
                self.timer.clear();
            }
            return;
        }
        self.persist.begin(self.queue.nxt);
        self.persist.unanswered = 0;
        self.set_persist(cx);
    }

    fn set_persist<O: Observer>(&mut self, cx: &Context<'_, O>) {
        let most = self.clock.ticks(self.config.rto_max);
        self.timer.set(Alarm::Window, cx.tick, self.persist.wait(self.rtt.rto(), most));
    }

    /// The persist timer fired. Returns false if the peer does not answer.
    pub(super) fn probe_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        self.timer.clear();
        if self.board.queue.outstanding() > 0 || !self.queue.awaits_window() {
            return true;
        }
        if self.persist.unanswered >= self.config.most_retries(false) {
            return false;
        }
        if let Some(new) = self.queue.next_cut() {
            self.send_next(cx, new);
            self.rearm_timer(cx);
        } else {
            self.queue.probe_window();
            self.persist.probed();
            self.set_persist(cx);
        }
        true
    }
}
