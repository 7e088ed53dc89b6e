//! Linux 6: losses detected by time, proportional rate reduction, probes, CUBIC, adaptive delayed ACKs.

use crate::support::poll;
use lasthop_core::{
    Bytes, Duration, Ecn, Flags, FlowId, Host, Instant, RetransmissionKind, Segment, Timestamps,
    TransportEvent, UndoCause,
};
use lasthop_tcp::{
    CachedMetrics, CongestionControl, Endpoint, Phase, Profile, SizeLimit, TcpConfig, TickClock,
};
use std::num::NonZeroU16;

use crate::wire::{INFINITE, MTU, Wire, numbers};

fn config(change: impl FnOnce(&mut TcpConfig)) -> TcpConfig {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("the profile is complete");
    config.congestion_control = CongestionControl::Reno; // CUBIC only in tests that set it
    change(&mut config);
    config
}

/// Segments 0 to 9 are in flight, their ACKs 20 ms apart, over a round trip of 600 ms.
fn ten_in_flight(change: impl FnOnce(&mut TcpConfig)) -> Wire {
    let config = config(change);
    let mut wire = Wire::open(&config, 100);
    wire.wait(600);
    wire
}

#[test]
fn the_first_flight_has_ten_segments_and_every_acked_segment_lets_two_go() {
    let mut wire = ten_in_flight(|_| ());
    assert_eq!(wire.copies(9).len(), 1);
    assert_eq!(wire.copies(10).len(), 0);
    assert_eq!(wire.ack(1), [10, 11]);
    assert_eq!(wire.ack(4), [12, 13, 14, 15, 16, 17]);
    assert_eq!(wire.window(), (14, INFINITE, 14));
}

/// `tcp_tso_should_defer`: room for one segment is left until the next ACK makes it two, if that ACK is due.
#[test]
fn a_single_segment_waits_for_an_ack_that_is_near() {
    let begin = || {
        let mut wire = ten_in_flight(|c| c.initial_ssthresh = SizeLimit::Bytes(Bytes(10 * u64::from(MTU))));
        assert_eq!(wire.ack(1), [10], "nothing has left for a round trip");
        wire
    };
    let mut wire = begin();
    assert_eq!(wire.ack(2), [0_u64; 0]);
    assert_eq!(wire.ack(3), [11, 12]);
    let mut wire = begin();
    wire.wait(2);
    assert_eq!(wire.ack(2), [11], "the last one left more than a millisecond ago");
}

/// PSH stands where Linux sets it: on the last segment of a burst (`__tcp_transmit_skb`), at the end of a
/// write that leaves at once, and of all data. Waiting data is joined.
#[test]
fn bursts_and_ends_carry_psh() {
    let config = config(|_| ());
    for (write, first) in [(1_000, vec![2, 4, 6, 8, 10, 12, 14]), (3, vec![2, 3, 5, 6, 8, 9, 12, 14])] {
        let mut wire = Wire::connect(&config, 0);
        wire.tcp.write(wire.now, 101 * wire.mss, write * wire.mss, &mut wire.log);
        wire.tcp.close(wire.now, &mut wire.log);
        wire.wait(600);
        wire.syn_ack(&config, None);
        (1..101).for_each(|end| drop(wire.ack(end)));
        let marked = wire.sent.iter().filter(|(segment, _)| segment.flags.contains(Flags::PSH));
        let end = |segment: &Segment| (segment.seq - 1 + u64::from(segment.payload_bytes)) / wire.mss;
        let marks: Vec<u64> = marked.map(|(segment, _)| end(segment)).collect();
        assert_eq!(marks[..first.len()], first, "{write}");
        assert_eq!(marks[marks.len() - 2..], [100, 101], "{write}");
    }
}

#[test]
fn three_sacked_segments_prove_the_loss_and_the_window_falls_with_what_is_delivered() {
    let mut wire = ten_in_flight(|_| ());
    // Limited transmit by in-flight accounting.
    assert_eq!(wire.sack(0, &[(1, 2)]), [10]);
    wire.wait(2);
    assert_eq!(wire.sack(0, &[(1, 3)]), [11]);
    // RFC 6937: of 10 in flight and ssthresh 5 every second delivered segment lets one go; the first is the
    // retransmission.
    assert_eq!(wire.sack(0, &[(1, 4)]), [0]);
    assert_eq!(wire.count(TransportEvent::RecoveryEntered { recovery_point: wire.byte(12) }), 1);
    let sent: Vec<_> = (5..=10).flat_map(|end| wire.sack(0, &[(1, end)])).collect();
    assert_eq!(sent, [12, 13]);
    assert_eq!(wire.window(), (5, 5, 5));
    wire.wait(400);
    assert_eq!(wire.ack(12), [14, 15, 16]);
    assert_eq!(wire.window(), (5, 5, 5));
    assert_eq!(wire.count(TransportEvent::RecoveryLeft), 1);
}

#[test]
fn below_three_sacked_segments_rack_waits_a_quarter_of_the_round_trip() {
    let mut wire = ten_in_flight(|_| ());
    wire.sack(0, &[(1, 2)]);
    assert_eq!(wire.recoveries(), 0);
    // 600 ms round trip: 150 ms of reordering window, and 2 ms, on a clock of 10 ms.
    let before = wire.now_millis();
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.recoveries(), 1);
    assert!((152..=180).contains(&(wire.now_millis() - before)), "{}", wire.now_millis() - before);
}

/// RACK uses the newest segment that an ACK reports, regardless of the order of blocks
/// (`tcp_sacktag_write_queue` sorts the blocks).
#[test]
fn rack_measures_the_newest_segment_of_an_ack() {
    for blocks in [[(10, 11), (3, 4)], [(3, 4), (10, 11)]] {
        let mut wire = ten_in_flight(|_| ());
        assert_eq!(wire.ack(2), [10, 11, 12, 13]);
        wire.wait(600);
        // 10 took 600 ms; 2 and 4 to 9 left 600 ms before it, and the reordering window is 150 ms.
        assert_eq!(wire.sack(2, &blocks)[0], 2, "{blocks:?}");
        assert_eq!(wire.recoveries(), 1);
    }
}

#[test]
fn without_rack_segments_are_counted() {
    let mut wire = ten_in_flight(|c| c.rack = false);
    assert_eq!(wire.sack(0, &[(2, 3)]), [10]);
    wire.wait(2);
    assert_eq!(wire.sack(0, &[(2, 4)]), [11]);
    // RFC 6675: both 0 and 1 have three SACKed segments above them.
    assert_eq!(wire.sack(0, &[(2, 5)]), [0]);
    let sent: Vec<_> = (6..=8).flat_map(|end| wire.sack(0, &[(2, end)])).collect();
    assert_eq!(sent[0], 1);
}

#[test]
fn the_tail_is_probed_after_two_round_trips() {
    let config = config(|_| ());
    let mut wire = Wire::open(&config, 5);
    wire.wait(600);
    wire.ack(3);
    // Two round trips of 600 ms and 2 ms, before the timeout of 600 ms and four deviations.
    let before = wire.now_millis();
    assert_eq!(wire.expire(), [4]);
    assert!((1_202..=1_290).contains(&(wire.now_millis() - before)), "{}", wire.now_millis() - before);
    assert_eq!(wire.log.0.iter().filter(|e| matches!(e, TransportEvent::Timeout { .. })).count(), 0);
    let last = wire.byte(4);
    assert_eq!(wire.count(TransportEvent::TailLossProbe { seq: last }), 1);
    let kind = RetransmissionKind::Probe;
    assert_eq!(wire.count(TransportEvent::Retransmitted { seq: last, kind }), 1);
    assert_eq!(wire.recoveries(), 0);
    // The probe's SACK shows that 3 was lost.
    wire.wait(600);
    assert_eq!(wire.sack(3, &[(4, 5)]), [3]);
}

#[test]
fn a_probe_with_new_data_is_no_retransmission() {
    let mut wire = ten_in_flight(|_| ());
    assert_eq!(wire.expire(), [10], "beyond the congestion window");
    assert_eq!(wire.count(TransportEvent::TailLossProbe { seq: wire.byte(10) }), 1);
    assert!(!wire.log.0.iter().any(|e| matches!(e, TransportEvent::Retransmitted { .. })));
}

#[test]
fn without_probes_the_timeout_comes() {
    let config = config(|c| c.tail_loss_probe = false);
    let mut wire = Wire::open(&config, 5);
    wire.wait(600);
    wire.ack(3);
    assert_eq!(wire.expire(), [3]);
    assert_eq!(wire.count(TransportEvent::Timeout { seq: wire.byte(3), backoff: 1 }), 1);
    assert_eq!(wire.window(), (1, 5, 1));
}

#[test]
fn a_probe_that_repaired_a_loss_costs_half_of_the_window() {
    let config = config(|c| c.initial_window = 4);
    let mut wire = Wire::open(&config, 4);
    wire.wait(600);
    wire.ack(3);
    assert_eq!(wire.expire(), [3]);
    // Only the probe arrived: without D-SACK a loss is inferred once something later is acknowledged.
    wire.wait(600);
    wire.write(2);
    wire.ack(4);
    wire.wait(600);
    assert_eq!(wire.window().1, INFINITE);
    wire.ack(6);
    assert_eq!(wire.window().1, 4);
}

#[test]
fn an_echo_from_before_the_retransmission_undoes_the_reduction() {
    let mut wire = ten_in_flight(|_| ());
    for end in 2..=4 {
        wire.sack(0, &[(1, end)]);
    }
    assert_eq!(wire.window().1, 5);
    wire.wait(10);
    // The original of 0 had only been late.
    wire.ack_echoing(4, &[], 0, 0);
    assert_eq!(wire.count(TransportEvent::Undone(UndoCause::Timestamps)), 1);
    assert!(wire.window().0 >= 10, "{:?}", wire.window());
}

#[test]
fn frto_undoes_a_timeout_when_what_was_not_sent_again_arrives() {
    let mut wire = ten_in_flight(|c| c.tail_loss_probe = false);
    assert_eq!(wire.expire(), [0]);
    assert_eq!(wire.window().1, 5);
    wire.wait(100);
    assert_eq!(wire.ack_echoing(2, &[], 0, 1), [10, 11, 12, 13], "segment 1 was not sent again");
    assert_eq!(wire.count(TransportEvent::Undone(UndoCause::FRto)), 1);
}

#[test]
fn cubic_keeps_seven_tenths_of_the_window() {
    let mut wire = ten_in_flight(|c| c.congestion_control = CongestionControl::Cubic);
    for end in 2..=4 {
        wire.sack(0, &[(1, end)]);
    }
    assert_eq!(wire.window().1, 7);
}

#[test]
fn hystart_ends_slow_start_when_the_delay_grows() {
    let limit = |algorithm| {
        let mut wire = ten_in_flight(|c| c.congestion_control = algorithm);
        wire.ack(10);
        for round in 0..3 {
            // Every round trip is 50 ms longer than the one before.
            wire.wait(650 + 50 * round);
            let first = (wire.now.as_nanos() / 1_000_000, 10 + 20 * round);
            for number in 1..=20 {
                wire.ack(first.1 + number);
            }
        }
        wire.window().1
    };
    assert_eq!(limit(CongestionControl::Reno), INFINITE);
    let found = limit(CongestionControl::Cubic);
    assert!((20..=80).contains(&found), "{found}");
}

#[test]
fn a_syn_is_sent_again_every_second_at_first() {
    let mut wire = Wire::connect(&config(|_| ()), 1);
    let times: Vec<_> = (0..7)
        .map(|_| {
            wire.expire();
            wire.now_millis()
        })
        .collect();
    let distances: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let seconds: Vec<_> = distances.iter().map(|millis| (millis + 200) / 1_000).collect();
    assert_eq!(seconds[..5], [1, 1, 1, 1, 2], "{distances:?}");
}

/// `tcp_write_timeout` adds `tcp_syn_linear_timeouts` to the retries.
#[test]
fn the_syns_at_one_distance_are_no_retries() {
    let mut wire = Wire::connect(&config(|c| c.syn_retries = 2), 10);
    for _ in 0..7 {
        wire.expire();
    }
    // After 0, 1, 2, 3, 4, 5 and 7 s, and given up 4 s later; ticks add up to some more.
    assert_eq!((wire.sent.len(), wire.tcp.phase()), (7, Phase::Aborted));
    assert!((11_000..11_500).contains(&wire.now_millis()), "{}", wire.now_millis());
}

/// The echo shows whether the first SYN had arrived (`tcp_try_undo_spurious_syn`).
#[test]
fn syns_that_were_repeated_for_nothing_leave_the_window_whole() {
    for (answered, first_flight) in [(0, numbers(0, 10)), (2, numbers(0, 1))] {
        let config = config(|_| ());
        let mut wire = Wire::connect(&config, 20);
        wire.expire();
        wire.expire();
        let echo = wire.sent[answered].0.timestamps.expect("timestamps are on").value;
        let answer = Segment {
            ack: 1,
            flags: Flags::SYN.with(Flags::ACK),
            mss: NonZeroU16::new(536),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo }),
            window_bytes: 20_000,
            ..Segment::default()
        };
        assert_eq!(wire.deliver(&answer), first_flight, "SYN {answered} answered");
    }
}

/// The receiving end of a connection, and when its ACKs leave.
struct Receiving {
    tcp: Endpoint,
    now: Instant,
    mss: u64,
    arrived: u64,
}

impl Receiving {
    fn new(config: &TcpConfig) -> Self {
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let tcp = Endpoint::listen(config.clone(), 1500, clock, FlowId(0), Host::Client);
        let mut end = Self { mss: u64::from(tcp.mss()), tcp, now: Instant::ZERO, arrived: 0 };
        let mss = NonZeroU16::new(1_460);
        end.take(&Segment {
            flags: Flags::SYN,
            window_bytes: 64_000,
            mss,
            sack_permitted: true,
            ..Segment::default()
        });
        end.take(&Segment { seq: 1, ack: 1, flags: Flags::ACK, window_bytes: 64_000, ..Segment::default() });
        end
    }

    fn take(&mut self, segment: &Segment) -> usize {
        self.tcp.handle_segment(self.now, segment, Ecn::NotEct, None, &mut ());
        std::iter::from_fn(|| poll(&mut self.tcp, self.now)).count()
    }

    /// The next full segment arrives, within a write or at its end. The ACKs that it brings at once.
    fn full(&mut self, push: bool) -> usize {
        let flags = if push { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
        let segment = Segment {
            seq: 1 + self.arrived * self.mss,
            ack: 1,
            payload_bytes: self.mss as u32,
            flags,
            window_bytes: 64_000,
            ..Segment::default()
        };
        self.arrived += 1;
        self.take(&segment)
    }
}

#[test]
fn acks_are_quick_while_the_window_grows_and_then_delayed_by_40_ms() {
    let config = config(|c| {
        c.timestamps = false;
        c.eifel = false;
        c.receive_window_initial = 40;
        c.receive_window_max = 40;
    });
    let mut end = Receiving::new(&config);
    let quick: Vec<_> = (0..16).map(|_| end.full(false)).collect();
    assert_eq!(quick, [1; 16]);
    assert_eq!((end.full(false), end.full(false)), (0, 1), "every second one");
    end.full(false);
    let due = end.tcp.next_wakeup().expect("a delayed ACK") - end.now;
    assert!((Duration::from_millis(40)..=Duration::from_millis(60)).contains(&due), "{due}");
}

#[test]
fn the_end_of_a_write_is_acknowledged_at_once() {
    let config = config(|c| {
        c.timestamps = false;
        c.eifel = false;
        c.receive_window_max = 40;
    });
    let mut end = Receiving::new(&config);
    for _ in 0..16 {
        end.full(false);
    }
    assert_eq!((end.full(true), end.full(true), end.full(false)), (1, 1, 0));
}

#[test]
fn cached_metrics_set_the_threshold_of_the_next_connection() {
    let mut wire = ten_in_flight(|_| ());
    for end in 2..=4 {
        wire.wait(2);
        wire.sack(0, &[(1, end)]);
    }
    wire.wait(100);
    wire.ack(12);
    let mut cache = CachedMetrics::default();
    wire.tcp.store_metrics(&mut cache);
    assert_eq!((cache.ssthresh, cache.srtt_8 > 0), (5, true));
    let next = Wire::open_with_cache(&config(|_| ()), 100, Some(&cache));
    assert_eq!(next.window(), (10, 5, 10));
}

/// RFC 3168, section 6.1.1.1: a node may drop the first SYN because of its ECN flags. Linux 2.4 requests ECN
/// again.
#[test]
fn a_repeated_syn_does_not_ask_for_ecn() {
    let setup = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    let old = crate::wire::config(|c| c.ecn = true);
    for (config, again) in [(config(|c| c.ecn = true), Flags::SYN), (old, setup)] {
        let mut wire = Wire::connect(&config, 10);
        assert_eq!(wire.last().flags, setup);
        for _ in 0..2 {
            wire.expire();
            assert_eq!(wire.last().flags, again);
        }
    }
}
