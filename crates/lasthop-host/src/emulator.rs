//! Packets between the two TUN devices and the models between them.

use crate::clock::Clock;
use crate::hop::{Flows, Frame, Hop};
use crate::lateness::Lateness;
use crate::tun::Tun;
use lasthop_core::{Host, Instant, Observer};
use std::io;

/// Packets read of one host before the models are looked after again.
const READ_MAX: usize = 32;

/// The two devices, the models, and how late their packets were.
#[derive(Debug)]
pub struct Emulator<'a, F, O> {
    /// The models.
    pub hop: Hop<F, O>,
    /// How late packets were delivered.
    pub lateness: Lateness,
    /// Packets that a host did not take, because it had brought its link down, say.
    pub not_taken: u64,
    server: &'a Tun,
    client: &'a Tun,
    clock: Clock,
    scratch: Frame,
}

impl<'a, F: Flows, O: Observer> Emulator<'a, F, O> {
    /// An emulator between two devices, for packets of up to `mtu` bytes.
    pub fn new(hop: Hop<F, O>, server: &'a Tun, client: &'a Tun, clock: Clock, mtu: usize) -> Self {
        let lateness = Lateness::default();
        Self { hop, lateness, not_taken: 0, server, client, clock, scratch: Frame::new(mtu) }
    }

    /// The device of a host.
    pub fn tun(&self, host: Host) -> &'a Tun {
        match host {
            Host::Server => self.server,
            Host::Client => self.client,
        }
    }

    /// Hands over every packet that is due by `now`.
    pub fn deliver(&mut self, now: Instant) -> io::Result<()> {
        let mut first = Some(now);
        while let Some(delivery) = self.hop.poll_delivery(now) {
            let handed_over = first.take().map_or_else(|| self.clock.now(), Ok)?;
            if self.tun(delivery.host).write(self.hop.frame(delivery)) {
                self.lateness.record(handed_over.saturating_since(delivery.due));
            } else {
                self.not_taken += 1;
            }
            self.hop.finish(delivery);
        }
        Ok(())
    }

    /// Takes what a host has sent by `now`, up to a limit; [`Emulator::deliver`] for the same `now` comes first.
    pub fn receive(&mut self, now: Instant, host: Host) -> io::Result<()> {
        for _ in 0..READ_MAX {
            if !self.tun(host).read(&mut self.scratch)? {
                break;
            }
            self.hop.send(now, host, &mut self.scratch);
        }
        Ok(())
    }
}
