//! The classic sender: windows in bytes, go-back-N, the flavours of the 1990s.

use crate::support::poll;
use lasthop_core::{Bytes, Duration, Ecn, Flags, FlowId, Host, Instant, SackBlock, Segment, TransportEvent};
use lasthop_tcp::{Endpoint, Profile, RecoveryRules, SizeLimit, TcpConfig, TickClock};

use crate::wire::{INFINITE, Wire, numbers};

const NONE: [u64; 0] = [];

/// The profile `ns-1998` with a flavour and other changes.
fn config(recovery: RecoveryRules, change: impl FnOnce(&mut TcpConfig)) -> TcpConfig {
    let mut config: TcpConfig = toml::from_str(Profile::Ns1998.toml()).expect("the profile is complete");
    config.recovery = recovery;
    config.sack = recovery == RecoveryRules::SackPipe;
    change(&mut config);
    config
}

/// Segments 0 to 7 are sent at 600 ms, 0 is acknowledged at 1200 ms: window 9, segments 1 to 9 in flight.
fn nine_in_flight(recovery: RecoveryRules, change: impl FnOnce(&mut TcpConfig)) -> Wire {
    let config = config(recovery, |c| {
        c.initial_window = 8;
        change(c);
    });
    let mut wire = Wire::open(&config, 60);
    wire.wait(600);
    assert_eq!(wire.ack(1), [8, 9]);
    assert_eq!(wire.window(), (9, INFINITE, 9));
    wire
}

/// Ten duplicate ACKs of segment `number`. Returns the segments sent after each.
fn ten_duplicates(wire: &mut Wire, number: u64) -> Vec<Vec<u64>> {
    (0..10).map(|_| wire.ack(number)).collect()
}

#[test]
fn vanilla_finds_loss_by_timeout_only_and_goes_back() {
    let mut wire = nine_in_flight(RecoveryRules::None, |_| ());
    assert_eq!(ten_duplicates(&mut wire, 1), vec![numbers(0, 0); 10]);
    assert_eq!(wire.expire(), [1]);
    assert_eq!(wire.window(), (1, 4, 1));
    // Everything after it is retransmitted, in slow start up to ssthresh, except for data acknowledged
    // meanwhile.
    assert_eq!(wire.ack(2), [2, 3]);
    assert_eq!(wire.ack(6), [6, 7, 8]);
    assert_eq!(wire.window(), (3, 4, 3));
    assert_eq!(wire.ack(7), [9, 10]);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 0);
    wire.ack(10);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
    assert_eq!(wire.copies(9).len(), 2);
    assert_eq!(wire.copies(10).len(), 1);
}

#[test]
fn timers_fire_at_boundaries_of_the_common_clock() {
    let config = config(RecoveryRules::None, |_| ());
    let mut wire = Wire::connect(&config, 9);
    // 30 ticks before the first sample.
    assert_eq!(wire.expire(), NONE);
    assert_eq!(wire.now_millis(), 3_000);
    let mut wire = Wire::open(&config, 9);
    // The SYN took six boundaries plus one: 7 + 4 * 3.5 ticks.
    assert_eq!((wire.rtt_samples(), wire.rto_millis()), (vec![700], 2_100));
    wire.wait(655);
    assert_eq!(wire.ack(1), [1, 2]);
    // The same again, although it took 55 ms more: 7 + 4 * 2.75 ticks from the boundary at 1.2 s on.
    assert_eq!((wire.rtt_samples(), wire.rto_millis()), (vec![700, 700], 1_800));
    assert_eq!(wire.expire(), [1]);
    assert_eq!(wire.now_millis(), 3_000);
}

#[test]
fn timeout_has_a_lower_bound() {
    let rto = |rto_min| {
        let config = config(RecoveryRules::None, |c| c.rto_min = Duration::from_millis(rto_min));
        let mut wire = Wire::connect(&config, 60);
        wire.wait(1);
        wire.syn_ack(&config, None);
        for number in 1..20 {
            wire.wait(1);
            wire.ack(number);
        }
        assert_eq!(wire.now_millis(), 20);
        wire.expire();
        (wire.rto_millis(), wire.now_millis())
    };
    // One tick, and a deviation of half a tick that fixed-point arithmetic never removes.
    assert_eq!(rto(200), (300, 300));
    assert_eq!(rto(500), (500, 500));
}

#[test]
fn backoff_stays_until_a_segment_sent_once_is_acknowledged() {
    let mut wire = nine_in_flight(RecoveryRules::None, |_| ());
    assert_eq!(wire.rto_millis(), 1_800);
    assert_eq!(wire.expire(), [1]);
    assert_eq!(wire.now_millis(), 3_000);
    assert_eq!(wire.expire(), [1]);
    assert_eq!(wire.now_millis(), 6_600);
    let samples = wire.rtt_samples().len();
    // Karn: neither 1 nor the segments retransmitted after it give a sample; each new ACK restarts the timer.
    wire.wait(600);
    assert_eq!(wire.ack(2), [2, 3]);
    assert_eq!(wire.ack(10), [10, 11, 12]);
    assert_eq!(wire.rtt_samples().len(), samples);
    assert_eq!(wire.expire(), [10]);
    assert_eq!(wire.now_millis(), 7_200 + 7_200);
}

#[test]
fn tahoe_starts_slowly_after_fast_retransmit() {
    let mut wire = nine_in_flight(RecoveryRules::Tahoe, |_| ());
    assert_eq!((wire.ack(1), wire.ack(1)), (numbers(0, 0), numbers(0, 0)));
    assert_eq!(wire.ack(1), [1]);
    assert_eq!(wire.window(), (1, 4, 1));
    assert_eq!(wire.ack(1), NONE);
    // 3 was lost, too, and 4 is retransmitted unnecessarily.
    assert_eq!(wire.ack(3), [3, 4]);
    assert_eq!((wire.recoveries(), wire.count(TransportEvent::RecoveryLeft)), (1, 0));
    assert_eq!(wire.ack(10), [10, 11, 12]);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
}

#[test]
fn reno_inflates_the_window_until_the_next_new_ack() {
    let mut wire = nine_in_flight(RecoveryRules::Reno, |_| ());
    // Inflation is 3 at the third duplicate, and one more for each further one: the sixth duplicate is the
    // first that sends a segment, with 4 + 6.
    let sent = ten_duplicates(&mut wire, 1).concat();
    assert_eq!(sent, [1, 10, 11, 12, 13, 14]);
    assert_eq!(wire.window().1, 4);
    assert_eq!(wire.count(TransportEvent::RecoveryEntered { recovery_point: wire.byte(10) }), 1);
}

#[test]
fn one_byte_of_window_is_enough_to_send() {
    let mut wire = nine_in_flight(RecoveryRules::Reno, |_| ());
    for _ in 0..7 {
        wire.ack(1);
    }
    // Back to ssthresh, and a quarter of a segment for the ACK: 10 and 11 are out, 12, 13 and 134 bytes
    // follow.
    assert_eq!(wire.ack(10), [12, 13, 14]);
    assert_eq!(wire.last().payload_bytes, 134);
    // The remainder of segment 14 does not wait for a full segment, either; the ACK frees slightly more than
    // one segment.
    assert_eq!(wire.ack(11), [14, 15]);
    assert_eq!(wire.last().seq, wire.byte(14) + 134 + 536);
    assert!(wire.last().payload_bytes < 134);
}

#[test]
fn silly_windows_are_avoided_if_that_is_wanted() {
    let mut wire = nine_in_flight(RecoveryRules::Reno, |c| c.silly_window_avoidance = true);
    for _ in 0..7 {
        wire.ack(1);
    }
    assert_eq!(wire.ack(10), [12, 13]);
    assert_eq!(wire.ack(11), [14]);
}

#[test]
fn reno_halves_again_for_the_second_loss_of_a_window() {
    // 1 and 3 are lost: seven duplicates, then an ACK up to 3, then those of 10 and 11.
    let run = |guard| {
        let mut wire = nine_in_flight(RecoveryRules::Reno, |c| c.fast_retransmit_guard = guard);
        for _ in 0..7 {
            wire.ack(1);
        }
        assert_eq!(wire.ack(3), NONE);
        let sent: Vec<u64> = (0..3).flat_map(|_| wire.ack(3)).collect();
        (sent, wire.recoveries(), wire.window().1)
    };
    assert_eq!(run(false), (vec![3], 2, 2));
    assert_eq!(run(true), (vec![], 1, 4), "a timeout will have to find it");
}

#[test]
fn newreno_stays_in_recovery_through_partial_acks() {
    let mut wire = nine_in_flight(RecoveryRules::Newreno, |_| ());
    // 1, 3 and 5 are lost. Every second duplicate for which the window sends nothing sends a new segment: 10.
    assert_eq!((1..=6).flat_map(|_| wire.ack(1)).collect::<Vec<_>>(), [1, 10]);
    // From the seventh duplicate on, the window sends segments.
    assert_eq!((wire.ack(1), wire.ack(1)), (vec![11], vec![12]));
    // Partial ACK: one segment, the window back to ssthresh, the timer restarted (18 ticks).
    wire.wait(600);
    assert_eq!(wire.ack(3), [3]);
    assert_eq!(wire.window().0, 4);
    wire.wait(600);
    assert_eq!(wire.ack(5), [5]);
    assert_eq!(wire.recoveries(), 1);
    // Only an ACK of everything that was outstanding at the start ends it.
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 0);
    wire.wait(600);
    assert_eq!(wire.ack(13), [13, 14, 15, 16, 17]);
    assert_eq!((wire.window().0, wire.last().payload_bytes), (4, 134));
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
}

/// RFC 6582, section 4.
#[test]
fn impatient_newreno_restarts_the_timer_at_the_first_partial_ack_only() {
    let timeout_after = |impatient| {
        let mut wire = nine_in_flight(RecoveryRules::Newreno, |c| c.newreno_impatient = impatient);
        (1..=8).for_each(|_| drop(wire.ack(1)));
        wire.wait(600);
        assert_eq!(wire.ack(3), [3]);
        let first = wire.now;
        wire.wait(600);
        assert_eq!(wire.ack(5), [5]);
        assert_eq!(wire.expire(), [5]);
        wire.now.saturating_since(first)
    };
    // 18 ticks after the first partial ACK, or after the second, which came six ticks later.
    assert_eq!([true, false].map(timeout_after), [1_800, 2_400].map(Duration::from_millis));
}

#[test]
fn newreno_loses_a_retransmission_to_the_timer() {
    let mut wire = nine_in_flight(RecoveryRules::Newreno, |_| ());
    for _ in 0..10 {
        wire.ack(1);
    }
    assert_eq!(wire.copies(1).len(), 2);
    assert_eq!(wire.expire(), [1]);
    assert_eq!(wire.window(), (1, 2, 1));
}

/// Like [`nine_in_flight`]; 1 and 6 are lost, and all others except 9 have been reported.
fn sack_in_recovery() -> Wire {
    let mut wire = nine_in_flight(RecoveryRules::SackPipe, |_| ());
    assert_eq!(wire.sack(1, &[(2, 3)]), NONE);
    assert_eq!(wire.sack(1, &[(2, 4)]), NONE);
    // Third: pipe = 9 - 3, window 4.
    assert_eq!(wire.sack(1, &[(2, 5)]), [1]);
    assert_eq!(wire.window(), (4, 4, 9));
    assert_eq!(wire.sack(1, &[(2, 6)]), NONE);
    assert_eq!(wire.sack(1, &[(7, 8), (2, 6)]), NONE);
    // pipe = 3: the hole below the highest report comes first.
    assert_eq!(wire.sack(1, &[(7, 9), (2, 6)]), [6]);
    wire
}

#[test]
fn sack_fills_holes_and_then_the_pipe() {
    let mut wire = sack_in_recovery();
    assert_eq!(wire.sack(1, &[(7, 10), (2, 6)]), [10]);
    // A partial ACK takes two from the pipe.
    assert_eq!(wire.sack(6, &[(7, 10)]), [11, 12]);
    assert_eq!(wire.recoveries(), 1);
    // The end: the window is ssthresh.
    assert_eq!(wire.ack(10), [13]);
    assert_eq!(wire.window(), (4, 4, 4));
}

#[test]
fn sack_sends_a_hole_once_and_forgets_everything_at_the_timeout() {
    let mut wire = sack_in_recovery();
    assert_eq!(wire.sack(1, &[(7, 10), (2, 6)]), [10]);
    assert_eq!(wire.sack(6, &[(7, 10)]), [11, 12]);
    // The second copy of 6 is lost, too: new segments are sent until no ACKs come.
    assert_eq!(wire.sack(6, &[(7, 11)]), [13]);
    assert_eq!(wire.sack(6, &[(7, 12)]), [14]);
    assert_eq!(wire.copies(6).len(), 2);
    assert_eq!(wire.expire(), [6]);
    assert_eq!(wire.window(), (1, 2, 1));
    // The scoreboard is empty, so 7 and 8 are retransmitted although they had been reported.
    assert_eq!(wire.ack(7), [7, 8]);
}

#[test]
fn sack_sends_no_more_again_than_the_hole() {
    let mut wire = nine_in_flight(RecoveryRules::SackPipe, |_| ());
    for end in 2..=4 {
        let mut ack = wire.pure_ack(1, &[]);
        ack.sack.push(SackBlock { start: wire.byte(1) + 100, end: wire.byte(end) });
        wire.deliver(&ack);
    }
    assert_eq!((wire.last().seq, wire.last().payload_bytes), (wire.byte(1), 100));
}

#[test]
fn sack_finds_a_loss_right_after_recovery() {
    let mut wire = nine_in_flight(RecoveryRules::SackPipe, |c| c.fast_retransmit_guard = true);
    // 1 is lost, and so is 10, which is sent in recovery.
    let sent: Vec<u64> = (3..=10).flat_map(|end| wire.sack(1, &[(2, end)])).collect();
    assert_eq!(sent, [1, 10, 11, 12]);
    assert_eq!(wire.ack(10), [13]);
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
    assert_eq!(wire.sack(10, &[(11, 12)]), NONE);
    assert_eq!(wire.sack(10, &[(11, 13)]), NONE);
    assert_eq!(wire.sack(10, &[(11, 14)]), [10, 14]);
    assert_eq!(wire.recoveries(), 2);
}

#[test]
fn sack_counts_only_duplicates_that_report_something() {
    let mut wire = nine_in_flight(RecoveryRules::SackPipe, |_| ());
    wire.sack(1, &[(2, 3)]);
    for _ in 0..5 {
        assert_eq!(wire.sack(1, &[(2, 3)]), NONE);
        assert_eq!(wire.ack(1), NONE);
    }
    assert_eq!(wire.recoveries(), 0);
}

#[test]
fn segments_are_cut_to_what_the_pipe_leaves_of_the_window() {
    let config = config(RecoveryRules::SackPipe, |c| {
        c.initial_window = 8;
        c.initial_ssthresh = SizeLimit::Bytes(Bytes(2 * 536));
    });
    let mut wire = Wire::open(&config, 60);
    wire.wait(600);
    // Congestion avoidance: 8 segments and 67 bytes.
    assert_eq!(wire.ack(1), [8, 9]);
    assert_eq!(wire.last().payload_bytes, 67);
    let sent: Vec<u64> = (3..=6).flat_map(|end| wire.sack(1, &[(2, end)])).collect();
    assert_eq!(sent, [1]);
    // The window is 4 segments; the pipe holds 8 segments and 67 bytes, minus 5: 469 bytes may be sent.
    assert_eq!(wire.sack(1, &[(2, 7)]), [9]);
    assert_eq!(wire.last().payload_bytes, 469);
    // They count as a whole segment: the next duplicate frees the same room.
    assert_eq!(wire.sack(1, &[(2, 8)]), [10]);
    assert_eq!(wire.last().payload_bytes, 469);
}

#[test]
fn initial_threshold_ends_slow_start() {
    let config = config(RecoveryRules::Reno, |c| {
        c.initial_ssthresh = SizeLimit::Bytes(Bytes(2_000));
        c.silly_window_avoidance = true;
    });
    let mut wire = Wire::open(&config, 60);
    wire.wait(300);
    assert_eq!(wire.ack(1), [1, 2]);
    assert_eq!(wire.ack(2), [3, 4]);
    assert_eq!(wire.ack(3), [5, 6]);
    // 4 segments are above 2000 bytes: from now on one segment per window.
    assert_eq!((wire.ack(4), wire.ack(5), wire.ack(6)), (vec![7], vec![8], vec![9]));
    assert_eq!(wire.window().1, 3);
}

#[test]
fn timeout_halves_in_whole_segments_and_at_least_two() {
    let mut wire = nine_in_flight(RecoveryRules::Reno, |_| ());
    wire.expire();
    assert_eq!(wire.window(), (1, 4, 1));
    wire.expire();
    assert_eq!(wire.window(), (1, 2, 1));
}

/// An endpoint that is open without a handshake.
fn opened(config: &TcpConfig, host: Host) -> Endpoint {
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut tcp = Endpoint::listen(config.clone(), 576, clock, FlowId(0), host);
    tcp.open(Instant::ZERO, &mut ());
    tcp
}

#[test]
fn open_connections_send_at_once_and_segments_span_writes() {
    let config = config(RecoveryRules::Reno, |c| c.initial_window = 4);
    let mut server = opened(&config, Host::Server);
    let at = Instant::ZERO + Duration::from_millis(130);
    let sent = |server: &mut Endpoint| {
        std::iter::from_fn(|| poll(server, at)).map(|(s, _)| s.payload_bytes).collect::<Vec<_>>()
    };
    server.write(at, 100, 100, &mut ());
    assert_eq!(sent(&mut server), [100], "there is no Nagle");
    server.write(at, 500, 500, &mut ());
    assert_eq!(sent(&mut server), [500]);
    // Together they are one stream; the window of 4 * 536 bytes is exhausted to the byte.
    server.write(at, 300, 300, &mut ());
    server.write(at, 3_000, 3_000, &mut ());
    assert_eq!(sent(&mut server), [300, 536, 536, 172]);
    // No round trip is known: 30 ticks from the boundary at 100 ms.
    assert_eq!(server.next_wakeup(), Some(Instant::ZERO + Duration::from_millis(3_100)));
}

#[test]
fn every_segment_is_acknowledged() {
    let config = config(RecoveryRules::Reno, |_| ());
    let mut client = opened(&config, Host::Client);
    for number in 0..5 {
        let segment = Segment {
            seq: 1 + number * 100,
            payload_bytes: 100,
            ack: 1,
            flags: Flags::ACK,
            window_bytes: 10_000,
            ..Segment::default()
        };
        client.handle_segment(Instant::ZERO, &segment, Ecn::NotEct, None, &mut ());
        let (ack, _) = poll(&mut client, Instant::ZERO).expect("an ACK leaves at once");
        assert_eq!((ack.ack, ack.window_bytes), (101 + number * 100, 64 * 536));
    }
}

#[test]
fn window_is_kept_over_idle_times() {
    let config = config(RecoveryRules::Reno, |_| ());
    let mut wire = Wire::open(&config, 3);
    wire.wait(300);
    assert_eq!(wire.ack(1), [1, 2]);
    wire.ack(3);
    wire.wait(60_000);
    assert_eq!(wire.write(10), [3, 4, 5]);
}
