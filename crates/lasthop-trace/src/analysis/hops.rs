//! The records of hops in a network of several hops, and the waits and drops of a flow's packets along their route.

use std::collections::VecDeque;

use lasthop_core::{
    AirEvent, Direction, DropCause, DropCount, DropPlace, Duration, FlowId, FlowInfo, Instant, Packet,
    PacketEvent, Place,
};
use lasthop_link::Capacity;
use lasthop_scenario::{Scenario, Tree};

use super::stations::{Station, share};
use crate::records::{FlowRecord, HopRecord, StationRecord};
use crate::samples::Samples;

#[derive(Clone, Debug)]
pub(super) struct Hops {
    tree: Tree,
    /// By place.
    sides: Vec<HopDirection>,
    /// By [`FlowId`].
    flows: Vec<FlowHops>,
    waited: Waited,
    /// By place: the stations, of a medium.
    stations: Vec<Vec<Station>>,
}

/// The waiting time so far of each packet in flight. Serials ascend, and packets are in flight for a short time,
/// so the entries are contiguous.
#[derive(Clone, Debug, Default)]
struct Waited {
    /// The serial of the first.
    first: u64,
    /// The waits of the packets from there on; `None` for a packet that is not on its way.
    waits: VecDeque<Option<Duration>>,
}

impl Waited {
    fn add(&mut self, serial: u64, wait: Duration) {
        if self.waits.is_empty() {
            self.first = serial;
        }
        while serial < self.first {
            self.waits.push_front(None);
            self.first -= 1;
        }
        let index = (serial - self.first) as usize;
        if let Some(waited) = self.waits.get_mut(index) {
            *waited = Some(waited.unwrap_or_default() + wait);
        } else {
            while self.waits.len() < index {
                self.waits.push_back(None);
            }
            self.waits.push_back(Some(wait));
        }
    }

    fn take(&mut self, serial: u64) -> Duration {
        let index = serial.checked_sub(self.first).map(|index| index as usize);
        let wait = index.and_then(|index| self.waits.get_mut(index)?.take());
        while let Some(None) = self.waits.front() {
            self.waits.pop_front();
            self.first += 1;
        }
        wait.unwrap_or_default()
    }
}

/// One direction of a hop.
#[derive(Clone, Debug)]
struct HopDirection {
    capacity: Capacity,
    record: HopRecord,
    queue_delay: Samples,
    /// The length of the queue now, and since when.
    queue_packets: u32,
    since: Instant,
    /// When the packet is sent that left the queue last.
    sent_at: Instant,
    busy: Duration,
}

#[derive(Clone, Debug)]
struct FlowHops {
    data: Direction,
    queue_delay: Samples,
    /// Data packets dropped, by hop.
    drops: Vec<(usize, u64)>,
    /// The flow that it carries a part of.
    part_of: Option<FlowId>,
}

impl Hops {
    /// The hops of a scenario, if it has several with names.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        if !scenario.names_hops() {
            return None;
        }
        let tree = scenario.tree();
        let side = |place| {
            let (hop, direction) = tree.at(place);
            let capacity = scenario.side(&tree, place).capacity(scenario.mtu.0 as u32);
            HopDirection::new(capacity, tree.name(hop), direction)
        };
        let sides = tree.places().map(side).collect();
        let stations = tree.places().map(|place| Station::all(scenario, &tree, place)).collect();
        Some(Self { tree, sides, flows: Vec::new(), waited: Waited::default(), stations })
    }

    pub fn announce(&mut self, info: &FlowInfo, is_kept: bool) {
        let queue_delay = if is_kept { Samples::default() } else { Samples::Ignored };
        self.flows.push(FlowHops {
            data: Direction::from(info.sender),
            queue_delay,
            drops: Vec::new(),
            part_of: info.part.of(FlowId(self.flows.len() as u32)),
        });
    }

    /// Handles each event, apart from the analysis of a single hop, which the compiler arranges by counts
    /// of runs without trees. The caller knows the event.
    #[allow(clippy::inline_always, reason = "else it would be a function with a choice at every turn")]
    #[inline(always)]
    pub fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        match event {
            PacketEvent::Enqueued(depth) => self.enqueued(now, packet, depth.packets),
            PacketEvent::Dequeued(depth) => self.dequeued(now, packet, depth.packets),
            PacketEvent::Forwarded | PacketEvent::Duplicated => self.left(packet),
            PacketEvent::Delivered => self.delivered(packet),
            PacketEvent::Marked => self.marked(packet),
            PacketEvent::Dropped(cause) => self.dropped(now, packet, cause),
            PacketEvent::Sent | PacketEvent::LinkRetry => {}
        }
    }

    #[inline(never)]
    fn enqueued(&mut self, now: Instant, packet: &Packet, depth: u32) {
        let Some(side) = self.side(packet) else { return };
        side.record.packets_in += 1;
        side.record.bytes_in += u64::from(packet.ip_bytes);
        side.record.queue_depth_max = side.record.queue_depth_max.max(u64::from(depth));
        side.queue(now, depth);
    }

    #[inline(never)]
    fn dequeued(&mut self, now: Instant, packet: &Packet, depth: u32) {
        let waited = now.saturating_since(packet.queued_at);
        if self.is_data(packet) {
            self.waited.add(packet.serial, waited);
        }
        let Some(side) = self.side(packet) else { return };
        side.queue_delay.record(waited);
        side.queue(now, depth);
        side.sent_at = side.sent_at.max(now) + side.capacity.time(packet.ip_bytes, now);
    }

    #[inline(never)]
    fn delivered(&mut self, packet: &Packet) {
        if self.is_data(packet) {
            let waited = self.waited.take(packet.serial);
            self.flows[packet.flow.0 as usize].queue_delay.record(waited);
        }
        self.left(packet);
    }

    #[inline(never)]
    fn left(&mut self, packet: &Packet) {
        if let Some(side) = self.side(packet) {
            side.record.packets_out += 1;
            side.record.bytes_out += u64::from(packet.ip_bytes);
        }
    }

    #[inline(never)]
    fn marked(&mut self, packet: &Packet) {
        if let Some(side) = self.side(packet) {
            side.record.marks += 1;
        }
    }

    #[inline(never)]
    fn dropped(&mut self, now: Instant, packet: &Packet, cause: DropCause) {
        if self.is_data(packet) {
            self.waited.take(packet.serial);
            let (hop, _) = self.tree.at(packet.place);
            let flow = &mut self.flows[packet.flow.0 as usize];
            flow.dropped_at(hop);
            if let Some(whole) = flow.part_of {
                self.flows[whole.0 as usize].dropped_at(hop);
            }
        }
        if let Some(side) = self.side(packet) {
            side.dropped(now, packet, cause);
        }
    }

    #[inline]
    fn is_data(&self, packet: &Packet) -> bool {
        self.flows[packet.flow.0 as usize].data == packet.direction
    }

    /// Where a packet is; a packet that comes over an access link has left its last hop already.
    #[inline]
    fn side(&mut self, packet: &Packet) -> Option<&mut HopDirection> {
        self.sides.get_mut(usize::from(packet.place.0))
    }

    pub fn air(&mut self, place: Place, event: AirEvent) {
        self.stations[usize::from(place.0)][usize::from(event.station)].count(event);
    }

    pub fn finish_flow(&mut self, id: FlowId, record: &mut FlowRecord) {
        let flow = &mut self.flows[id.0 as usize];
        record.set_queue_delay(std::mem::take(&mut flow.queue_delay));
        flow.drops.sort_unstable();
        let words = flow.drops.iter().map(|(hop, drops)| format!("{} {drops}", self.tree.name(*hop)));
        record.drop_hops = words.collect::<Vec<_>>().join(", ");
    }

    pub fn restart(&mut self, now: Instant) {
        for side in &mut self.sides {
            side.restart(now);
        }
        for flow in &mut self.flows {
            flow.queue_delay.restart();
            flow.drops.clear();
        }
        self.stations.iter_mut().flatten().for_each(Station::restart);
    }

    /// The records of a run that ended at `end`, in the order of the tree: those of hops, and those of stations.
    /// What they count happened in the time `counted`.
    pub fn finish(mut self, counted: [Instant; 2], end: Instant) -> (Vec<HopRecord>, Vec<StationRecord>) {
        let (mut records, mut of_stations) = (Vec::new(), Vec::new());
        for hop in 0..self.tree.len() {
            for direction in [Direction::Down, Direction::Up] {
                let place = self.tree.place(hop, direction);
                let side = &mut self.sides[usize::from(place.0)];
                let mut record = side.finish(counted, end);
                let stations = std::mem::take(&mut self.stations[usize::from(place.0)]);
                if !stations.is_empty() {
                    record.busy_share = share(stations.iter().map(|station| station.spent), counted);
                }
                of_stations.extend(stations.into_iter().map(|station| station.finish(counted)));
                records.push(record);
            }
        }
        (records, of_stations)
    }
}

impl FlowHops {
    fn dropped_at(&mut self, hop: usize) {
        match self.drops.iter_mut().find(|(known, _)| *known == hop) {
            Some((_, drops)) => *drops += 1,
            None => self.drops.push((hop, 1)),
        }
    }
}

impl HopDirection {
    fn new(capacity: Capacity, hop: &str, direction: Direction) -> Self {
        Self {
            capacity,
            record: HopRecord { hop: hop.to_owned(), direction, ..HopRecord::default() },
            queue_delay: Samples::default(),
            queue_packets: 0,
            since: Instant::ZERO,
            sent_at: Instant::ZERO,
            busy: Duration::ZERO,
        }
    }

    fn dropped(&mut self, now: Instant, packet: &Packet, cause: DropCause) {
        let record = &mut self.record;
        *match cause.labels().count {
            DropCount::Queue => &mut record.drops_queue,
            DropCount::Red => &mut record.drops_red,
            DropCount::Error => &mut record.drops_error,
            DropCount::Aqm | DropCount::EarlyPacket | DropCount::Selective => &mut record.drops_aqm,
        } += 1;
        match cause.labels().place {
            DropPlace::Arrival => {
                record.packets_in += 1;
                record.bytes_in += u64::from(packet.ip_bytes);
            }
            DropPlace::Queue => self.queue(now, self.queue_packets.saturating_sub(1)),
            DropPlace::Link => {}
        }
    }

    fn queue(&mut self, now: Instant, packets: u32) {
        let busy_until = if self.queue_packets > 0 { now } else { self.sent_at.min(now) };
        self.busy += busy_until.saturating_since(self.since);
        (self.queue_packets, self.since) = (packets, now);
    }

    fn restart(&mut self, now: Instant) {
        self.queue(now, self.queue_packets);
        let HopRecord { hop, direction, .. } = std::mem::take(&mut self.record);
        let queue_depth_max = u64::from(self.queue_packets);
        self.record = HopRecord { hop, direction, queue_depth_max, ..HopRecord::default() };
        self.queue_delay.restart();
        self.busy = Duration::ZERO;
    }

    fn finish(&mut self, [from, last_end]: [Instant; 2], end: Instant) -> HopRecord {
        self.queue(end, 0);
        let mut record = std::mem::take(&mut self.record);
        [record.queue_delay_p50_s, record.queue_delay_p95_s, record.queue_delay_p99_s] =
            std::mem::take(&mut self.queue_delay).quantiles_s([0.5, 0.95, 0.99]);
        let capacity = self.capacity.bytes(from, last_end);
        record.utilisation = (capacity > 0.0).then(|| record.bytes_out as f64 / capacity);
        let duration_s = last_end.saturating_since(from).as_secs_f64();
        record.throughput_Bps = (duration_s > 0.0).then(|| record.bytes_out as f64 / duration_s);
        record.busy_share = (duration_s > 0.0).then(|| self.busy.as_secs_f64() / duration_s);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_packet_waited_at_each_hop_is_added_up_and_forgotten_at_its_end() {
        let ms = Duration::from_millis;
        let mut waited = Waited::default();
        for (serial, wait) in [(7, 1), (9, 2), (5, 4), (7, 8), (9, 16)] {
            waited.add(serial, ms(wait));
        }
        assert_eq!([5, 6, 7, 7, 9].map(|serial| waited.take(serial)), [ms(4), ms(0), ms(9), ms(0), ms(18)]);
        assert!(waited.waits.is_empty());
    }
}
