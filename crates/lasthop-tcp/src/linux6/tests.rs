//! Pacing and delivery rates at the interface, with an algorithm that does nothing else.

use lasthop_core::{Bytes, Duration, FlowId, Host, Instant, SackBlock, Segment};

use super::*;
use crate::config::{CongestionControl, Pacing, Profile, SizeLimit};

/// Segments of 1000 bytes at 1 Mbit/s; the window is ten of them.
fn sender() -> Linux6Sender {
    sender_with(CongestionControl::Paced, 10)
}

fn sender_with(control: CongestionControl, window: u32) -> Linux6Sender {
    sender_paced(control, window, Pacing::Socket)
}

fn sender_paced(control: CongestionControl, window: u32, pacing: Pacing) -> Linux6Sender {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("complete");
    (config.congestion_control, config.initial_window) = (control, window);
    config.pacing = pacing;
    config.timestamps = false;
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut sender = Linux6Sender::new(&Rc::new(config), clock, 1_000);
    sender.queue.skip_handshake(1_000_000);
    sender.establish(&mut cx(&mut (), 0), None, Handshake::default());
    sender.queue.write(1_000_000, 1_000);
    sender
}

fn cx(observer: &mut (), micros: u64) -> Context<'_, ()> {
    let now = Instant::ZERO + Duration::from_micros(micros);
    Context { now, us: micros, tick: micros / 4_000, flow: FlowId(0), host: Host::Server, observer }
}

/// Number of segments that leave, and the time at which the next may leave.
fn leave(sender: &mut Linux6Sender) -> (usize, Option<u64>) {
    let count = sender.queue.out.drain(..).count();
    (count, sender.release().map(|at| at.as_nanos() / 1_000))
}

fn ack(sender: &mut Linux6Sender, micros: u64, ack: u64) {
    let segment = Segment { ack, window_bytes: 1_000_000, ..Segment::default() };
    sender.on_ack(&mut cx(&mut (), micros), &segment);
}

fn rates(sender: &Linux6Sender) -> Vec<(u64, u64)> {
    let Control::Paced(algorithm) = &sender.control else { panic!("another algorithm") };
    let rates = algorithm.samples.iter().filter_map(|sample| sample.rate);
    rates.map(|rate| (rate.delivered, rate.interval_us)).collect()
}

#[test]
fn segments_leave_at_the_pacing_rate_and_not_on_ticks() {
    let mut sender = sender_with(CongestionControl::Paced, 16);
    sender.send_written(&mut cx(&mut (), 500));
    assert_eq!(leave(&mut sender), (10, Some(8_500)), "the first ten leave at once");
    sender.on_release(&mut cx(&mut (), 8_499));
    assert_eq!(leave(&mut sender), (0, Some(8_500)), "too early");
    // Waiting segments leave in pairs; the window holds sixteen.
    for (at, left) in [(8_500, (2, Some(24_500))), (24_500, (2, Some(40_500))), (40_500, (2, None))] {
        sender.on_release(&mut cx(&mut (), at));
        assert_eq!(leave(&mut sender), left, "{at}");
    }
}

#[test]
fn retransmissions_are_paced_too() {
    let mut sender = sender();
    sender.send_written(&mut cx(&mut (), 0));
    leave(&mut sender);
    // The last three arrive: the seven before them are lost.
    let mut segment = Segment { ack: 1, window_bytes: 1_000_000, ..Segment::default() };
    segment.sack.push(SackBlock { start: 7_001, end: 10_001 });
    sender.on_ack(&mut cx(&mut (), 172_000), &segment);
    // The pause gives credit for half of a segment's time.
    assert_eq!(leave(&mut sender), (1, Some(176_000)));
    sender.on_release(&mut cx(&mut (), 176_000));
    assert_eq!(leave(&mut sender), (1, Some(184_000)));
}

#[test]
fn acks_tell_the_rate_at_which_the_path_delivers() {
    let mut sender = sender();
    sender.send_written(&mut cx(&mut (), 0));
    // A round trip of 100 ms, and a bottleneck of half the pacing rate.
    for number in 1..=3 {
        ack(&mut sender, 84_000 + 16_000 * number, 1 + 1_000 * number);
    }
    assert_eq!(rates(&sender), [(1, 100_000), (2, 116_000), (3, 132_000)]);
}

/// 200 % of the window per round-trip time in slow start, 120 % later (`tcp_update_pacing_rate`).
#[test]
fn with_pacing_a_window_leaves_over_a_part_of_the_round_trip_time() {
    for (ssthresh, window, ratio) in [(u32::MAX, 11, 2.0), (21, 11, 1.2)] {
        let mut sender = sender_with(CongestionControl::Reno, 10);
        sender.control.state_mut().set_ssthresh(ssthresh);
        sender.send_written(&mut cx(&mut (), 0));
        assert_eq!(leave(&mut sender).0, 10);
        ack(&mut sender, 100_000, 1_001);
        assert_eq!(sender.control.window(), window);
        let rate = f64::from(window) * 1_000.0 * ratio / 0.1;
        // Two leave together; half of their time is credit for the pause.
        let gap_us = (1e9 / rate) as u64;
        let wait = sender.pacer.wait(cx(&mut (), 100_000).now);
        assert_eq!((leave(&mut sender).0, wait.as_nanos() / 1_000), (2, gap_us), "{ratio}");
    }
}

#[test]
fn a_large_write_leaves_in_bursts_of_a_millisecond() {
    let mut sender = sender_with(CongestionControl::Paced, 20);
    sender.queue.forget_unsent();
    sender.write(1_000_000, 1_000_000);
    sender.send_written(&mut cx(&mut (), 0));
    // At 1 Mbit/s that is less than a segment, so two leave together.
    assert_eq!(leave(&mut sender), (10, Some(16_000)));
    sender.on_release(&mut cx(&mut (), 16_000));
    assert_eq!(leave(&mut sender), (2, Some(32_000)));
}

/// `tcp_rate_check_app_limited`: checked at each write, not when the last segment has left.
#[test]
fn the_sender_has_too_little_to_send_when_it_writes_into_an_empty_queue() {
    for (write_bytes, limited) in [(1_000, 10), (1_000_000, 2)] {
        let mut sender = sender();
        sender.queue.forget_unsent();
        sender.write(1_000_000, write_bytes);
        sender.send_written(&mut cx(&mut (), 0));
        // Nine were in flight when the tenth was written; nothing, when all was written at once.
        let until = (1..=12).find(|&number| {
            ack(&mut sender, 100_000 + number, 1 + 1_000 * number);
            !sender.rates.is_app_limited()
        });
        assert_eq!(until, Some(limited), "writes of {write_bytes}");
    }
}

/// Two segments of 1000 bytes are what a small queue takes; a buffer counts 896 bytes more.
#[test]
fn fq_holds_two_segments_that_count_as_sent() {
    let mut sender = sender_paced(CongestionControl::Paced, 16, Pacing::Fq);
    sender.send_written(&mut cx(&mut (), 500));
    assert_eq!(leave(&mut sender), (10, Some(8_500)), "the first ten leave at once");
    assert_eq!(sender.board.in_flight(), 12);
    sender.on_release(&mut cx(&mut (), 8_499));
    assert_eq!(leave(&mut sender), (0, Some(8_500)), "too early");
    // The next buffer holds two, and the window sixteen.
    let later = [
        (8_500, 16, (1, Some(16_500))),
        (16_500, 16, (1, Some(24_500))),
        (24_500, 16, (2, Some(40_500))),
        (40_500, 16, (2, None)),
    ];
    for (at, in_flight, left) in later {
        sender.on_release(&mut cx(&mut (), at));
        assert_eq!((sender.board.in_flight(), leave(&mut sender)), (in_flight, left), "{at}");
    }
}

/// `skb->skb_mstamp_ns` is the time of departure, and `tcp_pacing_delay` is added to the timer.
#[test]
fn clocks_begin_when_fq_lets_go() {
    let mut sender = sender_paced(CongestionControl::Paced, 15, Pacing::Fq);
    sender.send_written(&mut cx(&mut (), 500));
    let sent: Vec<u64> = (9..12).map(|index| sender.board.queue.get(index).sent.us).collect();
    assert_eq!(sent, [500, 8_500, 16_500]);
    // A second, and 24 ms until a third segment might depart, in ticks of 4 ms.
    assert_eq!(sender.timer(), Some(crate::clock::wheel(0, 250 + 6)));
}

#[test]
fn fq_holds_twice_as_much_that_is_sent_again() {
    let mut sender = sender_paced(CongestionControl::Paced, 10, Pacing::Fq);
    sender.send_written(&mut cx(&mut (), 0));
    leave(&mut sender);
    let mut segment = Segment { ack: 1, window_bytes: 1_000_000, ..Segment::default() };
    segment.sack.push(SackBlock { start: 7_001, end: 10_001 });
    sender.on_ack(&mut cx(&mut (), 172_000), &segment);
    assert_eq!(sender.board.queue.retransmitted_out(), 5, "one has left, four are held");
    for departs in [176_000, 184_000, 192_000] {
        let (left, next) = leave(&mut sender);
        assert_eq!((left, next), (1, Some(departs)));
        sender.on_release(&mut cx(&mut (), departs));
    }
    assert_eq!(sender.board.queue.retransmitted_out(), 7, "each departure lets another in");
}

/// A sender with a window of this number of segments that has just written, with `fq`.
fn sender_with_fq(cwnd: u32, bytes: u64, write_bytes: u64) -> Linux6Sender {
    let mut sender = sender_paced(CongestionControl::Paced, cwnd, Pacing::Fq);
    sender.queue.forget_unsent();
    sender.write(bytes, write_bytes);
    sender.send_written(&mut cx(&mut (), 0));
    sender
}

#[test]
fn fq_holds_two_bursts_of_a_large_write() {
    let mut sender = sender_with_fq(20, 1_000_000, 1_000_000);
    assert_eq!(leave(&mut sender), (10, Some(16_000)));
    assert_eq!(sender.board.in_flight(), 14);
    sender.on_release(&mut cx(&mut (), 16_000));
    assert_eq!(leave(&mut sender), (2, Some(32_000)));
}

/// TCP has already passed on the segment, so the FIN cannot be added to it; the FIN waits for its turn after
/// it.
#[test]
fn a_fin_follows_what_fq_holds() {
    let mut sender = sender_with_fq(15, 11_000, 1_000);
    assert_eq!(leave(&mut sender), (10, Some(8_000)));
    sender.close();
    sender.send_written(&mut cx(&mut (), 0));
    assert!(sender.queue.out.is_empty());
    for (departs, fin) in [(8_000, false), (16_000, true)] {
        assert_eq!(sender.release(), Some(Instant::ZERO + Duration::from_micros(departs)));
        sender.on_release(&mut cx(&mut (), departs));
        assert_eq!(sender.queue.out.drain(..).map(|left| left.fin).collect::<Vec<_>>(), [fin]);
    }
}

/// `tcp_mss_split_point`: a buffer is cut where the receiver's window ends, unless only its first segment may
/// leave.
#[test]
fn a_burst_ends_where_the_receivers_window_does() {
    for (cwnd, left) in [(10, &[1_000, 1_000, 1_000, 500][..]), (2, &[1_000, 1_000])] {
        let mut sender = sender_with(CongestionControl::Reno, cwnd);
        sender.queue.forget_unsent();
        sender.queue.window_bytes = 3_500;
        sender.write(100_000, 100_000);
        sender.send_written(&mut cx(&mut (), 0));
        let sizes: Vec<u32> = sender.queue.out.iter().map(|sent| sent.payload_bytes).collect();
        assert_eq!(sizes, left);
    }
}

/// Linux up to 4.12 without `fq`: no timer paces an algorithm that sets a rate.
#[test]
fn without_any_pacing_the_whole_window_leaves_at_once() {
    let mut sender = sender_paced(CongestionControl::Paced, 16, Pacing::Never);
    sender.send_written(&mut cx(&mut (), 500));
    assert_eq!(leave(&mut sender), (16, None));
}

/// A socket that takes six segments of 1000 bytes and 1280 for their buffers, and an application that writes one
/// at a time. The window is not the limit.
fn sender_with_socket(writes: u64) -> Linux6Sender {
    let mut sender = sender_paced(CongestionControl::Reno, 30, Pacing::Off);
    sender.queue.forget_unsent();
    sender.socket = Socket::new(SizeLimit::Bytes(Bytes(6 * 2_280)));
    sender.write(writes * 1_000, 1_000);
    sender.send_written(&mut cx(&mut (), 0));
    sender
}

/// `sk_stream_is_writeable`: at least half of what is used is free.
#[test]
fn a_full_socket_is_filled_again_when_a_third_is_free() {
    let mut sender = sender_with_socket(100);
    assert_eq!(leave(&mut sender).0, 6);
    ack(&mut sender, 100_000, 1_001);
    assert_eq!(leave(&mut sender).0, 0, "five of six");
    ack(&mut sender, 100_000, 2_001);
    assert_eq!(leave(&mut sender).0, 2, "four of six");
    ack(&mut sender, 200_000, 8_001);
    assert_eq!(leave(&mut sender).0, 6);
    sender.forget_unsent();
    ack(&mut sender, 300_000, 14_001);
    assert_eq!(leave(&mut sender).0, 0, "the application has stopped");
}

/// `tcp_shift_skb_data`: two of six segments are SACKed, and their data alone counts.
#[test]
fn sacked_segments_share_a_buffer() {
    let mut sender = sender_with_socket(100);
    leave(&mut sender);
    let mut segment = Segment { ack: 1, window_bytes: 1_000_000, ..Segment::default() };
    segment.sack.push(SackBlock { start: 1_001, end: 6_001 });
    sender.on_ack(&mut cx(&mut (), 100_000), &segment);
    // 6000 + 1280 of 13 680 are in use, and 2 * 2280 + 1280 more take the rest.
    let new = sender.queue.out.drain(..).filter(|sent| sent.seq >= 6_001).count();
    assert_eq!(new, 3);
}

/// What the window holds back shares a buffer.
#[test]
fn unsent_data_counts_alone() {
    let mut sender = sender_paced(CongestionControl::Reno, 2, Pacing::Off);
    sender.queue.forget_unsent();
    sender.socket = Socket::new(SizeLimit::Bytes(Bytes(2 * 2_280 + 4_000)));
    sender.write(100_000, 1_000);
    assert_eq!(sender.queue.unsent(), 6_000);
    sender.write(100_000, 1_000);
    assert_eq!(sender.queue.unsent(), 6_000, "it is full");
}

#[test]
fn the_fin_follows_what_still_waited_for_the_socket() {
    let mut sender = sender_with_socket(8);
    sender.close();
    assert_eq!(leave(&mut sender).0, 6);
    ack(&mut sender, 100_000, 2_001);
    let rest: Vec<_> = sender.queue.out.drain(..).map(|sent| (sent.seq, sent.fin)).collect();
    assert_eq!(rest, [(6_001, false), (7_001, true)]);
}
