//! Packet traces over one direction. Packets of 576 bytes take 72.1 ms each.

use lasthop_core::dist::Cut;
use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{
    Body, Bytes, Direction, Distribution, DropCause, Duration, Ecn, Flags, Instant, Packet, Rate, Segment,
};

use crate::config::{
    ArqConfig, BufferRelease, DisciplineConfig, ErrorConfig, GilbertElliott, HeaderCompression, LinkChange,
    PathConfig, RedConfig, Start, StateLookup,
};
use crate::testing::{Lab, SEED, Seen, arq, at_us, datagram, drop_tail, errors, red, studied_path};

mod properties;
mod reference;

const NOW: Instant = Instant::ZERO;
const ARQ_DELAY: Duration = Duration::from_millis(700);

fn serials(lines: &[(Instant, u64)]) -> Vec<u64> {
    lines.iter().map(|line| line.1).collect()
}

#[test]
fn packets_leave_at_the_serialisation_rate() {
    let mut lab = Lab::new(&studied_path(), None);
    lab.burst(NOW, 3);
    lab.run();
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(444_200), 1), (at_us(516_300), 2)]);
    assert!(lab.arena.is_empty());
}

#[test]
fn a_packet_that_is_dropped_at_the_end_of_a_serialisation_stops_nothing() {
    let mut config = studied_path();
    config.queue = drop_tail(2);
    config.link.send_buffer = Bytes(576);
    config.link.release = BufferRelease::Serialised;
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 3);
    // In a tree, a packet may pass in before the wakeup of the same instant.
    let id = lab.arena.insert(datagram(9, 576, Ecn::NotEct));
    lab.path.handle_packet(at_us(72_100), id, &mut lab.arena, &mut lab.log);
    lab.run();
    assert_eq!(serials(&lab.dropped(DropCause::QueueOverflow)), [9]);
    assert_eq!(serials(&lab.delivered()), [0, 1, 2]);
}

#[test]
fn an_idle_link_starts_at_once() {
    let mut lab = Lab::new(&studied_path(), None);
    lab.burst(NOW, 1);
    lab.burst(at_us(10_000_000), 1);
    lab.run();
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(10_372_100), 1)]);
}

#[test]
fn what_is_left_of_a_packet_goes_on_at_the_new_rate() {
    let mut config = studied_path();
    // Half of the second packet (72 ms and 0.1 ms of overhead each) is on the link when it slows down to a
    // quarter.
    config.link.change = vec![LinkChange {
        at: Duration::from_micros(72_100 + 36_000),
        rate: Some(Rate::from_bits_per_second(16_000)),
        delay: None,
    }];
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 3);
    lab.run();
    let second = 72_100 + 36_000 + 4 * 36_000 + 100;
    let times = [72_100, second, second + 288_100];
    assert_eq!(lab.delivered(), [0, 1, 2].map(|n| (at_us(times[n] + 300_000), n as u64)));
}

/// Packets of 72.1 ms each, which travel for 300, 600, 300, ... ms.
fn jittery() -> PathConfig {
    let mut config = studied_path();
    config.link.release = BufferRelease::Serialised;
    config.link.jitter = Some(Distribution::Sequence(vec![Duration::ZERO, Duration::from_millis(300)]));
    config
}

#[test]
fn jitter_holds_later_packets_back() {
    let mut lab = Lab::new(&jittery(), None);
    lab.burst(NOW, 4);
    lab.run();
    let times = [372_100, 744_200, 744_200, 888_400];
    assert_eq!(lab.delivered(), [0, 1, 2, 3].map(|n| (at_us(times[n]), n as u64)));
}

#[test]
fn packets_overtake_each_other_where_that_is_said() {
    let mut config = jittery();
    config.link.reorder = true;
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 4);
    lab.run();
    let order = [(372_100, 0), (516_300, 2), (744_200, 1), (888_400, 3)];
    assert_eq!(lab.delivered(), order.map(|(us, n)| (at_us(us), n)));
    assert!(lab.arena.is_empty());
}

#[test]
fn arq_holds_nobody_back_on_a_link_that_reorders() {
    let mut config = studied_path();
    config.link.release = BufferRelease::Serialised;
    // The first transmission of the first packet falls into the bad state, which ends before that of the
    // second packet.
    config.link.errors = Some(ErrorConfig {
        good: Distribution::Sequence(vec![Duration::from_millis(70), Duration::from_secs(3600)]),
        bad: Distribution::Static(Duration::from_millis(10)),
        ..errors(0, 0, Some(arq(3, ARQ_DELAY)))
    });
    config.link.reorder = true;
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 3);
    lab.run();
    let order = [(444_200, 1), (516_300, 2), (1_072_100, 0)];
    assert_eq!(lab.delivered(), order.map(|(us, n)| (at_us(us), n)));
}

#[test]
fn a_corrupt_packet_takes_its_time_and_is_discarded_where_it_arrives() {
    let mut config = studied_path();
    config.link.corrupt = Some(Probability::ONE);
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!(lab.dropped(DropCause::Corrupt), [(at_us(372_100), 0), (at_us(444_200), 1)]);
    assert!(lab.arena.is_empty());
}

#[test]
fn a_copy_follows_its_packet_at_once_and_takes_no_time_on_the_link() {
    let mut config = studied_path();
    config.link.duplicate = Some(Probability::ONE);
    let arrivals = [(372_100, 0), (444_200, 1)].map(|(us, n)| (at_us(us), n));
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!(
        (lab.delivered(), lab.when(|seen| seen == Seen::Duplicated)),
        (arrivals.to_vec(), arrivals.to_vec())
    );
    let order: Vec<_> = lab.log.lines.iter().rev().take(4).map(|line| (line.1, line.2)).collect();
    assert_eq!(
        order,
        [(1, Seen::Duplicated), (1, Seen::Delivered), (0, Seen::Duplicated), (0, Seen::Delivered)]
    );
    assert!(lab.arena.is_empty());
    // A lost or corrupt packet has no copy; a delayed packet is followed by its copy.
    config.link.corrupt = Some(Probability::ONE);
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!((lab.dropped(DropCause::Corrupt).len(), lab.delivered().len(), lab.arena.len()), (2, 0, 0));
    let mut lab = Lab::new(
        &{
            let mut config = jittery();
            config.link.reorder = true;
            config.link.duplicate = Some(Probability::ONE);
            config
        },
        None,
    );
    lab.burst(NOW, 3);
    lab.run();
    assert_eq!(lab.when(|seen| seen == Seen::Duplicated), lab.delivered());
}

#[test]
fn what_the_link_loses_delays_nobody() {
    let mut config = studied_path();
    config.link.gilbert_elliott = Some(GilbertElliott {
        p: Probability::ONE,
        r: Probability::ONE,
        loss_bad: Probability::ONE,
        loss_good: Probability::default(),
    });
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 4);
    lab.run();
    assert_eq!(lab.dropped(DropCause::LinkError), [(at_us(144_200), 1), (at_us(288_400), 3)]);
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(516_300), 2)]);
}

#[test]
fn shorter_delay_lets_no_packet_overtake() {
    let mut config = studied_path();
    let sooner = |at_ms, delay_ms| LinkChange {
        at: Duration::from_millis(at_ms),
        rate: None,
        delay: Some(Duration::from_millis(delay_ms)),
    };
    config.link.change = vec![sooner(100, 10), sooner(200, 600)];
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 3);
    lab.run();
    // The second packet would arrive 144.2 + 10 ms after the start, before the first.
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(372_100), 1), (at_us(216_300 + 600_000), 2)]);
}

#[test]
fn burst_of_40_fills_buffer_and_queue_and_loses_the_last_four() {
    let mut lab = Lab::new(&studied_path(), None);
    lab.burst(NOW, 40);
    // 16 packets are 9216 of 9600 bytes; the one being serialised is among them.
    assert_eq!(lab.path.send_buffer_bytes(), 9_216);
    assert_eq!((lab.path.queue_depth().packets, lab.path.queue_depth().bytes), (20, 11_520));
    assert_eq!(serials(&lab.dropped(DropCause::QueueOverflow)), [36, 37, 38, 39]);
    assert_eq!(lab.path.packets_inside(), 36);
    lab.run();
    assert_eq!(serials(&lab.delivered()), (0..36).collect::<Vec<_>>());
    // The link stays busy although bytes stay in the buffer for 600 ms: they return in time.
    assert_eq!(lab.delivered().last(), Some(&(at_us(36 * 72_100 + 300_000), 35)));
}

#[test]
fn packet_passes_straight_through_an_empty_queue() {
    let mut lab = Lab::new(&studied_path(), None);
    lab.burst(NOW, 1);
    assert_eq!(lab.log.lines, [(NOW, 0, Seen::Enqueued(1)), (NOW, 0, Seen::Dequeued(0))]);
}

#[test]
fn packet_waits_when_the_buffer_is_full() {
    let mut lab = Lab::new(&studied_path(), None);
    lab.burst(NOW, 18);
    let tail = &lab.log.lines[32..];
    assert_eq!(tail, [(NOW, 16, Seen::Enqueued(1)), (NOW, 17, Seen::Enqueued(2))]);
    assert_eq!((lab.log.last_depth.packets, lab.log.last_depth.bytes), (2, 1_152));
    assert!(lab.log.last_depth.average.is_nan());
}

#[test]
fn small_packet_waits_behind_a_large_head_although_it_would_fit() {
    let mut lab = Lab::new(&studied_path(), None);
    lab.burst(NOW, 17);
    lab.send(NOW, 40, Ecn::NotEct);
    assert_eq!(lab.path.queue_depth().packets, 2, "384 bytes are free, but the head needs 576");
    lab.run();
    // Both move in when the bytes of the first packet are released.
    assert_eq!(lab.dequeued()[16..], [(at_us(672_100), 16), (at_us(672_100), 17)]);
}

#[test]
fn byte_limit_counts_ip_bytes() {
    let mut config = studied_path();
    config.queue.limit = QueueSize::Bytes(1_200);
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 19);
    lab.send(NOW, 48, Ecn::NotEct);
    assert_eq!(serials(&lab.dropped(DropCause::QueueOverflow)), [18]);
    assert_eq!(lab.path.queue_depth().bytes, 1_200);
}

#[test]
fn acknowledged_bytes_return_600_ms_after_the_serialisation() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!(lab.dequeued(), [(NOW, 0), (at_us(672_100), 1)]);
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(1_044_200), 1)]);
    assert_eq!(lab.path.send_buffer_bytes(), 0, "the last acknowledgement has returned, too");
}

#[test]
fn serialised_bytes_return_at_the_end_of_the_serialisation() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    config.link.release = BufferRelease::Serialised;
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!(lab.dequeued(), [(NOW, 0), (at_us(72_100), 1)]);
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(444_200), 1)]);
}

/// Bad from 60 to 90, 150 to 180, ... ms: the first packet's transmission at 72.1 ms fails; the next three do
/// not.
#[test]
fn arq_stall_releases_a_burst() {
    let errors = errors(60, 30, Some(arq(1, ARQ_DELAY)));
    let mut lab = Lab::new(&studied_path(), Some(&errors));
    lab.burst(NOW, 4);
    lab.run();
    assert_eq!(lab.when(|seen| seen == Seen::Retry), [(at_us(72_100), 0)]);
    let release = at_us(772_100 + 300_000);
    assert_eq!(lab.delivered(), [(release, 0), (release, 1), (release, 2), (release, 3)]);
}

/// The same stall until 1072.1 ms; room for two packets at the far side, which the third finds taken at 588.4
/// ms.
#[test]
fn a_full_receive_buffer_loses_what_arrives_behind_a_repeated_packet() {
    let errors = errors(60, 30, Some(arq(1, ARQ_DELAY)));
    for release in [BufferRelease::Serialised, BufferRelease::Acknowledged] {
        let mut config = studied_path();
        config.link.receive_buffer = Some(Bytes(2 * 576));
        config.link.release = release;
        let mut lab = Lab::new(&config, Some(&errors));
        lab.burst(NOW, 4);
        lab.run_until(at_us(1_072_099));
        assert_eq!(lab.dropped(DropCause::ReceiveBuffer), [(at_us(144_200 + 72_100 * 2 + 300_000), 3)]);
        lab.run();
        let released = at_us(1_072_100);
        assert_eq!(lab.delivered(), [(released, 0), (released, 1), (released, 2)]);
        assert_eq!(lab.path.send_buffer_bytes(), 0);
    }
}

/// The room of released packets is free again, and packets that arrive in order need none.
#[test]
fn a_receive_buffer_holds_only_what_waits() {
    let mut config = studied_path();
    config.link.receive_buffer = Some(Bytes(576));
    config.link.release = BufferRelease::Serialised;
    // The first try of packets 0 and 20 is hit.
    let errors = ErrorConfig {
        good: Distribution::Sequence([60, 1_410].map(Duration::from_millis).to_vec()),
        ..errors(0, 30, Some(arq(1, ARQ_DELAY)))
    };
    let mut lab = Lab::new(&config, Some(&errors));
    lab.burst(NOW, 30);
    lab.run();
    let lost = serials(&lab.dropped(DropCause::ReceiveBuffer));
    // 700 ms are nine packets, and one of them waits.
    assert_eq!(lost, [2..=9_u64, 22..=29].into_iter().flatten().collect::<Vec<_>>());
}

/// An ACK of 40 bytes is sent uncompressed and takes 5.1 ms; then segments with 536 + 3 bytes take 67.475 ms
/// each, and a retransmission takes 72.1 ms.
#[test]
fn compressed_headers_save_time_and_a_loss_takes_the_next_packets_along() {
    let segment = |seq: u64, payload_bytes: u32| {
        let segment = Segment { seq, ack: 1, payload_bytes, flags: Flags::ACK, ..Segment::default() };
        Packet { body: Body::Tcp(segment), ..datagram(0, 40 + payload_bytes, Ecn::NotEct) }
    };
    let mut config = studied_path();
    config.link.header_compression = Some(HeaderCompression::Vj);
    // Bad from 100 to 160 ms: the second segment is lost at 140.05 ms.
    let errors = ErrorConfig {
        good: Distribution::Sequence([100, 10_000].map(Duration::from_millis).to_vec()),
        ..errors(0, 60, None)
    };
    let mut lab = Lab::new(&config, Some(&errors));
    lab.send_packet(NOW, segment(1, 0));
    for seq in [1, 537, 1_073, 537] {
        lab.send_packet(NOW, segment(seq, 536));
    }
    lab.run();
    assert_eq!(lab.dropped(DropCause::LinkError), [(at_us(140_050), 2)]);
    assert_eq!(lab.dropped(DropCause::HeaderCompression), [(at_us(507_525), 3)]);
    assert_eq!(lab.delivered(), [(at_us(305_100), 0), (at_us(372_575), 1), (at_us(579_625), 4)]);
    assert_eq!(lab.path.send_buffer_bytes(), 0);
}

#[test]
fn bytes_of_packets_that_wait_for_arq_stay_in_the_buffer() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(2 * 576);
    let errors = errors(60, 30, Some(arq(1, ARQ_DELAY)));
    let mut lab = Lab::new(&config, Some(&errors));
    lab.burst(NOW, 4);
    lab.run();
    // Released at 1072.1 ms with the first packet, acknowledged 300 ms later.
    assert_eq!(lab.dequeued()[2..], [(at_us(1_372_100), 2), (at_us(1_372_100), 3)]);
}

#[test]
fn arq_gives_up_at_the_hit_after_the_last_retransmission() {
    for retransmissions in [0, 1, 3, 6] {
        let errors = errors(50, 3_600_000, Some(arq(retransmissions, ARQ_DELAY)));
        let mut lab = Lab::new(&studied_path(), Some(&errors));
        lab.burst(NOW, 1);
        lab.run();
        let tries: Vec<_> =
            (0..u64::from(retransmissions)).map(|n| (at_us(72_100 + n * 700_000), 0)).collect();
        assert_eq!(lab.when(|seen| seen == Seen::Retry), tries);
        let given_up = at_us(72_100 + u64::from(retransmissions) * 700_000);
        assert_eq!(lab.dropped(DropCause::ArqGivenUp), [(given_up, 0)]);
        assert!(lab.delivered().is_empty() && lab.arena.is_empty());
    }
}

/// Transmissions every 90 ms always meet the bad state: the packet is given up at 162.1 ms.
#[test]
fn dropped_packet_releases_those_behind_it_and_its_bytes_in_order() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(2 * 576);
    let errors = errors(60, 30, Some(arq(1, Duration::from_millis(90))));
    let mut lab = Lab::new(&config, Some(&errors));
    lab.burst(NOW, 3);
    lab.run();
    assert_eq!(lab.dropped(DropCause::ArqGivenUp), [(at_us(162_100), 0)]);
    // The second packet got through at 144.2 ms but waits for the tombstone, 300 ms after the drop.
    assert_eq!(lab.delivered()[0], (at_us(462_100), 1));
    assert_eq!(lab.dequeued()[2], (at_us(762_100), 2));
}

#[test]
fn without_arq_a_hit_packet_is_lost() {
    let mut lab = Lab::new(&studied_path(), Some(&errors(60, 30, None)));
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!(lab.dropped(DropCause::LinkError), [(at_us(72_100), 0)]);
    assert_eq!(lab.delivered(), [(at_us(444_200), 1)]);
}

/// r0, r2 and r4 of iip2004: in a bad state that does not end, a packet is lost if all its transmissions
/// fail.
#[test]
fn each_link_retransmission_is_another_chance() {
    for (retransmissions, cause) in
        [(None, DropCause::LinkError), (Some(2), DropCause::ArqGivenUp), (Some(4), DropCause::ArqGivenUp)]
    {
        let config = ErrorConfig {
            packet_error_probability: Some(Probability::new(0.83).unwrap()),
            ..errors(0, 1_000, retransmissions.map(|most| arq(most, ARQ_DELAY)))
        };
        let mut lab = Lab::new(&studied_path(), Some(&config));
        for n in 0..4_000 {
            lab.burst(at_us(4_000_000 * n), 1);
        }
        lab.run();
        let lost = lab.dropped(cause).len();
        assert_eq!(lost + lab.delivered().len(), 4_000);
        let expected = 4_000.0 * libm::pow(0.83, f64::from(retransmissions.unwrap_or(0)) + 1.0);
        // Four standard deviations are 127 at most.
        assert!((lost as f64 - expected).abs() < 127.0, "{retransmissions:?}: {lost}, expected {expected}");
        let patience = retransmissions.map_or(Duration::ZERO, |most| ARQ_DELAY * u64::from(most));
        let given_up = |n: u64| at_us(4_000_000 * n + 72_100) + patience;
        assert!(lab.dropped(cause).iter().all(|&(at, serial)| at == given_up(serial)));
    }
}

#[test]
fn first_try_lookup_holds_the_state() {
    let first_try = ArqConfig { state_lookup: StateLookup::FirstTry, ..arq(2, ARQ_DELAY) };
    let mut lab = Lab::new(&studied_path(), Some(&errors(60, 30, Some(first_try))));
    lab.burst(NOW, 2);
    lab.run();
    assert_eq!(serials(&lab.when(|seen| seen == Seen::Retry)), [0, 0]);
    assert_eq!(lab.dropped(DropCause::ArqGivenUp), [(at_us(72_100 + 1_400_000), 0)]);
    assert_eq!(serials(&lab.delivered()), [1]);
}

#[test]
fn a_serialised_retry_goes_ahead_of_what_waits_and_takes_its_time() {
    // Bad from 60 to 90 ms only: the first transmission of packet 0, at 72.1 ms, fails. Its retransmission is
    // due at 772.1 ms, while the eleventh of twelve packets is in service, until 793.1 ms.
    for (serialised, through, last) in [(false, 772_100, 12 * 72_100), (true, 865_200, 13 * 72_100)] {
        let errors = ErrorConfig {
            good: Distribution::Sequence(vec![Duration::from_millis(60), Duration::from_secs(3600)]),
            ..errors(0, 30, Some(ArqConfig { serialised, ..arq(2, ARQ_DELAY) }))
        };
        let mut lab = Lab::new(&studied_path(), Some(&errors));
        lab.burst(NOW, 12);
        lab.run();
        let delivered = lab.delivered();
        assert_eq!(serials(&delivered), (0..12).collect::<Vec<_>>());
        // In-order release delays the other packets until packet 0 is through.
        assert_eq!(delivered[0].0, at_us(through + 300_000));
        assert_eq!(delivered[11].0, at_us(last + 300_000));
    }
}

#[test]
fn serialisation_end_comes_before_retries_of_the_same_instant_and_both_before_the_queue() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    config.link.release = BufferRelease::Serialised;
    let errors = errors(50, 3_600_000, Some(arq(1, Duration::from_micros(72_100))));
    let mut lab = Lab::new(&config, Some(&errors));
    lab.burst(NOW, 3);
    lab.run_until(at_us(144_200));
    assert_eq!(
        lab.log.lines[4..],
        [
            (at_us(72_100), 0, Seen::Retry),
            (at_us(72_100), 1, Seen::Dequeued(1)),
            (at_us(144_200), 1, Seen::Retry),
            (at_us(144_200), 0, Seen::Dropped(DropCause::ArqGivenUp)),
            (at_us(144_200), 2, Seen::Dequeued(0)),
        ]
    );
}

#[test]
fn without_propagation_everything_follows_at_the_same_instant() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    config.link.delay = Duration::ZERO;
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 3);
    lab.run();
    let ends = [(at_us(72_100), 0), (at_us(144_200), 1), (at_us(216_300), 2)];
    assert_eq!(lab.delivered(), ends);
    assert_eq!(lab.dequeued(), [(NOW, 0), (at_us(72_100), 1), (at_us(144_200), 2)]);
}

#[test]
fn the_end_of_a_serialisation_wakes_only_those_who_wait_for_it() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    config.link.release = BufferRelease::Serialised;
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 1);
    assert_eq!(lab.path.next_wakeup(), Some(at_us(372_100)), "the packet's arrival");
    // The link is free again, although it was not woken.
    lab.burst(at_us(100_000), 1);
    assert_eq!(lab.dequeued(), [(NOW, 0), (at_us(100_000), 1)]);
    lab.burst(at_us(100_000), 1);
    assert_eq!(lab.path.next_wakeup(), Some(at_us(172_100)), "the room for the third");
    lab.run();
    assert_eq!(lab.dequeued()[2], (at_us(172_100), 2));
    assert_eq!(lab.delivered(), [(at_us(372_100), 0), (at_us(472_100), 1), (at_us(544_200), 2)]);
}

#[test]
fn arrival_at_the_instant_of_a_release_finds_the_room() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    config.queue.limit = QueueSize::Packets(1);
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 2);
    lab.burst(at_us(672_100), 1);
    assert!(lab.dropped(DropCause::QueueOverflow).is_empty());
    lab.burst(at_us(672_100), 1);
    assert_eq!(serials(&lab.dropped(DropCause::QueueOverflow)), [3]);
}

#[test]
fn a_late_wakeup_happens_at_the_times_that_were_due() {
    let mut config = studied_path();
    config.link.send_buffer = Bytes(576);
    let mut punctual = Lab::new(&config, None);
    punctual.burst(NOW, 3);
    punctual.run();
    let mut late = Lab::new(&config, None);
    late.burst(NOW, 3);
    late.path.handle_wakeup(at_us(9_000_000), &mut late.arena, &mut late.log);
    assert_eq!(late.dequeued(), punctual.dequeued());
    assert_eq!(late.path.next_wakeup(), None);
    assert!(late.path.poll_delivery(at_us(372_099), &late.arena).is_none());
    assert!(late.path.poll_delivery(at_us(372_100), &late.arena).is_some());
    assert_eq!(late.path.packets_inside(), 2);
}

/// A packet of 576 bytes is hit with probability 1 - (1 - 1e-4)^4608 = 0.369, one of 40 bytes with 0.0315.
#[test]
fn a_long_packet_has_more_bits_to_lose() {
    let rate = Some(Probability::new(1e-4).unwrap());
    let mut always = studied_path();
    always.link.bit_error_rate = rate;
    let in_bad_states =
        ErrorConfig { packet_error_probability: None, bit_error_rate: rate, ..errors(0, 1_000, None) };
    for (mut lab, what) in [
        (Lab::new(&always, None), "link.bit_error_rate"),
        (Lab::new(&studied_path(), Some(&in_bad_states)), "errors.bit_error_rate"),
    ] {
        for n in 0..8_000 {
            lab.send(at_us(1_000_000 * n), if n % 2 == 0 { 576 } else { 40 }, Ecn::NotEct);
        }
        lab.run();
        let hit = lab.dropped(DropCause::LinkError);
        let long = hit.iter().filter(|(_, serial)| serial % 2 == 0).count() as f64;
        let short = hit.len() as f64 - long;
        // Four standard deviations are 122 and 44.
        assert!((long - 4_000.0 * 0.3692).abs() < 122.0, "{what}: {long} long packets of 4000");
        assert!((short - 4_000.0 * 0.0315).abs() < 44.0, "{what}: {short} short packets of 4000");
    }
}

/// Each transmission of a packet of 576 bytes gets through with probability (1 - 1e-4)^4608 = 0.631, one of
/// 40 bytes with 0.968.
#[test]
fn arq_tries_a_packet_with_wrong_bits_again() {
    let rate = Some(Probability::new(1e-4).unwrap());
    let config = ErrorConfig {
        packet_error_probability: None,
        bit_error_rate: rate,
        ..errors(0, 1_000, Some(arq(2, ARQ_DELAY)))
    };
    let mut lab = Lab::new(&studied_path(), Some(&config));
    for n in 0..4_000 {
        lab.burst(at_us(4_000_000 * n), 1);
    }
    lab.run();
    let lost = lab.dropped(DropCause::ArqGivenUp).len() as f64;
    // 0.3692 to the third, and four standard deviations.
    assert!((lost - 4_000.0 * 0.0503).abs() < 56.0, "{lost}");
}

#[test]
fn directions_share_the_states_and_draw_hits_apart() {
    let lost = |probability, direction| {
        let length = |mean_ms| Distribution::Exponential {
            mean: Duration::from_millis(mean_ms),
            min: None,
            max: None,
            cut: Cut::Redraw,
        };
        let errors = ErrorConfig {
            start: Start::Good,
            good: length(2_000),
            bad: length(2_000),
            packet_error_probability: Some(Probability::new(probability).unwrap()),
            bit_error_rate: None,
            arq: None,
        };
        let mut lab = Lab::with(&studied_path(), Some(&errors), direction, SEED);
        for n in 0..200 {
            lab.burst(at_us(100_000 * n), 1);
        }
        lab.run();
        serials(&lab.dropped(DropCause::LinkError))
    };
    let all = lost(1.0, Direction::Down);
    assert!((50..150).contains(&all.len()), "{} of 200 lost", all.len());
    assert_eq!(all, lost(1.0, Direction::Up));
    let (half_down, half_up) = (lost(0.5, Direction::Down), lost(0.5, Direction::Up));
    assert_ne!(half_down, half_up);
    assert!(half_down.iter().chain(&half_up).all(|serial| all.contains(serial)));
}

/// Weight 1 makes the average the queue; min 1, max 3, probability 1: with two packets queued, `p_b` is 1/2,
/// and the second packet between the thresholds is dropped for sure.
fn red_lab(ecn: bool, limit: u32) -> Lab {
    let mut config = studied_path();
    config.queue.limit = QueueSize::Packets(limit);
    config.queue.discipline = DisciplineConfig::red(RedConfig { ecn, ..red(1, 3, 1.0, 1.0) });
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 18);
    assert_eq!(lab.path.queue_depth().packets, 2);
    lab
}

#[test]
fn red_drops_before_the_queue_is_full() {
    let mut lab = red_lab(false, 20);
    lab.send(NOW, 576, Ecn::Ect0);
    assert_eq!(lab.dropped(DropCause::Red), [(NOW, 18)]);
    assert!((lab.path.queue_depth().average - 2.0).abs() < 1e-12);
    assert_eq!(lab.path.queue_depth().packets, 2);
}

#[test]
fn red_marks_an_ecn_capable_packet_and_drops_above_the_upper_threshold() {
    let mut lab = red_lab(true, 20);
    lab.send(NOW, 576, Ecn::Ect0);
    lab.send(NOW, 576, Ecn::Ect0);
    assert_eq!(
        lab.log.lines[34..],
        [(NOW, 18, Seen::Marked), (NOW, 18, Seen::Enqueued(3)), (NOW, 19, Seen::Dropped(DropCause::Red)),]
    );
    let mut last = None;
    while let Some(due) = lab.path.next_wakeup() {
        lab.path.handle_wakeup(due, &mut lab.arena, &mut lab.log);
        last = lab.path.poll_delivery(due, &lab.arena).map(|id| lab.arena.get(id).clone()).or(last);
    }
    assert_eq!(last.map(|packet| (packet.serial, packet.ecn)), Some((18, Ecn::Ce)));
}

#[test]
fn a_marked_packet_can_still_meet_a_full_queue() {
    let mut lab = red_lab(true, 2);
    lab.send(NOW, 576, Ecn::Ect0);
    assert_eq!(
        lab.log.lines[34..],
        [(NOW, 18, Seen::Marked), (NOW, 18, Seen::Dropped(DropCause::QueueOverflow))]
    );
}

#[test]
fn red_is_asked_before_the_limit() {
    let mut lab = red_lab(false, 2);
    lab.send(NOW, 576, Ecn::NotEct);
    assert_eq!(lab.dropped(DropCause::Red), [(NOW, 18)]);
    assert!(lab.dropped(DropCause::QueueOverflow).is_empty());
}

/// The queue empties at 744.2 ms; 200 ms later two packets of 100 ms could have left it.
#[test]
fn red_average_decays_from_the_moment_the_queue_empties() {
    let mut config = studied_path();
    config.queue.discipline = DisciplineConfig::red(red(100, 200, 0.1, 0.5));
    let mut lab = Lab::new(&config, None);
    lab.burst(NOW, 18);
    lab.run_until(at_us(744_200));
    assert_eq!(lab.path.queue_depth().packets, 0);
    assert!((lab.path.queue_depth().average - 0.5).abs() < 1e-12, "one packet saw a queue of one");
    lab.burst(at_us(944_200), 1);
    assert!((lab.path.queue_depth().average - 0.125).abs() < 1e-12);
}
