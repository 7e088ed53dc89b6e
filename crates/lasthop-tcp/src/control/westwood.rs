//! Westwood+ (Grieco and Mascolo 2004), as in Linux (`tcp_westwood.c`): Reno, but after congestion the window
//! is the data that the path recently delivered in the shortest round-trip time.

use super::{Acked, Amount, Controller, Moment, Segments, Setup, Window};
use crate::clock::Tick;

/// Minimum interval of a rate sample, which is otherwise a round-trip time: a twentieth of a second.
const SAMPLES_PER_SECOND_MAX: u64 = 20;
/// The round-trip time before the first sample, in seconds.
const RTT_FIRST: u64 = 20;
/// Minimum window.
const WINDOW_MIN: u64 = 2;

/// The window, and the rate of acknowledged bytes. Times are in ticks, rates in bytes per tick.
#[derive(Clone, Debug)]
pub(crate) struct Westwood {
    window: Segments,
    mss: u64,
    ticks_per_second: u64,
    /// The current sample: its start, and its bytes.
    since: Tick,
    bytes: u64,
    /// The ACK number when bytes were last counted; none before the first ACK.
    una: Option<u64>,
    /// Bytes counted for duplicate ACKs, not yet subtracted from a later ACK.
    ahead: u64,
    rtt: Tick,
    least_rtt: Tick,
    /// True at the start and after a timeout: the next ACK resets the minimum round-trip time.
    is_stale: bool,
    /// The samples after one and after two filters.
    rough: u64,
    smooth: u64,
}

impl Westwood {
    pub fn new(setup: Setup<'_>) -> Self {
        Self::fresh(setup.window, u64::from(setup.segment_bytes), setup.ticks_per_second)
    }

    fn fresh(window: Segments, mss: u64, ticks_per_second: u64) -> Self {
        Self {
            window,
            mss,
            ticks_per_second,
            since: 0,
            bytes: 0,
            una: None,
            ahead: 0,
            rtt: RTT_FIRST * ticks_per_second,
            least_rtt: RTT_FIRST * ticks_per_second,
            is_stale: true,
            rough: 0,
            smooth: 0,
        }
    }

    /// Ends the sample once it is as long as a round-trip time.
    fn sample(&mut self, now: Tick) {
        let length = now - self.since;
        if length <= self.rtt.max(self.ticks_per_second / SAMPLES_PER_SECOND_MAX) {
            return;
        }
        let rate = self.bytes / length;
        if (self.rough, self.smooth) == (0, 0) {
            (self.rough, self.smooth) = (rate, rate);
        } else {
            self.rough = (7 * self.rough + rate) / 8;
            self.smooth = (7 * self.smooth + self.rough) / 8;
        }
        (self.since, self.bytes) = (now, 0);
    }

    /// The bytes that an ACK off the fast path reports as arrived. A duplicate counts as one segment; an ACK
    /// that fills a hole does not count the segments of duplicates again (section 3.1).
    fn arrived(&mut self, acked: u64) -> u64 {
        if acked == 0 {
            self.ahead += self.mss;
            return self.mss;
        }
        if acked <= self.mss {
            return acked;
        }
        let reported = self.ahead.min(acked);
        self.ahead -= reported;
        if reported == acked { self.mss } else { acked - reported }
    }

    /// The delivered rate times the shortest round-trip time, in segments.
    fn path(&self) -> u32 {
        (self.smooth * self.least_rtt / self.mss).max(WINDOW_MIN) as u32
    }
}

impl Controller for Westwood {
    in_segments!(window);

    fn on_start(&mut self, at: &Moment, _: u64) {
        *self = Self { since: at.tick, ..Self::fresh(self.window, self.mss, self.ticks_per_second) };
    }

    fn on_rtt(&mut self, _: &Moment, rtt_us: u64) {
        if rtt_us > 0 {
            self.rtt = rtt_us.div_ceil(1_000_000 / self.ticks_per_second);
        }
    }

    fn hears_every_ack(&self) -> bool {
        true
    }

    fn on_every_ack(&mut self, ack: &Acked) {
        let una = ack.at.una;
        let before = self.una.replace(una).unwrap_or(una);
        self.sample(ack.at.tick);
        self.bytes += if ack.is_predicted { una - before } else { self.arrived(una - before) };
        let is_stale = std::mem::take(&mut self.is_stale);
        self.least_rtt = if is_stale { self.rtt } else { self.least_rtt.min(self.rtt) };
    }

    fn on_reduced(&mut self) {
        self.window.set_ssthresh(self.path());
        self.window.fall();
    }

    fn on_timeout(&mut self, at: &Moment, flight: Amount<Self>, window: u32) {
        self.window.halve(flight);
        self.window.set_ssthresh(self.path());
        self.is_stale = true;
        self.on_persistent(at, window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Profile, TcpConfig};
    use crate::control::{Congestion, Counting};

    const MSS: u32 = 1_000;

    /// Ticks of 4 ms, a round-trip time of 100 ms.
    fn westwood(window: u32) -> Westwood {
        let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        let mut segments = Segments::new(&config, MSS, Counting::Segments);
        segments.set(window);
        let mut westwood = Westwood::new(Setup::new(&config, segments, 250, MSS));
        westwood.on_start(&at(0, 0), 1);
        westwood
    }

    fn at(tick: Tick, una: u64) -> Moment {
        Moment { us: tick * 4_000, tick, una, nxt: una + 50_000 }
    }

    fn ack(westwood: &mut Westwood, tick: Tick, una: u64, is_predicted: bool) {
        westwood.on_rtt(&at(tick, una), 100_000);
        westwood.on_every_ack(&Acked {
            at: at(tick, una),
            is_predicted,
            acknowledged: None,
            delivered: 0,
            delivered_ce: 0,
        });
    }

    /// A segment every tick: 1000 bytes per tick, 25 ticks of round-trip time.
    fn steady(westwood: &mut Westwood, ticks: u64) {
        (1..=ticks).for_each(|tick| ack(westwood, tick, tick * 1_000, true));
    }

    #[test]
    fn after_a_loss_the_window_is_the_delivered_rate_times_the_least_round_trip_time() {
        let mut westwood = westwood(60);
        steady(&mut westwood, 27);
        // The ACK that ends a sample counts for the next sample, and the first ACK for none: 24 segments in
        // 26 ticks.
        assert_eq!((westwood.rough, westwood.smooth), (24_000 / 26, 24_000 / 26));
        for tick in 28..=1_000 {
            ack(&mut westwood, tick, tick * 1_000, true);
        }
        assert!((980..=1_000).contains(&westwood.smooth), "{}", westwood.smooth);
        westwood.on_congestion(Congestion::Loss, 60);
        assert_eq!(westwood.ssthresh(), 30, "at first as Reno");
        westwood.on_reduced();
        assert_eq!((westwood.window(), westwood.ssthresh()), (24, 24));
    }

    /// Section 3.2 of the paper: two filters with a weight of 7/8 for the old value.
    #[test]
    fn samples_are_filtered_twice() {
        let mut westwood = westwood(10);
        (westwood.rough, westwood.smooth, westwood.rtt, westwood.bytes) = (800, 800, 25, 41_600);
        westwood.sample(25);
        assert_eq!(westwood.rough, 800, "the round-trip time is not over");
        westwood.sample(26);
        assert_eq!((westwood.rough, westwood.smooth), (900, 812));
        assert_eq!((westwood.since, westwood.bytes), (26, 0));
        (westwood.rtt, westwood.bytes) = (2, 12_000);
        westwood.sample(38);
        assert_eq!(westwood.rough, 900, "no sample is shorter than 50 ms");
        westwood.sample(39);
        assert_eq!(westwood.rough, (7 * 900 + 12_000 / 13) / 8);
    }

    /// Section 3.1: duplicates count when they arrive, and the ACK that fills the hole counts without them.
    #[test]
    fn what_duplicates_have_told_is_not_counted_again() {
        let mut westwood = westwood(10);
        ack(&mut westwood, 1, 5_000, true);
        let mut counted = |una| {
            let before = westwood.bytes;
            ack(&mut westwood, 2, una, false);
            westwood.bytes - before
        };
        assert_eq!([counted(5_000), counted(5_000), counted(5_000)], [1_000; 3]);
        assert_eq!(counted(9_000), 1_000, "four segments, three of them told");
        assert_eq!([counted(9_000), counted(9_000), counted(9_000)], [1_000; 3]);
        assert_eq!(counted(11_000), 1_000, "both were told: a segment counts at least");
        assert_eq!((counted(12_000), counted(14_000)), (1_000, 1_000));
    }

    #[test]
    fn after_a_timeout_the_least_round_trip_time_is_measured_anew() {
        let mut westwood = westwood(60);
        steady(&mut westwood, 27);
        westwood.on_timeout(&at(28, 27_000), 60, 1);
        assert_eq!((westwood.window(), westwood.ssthresh()), (1, 923 * 25 / 1_000));
        westwood.on_rtt(&at(30, 27_000), 400_000);
        westwood.on_every_ack(&Acked {
            at: at(30, 28_000),
            is_predicted: true,
            acknowledged: None,
            delivered: 0,
            delivered_ce: 0,
        });
        assert_eq!(westwood.least_rtt, 100);
    }

    #[test]
    fn a_window_is_never_less_than_two_segments() {
        let mut westwood = westwood(10);
        westwood.on_reduced();
        assert_eq!(westwood.window(), 2);
    }
}
