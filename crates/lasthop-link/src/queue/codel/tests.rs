//! RFC 8289 by hand, with Linux' roots: packets of 1500 bytes, of which the link takes one every 12 ms (1
//! Mbit/s).

use lasthop_core::units::QueueSize;

use super::*;
use crate::testing::{QueueLab, Seen, outlet};

const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);

type Lab = QueueLab<CoDel>;

fn lab(ecn: bool, mtu: u64) -> Lab {
    let queue = DropTail::new(QueueSize::Packets(60), outlet(mtu));
    Lab::new(CoDel::new(config(ecn), Bytes(mtu), queue))
}

fn config(ecn: bool) -> CoDelConfig {
    CoDelConfig { target: TARGET, interval: INTERVAL, ecn, ce_threshold: None }
}

const DROPPED: Seen = Seen::Dropped(DropCause::CoDel);

/// The intervals of section 5.4, 100 ms over the roots of 1, 2, 3 ...: Newton's steps are wrong for the
/// second interval and within 3 % from the third on.
#[test]
fn the_control_law_is_that_of_the_rfc_but_for_the_second_interval() {
    let with = CoDelParameters::new(config(false), Bytes(1_500));
    let mut control = CoDelControl { count: 1, inverse_root: ONE, ..CoDelControl::new() };
    let linux = [100.0, 50.0, 56.2, 48.8, 44.2, 40.4, 37.5, 35.2, 33.2, 31.5, 30.1];
    for (count, linux_ms) in (1_u32..).zip(linux) {
        if count > 1 {
            control.count = count;
            control.step();
        }
        let interval_ms = (control.control_law(&with, 0) << TIME_SHIFT) as f64 / 1e6;
        assert!((interval_ms - linux_ms).abs() < 0.06, "{count}: {interval_ms}");
        let rfc_ms = 100.0 / f64::from(count).sqrt();
        assert!(
            count == 2 || (interval_ms / rfc_ms - 1.0).abs() < 0.03,
            "{count}: {interval_ms}, not {rfc_ms}"
        );
    }
}

/// The delay is above the target from 12 ms on, so the first drop is at the first packet after 112 ms; the
/// next drops follow 100, 50, 56, 49 ... ms later (Linux' `codel_dequeue` by hand). The last packet is never
/// dropped.
#[test]
fn a_standing_queue_is_hit_ever_more_often() {
    let mut lab = lab(false, 1_500);
    lab.arrive(0, 60, 1_500, Ecn::Ect0);
    lab.drain(0);
    let drops = [
        (120, 10),
        (228, 20),
        (276, 25),
        (336, 31),
        (384, 36),
        (420, 40),
        (468, 45),
        (504, 49),
        (540, 53),
        (576, 57),
    ];
    assert_eq!(lab.met(DROPPED), drops);
}

#[test]
fn with_ecn_it_marks_what_it_can_and_delivers_it() {
    let mut lab = lab(true, 1_500);
    lab.arrive(0, 60, 1_500, Ecn::Ect0);
    lab.drain(0);
    assert!(lab.log.lines.iter().all(|line| line.2 == Seen::Marked));
    assert_eq!(lab.met(Seen::Marked)[..5], [(120, 10), (228, 19), (276, 23), (336, 28), (384, 32)]);
    let mut lab = self::lab(true, 1_500);
    lab.arrive(0, 60, 1_500, Ecn::NotEct);
    lab.drain(0);
    assert_eq!(lab.met(DROPPED)[..2], [(120, 10), (228, 20)]);
}

/// The first packet leaves at once, the second after 12 ms, the third after 24: the threshold of 24 ms is
/// exceeded from the fourth on, whether or not CoDel also marks or drops.
#[test]
fn a_threshold_marks_every_packet_that_waited_longer() {
    let queue = DropTail::new(QueueSize::Packets(60), outlet(1_500));
    let threshold = CoDelConfig { ce_threshold: Some(Duration::from_millis(24)), ..config(false) };
    let mut lab = Lab::new(CoDel::new(threshold, Bytes(1_500), queue));
    lab.arrive(0, 8, 1_500, Ecn::Ect1);
    lab.arrive(0, 1, 1_500, Ecn::NotEct);
    lab.drain(0);
    assert_eq!(lab.met(Seen::Marked), [(36, 3), (48, 4), (60, 5), (72, 6), (84, 7)]);
    assert_eq!(lab.met(DROPPED), []);
}

/// The drop rate that controlled the queue the last time, 8 after the first drop, is the initial rate of the
/// next time, if that is within 16 intervals.
#[test]
fn the_rate_of_drops_is_remembered_for_a_while() {
    for (again_ms, drops) in [(700, [820, 856]), (3_000, [3_120, 3_228])] {
        let mut lab = lab(false, 1_500);
        lab.arrive(0, 60, 1_500, Ecn::NotEct);
        lab.drain(0);
        lab.log.lines.clear();
        lab.arrive(again_ms, 60, 1_500, Ecn::NotEct);
        lab.drain(again_ms);
        let times: Vec<_> = lab.met(DROPPED).into_iter().map(|(at_ms, _)| at_ms).collect();
        assert_eq!(times[..2], drops);
    }
}

#[test]
fn a_queue_that_was_empty_in_between_is_no_standing_queue() {
    let mut lab = lab(false, 1_500);
    for start_ms in [0, 90, 180] {
        lab.arrive(start_ms, 7, 1_500, Ecn::NotEct);
        lab.drain(start_ms);
    }
    assert_eq!((lab.met(DROPPED), lab.arena.len()), (Vec::new(), 0));
}

#[test]
fn less_than_a_packet_more_is_no_standing_queue_however_long_it_waits() {
    let mut lab = lab(false, 1_500);
    lab.arrive(0, 1, 1_500, Ecn::NotEct);
    for second in 1..20 {
        lab.arrive(1_000 * (second - 1), 1, 1_500, Ecn::NotEct);
        assert_eq!(lab.leave(1_000 * second, 1_500), Some(second - 1));
    }
    assert_eq!(lab.met(DROPPED), []);
}

#[test]
fn a_packet_that_is_longer_than_the_dropped_one_waits_for_room() {
    let mut lab = lab(false, 100);
    lab.arrive(0, 3, 100, Ecn::NotEct);
    lab.arrive(0, 3, 1_500, Ecn::NotEct);
    assert_eq!([lab.leave(0, 100), lab.leave(10, 100)], [Some(0), Some(1)]);
    assert_eq!(lab.leave(111, 99), None);
    assert_eq!(lab.leave(111, 200), None);
    assert_eq!((lab.met(DROPPED), lab.queue.depth().packets), (vec![(111, 2)], 3));
    assert_eq!((lab.leave(112, 1_499), lab.leave(500, 1_500)), (None, Some(3)));
    assert_eq!((lab.met(DROPPED), lab.queue.depth().bytes), (Vec::new(), 3_000));
}

#[test]
fn the_limit_drops_at_the_tail() {
    let mut lab = lab(false, 1_500);
    lab.arrive(0, 62, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(0, 60), (0, 61)]);
}
