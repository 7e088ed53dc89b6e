//! Counters of the emulator.

use lasthop_core::{Direction, DropCount, Instant, Observer, Packet, PacketEvent};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionCounters {
    pub sent: u64,
    pub delivered: u64,
    /// Bytes of IP length that the other host received.
    pub delivered_bytes: u64,
    pub drops_queue: u64,
    /// Dropped by RED or another active discard.
    pub drops_red: u64,
    /// Lost by the link, given up by its ARQ.
    pub drops_error: u64,
    pub marks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Server to client.
    pub down: DirectionCounters,
    /// Client to server.
    pub up: DirectionCounters,
    /// Passed without classification: fragments of IP packets.
    pub fragments: u64,
    /// Passed without classification: neither TCP nor UDP, or with a truncated transport header.
    pub other_protocols: u64,
    /// Rejected: not IP packets.
    pub malformed: u64,
    /// Rejected: longer than the MTU.
    pub oversized: u64,
    /// Rejected: packets that a router does not forward, or for a host that does not exist.
    pub link_local: u64,
}

impl Observer for Counters {
    fn packet(&mut self, _now: Instant, event: PacketEvent, packet: &Packet) {
        let counters = match packet.direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        };
        match event {
            PacketEvent::Sent => counters.sent += 1,
            PacketEvent::Marked => counters.marks += 1,
            PacketEvent::Delivered => {
                counters.delivered += 1;
                counters.delivered_bytes += u64::from(packet.ip_bytes);
            }
            PacketEvent::Dropped(cause) => match cause.labels().count {
                DropCount::Queue => counters.drops_queue += 1,
                DropCount::Red | DropCount::Aqm | DropCount::EarlyPacket | DropCount::Selective => {
                    counters.drops_red += 1;
                }
                DropCount::Error => counters.drops_error += 1,
            },
            PacketEvent::Enqueued(_)
            | PacketEvent::Dequeued(_)
            | PacketEvent::LinkRetry
            | PacketEvent::Forwarded
            | PacketEvent::Duplicated => {}
        }
    }
}
