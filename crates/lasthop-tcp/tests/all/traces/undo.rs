//! Reductions taken back: by timestamps, by D-SACK.

use lasthop_core::{SackBlock, TransportEvent, UndoCause};
use lasthop_tcp::{CachedMetrics, TcpConfig};

use crate::wire::{INFINITE, Wire, config};

const EIFEL: TransportEvent = TransportEvent::Undone(UndoCause::Timestamps);
const DSACK: TransportEvent = TransportEvent::Undone(UndoCause::Dsack);

fn open(change: impl FnOnce(&mut TcpConfig)) -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        change(c);
    });
    let mut wire = Wire::open(&config, 60);
    wire.wait(600);
    wire
}

fn eifel(config: &mut TcpConfig) {
    config.timestamps = true;
    config.eifel = true;
}

#[test]
fn eifel_undoes_a_spurious_timeout_at_the_first_ack() {
    let mut wire = open(eifel);
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.window(), (1, 4, 1));
    // The ACK of the original: ssthresh is infinite again, nothing is lost, new data follows. The burst
    // limit leaves 7 in flight + 3.
    wire.wait(100);
    let sent = wire.ack_echoing(1, &[], 0, 0);
    assert_eq!(sent, [8]);
    assert_eq!(wire.window(), (8, INFINITE, 8));
    assert_eq!(wire.count(EIFEL), 1);
    assert_eq!(wire.copies(1).len(), 1);
}

#[test]
fn timestamps_alone_undo_nothing() {
    let mut wire = open(|c| c.timestamps = true);
    assert_eq!(wire.expire(), [0]);
    wire.wait(100);
    assert_eq!(wire.ack_echoing(1, &[], 0, 0), [1, 2]);
    assert_eq!(wire.count(EIFEL), 0);
    assert_eq!(wire.window(), (2, 4, 2));
    // They do give a sample, of the original.
    assert_eq!(wire.rtt_samples().len(), 2);
}

#[test]
fn eifel_leaves_a_real_timeout_alone() {
    let mut wire = open(eifel);
    assert_eq!(wire.expire(), [0]);
    wire.wait(600);
    assert_eq!(wire.ack_echoing(1, &[], 0, 1), [1, 2]);
    assert_eq!(wire.count(EIFEL), 0);
    assert_eq!(wire.window(), (2, 4, 2));
}

#[test]
fn eifel_undoes_nothing_after_a_second_timeout_of_the_same_segment() {
    let mut wire = open(eifel);
    wire.expire();
    wire.expire();
    wire.wait(100);
    // The echo of the first retransmission is older than the second: no proof about the first timeout.
    wire.ack_echoing(1, &[], 0, 1);
    assert_eq!(wire.count(EIFEL), 0);
}

#[test]
fn undo_restores_three_quarters_of_the_window_where_ssthresh_was_less() {
    let config = config(|c| {
        c.initial_window = 8;
        eifel(c);
    });
    let cached = CachedMetrics { ssthresh: 4, ..CachedMetrics::default() };
    let mut wire = Wire::open_with_cache(&config, 60, Some(&cached));
    wire.expire();
    assert_eq!(wire.window(), (1, 4, 1));
    wire.wait(100);
    wire.ack_echoing(1, &[], 0, 0);
    assert_eq!((wire.count(EIFEL), wire.window().1), (1, 6));
}

/// Reordering: segment 1 is late, three later ones arrive, it is retransmitted in vain.
fn false_fast_retransmit(wire: &mut Wire) {
    wire.ack(1);
    wire.sack(1, &[(2, 3)]);
    wire.sack(1, &[(2, 4)]);
    wire.wait(20);
    assert_eq!(wire.sack(1, &[(2, 5)]), [1]);
    assert_eq!(wire.window(), (4, 4, 8));
}

#[test]
fn eifel_undoes_a_fast_retransmit_at_a_partial_ack_and_ssthresh_at_its_end() {
    let mut wire = open(eifel);
    false_fast_retransmit(&mut wire);
    wire.wait(20);
    wire.ack_echoing(5, &[], 1, 0);
    assert_eq!(wire.count(EIFEL), 1);
    let (cwnd, ssthresh, _) = wire.window();
    assert_eq!((cwnd, ssthresh), (8, 4), "partial: the window alone");
    wire.wait(20);
    wire.ack_echoing(12, &[], 11, 0);
    assert_eq!(wire.window().1, 4, "an echo of what left before the retransmission, nothing left of it");
}

#[test]
fn eifel_undoes_a_fast_retransmit_whose_end_comes_at_once() {
    let mut wire = open(eifel);
    false_fast_retransmit(&mut wire);
    wire.wait(20);
    wire.ack_echoing(12, &[], 1, 0);
    assert_eq!(wire.count(EIFEL), 1);
    let (cwnd, ssthresh, _) = wire.window();
    assert_eq!((cwnd, ssthresh), (3, INFINITE), "burst limit: nothing in flight + 3");
}

#[test]
fn without_sack_an_undone_reduction_stays_undone_while_recovery_is_held() {
    let mut wire = open(|c| {
        eifel(c);
        c.sack = false;
    });
    wire.ack(1);
    wire.ack(1);
    wire.ack(1);
    wire.wait(20);
    assert_eq!(wire.ack_echoing(1, &[], 0, 0), [1]);
    wire.wait(20);
    wire.ack_echoing(12, &[], 1, 0);
    assert_eq!(
        (wire.count(EIFEL), wire.window()),
        (1, (3, INFINITE, 3)),
        "burst limit: nothing in flight + 3"
    );
    wire.ack(13);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
    assert_eq!(wire.window(), (3, INFINITE, 3), "not up to ssthresh");
}

#[test]
fn dsack_undoes_when_every_retransmission_is_reported() {
    let mut wire = open(|c| c.dsack = true);
    false_fast_retransmit(&mut wire);
    // The original of 1 arrives: everything is acknowledged; then its copy is reported.
    wire.ack(12);
    assert_eq!(wire.window().1, 4);
    assert_eq!(wire.count(DSACK), 0);
    wire.sack(12, &[(1, 2)]);
    assert_eq!(wire.count(DSACK), 1);
    assert_eq!(wire.window().1, INFINITE);
}

#[test]
fn dsack_for_one_of_two_retransmissions_undoes_nothing() {
    let mut wire = open(|c| c.dsack = true);
    wire.ack(1);
    wire.sack(1, &[(3, 4)]);
    wire.sack(1, &[(3, 5)]);
    assert_eq!(wire.sack(1, &[(3, 6)]), [1]);
    for end in 7..=10 {
        wire.sack(1, &[(3, end)]);
    }
    assert_eq!(wire.sack(2, &[(3, 10)]), [2]);
    wire.ack(12);
    wire.sack(12, &[(1, 2)]);
    assert_eq!(wire.count(DSACK), 0);
    wire.sack(12, &[(2, 3)]);
    assert_eq!(wire.count(DSACK), 1);
}

#[test]
fn dsack_of_a_segment_that_was_not_retransmitted_undoes_nothing() {
    let mut wire = open(|c| c.dsack = true);
    false_fast_retransmit(&mut wire);
    wire.ack(12);
    // Below the episode: a packet the network replicated (RFC 2883, section 5.1).
    let mut ack = wire.pure_ack(12, &[]);
    ack.sack.push(SackBlock { start: wire.byte(0), end: wire.byte(1) });
    wire.deliver(&ack);
    assert_eq!(wire.count(DSACK), 0);
    assert_eq!(wire.window().1, 4);
}
