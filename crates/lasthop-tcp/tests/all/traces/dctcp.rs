//! DCTCP at both ends (RFC 8257).

use crate::support::poll;
use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, Segment};
use lasthop_tcp::{CongestionControl, Endpoint, Profile, TcpConfig, TickClock};

use super::receiver::Client;
use crate::wire::{INFINITE, Wire};

fn config() -> TcpConfig {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("the profile is complete");
    (config.congestion_control, config.ecn, config.timestamps) = (CongestionControl::Dctcp, true, false);
    config
}

fn open() -> Wire {
    let mut wire = Wire::open(&config(), 200);
    wire.wait(600);
    wire
}

fn echo(wire: &mut Wire, number: u64) -> Vec<u64> {
    let ack = wire.pure_ack(number, &[]);
    wire.deliver(&Segment { flags: Flags::ACK.with(Flags::ECE), ..ack })
}

/// A receiving endpoint that has used up its quick ACKs, and the current time.
fn receiver() -> (Endpoint, Instant) {
    let config = config();
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut tcp = Endpoint::listen(config, 576, clock, FlowId(0), Host::Client);
    let flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    let syn = Segment { flags, sack_permitted: true, window_scale: Some(7), ..Segment::default() };
    tcp.handle_segment(Instant::ZERO, &syn, Ecn::Ect0, None, &mut ());
    let (_, ecn) = poll(&mut tcp, Instant::ZERO).unwrap();
    assert_eq!(ecn, Ecn::Ect0, "its SYN-ACK");
    (tcp, Instant::ZERO)
}

/// Segment `number` arrives; returns the ACKs that leave at once: the next expected segment, and whether the
/// ACK echoes a mark.
fn acks_of(tcp: &mut Endpoint, now: Instant, number: u64, ecn: Ecn) -> Vec<(u64, bool)> {
    tcp.handle_segment(now, &Client::segment(number), ecn, None, &mut ());
    std::iter::from_fn(|| poll(tcp, now))
        .inspect(|(_, ecn)| assert_eq!(*ecn, Ecn::Ect0, "ACKs are ECN-capable too"))
        .map(|(ack, _)| ((ack.ack - 1) / 536, ack.flags.contains(Flags::ECE)))
        .collect()
}

/// Section 3.2 and its figure 1: at a change of the mark, waiting data is acknowledged with the former state,
/// and the change at once.
#[test]
fn the_echo_is_that_of_the_latest_segment() {
    let (mut tcp, now) = receiver();
    // Past the window's growth and the quick ACKs, which leave at once.
    let mut number = 0;
    while !acks_of(&mut tcp, now, number, Ecn::Ect0).is_empty() {
        number += 1;
        assert!(number < 2_000, "it never delays an ACK");
    }
    let wanted = number + 1;
    assert_eq!(acks_of(&mut tcp, now, wanted, Ecn::Ce), [(wanted, false), (wanted + 1, true)]);
    assert_eq!(acks_of(&mut tcp, now, wanted + 1, Ecn::Ce), [], "the same mark is no news");
    assert_eq!(acks_of(&mut tcp, now, wanted + 2, Ecn::Ce), [(wanted + 3, true)], "every second segment");
    assert_eq!(acks_of(&mut tcp, now, wanted + 3, Ecn::Ect0), [(wanted + 4, false)], "nothing waited");
}

#[test]
fn all_packets_are_ecn_capable_retransmissions_too() {
    let mut wire = open();
    assert!(wire.sent.iter().all(|&(_, ecn)| ecn == Ecn::Ect0));
    // A probe, and the timeout.
    wire.expire();
    wire.expire();
    assert!(wire.copies(0).len() > 1 && wire.copies(0).iter().all(|(_, ecn)| *ecn == Ecn::Ect0));
}

/// Section 3.3: alpha is 1 at first and falls by a sixteenth with each window without marks.
#[test]
fn an_echo_cuts_the_window_by_half_of_alpha() {
    let mut first = open();
    echo(&mut first, 1);
    assert_eq!(first.window().1, 5, "as Reno's");
    let mut later = open();
    assert_eq!(later.window().1, INFINITE);
    // Three windows of data leave 1024 * (15/16)^3 = 844. The echo ends the fourth, all of whose one segment
    // was marked: 844 - 52 + 1024/16 = 856.
    for acked in [10, 30, 70] {
        later.ack(acked);
    }
    let window = later.window().0;
    echo(&mut later, 71);
    assert_eq!(later.window().1, window - ((window * 856) >> 11));
}
