//! One end of a TCP connection: handshake, both halves, close.
//!
//! Sans-IO: the caller passes in segments and time, polls for segments to transmit until there are none, and
//! calls [`Endpoint::handle_wakeup`] at [`Endpoint::next_wakeup`]. Time never runs backwards.

mod accurate_ecn;
mod delayed_ack;
mod ecn_bytes;
mod info;
mod receiver;
mod room;

use std::num::NonZeroU16;
use std::rc::Rc;

use lasthop_core::{
    Ecn, EcnOption, Flags, FlowId, Host, Instant, Observer, Segment, Timestamps, TransportEvent,
};

use crate::clock::{Tick, TickClock, timestamp};
use crate::common::metrics::CachedMetrics;
use crate::common::{Context, Handshake, Transmission};
use crate::config::{Stack, TcpConfig};
use crate::sender::SendingHalf;
use accurate_ecn::{Feedback, agreed, handshake_flags};
use receiver::{Arrival, Earlier, Receiver};
use room::Room;

/// The state of a connection (RFC 9293, section 3.3.2, with the closing states merged into one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a SYN.
    Listen,
    SynSent,
    SynReceived,
    /// Data may flow; FINs may be in flight.
    Established,
    /// Both FINs are acknowledged. A repeated FIN is still answered, as in TIME-WAIT.
    Closed,
    /// Given up: by the application, by the peer's reset, or because the peer does not answer.
    Aborted,
}

/// One end of a TCP connection.
#[derive(Debug)]
pub struct Endpoint {
    flow: FlowId,
    host: Host,
    clock: TickClock,
    /// The clock of the timestamp option.
    stamps: TickClock,
    /// Ends that have agreed on the same options share it, as their senders do.
    config: Rc<TcpConfig>,
    mss: u32,
    offered_mss: u16,
    /// The shift count of the windows that it advertises, if they are scaled.
    window_shift: u8,
    phase: Phase,
    sender: SendingHalf,
    receiver: Receiver,
    ack_due: bool,
    /// Segments that leave before all others: an RST, or the ACK that feeds back the mark of a SYN-ACK.
    urgent: Option<Box<Segment>>,
    /// SYNs sent, and the ECN field of the latest one received.
    syns: u32,
    syn_ecn: Ecn,
    /// The feedback of the handshake, if marks are counted.
    handshake: Handshake,
    /// Tick at which waiting for the peer's FIN ends.
    fin_wait: Option<Tick>,
    /// True if the peer has sent its FIN first: this end does not wait in TIME-WAIT.
    closes_last: bool,
    /// First sequence number after everything that was put on the wire.
    transmitted: u64,
}

impl Endpoint {
    /// An endpoint waiting for a SYN. `mtu` is the largest IP packet it may send, in bytes.
    pub fn listen(
        config: impl Into<Rc<TcpConfig>>,
        mtu: u32,
        clock: TickClock,
        flow: FlowId,
        host: Host,
    ) -> Self {
        let config = config.into().with_accurate_ecn();
        let offered_mss = mtu - Segment::BASE_HEADER_BYTES;
        let options = if config.timestamps { Segment::TIMESTAMPS_BYTES } else { 0 };
        let mss = offered_mss - options;
        Self {
            flow,
            host,
            clock,
            stamps: config.timestamp_clock(clock),
            mss,
            offered_mss: offered_mss as u16,
            window_shift: window_shift(u64::from(config.receive_window_max) * u64::from(mss)),
            phase: Phase::Listen,
            sender: SendingHalf::new(&config, clock, mss),
            receiver: Receiver::new(&config, clock, mss),
            ack_due: false,
            urgent: None,
            syns: 0,
            syn_ecn: Ecn::NotEct,
            handshake: Handshake::default(),
            fin_wait: None,
            closes_last: false,
            transmitted: 0,
            config,
        }
    }

    /// Opens the connection: a SYN is ready to be transmitted.
    pub fn connect<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.phase = Phase::SynSent;
        if self.config.stack == Stack::Linux2 {
            self.receiver.on_connect(u32::from(self.offered_mss), self.mss);
        }
        let mut cx = context(self.flow, self.host, self.clock, now, observer);
        self.sender.send_syn(&mut cx);
    }

    /// Opens the connection without a handshake, as if it had been open for a long time, like the simulators
    /// of 1998. Both ends must be opened, with the same configuration and MTU. No round-trip time is known.
    pub fn open<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        let mut cx = context(self.flow, self.host, self.clock, now, observer);
        self.agree_on_option(true);
        self.phase = Phase::Established;
        self.receiver.nxt = 1;
        self.transmitted = 1;
        self.sender.skip_handshake(self.receiver.window_bytes(self.mss));
        if self.config.counts_marks() {
            self.receiver.begin_counting(false);
        }
        self.sender.establish(&mut cx, None, self.handshake);
    }

    /// Queues `bytes` of data, written `write_bytes` at a time. Segments do not span writes; under classic
    /// rules the data is one stream, and they may.
    pub fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, observer: &mut O) {
        self.sender.write(bytes, write_bytes);
        self.send_new(now, observer);
    }

    /// From now on the owner reports its reads by [`Endpoint::read`], and its writes form one stream.
    pub fn hold(&mut self) {
        self.receiver.room = Some(Room::default());
        self.sender.join_writes();
    }

    /// The owner has read `bytes` of the stream so far, after [`Endpoint::hold`]. A window that has opened
    /// far enough is advertised immediately.
    pub fn read(&mut self, bytes: u64) {
        let nxt = self.receiver.nxt;
        if let Some(room) = &mut self.receiver.room {
            room.read(1 + bytes);
            let room = *room;
            self.ack_due |= self.phase == Phase::Established
                && !self.peer_closed()
                && room.must_tell(&self.config, self.mss, nxt, self.window(false));
        }
    }

    /// Bytes of written data that the peer has acknowledged; one more once it has acknowledged the FIN.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.sender.acknowledged().saturating_sub(1)
    }

    /// Forgets data that was written and not sent yet.
    pub fn stop(&mut self) {
        self.sender.forget_unsent();
    }

    /// No more data will be written. The FIN leaves with the last byte if that has not been put on the wire
    /// yet, otherwise after it.
    pub fn close<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        self.sender.close();
        self.send_new(now, observer);
    }

    fn send_new<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        if self.phase == Phase::Established {
            let mut cx = context(self.flow, self.host, self.clock, now, observer);
            self.sender.send_new(&mut cx);
        }
    }

    /// Gives up the connection for the application: queued data is forgotten, and the peer receives an RST
    /// unless both ends have sent their FIN (RFC 9293, section 3.10.5). No effect once closed or aborted.
    pub fn abort<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        if matches!(self.phase, Phase::Closed | Phase::Aborted) {
            return;
        }
        let synchronised = matches!(self.phase, Phase::SynReceived | Phase::Established);
        if synchronised && !(self.sender.fin_sent() && self.peer_closed()) {
            let mut reset = Segment { seq: self.transmitted, ack: self.receiver.nxt, ..Segment::default() };
            reset.flags = Flags::RST.with(Flags::ACK);
            self.stamp_header(&mut reset, now);
            self.urgent = Some(Box::new(reset));
        }
        let mut cx = context(self.flow, self.host, self.clock, now, observer);
        self.give_up(&mut cx);
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Largest payload of a segment in bytes, options subtracted.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// True once the peer's FIN has arrived in order: its application sees the end of the stream.
    pub fn peer_closed(&self) -> bool {
        self.receiver.peer_closed()
    }

    pub fn received_bytes(&self) -> u64 {
        self.receiver.nxt.saturating_sub(1 + u64::from(self.peer_closed()))
    }

    /// Leaves this connection's metrics for the next one to the same destination.
    pub fn store_metrics(&self, cache: &mut CachedMetrics) {
        self.sender.store_metrics(cache);
    }

    /// Processes a segment from the network; `cache` holds the metrics of earlier connections to the peer, if
    /// cached metrics are in use.
    pub fn handle_segment<O: Observer>(
        &mut self,
        now: Instant,
        segment: &Segment,
        ecn: Ecn,
        cache: Option<&CachedMetrics>,
        observer: &mut O,
    ) {
        let mut cx = context(self.flow, self.host, self.clock, now, observer);
        if segment.flags.contains(Flags::RST) {
            if self.accepts_reset(segment) {
                self.give_up(&mut cx);
            }
            return;
        }
        match self.phase {
            Phase::Aborted => self.urgent = Some(Box::new(reset_for(segment))),
            // No trace of the connection is left (RFC 9293, section 3.10.7.1).
            Phase::Closed if self.closes_last => self.urgent = Some(Box::new(reset_for(segment))),
            Phase::Listen | Phase::SynSent => self.on_syn(&mut cx, segment, ecn, cache),
            Phase::SynReceived if segment.flags.contains(Flags::SYN) => {
                self.syn_ecn = ecn;
                self.handshake.sends_ect &= segment.flags.ace() > 0;
                self.sender.repeat_syn(&mut cx);
            }
            Phase::SynReceived => {
                // Data may come with the ACK of the SYN-ACK, or instead of one that was lost.
                if segment.ack == self.sender.sent_end() {
                    self.agree_on_option(segment.ecn_option().is_some());
                    self.sender.take_ack(&mut cx, segment);
                    self.handshake.note_ack(segment, self.syns > SYN_ACKS_WITH_COUNTERS);
                    self.establish(&mut cx, cache);
                    // No data can be older than the SYN.
                    self.receiver.note_timestamp(segment);
                    self.on_data(cx.tick, segment, ecn);
                    self.check_closed(&mut cx);
                }
            }
            Phase::Established | Phase::Closed => {
                if segment.flags.contains(Flags::SYN) {
                    // A repeated SYN-ACK: our handshake ACK was lost.
                    self.acknowledge_syn(now, ecn);
                    return;
                }
                // RFC 9293, section 3.10.7.4: it acknowledges nothing, or what was never sent.
                if !segment.flags.contains(Flags::ACK) || segment.ack > self.sender.sent_end() {
                    return;
                }
                if !self.receiver.note_timestamp(segment) {
                    self.receiver.refuse(&self.config, self.mss, segment);
                    self.ack_due = true;
                    return;
                }
                self.sender.on_ack(&mut cx, segment);
                self.on_data(cx.tick, segment, ecn);
                self.check_closed(&mut cx);
            }
        }
    }

    /// Each option is on only if both ends want it.
    fn negotiate(&mut self, syn: &Segment) {
        let TcpConfig { sack, dsack, timestamps, ecn, accurate_ecn, window_scaling, .. } = *self.config;
        let wanted = [sack, dsack, timestamps, ecn, accurate_ecn, window_scaling];
        let is_client = self.phase == Phase::SynSent;
        let feedback = agreed(&self.config, self.phase == Phase::Listen, syn.flags);
        let agreed = [
            sack && syn.sack_permitted,
            dsack && syn.sack_permitted,
            timestamps && syn.timestamps.is_some(),
            feedback != Feedback::None,
            feedback == Feedback::Counters,
            window_scaling && syn.window_scale.is_some(),
        ];
        if agreed != wanted {
            let config = Rc::make_mut(&mut self.config);
            [
                config.sack,
                config.dsack,
                config.timestamps,
                config.ecn,
                config.accurate_ecn,
                config.window_scaling,
            ] = agreed;
            *self.sender.config_mut() = Rc::clone(&self.config);
        }
        self.agree_on_mss(syn);
        if is_client || !self.config.accurate_ecn {
            self.agree_on_option(syn.ecn_option().is_some());
        }
    }

    /// Both ends send the option of accurate ECN if a client has seen it in the SYN-ACK, or a server in the
    /// ACK of that (RFC 9768, section 3.2.3.2). It takes its room from the payload.
    fn agree_on_option(&mut self, is_seen: bool) {
        if !self.config.accurate_ecn_option {
            return;
        }
        if is_seen && self.config.counts_marks() {
            self.mss -= EcnOption::BYTES;
            self.sender.set_mss(self.mss);
        } else {
            Rc::make_mut(&mut self.config).accurate_ecn_option = false;
            *self.sender.config_mut() = Rc::clone(&self.config);
        }
    }

    /// Segments are as large as the peer accepts and the path allows, options included (RFC 6691). A peer
    /// without this option accepts 536 bytes (RFC 9293, section 3.7.1).
    fn agree_on_mss(&mut self, syn: &Segment) {
        let accepted = syn.mss.map_or(MSS_DEFAULT, NonZeroU16::get);
        let options = if self.config.timestamps { Segment::TIMESTAMPS_BYTES } else { 0 };
        let mss = u32::from(accepted.min(self.offered_mss)) - options;
        if mss != self.mss {
            self.mss = mss;
            self.sender.set_mss(mss);
        }
    }

    /// SYN or SYN-ACK.
    fn on_syn<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        segment: &Segment,
        ecn: Ecn,
        cache: Option<&CachedMetrics>,
    ) {
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.negotiate(segment);
        self.receiver.on_syn(segment);
        self.syn_ecn = ecn;
        if self.config.counts_marks() {
            // Marks of SYNs do not count (RFC 9768, section 3.2.2.2).
            self.receiver.begin_counting(ecn == Ecn::Ce && self.phase == Phase::SynSent);
        }
        if self.phase == Phase::Listen {
            self.phase = Phase::SynReceived;
            self.sender.set_window(segment.window_bytes);
            self.sender.send_syn(cx);
        } else {
            self.sender.take_ack(cx, segment);
            self.handshake.note_syn_ack(segment.flags);
            self.establish(cx, cache);
            self.acknowledge_syn(cx.now, ecn);
        }
    }

    /// Acknowledges a SYN-ACK. If marks are counted, the flags of that ACK feed back the ECN field of the
    /// SYN-ACK.
    fn acknowledge_syn(&mut self, now: Instant, ecn: Ecn) {
        if !self.config.counts_marks() {
            self.ack_due = true;
            return;
        }
        let mut ack = Segment::default();
        ack.begin(self.transmitted, 0);
        self.stamp(&mut ack, now);
        ack.flags = Flags::ACK.with(handshake_flags(ecn));
        self.urgent = Some(Box::new(ack));
    }

    /// The handshake is complete: the first flight leaves.
    fn establish<O: Observer>(&mut self, cx: &mut Context<'_, O>, cache: Option<&CachedMetrics>) {
        self.phase = Phase::Established;
        self.sender.establish(cx, cache, self.handshake);
    }

    fn on_data(&mut self, tick: Tick, segment: &Segment, ecn: Ecn) {
        if let Some(room) = &self.receiver.room
            && room.refuses(segment.seq, segment.sequence_length(), self.receiver.acked)
        {
            self.ack_due = true;
        } else if segment.sequence_length() > 0 {
            let (rtt, rto) = self.sender.rtt_and_rto();
            let (was_open, fin_sent) = (!self.peer_closed(), self.sender.fin_sent());
            let arrival = Arrival { tick, segment, ecn, rtt, rto, fin_sent };
            self.ack_due |= self.receiver.on_segment(&self.config, self.clock, self.mss, &arrival);
            if was_open && self.peer_closed() {
                self.closes_last = !fin_sent && self.config.stack == Stack::Linux6;
            }
        } else if self.config.counts_marks() {
            self.ack_due |= self.receiver.note_marked_ack(ecn);
        }
    }

    fn check_closed<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.fin_wait = None;
        if self.phase != Phase::Established || !self.sender.fin_acknowledged() {
            return;
        }
        if self.peer_closed() {
            self.phase = Phase::Closed;
            cx.emit(TransportEvent::Closed);
        } else {
            self.fin_wait = Some(cx.tick + self.clock.ticks(self.config.fin_timeout));
        }
    }

    /// A reset must fit the connection (RFC 9293, sections 3.10.7.3 and 3.10.7.4).
    fn accepts_reset(&self, segment: &Segment) -> bool {
        match self.phase {
            Phase::Listen | Phase::Closed | Phase::Aborted => false,
            Phase::SynSent => segment.flags.contains(Flags::ACK) && segment.ack == self.sender.sent_end(),
            Phase::SynReceived | Phase::Established => {
                let first = self.receiver.nxt;
                (first..=first + self.receiver.window_bytes(self.mss)).contains(&segment.seq)
            }
        }
    }

    /// The end of the connection. Nothing is sent: as in Linux, the peer is informed when it sends a segment.
    fn give_up<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        self.phase = Phase::Aborted;
        self.sender.out_mut().clear();
        self.ack_due = false;
        cx.emit(TransportEvent::Aborted);
    }

    /// When [`Endpoint::handle_wakeup`] must be called, if at all.
    pub fn next_wakeup(&self) -> Option<Instant> {
        if self.phase == Phase::Aborted {
            return None;
        }
        let [sender, receiver, peer] = [self.sender.timer(), self.receiver.delayed_ack_due(), self.fin_wait]
            .map(|due| due.unwrap_or(Tick::MAX));
        let due = sender.min(receiver).min(peer);
        let timer = (due < Tick::MAX).then(|| self.clock.begin(due));
        let Some(release) = self.sender.release() else { return timer };
        Some(timer.map_or(release, |timer| timer.min(release)))
    }

    /// Runs the timers that are due.
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, observer: &mut O) {
        if self.phase == Phase::Aborted {
            return;
        }
        let mut cx = context(self.flow, self.host, self.clock, now, observer);
        if self.receiver.delayed_ack_due().is_some_and(|due| due <= cx.tick) {
            self.ack_due = true;
            self.receiver.on_delayed_ack(self.sender.rtt_and_rto().1);
        }
        self.sender.on_release(&mut cx);
        let exhausted =
            self.sender.timer().is_some_and(|due| due <= cx.tick) && !self.sender.on_timeout(&mut cx);
        if exhausted || self.fin_wait.is_some_and(|due| due <= cx.tick) {
            self.give_up(&mut cx);
        }
    }

    /// True if there is a segment to put on the wire.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.ack_due || !self.sender.out().is_empty() || self.urgent.is_some()
    }

    /// Writes the next segment to put on the wire into `segment`, and returns the ECN field of its packet;
    /// none when everything is sent.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, segment: &mut Segment) -> Option<Ecn> {
        if let Some(urgent) = self.urgent.take() {
            let ecn = if urgent.flags.contains(Flags::RST) { Ecn::NotEct } else { self.sender.ack_ecn() };
            *segment = *urgent;
            return Some(ecn);
        }
        if std::mem::take(&mut self.ack_due) {
            segment.begin(self.transmitted, 0);
            if let Some(earlier) = self.receiver.earlier.take() {
                self.ack_due = true;
                self.stamp_earlier(segment, now, earlier);
            } else {
                self.stamp(segment, now);
            }
            return Some(self.sender.ack_ecn());
        }
        let out = self.sender.out_mut();
        let Transmission { seq, payload_bytes, syn, fin, ecn, cwr, push } = out.pop_front()?;
        if out.is_empty() {
            // The next segment is written to the same place, not after this one, where memory is not cached.
            out.clear();
        }
        segment.begin(seq, payload_bytes);
        if syn {
            segment.flags = Flags::SYN;
            segment.mss = NonZeroU16::new(self.offered_mss);
            segment.sack_permitted = self.config.sack;
            segment.compact = self.config.compact_syn;
            segment.window_scale = self.config.window_scaling.then_some(self.window_shift);
            segment.flags = segment.flags.with(self.ecn_setup());
            self.syns += 1;
        }
        if fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if cwr {
            segment.flags = segment.flags.with(Flags::CWR);
        }
        if push {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        self.transmitted = self.transmitted.max(segment.end());
        self.stamp(segment, now);
        if payload_bytes > 0 {
            self.receiver.on_data_sent(self.clock, now);
        }
        Some(ecn)
    }

    /// The ECN flags of a SYN or SYN-ACK.
    fn ecn_setup(&self) -> Flags {
        let is_syn = self.phase == Phase::SynSent;
        // Linux repeats a SYN without ECN, in case a node on the path drops SYNs with ECN (RFC 3168, section
        // 6.1.1.1; `tcp_ecn_fallback`, since 4.1). A SYN that requests counters is tried twice (RFC 9768,
        // section 3.1.4.1), and a SYN-ACK that agrees to them, too (section 3.1.4.2).
        let counts = self.config.counts_marks();
        let falls_back = (is_syn || counts)
            && self.config.stack == Stack::Linux6
            && self.syns > u32::from(self.config.accurate_ecn);
        match (counts, is_syn) {
            _ if !self.config.ecn || falls_back => Flags::default(),
            (true, true) => Flags::AE.with(Flags::CWR).with(Flags::ECE),
            (true, false) => handshake_flags(self.syn_ecn),
            // RFC 3168, section 6.1.1.
            (false, true) => Flags::ECE.with(Flags::CWR),
            (false, false) => Flags::ECE,
        }
    }

    fn stamp_header(&mut self, segment: &mut Segment, now: Instant) {
        if self.config.timestamps {
            let value = timestamp(self.stamps.at(now));
            segment.timestamps = Some(Timestamps { value, echo: self.receiver.echo() });
        }
        segment.window_bytes = self.window(segment.flags.contains(Flags::SYN));
        let edge = self.receiver.nxt + segment.window_bytes;
        if let Some(room) = &mut self.receiver.room {
            room.advertised(edge);
        }
    }

    /// Makes an ACK of less data than has arrived; the next ACK is still due.
    fn stamp_earlier(&mut self, segment: &mut Segment, now: Instant, earlier: Earlier) {
        self.stamp_header(segment, now);
        segment.flags = Flags::ACK.with(earlier.ecn_flags);
        segment.ack = earlier.ack;
    }

    /// Adds acknowledgment, window, timestamps, SACK and ECN echo.
    fn stamp(&mut self, segment: &mut Segment, now: Instant) {
        self.stamp_header(segment, now);
        if self.phase != Phase::SynSent {
            segment.flags = segment.flags.with(Flags::ACK);
            segment.ack = self.receiver.nxt;
            self.receiver.on_ack_sent(&self.config, &mut segment.sack);
            // SACK is advisory (RFC 2018, section 8): blocks that do not fit in addition to the data are omitted, where
            // Linux makes the segment smaller.
            if !segment.sack.is_empty() {
                let room = (self.mss.saturating_sub(segment.payload_bytes + 4) / 8) as usize;
                // The remainder of a closed connection answers without SACK (tcp_v4_timewait_ack).
                segment.sack.truncate(if self.phase == Phase::Closed { 0 } else { room });
            }
            // Linux answers from TIME-WAIT without the counter.
            let is_over = self.phase == Phase::Closed && self.config.counts_marks();
            if !segment.flags.contains(Flags::SYN) && !is_over {
                segment.flags = segment.flags.with(self.receiver.ecn_flags);
            }
            // A repeated SYN-ACK goes without, in case a node on the path drops it for the option (RFC 9768,
            // section 3.2.3.2.2).
            if self.config.accurate_ecn_option {
                let is_repeated = segment.flags.contains(Flags::SYN) && self.syns > 1;
                if !is_repeated && self.phase != Phase::Closed {
                    self.receiver.ecn_bytes.tell(segment);
                }
            }
        }
    }

    /// The window field of the header (RFC 7323, section 2.2), rounded up as in Linux
    /// (`__tcp_select_window`); that of a SYN is never scaled.
    fn window(&self, syn: bool) -> u64 {
        let shift = if self.config.window_scaling && !syn { self.window_shift } else { 0 };
        let mut window = self.receiver.window_bytes(self.mss);
        if let Some(room) = &self.receiver.room {
            let data = 1 + self.received_bytes();
            window = room.window(&self.config, self.mss, self.receiver.nxt, data, window);
        }
        window.div_ceil(1 << shift).min(u64::from(u16::MAX)) << shift
    }
}

/// The shift count with which a window of this number of bytes fits its field.
fn window_shift(largest: u64) -> u8 {
    let bits = u64::BITS - largest.leading_zeros();
    bits.saturating_sub(u16::BITS).min(WINDOW_SHIFT_MAX) as u8
}

/// The segment size of a peer that does not offer one.
const MSS_DEFAULT: u16 = 536;
/// SYN-ACKs that agree to counters; later ones leave ECN out (RFC 9768, section 3.1.4.2).
const SYN_ACKS_WITH_COUNTERS: u32 = 2;

/// Largest shift (RFC 7323, section 2.3).
const WINDOW_SHIFT_MAX: u32 = 14;

/// The answer of a host without the connection (RFC 9293, section 3.10.7.1).
pub fn reset_for(segment: &Segment) -> Segment {
    if segment.flags.contains(Flags::ACK) {
        Segment { seq: segment.ack, flags: Flags::RST, ..Segment::default() }
    } else {
        Segment { ack: segment.end(), flags: Flags::RST.with(Flags::ACK), ..Segment::default() }
    }
}

fn context<O>(flow: FlowId, host: Host, clock: TickClock, now: Instant, observer: &mut O) -> Context<'_, O> {
    Context { now, us: now.as_nanos() / 1000, tick: clock.at(now), flow, host, observer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CongestionControl, Profile};
    use lasthop_core::Duration;

    #[test]
    fn pacing_wakes_the_endpoint_at_an_instant() {
        let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        config.congestion_control = CongestionControl::Paced;
        config.initial_window = 12;
        config.timestamps = false;
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let mut endpoint = Endpoint::listen(config, 1_040, clock, FlowId(0), Host::Server);
        let start = Instant::ZERO + Duration::from_micros(300);
        endpoint.open(start, &mut ());
        endpoint.write(start, 12_000, 1_000, &mut ());
        let mut left = Vec::new();
        let mut now = start;
        while left.len() < 12 {
            let mut segment = Segment::default();
            while endpoint.poll_transmit(now, &mut segment).is_some() {
                left.push((now, segment.seq));
            }
            now = endpoint.next_wakeup().expect("pacing, then the timer");
            endpoint.handle_wakeup(now, &mut ());
        }
        let at = |millis| start + Duration::from_millis(millis);
        assert!(left[..10].iter().all(|(when, _)| *when == at(0)));
        assert_eq!(left[10..], [(at(8), 10_001), (at(8), 11_001)], "what waits leaves together");
    }
}
