//! Opening, closing, giving up.

use crate::support::poll;
use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, Segment, Timestamps, TransportEvent};
use lasthop_tcp::{Endpoint, Phase, TickClock};
use std::num::NonZeroU16;

use crate::wire::{Log, Wire, config, numbers};

#[test]
fn syn_takes_48_bytes_and_60_with_timestamps() {
    let plain = Wire::connect(&config(|_| ()), 0);
    assert_eq!(plain.last().ip_bytes(), 48);
    assert_eq!((plain.last().mss, plain.last().sack_permitted), (NonZeroU16::new(536), true));
    let stamped = Wire::connect(&config(|c| c.timestamps = true), 0);
    assert_eq!((stamped.last().ip_bytes(), stamped.mss), (60, 524));
}

#[test]
fn a_compact_syn_permits_sack_in_the_padding_of_its_timestamps() {
    let syn = |timestamps| {
        let wire = Wire::connect(
            &config(|c| (c.compact_syn, c.window_scaling, c.timestamps) = (true, true, timestamps)),
            0,
        );
        wire.last().ip_bytes()
    };
    assert_eq!((syn(false), syn(true)), (40 + 4 + 4 + 4, 40 + 4 + 12 + 4));
}

#[test]
fn handshake_ack_and_first_data_leave_together() {
    let config = config(|_| ());
    let mut wire = Wire::connect(&config, 10);
    wire.wait(600);
    assert_eq!(wire.syn_ack(&config, None), [0, 1]);
    let ack = wire.sent[1].0;
    assert_eq!((ack.flags, ack.seq, ack.ack, ack.ip_bytes()), (Flags::ACK, 1, 1, 40));
    assert_eq!(wire.sent.len(), 4);
    assert_eq!(wire.last().ip_bytes(), 576);
}

#[test]
fn lost_syns_are_repeated_after_3_and_6_seconds_and_cost_the_initial_window() {
    let config = config(|c| c.initial_window = 4);
    let mut wire = Wire::connect(&config, 10);
    wire.expire();
    assert_eq!((wire.now_millis(), wire.last().flags), (3_000, Flags::SYN));
    wire.expire();
    assert_eq!((wire.now_millis(), wire.last().flags), (9_000, Flags::SYN));
    wire.wait(600);
    assert_eq!(wire.syn_ack(&config, None), [0], "IW 1 after a lost SYN (RFC 5681, section 3.1)");
    // Karn's rule: it is unknown which SYN was answered.
    assert_eq!(wire.rtt_samples(), [0; 0]);
}

#[test]
fn syn_gives_up_after_its_retries() {
    let mut wire = Wire::connect(&config(|c| c.syn_retries = 2), 10);
    for _ in 0..3 {
        wire.expire();
    }
    assert_eq!((wire.now_millis(), wire.tcp.phase()), (3_000 + 6_000 + 12_000, Phase::Aborted));
    assert_eq!((wire.sent.len(), wire.count(TransportEvent::Aborted)), (3, 1));
    assert_eq!(wire.tcp.next_wakeup(), None);
}

#[test]
fn an_option_is_on_only_if_both_ends_want_it() {
    let wanted = config(|c| {
        c.timestamps = true;
        c.ecn = true;
    });
    let mut wire = Wire::connect(&wanted, 4);
    wire.wait(600);
    wire.syn_ack(&config(|c| c.sack = false), None);
    let (segment, ecn) = *wire.sent.last().unwrap();
    assert_eq!((segment.timestamps, ecn), (None, Ecn::NotEct));
}

#[test]
fn a_window_beyond_64_kib_needs_scaling_by_both_ends() {
    let large = |scaling: bool| {
        config(|c| {
            (c.receive_window_initial, c.receive_window_max) = (1000, 1000);
            c.window_scaling = scaling;
        })
    };
    // 1000 segments of 536 bytes fit 16 bits after a shift of 4.
    for (peer, scale, window) in [(true, Some(4), 536_000), (false, Some(4), 65_535)] {
        let mut wire = Wire::connect(&large(true), 0);
        assert_eq!((wire.last().window_scale, wire.last().window_bytes), (scale, 65_535));
        assert_eq!(wire.last().ip_bytes(), 52);
        wire.wait(600);
        wire.syn_ack(&large(peer), None);
        assert_eq!(wire.last().window_bytes, window, "peer scales: {peer}");
    }
    assert_eq!(Wire::connect(&large(false), 0).last().window_scale, None);
}

/// `tcp_connect_init` counts whole segments, as timestamps are not agreed on yet; `tcp_make_synack` knows.
#[test]
fn who_connects_offers_its_first_window_in_segments_without_options() {
    let config = config(|c| {
        c.timestamps = true;
        c.receive_window_initial = 4;
        c.receive_window_growth = 2;
    });
    let mut wire = Wire::connect(&config, 0);
    assert_eq!(wire.last().window_bytes, 4 * 536);
    wire.wait(600);
    wire.syn_ack(&config, None);
    assert_eq!(wire.last().window_bytes, 4 * 536, "four segments of 524 bytes and a FIN fit");
    let timestamps = wire.pure_ack(0, &[]).timestamps;
    let flags = Flags::ACK;
    wire.deliver(&Segment { seq: 1, ack: 1, payload_bytes: 524, flags, timestamps, ..Segment::default() });
    assert_eq!((wire.last().ack, wire.last().window_bytes), (525, 6 * 524), "it is rounded as it grows");
    let mut server = Endpoint::listen(
        config,
        576,
        TickClock::new(Duration::from_millis(10), Duration::ZERO),
        FlowId(0),
        Host::Server,
    );
    let syn = Segment { flags: Flags::SYN, timestamps, ..Segment::default() };
    server.handle_segment(Instant::ZERO, &syn, Ecn::NotEct, None, &mut ());
    let (answer, _) = poll(&mut server, Instant::ZERO).unwrap();
    assert_eq!(answer.window_bytes, 4 * 524);
}

#[test]
fn repeated_syn_ack_is_acknowledged_again() {
    let config = config(|_| ());
    let mut wire = Wire::open(&config, 2);
    let before = wire.sent.len();
    assert_eq!(wire.syn_ack(&config, None), [0; 0]);
    assert_eq!(wire.sent.len(), before + 1);
    assert_eq!((wire.last().flags, wire.last().ack, wire.last().payload_bytes), (Flags::ACK, 1, 0));
}

#[test]
fn repeated_syn_is_answered_at_once_and_gives_no_sample() {
    let mut client = super::receiver::Client::listen(&config(|_| ()));
    let due = client.tcp.next_wakeup();
    client.now += Duration::from_millis(1_000);
    let syn = Segment { flags: Flags::SYN, sack_permitted: true, ..Segment::default() };
    client.tcp.handle_segment(client.now, &syn, Ecn::NotEct, None, &mut ());
    let (answer, _) = poll(&mut client.tcp, client.now).unwrap();
    assert_eq!((answer.flags, answer.seq, answer.ack), (Flags::SYN.with(Flags::ACK), 0, 1));
    assert_eq!(client.tcp.next_wakeup(), due, "the timer runs on");
    client.now += Duration::from_millis(100);
    let mut log = Log::default();
    let ack = Segment { seq: 1, ack: 1, flags: Flags::ACK, ..Segment::default() };
    client.tcp.handle_segment(client.now, &ack, Ecn::NotEct, None, &mut log);
    assert_eq!(client.tcp.phase(), Phase::Established);
    assert!(!log.0.iter().any(|event| matches!(event, TransportEvent::RttSample { .. })), "Karn's rule");
}

#[test]
fn fin_rides_on_the_last_data() {
    let mut wire = Wire::connect(&config(|_| ()), 2);
    wire.close();
    wire.wait(600);
    assert_eq!(wire.syn_ack(&config(|_| ()), None), [0, 1]);
    let last = wire.last();
    assert_eq!((last.flags, last.payload_bytes), (Flags::FIN.with(Flags::ACK), 536));
}

#[test]
fn fin_follows_when_the_data_has_left() {
    let mut wire = Wire::open(&config(|_| ()), 1);
    wire.close();
    let last = wire.last();
    assert_eq!((last.seq, last.payload_bytes), (wire.byte(1), 0));
    assert!(last.flags.contains(Flags::FIN));
}

#[test]
fn receivers_fin_repeats_the_last_ack_number_and_ends_the_connection() {
    let mut wire = Wire::connect(&config(|_| ()), 2);
    wire.close();
    wire.wait(600);
    wire.syn_ack(&config(|_| ()), None);
    wire.wait(600);
    let fin_acknowledged = Segment { ack: wire.byte(2) + 1, ..wire.pure_ack(2, &[]) };
    wire.deliver(&fin_acknowledged);
    assert_eq!(wire.tcp.phase(), Phase::Established);
    wire.deliver(&Segment { flags: Flags::FIN.with(Flags::ACK), ..fin_acknowledged });
    assert_eq!((wire.tcp.phase(), wire.count(TransportEvent::Closed)), (Phase::Closed, 1));
    assert_eq!((wire.last().ack, wire.last().seq), (2, wire.byte(2) + 1));
    assert_eq!(wire.tcp.next_wakeup(), None);
    // Our last ACK was lost: the repeated FIN is answered.
    let before = wire.sent.len();
    wire.deliver(&Segment { flags: Flags::FIN.with(Flags::ACK), ..fin_acknowledged });
    assert_eq!((wire.sent.len(), wire.last().ack), (before + 1, 2));
}

#[test]
fn client_fin_repeats_its_ack_number() {
    let config = config(|_| ());
    let mut client = super::receiver::Client::listen(&config);
    client.data(0);
    client.tcp.close(client.now, &mut ());
    let (fin, _) = poll(&mut client.tcp, client.now).unwrap();
    assert_eq!((fin.flags, fin.ack, fin.seq), (Flags::FIN.with(Flags::ACK), 537, 1));
}

#[test]
fn reset_aborts() {
    let mut wire = Wire::open(&config(|_| ()), 10);
    assert_eq!(wire.deliver(&Segment { flags: Flags::RST, ..wire.pure_ack(2, &[]) }), [0; 0]);
    assert_eq!((wire.tcp.phase(), wire.count(TransportEvent::Aborted)), (Phase::Aborted, 1));
    assert_eq!(wire.tcp.next_wakeup(), None);
    assert_eq!(wire.ack(2), [0; 0]);
}

#[test]
fn segments_do_not_span_writes() {
    let config = config(|c| c.initial_window = 10);
    let mut wire = Wire::connect(&config, 0);
    wire.tcp.write(wire.now, 2_000, 700, &mut ());
    wire.wait(600);
    wire.syn_ack(&config, None);
    let lengths: Vec<u32> = wire.sent[2..].iter().map(|(segment, _)| segment.payload_bytes).collect();
    assert_eq!(lengths, [536, 164, 536, 164, 536, 64]);
}

#[test]
fn receivers_window_limits_the_flight() {
    let config = config(|c| c.initial_window = 10);
    let mut wire = Wire::connect(&config, 20);
    wire.wait(600);
    let window = |wire: &Wire, segments: u64| segments * wire.mss;
    let mut syn_ack = Segment { flags: Flags::SYN.with(Flags::ACK), ..wire.pure_ack(0, &[]) };
    syn_ack.window_bytes = window(&wire, 4);
    assert_eq!(wire.deliver(&syn_ack), numbers(0, 4));
    let opened = Segment { window_bytes: window(&wire, 6), ..wire.pure_ack(2, &[]) };
    assert_eq!(wire.deliver(&opened), numbers(4, 8));
}

#[test]
fn timestamps_echo_the_segment_at_the_left_edge() {
    let mut wire = Wire::open(&config(|c| c.timestamps = true), 2);
    let data = |number: u64, value: u32| Segment {
        seq: 1 + number * 524,
        payload_bytes: 524,
        timestamps: Some(Timestamps { value, echo: 1 }),
        ack: 1,
        flags: Flags::ACK,
        ..Segment::default()
    };
    wire.deliver(&data(0, 10));
    assert_eq!(wire.last().timestamps.unwrap().echo, 10);
    // A hole: the echo stays at the last segment that advanced the edge (RFC 7323, section 4.3, B).
    wire.deliver(&data(2, 30));
    assert_eq!(wire.last().timestamps.unwrap().echo, 10);
    // The hole is filled: the echo is the filling segment's (C).
    wire.deliver(&data(1, 40));
    assert_eq!((wire.last().timestamps.unwrap().echo, wire.last().ack), (40, 1 + 3 * 524));
    // A duplicate from before the edge is outside of the window and is ignored (section 5.3, R2).
    wire.deliver(&data(1, 50));
    assert_eq!(wire.last().timestamps.unwrap().echo, 40);
}
