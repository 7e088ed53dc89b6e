//! The router queue and the link in the data direction.

use super::RunInfo;
use crate::records::RunRecord;
use lasthop_core::{Direction, Instant, Packet, Place, QueueDepth};

/// Load and queue of the last hop in the data direction of the first flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Bottleneck {
    direction: Option<Direction>,
    place: Place,
    delivered_bytes: u64,
    /// The length of the queue now, and since when.
    queue_packets: u32,
    since: Instant,
    /// Integral of the length over time, in packet-nanoseconds.
    area: u128,
    queue_max_packets: Option<u32>,
    red_average_max: Option<f64>,
}

impl Bottleneck {
    /// A flow with data in this direction was announced; `places` are the bottlenecks of both directions.
    pub(super) fn announce(&mut self, data: Direction, places: [Place; 2]) {
        self.place = places[*self.direction.get_or_insert(data) as usize];
    }

    /// The data direction of the first flow.
    pub(super) fn direction(&self) -> Direction {
        self.direction.unwrap_or_default()
    }

    /// A packet has crossed a hop; true if it was this one.
    pub(super) fn crossed(&mut self, packet: &Packet) -> bool {
        let is_measured = packet.place == self.place;
        self.delivered_bytes += if is_measured { u64::from(packet.ip_bytes) } else { 0 };
        is_measured
    }

    /// A packet has entered or left the router queue.
    #[inline]
    pub(super) fn queue(&mut self, now: Instant, packet: &Packet, depth: QueueDepth) {
        if packet.place != self.place {
            return;
        }
        self.advance(now);
        self.queue_packets = depth.packets;
        self.queue_max_packets = self.queue_max_packets.max(Some(depth.packets));
        if !depth.average.is_nan() {
            self.red_average_max =
                Some(self.red_average_max.map_or(depth.average, |max| max.max(depth.average)));
        }
    }

    pub(super) fn lost_from_queue(&mut self, now: Instant, packet: &Packet) {
        if packet.place == self.place {
            self.advance(now);
            self.queue_packets = self.queue_packets.saturating_sub(1);
        }
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.advance(now);
        (self.area, self.delivered_bytes, self.red_average_max) = (0, 0, None);
        self.queue_max_packets = self.queue_max_packets.map(|_| self.queue_packets);
    }

    fn advance(&mut self, now: Instant) {
        let nanos = now.saturating_since(self.since).as_nanos();
        self.area += u128::from(self.queue_packets) * u128::from(nanos);
        self.since = now;
    }

    /// Fills in the bottleneck's part of the record, from the start of counting to the end of the last flow.
    /// Packets in the queue after that count, too: they are part of the flows' work.
    pub(super) fn finish(
        mut self,
        info: &RunInfo,
        [from, last_end]: [Instant; 2],
        end: Instant,
        record: &mut RunRecord,
    ) {
        self.advance(end);
        let duration_s = last_end.saturating_since(from).as_secs_f64();
        record.bottleneck.clone_from(&info.bottlenecks[self.direction() as usize]);
        record.queue_max_packets = self.queue_max_packets.map(u64::from);
        record.red_average_max = self.red_average_max;
        if duration_s > 0.0 {
            record.queue_mean_packets = self.queue_max_packets.map(|_| self.area as f64 / 1e9 / duration_s);
            let capacity = info.capacities[self.direction() as usize].bytes(from, last_end);
            record.utilisation = (capacity > 0.0).then(|| self.delivered_bytes as f64 / capacity);
        }
    }
}
