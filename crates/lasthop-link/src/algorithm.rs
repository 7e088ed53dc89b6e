//! The traits of custom queue disciplines and error models.

use std::fmt;

use lasthop_core::{Bytes, Direction, Dscp, Ecn, FlowId, Instant, Packet, QueueSize, RandomStream, Rate};

/// A custom queue discipline. It handles numbers of packets; the router stores and counts the packets.
///
/// An accepted packet leaves once, by [`QueueAlgorithm::dequeue`] or by [`Verdicts::drop`]. Returning any
/// other number ends the run.
pub trait QueueAlgorithm: fmt::Debug {
    /// A packet arrives: true if the queue accepts it, false if the queue is full.
    fn enqueue(&mut self, now: Instant, packet: &QueuedPacket, verdicts: &mut Verdicts) -> bool;

    /// The packet that leaves next, unless it is dropped before. If `None`, the link waits for an arrival.
    fn peek(&self) -> Option<u64>;

    /// The link has room for the next packet: returns it.
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts) -> Option<u64>;
}

/// The information about a packet for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket {
    /// Its number, unique in the run.
    pub number: u64,
    /// The flow that it belongs to.
    pub flow: FlowId,
    pub direction: Direction,
    /// Length of the IP packet.
    pub ip_bytes: u32,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// Code point of its IP header.
    pub dscp: Dscp,
}

impl QueuedPacket {
    pub(crate) fn of(packet: &Packet) -> Self {
        let Packet { serial, flow, direction, ip_bytes, ecn, dscp, .. } = *packet;
        Self { number: serial, flow, direction, ip_bytes, ecn, dscp }
    }
}

/// Drops and marks of packets, by number.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    pub(crate) dropped: Vec<u64>,
    pub(crate) marked: Vec<u64>,
}

impl Verdicts {
    /// Drops a waiting packet.
    pub fn drop(&mut self, number: u64) {
        self.dropped.push(number);
    }

    /// Sets the congestion-experienced mark on a waiting packet (RFC 3168).
    pub fn mark(&mut self, number: u64) {
        self.marked.push(number);
    }
}

/// The setup of an instance of a queue.
#[derive(Clone, Debug)]
pub struct QueueSetup {
    pub stream: RandomStream,
    /// Its limit according to the scenario.
    pub limit: QueueSize,
    /// Initial rate of the link after it.
    pub rate: Rate,
    pub mtu: Bytes,
}

/// A custom loss model.
pub trait ErrorAlgorithm: fmt::Debug {
    /// True if a packet of `ip_bytes` bytes that the link has sent at `now` is lost. Called once for each
    /// packet, in order.
    fn loses(&mut self, now: Instant, ip_bytes: u32) -> bool;
}

/// The setup of an instance of an error model.
#[derive(Clone, Debug)]
pub struct ErrorSetup {
    pub stream: RandomStream,
}
