use super::*;
use crate::config::{Profile, TcpConfig};
use crate::control::Counting;

const MSS: u32 = 1_000;

/// In congestion avoidance.
fn prague(window: u32) -> Prague {
    version(PragueVersion::V0_6, window)
}

/// The same in the version of August 2020.
fn prague_of_2020(window: u32) -> Prague {
    version(PragueVersion::V0_5, window)
}

fn version(prague_version: PragueVersion, window: u32) -> Prague {
    let linux_6: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    let config = TcpConfig { prague_version, ..linux_6 };
    let mut segments = Segments::new(&config, MSS, Counting::Segments);
    segments.set(window);
    segments.set_ssthresh(2);
    let mut prague = Prague::new(Setup::new(&config, segments, 250, MSS));
    prague.on_start(&at(0, 0), 0);
    prague
}

/// An ACK of everything below `una`; a hundred more segments are in flight.
fn at(us: u64, una: u64) -> Moment {
    Moment { us, tick: us / 4_000, una, nxt: una + 100 }
}

/// An ACK of `acked` segments, `marked` of them with a mark.
fn ack(prague: &mut Prague, at: Moment, acked: u32, marked: u64) {
    let (delivered, delivered_ce) = (prague.delivered + u64::from(acked), prague.delivered_ce + marked);
    prague.on_every_ack(&Acked { at, is_predicted: true, acknowledged: None, delivered, delivered_ce });
    prague.on_ack(&RateSample { at, acked, is_window_limited: true, rate: None });
}

/// A round of a hundred segments in one ACK. Returns alpha, in 1024ths.
fn round(prague: &mut Prague, us: u64, marked: u64) -> u64 {
    let end = prague.round_end;
    ack(prague, at(us, end), 100, marked);
    prague.alpha >> (WEIGHT_LOG + 10)
}

/// By hand, with g = 1/16: `alpha += g * (share - alpha)`.
#[test]
fn alpha_follows_the_share_of_marks() {
    let mut prague = prague(100);
    assert_eq!(round(&mut prague, 50_000, 0), 1_024, "nobody has marked yet");
    // 1 + (1/4 - 1) / 16 = 61/64.
    assert_eq!(round(&mut prague, 100_000, 25), 61 * 1_024 / 64);
    // 61/64 + (0 - 61/64) / 16 = 915/1024.
    assert_eq!(round(&mut prague, 150_000, 0), 915);
    // 915/1024 + (1 - 915/1024) / 16 = 921.8/1024.
    assert_eq!(round(&mut prague, 200_000, 100), 921);
    for number in 0..200 {
        round(&mut prague, 250_000 + number * 50_000, 2);
    }
    // Two per cent: 20.48/1024.
    assert_eq!(prague.alpha >> (WEIGHT_LOG + 10), 20);
}

#[test]
fn marks_cut_the_window_by_half_of_alpha_step_by_step() {
    let mut prague = prague(100);
    prague.alpha = (ONE / 4) << WEIGHT_LOG;
    prague.on_congestion(Congestion::Ecn, 100);
    // 100 * (1 - 1/8) = 87.5.
    assert_eq!((prague.target * 2) >> PLACES, 175);
    assert_eq!((prague.window(), prague.ssthresh()), (100, 88));
    for left in (88..100).rev() {
        ack(&mut prague, at(1_000, 1), 0, 0);
        assert_eq!(prague.window(), left);
    }
    ack(&mut prague, at(1_000, 1), 0, 0);
    assert_eq!(prague.window(), 88);
}

/// Unmarked segments continue to grow the window, even while it falls.
#[test]
fn unmarked_segments_grow_the_window_by_one_per_round() {
    let mut prague = prague(50);
    ack(&mut prague, at(1_000, 1), 25, 0);
    assert_eq!(prague.target >> (PLACES - 1), 101, "50.5");
    ack(&mut prague, at(2_000, 2), 25, 25);
    assert_eq!(prague.target >> (PLACES - 1), 101, "all of them were marked");
    ack(&mut prague, at(3_000, 3), 26, 1);
    assert_eq!((prague.target * 100) >> PLACES, 5_099, "25 / 51 more");
}

/// Two flows with the same rate, one over 5 ms and one over 25 ms, grow by the same rate per second. For
/// that, the first must grow by (5/25)^2 of a segment per round.
#[test]
fn old_flows_on_short_paths_grow_as_on_25_ms() {
    let mut prague = prague(50);
    prague.srtt_us = 5_000;
    assert_eq!(prague.growth(), ONE, "it is young");
    prague.rounds = ROUNDS_YOUNG;
    assert_eq!(prague.growth(), ONE / 25);
    prague.srtt_us = 60_000;
    assert_eq!(prague.growth(), ONE);
    // Alpha and cuts use 25 ms, too.
    prague.srtt_us = 5_000;
    (prague.now_us, prague.cut_us) = (124_999, 100_000);
    prague.on_congestion(Congestion::Ecn, 50);
    assert_eq!(prague.target_segments(), 50);
    prague.now_us = 125_000;
    prague.on_congestion(Congestion::Ecn, 50);
    assert_eq!(prague.target_segments(), 25);
}

#[test]
fn a_round_of_an_old_flow_lasts_25_ms() {
    let mut prague = prague(50);
    (prague.rounds, prague.has_seen_mark, prague.updated_us) = (ROUNDS_YOUNG, true, 100_000);
    let end = prague.round_end;
    assert_eq!(round(&mut prague, 105_000, 0), 1_024);
    assert_eq!(prague.round_end, end);
    assert_eq!(round(&mut prague, 125_000, 0), 960);
}

#[test]
fn losses_halve_the_window_whatever_alpha_is_and_once() {
    let mut prague = prague(100);
    prague.alpha = 0;
    prague.on_congestion(Congestion::Ecn, 100);
    prague.on_state(&at(0, 0), State::Cwr);
    assert_eq!(prague.target_segments(), 100);
    prague.on_state(&at(0, 0), State::Recovery);
    assert_eq!(prague.target_segments(), 50);
    ack(&mut prague, at(1_000, 1), 50, 0);
    assert_eq!(prague.target_segments(), 50, "it does not grow meanwhile");
    prague.on_spurious(Prior { window: 100, ssthresh: 200 });
    assert_eq!((prague.target_segments(), prague.window()), (100, 100));
    prague.on_state(&at(0, 0), State::Open);
    prague.on_congestion(Congestion::Loss, 100);
    prague.on_state(&at(0, 0), State::Recovery);
    assert_eq!((prague.target_segments(), prague.ssthresh()), (50, 50));
}

#[test]
fn after_a_timeout_the_window_climbs_to_half() {
    let mut prague = prague(100);
    prague.on_timeout(&at(0, 0), 100, 1);
    prague.on_state(&at(0, 0), State::Loss);
    (0..60).for_each(|_| ack(&mut prague, at(1_000, 1), 1, 0));
    assert_eq!(prague.window(), 50);
}

#[test]
fn slow_start_is_standard_and_its_first_mark_halves() {
    let mut prague = prague(10);
    prague.window.set_ssthresh(u32::MAX);
    ack(&mut prague, at(1_000, 1), 10, 0);
    assert_eq!((prague.window(), prague.target_segments()), (20, 20));
    prague.on_congestion(Congestion::Ecn, 20);
    assert_eq!((prague.target_segments(), prague.ssthresh()), (10, 10));
}

#[test]
fn it_paces_a_window_per_round_trip_and_twice_that_early() {
    let mut prague = prague(50);
    assert!(prague.pacing_rate().is_none());
    prague.on_rtt(&at(0, 0), 100_000);
    let rate = |prague: &Prague| prague.pacing_rate().map(Rate::bits_per_second);
    assert_eq!((rate(&prague), prague.burst_max()), (Some(4_000_000), 1));
    prague.window.set_ssthresh(u32::MAX);
    assert_eq!(rate(&prague), Some(8_000_000));
    // 100 Mbit/s for 244 us.
    prague.srtt_us = 8_000;
    assert_eq!(prague.burst_max(), 3);
}

/// Otherwise the pacing rate would fall towards zero.
#[test]
fn a_target_stays_at_two_segments() {
    let mut prague = prague(3);
    for _ in 0..40 {
        prague.on_congestion(Congestion::Ecn, 3);
        prague.on_congestion(Congestion::Loss, 3);
    }
    assert_eq!((prague.target, prague.ssthresh()), (2 << PLACES, 2));
}

/// `cwnd_cnt`: growth and cuts add up until they are a segment, and refer to the window without its fraction.
#[test]
fn version_0_5_moves_the_window_by_whole_segments() {
    let mut prague = prague_of_2020(10);
    ack(&mut prague, at(1_000, 1), 9, 0);
    assert_eq!((prague.window(), (prague.target * 10) >> PLACES), (10, 108), "10.9, rounded down");
    ack(&mut prague, at(2_000, 2), 2, 0);
    assert_eq!(prague.window(), 11);
    // 11.1 - 11 / 8 = 9.7: the window falls to 10, not to 9.
    prague.alpha = (ONE / 4) << WEIGHT_LOG;
    prague.on_congestion(Congestion::Ecn, 11);
    assert_eq!((prague.target * 10) >> PLACES, 97);
    for number in 3..6 {
        ack(&mut prague, at(number * 1_000, number), 0, 0);
        assert_eq!(prague.window(), 10);
    }
    // Version 0.6 rounds up.
    let mut today = self::prague(10);
    ack(&mut today, at(1_000, 1), 1, 0);
    assert_eq!(today.window(), 11);
}

/// `prague_rtt_scaling` was off.
#[test]
fn version_0_5_grows_by_a_segment_per_round_on_short_paths_too() {
    let mut prague = prague_of_2020(50);
    (prague.srtt_us, prague.rounds) = (5_000, ROUNDS_YOUNG);
    assert_eq!(prague.growth(), ONE);
    (prague.now_us, prague.cut_us) = (100_001, 100_000);
    prague.on_congestion(Congestion::Ecn, 50);
    assert_eq!(prague.target_segments(), 25);
}

#[test]
fn version_0_5_keeps_a_window_of_two() {
    let mut prague = prague_of_2020(3);
    for number in 1..20 {
        prague.on_congestion(Congestion::Ecn, 3);
        ack(&mut prague, at(number * 1_000, number), 0, 0);
    }
    assert_eq!((prague.window(), prague.target), (2, 2 << PLACES));
    prague.on_timeout(&at(0, 0), 2, 1);
    assert_eq!((prague.window(), prague.ssthresh()), (1, 2));
}

/// 50 packets of 1052 bytes per 100 ms, counted as payload by the pacer.
#[test]
fn version_0_5_paces_by_whole_packets_and_grows_meanwhile() {
    let mut prague = prague_of_2020(50);
    prague.on_rtt(&at(0, 0), 100_000);
    assert_eq!(prague.pacing_rate().map(Rate::bits_per_second), Some(4_208_000));
    assert!(prague.grows_while_paced() && !self::prague(50).grows_while_paced());
}
