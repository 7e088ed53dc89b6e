//! BIC (Xu, Harfoush and Rhee 2004), as in Linux (`tcp_bic.c`): a binary search for the window between the one
//! before the last loss and the one after it, with steps of at most 16 segments per round trip, and beyond it
//! a search in growing steps.
//!
//! Linux goes a quarter of the distance per round trip instead of half of it, and spends twenty round trips on
//! the last four segments. It divides the number of segments per step by those that an ACK acknowledges.

use super::{Acked, Congestion, Controller, Moment, RateSample, Segments, Setup, Window};
use crate::clock::Tick;
use crate::common::State;

/// Up to this window BIC is Reno (`low_window`).
const LOW_WINDOW: u32 = 14;
/// Maximum growth per round trip in segments (`max_increment`, the paper's Smax).
const STEP_MAX: u32 = 16;
/// Part of the distance to the target that a step covers (`BICTCP_B`).
const PARTS: u32 = 4;
/// Round trips for the last segments before the target (`smooth_part`).
const SMOOTH_ROUNDS: u32 = 20;
/// Window after a loss in 1024ths.
const BETA: u32 = 819;
/// Segments per step while no loss has shown a target: 5 % of growth per round trip.
const COUNT_MAX_FIRST: u32 = 20;
/// The estimate of segments per ACK is in sixteenths.
const RATIO_SHIFT: u32 = 4;
/// A count holds for an unchanged window for this part of a second.
const COUNTS_PER_SECOND: u64 = 32;

#[derive(Clone, Debug)]
pub(crate) struct Bic {
    window: Segments,
    ticks_per_second: u64,
    state: State,
    search: Search,
}

/// The search for the window, which begins again after a timeout.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// The window at the last loss: the target. 0 before the first loss.
    target: u32,
    /// Segments to be acknowledged per segment of growth, the window for which this was computed, and when.
    count: u32,
    counted_for: u32,
    counted_at: Tick,
    /// Segments per ACK, in sixteenths.
    ratio: u32,
}

impl Search {
    const fn new() -> Self {
        Self { target: 0, count: 0, counted_for: 0, counted_at: 0, ratio: 2 << RATIO_SHIFT }
    }

    /// Segments to be acknowledged at this window for a segment of growth.
    fn count(&mut self, window: u32, now: Tick, ticks_per_second: u64) -> u32 {
        let is_fresh = now.saturating_sub(self.counted_at) <= ticks_per_second / COUNTS_PER_SECOND;
        if self.counted_for != window || !is_fresh {
            (self.counted_for, self.counted_at) = (window, now);
            self.count = if window <= LOW_WINDOW { window } else { self.count_per_ack(window) };
        }
        self.count
    }

    fn count_per_ack(&self, window: u32) -> u32 {
        let count = if window < self.target { self.approach(window) } else { self.probe(window) };
        let count = if self.target == 0 { count.min(COUNT_MAX_FIRST) } else { count };
        ((count << RATIO_SHIFT) / self.ratio).max(1)
    }

    /// Below the target: a part of the distance per round trip.
    fn approach(&self, window: u32) -> u32 {
        match (self.target - window) / PARTS {
            0 | 1 => window * SMOOTH_ROUNDS / PARTS,
            step => window / step.min(STEP_MAX),
        }
    }

    /// Beyond the target: slowly at first, then in steps that grow with the distance.
    fn probe(&self, window: u32) -> u32 {
        let beyond = window - self.target;
        if beyond < PARTS {
            window * SMOOTH_ROUNDS / PARTS
        } else if beyond < STEP_MAX * (PARTS - 1) {
            window * (PARTS - 1) / beyond
        } else {
            window / STEP_MAX
        }
    }

    /// A loss at this window. Returns the threshold. Fast convergence: if the window did not reach the target,
    /// the new target is below the window, to leave room for others.
    fn lose(&mut self, window: u32) -> u32 {
        self.target = if window < self.target { window * (1024 + BETA) / 2048 } else { window };
        let threshold = if window <= LOW_WINDOW { window / 2 } else { window * BETA / 1024 };
        threshold.max(2)
    }
}

impl Bic {
    pub fn new(setup: Setup<'_>) -> Self {
        Self {
            window: setup.window,
            ticks_per_second: setup.ticks_per_second,
            state: State::Open,
            search: Search::new(),
        }
    }
}

impl Controller for Bic {
    in_segments!(window);

    fn on_start(&mut self, _: &Moment, _: u64) {
        self.search = Search::new();
    }

    fn on_state(&mut self, _: &Moment, state: State) {
        self.state = state;
    }

    fn hears_every_ack(&self) -> bool {
        true
    }

    /// Segments per ACK, as a moving average.
    fn on_every_ack(&mut self, ack: &Acked) {
        if let (State::Open, Some(segments)) = (self.state, ack.acknowledged) {
            self.search.ratio = self.search.ratio + segments - (self.search.ratio >> RATIO_SHIFT);
        }
    }

    fn on_ack(&mut self, sample: &RateSample) {
        if !sample.is_window_limited {
            return;
        }
        let left = self.window.start_slowly(sample.acked);
        if left > 0 {
            let count = self.search.count(self.window.window(), sample.at.tick, self.ticks_per_second);
            self.window.avoid_congestion(left, count);
        }
    }

    fn on_congestion(&mut self, _: Congestion, flight: u32) {
        self.window.reduce(self.search.lose(flight));
    }

    fn on_persistent(&mut self, _: &Moment, window: u32) {
        self.window.restart(window);
        self.search = Search::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Profile, TcpConfig};
    use crate::control::Counting;

    /// In congestion avoidance with this window; ticks of 4 ms, an ACK for each segment.
    fn bic(window: u32, target: u32) -> Bic {
        let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        let mut segments = Segments::new(&config, 1_000, Counting::Segments);
        segments.set(window);
        segments.set_ssthresh(2);
        let mut bic = Bic::new(Setup::new(&config, segments, 250, 1_000));
        (bic.search.target, bic.search.ratio) = (target, 1 << RATIO_SHIFT);
        bic
    }

    fn at(tick: Tick) -> Moment {
        Moment { us: tick * 4_000, tick, una: 0, nxt: 0 }
    }

    /// The windows after each of these many round trips of 100 ms, with an ACK for each segment.
    fn rounds(bic: &mut Bic, number: u64) -> Vec<u32> {
        let round = |round: u64| {
            for _ in 0..bic.window.window() {
                let sample = RateSample { at: at(round * 25), acked: 1, is_window_limited: true, rate: None };
                bic.on_ack(&sample);
            }
            bic.window.window()
        };
        (1..=number).map(round).collect()
    }

    /// Section III of the paper: additive steps far from the target, then a binary search, then the search
    /// beyond it.
    #[test]
    fn the_window_approaches_the_target_in_ever_smaller_steps_and_then_leaves_it() {
        let mut bic = bic(200, 300);
        let windows = rounds(&mut bic, 100);
        let steps: Vec<u32> = windows.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[0] >= 14 && steps[0] <= 17, "{windows:?}");
        let slowest = steps.iter().position(|step| *step <= 1).expect("the target is approached slowly");
        assert!(steps[..slowest].is_sorted_by(|a, b| a >= b), "{windows:?}");
        assert!((290..=304).contains(&windows[slowest]), "{windows:?}");
        assert!(*windows.last().expect("a round") > 304, "{windows:?}");
    }

    #[test]
    fn the_count_follows_the_distance_to_the_target() {
        let count = |window, target| bic(window, target).search.count(window, 1_000, 250);
        assert_eq!(count(14, 300), 14, "as Reno");
        assert_eq!(count(160, 300), 10, "at most 16 segments per round trip");
        assert_eq!(count(160, 200), 16, "a quarter of 40");
        assert_eq!(count(160, 164), 800, "the last four segments take twenty round trips");
        assert_eq!(count(160, 158), 800, "so do the first four beyond it");
        assert_eq!(count(160, 150), 48, "then ten thirds of a segment per round trip");
        assert_eq!(count(160, 100), 10, "and at most 16");
        assert_eq!(count(160, 0), 10, "without a target");
        assert_eq!(count(400, 0), 20, "5 % per round trip at least");
        let mut slow = bic(160, 164);
        slow.search.ratio = 2 << RATIO_SHIFT;
        assert_eq!(slow.search.count(160, 1_000, 250), 400, "an ACK for two segments");
    }

    #[test]
    fn a_count_holds_for_a_32nd_of_a_second_while_the_window_stays() {
        let mut bic = bic(160, 200);
        assert_eq!(bic.search.count(160, 100, 250), 16);
        bic.search.target = 164;
        assert_eq!(bic.search.count(160, 107, 250), 16, "seven ticks");
        assert_eq!(bic.search.count(160, 108, 250), 800);
    }

    #[test]
    fn a_loss_takes_a_fifth_and_below_the_target_the_next_one_is_lower() {
        let mut bic = bic(100, 0);
        bic.on_congestion(Congestion::Loss, 100);
        assert_eq!((bic.ssthresh(), bic.search.target), (79, 100));
        bic.on_congestion(Congestion::Loss, 90);
        assert_eq!((bic.ssthresh(), bic.search.target), (71, 80), "fast convergence");
        bic.on_congestion(Congestion::Loss, 14);
        assert_eq!(bic.ssthresh(), 7, "a small window is halved");
        bic.on_congestion(Congestion::Loss, 1);
        assert_eq!(bic.ssthresh(), 2);
    }

    #[test]
    fn a_timeout_forgets_the_target() {
        let mut bic = bic(100, 300);
        bic.on_timeout(&at(5), 100, 1);
        assert_eq!((bic.window(), bic.ssthresh()), (1, 79));
        assert_eq!((bic.search.target, bic.search.ratio), (0, 32));
    }

    #[test]
    fn segments_per_ack_are_averaged_without_signs_of_loss() {
        let mut bic = bic(100, 300);
        let mut ack = |acknowledged, state| {
            bic.on_state(&at(1), state);
            let none = Acked { at: at(1), is_predicted: true, acknowledged, delivered: 0, delivered_ce: 0 };
            bic.on_every_ack(&none);
            bic.search.ratio
        };
        assert_eq!(ack(Some(2), State::Open), 16 + 2 - 1);
        assert_eq!(ack(Some(0), State::Open), 17 - 1);
        assert_eq!(ack(Some(9), State::Recovery), 16);
        assert_eq!(ack(None, State::Open), 16, "nothing was outstanding");
    }
}
