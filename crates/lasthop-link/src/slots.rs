//! Deliveries in bursts, as a medium makes them that gathers packets and sends them together: `slot` of
//! Linux' netem (`sch_netem.c`, `get_slot_next`).

use lasthop_core::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The slots of a link. A packet that reaches the far side when no slot is to come opens one, `every` later;
/// until then, the packets behind it join it. All of them are delivered at the slot.
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
