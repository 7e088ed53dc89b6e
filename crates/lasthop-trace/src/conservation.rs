//! No packet appears, disappears, or is settled twice.

use lasthop_core::{Direction, FlowId, Instant, Observer, Packet, PacketEvent};
use std::collections::{BTreeMap, BTreeSet};

/// Packets of one flow and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
    /// Sent, but neither delivered nor dropped yet.
    pub inside: u64,
    /// In the router queue; a part of those inside.
    pub queued: u64,
}

/// An event that contradicts earlier events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Violation {
    pub at: Instant,
    pub serial: u64,
    pub event: PacketEvent,
    pub reason: &'static str,
}

/// Checks the life of every packet: sent once (with serials that rise within a flow and direction), queued at
/// most once at each hop, then delivered or dropped once; a delivered packet may be followed by one copy.
/// These rules imply sent = delivered + dropped + inside, so [`PacketCounts::inside`] can be compared with
/// the content of the engine's buffers.
#[derive(Debug, Default)]
pub struct Conservation {
    directions: BTreeMap<(FlowId, Direction), FlowDirection>,
    violations: Vec<Violation>,
}

#[derive(Debug, Default)]
struct FlowDirection {
    counts: PacketCounts,
    inside: BTreeMap<u64, Stage>,
    /// Packets that have crossed a hop before their last one.
    forwarded: BTreeSet<u64>,
    last_sent: Option<u64>,
    last_delivered: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Arriving,
    Queued,
    OnLink,
}

impl Conservation {
    pub fn counts(&self, flow: FlowId, direction: Direction) -> PacketCounts {
        self.directions.get(&(flow, direction)).map(|state| state.counts).unwrap_or_default()
    }

    /// The counts of all flows in both directions so far.
    pub fn total(&self) -> PacketCounts {
        self.directions.values().fold(PacketCounts::default(), |sum, state| PacketCounts {
            sent: sum.sent + state.counts.sent,
            delivered: sum.delivered + state.counts.delivered,
            dropped: sum.dropped + state.counts.dropped,
            inside: sum.inside + state.counts.inside,
            queued: sum.queued + state.counts.queued,
        })
    }

    /// Invalid events, in order; empty for a correct engine.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

impl Observer for Conservation {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let state = self.directions.entry((packet.flow, packet.direction)).or_default();
        if let Err(reason) = state.packet(event, packet.serial) {
            self.violations.push(Violation { at: now, serial: packet.serial, event, reason });
        }
    }
}

impl FlowDirection {
    fn packet(&mut self, event: PacketEvent, serial: u64) -> Result<(), &'static str> {
        let stage = self.inside.get(&serial).copied();
        match (event, stage) {
            (PacketEvent::Duplicated, _) if self.last_delivered.take() == Some(serial) => {}
            // A copy that crosses further hops may be late, or its packet lost; there may be more copies.
            (PacketEvent::Duplicated, _) if self.forwarded.contains(&serial) => {}
            (PacketEvent::Duplicated, _) => return Err("a copy that does not follow its packet"),
            (PacketEvent::Sent, Some(_)) => return Err("sent twice"),
            (PacketEvent::Sent, None) => self.sent(serial)?,
            (_, None) => return Err("not inside: never sent, or settled before"),
            (PacketEvent::Enqueued(_), Some(Stage::Arriving)) => {
                self.inside.insert(serial, Stage::Queued);
                self.counts.queued += 1;
            }
            (PacketEvent::Enqueued(_), Some(_)) => return Err("queued twice"),
            (PacketEvent::Dequeued(_), Some(Stage::Queued)) => {
                self.inside.insert(serial, Stage::OnLink);
                self.counts.queued -= 1;
            }
            (PacketEvent::Dequeued(_), Some(_)) => return Err("dequeued, but not in the queue"),
            (PacketEvent::Forwarded, Some(Stage::OnLink)) => {
                self.forwarded.insert(serial);
                self.inside.insert(serial, Stage::Arriving);
            }
            (PacketEvent::Forwarded, Some(_)) => return Err("forwarded, but not on the link"),
            (PacketEvent::Delivered, Some(Stage::Queued)) => return Err("delivered out of the queue"),
            (PacketEvent::Delivered, Some(_)) => {
                self.inside.remove(&serial);
                self.last_delivered = Some(serial);
                self.counts.inside -= 1;
                self.counts.delivered += 1;
            }
            (PacketEvent::Dropped(_), Some(stage)) => {
                self.inside.remove(&serial);
                self.counts.queued -= u64::from(stage == Stage::Queued);
                self.counts.inside -= 1;
                self.counts.dropped += 1;
            }
            (PacketEvent::Marked | PacketEvent::LinkRetry, Some(_)) => {}
        }
        Ok(())
    }

    fn sent(&mut self, serial: u64) -> Result<(), &'static str> {
        let rises = self.last_sent.is_none_or(|last| last < serial);
        self.last_sent = Some(serial);
        self.inside.insert(serial, Stage::Arriving);
        self.counts.sent += 1;
        self.counts.inside += 1;
        if rises { Ok(()) } else { Err("its serial does not rise") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::{Body, Datagram, DropCause, Dscp, Ecn, Place, QueueDepth};

    const DEPTH: QueueDepth =
        QueueDepth { packets: 1, bytes: 540, class: 0, class_packets: 1, average: f64::NAN };

    fn run(events: &[(u64, PacketEvent)]) -> Conservation {
        let mut conservation = Conservation::default();
        for (at, (serial, event)) in (0..).zip(events) {
            let body = Body::Udp(Datagram { number: *serial, payload_bytes: 512 });
            let (flow, direction) = (FlowId(0), Direction::Down);
            let (serial, dscp) = (*serial, Dscp::default());
            let packet = Packet {
                serial,
                flow,
                direction,
                ip_bytes: 540,
                ecn: Ecn::NotEct,
                is_copy: false,
                place: Place::from(direction),
                queued_at: Instant::MAX,
                dscp,
                server_port: 30_001,
                body,
            };
            conservation.packet(Instant::from_nanos(at), *event, &packet);
        }
        conservation
    }

    fn reasons(conservation: &Conservation) -> Vec<&'static str> {
        conservation.violations().iter().map(|violation| violation.reason).collect()
    }

    #[test]
    fn every_packet_is_delivered_dropped_or_inside() {
        let run = run(&[
            (1, PacketEvent::Sent),
            (1, PacketEvent::Enqueued(DEPTH)),
            (1, PacketEvent::Dequeued(DEPTH)),
            (2, PacketEvent::Sent),
            (2, PacketEvent::Enqueued(DEPTH)),
            (3, PacketEvent::Sent),
            (3, PacketEvent::Dropped(DropCause::QueueOverflow)),
            (1, PacketEvent::LinkRetry),
            (1, PacketEvent::Delivered),
        ]);
        assert_eq!(reasons(&run), [""; 0]);
        let expected = PacketCounts { sent: 3, delivered: 1, dropped: 1, inside: 1, queued: 1 };
        assert_eq!(run.counts(FlowId(0), Direction::Down), expected);
        assert_eq!(run.counts(FlowId(0), Direction::Up), PacketCounts::default());
        assert_eq!(run.total(), expected);
    }

    #[test]
    fn impossible_lives_are_reported() {
        let delivered_twice =
            run(&[(1, PacketEvent::Sent), (1, PacketEvent::Delivered), (1, PacketEvent::Delivered)]);
        assert_eq!(reasons(&delivered_twice), ["not inside: never sent, or settled before"]);
        let sent_twice = run(&[(1, PacketEvent::Sent), (1, PacketEvent::Sent)]);
        assert_eq!(reasons(&sent_twice), ["sent twice"]);
        let copied = run(&[
            (1, PacketEvent::Sent),
            (1, PacketEvent::Delivered),
            (1, PacketEvent::Duplicated),
            (1, PacketEvent::Duplicated),
        ]);
        assert_eq!(reasons(&copied), ["a copy that does not follow its packet"]);
        let copy_of_a_lost_packet = run(&[
            (1, PacketEvent::Sent),
            (1, PacketEvent::Dropped(DropCause::LinkError)),
            (1, PacketEvent::Duplicated),
        ]);
        assert_eq!(reasons(&copy_of_a_lost_packet), ["a copy that does not follow its packet"]);
        let from_nowhere = run(&[(7, PacketEvent::Dropped(DropCause::Red))]);
        assert_eq!(reasons(&from_nowhere), ["not inside: never sent, or settled before"]);
        let backwards = run(&[(2, PacketEvent::Sent), (1, PacketEvent::Sent)]);
        assert_eq!(reasons(&backwards), ["its serial does not rise"]);
        let jumped =
            run(&[(1, PacketEvent::Sent), (1, PacketEvent::Enqueued(DEPTH)), (1, PacketEvent::Delivered)]);
        assert_eq!(reasons(&jumped), ["delivered out of the queue"]);
        let never_queued = run(&[(1, PacketEvent::Sent), (1, PacketEvent::Dequeued(DEPTH))]);
        assert_eq!(reasons(&never_queued), ["dequeued, but not in the queue"]);
    }
}
