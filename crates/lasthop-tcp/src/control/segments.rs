//! A window in segments, as in Linux.

use super::{Prior, RateSample, Window};
use crate::common::State;
use crate::config::{SizeLimit, TcpConfig};

/// The unit of growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Every ACK counts as one, and a window of ACKs must pass first (Linux up to 2.6).
    Acks,
    /// Every acknowledged segment counts (Linux since 3.18).
    Segments,
}

/// Window, threshold, and the count towards the next segment of congestion avoidance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    cwnd: u32,
    ssthresh: u32,
    count: u32,
    counting: Counting,
}

impl Segments {
    /// The initial window.
    pub fn new(config: &TcpConfig, mss: u32, counting: Counting) -> Self {
        let ssthresh = match config.initial_ssthresh {
            SizeLimit::Infinite => u32::MAX,
            SizeLimit::Bytes(bytes) => ((bytes.0 / u64::from(mss)).max(2)) as u32,
        };
        Self { cwnd: config.initial_window, ssthresh, count: 0, counting }
    }

    pub fn set(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }

    /// Sets the window to ssthresh.
    pub fn fall(&mut self) {
        self.cwnd = self.ssthresh;
    }

    /// Limits the window to this.
    pub fn limit(&mut self, cwnd: u32) {
        self.cwnd = self.cwnd.min(cwnd);
    }

    pub fn set_ssthresh(&mut self, ssthresh: u32) {
        self.ssthresh = ssthresh;
    }

    /// The ssthresh to restore after a pause or an undone reduction: three quarters of the window, if that is
    /// greater and no reduction is in progress.
    pub fn ssthresh_worth_restoring(&self, state: State) -> u32 {
        if state.is_reducing() { self.ssthresh } else { self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4) }
    }

    pub fn is_slow_start(&self) -> bool {
        match self.counting {
            Counting::Acks => self.cwnd <= self.ssthresh,
            Counting::Segments => self.cwnd < self.ssthresh,
        }
    }

    /// Slow start for `acked` segments; returns the remaining segments when it ends.
    pub fn start_slowly(&mut self, acked: u32) -> u32 {
        if !self.is_slow_start() {
            return acked;
        }
        if self.counting == Counting::Acks {
            self.cwnd += acked;
            return 0;
        }
        let window = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (window - self.cwnd);
        self.cwnd = window;
        left
    }

    /// Congestion avoidance for `acked` segments: one segment more for every `per_segment`.
    pub fn avoid_congestion(&mut self, acked: u32, per_segment: u32) {
        let full = self.count >= per_segment;
        if full {
            self.count = 0;
            self.cwnd += 1;
        }
        match self.counting {
            Counting::Acks => self.count += u32::from(!full),
            Counting::Segments => {
                self.count += acked;
                self.cwnd += self.count / per_segment;
                self.count %= per_segment;
            }
        }
    }

    /// ssthresh after a sign of congestion; the count towards growth is reset.
    pub fn reduce(&mut self, ssthresh: u32) {
        self.ssthresh = ssthresh;
        self.count = 0;
    }

    /// Rate halving (`tcp_cwnd_down` of Linux 2.4): one segment less on every second call, down to `floor`.
    pub fn step_down(&mut self, floor: u32) {
        self.count += 1;
        if self.count == 2 {
            self.count = 0;
            self.cwnd -= u32::from(self.cwnd > floor);
        }
    }

    /// Resets the count of congestion avoidance.
    pub fn recount(&mut self) {
        self.count = 0;
    }
}

impl Window for Segments {
    type Amount = u32;

    fn window(&self) -> u32 {
        self.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    fn grow(&mut self, sample: &RateSample) {
        if !sample.is_window_limited {
            return;
        }
        let left = self.start_slowly(sample.acked);
        if left > 0 {
            self.avoid_congestion(left, self.cwnd);
        }
    }

    fn halve(&mut self, flight: u32) {
        self.reduce((flight / 2).max(2));
    }

    fn restore(&mut self, prior: Prior<u32>) {
        self.cwnd = self.cwnd.max(prior.window);
        self.ssthresh = self.ssthresh.max(prior.ssthresh);
    }

    fn restart(&mut self, window: u32) {
        self.cwnd = window;
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;
    use crate::control::Moment;

    fn window(cwnd: u32, ssthresh: u32, counting: Counting) -> Segments {
        let config = toml::from_str(Profile::Linux6.toml()).expect("complete");
        Segments { cwnd, ssthresh, ..Segments::new(&config, 1_460, counting) }
    }

    fn ack(window: &mut Segments, acked: u32) -> u32 {
        let at = Moment { us: 0, tick: 0, una: 0, nxt: 0 };
        window.grow(&RateSample { at, acked, is_window_limited: true, rate: None });
        window.cwnd
    }

    #[test]
    fn linux_6_counts_segments_and_stops_slow_start_at_the_threshold() {
        let mut window = window(8, 10, Counting::Segments);
        assert_eq!(ack(&mut window, 1), 9);
        // One segment up to the threshold, nine towards the next.
        assert_eq!(ack(&mut window, 10), 10);
        assert_eq!(ack(&mut window, 1), 11);
    }

    #[test]
    fn linux_2_counts_acks_and_one_more_than_a_window_of_them() {
        let mut window = window(9, 10, Counting::Acks);
        assert_eq!([ack(&mut window, 1), ack(&mut window, 1)], [10, 11], "slow start includes the threshold");
        for _ in 0..11 {
            assert_eq!(ack(&mut window, 1), 11);
        }
        assert_eq!(ack(&mut window, 1), 12);
    }

    #[test]
    fn rate_halving_takes_a_segment_on_every_second_ack() {
        let mut window = window(10, 10, Counting::Acks);
        let windows: Vec<u32> = (0..6)
            .map(|_| {
                window.step_down(8);
                window.cwnd
            })
            .collect();
        assert_eq!(windows, [10, 9, 9, 8, 8, 8]);
    }

    #[test]
    fn an_undone_reduction_lowers_nothing() {
        let mut window = window(12, 6, Counting::Segments);
        window.restore(Prior { window: 10, ssthresh: 20 });
        assert_eq!((window.cwnd, window.ssthresh), (12, 20));
    }
}
