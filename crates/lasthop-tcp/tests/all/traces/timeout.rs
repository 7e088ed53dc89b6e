//! The retransmission timer: Karn's rule, back-off, what a timeout does to window and scoreboard.

use lasthop_core::{RetransmissionKind, TransportEvent};
use lasthop_tcp::Phase;

use crate::wire::{INFINITE, Wire, config, numbers};

/// Segments 0 to 7 are in flight.
fn eight_in_flight(change: impl FnOnce(&mut lasthop_tcp::TcpConfig)) -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        change(c);
    });
    let wire = Wire::open(&config, 60);
    assert_eq!(wire.window(), (8, INFINITE, 8));
    wire
}

#[test]
fn first_timeout_is_three_times_the_first_sample() {
    let mut wire = eight_in_flight(|_| ());
    assert_eq!((wire.rtt_samples(), wire.rto_millis()), (vec![600], 1_800));
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.now_millis(), 600 + 1_800);
}

/// `tcp_init_metrics` of Linux 2.4: nothing is known of the path, so the first flight waits 3 s. Its first
/// ACK makes the timeout three times its own round-trip time.
#[test]
fn without_timestamps_linux_forgets_the_round_trip_time_of_the_handshake() {
    let mut wire = eight_in_flight(|c| c.handshake_rtt = false);
    assert!(wire.rtt_samples().is_empty());
    wire.wait(700);
    wire.ack(1);
    assert_eq!((wire.rtt_samples(), wire.rto_millis()), (vec![700], 2_100));

    let mut wire = eight_in_flight(|c| c.handshake_rtt = false);
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.now_millis(), 600 + 3_000);

    let mut wire = eight_in_flight(|c| (c.handshake_rtt, c.timestamps) = (false, true));
    assert_eq!((wire.rtt_samples(), wire.rto_millis()), (vec![600], 1_800));
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.now_millis(), 600 + 1_800);
}

#[test]
fn timeout_marks_all_lost_and_slow_starts() {
    let mut wire = eight_in_flight(|_| ());
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.window(), (1, 4, 1));
    wire.wait(600);
    assert_eq!(wire.ack(1), [1, 2]);
    assert_eq!(wire.window(), (2, 4, 2));
    wire.wait(600);
    assert_eq!(wire.ack(2), [3, 4]);
    assert_eq!(wire.ack(3), [5, 6]);
    assert_eq!(wire.ack(4), [7, 8]);
    assert_eq!(wire.window(), (5, 4, 5));
    let resent = TransportEvent::Retransmitted { seq: wire.byte(3), kind: RetransmissionKind::Timeout };
    assert_eq!(wire.count(resent), 1);
    assert_eq!(wire.ack(8).len(), 3, "out of loss recovery, the burst limit holds");
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
}

#[test]
fn sacked_segments_are_not_lost() {
    let mut wire = eight_in_flight(|_| ());
    wire.wait(600);
    wire.sack(0, &[(2, 4)]);
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.ack(1), [1, 4], "2 and 3 are held by the receiver");
}

#[test]
fn ssthresh_falls_once_per_episode() {
    let mut wire = eight_in_flight(|_| ());
    for _ in 0..3 {
        assert_eq!(wire.expire(), [0]);
        assert_eq!(wire.window(), (1, 4, 1));
    }
}

#[test]
fn timer_backs_off_to_its_cap() {
    let mut wire = eight_in_flight(|_| ());
    let mut waits = Vec::new();
    for _ in 0..9 {
        let before = wire.now_millis();
        wire.expire();
        waits.push(wire.now_millis() - before);
    }
    assert_eq!(waits, [1_800, 3_600, 7_200, 14_400, 28_800, 57_600, 115_200, 120_000, 120_000]);
}

#[test]
fn connection_gives_up_after_its_retries() {
    let mut wire = eight_in_flight(|c| c.retries = 3);
    for _ in 0..3 {
        assert_eq!(wire.expire(), [0]);
    }
    assert_eq!(wire.tcp.phase(), Phase::Established);
    assert_eq!(wire.expire(), [0; 0]);
    assert_eq!((wire.tcp.phase(), wire.count(TransportEvent::Aborted)), (Phase::Aborted, 1));
    assert_eq!(wire.tcp.next_wakeup(), None);
}

#[test]
fn progress_gives_the_retries_back() {
    let mut wire = eight_in_flight(|c| c.retries = 1);
    for number in 0..8 {
        assert_eq!(wire.expire()[0], number);
        wire.ack(number + 1);
    }
    assert_eq!(wire.tcp.phase(), Phase::Established);
}

#[test]
fn karn_takes_no_sample_from_a_retransmitted_segment_and_keeps_the_back_off() {
    let mut wire = eight_in_flight(|_| ());
    wire.expire();
    wire.wait(600);
    wire.ack(1);
    assert_eq!(wire.rtt_samples(), [600], "the SYN's alone");
    let before = wire.now_millis();
    wire.expire();
    assert_eq!(wire.now_millis() - before, 3_600, "doubled until a sample is valid");
}

#[test]
fn segment_that_was_not_retransmitted_gives_a_sample_again() {
    let mut wire = eight_in_flight(|_| ());
    wire.expire();
    wire.wait(600);
    for number in 1..8 {
        wire.ack(number);
    }
    let sent = wire.ack(8);
    assert!(!sent.is_empty());
    wire.wait(700);
    wire.ack(9);
    assert_eq!(wire.rtt_samples(), [600, 700]);
}

#[test]
fn with_timestamps_retransmissions_give_samples() {
    let mut wire = eight_in_flight(|c| c.timestamps = true);
    wire.expire();
    wire.wait(500);
    wire.ack(1);
    assert_eq!(wire.rtt_samples(), [600, 500]);
}

#[test]
fn ack_of_new_data_restarts_the_timer_and_a_duplicate_does_not() {
    let mut wire = eight_in_flight(|_| ());
    wire.wait(600);
    wire.ack(1);
    let due = wire.tcp.next_wakeup();
    wire.wait(300);
    wire.sack(1, &[(2, 3)]);
    assert_eq!(wire.tcp.next_wakeup(), due);
    wire.ack(2);
    assert!(wire.tcp.next_wakeup() > due);
}

#[test]
fn timer_stops_when_everything_is_acknowledged() {
    let mut wire = Wire::open(&config(|_| ()), 2);
    wire.wait(600);
    assert_eq!(wire.ack(2), numbers(0, 0));
    assert_eq!(wire.tcp.next_wakeup(), None);
}
