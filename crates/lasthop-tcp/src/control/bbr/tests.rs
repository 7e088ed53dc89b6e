//! The rules of BBR, one by one, with numbers worked by hand. Segments have 1000 bytes, the path takes 100 ms
//! and delivers a segment each millisecond.

use lasthop_core::{Duration, Seed};

use super::policer::Sample;
use super::*;
use crate::config::{CongestionControl, Profile, TcpConfig};
use crate::control::{Counting, DeliveryRate, RateSample};

const RTT_US: u64 = 100_000;

/// A connection and its state.
struct Rig {
    bbr: Bbr,
    us: u64,
    delivered: u64,
    lost: u64,
}

impl Rig {
    fn new() -> Self {
        Self::of(Profile::Linux6)
    }

    fn of(profile: Profile) -> Self {
        let mut config: TcpConfig = toml::from_str(profile.toml()).expect("complete");
        config.congestion_control = CongestionControl::Bbr;
        config.draws = Seed { study: 1, replication: 1 }.stream("bbr").into();
        let window = Segments::new(&config, 1_000, Counting::Segments);
        let mut bbr = Bbr::new(Setup::new(&config, window, 250, 1_000));
        bbr.on_rtt(&moment(RTT_US), RTT_US);
        bbr.on_start(&moment(RTT_US), 1);
        Self { bbr, us: RTT_US, delivered: 1, lost: 0 }
    }

    /// Past its start, with a full path of 100 segments.
    fn cruising() -> Self {
        Self::cruising_with(Profile::Linux6)
    }

    fn cruising_with(profile: Profile) -> Self {
        let mut rig = Self::of(profile);
        (0..5).for_each(|_| rig.round(100, 300));
        rig.round(100, 100);
        assert_eq!(rig.bbr.mode, Mode::ProbeBandwidth);
        rig
    }

    /// An ACK that ends a round trip in which `segments` arrived, and leaves this number in flight.
    fn round(&mut self, segments: u64, in_flight: u32) {
        self.us += RTT_US;
        let prior = self.delivered;
        self.ack(segments, prior, RTT_US, in_flight);
    }

    fn ack(&mut self, acked: u64, prior_delivered: u64, interval_us: u64, in_flight: u32) {
        self.delivered += acked;
        let delivered = self.delivered - prior_delivered;
        let rate = DeliveryRate {
            delivered,
            interval_us,
            prior_delivered,
            is_app_limited: false,
            ..DeliveryRate::default()
        };
        self.bbr.on_path(&self.path(acked as u32, Some(rate), in_flight, 0));
    }

    fn path(&self, acked: u32, rate: Option<DeliveryRate>, in_flight: u32, lost: u64) -> PathSample {
        let ack = RateSample { at: moment(self.us), acked, is_window_limited: true, rate };
        PathSample {
            ack,
            lost,
            total_delivered: self.delivered,
            total_lost: self.lost,
            delivered_us: self.us,
            in_flight_before: in_flight + acked,
            in_flight,
            wait: Duration::ZERO,
            may_be_delayed: false,
        }
    }
}

fn moment(us: u64) -> Moment {
    Moment { us, tick: us / 4_000, una: 0, nxt: 0 }
}

#[test]
fn it_starts_with_a_window_per_round_trip_time_times_2_89() {
    // 10 segments in 100 ms are 1677/2^24 per microsecond; 739/256 of that, less 1 %.
    assert_eq!(Rig::new().bbr.pacing_rate, (1_677 * 1_000 * 739 / 256 * 990_000) >> 24);
    assert_eq!(HIGH_GAIN, 739);
}

#[test]
fn the_path_is_full_after_three_round_trips_without_a_quarter_more_and_then_drains() {
    let mut rig = Rig::new();
    for (segments, full_rounds) in [(20, 0), (40, 0), (80, 0), (100, 0), (110, 1), (120, 2)] {
        rig.round(segments, 300);
        assert_eq!((rig.bbr.mode, rig.bbr.full_rounds), (Mode::Startup, full_rounds), "{segments}");
    }
    // An increase of 100 by a quarter would be 125.
    rig.round(120, 300);
    assert_eq!((rig.bbr.mode, rig.bbr.pacing_gain), (Mode::Drain, 256 * 1_000 / 2_885));
    // 120 on the path, and three bursts of three at the rate of the search; of two at that of the drain.
    assert_eq!(rig.bbr.window.ssthresh(), 130);
    rig.round(120, 127);
    assert_eq!(rig.bbr.mode, Mode::Drain);
    rig.round(120, 126);
    assert_eq!(rig.bbr.mode, Mode::ProbeBandwidth);
}

#[test]
fn more_bandwidth_goes_on_with_the_search() {
    let mut rig = Rig::new();
    (0..3).for_each(|_| rig.round(100, 300));
    rig.round(125, 300);
    assert_eq!((rig.bbr.full_rounds, rig.bbr.is_full), (0, false));
}

#[test]
fn a_sample_of_a_sender_with_too_little_to_send_never_lowers_the_bandwidth() {
    let mut rig = Rig::cruising();
    let bandwidth = rig.bbr.model.bandwidth();
    assert_eq!(bandwidth, 100 * BANDWIDTH_ONE / RTT_US);
    for _ in 0..12 {
        let rate = DeliveryRate {
            delivered: 50,
            interval_us: RTT_US,
            prior_delivered: rig.delivered,
            is_app_limited: true,
            ..DeliveryRate::default()
        };
        rig.delivered += 50;
        rig.us += RTT_US;
        rig.bbr.on_path(&rig.path(50, Some(rate), 50, 0));
    }
    assert_eq!(rig.bbr.model.bandwidth(), bandwidth, "for longer than ten round trips");
    (0..11).for_each(|_| rig.round(50, 50));
    assert_eq!(rig.bbr.model.bandwidth(), bandwidth / 2);
}

#[test]
fn the_window_is_twice_the_path_and_room_for_bursts() {
    let mut rig = Rig::cruising();
    (0..3).for_each(|_| rig.round(100, 100));
    rig.bbr.phase = 3;
    // 2 * 100, three bursts of two, no aggregation beyond what one ACK brings.
    let extra = rig.bbr.aggregation.extra(rig.bbr.bandwidth());
    rig.round(0, 100);
    rig.round(1, 100);
    assert_eq!(rig.bbr.target(2 * UNIT), 206 + 2 * u32::from(rig.bbr.phase == 0));
    assert!(rig.bbr.window() <= 206 + extra + 2);
}

/// Linux 4.11: the window is 2 * 100 and three bursts of two, in the phase that probes as in any other, and
/// however many segments an ACK acknowledges.
#[test]
fn the_early_version_adds_nothing_for_probes_and_aggregated_acks() {
    let mut rig = Rig::cruising_with(Profile::Linux411);
    for _ in 0..16 {
        rig.round(100, 100);
        assert_eq!(rig.bbr.target(2 * UNIT), 206);
        assert!(rig.bbr.window() <= 206);
    }
    assert!(rig.bbr.aggregation.extra(rig.bbr.bandwidth()) > 0);
}

#[test]
fn a_cycle_asks_for_a_quarter_more_then_yields_as_much_and_cruises() {
    let mut rig = Rig::cruising();
    rig.bbr.phase = 0;
    rig.bbr.phase_us = rig.us;
    rig.bbr.update_gains();
    // A round trip is not enough: a quarter more must be in flight, that is 125 plus 6, rounded to an even
    // number, plus 2.
    rig.us += RTT_US + 1;
    assert!(!rig.bbr.is_phase_over(&rig.path(0, None, 131, 0)));
    assert!(rig.bbr.is_phase_over(&rig.path(0, None, 132, 0)), "with a burst of two that is about to leave");
    assert!(rig.bbr.is_phase_over(&rig.path(0, None, 100, 1)), "the path does not hold it");
    rig.bbr.next_phase(rig.us);
    rig.bbr.update_gains();
    assert_eq!(rig.bbr.pacing_gain, UNIT * 3 / 4);
    assert!(!rig.bbr.is_phase_over(&rig.path(0, None, 107, 0)));
    assert!(rig.bbr.is_phase_over(&rig.path(0, None, 106, 0)), "the queue is gone");
    rig.bbr.next_phase(rig.us);
    rig.bbr.update_gains();
    assert_eq!(rig.bbr.pacing_gain, UNIT);
    assert!(!rig.bbr.is_phase_over(&rig.path(0, None, 0, 0)));
    rig.us += RTT_US + 1;
    assert!(rig.bbr.is_phase_over(&rig.path(0, None, 500, 0)), "a round-trip time is over");
}

#[test]
fn a_cycle_begins_in_any_phase_but_that_which_drains() {
    let mut rig = Rig::cruising();
    let mut seen = [0; 8];
    for _ in 0..700 {
        rig.bbr.probe_bandwidth(0);
        seen[rig.bbr.phase] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(phase, &count)| phase == 1 || count > 60), "{seen:?}");
}

#[test]
fn pacing_that_holds_a_segment_lets_the_network_drain_meanwhile() {
    let rig = Rig::cruising();
    let path = PathSample { wait: Duration::from_millis(5), ..rig.path(0, None, 100, 0) };
    let leaving = if rig.bbr.pacing_gain > UNIT { 2 } else { 0 };
    // Five milliseconds at a segment each, cut.
    assert_eq!(rig.bbr.in_network(&path, 100), 100 + leaving - 4);
}

#[test]
fn every_ten_seconds_it_looks_at_an_empty_queue() {
    let mut rig = Rig::cruising();
    for _ in 0..120 {
        rig.us += RTT_US;
        rig.bbr.on_rtt(&moment(rig.us), RTT_US + 5_000);
        let prior = rig.delivered;
        rig.ack(100, prior, RTT_US, 100);
        if rig.bbr.mode == Mode::ProbeRtt {
            break;
        }
    }
    let began = rig.us;
    assert!((10_000_000..10_300_000).contains(&(began - RTT_US)), "{began}");
    assert_eq!(rig.bbr.model.min_rtt_us, Some(RTT_US + 5_000), "the old one counts no more");
    assert_eq!((rig.bbr.window(), rig.bbr.pacing_gain, rig.bbr.holds_back()), (4, UNIT, true));
    let before = rig.bbr.prior_window;
    assert!(before > 200);
    // 200 ms and a round trip after the flight size has reached four.
    rig.round(60, 10);
    assert!(rig.bbr.probe_rtt_end.is_none());
    rig.round(6, 4);
    assert_eq!(rig.bbr.probe_rtt_end, Some(rig.us / 4_000 + 50));
    rig.round(4, 4);
    rig.round(4, 4);
    assert_eq!(rig.bbr.mode, Mode::ProbeRtt, "200 ms are not over");
    rig.us += 4_000;
    let prior = rig.delivered;
    rig.ack(1, prior, RTT_US, 4);
    assert_eq!(rig.bbr.mode, Mode::ProbeBandwidth);
    assert!(rig.bbr.window() >= before, "{} {before}", rig.bbr.window());
}

#[test]
fn a_recovery_sends_what_arrives_for_a_round_trip_and_ends_with_the_window_of_before() {
    let mut rig = Rig::cruising();
    let before = rig.bbr.window();
    rig.bbr.on_congestion(Congestion::Loss, before);
    rig.bbr.on_state(&moment(rig.us), State::Recovery);
    let prior = rig.delivered - 50;
    (rig.delivered, rig.lost) = (rig.delivered + 2, 3);
    let rate = DeliveryRate {
        delivered: 52,
        interval_us: RTT_US,
        prior_delivered: prior,
        is_app_limited: false,
        ..DeliveryRate::default()
    };
    rig.bbr.on_path(&rig.path(2, Some(rate), 90, 3));
    assert_eq!((rig.bbr.window(), rig.bbr.conserves), (92, true));
    // The next round trip allows twice what arrives.
    rig.round(5, 80);
    assert_eq!((rig.bbr.window(), rig.bbr.conserves), (97, false));
    rig.bbr.on_state(&moment(rig.us), State::Open);
    rig.round(1, 80);
    assert!(rig.bbr.window() >= before.min(200), "{}", rig.bbr.window());
}

#[test]
fn a_timeout_forgets_how_full_the_path_was_and_an_undo_how_it_was_policed() {
    let mut rig = Rig::cruising();
    let (window, ssthresh) = (rig.bbr.window(), rig.bbr.ssthresh());
    rig.bbr.on_lost(40);
    rig.bbr.on_timeout(&moment(rig.us), window, 1);
    rig.bbr.on_state(&moment(rig.us), State::Loss);
    assert_eq!((rig.bbr.window(), rig.bbr.ssthresh(), rig.bbr.prior_window), (1, ssthresh, window));
    assert_eq!((rig.bbr.full_bandwidth, rig.bbr.total.lost), (0, 40));
    rig.bbr.on_spurious(Prior { window, ssthresh: 500 });
    assert_eq!((rig.bbr.window(), rig.bbr.ssthresh()), (1, 500), "the window comes back with the next ACK");
    rig.bbr.on_state(&moment(rig.us), State::Open);
    rig.round(1, 1);
    assert!(rig.bbr.window() >= window.min(200));
}

#[test]
fn after_a_pause_it_sends_at_the_known_rate() {
    let mut rig = Rig::cruising();
    rig.bbr.pacing_rate *= 3;
    let sent = Sent { at: moment(rig.us), idle_since: Some(0), is_app_limited: true };
    rig.bbr.on_sent(&Sent { is_app_limited: false, ..sent });
    assert!(!rig.bbr.restarts);
    rig.bbr.on_sent(&sent);
    assert!(rig.bbr.restarts);
    assert_eq!(rig.bbr.pacing_rate, rig.bbr.bytes_per_second(rig.bbr.model.bandwidth(), UNIT));
}

#[test]
fn two_spans_of_many_losses_at_one_rate_are_a_policer() {
    let mut policer = Policer::default();
    let mut total = Total { delivered: 1_000, lost: 0, delivered_us: 1_000_000 };
    let sample =
        |total| Sample { total, lost: true, is_app_limited: false, is_round_start: true, mss: 1_000 };
    let mut rounds = |policer: &mut Policer, count: u64, delivered: u64| {
        let mut found = 0;
        for _ in 0..count {
            total.delivered += delivered;
            total.lost += delivered / 5;
            total.delivered_us += RTT_US;
            found += u32::from(policer.sample(sample(total)));
        }
        found
    };
    // The first loss begins a span, of which its ACK is one round trip.
    assert_eq!(rounds(&mut policer, 4, 100), 0);
    // 150 differs from 100 by more than an eighth, and 110 from 150; but 110 and 115 count as equal.
    assert_eq!(rounds(&mut policer, 4, 150), 0);
    assert_eq!(rounds(&mut policer, 4, 110), 0);
    assert_eq!(rounds(&mut policer, 4, 115), 1);
    let mean = u64::midpoint(440 * BANDWIDTH_ONE / 400_000, 460 * BANDWIDTH_ONE / 400_000);
    assert_eq!(policer.bandwidth(), Some(mean));
    let over: Vec<_> = (1..=48).filter(|_| policer.is_over(total)).collect();
    assert_eq!((over, policer.bandwidth()), (vec![48], None), "then it is believed no more");
}

#[test]
fn few_losses_or_a_sender_with_too_little_to_send_are_no_policer() {
    let mut policer = Policer::default();
    let mut total = Total { delivered: 1_000, lost: 0, delivered_us: 1_000_000 };
    for round in 0..40_u32 {
        total.delivered += 100;
        total.lost += 10;
        total.delivered_us += RTT_US;
        let sample =
            Sample { total, lost: true, is_app_limited: round == 39, is_round_start: true, mss: 1_000 };
        assert!(!policer.sample(sample));
    }
    assert!(policer.bandwidth().is_none());
}

#[test]
fn what_arrives_in_a_lump_beyond_the_bandwidth_adds_to_the_window() {
    let rig = Rig::cruising();
    let bandwidth = rig.bbr.model.bandwidth();
    let mut aggregation = Aggregation::new(0);
    let mut take = |us, acked, round| {
        let path = PathSample { delivered_us: us, ..rig.path(acked, None, 100, 0) };
        aggregation.take(&path, round, bandwidth, 300);
        aggregation.extra(bandwidth)
    };
    // Nothing is expected when an epoch begins.
    assert_eq!(take(10_000, 30, false), 30);
    // 9.99 are expected after 10 ms; 60 came.
    assert_eq!(take(20_000, 30, false), 51);
    // No more than 100 ms of the bandwidth count.
    assert_eq!(take(30_000, 200, false), 99);
    let later: Vec<u32> = (1..=10).map(|round| take(30_000 + round * 1_000_000, 1, true)).collect();
    assert_eq!(later, [99, 99, 99, 99, 99, 99, 99, 99, 99, 1], "for five to ten round trips");
}

#[test]
fn slow_senders_send_segments_one_by_one() {
    let mut rig = Rig::new();
    rig.bbr.pacing_rate = 149_999;
    assert_eq!((rig.bbr.burst_min(), rig.bbr.burst()), (1, 1));
    rig.bbr.pacing_rate = 150_000;
    assert_eq!((rig.bbr.burst_min(), rig.bbr.burst()), (2, 2));
    rig.bbr.pacing_rate = 10_240_000;
    assert_eq!(rig.bbr.burst(), 10);
}
