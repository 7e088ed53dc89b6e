//! Media, which both directions of a hop and all its stations share. A medium is a part of a network like
//! [`Path`](crate::Path), with the same rules for its owner, but one for both directions.

use lasthop_core::{
    Bytes, Direction, Instant, Observer, PacketArena, PacketId, Place, QueueDepth, Seed, dispatched, forward,
};

use crate::config::MediumSetup;
use crate::discipline::Packets;

mod cell;
mod wifi;

use cell::Cell;
use wifi::Wifi;

dispatched! {
    each:
    /// A running medium.
    #[derive(Debug)]
    pub enum Medium {
        /// Wi-Fi.
        Wifi(Wifi),
        /// A cell of a mobile network.
        Cell(Cell),
    }
}

impl Medium {
    /// An idle medium. `setup` must have passed its checks. `places` are those of its directions, down and
    /// up, by which it reports [`AirEvent`](lasthop_core::AirEvent)s.
    pub fn new(setup: &MediumSetup<'_>, mtu: Bytes, places: [Place; 2], seed: Seed) -> Self {
        match setup {
            MediumSetup::Wifi(wifi, stations) => Self::Wifi(Wifi::new(wifi, stations, mtu, places, seed)),
            MediumSetup::Cell(cell, users) => Self::Cell(Cell::new(cell, users, places, seed)),
        }
    }

    /// A packet arrives at the sender's queue: at that of the access point for a station if it goes down, at
    /// that of the station if it goes up. Stations count from 0, in the order of the setup.
    pub fn handle_packet<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        (station, direction): (usize, Direction),
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let packets = &mut Packets { now, arena, observer };
        each!(self, medium => medium.handle_packet(id, (station, direction), packets));
    }

    /// Handles everything due at or before `now`, in order of time.
    pub fn handle_wakeup<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        each!(self, medium => medium.handle_wakeup(now, arena, observer));
    }

    forward! {
        each:
        /// When [`Medium::handle_wakeup`] must be called next; none while the medium is empty.
        pub fn next_wakeup(&self) -> Option<Instant>;
        /// The next packet that its receiver has released; the caller owns it from then on.
        pub fn poll_delivery(&mut self) -> Option<PacketId>;
        /// The queues of all senders of a direction together.
        pub fn queue_depth(&self, direction: Direction) -> QueueDepth;
        /// Number of packets that were passed in and neither dropped nor fetched.
        pub fn packets_inside(&self) -> usize;
    }
}
