//! Wi-Fi: an access point and its stations.

use std::collections::VecDeque;

use lasthop_core::{
    Bytes, Direction, Instant, Observer, PacketArena, PacketEvent, PacketId, QueueDepth, Rate, Seed,
};

use crate::config::{WifiConfig, WifiStation};

/// One frame after the other, in the order of arrival.
#[derive(Debug)]
pub struct Wifi {
    rates: Vec<Rate>,
    waiting: [VecDeque<(PacketId, usize, u32)>; 2],
    sending: Option<(Instant, PacketId)>,
    released: VecDeque<PacketId>,
}

impl Wifi {
    pub(super) fn new(wifi: &WifiConfig, stations: &[&WifiStation], _mtu: Bytes, _seed: Seed) -> Self {
        let rates = stations.iter().map(|station| station.course(wifi)[0].1).collect();
        Self { rates, waiting: Default::default(), sending: None, released: VecDeque::new() }
    }

    pub(super) fn handle_packet<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        (station, direction): (usize, Direction),
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        let packet = arena.get_mut(id);
        packet.queued_at = now;
        self.waiting[direction as usize].push_back((id, station, packet.ip_bytes));
        observer.packet(now, PacketEvent::Enqueued(self.queue_depth(direction)), packet);
        self.send(now, arena, observer);
    }

    fn send<O: Observer>(&mut self, now: Instant, arena: &mut PacketArena, observer: &mut O) {
        for direction in [Direction::Down, Direction::Up] {
            if self.sending.is_none()
                && let Some((id, station, ip_bytes)) = self.waiting[direction as usize].pop_front()
            {
                self.sending = Some((now + self.rates[station].transmission_time(ip_bytes), id));
                let event = PacketEvent::Dequeued(self.queue_depth(direction));
                let packet = arena.get_mut(id);
                observer.packet(now, event, packet);
                packet.queued_at = Instant::MAX;
            }
        }
    }

    pub(super) fn handle_wakeup<O: Observer>(
        &mut self,
        now: Instant,
        arena: &mut PacketArena,
        observer: &mut O,
    ) {
        while let Some((due, id)) = self.sending.take_if(|(due, _)| *due <= now) {
            self.released.push_back(id);
            self.send(due, arena, observer);
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.sending.map(|(due, _)| due)
    }

    pub(super) fn poll_delivery(&mut self) -> Option<PacketId> {
        self.released.pop_front()
    }

    pub(super) fn queue_depth(&self, direction: Direction) -> QueueDepth {
        let waiting = &self.waiting[direction as usize];
        let packets = waiting.len() as u32;
        let bytes = waiting.iter().map(|(_, _, bytes)| bytes).sum();
        QueueDepth { packets, bytes, class: 0, class_packets: packets, average: f64::NAN }
    }

    pub(super) fn packets_inside(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum::<usize>()
            + usize::from(self.sending.is_some())
            + self.released.len()
    }
}
