//! What a queue discipline and an error model of a user's own are: the traits for code outside of this crate.

use std::fmt;

use lasthop_core::{Bytes, Direction, Dscp, Ecn, FlowId, Instant, Packet, QueueSize, RandomStream, Rate};

/// A queue discipline of one's own. It orders packets by their numbers; the packets themselves stay with the router,
/// which counts what waits.
///
/// A packet that has been taken in leaves by [`QueueAlgorithm::dequeue`] or by [`Verdicts::drop`], once. Any other
/// number handed back ends the run.
pub trait QueueAlgorithm: fmt::Debug {
    /// A packet arrives: true if the queue takes it in, false if it is full.
    fn enqueue(&mut self, now: Instant, packet: &QueuedPacket, verdicts: &mut Verdicts) -> bool;

    /// The packet that goes next unless it is dropped at the last moment; none lets the link wait for an arrival.
    fn peek(&self) -> Option<u64>;

    /// The link has room for the packet that goes next: hands it out.
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts) -> Option<u64>;
}

/// What a queue may know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket {
    /// Its number, unique in the run.
    pub number: u64,
    /// The flow it belongs to.
    pub flow: FlowId,
    /// Which way it travels.
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

/// What else becomes of packets, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    pub(crate) dropped: Vec<u64>,
    pub(crate) marked: Vec<u64>,
}

impl Verdicts {
    /// Drops a packet that waits.
    pub fn drop(&mut self, number: u64) {
        self.dropped.push(number);
    }

    /// Marks a packet that waits as having met congestion (RFC 3168).
    pub fn mark(&mut self, number: u64) {
        self.marked.push(number);
    }
}

/// What an instance of a queue is told at first.
#[derive(Clone, Debug)]
pub struct QueueSetup {
    /// Draws of its own.
    pub stream: RandomStream,
    /// The most that it should hold, by the scenario.
    pub limit: QueueSize,
    /// Rate of the link behind it at the start.
    pub rate: Rate,
    /// The largest packet.
    pub mtu: Bytes,
}

/// Losses by a model of one's own.
pub trait ErrorAlgorithm: fmt::Debug {
    /// True if a packet of `ip_bytes` bytes is lost that the link has sent at `now`. Asked once for every packet, in
    /// their order.
    fn loses(&mut self, now: Instant, ip_bytes: u32) -> bool;
}

/// What an instance of an error model is told at first.
#[derive(Clone, Debug)]
pub struct ErrorSetup {
    /// Draws of its own.
    pub stream: RandomStream,
}
