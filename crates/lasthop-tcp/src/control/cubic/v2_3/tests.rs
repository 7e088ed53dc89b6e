use super::*;
use crate::config::{Profile, TcpConfig};
use crate::control::{Counting, Cubic, Setup};

/// Ticks of 4 ms.
const HZ: u64 = 250;

fn window(profile: Profile, counting: Counting, cwnd: u32) -> Segments {
    let config: TcpConfig = toml::from_str(profile.toml()).expect("complete");
    let mut window = Segments::new(&config, 1_448, counting);
    window.set(cwnd);
    window
}

fn old<const HYSTART: bool>(cwnd: u32) -> Cubic23<HYSTART> {
    let mut cubic = Cubic23::new(window(Profile::Linux26, Counting::Acks, cwnd), HZ);
    cubic.on_start(&at(0, 0), 0);
    cubic
}

/// Everything below `una` has arrived, and a thousand more segments are in flight.
fn at(tick: Tick, una: u64) -> Moment {
    Moment { us: tick * 1_000_000 / HZ, tick, una, nxt: una + 1_000 }
}

fn ack(cubic: &mut impl Controller<Window = Segments>, tick: Tick, una: u64, acked: u32) {
    cubic.on_ack(&RateSample { at: at(tick, una), acked, is_window_limited: true, rate: None });
}

/// A loss at 100 segments, with a round-trip time of this number of ticks.
fn lost_at_100<C: Controller<Window = Segments>>(mut cubic: C, rtt: Tick) -> C {
    cubic.on_rtt(&at(rtt, 0), rtt * 1_000_000 / HZ);
    cubic.on_congestion(Congestion::Loss, 100);
    cubic.state_mut().fall();
    cubic
}

/// Windows after this number of round trips, each with an ACK for every two segments, evenly spaced.
fn windows<C: Controller<Window = Segments>>(cubic: &mut C, rtt: Tick, rounds: u64, acked: u32) -> Vec<u32> {
    let one = |round: u64| {
        let acks = u64::from(cubic.window() / 2);
        for number in 0..acks {
            ack(cubic, 1_000 + round * rtt + number * rtt / acks, 0, acked);
        }
        cubic.window()
    };
    (0..rounds).map(one).collect()
}

/// RFC 9438, figure 1: W(t) = C (t - K)^3 + `W_max`, with K = cbrt(`W_max` (1 - beta) / C).
fn curve(seconds: f64) -> f64 {
    let (c, max, after) = (0.4, 100.0, 70.0);
    let from_max = seconds - f64::cbrt((max - after) / c);
    c * from_max * from_max * from_max + max
}

#[test]
fn after_a_loss_the_window_follows_the_curve() {
    // The round trip is so long that Reno would be slower.
    let rtt = HZ;
    let mut cubic = lost_at_100(old::<false>(100), rtt);
    assert_eq!(cubic.window(), 70);
    for (round, window) in windows(&mut cubic, rtt, 12, 2).into_iter().enumerate() {
        // The target is the value of the curve a round trip later, and the window takes about that long to
        // reach it.
        let [ago, ahead] = [round as f64, round as f64 + 2.0].map(curve);
        let (least, most) = (ago.floor() as u32, ahead.ceil() as u32);
        assert!((least..=most).contains(&window), "{round}: {ago} {window} {ahead}");
    }
}

/// RFC 9438, section 4.3: 3 (1 - beta) / (1 + beta) segments per round trip, if the curve is slower.
#[test]
fn on_a_short_path_the_window_grows_as_renos_with_the_same_decrease() {
    let mut cubic = lost_at_100(old::<false>(100), HZ / 10);
    let last = windows(&mut cubic, HZ / 10, 20, 2)[19];
    // Twenty round trips of 100 ms; an ACK counts as one, that is, as half of the segments.
    let reno: f64 = 70.0 + 20.0 * 3.0 * 0.3 / 1.7 / 2.0;
    let expected = reno.max(curve(2.0));
    assert!((f64::from(last) - expected).abs() <= 2.0, "{last} {expected}");
}

/// The CUBIC of Linux 6.12, which is compared with the kernel in a guest, follows the same curve.
#[test]
fn a_long_round_trip_gives_the_windows_of_todays_cubic() {
    let config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    let today = window(Profile::Linux6, Counting::Segments, 100);
    let mut today = lost_at_100(Cubic::<false>::new(Setup::new(&config, today, HZ, 1_448)), HZ);
    let mut old = lost_at_100(old::<false>(100), HZ);
    let (old, today) = (windows(&mut old, HZ, 9, 2), windows(&mut today, HZ, 9, 2));
    for (old, today) in old.iter().zip(&today) {
        assert!(20 * old.abs_diff(*today) <= *today, "{old} {today}");
    }
}

#[test]
fn a_second_loss_below_the_first_one_lowers_the_curve() {
    let mut cubic = lost_at_100(old::<false>(100), HZ);
    assert_eq!((cubic.ssthresh(), cubic.undone()), (70, 100));
    cubic.on_congestion(Congestion::Loss, 80);
    // 80 (1 + beta) / 2.
    assert_eq!((cubic.ssthresh(), cubic.undone()), (56, 68));
}

#[test]
fn a_timeout_forgets_the_curve() {
    let mut cubic = lost_at_100(old::<false>(100), HZ);
    cubic.on_timeout(&at(0, 0), 50, 1);
    assert_eq!((cubic.window(), cubic.ssthresh(), cubic.undone()), (1, 35, 0));
}

/// Linux: 15/16 of the ratio and the new number, in sixteenths, cut; so one segment per ACK stays near two.
#[test]
fn segments_per_ack_are_averaged_in_sixteenths() {
    let mut cubic = old::<false>(10);
    for _ in 0..100 {
        cubic.note_acked(1);
    }
    assert_eq!(cubic.curve.ratio, 31);
    for _ in 0..200 {
        cubic.note_acked(4);
    }
    assert_eq!(cubic.curve.ratio, 64);
}

/// The window after eleven samples, the first of which is the overall minimum.
fn after_samples<const HYSTART: bool>(cwnd: u32, least: Tick, later: Tick) -> u32 {
    let mut cubic = old::<HYSTART>(cwnd);
    cubic.on_rtt(&at(0, 1), least * 1_000_000 / HZ);
    ack(&mut cubic, 0, 1_001, 1);
    for number in 0..10 {
        cubic.on_rtt(&at(200 + 10 * number, 1_002), later * 1_000_000 / HZ);
    }
    cubic.ssthresh()
}

#[test]
fn hystart_ends_slow_start_a_sixteenth_above_the_least_delay_and_not_below_16_segments() {
    const ON: u32 = u32::MAX;
    // A sixteenth of 160 ticks is 10; of 16 ticks at least 2, of 1600 at most 16.
    for (least, later, ends) in [
        (160, 170, false),
        (160, 171, true),
        (16, 18, false),
        (16, 19, true),
        (1_600, 1_616, false),
        (1_600, 1_617, true),
    ] {
        let window = after_samples::<true>(16, least, later);
        assert_eq!(window, if ends { 17 } else { ON }, "{least} {later}");
        assert_eq!(after_samples::<false>(16, least, later), ON);
    }
    assert_eq!(after_samples::<true>(14, 160, 200), ON);
}
