//! A cell of a mobile network: a base station and its users, as in LTE and NR (3GPP TS 36.300, TS 38.300).
//!
//! Time is divided into slots. At the start of each slot, separately in each direction, the scheduler divides
//! it among the users that have data, as the base station divides resource blocks. Each user's part carries a
//! transport block: the next bytes of its queue, which may begin and end within packets (RLC, TS 36.322). A
//! block that fails is sent again a round trip later, in an equally large part of a slot, and before new data
//! (HARQ, TS 36.321, clause 5.3). A user has at most one block in a slot. The receiver reassembles the packets
//! and releases them in order.
//!
//! A packet that arrives at the very start of a slot waits for the next one. Empty slots cost nothing: the cell
//! wakes only for the next slot with data.

use std::collections::VecDeque;

use lasthop_core::units::QueueSize;
use lasthop_core::{
    AirEvent, Direction, DropCause, Duration, Instant, Observer, PacketArena, PacketEvent, PacketId, Place,
    QueueDepth, RandomStream, Seed,
};

use crate::config::{CellConfig, CellUser};
use crate::discipline::Packets;
use crate::link::pop_if;
use crate::queue::fifo::{Total, Waiting};

mod bearer;
mod listening;
mod schedule;
#[cfg(test)]
mod tests;

use bearer::{Bearer, Range};
use listening::Listening;
use schedule::{SlotSchedule, Wish};

#[derive(Debug)]
pub struct Cell {
    sides: [CellDirection; 2],
    /// `None` if the users always listen.
    listening: Option<Listening>,
    released: VecDeque<PacketId>,
}

/// The parameters that both directions of a cell share.
#[derive(Clone, Debug)]
struct Rules {
    tti: Duration,
    delay: Duration,
    limit: QueueSize,
    round_trip: Duration,
    /// The probability that each try of a block fails; a block without errors has one try.
    failures: Vec<f64>,
}

#[derive(Debug)]
struct CellDirection {
    rules: Rules,
    place: Place,
    /// One for each user.
    bearers: Vec<Bearer>,
    total: Total,
    schedule: SlotSchedule,
    /// The next slot in which something can be sent.
    slot: Instant,
    /// Blocks that must be sent again, in the order of their last tries.
    retries: VecDeque<Block>,
    /// Blocks on their way: when their packets leave, and whether they were decoded.
    arriving: VecDeque<(Instant, Block, bool)>,
    errors: RandomStream,
    /// Users that have a block in the current slot.
    sent: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    user: usize,
    bytes: Range,
    /// Its part of a slot, in nanoseconds.
    part: u64,
    /// The try that comes next or is being made, from 0.
    number: usize,
    /// When it may be sent again.
    ready: Instant,
}

impl Cell {
    pub(super) fn new(cell: &CellConfig, users: &[&CellUser], places: [Place; 2], seed: Seed) -> Self {
        let harq = cell.harq.as_ref();
        let failures = harq.map_or(vec![0.0], |harq| {
            let error = harq.error.get();
            let after = |failure: &f64| Some(failure * error);
            std::iter::successors(Some(error), after).take(harq.tries as usize).collect()
        });
        let rules = Rules {
            tti: cell.tti,
            delay: cell.delay,
            limit: cell.limit,
            round_trip: harq.map_or(Duration::ZERO, |harq| harq.round_trip(cell.tti)),
            failures,
        };
        let side = |direction: Direction| CellDirection {
            rules: rules.clone(),
            place: places[direction as usize],
            bearers: users.iter().map(|user| Bearer::new(user.course(direction))).collect(),
            total: Total::default(),
            schedule: SlotSchedule::new(cell, users.len()),
            slot: Instant::MAX,
            retries: VecDeque::new(),
            arriving: VecDeque::new(),
            errors: seed.stream(&format!("cell.{}.error", direction.name())),
            sent: vec![false; users.len()],
        };
        Self {
            sides: [Direction::Down, Direction::Up].map(side),
            listening: cell.drx.as_ref().map(|drx| Listening::new(drx, cell.tti, users.len())),
            released: VecDeque::new(),
        }
    }

    pub(super) fn handle_packet<O: Observer>(
        &mut self,
        id: PacketId,
        (user, direction): (usize, Direction),
        packets: &mut Packets<'_, O>,
    ) {
        let side = &mut self.sides[direction as usize];
        let now = packets.now;
        let packet = packets.arena.get_mut(id);
        let ip_bytes = packet.ip_bytes;
        if side.bearers[user].depth().is_full(side.rules.limit, ip_bytes) {
            return packets.discard(id, DropCause::QueueOverflow);
        }
        side.bearers[user].push(Waiting { id, ip_bytes, since: now });
        side.total.add(ip_bytes);
        packet.queued_at = now;
        packets.observer.packet(now, PacketEvent::Enqueued(side.total.depth()), packet);
        let first = side.slot_after(now);
        let listening = self.listening.as_ref().filter(|_| direction == Direction::Down);
        let at = side.first_slot(user, first, listening);
        side.slot = side.slot.min(at);
    }

    pub(super) fn handle_wakeup<O: Observer>(
        &mut self,
        now: Instant,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        while let Some(due) = self.next_wakeup().filter(|due| *due <= now) {
            let packets = &mut Packets { now: due, arena, observer };
            for side in &mut self.sides {
                side.receive(&mut self.released, packets);
            }
            for direction in [Direction::Down, Direction::Up] {
                if self.sides[direction as usize].slot <= due {
                    self.send(direction, packets);
                }
            }
        }
    }

    /// Sends in a slot of a direction.
    fn send<O: Observer>(&mut self, direction: Direction, packets: &mut Packets<'_, O>) {
        let now = packets.now;
        let [down, up] = &mut self.sides;
        let side = if direction == Direction::Down { &mut *down } else { &mut *up };
        side.send(self.listening.as_mut(), direction, packets);
        if direction == Direction::Up {
            up.plan(now, None);
        }
        // Sending wakes a user.
        if direction == Direction::Down || self.listening.is_some() {
            down.plan(now, self.listening.as_ref());
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let due = self.sides[0].due().min(self.sides[1].due());
        (due < Instant::MAX).then_some(due)
    }

    pub(super) fn poll_delivery(&mut self) -> Option<PacketId> {
        self.released.pop_front()
    }

    pub(super) fn queue_depth(&self, direction: Direction) -> QueueDepth {
        self.sides[direction as usize].total.depth()
    }

    pub(super) fn packets_inside(&self) -> usize {
        let bearers = self.sides.iter().flat_map(|side| &side.bearers);
        bearers.map(Bearer::packets_inside).sum::<usize>() + self.released.len()
    }
}

impl CellDirection {
    fn due(&self) -> Instant {
        self.arriving.front().map_or(Instant::MAX, |(at, ..)| *at).min(self.slot)
    }

    /// The first slot after this time.
    fn slot_after(&self, now: Instant) -> Instant {
        let tti = self.rules.tti.as_nanos();
        Instant::from_nanos((now.as_nanos() / tti + 1).saturating_mul(tti))
    }

    /// The first slot from `first` on in which a user can send or be sent to.
    fn first_slot(&self, user: usize, first: Instant, listening: Option<&Listening>) -> Instant {
        let tti = self.rules.tti.as_nanos();
        let mut at = first;
        loop {
            let awake = listening.map_or(at, |listening| listening.next(user, at));
            let up = self.bearers[user].up_from(awake);
            let next = Instant::from_nanos(up.as_nanos().div_ceil(tti).saturating_mul(tti));
            if next == at {
                return at;
            }
            at = next;
        }
    }

    /// Chooses the next slot after that at `now`.
    fn plan(&mut self, now: Instant, listening: Option<&Listening>) {
        let next = now + self.rules.tti;
        let with_data = (0..self.bearers.len()).filter(|user| self.bearers[*user].backlog() > 0);
        let new = with_data.map(|user| self.first_slot(user, next, listening));
        // A user listens for what it is waiting for (TS 36.321, drx-RetransmissionTimer).
        let again = self.retries.iter().map(|block| self.first_slot(block.user, block.ready.max(next), None));
        self.slot = new.chain(again).min().unwrap_or(Instant::MAX);
    }

    /// Sends in the slot that begins now: first again, then something new.
    fn send<O: Observer>(
        &mut self,
        mut listening: Option<&mut Listening>,
        direction: Direction,
        packets: &mut Packets<'_, O>,
    ) {
        let now = packets.now;
        self.sent.fill(false);
        self.bearers.iter_mut().for_each(|bearer| bearer.advance(now));
        let left = self.send_again(packets);
        let hears = |user| {
            direction == Direction::Up || listening.as_ref().is_none_or(|all| all.next(user, now) == now)
        };
        let wish = |(user, bearer): (usize, &Bearer)| {
            let rate = bearer.rate().filter(|_| bearer.backlog() > 0 && !self.sent[user] && hears(user))?;
            Some(Wish { user, rate, needed: bearer.needed(rate), part: 0 })
        };
        let mut wishes: Vec<Wish> = self.bearers.iter().enumerate().filter_map(wish).collect();
        self.schedule.divide(now, left, &mut wishes);
        for Wish { user, rate, part, .. } in wishes.into_iter().filter(|wish| wish.part > 0) {
            let range = self.bearers[user].take(rate, part);
            self.begin(user, packets);
            if let Some(bytes) = range {
                if let Some(listening) = &mut listening {
                    listening.stir(user, now);
                }
                let block = Block { user, bytes, part, number: 0, ready: now };
                self.launch(block, packets);
            }
        }
    }

    /// Sends failed blocks again. Returns what they leave of the slot.
    fn send_again<O: Observer>(&mut self, packets: &mut Packets<'_, O>) -> u64 {
        let mut left = self.rules.tti.as_nanos();
        let mut index = 0;
        while let Some(block) = self.retries.get(index).copied().filter(|block| block.ready <= packets.now) {
            let has_room = !self.sent[block.user] && block.part <= left;
            if !has_room || self.bearers[block.user].rate().is_none() {
                index += 1;
                continue;
            }
            self.retries.remove(index);
            self.sent[block.user] = true;
            left -= block.part;
            self.launch(block, packets);
        }
        left
    }

    /// Reports the packets that have left the queue of a user for a block.
    fn begin<O: Observer>(&mut self, user: usize, packets: &mut Packets<'_, O>) {
        while let Some((id, ip_bytes)) = self.bearers[user].next_begun() {
            self.total.take(ip_bytes);
            let packet = packets.arena.get_mut(id);
            packets.observer.packet(packets.now, PacketEvent::Dequeued(self.total.depth()), packet);
            packet.queued_at = Instant::MAX;
        }
    }

    /// A try of a block.
    fn launch<O: Observer>(&mut self, block: Block, packets: &mut Packets<'_, O>) {
        let now = packets.now;
        let failure = self.rules.failures[block.number];
        let fails = failure > 0.0 && self.errors.unit() < failure;
        let is_last = block.number + 1 == self.rules.failures.len();
        let mut number = 0;
        for id in self.bearers[block.user].packets_in(block.bytes) {
            number += 1;
            if fails && !is_last {
                packets.observer.packet(now, PacketEvent::LinkRetry, packets.arena.get(id));
            }
        }
        let event = AirEvent {
            station: block.user as u16,
            spent: Duration::from_nanos(block.part),
            packets: number,
            failed: if fails { number } else { 0 },
            collided: false,
        };
        packets.observer.air(now, self.place, event);
        if !fails || is_last {
            self.arriving.push_back((now + self.rules.tti + self.rules.delay, block, !fails));
            return;
        }
        let ready = now + self.rules.round_trip;
        self.retries.push_back(Block { number: block.number + 1, ready, ..block });
    }

    /// Joins the packets of blocks that have arrived, and releases them in order.
    fn receive<O: Observer>(&mut self, released: &mut VecDeque<PacketId>, packets: &mut Packets<'_, O>) {
        while let Some((_, block, is_decoded)) = pop_if(&mut self.arriving, |(at, ..)| *at <= packets.now) {
            let bearer = &mut self.bearers[block.user];
            bearer.arrive(block.bytes, is_decoded);
            while let Some((id, is_whole)) = bearer.next_whole() {
                if is_whole {
                    released.push_back(id);
                } else {
                    packets.discard(id, DropCause::AirGivenUp);
                }
            }
        }
    }
}
