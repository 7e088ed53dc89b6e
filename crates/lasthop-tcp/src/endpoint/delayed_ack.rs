//! When to acknowledge, as Linux adapts it: quick ACKs at the start and after pauses, a delay that follows the spacing
//! of segments, the end of a write at once, and none of its own while the application answers anyway.

use crate::clock::{Tick, TickClock, wheel};
use crate::config::TcpConfig;
use lasthop_core::{Duration, Flags, Instant, Segment};

/// Longest delay of an ACK.
const DELAY_MAX: Duration = Duration::from_millis(200);
/// Most ACKs at a time that leave at once.
const QUICK_ACKS_MAX: u32 = 16;
/// Quick ACKs after a sign of congestion.
const QUICK_ACKS_CONGESTION: u32 = 2;
/// The peer's segment size until one has arrived (RFC 9293, section 3.7.1).
const SEGMENT_BYTES_DEFAULT: u32 = 536;

/// What decides when an ACK leaves.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a moment of its own")]
pub(crate) struct DelayedAck {
    least: Tick,
    most: Tick,
    /// The delay now; none before the first data.
    delay: Option<Tick>,
    last_data: Tick,
    /// ACKs that still leave at once.
    quick: u32,
    /// The application answers what it reads: data will carry the ACKs.
    interactive: bool,
    /// The peer's segment size as far as it is known.
    segment_bytes: u32,
    /// Something waits for an ACK.
    pending: bool,
    /// Ends of writes that wait for an ACK: one, or two of less than a segment.
    pushed: bool,
    pushed_twice: bool,
    at_once: bool,
    ect_seen: bool,
    due: Option<Tick>,
}

impl DelayedAck {
    /// `mss`: of its own segments; the peer's are hardly longer at first (`tcp_initialize_rcv_mss`).
    pub fn new(config: &TcpConfig, clock: TickClock, mss: u32) -> Self {
        Self {
            least: clock.ticks(config.delayed_ack),
            most: clock.ticks(DELAY_MAX),
            delay: None,
            last_data: 0,
            quick: 0,
            interactive: false,
            segment_bytes: SEGMENT_BYTES_DEFAULT.min(mss),
            pending: false,
            pushed: false,
            pushed_twice: false,
            at_once: false,
            ect_seen: false,
            due: None,
        }
    }

    /// Tick at which a held ACK is due.
    pub fn due(&self) -> Option<Tick> {
        self.due
    }

    /// Data has arrived in order; `window_bytes` is the advertised window, `rto` the own timeout.
    pub fn on_data(&mut self, tick: Tick, segment: &Segment, window_bytes: u64, rto: Tick) {
        self.pending = true;
        self.measure(segment);
        if let Some(delay) = self.delay {
            let pause = tick - self.last_data;
            if pause <= self.least / 2 {
                self.delay = Some(delay / 2 + self.least / 2);
            } else if pause < delay {
                self.delay = Some((delay / 2 + pause).min(rto).min(self.most));
            } else if pause > rto {
                self.grant(QUICK_ACKS_MAX, window_bytes);
            }
        } else {
            self.grant(QUICK_ACKS_MAX, window_bytes);
            self.delay = Some(self.least);
        }
        self.last_data = tick;
    }

    fn measure(&mut self, segment: &Segment) {
        let bytes = segment.payload_bytes;
        let push = segment.flags.contains(Flags::PSH);
        if bytes >= self.segment_bytes {
            self.segment_bytes = bytes;
            self.pushed |= push;
        } else {
            self.pushed_twice |= self.pushed;
            self.pushed = true;
        }
    }

    fn grant(&mut self, most: u32, window_bytes: u64) {
        let half = window_bytes / (2 * u64::from(self.segment_bytes));
        let count = if half == 0 { 2 } else { half.min(u64::from(most)) as u32 };
        self.quick = self.quick.max(count.min(most));
    }

    /// Data has arrived behind a gap (`tcp_data_queue_ofo`).
    pub fn on_gap(&mut self, segment: &Segment) {
        self.pending = true;
        self.measure(segment);
    }

    /// A duplicate has arrived. What was acknowledged before is answered without counting as one of the quick ACKs
    /// (`tcp_send_dupack`); `fresh` says that it was not.
    pub fn on_duplicate(&mut self, window_bytes: u64, fresh: bool) {
        self.pending |= fresh;
        self.hurry(QUICK_ACKS_MAX, window_bytes);
    }

    fn hurry(&mut self, most: u32, window_bytes: u64) {
        self.grant(most, window_bytes);
        self.interactive = false;
        self.delay = Some(self.least);
    }

    /// A mark: the sender's window may be low. `first`: no echo is under way.
    pub fn on_mark(&mut self, first: bool, window_bytes: u64) {
        self.ect_seen = true;
        if first {
            self.hurry(QUICK_ACKS_CONGESTION, window_bytes);
        }
    }

    /// A segment without a mark; one that is not ECN-capable is probably a retransmission.
    pub fn on_unmarked(&mut self, capable: bool, window_bytes: u64) {
        if !capable && self.ect_seen {
            self.hurry(QUICK_ACKS_CONGESTION, window_bytes);
        }
        self.ect_seen |= capable;
    }

    /// The window grows.
    pub fn on_window_growth(&mut self) {
        self.quick |= 1;
    }

    /// The next ACK leaves at once: a gap was filled, or the sender has reduced its window.
    pub fn hurry_once(&mut self) {
        self.pending = true;
        self.at_once = true;
    }

    /// The peer's FIN has arrived: the own one will carry the ACK, if it is still to come.
    pub fn on_fin(&mut self, own_sent: bool) {
        self.pending = true;
        self.interactive = true;
        self.at_once |= own_sent;
    }

    /// Whether `unacknowledged` bytes are acknowledged at once; else the timer is set. The application has read all.
    /// `rtt` is the own smoothed round-trip time, 0 if there is none.
    pub fn is_due(&mut self, tick: Tick, unacknowledged: u64, gap: bool, rtt: Tick) -> bool {
        let read = self.pushed_twice || (self.pushed && !self.interactive);
        let quick = self.quick > 0 && !self.interactive;
        if unacknowledged > u64::from(self.segment_bytes) || quick || self.at_once || gap || read {
            return true;
        }
        let mut delay = self.delay.unwrap_or(self.least);
        if delay > self.least && rtt > 0 {
            delay = delay.min(rtt.max(self.least));
        }
        let due = wheel(tick, delay.min(self.most));
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        false
    }

    /// The timer fired: the delay was too short for another segment.
    pub fn on_timer(&mut self, rto: Tick) {
        if self.interactive {
            self.interactive = false;
            self.delay = Some(self.least);
        } else {
            self.delay = self.delay.map(|delay| (delay * 2).min(rto).min(self.most));
        }
    }

    /// An ACK leaves.
    pub fn on_ack_sent(&mut self) {
        if std::mem::take(&mut self.pending) && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = Some(self.least);
            }
        }
        (self.pushed, self.pushed_twice, self.at_once) = (false, false, false);
        self.due = None;
    }

    /// The application sends data, soon after it got some.
    pub fn on_data_sent(&mut self, clock: TickClock, now: Instant) {
        if let Some(delay) = self.delay {
            self.interactive |= clock.at(now) - self.last_data < delay;
        }
    }
}
