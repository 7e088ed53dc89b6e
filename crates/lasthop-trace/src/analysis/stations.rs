//! The airtime of the stations of a medium.

use lasthop_core::{AirEvent, Duration, Instant, Place};
use lasthop_scenario::{PortSetup, Scenario, Tree};

use crate::records::StationRecord;

/// One direction of a station.
#[derive(Clone, Debug)]
pub(super) struct Station {
    record: StationRecord,
    /// Time on the air.
    pub(super) spent: Duration,
}

impl Station {
    /// The stations of a direction of a hop; none of a link.
    pub(super) fn all(scenario: &Scenario, tree: &Tree, place: Place) -> Vec<Self> {
        let PortSetup::Medium(..) = scenario.side(tree, place) else { return Vec::new() };
        let (hop, direction) = tree.at(place);
        let hop = tree.name(hop);
        let record = |station: &str| StationRecord {
            hop: hop.to_owned(),
            station: station.to_owned(),
            direction,
            ..StationRecord::default()
        };
        let new = |station| Self { record: record(station), spent: Duration::ZERO };
        scenario.stations(hop).map(new).collect()
    }

    pub(super) fn count(&mut self, event: AirEvent) {
        let record = &mut self.record;
        record.frames += 1;
        record.collisions += u64::from(event.collided);
        record.sent_packets += u64::from(event.packets);
        record.failed_packets += u64::from(event.failed);
        self.spent += event.spent;
    }

    pub(super) fn restart(&mut self) {
        let StationRecord { hop, station, direction, .. } = std::mem::take(&mut self.record);
        self.record = StationRecord { hop, station, direction, ..StationRecord::default() };
        self.spent = Duration::ZERO;
    }

    pub(super) fn finish(self, counted: [Instant; 2]) -> StationRecord {
        let mut record = self.record;
        record.airtime_share = share(std::iter::once(self.spent), counted);
        let frames = record.frames as f64;
        record.frame_packets_mean = (frames > 0.0).then(|| record.sent_packets as f64 / frames);
        record
    }
}

/// The share of the time that is counted.
pub(super) fn share(spent: impl Iterator<Item = Duration>, [from, last_end]: [Instant; 2]) -> Option<f64> {
    let seconds = last_end.saturating_since(from).as_secs_f64();
    (seconds > 0.0).then(|| spent.map(Duration::as_secs_f64).sum::<f64>() / seconds)
}
