//! The sending half of an endpoint: one of the three stacks.

use std::collections::VecDeque;
use std::rc::Rc;

use lasthop_core::{Ecn, Instant, Observer, Segment, dispatched};

use crate::clock::{Tick, TickClock};
use crate::common::metrics::CachedMetrics;
use crate::common::{Context, Handshake, Transmission};
use crate::config::{Stack, TcpConfig};
use crate::{classic, linux2, linux6};

dispatched! {
    either:
    /// The sending half.
    #[derive(Debug)]
    #[allow(clippy::large_enum_variant, reason = "one per endpoint, and an endpoint lives on the heap")]
    pub(crate) enum SendingHalf {
        Linux2(linux2::Linux2Sender),
        Linux6(linux6::Linux6Sender),
        Classic(classic::ClassicSender),
    }
}

/// The owner of waiting data: the queue of a Linux sender, or a classic sender itself.
macro_rules! queue {
    ($half:expr, $queue:ident => $call:expr) => {
        match $half {
            SendingHalf::Linux2(linux2::Linux2Sender { queue: $queue, .. })
            | SendingHalf::Linux6(linux6::Linux6Sender { queue: $queue, .. }) => $call,
            SendingHalf::Classic($queue) => $call,
        }
    };
}

impl SendingHalf {
    pub fn new(config: &Rc<TcpConfig>, clock: TickClock, mss: u32) -> Self {
        match config.stack {
            Stack::Linux2 => Self::Linux2(linux2::Linux2Sender::new(config, clock, mss)),
            Stack::Linux6 => Self::Linux6(linux6::Linux6Sender::new(config, clock, mss)),
            Stack::Classic => Self::Classic(classic::ClassicSender::new(config, clock, mss)),
        }
    }

    pub fn config_mut(&mut self) -> &mut Rc<TcpConfig> {
        either!(self, sender => &mut sender.config)
    }

    /// The handshake has agreed on another segment size. Nothing but a SYN has been sent.
    pub fn set_mss(&mut self, mss: u32) {
        either!(self, sender => sender.set_mss(mss));
    }

    /// Appends the sender's fields of Linux' `tcp_info`, by name. A stack leaves out what
    /// it does not know.
    pub fn info(&self, fields: &mut Vec<(&'static str, u64)>) {
        either!(self, sender => sender.info(fields));
    }

    /// The ECN field of ACKs without data: they are ECN-capable where all segments are.
    #[inline]
    pub fn ack_ecn(&self) -> Ecn {
        match self {
            Self::Linux6(sender) => sender.queue.ecn_field(false),
            Self::Linux2(_) | Self::Classic(_) => Ecn::NotEct,
        }
    }

    /// Queues `bytes` of application data, written `write_bytes` at a time.
    pub fn write(&mut self, bytes: u64, write_bytes: u64) {
        match self {
            Self::Linux2(sender) => sender.queue.write(bytes, write_bytes),
            Self::Linux6(sender) => sender.write(bytes, write_bytes),
            Self::Classic(sender) => sender.write(bytes),
        }
    }

    /// Forgets data that was written and not sent yet.
    pub fn forget_unsent(&mut self) {
        match self {
            Self::Linux2(sender) => sender.queue.forget_unsent(),
            Self::Linux6(sender) => sender.forget_unsent(),
            Self::Classic(sender) => sender.forget_unsent(),
        }
    }

    /// Lets data written later join waiting data in segments; under classic rules it always does.
    pub fn join_writes(&mut self) {
        match self {
            Self::Linux2(sender) => sender.queue.join_writes(),
            Self::Linux6(sender) => sender.queue.join_writes(),
            Self::Classic(_) => {}
        }
    }

    pub fn close(&mut self) {
        either!(self, sender => sender.close());
    }

    pub fn send_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        either!(self, sender => sender.send_syn(cx));
    }

    /// Answers a repeated SYN with the SYN-ACK again.
    pub fn repeat_syn<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        match self {
            Self::Linux2(sender) => sender.repeat_syn(cx),
            Self::Linux6(sender) => sender.repeat_syn(cx),
            Self::Classic(sender) => sender.send_syn(cx),
        }
    }

    /// The handshake is complete: the first flight leaves.
    pub fn establish<O: Observer>(
        &mut self,
        cx: &mut Context<'_, O>,
        cache: Option<&CachedMetrics>,
        handshake: Handshake,
    ) {
        match self {
            Self::Linux2(sender) => sender.establish(cx, cache),
            Self::Linux6(sender) => sender.establish(cx, cache, handshake),
            Self::Classic(sender) => sender.establish(cx),
        }
    }

    /// Sends the data that the application has just written, if the windows allow.
    pub fn send_new<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        match self {
            Self::Linux2(sender) => sender.send_written(cx),
            Self::Linux6(sender) => sender.send_written(cx),
            Self::Classic(sender) => {
                sender.send(cx);
            }
        }
    }

    /// Processes the acknowledgment of a segment.
    pub fn take_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        match self {
            Self::Linux2(sender) => {
                sender.take_ack(cx, segment);
            }
            Self::Linux6(sender) => sender.take_ack(cx, segment),
            Self::Classic(sender) => {
                sender.take_ack(cx, segment);
            }
        }
    }

    /// Processes the acknowledgment of a segment and sends the data that it allows.
    pub fn on_ack<O: Observer>(&mut self, cx: &mut Context<'_, O>, segment: &Segment) {
        either!(self, sender => sender.on_ack(cx, segment));
    }

    /// Returns false if the retries are used up.
    pub fn on_timeout<O: Observer>(&mut self, cx: &mut Context<'_, O>) -> bool {
        either!(self, sender => sender.on_timeout(cx))
    }

    /// First sequence number after everything that was handed out to be sent.
    pub fn sent_end(&self) -> u64 {
        match self {
            Self::Linux2(sender) => sender.queue.nxt,
            Self::Linux6(sender) => sender.queue.nxt,
            Self::Classic(sender) => sender.sent_end(),
        }
    }

    /// First sequence number that the peer has not acknowledged.
    pub fn acknowledged(&self) -> u64 {
        match self {
            Self::Linux2(sender) => sender.queue.una,
            Self::Linux6(sender) => sender.queue.una,
            Self::Classic(sender) => sender.una(),
        }
    }

    pub fn fin_sent(&self) -> bool {
        match self {
            Self::Linux2(sender) => sender.queue.fin_sent,
            Self::Linux6(sender) => sender.queue.fin_sent,
            Self::Classic(sender) => sender.fin_sent(),
        }
    }

    /// True if everything sent is acknowledged, the FIN included.
    pub fn fin_acknowledged(&self) -> bool {
        queue!(self, queue => queue.fin_acknowledged())
    }

    /// The connection is open without a handshake; the peer advertises `window_bytes`.
    pub fn skip_handshake(&mut self, window_bytes: u64) {
        queue!(self, queue => queue.skip_handshake(window_bytes));
    }

    pub fn set_window(&mut self, bytes: u64) {
        queue!(self, queue => queue.window_bytes = bytes);
    }

    /// Tick at which the retransmission timer expires.
    pub fn timer(&self) -> Option<Tick> {
        either!(self, sender => sender.timer())
    }

    /// When pacing releases the waiting data; the older stacks do not pace.
    pub fn release(&self) -> Option<Instant> {
        match self {
            Self::Linux6(sender) => sender.release(),
            Self::Linux2(_) | Self::Classic(_) => None,
        }
    }

    /// Continues with data that pacing has delayed, if it is due.
    pub fn on_release<O: Observer>(&mut self, cx: &mut Context<'_, O>) {
        if let Self::Linux6(sender) = self {
            sender.on_release(cx);
        }
    }

    /// Smoothed round-trip time and timeout in ticks, if the receiving half needs them.
    pub fn rtt_and_rto(&self) -> (Tick, Tick) {
        match self {
            Self::Linux6(sender) => sender.rtt_and_rto(),
            Self::Linux2(_) | Self::Classic(_) => (0, 0),
        }
    }

    /// The segments to put on the wire.
    pub fn out(&self) -> &VecDeque<Transmission> {
        queue!(self, queue => &queue.out)
    }

    /// The same, to be removed.
    pub fn out_mut(&mut self) -> &mut VecDeque<Transmission> {
        queue!(self, queue => &mut queue.out)
    }

    /// Leaves the connection's metrics for the next one; a classic sender keeps none.
    pub fn store_metrics(&self, cache: &mut CachedMetrics) {
        match self {
            Self::Linux2(sender) => cache.store(&sender.knowledge()),
            Self::Linux6(sender) => cache.store(&sender.knowledge()),
            Self::Classic(_) => {}
        }
    }
}
