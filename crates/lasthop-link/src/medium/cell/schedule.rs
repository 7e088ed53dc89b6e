//! Assignment of slots to users.

use lasthop_core::{Duration, Instant, Rate};

use crate::config::{CellConfig, Scheduler};

/// A user that can have a block in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) user: usize,
    /// Its rate in this slot, if it had all of it.
    pub(super) rate: Rate,
    /// The part of a slot that it needs for all its data, in nanoseconds.
    pub(super) needed: u64,
    /// The part that it gets.
    pub(super) part: u64,
}

#[derive(Debug)]
pub(super) enum SlotSchedule {
    /// Equal parts, as ns-3's `RrFfMacScheduler` divides resource blocks.
    RoundRobin,
    ProportionalFair(Fairness),
}

/// The mean throughput of each user over an exponential window (Viswanath, Tse and Laroia, "Opportunistic
/// beamforming using dumb antennas", IEEE Trans. Information Theory 48, 2002, section II).
#[derive(Debug)]
pub(super) struct Fairness {
    tti: Duration,
    /// Weight of a slot in the mean.
    weight: f64,
    /// In bits per slot, up to the slot before `next`.
    means: Vec<f64>,
    next: Instant,
}

impl SlotSchedule {
    pub(super) fn new(cell: &CellConfig, users: usize) -> Self {
        match cell.scheduler {
            Scheduler::RoundRobin => Self::RoundRobin,
            Scheduler::ProportionalFair => Self::ProportionalFair(Fairness {
                tti: cell.tti,
                weight: 1.0 / cell.window_slots(),
                means: vec![0.0; users],
                next: Instant::ZERO,
            }),
        }
    }

    /// Divides the rest of the slot at `now`, in nanoseconds.
    pub(super) fn divide(&mut self, now: Instant, left: u64, wishes: &mut [Wish]) {
        match self {
            Self::RoundRobin => equally(left, wishes),
            Self::ProportionalFair(fairness) => fairness.divide(now, left, wishes),
        }
    }
}

/// Users that need less than an equal part leave the rest to the others.
fn equally(mut left: u64, wishes: &mut [Wish]) {
    wishes.sort_by_key(|wish| wish.needed);
    let count = wishes.len();
    for (index, wish) in wishes.iter_mut().enumerate() {
        wish.part = wish.needed.min(left / (count - index) as u64);
        left -= wish.part;
    }
}

impl Fairness {
    fn divide(&mut self, now: Instant, mut left: u64, wishes: &mut [Wish]) {
        // Nobody got anything in the slots between.
        let missed = now.saturating_since(self.next).as_nanos() / self.tti.as_nanos();
        if missed > 0 {
            let fade = libm::pow(1.0 - self.weight, missed as f64);
            self.means.iter_mut().for_each(|mean| *mean *= fade);
        }
        let priority = |wish: &Wish| wish.rate.bits_per_second() as f64 / self.means[wish.user];
        // Stable: among equals, the order of the users counts.
        wishes.sort_by(|wish, other| priority(other).total_cmp(&priority(wish)));
        self.means.iter_mut().for_each(|mean| *mean *= 1.0 - self.weight);
        for wish in wishes {
            wish.part = wish.needed.min(left);
            left -= wish.part;
            let bits = wish.rate.bits_per_second() as f64 * (wish.part as f64 / 1e9);
            self.means[wish.user] += self.weight * bits;
        }
        self.next = now + self.tti;
    }
}
