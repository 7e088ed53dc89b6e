//! ECN at the sender.

use lasthop_core::{Ecn, Flags, Segment, TransportEvent};

use crate::wire::{INFINITE, Wire, config};

fn open() -> Wire {
    let config = config(|c| {
        c.initial_window = 8;
        c.ecn = true;
    });
    let mut wire = Wire::open(&config, 60);
    wire.wait(600);
    assert_eq!(wire.window(), (8, INFINITE, 8));
    wire
}

fn echo(wire: &mut Wire, number: u64) -> Vec<u64> {
    let ack = wire.pure_ack(number, &[]);
    wire.deliver(&Segment { flags: Flags::ACK.with(Flags::ECE), ..ack })
}

fn has_cwr(wire: &Wire, number: u64) -> bool {
    wire.copies(number)[0].0.flags.contains(Flags::CWR)
}

#[test]
fn syn_asks_for_ecn_and_data_is_ecn_capable_but_acks_are_not() {
    let wire = open();
    let (syn, ecn) = wire.sent[0];
    assert_eq!((syn.flags, ecn), (Flags::SYN.with(Flags::ECE).with(Flags::CWR), Ecn::NotEct));
    assert_eq!(wire.sent[1].1, Ecn::NotEct, "the handshake's ACK");
    assert!(wire.sent[2..].iter().all(|&(_, ecn)| ecn == Ecn::Ect0));
}

#[test]
fn echo_halves_the_window_once_per_window_of_data() {
    let mut wire = open();
    assert_eq!(echo(&mut wire, 1), [0; 0]);
    assert_eq!(wire.window(), (4, 4, 7));
    for number in 2..=4 {
        assert_eq!(echo(&mut wire, number), [0; 0]);
    }
    assert_eq!(echo(&mut wire, 5), [8]);
    assert_eq!(wire.window(), (4, 4, 4));
    assert_eq!(wire.count(TransportEvent::EcnReduction), 1);
    assert!(has_cwr(&wire, 8), "CWR on the first new segment");
    assert_eq!(wire.ack(8), [9, 10, 11]);
    assert!(!has_cwr(&wire, 9), "CWR once");
    // Beyond the point of the reduction: the next echo counts.
    assert_eq!(wire.window(), (4, 4, 4));
    wire.ack(9);
    echo(&mut wire, 10);
    assert_eq!(wire.count(TransportEvent::EcnReduction), 2);
    assert_eq!(wire.window().1, 2);
}

#[test]
fn window_never_falls_below_two() {
    let mut wire = Wire::open(&config(|c| c.ecn = true), 60);
    wire.wait(600);
    echo(&mut wire, 1);
    assert_eq!(wire.window().0, 2);
}

#[test]
fn retransmissions_are_not_ecn_capable() {
    let mut wire = open();
    wire.sack(0, &[(1, 2)]);
    wire.sack(0, &[(1, 3)]);
    assert_eq!(wire.sack(0, &[(1, 4)]), [0]);
    let copies = wire.copies(0);
    assert_eq!([copies[0].1, copies[1].1], [Ecn::Ect0, Ecn::NotEct]);
    assert!(!copies[1].0.flags.contains(Flags::CWR), "CWR waits for new data");
}

#[test]
fn fast_retransmit_tells_the_receiver_with_cwr() {
    let mut wire = open();
    for end in 2..=4 {
        wire.sack(0, &[(1, end)]);
    }
    wire.ack(8);
    let new = wire.sent.last().unwrap().0;
    assert!(wire.sent.iter().any(|(s, _)| s.seq >= wire.byte(8) && s.flags.contains(Flags::CWR)), "{new:?}");
}

#[test]
fn without_negotiation_echoes_mean_nothing() {
    let mut wire = Wire::open(&config(|_| ()), 60);
    wire.wait(600);
    assert_eq!(echo(&mut wire, 1), [2, 3]);
    assert_eq!(wire.count(TransportEvent::EcnReduction), 0);
}
