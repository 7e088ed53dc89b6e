//! The link: send buffer, serialiser, ARQ by iterated delay, propagation, release in order or as packets
//! arrive.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use lasthop_core::{
    Direction, DropCause, Duration, Instant, Observer, Packet, PacketArena, PacketEvent, PacketId,
    RandomStream, Seed,
};

use crate::chance::Chance;
use crate::config::{ArqConfig, BufferRelease, ErrorConfig, HeaderCompression, LinkConfig, StateLookup};
use crate::course::Course;
use crate::errors::{LinkState, StateTimeline};
use crate::impairments::{Fate, Impairments, State};
use crate::receive_buffer::ReceiveBuffer;
use crate::van_jacobson::VanJacobson;

/// When a packet leaves a stage after a long stay, the packet this many places after it is prefetched into
/// the processor's cache.
pub(crate) const FETCHED_AHEAD: usize = 3;

/// One direction of the link. Every stage is FIFO, so each is a ring and only its front has a due time.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    course: Course,
    overhead: Duration,
    release: BufferRelease,
    serialises_retries: bool,
    errors: Option<LinkErrors>,
    impairments: Option<Box<Impairments>>,
    /// True if the link is certain: no impairment can affect a packet once its serialisation begins. Its
    /// arrival is known then, and it is in `travelling` until it is fetched.
    is_certain: bool,
    buffer_bytes: u64,
    occupied_bytes: u64,
    /// Packets in the send buffer that are not serialised yet. Unless the link is certain, the front one is
    /// in service while `service_end` is set and no retransmission is in service.
    waiting: VecDeque<(PacketId, u32)>,
    /// Due retransmissions that have to be serialised, ahead of `waiting`; the front one is in service if
    /// `serving_again`.
    again: VecDeque<Attempt>,
    serving_again: bool,
    /// End of the current serialisation; `Instant::MAX` while idle.
    service_end: Instant,
    /// Room in the send buffer after the current serialisation, if the link is certain.
    service_bytes: u32,
    /// Earliest due time of all stages except the serialiser; cached, because it is read far more often than
    /// it changes.
    wakeup: Instant,
    /// Packets that are serialised and not released at the far side, in the order of serialisation.
    travelling: VecDeque<Travelling>,
    /// On a link with reordering: packets that have left `travelling`, by arrival.
    overtaking: Option<BinaryHeap<Reverse<Overtaking>>>,
    /// The receive buffer of the link, if it has a limit.
    receive: Option<Box<ReceiveBuffer>>,
    /// The header compression of the link, if any, with all packets in the send buffer and on the link.
    headers: Option<Box<VanJacobson>>,
    /// Number of the front of `travelling`, counted from the first packet of the run.
    front_number: u64,
    /// Packets that wait for a retransmission. The ARQ delay is constant, so the order of failures is the
    /// order of retransmissions.
    retries: VecDeque<Attempt>,
    /// Link-layer acknowledgements in flight: when they return, and the bytes that they free.
    acknowledgements: VecDeque<(Instant, u32)>,
    /// Packets released at the far side, with the time of release, and not fetched yet.
    released: VecDeque<(Instant, PacketId)>,
}

/// A packet between the serialiser and its release at the far side.
#[derive(Clone, Copy, Debug)]
struct Travelling {
    /// None for the tombstone of a dropped packet.
    packet: Option<PacketId>,
    ip_bytes: u32,
    /// When it reaches the far side; `Instant::MAX` while ARQ still tries.
    arrival: Instant,
    state: State,
}

/// A packet that does not wait for earlier packets. The order is that of arrivals; `number` is the order of
/// serialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Overtaking {
    arrival: Instant,
    number: u64,
    packet: PacketId,
    state: State,
}

/// One transmission of a packet.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    at: Instant,
    /// Number of the packet, counted as `front_number`.
    number: u64,
    /// 0 for the first transmission.
    retransmission: u32,
    /// The state that applies to the transmission, if it is not the current one.
    held_state: Option<LinkState>,
}

/// The outcome of a transmission.
enum Outcome {
    Through,
    Again { delay: Duration, held_state: Option<LinkState> },
    Lost(DropCause),
}

/// The error process of one direction.
#[derive(Clone, Debug)]
struct LinkErrors {
    timeline: StateTimeline,
    /// `None` if bad states have no effect.
    chance: Option<Chance>,
    stream: RandomStream,
    arq: Option<ArqConfig>,
}

impl LinkErrors {
    fn attempt(&mut self, attempt: &Attempt, ip_bytes: u32) -> Outcome {
        let state = attempt.held_state.unwrap_or_else(|| {
            self.timeline.prune(attempt.at);
            self.timeline.state(attempt.at)
        });
        // Good states draw no random numbers.
        let is_hit = |chance: Chance| chance.hits(ip_bytes, &mut self.stream);
        if state == LinkState::Good || !self.chance.is_some_and(is_hit) {
            return Outcome::Through;
        }
        match &self.arq {
            None => Outcome::Lost(DropCause::LinkError),
            Some(arq) if attempt.retransmission < arq.retransmissions => Outcome::Again {
                delay: arq.delay,
                held_state: (arq.state_lookup == StateLookup::FirstTry).then_some(state),
            },
            Some(_) => Outcome::Lost(DropCause::ArqGivenUp),
        }
    }
}

impl LinkDirection {
    /// `shared` is the error process of both directions.
    pub(crate) fn new(
        config: &LinkConfig,
        shared: Option<&ErrorConfig>,
        direction: Direction,
        seed: Seed,
    ) -> Self {
        let errors = config.errors.as_ref().or(shared);
        let states_of = config.errors.as_ref().map(|_| direction);
        let impairments = Impairments::new(config, direction, seed);
        Self {
            course: Course::new(config),
            overhead: config.overhead.sampler().sample(&mut seed.stream("link.overhead")),
            release: config.release,
            serialises_retries: errors.is_some_and(|e| e.arq.as_ref().is_some_and(|arq| arq.serialised)),
            errors: errors.map(|errors| LinkErrors {
                timeline: StateTimeline::new(errors, states_of, seed),
                chance: Chance::new(errors.packet_error_probability, errors.bit_error_rate, config.framing),
                stream: seed.stream(&format!("link.{}.error", direction.name())),
                arq: errors.arq.clone(),
            }),
            is_certain: errors.is_none()
                && impairments.is_none()
                && !config.reorder
                && config.header_compression.is_none()
                && config.release == BufferRelease::Serialised
                && config.change.is_empty()
                && config.course.is_none(),
            impairments: impairments.map(Box::new),
            buffer_bytes: config.send_buffer.0,
            occupied_bytes: 0,
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            serving_again: false,
            service_end: Instant::MAX,
            service_bytes: 0,
            wakeup: Instant::MAX,
            travelling: VecDeque::new(),
            overtaking: config.reorder.then(BinaryHeap::new),
            receive: config.receive_buffer.map(|size| Box::new(ReceiveBuffer::new(size))),
            headers: config.header_compression.map(|HeaderCompression::Vj| Box::default()),
            front_number: 0,
            retries: VecDeque::new(),
            acknowledgements: VecDeque::new(),
            released: VecDeque::new(),
        }
    }

    /// Free bytes in the send buffer.
    pub(crate) fn room(&self) -> u64 {
        self.buffer_bytes - self.occupied_bytes
    }

    /// Puts a packet into the send buffer, which must have room, and starts the serialiser if it is idle.
    #[inline]
    pub(crate) fn accept(&mut self, now: Instant, id: PacketId, packet: &Packet) {
        let ip_bytes = packet.ip_bytes;
        if let Some(headers) = &mut self.headers {
            headers.send(packet);
        }
        debug_assert!(u64::from(ip_bytes) <= self.room());
        self.occupied_bytes += u64::from(ip_bytes);
        if self.is_certain && self.service_end == Instant::MAX {
            return self.begin_certain_service(now, id, ip_bytes);
        }
        self.waiting.push_back((id, ip_bytes));
        if !self.is_certain {
            self.start_serialising(now);
        }
    }

    /// When [`LinkDirection::handle_wakeup`] has something to do; `Instant::MAX` if no packet is in the link.
    /// `room_wanted` is true if the router waits for room in the send buffer. If nothing waits for the end
    /// of a serialisation, the link handles it later, in [`LinkDirection::catch_up`].
    pub(crate) fn next_wakeup(&self, room_wanted: bool) -> Instant {
        debug_assert_eq!(self.wakeup, self.earliest(), "a stage changed without notice");
        if !self.is_certain {
            self.wakeup.min(self.service_end)
        } else if room_wanted || !self.waiting.is_empty() {
            self.service_end
        } else {
            Instant::MAX
        }
    }

    /// The earliest time at which [`LinkDirection::poll_delivery`] may return a packet without a preceding
    /// wakeup.
    #[inline]
    pub(crate) fn next_delivery(&self) -> Instant {
        self.wakeup
    }

    /// Ends a serialisation that nothing waited for, if it is due.
    #[inline]
    pub(crate) fn catch_up(&mut self, now: Instant) {
        if self.is_certain && self.service_end <= now {
            self.end_certain_service();
        }
    }

    /// The earliest time at which a packet can be released at the far side, if the next event that may lead
    /// to a release, but has no fixed arrival yet, is due at `next`.
    pub(crate) fn earliest_delivery(&self, next: Instant) -> Instant {
        // After any such event there is a transmission, and each transmission takes the propagation delay.
        let next = next.min(self.next_at_sender());
        self.next_arrival().min(if next == Instant::MAX { next } else { next + self.course.least_delay() })
    }

    fn earliest(&self) -> Instant {
        self.next_arrival().min(self.next_answer())
    }

    fn next_at_sender(&self) -> Instant {
        self.service_end.min(self.next_answer())
    }

    /// When the next retransmission or acknowledgement is due.
    fn next_answer(&self) -> Instant {
        let retry = self.retries.front().map_or(Instant::MAX, |retry| retry.at);
        let acknowledgement = self.acknowledgements.front().map_or(Instant::MAX, |front| front.0);
        retry.min(acknowledgement)
    }

    fn next_in_order(&self) -> Instant {
        self.travelling.front().map_or(Instant::MAX, |front| front.arrival)
    }

    fn next_arrival(&self) -> Instant {
        let in_order = self.next_in_order();
        let overtaking = self.overtaking.as_ref().and_then(BinaryHeap::peek);
        let out_of_order = self.receive.as_ref().map_or(Instant::MAX, |receive| receive.next());
        in_order.min(out_of_order).min(overtaking.map_or(Instant::MAX, |Reverse(first)| first.arrival))
    }

    /// Handles once everything that is due at `now`: buffer releases, the end of a serialisation,
    /// retransmissions, releases at the far side. Events that thereby become due at `now` (with delays of
    /// zero) need another call.
    pub(crate) fn handle_wakeup<O: Observer>(
        &mut self,
        now: Instant,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        if self.is_certain {
            return self.catch_up(now);
        }
        self.free_acknowledged(now);
        self.finish_serialising(now, arena, observer);
        self.retry(now, arena, observer);
        self.release_in_order(now, arena, observer);
        if self.receive.is_some() {
            self.take_in(now, arena, observer);
        }
        if self.overtaking.is_some() {
            self.release_overtaking(now, arena, observer);
        }
        self.wakeup = self.earliest();
    }

    /// The next packet released at the far side at or before `now`. On a certain link this is the next packet
    /// to arrive.
    #[inline]
    pub(crate) fn poll_delivery(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        if !self.is_certain {
            pop_if(&mut self.released, |&(at, _)| at <= now).map(|(_, id)| id)
        } else if self.wakeup <= now {
            self.deliver_certain(now, arena)
        } else {
            None
        }
    }

    /// The next packet to arrive on a certain link, which is due. Apart, so that to ask in vain is no call.
    #[inline(never)]
    fn deliver_certain(&mut self, now: Instant, arena: &PacketArena) -> Option<PacketId> {
        self.catch_up(now);
        self.fetch_ahead(arena);
        let first = self.travelling.pop_front();
        self.wakeup = self.next_in_order();
        first.and_then(|first| first.packet)
    }

    /// Number of packets in the send buffer before the end of their serialisation, travelling, or released
    /// and not fetched.
    pub(crate) fn packets_inside(&self) -> usize {
        let travelling = self.travelling.iter().filter(|entry| entry.packet.is_some()).count();
        let overtaking = self.overtaking.as_ref().map_or(0, BinaryHeap::len);
        self.waiting.len() + travelling + overtaking + self.released.len()
    }

    /// Bytes of the send buffer in use.
    pub(crate) fn occupied_bytes(&self) -> u64 {
        self.occupied_bytes
    }

    /// A packet arrives at the router. If the link has nothing to send, it was idle until now.
    pub(crate) fn note_arrival(&mut self) {
        if self.service_end == Instant::MAX {
            self.course.rest();
        }
    }

    fn start_serialising(&mut self, now: Instant) {
        if self.service_end < Instant::MAX {
            return;
        }
        self.serving_again = !self.again.is_empty();
        let again = self.again.front().map(|attempt| self.place(attempt.number));
        let again = again.map(|place| (place, self.travelling[place].ip_bytes));
        let first = || self.waiting.front().map(|&(_, ip_bytes)| (self.travelling.len(), ip_bytes));
        if let Some((place, ip_bytes)) = again.or_else(first) {
            let bytes = link_bytes(self.headers.as_deref(), place, ip_bytes);
            self.service_end = self.course.transmission_end(now, bytes) + self.overhead;
        }
    }

    fn begin_certain_service(&mut self, now: Instant, id: PacketId, ip_bytes: u32) {
        self.service_end = self.course.transmission_end(now, ip_bytes) + self.overhead;
        self.service_bytes = ip_bytes;
        let arrival = self.service_end + self.course.delay(self.service_end);
        self.travelling.push_back(Travelling { packet: Some(id), ip_bytes, arrival, state: State::Intact });
        self.wakeup = self.wakeup.min(arrival);
    }

    fn end_certain_service(&mut self) {
        let end = std::mem::replace(&mut self.service_end, Instant::MAX);
        self.occupied_bytes -= u64::from(self.service_bytes);
        if let Some((id, ip_bytes)) = self.waiting.pop_front() {
            self.begin_certain_service(end, id, ip_bytes);
        }
    }

    fn free_acknowledged(&mut self, now: Instant) {
        while let Some((_, ip_bytes)) = pop_if(&mut self.acknowledgements, |&(at, _)| at <= now) {
            self.occupied_bytes -= u64::from(ip_bytes);
        }
    }

    fn finish_serialising<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        if self.service_end > now {
            return;
        }
        self.service_end = Instant::MAX;
        if self.serving_again
            && let Some(attempt) = self.again.pop_front()
        {
            self.attempt(Attempt { at: now, ..attempt }, arena, observer);
            return self.start_serialising(now);
        }
        let Some((id, ip_bytes)) = self.waiting.pop_front() else { return };
        if self.release == BufferRelease::Serialised {
            self.occupied_bytes -= u64::from(ip_bytes);
        }
        let number = self.front_number + self.travelling.len() as u64;
        self.travelling.push_back(Travelling {
            packet: Some(id),
            ip_bytes,
            arrival: Instant::MAX,
            state: State::Intact,
        });
        self.attempt(Attempt { at: now, number, retransmission: 0, held_state: None }, arena, observer);
        self.start_serialising(now);
    }

    fn retry<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        while let Some(attempt) = pop_if(&mut self.retries, |attempt| attempt.at <= now) {
            if self.serialises_retries {
                self.again.push_back(attempt);
                self.start_serialising(now);
            } else {
                self.attempt(attempt, arena, observer);
            }
        }
    }

    /// The place of a packet among those that travel.
    fn place(&self, number: u64) -> usize {
        (number - self.front_number) as usize
    }

    fn attempt<O: Observer>(&mut self, attempt: Attempt, arena: &mut PacketArena, observer: &mut O) {
        let now = attempt.at;
        let place = self.place(attempt.number);
        let Travelling { packet, ip_bytes, .. } = self.travelling[place];
        let Some(errors) = &mut self.errors else {
            return self.travel(now, attempt.number, arena, observer);
        };
        match errors.attempt(&attempt, link_bytes(self.headers.as_deref(), place, ip_bytes)) {
            Outcome::Through => self.travel(now, attempt.number, arena, observer),
            Outcome::Again { delay, held_state } => {
                if let Some(id) = packet {
                    observer.packet(now, PacketEvent::LinkRetry, arena.get(id));
                }
                let retransmission = attempt.retransmission + 1;
                self.retries.push_back(Attempt { at: now + delay, retransmission, held_state, ..attempt });
            }
            Outcome::Lost(cause) => self.lose(attempt.number, cause, now, arena, observer),
        }
    }

    /// A packet has passed the error process of the link; the impairments of single packets apply next.
    #[inline]
    fn travel<O: Observer>(&mut self, now: Instant, number: u64, arena: &mut PacketArena, observer: &mut O) {
        let place = self.place(number);
        let entry = &mut self.travelling[place];
        let delay = self.course.delay(now);
        let fate = self.impairments.as_mut().map(|impairments| {
            impairments.draw(now, delay, link_bytes(self.headers.as_deref(), place, entry.ip_bytes))
        });
        let (arrival, state) = match fate {
            None => (now + delay, State::Intact),
            Some(Fate::Arrives { at, state }) => (at, state),
            Some(Fate::Lost) => return self.lose(number, DropCause::LinkError, now, arena, observer),
        };
        let Some(overtaking) = &mut self.overtaking else {
            (entry.arrival, entry.state) = (arrival, state);
            if let Some(receive) = &mut self.receive {
                receive.expect(arrival, number, entry.ip_bytes);
            }
            return;
        };
        // The remaining tombstone makes no packet wait.
        entry.arrival = now;
        if let Some(packet) = entry.packet.take() {
            overtaking.push(Reverse(Overtaking { arrival, number, packet, state }));
        }
    }

    fn lose<O: Observer>(
        &mut self,
        number: u64,
        cause: DropCause,
        now: Instant,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        // The tombstone keeps the packet's place: on arrival it releases the packets after it.
        let place = self.place(number);
        let entry = &mut self.travelling[place];
        let arrival = now + self.course.delay(now);
        entry.arrival = self.impairments.as_mut().map_or(arrival, |impairments| impairments.slot(arrival));
        if let Some(id) = entry.packet.take() {
            discard(now, id, cause, arena, observer);
        }
    }

    /// Releases packets from the front as long as they have arrived. A packet after an unfinished one waits,
    /// and is released together with it.
    fn release_in_order<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        if self.next_in_order() > now {
            return;
        }
        self.fetch_ahead(arena);
        while let Some(entry) = pop_if(&mut self.travelling, |entry| entry.arrival <= now) {
            if let Some(receive) = &mut self.receive {
                receive.release(self.front_number);
            }
            self.front_number += 1;
            let intact = entry.packet.is_some() && entry.state != State::Corrupt;
            let is_lost = self.headers.as_mut().is_some_and(|headers| !headers.receive(intact)) && intact;
            if let Some(id) = entry.packet {
                if is_lost {
                    discard(now, id, DropCause::HeaderCompression, arena, observer);
                } else {
                    self.arrive(now, id, entry.state, arena, observer);
                }
            }
            if self.release == BufferRelease::Acknowledged {
                // Packets keep their order even when the delay becomes shorter.
                let latest = self.acknowledgements.back().map_or(now, |latest| latest.0);
                self.acknowledgements.push_back((latest.max(now + self.course.delay(now)), entry.ip_bytes));
            }
        }
    }

    /// Packets that have arrived out of order wait in the receive buffer, or are lost if that is full.
    fn take_in<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        while let Some(receive) = &mut self.receive
            && let Some(number) = receive.take_in(now, self.front_number)
        {
            // Its tombstone has arrived.
            let place = self.place(number);
            let entry = &mut self.travelling[place];
            if let Some(id) = entry.packet.take() {
                discard(now, id, DropCause::ReceiveBuffer, arena, observer);
            }
        }
    }

    #[inline]
    fn fetch_ahead(&self, arena: &PacketArena) {
        if let Some(Travelling { packet: Some(id), .. }) = self.travelling.get(FETCHED_AHEAD) {
            arena.fetch(*id);
        }
    }

    fn release_overtaking<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        while let Some(overtaking) = &mut self.overtaking
            && overtaking.peek().is_some_and(|Reverse(first)| first.arrival <= now)
            && let Some(Reverse(first)) = overtaking.pop()
        {
            self.arrive(now, first.packet, first.state, arena, observer);
        }
    }

    /// A packet has reached the far side, perhaps followed by a copy. The host there discards a corrupt
    /// packet.
    #[inline]
    fn arrive<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        state: State,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        if state == State::Corrupt {
            return discard(now, id, DropCause::Corrupt, arena, observer);
        }
        self.released.push_back((now, id));
        if state == State::Doubled {
            let copy = Packet { is_copy: true, ..arena.get(id).clone() };
            self.released.push_back((now, arena.insert(copy)));
        }
    }
}

/// The bytes that the link carries of a packet of `ip_bytes` bytes, by its place among those that travel.
#[inline]
fn link_bytes(headers: Option<&VanJacobson>, place: usize, ip_bytes: u32) -> u32 {
    ip_bytes - headers.map_or(0, |headers| headers.saved(place))
}

/// Reports the loss of a packet and frees its slot.
pub(crate) fn discard<O: Observer>(
    now: Instant,
    id: PacketId,
    cause: DropCause,
    arena: &mut PacketArena,
    observer: &mut O,
) {
    observer.packet(now, PacketEvent::Dropped(cause), arena.get(id));
    arena.remove(id);
}

/// Removes the front of a ring if it is due.
pub(crate) fn pop_if<T>(ring: &mut VecDeque<T>, due: impl FnOnce(&T) -> bool) -> Option<T> {
    if ring.front().is_some_and(due) { ring.pop_front() } else { None }
}
