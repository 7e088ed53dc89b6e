//! The airtime of the stations of a medium.

use lasthop_core::{AirEvent, Duration, Instant, Place};
use lasthop_scenario::{PortSetup, Scenario, Tree};

use crate::records::StationRecord;

/// One direction of a station.
#[derive(Debug)]
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

    pub(super) fn finish(self, last_end: Instant) -> StationRecord {
        let mut record = self.record;
        record.airtime_share = share(std::iter::once(self.spent), last_end);
        let frames = record.frames as f64;
        record.frame_packets_mean = (frames > 0.0).then(|| record.sent_packets as f64 / frames);
        record
    }
}

/// The share of the time until the end of the last flow.
pub(super) fn share(spent: impl Iterator<Item = Duration>, last_end: Instant) -> Option<f64> {
    let seconds = last_end.as_secs_f64();
    (seconds > 0.0).then(|| spent.map(Duration::as_secs_f64).sum::<f64>() / seconds)
}
