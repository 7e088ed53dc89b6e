//! Packets between the two TUN devices and the models between them.

use crate::clock::Clock;
use crate::hop::{Frame, Hop, Identify};
use crate::lateness::Lateness;
use crate::tun::Tun;
use lasthop_core::{Host, Instant, Observer, Packet};
use std::io;

/// Packets read of one host before the models are looked after again.
const READ_MAX: usize = 32;

/// The two devices, the models, and how late their packets were.
#[derive(Debug)]
pub struct Emulator<I, O> {
    /// The models.
    pub hop: Hop<I, O>,
    /// How late packets were delivered.
    pub lateness: Lateness,
    /// Packets that a host did not take, because it had brought its link down, say.
    pub not_taken: u64,
    server: Tun,
    client: Tun,
    clock: Clock,
    scratch: Frame,
}

impl<I: Identify, O: Observer> Emulator<I, O> {
    /// An emulator between two devices, for packets of up to `mtu` bytes.
    pub fn new(hop: Hop<I, O>, server: Tun, client: Tun, clock: Clock, mtu: usize) -> Self {
        let lateness = Lateness::default();
        Self { hop, lateness, not_taken: 0, server, client, clock, scratch: Frame::new(mtu) }
    }

    /// The device of a host.
    pub fn tun(&self, host: Host) -> &Tun {
        match host {
            Host::Server => &self.server,
            Host::Client => &self.client,
        }
    }

    /// Hands over every packet that is due by `now`, and tells of each once its host has it.
    pub fn deliver(
        &mut self,
        now: Instant,
        mut arrived: impl FnMut(&mut O, Instant, Host, &Packet),
    ) -> io::Result<()> {
        while let Some(delivery) = self.hop.poll_delivery(now) {
            let tun = match delivery.host {
                Host::Server => &self.server,
                Host::Client => &self.client,
            };
            let handed_over = self.clock.now()?;
            if tun.write(self.hop.frame(delivery)) {
                self.lateness.record(handed_over.saturating_since(delivery.due));
            } else {
                self.not_taken += 1;
            }
            let packet = self.hop.finish(delivery);
            arrived(self.hop.observer(), delivery.due, delivery.host, &packet);
        }
        Ok(())
    }

    /// Takes what a host has sent by `now`, up to a limit; [`Emulator::deliver`] for the same `now` comes first.
    pub fn receive(&mut self, now: Instant, host: Host) -> io::Result<()> {
        for _ in 0..READ_MAX {
            let tun = match host {
                Host::Server => &self.server,
                Host::Client => &self.client,
            };
            if !tun.read(&mut self.scratch)? {
                break;
            }
            self.hop.send(now, host, &mut self.scratch);
        }
        Ok(())
    }
}
