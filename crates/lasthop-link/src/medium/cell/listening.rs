//! Discontinuous reception (3GPP TS 36.321 and TS 38.321, clause 5.7), with one length of cycle.

use lasthop_core::{Duration, Instant};

use crate::config::DrxConfig;

/// When each user listens.
#[derive(Debug)]
pub(super) struct Listening {
    on: u64,
    cycle: u64,
    /// Duration of listening from the start of a slot with new data.
    stays: Duration,
    users: Vec<User>,
}

#[derive(Clone, Copy, Debug)]
struct User {
    /// Where its cycles begin.
    offset: u64,
    /// It listens until then, regardless of the cycle.
    until: Instant,
}

impl Listening {
    pub(super) fn new(drx: &DrxConfig, tti: Duration, users: usize) -> Self {
        let (cycle, tti_ns) = (drx.cycle.as_nanos(), tti.as_nanos());
        let of = |number: usize| {
            let offset = cycle / tti_ns * number as u64 / users as u64 * tti_ns;
            User { offset, until: Instant::ZERO }
        };
        let stays = tti + drx.inactivity;
        Self { on: drx.on.as_nanos(), cycle, stays, users: (0..users).map(of).collect() }
    }

    /// The first time from `at` on at which a user listens.
    pub(super) fn next(&self, user: usize, at: Instant) -> Instant {
        let User { offset, until } = self.users[user];
        let phase = (at.as_nanos() + self.cycle - offset) % self.cycle;
        if at < until || phase < self.on { at } else { at + Duration::from_nanos(self.cycle - phase) }
    }

    /// A user receives or sends new data in the slot at `now`.
    pub(super) fn stir(&mut self, user: usize, now: Instant) {
        self.users[user].until = now + self.stays;
    }
}
