//! Waiting for a window that has no room, as in BSD: the persist timer (`tcp_setpersist`), and probes of one
//! byte (RFC 9293, section 3.8.6.1).

use lasthop_core::{Duration, Ecn, Observer};

use super::{ClassicSender, Piece};
use crate::clock::Tick;
use crate::common::{Context, Transmission};

/// Least and greatest wait (`TCPTV_PERSMIN`, `TCPTV_PERSMAX`).
const WAITS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// Most doublings (`tcp_backoff`).
const DOUBLINGS_MAX: u32 = 6;

/// The persist timer runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassicPersist {
    doublings: u32,
    /// Probes since the last answer.
    unanswered: u32,
    /// True once a probe has left. The peer may have taken its byte.
    has_probed: bool,
}

impl ClassicSender {
    /// Nothing is in flight. If the window has no room for what comes next, the persist timer runs. BSD
    /// begins with the smoothed round-trip time and two deviations; here it is the timeout. Both are mostly
    /// below the least wait.
    #[cold]
    pub(super) fn await_window(&mut self, tick: Tick) {
        let fin = u64::from(self.closing);
        if self.una > 0 && self.nxt < self.data_end + fin {
            let persist = self.persist.unwrap_or_default();
            self.set_persist(tick, persist);
        }
    }

    fn set_persist(&mut self, tick: Tick, persist: ClassicPersist) {
        let [least, most] = WAITS.map(|wait| self.clock.ticks(wait));
        let wait = (self.timer.rtt.rto() << persist.doublings).clamp(least, most);
        self.timer.due = Some(tick + wait);
        self.persist = Some(persist);
    }

    /// An ACK reported the window. The caller sends the data that fit, or continues to wait.
    pub(super) fn heard_window(&mut self) {
        let Some(persist) = &mut self.persist else { return };
        persist.unanswered = 0;
        if self.nxt < self.una.saturating_add(self.window_bytes) {
            self.persist = None;
            self.timer.due = None;
        }
    }

    /// End of what was sent, with the byte of a probe.
    pub fn sent_end(&self) -> u64 {
        self.max + u64::from(self.persist.is_some_and(|persist| persist.has_probed))
    }

    /// True if the peer had room for the byte of a probe.
    #[cold]
    pub(super) fn acknowledges_probe(&mut self, ack: u64) -> bool {
        let taken = ack == self.max + 1 && self.persist.is_some_and(|persist| persist.has_probed);
        if taken {
            self.max = ack;
        }
        taken
    }

    /// The persist timer fired. Returns false if the peer does not answer.
    pub(super) fn probe_window<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        mut persist: ClassicPersist,
    ) -> bool {
        if persist.unanswered >= self.config.most_retries(false) {
            return false;
        }
        let room = self.una.saturating_add(self.window_bytes).saturating_sub(self.nxt);
        let unsent = self.data_end.saturating_sub(self.nxt);
        let payload = room.min(unsent).min(self.mss);
        if payload > 0 {
            self.transmit(cx, Piece { seq: self.nxt, payload, syn: false, fin: false });
            self.nxt += payload;
            return true;
        }
        self.out.push_back(Transmission {
            seq: self.nxt,
            payload_bytes: u32::from(unsent > 0),
            syn: false,
            fin: unsent == 0,
            ecn: Ecn::NotEct,
            cwr: false,
            push: false,
        });
        persist.unanswered += 1;
        persist.doublings = (persist.doublings + 1).min(DOUBLINGS_MAX);
        persist.has_probed = true;
        self.set_persist(cx.tick, persist);
        true
    }
}
