//! F-RTO: the version of 2002, and RFC 5682 with SACK (RFC 4138's own examples: `rfc_examples.rs`).

use lasthop_core::{TransportEvent, UndoCause};
use lasthop_tcp::FRtoMode;

use crate::wire::{Wire, config};

const UNDONE: TransportEvent = TransportEvent::Undone(UndoCause::FRto);

/// Segments 0 to 7 were in flight, the timer has expired, the head is retransmitted.
fn timed_out(segments: u64) -> Wire {
    timed_out_with(FRtoMode::Draft2002, segments)
}

fn timed_out_with(mode: FRtoMode, segments: u64) -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        c.frto = mode;
    });
    let mut wire = Wire::open(&config, segments);
    assert_eq!(wire.expire(), [0]);
    wire
}

#[test]
fn two_advancing_acks_show_a_spurious_timeout() {
    let mut wire = timed_out(60);
    // Nothing is marked lost; ssthresh is half of what is outstanding.
    assert_eq!(wire.window().1, 4);
    assert_eq!(wire.ack(1), [8, 9]);
    assert_eq!(wire.window(), (4, 4, 9));
    assert_eq!(wire.count(UNDONE), 0);
    assert_eq!(wire.ack(2), [0; 0]);
    assert_eq!(wire.count(UNDONE), 1);
    assert_eq!(wire.window(), (4, 4, 8), "congestion avoidance from half of what was outstanding");
    // cwnd = ssthresh counts as slow start once more: the window is 5 until 5 are in flight.
    for number in 3..=5 {
        assert_eq!(wire.ack(number), [0; 0]);
    }
    assert_eq!(wire.window(), (5, 4, 5));
    assert_eq!(wire.ack(6), [10]);
    for number in 1..10 {
        assert_eq!(wire.copies(number).len(), 1, "nothing but the head was sent twice");
    }
}

#[test]
fn duplicate_at_the_first_ack_shows_a_loss() {
    let mut wire = timed_out(60);
    wire.sack(0, &[(3, 4)]);
    assert_eq!(wire.count(UNDONE), 0);
    // Conventional recovery: the head is acknowledged, the holes follow, 3 is held by the receiver.
    let mut sent = wire.ack(1);
    sent.extend(wire.ack(2));
    assert!(!sent.contains(&3) && !sent.contains(&8), "{sent:?}");
    assert_eq!(wire.copies(2).len(), 2);
    assert_eq!(wire.copies(3).len(), 1);
    assert_eq!(wire.window().1, 4);
}

#[test]
fn duplicate_at_the_second_ack_shows_a_loss() {
    let mut wire = timed_out(60);
    assert_eq!(wire.ack(1), [8, 9]);
    // 1 to 7 are lost; 8 and 9 stay in flight: window 2 + 3, three segments go again.
    assert_eq!(wire.ack(1), [1, 2, 3]);
    assert_eq!(wire.window(), (5, 4, 5));
    assert_eq!(wire.count(UNDONE), 0);
}

#[test]
fn ack_of_everything_sent_before_the_timeout_is_no_proof() {
    let mut wire = timed_out(60);
    wire.ack(8);
    assert_eq!(wire.count(UNDONE), 0);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
}

#[test]
fn second_expiry_recovers_conventionally() {
    let mut wire = timed_out(60);
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.window(), (1, 4, 1));
    assert_eq!(wire.ack(1), [1, 2]);
}

#[test]
fn without_new_data_recovery_is_conventional() {
    let mut wire = timed_out(8);
    assert_eq!(wire.window(), (1, 4, 1));
    assert_eq!(wire.ack(1), [1, 2]);
}

/// RFC 5682, section 3.1.
fn timed_out_with_sack() -> Wire {
    timed_out_with(FRtoMode::Rfc5682Sack, 60)
}

#[test]
fn with_sack_a_reordered_segment_does_not_hide_a_spurious_timeout() {
    let mut wire = timed_out_with_sack();
    // Step 2: a duplicate ACK is only recorded; the basic algorithm would give up here. Nothing leaves (as
    // RFC 4138, appendix A.4).
    assert_eq!(wire.sack(0, &[(2, 3)]), [0; 0]);
    assert_eq!(wire.count(UNDONE), 0);
    // Step 2b: the head is acknowledged, two new segments.
    assert_eq!(wire.sack(1, &[(2, 3)]), [8, 9]);
    // Step 3b: segment 1 was sent before the timeout only. ssthresh is back at the flight.
    wire.ack(3);
    assert_eq!((wire.count(UNDONE), wire.window().1), (1, 8));
    for number in 1..10 {
        assert_eq!(wire.copies(number).len(), 1, "nothing but the head was sent twice");
    }
}

#[test]
fn with_sack_news_of_an_original_shows_a_spurious_timeout() {
    let mut wire = timed_out_with_sack();
    assert_eq!(wire.ack(1), [8, 9]);
    // Step 3b: 2 had been sent before the timeout and arrives now; 1 is lost.
    assert_eq!(wire.sack(1, &[(2, 3)]), [10]);
    assert_eq!(wire.count(UNDONE), 1);
    // Conventional recovery of the hole from here on.
    wire.sack(1, &[(2, 4)]);
    assert_eq!(wire.sack(1, &[(2, 5)])[0], 1);
    assert_eq!(wire.recoveries(), 1);
}

#[test]
fn with_sack_the_arrival_of_new_data_shows_a_loss() {
    let mut wire = timed_out_with_sack();
    assert_eq!(wire.ack(1), [8, 9]);
    // Step 3a: 8 was sent after the timeout; what was sent before it is lost. 9 is in flight, window 3 + 1.
    assert_eq!(wire.sack(1, &[(8, 9)]), [1, 2, 3]);
    assert_eq!(wire.window(), (4, 4, 4));
    assert_eq!(wire.count(UNDONE), 0);
}

#[test]
fn with_sack_a_duplicate_without_news_shows_a_loss() {
    let mut wire = timed_out_with_sack();
    assert_eq!(wire.ack(1), [8, 9]);
    // Step 3a, second sentence.
    assert_eq!(wire.ack(1), [1, 2, 3]);
    assert_eq!(wire.count(UNDONE), 0);
}

#[test]
fn with_sack_an_ack_of_everything_in_step_2_is_no_proof_and_in_step_3_it_is() {
    let mut wire = timed_out_with_sack();
    wire.ack(8);
    assert_eq!((wire.count(UNDONE), wire.count(TransportEvent::RecoveryLeft)), (0, 1));

    let mut wire = timed_out_with_sack();
    assert_eq!(wire.ack(1), [8, 9]);
    wire.ack(8);
    assert_eq!(wire.count(UNDONE), 1);
}

#[test]
fn with_sack_a_timeout_in_recovery_is_not_examined() {
    let mut wire = Wire::open(
        &config(|c| {
            c.initial_window = 8;
            c.frto = FRtoMode::Rfc5682Sack;
        }),
        60,
    );
    wire.wait(600);
    for end in 2..=4 {
        wire.sack(0, &[(1, end)]);
    }
    assert_eq!(wire.recoveries(), 1);
    // Step 1: 0 was retransmitted before, its ACK would prove nothing.
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.window().0, 1);
}
