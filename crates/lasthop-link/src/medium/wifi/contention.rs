//! Contention: carrier sense and binary exponential backoff (IEEE 802.11-2020, clauses 10.3.3 and
//! 10.3.4), for one category of each node (EDCA, clause 10.23.2).

use lasthop_core::{Dscp, Duration, Instant, RandomStream};

use super::timing::Phy;
use crate::config::Standard;

/// The parameters of an access category.
#[derive(Clone, Copy, Debug)]
pub(super) struct Category {
    /// The idle time before a backoff: SIFS and `AIFSN` slots.
    pub(super) ifs: Duration,
    pub(super) cw_min: u32,
    pub(super) cw_max: u32,
    /// True if the backoff counter decrements at the start of each slot, including the slot in which another node
    /// begins (EDCA, clause 10.23.2.4); false if at the end (clause 10.3.3).
    counts_early: bool,
    /// The longest transmission, if limited.
    pub(super) txop: Option<Duration>,
}

/// The categories of EDCA, in the order of [`Access::of`].
pub(super) const BEST_EFFORT: usize = 0;
const BACKGROUND: usize = 1;
const VIDEO: usize = 2;
const VOICE: usize = 3;

/// The categories from the lowest to the highest priority (table 10-1).
const RANKS: [u8; 4] = [1, 0, 2, 3];

/// The rank of a category: of two categories of a node that may send, the higher one goes first.
pub(super) const fn rank(category: usize) -> u8 {
    RANKS[category]
}

/// The categories of a standard: one without quality of service, else the four of table 9-155, at access
/// point and stations alike.
pub(super) fn categories(standard: Standard, phy: Phy) -> Vec<Category> {
    let of = |slots: u64, cw_min, cw_max, txop: u64| Category {
        ifs: phy.sifs + Duration::from_nanos(slots * phy.slot.as_nanos()),
        cw_min,
        cw_max,
        counts_early: standard.aggregates(),
        txop: (txop > 0).then(|| Duration::from_micros(txop)),
    };
    match standard {
        Standard::B => vec![of(2, 31, 1023, 0)],
        Standard::A | Standard::G => vec![of(2, 15, 1023, 0)],
        Standard::N | Standard::Ac | Standard::Ax => {
            vec![of(3, 15, 1023, 0), of(7, 15, 1023, 0), of(2, 7, 15, 4_096), of(2, 3, 7, 2_080)]
        }
    }
}

/// The category of a code point: the mapping of RFC 8325, section 4.3.
pub(super) fn category_of(dscp: Dscp) -> usize {
    match dscp.get() {
        // EF, VOICE-ADMIT, CS6, CS7.
        44 | 46 | 48 | 56 => VOICE,
        // CS3, AF3x, CS4, AF4x, CS5.
        24 | 26 | 28 | 30 | 32 | 34 | 36 | 38 | 40 => VIDEO,
        // LE (RFC 8622) and CS1.
        1 | 8 => BACKGROUND,
        _ => BEST_EFFORT,
    }
}

/// One category of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub(super) category: Category,
    cw: u32,
    /// Idle slots still to wait, counted at the end of the last time that the air was busy.
    counter: u32,
    /// True if it has a frame to send.
    pub(super) waits: bool,
    /// Time from which it has a frame to send.
    since: Instant,
    /// How much earlier the channel is idle for it than for the others: a sender without an answer detects this
    /// before EIFS is over.
    early: Duration,
    /// Failures in a row.
    failures: u32,
}

impl Contender {
    pub(super) const fn new(category: Category) -> Self {
        let cw = category.cw_min;
        Self {
            category,
            cw,
            counter: 0,
            waits: false,
            since: Instant::ZERO,
            early: Duration::ZERO,
            failures: 0,
        }
    }

    /// When it sends if no other node does and the channel is idle since `free`; never without a frame.
    pub(super) fn start(&self, free: Instant, slot: Duration) -> Instant {
        if !self.waits {
            return Instant::MAX;
        }
        let slot = slot.as_nanos();
        let first = self.first_slot(free);
        // Slots go on while nobody sends, so a frame that comes then waits for the next one.
        let passed = self.since.saturating_since(first).as_nanos().div_ceil(slot);
        first + Duration::from_nanos(u64::from(self.counter).max(passed) * slot)
    }

    /// When its slots begin.
    fn first_slot(&self, free: Instant) -> Instant {
        Instant::from_nanos((free + self.category.ifs).as_nanos().saturating_sub(self.early.as_nanos()))
    }

    /// It has a frame to send from now on. A node that finds the channel idle needs no backoff, unless that of
    /// its last frame is not over (clause 10.3.4.2).
    pub(super) fn begin(&mut self, now: Instant, is_busy: bool, stream: &mut RandomStream) {
        (self.waits, self.since) = (true, now);
        if is_busy && self.counter == 0 {
            self.draw(stream);
        }
    }

    /// Another node transmits from `now`; the slots that have passed since `free` count.
    pub(super) fn freeze(&mut self, free: Instant, now: Instant, slot: Duration, stream: &mut RandomStream) {
        let first = self.first_slot(free);
        self.early = Duration::ZERO;
        if self.counter > 0 {
            let idle = now.saturating_since(first).as_nanos() / slot.as_nanos();
            let begun = u64::from(self.category.counts_early && now >= first);
            self.counter = self.counter.saturating_sub(u32::try_from(idle + begun).unwrap_or(u32::MAX));
        } else if self.waits {
            // It waited for the end of its idle time only.
            self.draw(stream);
        }
    }

    /// Its frame was acknowledged or dropped.
    pub(super) fn succeeded(&mut self, stream: &mut RandomStream) {
        (self.cw, self.failures, self.early) = (self.category.cw_min, 0, Duration::ZERO);
        self.draw(stream);
    }

    /// Its frame was not acknowledged.
    pub(super) fn failed(&mut self, retries: u32, early: Duration, stream: &mut RandomStream) {
        self.failures += 1;
        if self.failures > retries {
            self.succeeded(stream);
            self.early = early;
            return;
        }
        self.early = early;
        self.cw = (2 * self.cw + 1).min(self.category.cw_max);
        self.draw(stream);
    }

    fn draw(&mut self, stream: &mut RandomStream) {
        self.counter = (stream.unit() * f64::from(self.cw + 1)) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voice_video_and_background_have_categories_of_their_own() {
        let of = |name: &str| category_of(name.parse().unwrap());
        assert_eq!(["EF", "AF41", "CS1", "BE", "AF11", "CS3", "CS6"].map(of), [3, 2, 1, 0, 0, 2, 3]);
        assert!(rank(VOICE) > rank(VIDEO) && rank(VIDEO) > rank(BEST_EFFORT));
        assert!(rank(BEST_EFFORT) > rank(BACKGROUND));
    }
}
