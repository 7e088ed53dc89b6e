//! The router queue: drop-tail with a limit in packets or bytes, and RED in front of the limit.

use std::collections::VecDeque;

use lasthop_core::units::QueueSize;
use lasthop_core::{Ecn, Instant, PacketId, QueueDepth, RandomStream, Rate};

use crate::config::QueueConfig;
use crate::red::{Red, Verdict};

/// A FIFO of packets with their lengths.
#[derive(Clone, Debug)]
pub(crate) struct RouterQueue {
    limit: QueueSize,
    red: Option<Red>,
    waiting: VecDeque<(PacketId, u32)>,
    bytes: u32,
}

impl RouterQueue {
    /// `rate` is the link's, `stream` is RED's; both unused without RED.
    pub(crate) fn new(config: &QueueConfig, rate: Rate, stream: RandomStream) -> Self {
        Self {
            limit: config.limit,
            red: config.red.as_ref().map(|red| Red::new(red, rate, stream)),
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// RED's verdict on an arriving packet; it comes before the limit is looked at.
    pub(crate) fn judge(&mut self, now: Instant, ecn: Ecn) -> Verdict {
        let packets = self.packets();
        self.red.as_mut().map_or(Verdict::Pass, |red| red.judge(now, packets, self.bytes, ecn))
    }

    /// True if a packet of `length` bytes may be queued without exceeding the limit.
    pub(crate) fn fits(&self, length: u32) -> bool {
        match self.limit {
            QueueSize::Packets(limit) => self.packets() < limit,
            QueueSize::Bytes(limit) => u64::from(self.bytes) + u64::from(length) <= u64::from(limit),
        }
    }

    pub(crate) fn push(&mut self, id: PacketId, length: u32) {
        self.waiting.push_back((id, length));
        self.bytes += length;
    }

    /// The packet at the head and its length.
    pub(crate) fn head(&self) -> Option<(PacketId, u32)> {
        self.waiting.front().copied()
    }

    /// Takes the head away.
    pub(crate) fn pop(&mut self, now: Instant) {
        let Some((_, length)) = self.waiting.pop_front() else { return };
        self.bytes -= length;
        if let (true, Some(red)) = (self.waiting.is_empty(), &mut self.red) {
            red.queue_emptied(now);
        }
    }

    pub(crate) fn packets(&self) -> u32 {
        self.waiting.len() as u32
    }

    pub(crate) fn depth(&self) -> QueueDepth {
        QueueDepth {
            packets: self.packets(),
            bytes: self.bytes,
            class: 0,
            class_packets: self.packets(),
            average: self.red.as_ref().map_or(f64::NAN, Red::average),
        }
    }
}
