//! F-RTO, the version of 2002 (RFC 4138's own examples: `rfc_examples.rs`).

use lasthop_core::{TcpEvent, UndoCause};
use lasthop_tcp::FRtoMode;

use crate::wire::{Wire, config};

const UNDONE: TcpEvent = TcpEvent::Undone(UndoCause::FRto);

/// Segments 0 to 7 were in flight, the timer has expired, the head is retransmitted.
fn timed_out(segments: u64) -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        c.frto = FRtoMode::Draft2002;
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
    assert_eq!(wire.count(TcpEvent::RecoveryLeft), 1);
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
