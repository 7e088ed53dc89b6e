//! A tin of CAKE: its queues, and the turns among them ("Piece of CAKE", sections III-C and III-D).
//!
//! The turns are those of DRR++: flows that have just become active come first. A flow's quantum is divided
//! by the number of busy flows of its host, so that hosts share evenly, too. A queue without packets stays
//! among the *decaying* ones until its COBALT has come to rest.

use std::collections::VecDeque;

use lasthop_core::{DropCause, Duration, Instant, Observer, PacketId, RandomStream};

use super::super::fifo::{Fifo, Total, Waiting};
use super::cobalt::{Cobalt, CobaltParameters};
use super::hosts::{Hosts, QUEUES, SIDES, places};
use super::shaper::Pace;
use crate::discipline::Packets;

/// The quantum of a flow (`cake_set_rate`): a frame of Ethernet, or what the tin sends in 1/4096 s.
const QUANTUM: (u64, u64) = (300, 1_514);

/// Where a flow stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FlowSet {
    /// It has no turn.
    #[default]
    None,
    /// It has become active and used less than its quantum.
    Sparse,
    /// The same, but it was found empty when its quantum was used up.
    SparseWait,
    /// It has used its quantum.
    Bulk,
    /// It is empty, and COBALT has not come to rest.
    Decaying,
}

#[derive(Clone, Debug, Default)]
pub(super) struct CakeFlow {
    pub(super) fifo: Fifo,
    cobalt: Cobalt,
    /// The hash of the flow that it is reserved for.
    tag: u32,
    deficit: i64,
    set: FlowSet,
    /// The places of its hosts: of the one that sends, and of the one that receives.
    hosts: [usize; SIDES],
}

/// The hash of a flow, and those of its hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes {
    pub(super) flow: u32,
    pub(super) hosts: [u32; SIDES],
}

#[derive(Clone, Debug)]
pub(super) struct Tin {
    pub(super) pace: Option<Pace>,
    /// When the next packet may leave at the rate of the tin.
    pub(super) next: Instant,
    parameters: CobaltParameters,
    quantum: u32,
    /// Its share per turn, and the rest of it, if there is no rate.
    pub(super) share: i64,
    pub(super) deficit: i64,
    pub(super) flows: Vec<CakeFlow>,
    hosts: [Hosts; SIDES],
    /// The sides whose hosts share evenly.
    isolates: [bool; SIDES],
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    decaying: VecDeque<usize>,
    sparse: u32,
    bulk: u32,
    pub(super) total: Total,
}

impl Tin {
    /// A tin of this rate in bytes per second.
    pub(super) fn new(
        rate: Option<u64>,
        share: i64,
        isolates: [bool; SIDES],
        (target, rtt): (Duration, Duration),
        mtu: u32,
    ) -> Self {
        let pace = rate.map(Pace::new);
        let (least, most) = QUANTUM;
        Self {
            pace,
            next: Instant::ZERO,
            parameters: CobaltParameters::new(target, rtt, pace, mtu),
            quantum: rate.map_or(most, |rate| (rate >> 12).clamp(least, most)) as u32,
            share,
            deficit: 0,
            flows: vec![CakeFlow::default(); QUEUES],
            hosts: [Hosts::new(), Hosts::new()],
            isolates,
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            sparse: 0,
            bulk: 0,
            total: Total::default(),
        }
    }

    /// Whether it takes part: some flow has a turn.
    pub(super) const fn is_active(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// The queue of a flow (`cake_hash`): of the eight in its set, the one that is reserved for it, or a free
    /// one, or else the queue of another flow.
    pub(super) fn queue_of(&mut self, hashes: Hashes) -> usize {
        let home = hashes.flow as usize % QUEUES;
        if self.flows[home].tag == hashes.flow && self.flows[home].set != FlowSet::None {
            return home;
        }
        let reserved = places(home).find(|&place| self.flows[place].tag == hashes.flow);
        let free = || places(home).find(|&place| self.flows[place].set == FlowSet::None);
        let place = reserved.or_else(free).unwrap_or(home);
        if reserved.is_none() || self.flows[place].set == FlowSet::None {
            let is_bulk = self.flows[place].set == FlowSet::Bulk;
            if is_bulk {
                self.leave_hosts(place);
            }
            for side in (0..SIDES).filter(|&side| self.isolates[side]) {
                self.flows[place].hosts[side] = self.hosts[side].place_of(hashes.hosts[side]);
            }
            if is_bulk {
                self.join_hosts(place);
            }
        }
        self.flows[place].tag = hashes.flow;
        place
    }

    /// A packet has joined the queue of a flow.
    pub(super) fn activate(&mut self, flow: usize, random: &mut RandomStream) {
        match self.flows[flow].set {
            set @ (FlowSet::None | FlowSet::Decaying) => {
                if set == FlowSet::Decaying {
                    self.decaying.retain(|&other| other != flow);
                }
                self.new.push_back(flow);
                self.flows[flow].set = FlowSet::Sparse;
                self.sparse += 1;
                self.flows[flow].deficit = self.quantum_of(flow, random);
            }
            FlowSet::SparseWait => {
                self.sparse -= 1;
                self.become_bulk(flow);
            }
            FlowSet::Sparse | FlowSet::Bulk => {}
        }
    }

    /// The next packet, and its flow; none if a turn came to a queue without packets. With `decays`, a
    /// decaying flow has the first turn.
    pub(super) fn serve<O: Observer>(
        &mut self,
        decays: bool,
        random: &mut RandomStream,
        packets: &mut Packets<'_, O>,
    ) -> Option<(usize, Waiting)> {
        let flow = self.turn(decays, random)?;
        loop {
            let Some(packet) = self.flows[flow].fifo.pop() else {
                self.retire(packets.now, flow);
                return None;
            };
            self.total.take(packet.ip_bytes);
            let CakeFlow { fifo, cobalt, .. } = &mut self.flows[flow];
            let drops = cobalt.drops(&self.parameters, packet, random, packets);
            // The last packet may be marked, but is not dropped.
            if !drops || fifo.packets() == 0 {
                return Some((flow, packet));
            }
            packets.discard(packet.id, DropCause::CoDel);
        }
    }

    /// A packet of this flow has left. It counts with `bytes`.
    pub(super) fn charge(&mut self, now: Instant, flow: usize, bytes: u32) {
        self.flows[flow].deficit -= i64::from(bytes);
        self.deficit -= i64::from(bytes);
        let Some(time) = self.pace.map(|pace| pace.time(bytes)) else { return };
        if self.next < now {
            self.next += time;
        } else {
            self.next = self.next.max(now + time);
        }
    }

    /// The queue is full: the head of a flow leaves (`cake_drop`).
    pub(super) fn push_out(&mut self, now: Instant, flow: usize) -> Option<Waiting> {
        let CakeFlow { fifo, cobalt, .. } = &mut self.flows[flow];
        let packet = fifo.pop()?;
        cobalt.note_full(&self.parameters, now);
        self.total.take(packet.ip_bytes);
        Some(packet)
    }

    /// A superfluous packet leaves the queue of a flow.
    pub(super) fn remove(&mut self, flow: usize, place: usize) -> Option<PacketId> {
        let packet = self.flows[flow].fifo.remove(place)?;
        self.total.take(packet.ip_bytes);
        Some(packet.id)
    }

    /// The flow with the most bytes, the first of equals.
    pub(super) fn longest(&self) -> Option<(u32, usize)> {
        let listed = self.new.iter().chain(&self.old).copied();
        let length = |flow: usize| (self.flows[flow].fifo.bytes(), flow);
        listed.map(length).max_by_key(|&(bytes, flow)| (bytes, QUEUES - flow))
    }

    /// The flow whose turn it is (`cake_dequeue`).
    fn turn(&mut self, mut decays: bool, random: &mut RandomStream) -> Option<usize> {
        loop {
            let list = if decays && !self.decaying.is_empty() {
                &mut self.decaying
            } else if !self.new.is_empty() {
                &mut self.new
            } else if !self.old.is_empty() {
                &mut self.old
            } else {
                &mut self.decaying
            };
            decays = false;
            let flow = *list.front()?;
            if self.flows[flow].deficit > 0 {
                return Some(flow);
            }
            list.pop_front();
            if self.flows[flow].set == FlowSet::Sparse {
                if self.flows[flow].fifo.packets() > 0 {
                    self.sparse -= 1;
                    self.become_bulk(flow);
                } else {
                    self.flows[flow].set = FlowSet::SparseWait;
                }
            }
            self.flows[flow].deficit += self.quantum_of(flow, random);
            self.old.push_back(flow);
        }
    }

    /// The flow whose turn it is has no packets.
    fn retire(&mut self, now: Instant, flow: usize) {
        self.flows[flow].cobalt.note_empty(&self.parameters, now);
        for list in [&mut self.new, &mut self.old, &mut self.decaying] {
            if list.front() == Some(&flow) {
                list.pop_front();
            }
        }
        match self.flows[flow].set {
            FlowSet::Sparse | FlowSet::SparseWait => self.sparse -= 1,
            FlowSet::Bulk => {
                self.bulk -= 1;
                self.leave_hosts(flow);
            }
            FlowSet::Decaying | FlowSet::None => {}
        }
        let rests = self.flows[flow].cobalt.rests(now);
        if !rests {
            self.decaying.push_back(flow);
        }
        self.flows[flow].set = if rests { FlowSet::None } else { FlowSet::Decaying };
    }

    fn become_bulk(&mut self, flow: usize) {
        self.flows[flow].set = FlowSet::Bulk;
        self.bulk += 1;
        self.join_hosts(flow);
    }

    fn join_hosts(&mut self, flow: usize) {
        for side in (0..SIDES).filter(|&side| self.isolates[side]) {
            self.hosts[side].join(self.flows[flow].hosts[side]);
        }
    }

    fn leave_hosts(&mut self, flow: usize) {
        for side in (0..SIDES).filter(|&side| self.isolates[side]) {
            self.hosts[side].leave(self.flows[flow].hosts[side]);
        }
    }

    /// A flow's quantum, divided among the busy flows of its busiest host. A random fraction of a byte makes
    /// up for the rounding (`cake_get_flow_quantum`).
    fn quantum_of(&self, flow: usize, random: &mut RandomStream) -> i64 {
        let sides = (0..SIDES).filter(|&side| self.isolates[side]);
        let busy = sides.map(|side| self.hosts[side].busy(self.flows[flow].hosts[side]));
        let load = busy.fold(1, u32::max);
        let fraction = (random.bits() >> 48) as u32;
        i64::from((self.quantum * (u32::from(u16::MAX) / load) + fraction) >> 16)
    }
}
