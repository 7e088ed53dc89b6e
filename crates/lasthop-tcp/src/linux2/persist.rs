//! Waiting for a window that has no room (`tcp_probe_timer`).

use lasthop_core::Observer;

use super::{Linux2Sender, first_transmission};
use crate::clock::Tick;
use crate::common::Context;

impl Linux2Sender {
    /// Nothing is in flight. If the window has no room for what comes next, the persist timer runs
    /// (`tcp_check_probe_timer`, `tcp_ack_probe`).
    #[cold]
    pub(super) fn await_window(&mut self, tick: Tick) {
        if self.queue.awaits_window() {
            self.persist.begin(self.queue.nxt);
            self.persist.unanswered = 0;
            self.set_persist(tick);
        }
    }

    fn set_persist(&mut self, tick: Tick) {
        let most = self.clock.ticks(self.config.rto_max);
        self.timer.due = Some(tick + self.persist.wait(self.timer.rtt.rto(), most));
    }

    /// The persist timer fired. Returns false if the peer does not answer.
    pub(super) fn probe_window<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        self.timer.due = None;
        if !self.queue.awaits_window() {
            return true;
        }
        if self.persist.unanswered >= self.config.most_retries(false) {
            return false;
        }
        if let Some(new) = self.queue.next_cut() {
            let segment = self.queue.send_new(new, first_transmission(cx.tick));
            self.push(cx.tick, segment);
        } else {
            self.queue.probe_window();
            self.persist.probed();
            self.set_persist(cx.tick);
        }
        true
    }
}
