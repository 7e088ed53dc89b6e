//! The network between the hosts: LAN wires and the models of hops, or an ATM switch, fed with the
//! bytes of real packets. It is sans-IO like the models, with the same objects and the same order of events
//! as in the model engine.

use crate::counters::Counters;
use crate::error::Error;
use crate::header::{Headers, Refusal, Transport, is_marked, is_same, mark_congestion};
use forwarded::Forwarded;
use lasthop_core::{
    Body, Datagram, Direction, DropCause, Ecn, FlowId, Host, Instant, Observer, Packet, PacketArena,
    PacketEvent, PacketId, Place, QueueDepth, Seed, Segment,
};
use lasthop_link::PathConfig;
use lasthop_scenario::Scenario;
pub use lasthop_sim::Entry;
use lasthop_sim::Network;

mod forwarded;

#[cfg(test)]
mod tests;

/// The bytes of one packet, in a reusable buffer.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Buffer for the largest packet and one more byte.
    pub buffer: Box<[u8]>,
    /// Length of the packet.
    pub length: usize,
    /// The client's port outside of its NAT.
    pub external: External,
}

/// The port by which a server knows a client behind a NAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum External {
    /// The client's own.
    #[default]
    Own,
    /// Another.
    Port(u16),
    /// One whose mapping has expired: the NAT drops the packet.
    Expired,
}

impl Frame {
    /// An empty frame for packets of up to `mtu` bytes.
    pub fn new(mtu: usize) -> Self {
        Self { buffer: vec![0; mtu + 1].into_boxed_slice(), length: 0, external: External::Own }
    }

    /// The packet.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The same, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }
}

/// Maps real packets to the flows of a run and to the packets of the models and the analysis.
pub trait Flows {
    /// The end of its flow at which the host with this number sends a packet; `None` if there is no route.
    fn sender(&self, host: usize, headers: &Headers<'_>) -> Option<Host>;

    /// The application of a flow, and its index among the paths of the application.
    fn way(&self, flow: FlowId) -> (u32, usize);

    /// The flow, the port of the server, and the transport part of a packet that `sender` sends. Called
    /// before the observer sees the packet.
    fn identify<O: Observer>(
        &mut self,
        now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        observer: &mut O,
    ) -> (FlowId, u16, Body);

    /// A packet has reached its host, which has processed it.
    fn arrived<O: Observer>(&mut self, now: Instant, host: Host, packet: &Packet, observer: &mut O) {
        let _ = (now, host, packet, observer);
    }
}

/// Assigns all packets to this flow, which suffices without an analysis.
#[derive(Clone, Copy, Debug)]
pub struct OneFlow(pub FlowId);

impl Flows for OneFlow {
    fn sender(&self, host: usize, _headers: &Headers<'_>) -> Option<Host> {
        Some(if host == 0 { Host::Server } else { Host::Client })
    }

    fn way(&self, _flow: FlowId) -> (u32, usize) {
        (0, 0)
    }

    fn identify<O: Observer>(
        &mut self,
        _now: Instant,
        sender: Host,
        headers: &Headers<'_>,
        _observer: &mut O,
    ) -> (FlowId, u16, Body) {
        let (server_port, _) = headers.transport.server_and_client_port(sender);
        let body = match &headers.transport {
            Transport::Tcp(_, payload_bytes) => {
                Body::Tcp(Segment { payload_bytes: *payload_bytes, ..Segment::default() })
            }
            _ => Body::Udp(Datagram::default()),
        };
        (self.0, server_port, body)
    }
}

/// Rejects links within a tree of hops that duplicate packets: on a later hop, a copy no longer follows its
/// original, from which it takes its bytes.
pub fn needs_single_packets(scenario: &Scenario) -> Result<(), Error> {
    let sides = scenario.hop.iter().flat_map(|(name, hop)| {
        [Direction::Down, Direction::Up].map(|direction| (name, direction, hop.side(direction)))
    });
    let duplicates = |side: Option<&PathConfig>| side.is_some_and(|side| side.link.duplicate.is_some());
    let mut duplicating = sides.filter(|(_, _, side)| duplicates(*side));
    duplicating.next().map_or(Ok(()), |(name, direction, _)| {
        Err(Error::new(format!(
            "hop.{name}.{}.link.duplicate: with [hop], links that duplicate packets run on the model engine \
             only; use --engine model, or leave it out",
            direction.name()
        )))
    })
}

/// A packet that has reached its host.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Arrival time according to the models.
    pub due: Instant,
    /// The host.
    pub host: Host,
    id: PacketId,
}

/// The network between the hosts. The owner
/// 1. fetches due packets with [`Hop::poll_delivery`] until there are none, writes the bytes of each
///    ([`Hop::arrival`]) to its host, and returns it with [`Hop::finish`];
/// 2. then passes in the packets that the hosts send, with [`Hop::send`], at the same `now`;
/// 3. repeats this at [`Hop::next_wakeup`] at the latest.
///
/// If Linux' router replaces the model, the owner holds it. After the first step, the owner passes the
/// packets of [`Hop::poll_entry`] to the router, reports the outcome with [`Hop::enter`], and reports packets
/// that leave the router with [`Hop::leave`].
///
/// Time never runs backwards from call to call. Even if the owner is late, each event happens at the time at
/// which it was due.
#[derive(Debug)]
pub struct Hop<F, O> {
    arena: PacketArena,
    /// The bytes of the packet in the arena's slot of the same index.
    frames: Vec<Frame>,
    mtu: usize,
    network: Network,
    /// The packets in the owner's router, down and up.
    routers: Option<[Forwarded; 2]>,
    /// When the network was woken, if it may release more packets.
    released: Option<Instant>,
    /// The next packet that it has released, if already known.
    next: Option<Delivery>,
    /// The last packet, which a copy would follow.
    last_arrived: Option<PacketId>,
    next_serial: u64,
    /// Number of flows that the network knows.
    announced: u32,
    /// The places whose queues the status displays, down and up.
    bottlenecks: [Place; 2],
    flows: F,
    /// The observer of every packet; the events are those of the model engine.
    seen: (Counters, O),
}

impl<F: Flows, O: Observer> Hop<F, O> {
    /// The network of `scenario`. At an ATM switch, each flow has its own access link and connection; packets
    /// without a flow use those of the last flow.
    pub fn new(scenario: &Scenario, seed: Seed, flows: F, observer: O) -> Self {
        let routers = forwarded::routers(scenario);
        let network =
            if routers.is_some() { Network::around_router(scenario) } else { Network::new(scenario, seed) };
        Self {
            arena: PacketArena::default(),
            frames: Vec::new(),
            mtu: scenario.mtu.0 as usize,
            network,
            routers,
            released: None,
            next: None,
            last_arrived: None,
            next_serial: 0,
            announced: 0,
            bottlenecks: scenario.bottlenecks(),
            flows,
            seen: (Counters::default(), observer),
        }
    }

    /// The host with this number sends the packet in `frame`, which gets another buffer in exchange. A packet
    /// that cannot cross the network is counted and dropped.
    pub fn send(&mut self, now: Instant, host: usize, frame: &mut Frame) {
        if frame.length > self.mtu {
            self.seen.0.oversized += 1;
            return;
        }
        let headers = match Headers::read(frame.bytes()) {
            Ok(headers) => headers,
            Err(Refusal::Malformed) => return self.seen.0.malformed += 1,
            Err(Refusal::LinkLocal) => return self.seen.0.link_local += 1,
        };
        let Some(sender) = self.flows.sender(host, &headers) else { return self.seen.0.link_local += 1 };
        match headers.transport {
            Transport::Fragment => self.seen.0.fragments += 1,
            Transport::Other => self.seen.0.other_protocols += 1,
            Transport::Tcp(..) | Transport::Udp(..) => {}
        }
        let (flow, server_port, body) = self.flows.identify(now, sender, &headers, &mut self.seen.1);
        while !flow.is_stranger() && self.announced <= flow.0 {
            let (application, way) = self.flows.way(FlowId(self.announced));
            self.network.announce(application, way);
            self.announced += 1;
        }
        let ip_bytes = frame.length as u32;
        let direction = Direction::from(sender);
        let Headers { dscp, ecn, .. } = headers;
        let serial = self.next_serial;
        self.next_serial += 1;
        let (is_copy, place, queued_at) = (false, Place::from(direction), Instant::MAX);
        let packet = Packet {
            serial,
            flow,
            direction,
            ip_bytes,
            ecn,
            is_copy,
            dscp,
            server_port,
            place,
            queued_at,
            body,
        };
        self.seen.bytes(&packet, frame.bytes());
        self.seen.packet(now, PacketEvent::Sent, &packet);
        if frame.external == External::Expired {
            return self.seen.packet(now, PacketEvent::Dropped(DropCause::Nat), &packet);
        }
        let id = self.arena.insert(packet);
        if id.index() == self.frames.len() {
            self.frames.push(Frame::new(self.mtu));
        }
        std::mem::swap(&mut self.frames[id.index()], frame);
        self.network.send(now, sender, id, &mut self.arena);
    }

    /// The next packet that has reached its host by `now`.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.next.take().or_else(|| self.poll_released()) {
                self.provide_frame(delivery.id);
                return Some(delivery);
            }
            let next = self.network.next();
            if let Some((due, index)) = self.next_behind_router()
                && due <= now
                && due <= next.at
            {
                let (due, id) = self.routers.as_mut()?[index].arrive()?;
                let host = if index == Direction::Down as usize { Host::Client } else { Host::Server };
                return Some(Delivery { due, host, id });
            }
            if next.at == Instant::MAX || next.at > now {
                return None;
            }
            self.network.wake(next, &mut self.arena, &mut self.seen);
            self.released = Some(next.at);
        }
    }

    /// The next packet that the network has released.
    fn poll_released(&mut self) -> Option<Delivery> {
        let due = self.released?;
        let Some(id) = self.network.poll_delivery(due, &self.arena) else {
            self.released = None;
            return None;
        };
        Some(Delivery { due, host: self.arena.get(id).direction.sender().other(), id })
    }

    /// True if nothing else is due by `now` after the packet just fetched.
    pub fn is_last(&mut self, now: Instant) -> bool {
        if self.next.is_none() {
            self.next = self.poll_released();
        }
        let behind = self.next_behind_router().map(|(due, _)| due);
        let next = self.network.next().at;
        let coming = behind.map_or(next, |due| due.min(next));
        self.next.is_none() && (coming == Instant::MAX || coming > now)
    }

    /// A copy made by the link has the bytes of the packet that it follows.
    fn provide_frame(&mut self, id: PacketId) {
        if !self.arena.get(id).is_copy {
            self.last_arrived = Some(id);
        } else if let Some(original) = self.last_arrived {
            if id.index() == self.frames.len() {
                self.frames.push(Frame::new(self.mtu));
            }
            self.frames[id.index()] = self.frames[original.index()].clone();
        }
    }

    /// The next packet that has reached the owner's router; [`Hop::poll_delivery`] must be called first.
    pub fn poll_entry(&mut self) -> Option<Entry> {
        self.network.poll_entry()
    }

    /// The bytes of a packet for the owner's router.
    pub fn entering(&self, entry: Entry) -> &[u8] {
        self.frames[entry.id.index()].bytes()
    }

    /// True if the owner's router is believed to have no room for a packet.
    pub fn is_full(&self, entry: Entry) -> bool {
        let packet = self.arena.get(entry.id);
        self.routers.as_ref().is_some_and(|routers| routers[entry.direction as usize].is_full(packet))
    }

    /// The class of a packet for the owner's router.
    pub fn class_of(&self, entry: Entry) -> usize {
        let packet = self.arena.get(entry.id);
        self.routers.as_ref().map_or(0, |routers| routers[entry.direction as usize].class_of(packet))
    }

    /// The owner's router has accepted or dropped the packet.
    pub fn enter(&mut self, entry: Entry, kept: bool) {
        let Self { arena, seen, routers: Some(routers), .. } = self else { return };
        let packet = arena.get_mut(entry.id);
        let router = &mut routers[entry.direction as usize];
        let cause = router.drop_cause(packet);
        if kept {
            router.push(packet, entry.id);
        }
        if kept || cause == DropCause::LinkError {
            packet.queued_at = entry.due;
            seen.packet(entry.due, PacketEvent::Enqueued(router.depth(router.class_of(packet))), packet);
        }
        if !kept {
            seen.packet(entry.due, PacketEvent::Dropped(cause), packet);
            arena.remove(entry.id);
        }
    }

    /// The packet in `frame`, which gets another buffer in exchange, has left the owner's router towards
    /// `host`. It arrives immediately if the link after the router has no delay. The packets that the queue
    /// discipline should have sent before it are lost.
    pub fn leave(&mut self, now: Instant, host: Host, frame: &mut Frame) -> Result<Option<Delivery>, Error> {
        let Self { arena, frames, seen, routers, .. } = self;
        let router = routers.as_mut().map(|routers| &mut routers[Direction::from(host.other()) as usize]);
        let next = router.and_then(|router| {
            let is_it =
                |packet: &forwarded::Inside| is_same(frames[packet.id.index()].bytes(), frame.bytes());
            let id = router.take(is_it, |id, cause| drop_inside(now, id, cause, arena, seen))?;
            Some((router, id))
        });
        let Some((router, id)) = next else {
            return Err(Error::new("the router has sent an unknown packet, or a packet out of order"));
        };
        if is_marked(frame.bytes()) && arena.get(id).ecn != Ecn::Ce {
            arena.get_mut(id).ecn = Ecn::Ce;
            seen.packet(now, PacketEvent::Marked, arena.get(id));
        }
        let packet = arena.get_mut(id);
        seen.packet(now, PacketEvent::Dequeued(router.depth(router.class_of(packet))), packet);
        packet.queued_at = Instant::MAX;
        std::mem::swap(&mut frames[id.index()], frame);
        Ok(router.start(now, id).then_some(Delivery { due: now, host, id }))
    }

    /// The classes of the owner's router that are believed to hold packets to `host`.
    pub fn inside(&self, host: Host) -> Vec<usize> {
        let direction = Direction::from(host.other());
        self.routers
            .as_ref()
            .map_or_else(Vec::new, |routers| routers[direction as usize].not_empty().collect())
    }

    /// A class of the owner's router holds no packet to `host`: packets believed to be there are lost.
    pub fn clear(&mut self, now: Instant, host: Host, class: usize) {
        let Self { arena, seen, routers: Some(routers), .. } = self else { return };
        let router = &mut routers[Direction::from(host.other()) as usize];
        router.clear(class, |id, cause| drop_inside(now, id, cause, arena, seen));
    }

    /// The link after the owner's router that delivers the next packet, and when.
    fn next_behind_router(&self) -> Option<(Instant, usize)> {
        let due = self.routers.as_ref()?.iter().map(forwarded::Forwarded::next_arrival);
        due.zip(0..).filter(|(due, _)| *due < Instant::MAX).min()
    }

    /// The flows, a packet that has arrived, and its bytes, including marks set on the way.
    pub fn arrival(&mut self, delivery: Delivery) -> (&mut F, &Packet, &mut Frame) {
        let (packet, frame) = (self.arena.get(delivery.id), &mut self.frames[delivery.id.index()]);
        if packet.ecn == Ecn::Ce {
            mark_congestion(frame.bytes_mut());
        }
        (&mut self.flows, packet, frame)
    }

    /// The packet has reached its host.
    pub fn finish(&mut self, delivery: Delivery) {
        let packet = self.arena.get(delivery.id);
        self.seen.packet(delivery.due, PacketEvent::arrival_of(packet), packet);
        self.flows.arrived(delivery.due, delivery.host, packet, &mut self.seen.1);
        self.arena.remove(delivery.id);
    }

    /// The packet is lost in front of its host.
    pub fn lose(&mut self, delivery: Delivery, cause: DropCause) {
        self.seen.packet(delivery.due, PacketEvent::Dropped(cause), self.arena.get(delivery.id));
        self.arena.remove(delivery.id);
    }

    /// The earliest time at which a packet can reach its host, if any is in flight. Events on the way need no
    /// separate wakeup.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let behind = self.next_behind_router().map(|(due, _)| due);
        self.network.earliest_delivery().into_iter().chain(behind).min()
    }

    /// Number of packets on the LANs and in the last hop, or in the switch and on the reverse path.
    pub fn packets_inside(&self) -> usize {
        self.arena.len()
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.seen.0
    }

    /// The flows, and the observer of their events.
    pub fn flows(&mut self) -> (&mut F, &mut O) {
        (&mut self.flows, &mut self.seen.1)
    }

    /// The observer, at the end.
    pub fn into_observer(self) -> O {
        self.seen.1
    }

    /// The router queue of the bottleneck of a direction.
    pub fn queue_depth(&self, direction: Direction) -> QueueDepth {
        let forwarded = || self.routers.as_ref().map(|routers| routers[direction as usize].depth(0));
        self.network.queue_depth(self.bottlenecks[direction as usize]).or_else(forwarded).unwrap_or_default()
    }
}

/// The owner's router has dropped a packet that it had accepted.
fn drop_inside<O: Observer>(
    now: Instant,
    id: PacketId,
    cause: DropCause,
    arena: &mut PacketArena,
    seen: &mut (Counters, O),
) {
    seen.packet(now, PacketEvent::Dropped(cause), arena.get(id));
    arena.remove(id);
}
