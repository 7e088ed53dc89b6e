//! Vegas (Brakmo and Peterson 1995), as in Linux (`tcp_vegas.c`): once per round trip, the window is adapted
//! to the number of the flow's segments in queues.

use super::{Controller, Moment, RateSample, Segments, Sent, Setup, Window};
use crate::common::State;

/// Minimum and maximum number of segments that should be in queues; Linux' defaults.
const ALPHA: u32 = 2;
const BETA: u32 = 4;
/// Segments in queues that end slow start.
const GAMMA: u32 = 1;
/// Minimum window.
const WINDOW_MIN: u32 = 2;
/// Minimum number of round-trip samples of a significant round: the ACK of a single segment may have been
/// delayed.
const SAMPLES_MIN: u32 = 3;

/// The window, and the measurements of the current round trip.
#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    window: Segments,
    /// True if there is no sign of loss, so that delays count.
    is_active: bool,
    /// End of the data that had been sent when the round began.
    round_end: u64,
    samples: u32,
    /// Minimum round-trip times of the round and of the connection, in microseconds.
    round_rtt_us: u64,
    base_rtt_us: u64,
}

impl Vegas {
    pub fn new(setup: Setup) -> Self {
        Self {
            window: setup.window,
            is_active: true,
            round_end: 0,
            samples: 0,
            round_rtt_us: u64::MAX,
            base_rtt_us: u64::MAX,
        }
    }

    fn begin_round(&mut self, end: u64) {
        self.round_end = end;
        self.forget_round();
    }

    fn forget_round(&mut self) {
        self.samples = 0;
        self.round_rtt_us = u64::MAX;
    }

    /// The result of the round: segments in queues, and the window that would leave none there.
    fn queued(&self) -> (u32, u32) {
        let window = u64::from(self.window.window());
        let (rtt, base) = (self.round_rtt_us, self.base_rtt_us);
        ((window * (rtt - base) / base) as u32, (window * base / rtt) as u32)
    }

    /// The window after a round.
    fn follow_delay(&mut self, acked: u32) {
        let (queued, empty) = self.queued();
        let window = self.window.window();
        if self.window.is_slow_start() {
            if queued > GAMMA {
                self.window.limit(empty + 1);
                self.end_slow_start();
            } else {
                self.window.start_slowly(acked);
            }
        } else if queued > BETA {
            self.window.set(window - 1);
            self.end_slow_start();
        } else if queued < ALPHA {
            self.window.set(window + 1);
        }
    }

    /// The threshold must not exceed the window. Linux lets it fall to one segment, which is equivalent to
    /// two for a window of two.
    fn end_slow_start(&mut self) {
        let ssthresh = self.window.ssthresh().min(self.window.window());
        self.window.set_ssthresh(ssthresh.max(WINDOW_MIN));
    }
}

impl Controller for Vegas {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, _: u64) {
        self.base_rtt_us = u64::MAX;
        self.begin_round(at.nxt);
    }

    /// A pause: the path may have changed.
    fn on_sent(&mut self, sent: &Sent) {
        if sent.idle_since.is_some() {
            self.is_active = true;
            self.base_rtt_us = u64::MAX;
            self.begin_round(sent.at.nxt);
        }
    }

    fn on_rtt(&mut self, _: &Moment, rtt_us: u64) {
        // Never 0.
        let rtt_us = rtt_us + 1;
        self.base_rtt_us = self.base_rtt_us.min(rtt_us);
        self.round_rtt_us = self.round_rtt_us.min(rtt_us);
        self.samples += 1;
    }

    fn on_state(&mut self, at: &Moment, state: State) {
        self.is_active = state == State::Open;
        if self.is_active {
            self.begin_round(at.nxt);
        }
    }

    fn on_ack(&mut self, sample: &RateSample) {
        if !self.is_active {
            self.window.grow(sample);
        } else if sample.at.una > self.round_end {
            self.round_end = sample.at.nxt;
            if self.samples < SAMPLES_MIN {
                self.window.grow(sample);
            } else {
                self.follow_delay(sample.acked);
                self.window.set(self.window.window().max(WINDOW_MIN));
                self.window.set_ssthresh(self.window.ssthresh_worth_restoring(State::Open));
            }
            self.forget_round();
        } else {
            self.window.start_slowly(sample.acked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Profile, TcpConfig};
    use crate::control::Counting;

    /// In congestion avoidance, with a path of 100 ms.
    fn vegas(window: u32) -> Vegas {
        let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        let mut segments = Segments::new(&config, 1_460, Counting::Segments);
        segments.set(window);
        segments.set_ssthresh(2);
        let mut vegas = Vegas::new(Setup::new(&config, segments, 250, 1_460));
        vegas.on_start(&at(0), 1);
        vegas
    }

    fn at(una: u64) -> Moment {
        Moment { us: 0, tick: 0, una, nxt: una + 1_000 }
    }

    /// A round of three samples, which ends with an ACK of everything sent before it. Returns the window.
    fn round(vegas: &mut Vegas, rtt_us: u64) -> u32 {
        let end = at(vegas.round_end + 1);
        (0..3).for_each(|_| vegas.on_rtt(&end, rtt_us));
        vegas.on_ack(&RateSample { at: end, acked: 1, is_window_limited: true, rate: None });
        vegas.window()
    }

    #[test]
    fn between_two_and_four_segments_stand_in_queues() {
        let mut vegas = vegas(20);
        assert_eq!(round(&mut vegas, 99_999), 21, "none does");
        // 21 segments over 100 ms, and 10 ms more: 2.1 of them wait.
        assert_eq!(round(&mut vegas, 109_999), 21);
        // 21 * 0.25 = 5.25 wait.
        assert_eq!(round(&mut vegas, 124_999), 20);
        // 20 * 0.08 = 1.6 wait.
        assert_eq!(round(&mut vegas, 107_999), 21);
    }

    #[test]
    fn slow_start_ends_when_a_queue_builds() {
        let mut vegas = vegas(20);
        vegas.window.set_ssthresh(u32::MAX);
        assert_eq!(round(&mut vegas, 99_999), 21);
        // 21 * 0.1 = 2.1 wait; 21 / 1.1 = 19.09 would leave none.
        assert_eq!(round(&mut vegas, 109_999), 20);
        assert!(!vegas.window.is_slow_start());
    }

    #[test]
    fn in_doubt_it_is_reno() {
        let mut vegas = vegas(4);
        round(&mut vegas, 99_999);
        vegas.on_state(&at(5_000), State::Disorder);
        // Five segments wait, and still an ACK counts.
        let before = vegas.window();
        for _ in 0..=before {
            let end = at(vegas.round_end + 1);
            vegas.on_rtt(&end, 300_000);
            vegas.on_ack(&RateSample { at: end, acked: 1, is_window_limited: true, rate: None });
        }
        assert_eq!(vegas.window(), before + 1);
        vegas.on_state(&at(9_000), State::Open);
        assert_eq!(round(&mut vegas, 299_999), before, "delay counts again");
    }

    #[test]
    fn a_pause_makes_it_measure_the_path_anew() {
        let mut vegas = vegas(20);
        round(&mut vegas, 99_999);
        vegas.on_sent(&Sent {
            at: Moment { nxt: 7_000, ..at(0) },
            idle_since: Some(0),
            is_app_limited: false,
        });
        assert_eq!(round(&mut vegas, 199_999), 22, "200 ms are the path's own now");
    }
}
