//! Fast recovery: entry, marking, window, end.

use lasthop_core::{RetransmissionKind, Segment, TransportEvent};
use lasthop_tcp::{CongestionControl, RecoveryRules};

use crate::wire::{INFINITE, Wire, config, numbers};

/// Segments 0 to 7 are sent, 0 is acknowledged: window 9, segments 1 to 9 in flight, unless `change`
/// says otherwise.
fn nine_in_flight(change: impl FnOnce(&mut lasthop_tcp::TcpConfig)) -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        change(c);
    });
    let mut wire = Wire::open(&config, 60);
    wire.wait(600);
    let window = config.initial_window;
    assert_eq!(wire.ack(1), [u64::from(window), u64::from(window) + 1]);
    assert_eq!(wire.window(), (window + 1, INFINITE, window + 1));
    wire
}

#[test]
fn one_loss_is_repaired_with_sack() {
    let mut wire = nine_in_flight(|_| ());
    // Limited transmit: a SACKed segment has left the network, so a new one may enter.
    assert_eq!(wire.sack(1, &[(2, 3)]), [10]);
    assert_eq!(wire.sack(1, &[(2, 4)]), [11]);
    assert_eq!(wire.window(), (9, INFINITE, 9));
    assert_eq!(wire.recoveries(), 0);
    // Third: ssthresh is half of the 8 in flight before marking, the window drops at once, and the head
    // leaves although 7 are in flight.
    assert_eq!(wire.sack(1, &[(2, 5)]), [1]);
    assert_eq!(wire.window(), (4, 4, 8));
    assert_eq!(wire.count(TransportEvent::RecoveryEntered { recovery_point: wire.byte(12) }), 1);
    for end in 6..10 {
        assert_eq!(wire.sack(1, &[(2, end)]), [0; 0]);
    }
    assert_eq!(wire.window(), (4, 4, 4));
    assert_eq!(wire.sack(1, &[(2, 10)]), [12]);
    assert_eq!(wire.sack(1, &[(2, 11)]), [13]);
    assert_eq!(wire.sack(1, &[(2, 12)]), [14]);
    // The recovery point is acknowledged: the window is ssthresh, and 12 to 14 are still in flight.
    assert_eq!(wire.ack(12), [15]);
    assert_eq!(wire.window(), (4, 4, 4));
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
    assert_eq!(wire.copies(1).len(), 2);
}

#[test]
fn under_cubic_rate_halving_stops_at_seven_tenths_of_the_window_and_growth_follows_the_curve() {
    let after = |algorithm: CongestionControl| {
        let mut wire = nine_in_flight(|c| {
            c.recovery = RecoveryRules::RateHalving;
            c.congestion_control = algorithm;
        });
        for end in 3..=10 {
            wire.sack(1, &[(2, end)]);
        }
        let falling = wire.window();
        wire.ack(10);
        (falling.0, falling.1, wire.window().0)
    };
    // Eight in flight at the third SACK. Under Reno the window falls by one on every second ACK down to
    // ssthresh and below.
    assert_eq!(after(CongestionControl::Reno).1, 4);
    let (falling, ssthresh, _) = after(CongestionControl::Cubic);
    assert_eq!(ssthresh, 5, "717/1024 of 8");
    assert!(falling >= 5, "{falling}");
}

#[test]
fn window_is_moderated_until_something_sent_later_is_acknowledged() {
    let mut wire = nine_in_flight(|_| ());
    for end in 3..=10 {
        wire.sack(1, &[(2, end)]);
    }
    assert_eq!(wire.ack(12), [13, 14, 15]);
    assert_eq!(wire.window(), (4, 4, 4));
    // Disorder: an ACK of all four may release three at most.
    assert_eq!(wire.ack(13), [16, 17]);
    assert_eq!(wire.window(), (5, 4, 5));
}

#[test]
fn new_head_after_a_partial_ack_is_lost_if_three_beyond_are_sacked() {
    let mut wire = nine_in_flight(|_| ());
    // 1 and 2 are lost.
    wire.sack(1, &[(3, 4)]);
    wire.sack(1, &[(3, 5)]);
    assert_eq!(wire.sack(1, &[(3, 6)]), [1]);
    assert_eq!(wire.window(), (4, 4, 8));
    for end in 7..=10 {
        assert_eq!(wire.sack(1, &[(3, end)]), [0; 0]);
    }
    assert_eq!(wire.window(), (4, 4, 4));
    // 2, 10 and 11 are outstanding and not reported; 2 is now lost and leaves again, and the window of
    // in-flight + 1 has room for one segment more.
    assert_eq!(wire.sack(2, &[(3, 10)]), [2]);
    assert_eq!(wire.window(), (3, 4, 3));
    assert_eq!(wire.recoveries(), 1);
    assert_eq!(wire.ack(10), [12]);
    // The end: back up to ssthresh.
    assert_eq!(wire.ack(12), [13, 14, 15]);
    assert_eq!(wire.window(), (4, 4, 4));
}

#[test]
fn partial_ack_without_sacks_beyond_marks_nothing() {
    let mut wire = nine_in_flight(|_| ());
    wire.sack(1, &[(2, 3)]);
    wire.sack(1, &[(2, 4)]);
    assert_eq!(wire.sack(1, &[(2, 5)]), [1]);
    assert_eq!(wire.ack(7), [0; 0]);
    assert_eq!(wire.copies(7).len(), 1);
}

#[test]
fn without_sack_duplicates_count_as_segments_that_have_left() {
    let mut wire = nine_in_flight(|c| c.sack = false);
    // 1 and 3 are lost. Limited transmit, as with SACK.
    assert_eq!(wire.ack(1), [10]);
    assert_eq!(wire.ack(1), [11]);
    assert_eq!(wire.window(), (9, INFINITE, 9));
    assert_eq!(wire.ack(1), [1]);
    assert_eq!(wire.window(), (4, 4, 8));
    assert_eq!(wire.recoveries(), 1);
    for _ in 6..10 {
        assert_eq!(wire.ack(1), [0; 0]);
    }
    assert_eq!(wire.window(), (4, 4, 4));
    assert_eq!(wire.ack(1), [12]);
    assert_eq!(wire.ack(1), [13]);
    // Partial ACK: the next hole leaves at once (RFC 6582). Nine duplicates, 1 and 2 acknowledged: of 3 to
    // 13, eight have left, and 3 is lost.
    assert_eq!(wire.ack(3), [3]);
    assert_eq!(wire.window(), (3, 4, 3));
    // 12 and 13 arrive, then the hole is filled.
    assert_eq!(wire.ack(3), [14]);
    assert_eq!(wire.ack(3), [15]);
    assert_eq!(wire.ack(14), [16, 17]);
    assert_eq!(wire.window(), (4, 4, 4));
}

#[test]
fn without_sack_recovery_holds_until_something_sent_later_is_acknowledged() {
    let mut wire = nine_in_flight(|c| c.sack = false);
    for _ in 0..7 {
        wire.ack(1);
    }
    // Everything up to the recovery point; late copies make duplicates that start no second recovery.
    assert_eq!(wire.ack(12), [12, 13, 14]);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 0);
    assert_eq!(wire.ack(12), [15], "the burst limit held it back");
    for _ in 0..3 {
        assert_eq!(wire.ack(12), [0; 0]);
    }
    assert_eq!((wire.recoveries(), wire.copies(12).len()), (1, 1));
    assert_eq!(wire.ack(13), [16]);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
}

#[test]
fn acks_that_open_the_window_or_carry_data_are_no_duplicates() {
    let mut wire = nine_in_flight(|c| c.sack = false);
    for extra in 1..=4 {
        let ack = wire.pure_ack(1, &[]);
        wire.deliver(&Segment { window_bytes: ack.window_bytes + extra, ..ack });
        wire.deliver(&Segment {
            payload_bytes: 1,
            seq: extra,
            window_bytes: ack.window_bytes + extra,
            ..ack
        });
    }
    assert_eq!(wire.recoveries(), 0);
}

#[test]
fn head_older_than_the_timeout_starts_recovery_on_the_first_dubious_ack() {
    let mut wire = nine_in_flight(|c| c.timestamps = true);
    // At 2.0 s an ACK that echoes segment 9 (sent at 1.2 s) restarts the timer with 1.82 s; the head
    // was sent at 0.6 s and ages on.
    wire.wait(800);
    assert_eq!(wire.ack_echoing(2, &[], 9, 0), [10, 11]);
    assert_eq!(wire.rto_millis(), 1_820);
    wire.wait(420);
    assert_eq!(wire.sack(2, &[(3, 4)]), [12], "1.82 s old is not older");
    wire.wait(10);
    assert_eq!(wire.sack(2, &[(3, 5)])[0], 2);
    assert_eq!(wire.recoveries(), 1);
}

#[test]
fn fast_retransmit_restarts_the_timer() {
    let mut wire = nine_in_flight(|_| ());
    wire.sack(1, &[(2, 3)]);
    wire.sack(1, &[(2, 4)]);
    wire.wait(300);
    assert_eq!(wire.sack(1, &[(2, 5)]), [1]);
    let restarted = wire.now_millis() + wire.rto_millis();
    wire.expire();
    assert_eq!(wire.now_millis(), restarted);
}

#[test]
fn lost_retransmission_is_sent_again_when_three_later_segments_are_sacked() {
    let mut wire = nine_in_flight(|_| ());
    for end in 3..=11 {
        wire.sack(1, &[(2, end)]);
    }
    assert_eq!(wire.copies(1).len(), 2);
    assert_eq!(wire.sack(1, &[(2, 12)]), [14]);
    // 12, 13, 14 left after the retransmission of 1.
    assert_eq!(wire.sack(1, &[(2, 13)]), [15]);
    assert_eq!(wire.sack(1, &[(2, 14)]), [16]);
    assert_eq!(wire.sack(1, &[(2, 15)]), [1]);
    assert_eq!(wire.copies(1).len(), 3);
}

#[test]
fn holes_below_the_furthest_sack_are_filled_when_no_new_data_is_left() {
    let config = config(|c| c.initial_window = 10);
    let mut wire = Wire::open(&config, 10);
    wire.wait(600);
    // 0 and 2 are missing, everything has been sent.
    wire.sack(0, &[(1, 2)]);
    wire.sack(0, &[(3, 4), (1, 2)]);
    assert_eq!(wire.sack(0, &[(3, 5), (1, 2)]), [0]);
    assert_eq!(wire.window(), (3, 3, 7));
    for end in 6..=9 {
        assert_eq!(wire.sack(0, &[(3, end), (1, 2)]), [0; 0]);
    }
    assert_eq!(wire.sack(0, &[(3, 10), (1, 2)]), [2]);
    let forward = TransportEvent::Retransmitted { seq: wire.byte(2), kind: RetransmissionKind::Forward };
    assert_eq!(wire.count(forward), 1);
}

#[test]
fn without_limited_transmit_reported_segments_count_until_they_are_acknowledged() {
    for sack in [true, false] {
        let mut wire = nine_in_flight(|c| {
            c.sack = sack;
            c.limited_transmit = false;
        });
        let report = |wire: &mut Wire, end| if sack { wire.sack(1, &[(2, end)]) } else { wire.ack(1) };
        assert_eq!(report(&mut wire, 3), [0; 0]);
        assert_eq!(report(&mut wire, 4), [0; 0]);
        assert_eq!(report(&mut wire, 5), [1]);
        // Half of the FlightSize of 9 (RFC 5681, equation 4); three have left.
        assert_eq!(wire.window(), (4, 4, 6), "sack = {sack}");
    }
}

#[test]
fn without_limited_transmit_an_ack_of_new_data_lets_new_data_go() {
    let mut wire = nine_in_flight(|c| c.limited_transmit = false);
    assert_eq!(wire.sack(1, &[(2, 3)]), [0; 0]);
    // 1 was late: 1 and 2 are acknowledged, 4 is reported. All seven of 3 to 9 count; the window was in use
    // and grew.
    assert_eq!(wire.sack(3, &[(4, 5)]), [10, 11, 12]);
    assert_eq!(wire.window(), (10, INFINITE, 9));
}

/// Segments 0 to 2 are outstanding, nothing new is left to send, 0 is lost.
fn three_last(change: impl FnOnce(&mut lasthop_tcp::TcpConfig)) -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        change(c);
    });
    let mut wire = Wire::open(&config, 3);
    wire.wait(600);
    wire
}

#[test]
fn early_retransmit_recovers_when_all_but_one_of_the_last_segments_are_reported() {
    let mut wire = three_last(|c| c.early_retransmit = true);
    assert_eq!(wire.sack(0, &[(1, 2)]), [0; 0]);
    assert_eq!(wire.sack(0, &[(1, 3)]), [0]);
    assert_eq!(wire.recoveries(), 1);
    // Two outstanding: one report is enough.
    let mut wire = three_last(|c| c.early_retransmit = true);
    wire.ack(1);
    assert_eq!(wire.sack(1, &[(2, 3)]), [1]);
    // Without SACK duplicates count (ER_thresh = outstanding - 1).
    let mut wire = three_last(|c| {
        c.early_retransmit = true;
        c.sack = false;
    });
    assert_eq!(wire.ack(0), [0; 0]);
    assert_eq!(wire.ack(0), [0]);
}

#[test]
fn without_early_retransmit_the_last_segments_wait_for_the_timer() {
    let mut wire = three_last(|_| ());
    wire.sack(0, &[(1, 2)]);
    assert_eq!(wire.sack(0, &[(1, 3)]), [0; 0]);
    assert_eq!(wire.recoveries(), 0);
    assert_eq!(wire.expire(), [0]);
}

#[test]
fn early_retransmit_waits_while_new_data_or_four_segments_are_there() {
    let mut wire = three_last(|c| c.early_retransmit = true);
    wire.write(1);
    // Four outstanding: the usual threshold of three.
    wire.sack(0, &[(1, 2)]);
    assert_eq!(wire.sack(0, &[(1, 3)]), [0; 0]);
    assert_eq!(wire.sack(0, &[(1, 4)]), [0]);
    // New data in hand, held by the congestion window only: limited transmit gets more duplicates.
    let mut wire = Wire::open(
        &config(|c| {
            c.initial_window = 3;
            c.early_retransmit = true;
        }),
        9,
    );
    wire.wait(600);
    assert_eq!(wire.sack(0, &[(1, 2)]), [3]);
    assert_eq!(wire.sack(0, &[(1, 3)]), [4]);
    assert_eq!(wire.sack(0, &[(1, 4)])[0], 0);
}

#[test]
fn rate_halving_rules_shrink_the_window_every_second_ack_and_mark_by_rfc_3517() {
    let mut wire = nine_in_flight(|c| {
        c.initial_window = 16;
        c.recovery = RecoveryRules::Rfc3517RateHalving;
    });
    assert_eq!(wire.window(), (17, INFINITE, 17));
    // 1 and 3 are lost.
    wire.sack(1, &[(2, 3)]);
    wire.sack(1, &[(4, 5), (2, 3)]);
    assert_eq!(wire.sack(1, &[(4, 6), (2, 3)]), [1]);
    assert_eq!(wire.window(), (8, 8, 16), "half of the flight at once");
    // Second ACK of recovery: 3 has three SACKed segments above it now, but the window is full.
    assert_eq!(wire.sack(1, &[(4, 7), (2, 3)]), [0; 0]);
    assert_eq!(wire.window(), (7, 8, 14));
    let mut cwnd = Vec::new();
    for end in 8..=14 {
        assert_eq!(wire.sack(1, &[(4, end), (2, 3)]), [0; 0]);
        cwnd.push(wire.window().0);
    }
    assert_eq!(cwnd, [7, 6, 6, 5, 5, 4, 4], "down to half of ssthresh");
    for end in 15..=17 {
        assert_eq!(wire.sack(1, &[(4, end), (2, 3)]), [0; 0]);
    }
    assert_eq!(wire.window(), (4, 8, 4));
    assert_eq!(wire.sack(1, &[(4, 18), (2, 3)]), [3]);
    assert_eq!(wire.copies(3).len(), 2);
    // The end: the window is ssthresh; three at once at most.
    assert_eq!(wire.ack(20), [20, 21, 22]);
    assert_eq!(wire.window().1, 8);
}

#[test]
fn slow_start_adds_one_per_ack_and_congestion_avoidance_one_per_more_than_a_window() {
    let cached = lasthop_tcp::CachedMetrics { ssthresh: 4, ..Default::default() };
    let mut wire = Wire::open_with_cache(&config(|_| ()), 60, Some(&cached));
    wire.wait(600);
    let cwnd: Vec<u32> = (1..=16)
        .map(|number| {
            wire.ack(number);
            wire.window().0
        })
        .collect();
    assert_eq!(cwnd, [3, 4, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7]);
}

#[test]
fn window_that_was_not_used_does_not_grow() {
    let mut wire = Wire::open(&config(|_| ()), 1);
    wire.wait(600);
    wire.ack(1);
    assert_eq!(wire.write(10), numbers(1, 3), "cwnd is still 2");
}

#[test]
fn a_hole_that_fills_late_raises_the_threshold() {
    let mut wire = nine_in_flight(|_| ());
    wire.sack(1, &[(4, 6)]);
    // 2 comes behind 5, four places late: three that arrived are no sign of loss any more, nor are four.
    wire.sack(1, &[(2, 3), (4, 6)]);
    assert_eq!(wire.recoveries(), 0);
    assert_eq!(wire.sack(1, &[(2, 3), (4, 7)]), [1]);
    assert_eq!(wire.recoveries(), 1);
}

#[test]
fn a_head_that_arrives_late_raises_the_threshold() {
    let mut wire = nine_in_flight(|_| ());
    wire.sack(1, &[(3, 5)]);
    // 1 comes behind 4.
    wire.sack(2, &[(3, 5)]);
    wire.sack(2, &[(3, 6)]);
    assert_eq!(wire.recoveries(), 0);
    assert_eq!(wire.sack(2, &[(3, 7)]), [2]);
    assert_eq!(wire.recoveries(), 1);
}

#[test]
fn blocks_that_one_ack_reports_together_say_nothing_of_reordering() {
    let mut wire = nine_in_flight(|_| ());
    // An ACK was lost that would have reported 2 before 4 arrived.
    wire.sack(1, &[(4, 5), (2, 3)]);
    assert_eq!(wire.sack(1, &[(4, 6), (2, 3)]), [1]);
    assert_eq!(wire.recoveries(), 1);
}
