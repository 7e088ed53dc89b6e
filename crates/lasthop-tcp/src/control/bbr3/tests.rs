//! The rules of the draft's pseudo-code, with numbers worked by hand. Segments have 1000 bytes, the path
//! takes 100 ms and delivers a segment each millisecond.

use lasthop_core::{Duration, Seed};

use super::*;
use crate::config::{CongestionControl, Profile, TcpConfig};
use crate::control::{Counting, RateSample};

const RTT_US: u64 = 100_000;

/// A connection and its state.
struct Rig {
    bbr: Bbr3,
    us: u64,
    delivered: u64,
}

impl Rig {
    fn new() -> Self {
        let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
        config.congestion_control = CongestionControl::Bbr3;
        config.draws = Seed { study: 1, replication: 1 }.stream("bbr3").into();
        let window = Segments::new(&config, 1_000, Counting::Segments);
        let mut bbr = Bbr3::new(Setup::new(&config, window, 250, 1_000));
        bbr.on_rtt(&moment(RTT_US), RTT_US);
        bbr.on_start(&moment(RTT_US), 1);
        Self { bbr, us: RTT_US, delivered: 1 }
    }

    /// Startup is over, and so is Drain.
    fn probing() -> Self {
        let mut rig = Self::new();
        (0..5).for_each(|_| rig.round(100, 300));
        assert_eq!(rig.bbr.mode, Bbr3Mode::Drain);
        // Down is over at once: no queue is left.
        rig.round(100, 100);
        assert_eq!(rig.bbr.mode, Bbr3Mode::Cruise);
        rig
    }

    /// In Up, with a long bound.
    fn in_up(inflight_long: u64) -> Self {
        let mut rig = Self::probing();
        rig.bbr.refill(rig.delivered);
        rig.round(100, 100);
        assert_eq!((rig.bbr.mode, rig.bbr.answers), (Bbr3Mode::Up, Answers::Starting));
        rig.bbr.bounds.inflight_long = inflight_long;
        rig
    }

    /// An ACK that ends a round trip in which `segments` arrived, and leaves this number in flight.
    fn round(&mut self, segments: u64, in_flight: u32) {
        self.lossy_round(segments, in_flight, 0);
    }

    fn lossy_round(&mut self, segments: u64, in_flight: u32, lost: u64) {
        self.us += RTT_US;
        let rate = DeliveryRate {
            delivered: segments,
            interval_us: RTT_US,
            prior_delivered: self.delivered,
            tx_in_flight: in_flight,
            lost,
            is_app_limited: false,
        };
        self.delivered += segments;
        self.bbr.on_rtt(&moment(self.us), RTT_US);
        self.bbr.on_path(&self.path(segments as u32, Some(rate), in_flight));
    }

    fn path(&self, acked: u32, rate: Option<DeliveryRate>, in_flight: u32) -> PathSample {
        PathSample {
            ack: RateSample { at: moment(self.us), acked, is_window_limited: true, rate },
            lost: 0,
            total_delivered: self.delivered,
            total_lost: 0,
            delivered_us: self.us,
            in_flight_before: in_flight + acked,
            in_flight,
            wait: Duration::ZERO,
            may_be_delayed: false,
        }
    }

    fn lose(&mut self, seq: u64, tx_in_flight: u32, lost: u64) {
        self.bbr.on_segment_lost(&LostSegment {
            at_us: self.us,
            seq,
            end: seq + 1_000,
            tx_in_flight,
            lost,
            is_app_limited: false,
            total_delivered: self.delivered,
        });
    }
}

fn moment(us: u64) -> Moment {
    Moment { us, tick: us / 4_000, una: 0, nxt: 0 }
}

#[test]
fn startup_paces_at_2_77_and_drain_at_a_half_of_the_bandwidth() {
    let mut rig = Rig::new();
    assert_eq!(rig.bbr.pacing_rate, 277_000, "ten segments in 100 ms");
    (0..3).for_each(|_| rig.round(100, 300));
    assert_eq!((rig.bbr.mode, rig.bbr.full_rounds), (Bbr3Mode::Startup, 2));
    rig.round(100, 300);
    assert_eq!(rig.bbr.mode, Bbr3Mode::Drain);
    // One segment each millisecond, halved, minus 1 %.
    assert!((494_900..=495_000).contains(&rig.bbr.pacing_rate), "{}", rig.bbr.pacing_rate);
}

#[test]
fn drain_ends_after_three_round_trips_even_if_the_queue_stays() {
    let mut rig = Rig::new();
    (0..4).for_each(|_| rig.round(100, 300));
    (0..3).for_each(|_| rig.round(100, 300));
    assert_eq!(rig.bbr.mode, Bbr3Mode::Drain);
    rig.round(100, 300);
    assert_eq!(rig.bbr.mode, Bbr3Mode::Down);
}

#[test]
fn many_losses_in_a_round_trip_of_recovery_end_startup() {
    let mut rig = Rig::new();
    rig.round(100, 200);
    rig.bbr.on_state(&moment(rig.us), State::Recovery);
    for number in 0..6 {
        rig.lose(number * 2_000, 200, number + 1);
    }
    // Two per cent of 300 are six.
    rig.lossy_round(130, 300, 6);
    assert_eq!(rig.bbr.mode, Bbr3Mode::Startup, "no more than 2 % are lost");
    for number in 0..6 {
        rig.lose(50_000 + number * 2_000, 200, number + 1);
    }
    rig.lossy_round(170, 300, 7);
    assert_eq!((rig.bbr.mode, rig.bbr.bounds.inflight_long), (Bbr3Mode::Drain, 170));
    assert_eq!(rig.bbr.saved.mode, Some(Bbr3Mode::Startup));
    rig.bbr.on_spurious(Prior { window: 100, ssthresh: 100 });
    assert_eq!((rig.bbr.mode, rig.bbr.is_full), (Bbr3Mode::Startup, false), "there were none");
}

#[test]
fn a_cycle_goes_down_cruises_refills_and_goes_up_until_the_bandwidth_grows_no_more() {
    let mut rig = Rig::probing();
    assert!((2_000_000..=3_000_000).contains(&rig.bbr.wait_us) && rig.bbr.rounds_since_probe <= 1);
    let mut rounds = 0;
    while rig.bbr.mode == Bbr3Mode::Cruise {
        rig.round(100, 100);
        rounds += 1;
    }
    // 2 to 3 s are over before Reno's 63 round trips.
    assert!((18..=30).contains(&rounds), "{rounds}");
    assert_eq!((rig.bbr.mode, rig.bbr.answers), (Bbr3Mode::Refill, Answers::Refilling));
    rig.round(100, 100);
    assert_eq!((rig.bbr.mode, rig.bbr.is_probe_sample), (Bbr3Mode::Up, true));
    // No bound limits it; three round trips without a quarter more.
    let mut rounds = 0;
    while rig.bbr.mode == Bbr3Mode::Up {
        rig.round(110, 130);
        rounds += 1;
    }
    assert_eq!((rig.bbr.mode, rounds), (Bbr3Mode::Down, 3));
}

#[test]
fn a_short_path_probes_as_often_as_reno_would_grow_by_what_it_holds() {
    let mut rig = Rig::probing();
    rig.bbr.window.set(12);
    rig.bbr.mode = Bbr3Mode::Cruise;
    rig.bbr.rounds_since_probe = 11;
    let path = rig.path(0, None, 10);
    assert!(!rig.bbr.check_time_to_probe(&path));
    rig.bbr.rounds_since_probe = 12;
    assert!(rig.bbr.check_time_to_probe(&path));
}

#[test]
fn losses_of_a_probe_set_the_bound_to_what_was_safe_and_end_it() {
    let mut rig = Rig::in_up(INFINITE);
    // Two of 120 are less than 2 %; the third is too much: 119 segments before it would allow 2.38 losses.
    rig.lose(0, 120, 2);
    assert_eq!(rig.bbr.mode, Bbr3Mode::Up);
    rig.lose(1_000, 120, 3);
    assert_eq!((rig.bbr.mode, rig.bbr.was_too_high, rig.bbr.is_probe_sample), (Bbr3Mode::Down, true, false));
    assert_eq!(rig.bbr.bounds.inflight_long, 119);
    assert_eq!(inflight_of(1, 120), 119 + 2, "a first loss would have been at 121.4");
    // Only once for each probe.
    rig.lose(2_000, 50, 4);
    assert_eq!(rig.bbr.bounds.inflight_long, 119);
    // What came after the first loss changes nothing of what is undone.
    rig.bbr.on_congestion(Congestion::Loss, 100);
    rig.bbr.on_state(&moment(rig.us), State::Recovery);
    rig.bbr.on_spurious(Prior { window: 100, ssthresh: 100 });
    assert_eq!((rig.bbr.mode, rig.bbr.bounds.inflight_long), (Bbr3Mode::Refill, INFINITE));
    rig.round(100, 120);
    assert_eq!(rig.bbr.mode, Bbr3Mode::Refill, "this ACK belongs to the round trip before");
    // The next episode starts again.
    rig.bbr.on_state(&moment(rig.us), State::Open);
    rig.bbr.bounds.inflight_long = 80;
    rig.bbr.on_congestion(Congestion::Loss, 100);
    rig.bbr.bounds.inflight_long = 70;
    rig.bbr.on_spurious(Prior { window: 100, ssthresh: 100 });
    assert_eq!((rig.bbr.mode, rig.bbr.bounds.inflight_long), (Bbr3Mode::Refill, 80));
}

fn inflight_of(lost: u64, tx_in_flight: u32) -> u64 {
    bounds::inflight_at_loss(lost, tx_in_flight)
}

#[test]
fn no_bound_falls_below_seven_tenths_of_the_target() {
    let mut rig = Rig::in_up(INFINITE);
    rig.lose(0, 20, 1);
    // 0.7 of the 100 that the path holds.
    assert_eq!(rig.bbr.bounds.inflight_long, 70);
}

#[test]
fn a_probe_in_full_use_of_the_bound_raises_it_twice_as_fast_each_round_trip() {
    let mut bounds = Bounds { inflight_long: 100, ..Bounds::default() };
    bounds.raise_slope(100);
    bounds.probe_upward(50, 99, true);
    assert_eq!(bounds.inflight_long, 100, "the window is below the bound");
    bounds.probe_upward(100, 100, true);
    assert_eq!(bounds.inflight_long, 101, "one per window");
    bounds.probe_upward(100, 101, true);
    assert_eq!(bounds.inflight_long, 103, "two per window");
    bounds.probe_upward(100, 103, false);
    assert_eq!(bounds.inflight_long, 107);
}

#[test]
fn after_a_probe_that_went_too_high_the_next_stops_at_the_bound_and_then_tries_again() {
    let mut rig = Rig::in_up(120);
    rig.bbr.was_too_high = true;
    rig.round(100, 120);
    assert_eq!((rig.bbr.mode, rig.bbr.was_cautious, rig.bbr.was_too_high), (Bbr3Mode::Down, true, false));
    rig.round(100, 110);
    assert_eq!((rig.bbr.mode, rig.bbr.was_cautious), (Bbr3Mode::Refill, false), "nothing was lost");
}

/// "Updating the Model Upon Packet Loss": 0.7 of its value, or the delivered amount, once per round trip.
#[test]
fn losses_lower_the_short_bounds_until_the_next_probe() {
    let mut rig = Rig::probing();
    rig.round(100, 100);
    let (bandwidth, window) = (rig.bbr.path.bandwidth(), rig.bbr.segments());
    // The previous round trip still counts at first.
    rig.lose(0, 100, 1);
    rig.round(60, 80);
    assert_eq!(rig.bbr.bounds.bandwidth_short, bandwidth);
    rig.lose(2_000, 100, 1);
    rig.round(60, 80);
    assert_eq!(rig.bbr.bounds.bandwidth_short, bandwidth * 70 / 100);
    assert!(rig.bbr.bounds.inflight_short <= window * 70 / 100);
    assert!(rig.bbr.segments() <= rig.bbr.bounds.inflight_short);
    assert_eq!(rig.bbr.bandwidth(), rig.bbr.bounds.bandwidth_short);
    rig.bbr.refill(rig.delivered);
    assert_eq!((rig.bbr.bandwidth(), rig.bbr.bounds.inflight_short), (bandwidth, INFINITE));
}

#[test]
fn cruising_leaves_a_part_of_the_bound_to_others() {
    let mut rig = Rig::probing();
    rig.bbr.bounds.inflight_long = 100;
    for (mode, bound) in [
        (Bbr3Mode::Startup, INFINITE),
        (Bbr3Mode::Down, 100),
        (Bbr3Mode::Cruise, 85),
        (Bbr3Mode::Refill, 100),
        (Bbr3Mode::Up, 100),
        (Bbr3Mode::ProbeRtt, 85),
    ] {
        rig.bbr.mode = mode;
        assert_eq!(rig.bbr.bound(), bound, "{mode:?}");
    }
    rig.bbr.bounds.inflight_long = 4;
    assert_eq!(rig.bbr.bounds.with_headroom(), WINDOW_MIN);
}

#[test]
fn the_greatest_bandwidth_of_two_cycles_counts() {
    let mut rig = Rig::probing();
    rig.round(100, 100);
    let bandwidth = rig.bbr.path.bandwidth();
    rig.bbr.path.advance_cycle();
    assert_eq!(rig.bbr.path.bandwidth(), bandwidth);
    rig.round(50, 50);
    rig.bbr.path.advance_cycle();
    assert_eq!(rig.bbr.path.bandwidth(), 50 * BANDWIDTH_ONE / RTT_US);
}

#[test]
fn every_five_seconds_it_halves_what_is_in_flight_for_200_ms_and_a_round_trip() {
    let mut rig = Rig::probing();
    let begin = rig.us;
    while rig.bbr.mode != Bbr3Mode::ProbeRtt {
        rig.round(100, 100);
    }
    assert!((4_000_000..=5_200_000).contains(&(rig.us - begin)), "{}", rig.us - begin);
    assert!(rig.bbr.holds_back() && rig.bbr.segments() <= 50, "{}", rig.bbr.segments());
    assert!(rig.bbr.probe_rtt_end_us.is_none());
    rig.round(50, 50);
    assert_eq!(rig.bbr.probe_rtt_end_us, Some(rig.us + PROBE_RTT_US));
    rig.round(50, 50);
    rig.round(50, 50);
    assert_eq!(rig.bbr.mode, Bbr3Mode::ProbeRtt);
    rig.round(50, 50);
    assert_eq!(rig.bbr.mode, Bbr3Mode::Cruise);
    assert_eq!(rig.bbr.path.min_rtt_us(), Some(RTT_US));
}
