//! Moves packets between the TUN devices of hosts through the models.

use crate::calls::are_batched;
use crate::clock::{Clock, NextWait, READ_TOGETHER, Reads};
use crate::counters::Counters;
use crate::error::Error;
use crate::hop::{Delivery, Flows, Frame, Hop};
use crate::lateness::{Lateness, LatenessSummary};
use crate::router::LinuxRouter;
use crate::tun::Tun;
use lasthop_core::{DropCause, Host, Instant, Observer, Packet};
use serde::Serialize;
use std::io;

/// Maximum number of packets read from one host before the models are handled again.
const READ_MAX: usize = 32;
/// Name in the waiter of the first host's device.
const FIRST_TUN: u64 = 4;

pub fn tun_name(host: usize) -> u64 {
    FIRST_TUN + host as u64
}

/// The number of the host whose device has this name.
pub fn tun_named(name: u64) -> usize {
    (name - FIRST_TUN) as usize
}

pub trait HostFlows: Flows {
    /// The number of the host that a packet has reached, at this end of its flow.
    fn receiver(&self, end: Host, packet: &Packet, bytes: &[u8]) -> usize;

    /// Passes a packet's bytes to its host; false if it does not accept them. May poll at once for `next`.
    fn hand_over(
        &mut self,
        host: Host,
        packet: &Packet,
        tun: &Tun,
        bytes: &[u8],
        next: Option<NextWait<'_>>,
    ) -> bool {
        let _ = (host, packet, next);
        tun.write(bytes)
    }

    /// A NAT between a host and the network changes a packet that the host has sent.
    fn leaves(&mut self, now: Instant, host: usize, frame: &mut Frame) {
        let _ = (now, host, frame);
    }

    /// A NAT between a host and the network changes a packet for the host; false if it drops the packet.
    fn reaches(&mut self, now: Instant, host: usize, frame: &mut Frame) -> bool {
        let _ = (now, host, frame);
        true
    }

    /// The neighbour of this host that a packet is for, if any: the packet does not cross the network.
    fn neighbour(&self, host: usize, bytes: &[u8]) -> Option<usize> {
        let _ = (host, bytes);
        None
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct RunFacts {
    pub replication: u64,
    pub lateness: LatenessSummary,
    pub counters: Counters,
    pub not_taken: u64,
}

#[derive(Debug)]
pub struct Emulator<'a, F, O> {
    pub hop: Hop<F, O>,
    pub lateness: Lateness,
    /// Packets that a host did not accept, for example because its link was down.
    pub not_taken: u64,
    tuns: Vec<&'a Tun>,
    router: Option<LinuxRouter>,
    clock: Clock,
    scratch: Reads,
}

impl<'a, F: HostFlows, O: Observer> Emulator<'a, F, O> {
    /// An emulator between the hosts' devices, for packets of up to `mtu` bytes; with Linux' router, if any.
    pub fn new(
        hop: Hop<F, O>,
        tuns: Vec<&'a Tun>,
        router: Option<LinuxRouter>,
        clock: Clock,
        mtu: usize,
    ) -> Self {
        let lateness = Lateness::default();
        let scratch = Reads::new(mtu);
        Self { hop, lateness, not_taken: 0, tuns, router, clock, scratch }
    }

    pub fn facts(&self, replication: u64) -> RunFacts {
        RunFacts {
            replication,
            lateness: self.lateness.summary(),
            counters: *self.hop.counters(),
            not_taken: self.not_taken,
        }
    }

    pub fn tun(&self, host: usize) -> &'a Tun {
        self.tuns[host]
    }

    /// The device towards a host of Linux' router, if it replaces the model.
    pub fn router_tun(&self, host: Host) -> Option<&Tun> {
        self.router.as_ref().map(|router| router.tun(host))
    }

    /// Passes every packet that is due by `now` to its host or to the router. If the owner waits `next`, the
    /// last packet may end that wait at once.
    pub fn deliver(&mut self, now: Instant, mut next: Option<NextWait<'_>>) -> Result<(), Error> {
        let mut first = Some(now);
        while let Some(delivery) = self.hop.poll_delivery(now) {
            let handed_over = first.take().map_or_else(|| self.clock.now(), Ok)?;
            let next = if self.is_followed_by_wait(now) { next.take() } else { None };
            if self.hand_over(delivery, next) {
                self.lateness.record(handed_over.saturating_since(delivery.due));
            }
        }
        while let (Some(router), Some(entry)) = (&mut self.router, self.hop.poll_entry()) {
            let handed_over = first.take().map_or_else(|| self.clock.now(), Ok)?;
            let sender = entry.direction.sender();
            let accepted = router.take(sender, self.hop.class_of(entry), self.hop.entering(entry))?;
            self.lateness.record(handed_over.saturating_since(entry.due));
            // If there was room for it, a packet of its class has left meanwhile.
            while accepted && self.hop.is_full(entry) && self.forward_one(entry.due, sender.other())? {}
            self.hop.enter(entry, accepted);
        }
        Ok(())
    }

    /// True if, in a guest, only a wait follows the packet just fetched.
    fn is_followed_by_wait(&mut self, now: Instant) -> bool {
        are_batched() && self.router.is_none() && self.hop.packets_inside() > 1 && self.hop.is_last(now)
    }

    /// Passes on the packets that have left the router towards a host by `now`, up to a limit. Only the
    /// router knows when they were due.
    pub fn forward(&mut self, now: Instant, host: Host) -> Result<(), Error> {
        for _ in 0..READ_MAX {
            if !self.forward_one(now, host)? {
                return self.look_for_losses(now, host);
            }
        }
        Ok(())
    }

    /// Called when no more packets have left the router: an empty class has dropped its missing packets.
    fn look_for_losses(&mut self, now: Instant, host: Host) -> Result<(), Error> {
        let Some(router) = &self.router else { return Ok(()) };
        let mut empty = self.hop.inside(host);
        for place in (0..empty.len()).rev() {
            if !router.is_empty(host, empty[place])? {
                empty.swap_remove(place);
            }
        }
        // The last packets may have left before the check.
        while !empty.is_empty() && self.forward_one(now, host)? {}
        for class in empty {
            self.hop.clear(now, host, class);
        }
        Ok(())
    }

    fn forward_one(&mut self, now: Instant, host: Host) -> Result<bool, Error> {
        let Some(router) = &self.router else { return Ok(false) };
        let [frame, ..] = &mut self.scratch.frames;
        let read = router.tun(host).read(frame)?;
        if read && let Some(delivery) = self.hop.leave(now, host, frame)? {
            self.hand_over(delivery, None);
        }
        Ok(read)
    }

    /// Passes a packet to its host; false if the host does not accept it.
    fn hand_over(&mut self, delivery: Delivery, next: Option<NextWait<'_>>) -> bool {
        let mut next = next.map(|next| next.or_before(self.hop.next_wakeup()));
        let (flows, packet, frame) = self.hop.arrival(delivery);
        let host = flows.receiver(delivery.host, packet, frame.bytes());
        if !flows.reaches(delivery.due, host, frame) {
            self.hop.lose(delivery, DropCause::Nat);
            return false;
        }
        let tun = self.tuns[host];
        if let Some(NextWait { waiter, .. }) = &mut next {
            // The host is likely to answer.
            waiter.expect(tun_name(host));
        }
        let accepted = flows.hand_over(delivery.host, packet, tun, frame.bytes(), next);
        self.not_taken += u64::from(!accepted);
        self.hop.finish(delivery);
        accepted
    }

    /// Takes the packets that a host has sent by `now`, up to a limit, beginning with those already read
    /// `ahead`. [`Emulator::deliver`] must be called first with the same `now`.
    pub fn receive(&mut self, now: Instant, host: usize, mut ahead: Option<&mut Reads>) -> io::Result<()> {
        for _ in 0..READ_MAX / READ_TOGETHER {
            let reads = ahead.take().unwrap_or_else(|| {
                self.tuns[host].read_some(&mut self.scratch);
                &mut self.scratch
            });
            let packets = reads.packets()?;
            for frame in &mut *packets {
                match self.hop.flows().0.neighbour(host, frame.bytes()) {
                    Some(neighbour) if self.tuns[neighbour].write(frame.bytes()) => {}
                    _ => {
                        self.hop.flows().0.leaves(now, host, frame);
                        self.hop.send(now, host, frame);
                    }
                }
            }
            if packets.len() < READ_TOGETHER {
                break;
            }
        }
        Ok(())
    }
}
