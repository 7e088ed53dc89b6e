//! DCTCP (RFC 8257), as in Linux (`tcp_dctcp.c`): marks cut the window by half of their share. The exact echo
//! of the receiver is in `endpoint::receiver`.

use super::{Acked, Amount, Congestion, Controller, Moment, Prior, Segments, Setup, Window};
use crate::common::State;

/// A share of 1.
const ONE: u32 = 1 << ONE_LOG;
const ONE_LOG: u32 = 10;
/// g = 1/16, the weight of a window's share (section 4.2).
const WEIGHT_LOG: u32 = 4;
/// Minimum window.
const WINDOW_MIN: u32 = 2;

/// The window, and the share of segments that were marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    window: Segments,
    /// DCTCP.Alpha of section 3.3, in 1024ths.
    alpha: u32,
    /// DCTCP.WindowEnd: end of the data that had been sent when the current window of data began.
    window_end: u64,
    /// Segments that had arrived at that time, and those of them with an echo.
    delivered: u64,
    delivered_ce: u64,
    /// The window before the latest reduction.
    before: u32,
}

impl Dctcp {
    pub fn new(setup: Setup<'_>) -> Self {
        let window = setup.window;
        Self { window, alpha: ONE, window_end: 0, delivered: 0, delivered_ce: 0, before: 0 }
    }

    /// A loss cuts the window as in other algorithms (section 3.5).
    fn halve_for_loss(&mut self) {
        self.before = self.window.window();
        self.window.halve(self.before);
    }

    /// Section 3.3, step 7: `alpha = (1 - g) * alpha + g * M`, in integers; small values are set to 0, which
    /// they would never reach.
    fn update(&mut self, delivered: u64, marked: u64) {
        let less = if self.alpha >> WEIGHT_LOG > 0 { self.alpha >> WEIGHT_LOG } else { self.alpha };
        let more = (marked << (ONE_LOG - WEIGHT_LOG)) / delivered.max(1);
        self.alpha = (self.alpha - less + more as u32).min(ONE);
    }
}

impl Controller for Dctcp {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, delivered: u64) {
        // The report in the handshake's ACK does not count.
        (self.alpha, self.window_end, self.delivered, self.delivered_ce) = (ONE, at.nxt, delivered, 0);
    }

    fn hears_every_ack(&self) -> bool {
        true
    }

    fn on_every_ack(&mut self, ack: &Acked) {
        if ack.at.una < self.window_end {
            return;
        }
        self.update(ack.delivered - self.delivered, ack.delivered_ce - self.delivered_ce);
        (self.window_end, self.delivered, self.delivered_ce) = (ack.at.nxt, ack.delivered, ack.delivered_ce);
    }

    /// Section 3.3, step 9: `cwnd = cwnd * (1 - alpha / 2)`. After a loss, which may be that of a probe, this
    /// is too small a cut unless the loss begins a recovery: see `on_state`.
    fn on_congestion(&mut self, _: Congestion, _: Amount<Self>) {
        let window = self.window.window();
        self.before = window;
        let cut = (u64::from(window) * u64::from(self.alpha)) >> (ONE_LOG + 1);
        self.window.reduce((window - cut as u32).max(WINDOW_MIN));
    }

    fn on_state(&mut self, _: &Moment, state: State) {
        if state == State::Recovery {
            self.halve_for_loss();
        }
    }

    fn on_timeout(&mut self, at: &Moment, _: Amount<Self>, window: u32) {
        self.halve_for_loss();
        self.on_persistent(at, window);
    }

    fn on_spurious(&mut self, prior: Prior<u32>) {
        self.window.restore(Prior { window: self.before, ..prior });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Profile, TcpConfig};
    use crate::control::Counting;

    fn dctcp(window: u32, alpha: u32) -> Dctcp {
        let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        let mut segments = Segments::new(&config, 1_460, Counting::Segments);
        segments.set(window);
        let mut dctcp = Dctcp::new(Setup::new(&config, segments, 250, 1_460));
        dctcp.alpha = alpha;
        dctcp
    }

    fn at(una: u64) -> Moment {
        Moment { us: 0, tick: 0, una, nxt: una + 100 }
    }

    /// Section 3.3, step 7, with g = 1/16: from alpha = 1, windows without marks leave 15/16 of it each.
    #[test]
    fn alpha_follows_the_share_of_marks_once_per_window() {
        let mut dctcp = dctcp(10, ONE);
        dctcp.on_start(&at(0), 0);
        let mut acked = |una, delivered, delivered_ce| {
            dctcp.on_every_ack(&Acked {
                at: at(una),
                is_predicted: true,
                acknowledged: None,
                delivered,
                delivered_ce,
            });
            dctcp.alpha
        };
        assert_eq!(acked(99, 99, 0), 1_024, "the window is not over");
        assert_eq!(acked(100, 100, 0), 960);
        assert_eq!(acked(200, 200, 0), 900);
        // A quarter of the next hundred: 900 * 15/16 + 1024 / 16 / 4.
        assert_eq!(acked(300, 300, 25), 900 - 56 + 16);
        // All of them are marked: alpha stays at most 1.
        assert_eq!(acked(400, 400, 125), 860 - 53 + 64);
    }

    #[test]
    fn without_marks_alpha_ends_at_zero() {
        let mut dctcp = dctcp(10, 17);
        let mut left = || {
            dctcp.update(10, 0);
            dctcp.alpha
        };
        assert_eq!([left(), left(), left()], [16, 15, 0]);
        dctcp.update(1, 1);
        assert_eq!(dctcp.alpha, 64);
    }

    /// Section 3.3, step 9.
    #[test]
    fn marks_cut_the_window_by_half_of_alpha() {
        for (alpha, ssthresh) in [(1_024, 50), (512, 75), (102, 96), (0, 100)] {
            let mut dctcp = dctcp(100, alpha);
            dctcp.on_congestion(Congestion::Ecn, 100);
            assert_eq!(dctcp.ssthresh(), ssthresh, "alpha {alpha}");
        }
        let mut small = dctcp(2, ONE);
        small.on_congestion(Congestion::Ecn, 2);
        assert_eq!(small.ssthresh(), 2);
    }

    /// Section 3.5.
    #[test]
    fn losses_halve_the_window_whatever_alpha_is() {
        let mut recovery = dctcp(100, 0);
        recovery.on_congestion(Congestion::Loss, 100);
        recovery.on_state(&at(0), State::Recovery);
        assert_eq!(recovery.ssthresh(), 50);
        recovery.window.set(60);
        recovery.on_spurious(Prior { window: 100, ssthresh: 200 });
        assert_eq!((recovery.window(), recovery.ssthresh()), (100, 200));
        let mut timeout = dctcp(100, 0);
        timeout.on_timeout(&at(0), 100, 1);
        assert_eq!((timeout.window(), timeout.ssthresh()), (1, 50));
    }
}
