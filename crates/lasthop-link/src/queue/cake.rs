//! CAKE (Høiland-Jørgensen, Täht and Morton: "Piece of CAKE", LANMAN 2018): a shaper, classes by code point,
//! a queue for each flow with COBALT, fairness among hosts, and a filter of ACKs, all in one.
//!
//! It follows Linux' `sch_cake` (6.12), in integers of the same units. Where it differs:
//!
//! - The limit counts the packets or the bytes of IP, where Linux counts the memory of buffers. Of equally
//!   long queues the first of the first tin drops, in Linux the one at the top of a heap.
//! - Flows and hosts are hashed by their numbers, not by addresses and ports.
//! - The link takes a packet only when it has room for the largest.

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, Direction, DropCause, Dscp, FlowId, Instant, Observer, Packet, PacketId};
use lasthop_core::{QueueDepth, RandomStream};

use super::fifo::{Total, Waiting};
use super::rounds::Hash;
use crate::config::cake::{AckFilter, CakeConfig, Isolation, Tins};
use crate::discipline::{Dequeued, Discipline, Packets, Wait};
use hosts::SIDES;
use shaper::Pace;
use tin::{Hashes, Tin};

mod ack_filter;
mod cobalt;
mod hosts;
mod shaper;
#[cfg(test)]
mod tests;
mod tin;

/// Shares of the tins per turn: of the first in bytes, the others by the shifts of [`shifts`].
const SHARE: i64 = 1_024;

#[derive(Clone, Debug)]
pub(crate) struct Cake {
    config: CakeConfig,
    limit: QueueSize,
    mtu: u32,
    hash: Hash,
    random: RandomStream,
    pace: Option<Pace>,
    /// When the next packet may leave.
    next: Instant,
    tins: Vec<Tin>,
    /// The tin whose turn it is, if there is no rate.
    turn: usize,
    /// The numbers of the hosts of each flow, in the order of the flows: on the way down, the one that sends
    /// and the one that receives.
    hosts: Vec<[u32; SIDES]>,
}

impl Cake {
    pub(crate) fn new(config: CakeConfig, limit: QueueSize, mtu: Bytes, mut stream: RandomStream) -> Self {
        let mtu = mtu.0 as u32;
        let rate = config.rate.map(|rate| rate.bits_per_second() / 8);
        let tin = |shift: &u32| {
            let times = (config.target(), config.rtt);
            let rate = rate.map(|rate| rate >> shift);
            Tin::new(rate, SHARE >> shift, config.isolation.hosts(), times, mtu)
        };
        Self {
            config,
            limit,
            mtu,
            hash: Hash::new(hosts::QUEUES as u32, &mut stream),
            random: stream,
            pace: rate.map(Pace::new),
            next: Instant::ZERO,
            tins: shifts(config.tins).iter().map(tin).collect(),
            turn: 0,
            hosts: Vec::new(),
        }
    }

    /// A flow is between these hosts: they send and receive on the way down. Other flows are between the
    /// hosts with number 0.
    pub(crate) fn announce(&mut self, flow: FlowId, hosts: [u32; SIDES]) {
        let number = flow.0 as usize;
        if self.hosts.len() <= number {
            self.hosts.resize(number + 1, [0; SIDES]);
        }
        self.hosts[number] = hosts;
    }

    pub(crate) fn room_needed(&self) -> Option<u32> {
        (self.depth().packets > 0).then_some(self.mtu)
    }

    fn hashes(&self, packet: &Packet) -> Hashes {
        if self.config.isolation == Isolation::None {
            return Hashes { flow: 0, hosts: [0; SIDES] };
        }
        let mut hosts = self.hosts.get(packet.flow.0 as usize).copied().unwrap_or_default();
        if packet.direction == Direction::Up {
            hosts.reverse();
        }
        Hashes { flow: self.hash.of(packet.flow.0), hosts: hosts.map(|host| self.hash.of(host)) }
    }

    /// Times are not stale (`cake_enqueue`): a pause earns nothing.
    fn catch_up(&mut self, now: Instant, tin: usize) {
        if self.tins[tin].total.depth().packets == 0 {
            self.tins[tin].next = self.tins[tin].next.max(now);
            if self.depth().packets == 0 {
                self.next = self.next.max(now);
            }
        }
    }

    /// The tin that sends next. With a rate it is the last of those whose times have come, or else the one
    /// whose time comes first. Without a rate they take turns.
    fn choose(&mut self, now: Instant) -> usize {
        if self.pace.is_none() {
            return self.take_turns();
        }
        let (mut chosen, mut best) = (0, Instant::MAX);
        for (number, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active()) {
            if tin.next <= now || tin.next <= best {
                (chosen, best) = (number, tin.next);
            }
        }
        chosen
    }

    fn take_turns(&mut self) -> usize {
        loop {
            let tin = &mut self.tins[self.turn];
            if tin.deficit >= 0 && tin.is_active() {
                return self.turn;
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.share;
            }
            self.turn = (self.turn + 1) % self.tins.len();
        }
    }

    /// Drops the head of the longest queue; true if that is `arrived`.
    fn relieve<O: Observer>(&mut self, arrived: PacketId, packets: &mut Packets<'_, O>) -> bool {
        let longest = |(number, tin): (usize, &Tin)| tin.longest().map(|(bytes, flow)| (bytes, number, flow));
        let queues = self.tins.iter().enumerate().filter_map(longest);
        let Some((_, tin, flow)) =
            queues.reduce(|longest, other| if other.0 > longest.0 { other } else { longest })
        else {
            return false;
        };
        let Some(Waiting { id, .. }) = self.tins[tin].push_out(packets.now, flow) else { return false };
        packets.discard_of_longest(id, arrived)
    }
}

impl Discipline for Cake {
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        let now = packets.now;
        let packet = packets.arena.get(id);
        let (number, ip_bytes) = (tin_of(self.config.tins, packet.dscp), packet.ip_bytes);
        let hashes = self.hashes(packet);
        self.catch_up(now, number);
        let tin = &mut self.tins[number];
        let flow = tin.queue_of(hashes);
        tin.flows[flow].fifo.push(Waiting { id, ip_bytes, since: now });
        tin.total.add(ip_bytes);
        if self.config.ack_filter != AckFilter::Off {
            let aggressive = self.config.ack_filter == AckFilter::Aggressive;
            let place = ack_filter::superfluous(&tin.flows[flow].fifo, aggressive, packets.arena);
            if let Some(ack) = place.and_then(|place| tin.remove(flow, place)) {
                packets.discard(ack, DropCause::AckFilter);
            }
        }
        tin.activate(flow, &mut self.random);
        let mut is_dropped = false;
        while self.depth().exceeds(self.limit) {
            is_dropped |= self.relieve(id, packets);
        }
        (!is_dropped).then_some(self.depth())
    }

    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        let now = packets.now;
        if self.next > now && self.depth().packets > 0 {
            return Err(Wait::Until(self.next));
        }
        // One decaying flow for each packet.
        let mut decays = true;
        loop {
            Wait::unless_fits(self.room_needed(), room)?;
            let number = self.choose(now);
            let tin = &mut self.tins[number];
            if let Some((flow, Waiting { id, ip_bytes, .. })) = tin.serve(decays, &mut self.random, packets) {
                let bytes = self.config.bytes(ip_bytes);
                tin.charge(now, flow, bytes);
                if let Some(pace) = self.pace {
                    self.next += pace.time(bytes);
                }
                return Ok(Dequeued { id, ip_bytes, depth: self.depth() });
            }
            decays = false;
        }
    }

    fn depth(&self) -> QueueDepth {
        let mut all = Total::default();
        for tin in &self.tins {
            all.join(tin.total);
        }
        all.depth()
    }
}

/// The rates and shares of the tins, as powers of a half of the whole: best effort, bulk, then the others in
/// order of priority (`cake_config_diffserv4`, `cake_config_diffserv3`).
const fn shifts(tins: Tins) -> &'static [u32] {
    match tins {
        Tins::Besteffort => &[0],
        Tins::Diffserv3 => &[0, 4, 2],
        Tins::Diffserv4 => &[0, 4, 1, 2],
    }
}

/// The tin of a code point. Bulk is CS1 and LE (RFC 8622). 4 and 44 are the old TOS of low delay and
/// VOICE-ADMIT (RFC 5865).
const fn tin_of(tins: Tins, dscp: Dscp) -> usize {
    match (tins, dscp.get()) {
        (Tins::Besteffort, _) => 0,
        (_, 1 | 8) => 1,
        (Tins::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
        (Tins::Diffserv3, 4 | 44 | 46 | 48 | 56)
        | (Tins::Diffserv4, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
        _ => 0,
    }
}
