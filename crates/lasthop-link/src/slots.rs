//! Deliveries in bursts, as by a medium that aggregates packets: `slot` of Linux' netem (`sch_netem.c`,
//! `get_slot_next`).

use lasthop_core::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The slots of a link. A packet that reaches the far side while no slot is scheduled schedules one, `every`
/// later; it is delivered at the slot with all packets that arrive until then.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    every: Duration,
    /// The latest slot so far.
    latest: Instant,
}

impl Slots {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, latest: Instant::ZERO }
    }

    /// The slot of a packet that would arrive at `arrival`.
    pub(crate) fn of(&mut self, arrival: Instant) -> Instant {
        if self.latest < arrival {
            self.latest = arrival + self.every;
        }
        self.latest
    }
}
