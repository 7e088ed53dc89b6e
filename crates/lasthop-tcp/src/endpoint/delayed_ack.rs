//! The adaptive delayed ACKs of Linux: quick ACKs at the start and after pauses, a delay that follows the
//! spacing of segments, an immediate ACK at the end of a write, and no separate ACK if the application
//! answers anyway. Linux 2.4 does the same with three differences: a delay may last half a second if no write
//! ends, timers fire on their tick, and a congestion mark does not speed up ACKs.

use crate::clock::{Tick, TickClock, wheel};
use crate::config::{ACK_DELAY_MAX, Stack, TcpConfig};
use lasthop_core::{Duration, Flags, Instant, Segment};

/// Longest delay of an ACK in Linux 2.4, unless the end of a write waits for it or the application answers
/// (`tcp_send_delayed_ack`).
const DELAY_MAX_OLD: Duration = Duration::from_millis(500);
/// Maximum number of quick ACKs in a row.
const QUICK_ACKS_MAX: u32 = 16;
/// Quick ACKs after a sign of congestion.
const QUICK_ACKS_CONGESTION: u32 = 2;
/// The peer's segment size until one has arrived (RFC 9293, section 3.7.1).
const SEGMENT_BYTES_DEFAULT: u32 = 536;

/// The state that determines when an ACK leaves.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a moment of its own")]
pub(crate) struct DelayedAck {
    /// True for the rules of Linux 2.4.
    is_old: bool,
    least: Tick,
    most: Tick,
    /// Maximum of a delay without the end of a write.
    most_unpushed: Tick,
    /// The current delay; none before the first data.
    delay: Option<Tick>,
    last_data: Tick,
    /// Number of remaining quick ACKs.
    quick: u32,
    /// True if the application answers what it reads, so that data will carry the ACKs.
    interactive: bool,
    /// The estimate of the peer's segment size.
    segment_bytes: u32,
    /// True if data waits for an ACK.
    pending: bool,
    /// Ends of writes that wait for an ACK: one, or two short ones.
    pushed: bool,
    pushed_twice: bool,
    at_once: bool,
    ect_seen: bool,
    due: Option<Tick>,
}

impl DelayedAck {
    /// `mss` is that of this end's segments; the peer's segments are hardly longer at first
    /// (`tcp_initialize_rcv_mss`).
    pub fn new(config: &TcpConfig, clock: TickClock, mss: u32) -> Self {
        let is_old = config.stack == Stack::Linux2;
        Self {
            is_old,
            least: clock.ticks(config.delayed_ack),
            most: clock.ticks(ACK_DELAY_MAX),
            most_unpushed: clock.ticks(if is_old { DELAY_MAX_OLD } else { ACK_DELAY_MAX }),
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

    /// Tick at which a delayed ACK is due.
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
                self.delay = Some(self.bounded(delay / 2 + pause, rto));
            } else if pause > rto {
                self.grant(QUICK_ACKS_MAX, window_bytes);
            }
        } else {
            self.grant(QUICK_ACKS_MAX, window_bytes);
            self.delay = Some(self.least);
        }
        self.last_data = tick;
    }

    /// A delay is never longer than the timeout; Linux 2.4 bounds it further only when it sets the timer.
    fn bounded(&self, delay: Tick, rto: Tick) -> Tick {
        delay.min(rto).min(if self.is_old { Tick::MAX } else { self.most })
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

    /// Data has arrived after a gap (`tcp_data_queue_ofo`).
    pub fn on_gap(&mut self, segment: &Segment) {
        self.pending = true;
        self.measure(segment);
    }

    /// A duplicate has arrived. The answer to data that was acknowledged before does not count as one of the
    /// quick ACKs (`tcp_send_dupack`); `fresh` is true if the data was not acknowledged before.
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
        if first && !self.is_old {
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

    pub fn on_window_growth(&mut self) {
        self.quick |= 1;
    }

    /// The next ACK leaves at once: a gap was filled, or the sender has reduced its window.
    pub fn hurry_once(&mut self) {
        self.pending = true;
        self.at_once = true;
    }

    /// The peer's FIN has arrived: this end's FIN will carry the ACK, if it is still to come.
    pub fn on_fin(&mut self, own_sent: bool) {
        self.pending = true;
        self.interactive = true;
        self.at_once |= own_sent;
    }

    /// Whether `unacknowledged` bytes are acknowledged at once; otherwise the timer is set. The application
    /// has read all data. `rtt` is this end's smoothed round-trip time, 0 if there is none.
    pub fn is_due(&mut self, tick: Tick, unacknowledged: u64, gap: bool, rtt: Tick) -> bool {
        let read = self.pushed_twice || (self.pushed && !self.interactive);
        let quick = self.quick > 0 && !self.interactive;
        if unacknowledged > u64::from(self.segment_bytes) || quick || self.at_once || gap || read {
            return true;
        }
        // Before the first data there is no delay: a FIN alone waits for the next tick.
        let mut delay = self.delay.unwrap_or(0);
        if delay > self.least && rtt > 0 {
            delay = delay.min(rtt.max(self.least));
        }
        let most = if self.pushed || self.interactive { self.most } else { self.most_unpushed };
        delay = delay.min(most);
        let due = if self.is_old { tick + delay } else { wheel(tick, delay) };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        false
    }

    /// The timer fired: the delay was too short for another segment.
    pub fn on_timer(&mut self, rto: Tick) {
        if self.interactive {
            self.interactive = false;
            self.delay = Some(self.least);
        } else {
            self.delay = self.delay.map(|delay| self.bounded(delay * 2, rto));
        }
    }

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

    /// The application sends data soon after it has received data.
    pub fn on_data_sent(&mut self, clock: TickClock, now: Instant) {
        if let Some(delay) = self.delay {
            self.interactive |= clock.at(now) - self.last_data < delay;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;

    /// The rules of Linux 2.4, with 100 ticks a second and a minimum delay of 40 ms.
    fn old() -> DelayedAck {
        let mut config: TcpConfig = toml::from_str(Profile::Linux24.toml()).expect("complete");
        config.delayed_ack = Duration::from_millis(40);
        DelayedAck::new(&config, TickClock::new(config.tick, Duration::ZERO), 536)
    }

    fn segment(bytes: u32, flags: Flags) -> Segment {
        Segment { payload_bytes: bytes, flags, ..Segment::default() }
    }

    /// A full segment arrives, and none waits for an ACK. Returns the number of ticks that its ACK may wait;
    /// none if it leaves at once.
    fn arrives(ack: &mut DelayedAck, tick: Tick, rto: Tick) -> Option<Tick> {
        ack.on_data(tick, &segment(536, Flags::ACK), 2_144, rto);
        let at_once = ack.is_due(tick, 536, false, 0);
        (!at_once).then(|| ack.due().expect("a timer") - tick)
    }

    /// `tcp_event_data_recv` and `tcp_delack_timer` of Linux 2.4, by hand: segments come every 14 ticks, two
    /// flows in turn at 64 kbit/s. Two quick ACKs; then the delay is missed and doubled until it spans the
    /// pause.
    #[test]
    fn the_delay_of_linux_2_4_grows_until_it_spans_the_spacing() {
        let (mut ack, rto, mut tick) = (old(), 300, 100);
        for _ in 0..2 {
            assert_eq!(arrives(&mut ack, tick, rto), None, "a window of four segments gives two quick ACKs");
            ack.on_ack_sent();
            tick += 14;
        }
        for expected in [4, 8] {
            assert_eq!(arrives(&mut ack, tick, rto), Some(expected));
            ack.on_timer(rto);
            ack.on_ack_sent();
            tick += 14;
        }
        // From 16 on the pause is shorter than the delay: 16 / 2 + 14, 22 / 2 + 14, ...
        for expected in [22, 25, 26, 27, 27] {
            assert_eq!(arrives(&mut ack, tick, rto), Some(expected));
            // The next segment makes it two, and its ACK leaves.
            ack.on_ack_sent();
            tick += 14;
        }
    }

    #[test]
    fn a_delay_of_linux_2_4_may_last_half_a_second_where_no_write_ends() {
        let mut ack = old();
        ack.on_data(0, &segment(536, Flags::ACK), 1_072, 300);
        (ack.quick, ack.delay) = (0, Some(80));
        assert!(!ack.is_due(0, 536, false, 0));
        assert_eq!(ack.due(), Some(50));
        // The application answers: data will carry the ACK, or it leaves after 200 ms.
        (ack.due, ack.interactive) = (None, true);
        assert!(!ack.is_due(0, 536, false, 0));
        assert_eq!(ack.due(), Some(20));
        // A round-trip time bounds it, too.
        (ack.due, ack.interactive) = (None, false);
        assert!(!ack.is_due(0, 536, false, 33));
        assert_eq!(ack.due(), Some(33));
    }

    #[test]
    fn linux_2_4_does_not_hurry_for_a_mark() {
        let mut ack = old();
        ack.on_data(0, &segment(536, Flags::ACK), 1_072, 300);
        ack.quick = 0;
        ack.on_mark(true, 1_072);
        assert!(!ack.is_due(0, 536, false, 0));
        // A segment that is not ECN-capable is probably a retransmission.
        ack.on_unmarked(false, 1_072);
        assert!(ack.is_due(0, 536, false, 0));
    }
}
