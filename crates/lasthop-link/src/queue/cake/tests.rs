//! CAKE by hand: "Piece of CAKE", and the integers of `sch_cake`.

use lasthop_core::{Body, Duration, Ecn, Flags, Rate, SackBlock, SackList, Segment, Timestamps};

use super::cobalt::{Cobalt, CobaltParameters};
use super::*;
use crate::config::Framing;
use crate::testing::{Log, QueueLab, SEED, Seen, datagram, ms, outlet};

type Lab = QueueLab<Cake>;

const NONE: [u64; 0] = [];

fn config() -> CakeConfig {
    CakeConfig {
        rate: Some(Rate::from_bits_per_second(1_000_000)),
        tins: Tins::Besteffort,
        isolation: Isolation::TripleIsolate,
        ack_filter: AckFilter::Off,
        overhead: Framing::PerPacket(Bytes(0)),
        mpu: Bytes(0),
        rtt: Duration::from_millis(100),
    }
}

fn lab(config: CakeConfig, limit: u32) -> Lab {
    let limit = QueueSize::Packets(limit);
    QueueLab::new(Cake::new(config, limit, outlet(1_500).mtu, SEED.stream("red.down")))
}

/// A packet arrives; true if it is kept.
fn arrive(lab: &mut Lab, at_ms: u64, packet: Packet) -> bool {
    let id = lab.arena.insert(packet);
    let packets = &mut Packets { now: ms(at_ms), arena: &mut lab.arena, observer: &mut lab.log };
    lab.queue.enqueue(id, packets).is_some()
}

fn next(lab: &mut Lab, at: Instant) -> Result<Packet, Wait> {
    let packets = &mut Packets { now: at, arena: &mut lab.arena, observer: &mut lab.log };
    let Dequeued { id, .. } = lab.queue.dequeue(1_500, packets)?;
    let packet = lab.arena.get(id).clone();
    lab.arena.remove(id);
    Ok(packet)
}

/// Keeps packets of each kind in the queue, takes `count` as soon as they may leave, and returns how many of
/// each have left. The serial number identifies the kind.
fn saturated(lab: &mut Lab, kinds: &[Packet], count: u32) -> Vec<u32> {
    let mut left = vec![0; kinds.len()];
    for (serial, kind) in (0..).zip(kinds) {
        for _ in 0..20 {
            arrive(lab, 0, Packet { serial, ..kind.clone() });
        }
    }
    let mut now = Instant::ZERO;
    while left.iter().sum::<u32>() < count {
        match next(lab, now) {
            Ok(packet) => {
                left[packet.serial as usize] += 1;
                let at_ms = now.as_nanos() / 1_000_000;
                arrive(lab, at_ms, packet);
            }
            Err(Wait::Until(at)) => now = at,
            Err(wait) => panic!("{wait:?}"),
        }
    }
    left
}

fn of(flow: u32, dscp: &str) -> Packet {
    Packet { flow: FlowId(flow), dscp: dscp.parse().unwrap(), ..datagram(0, 1_500, Ecn::Ect0) }
}

#[test]
fn packets_leave_at_the_rate_and_a_pause_earns_nothing() {
    let mut lab = lab(config(), 100);
    for at_ms in [0, 100] {
        for _ in 0..3 {
            arrive(&mut lab, at_ms, datagram(0, 1_500, Ecn::NotEct));
        }
        for at in [0, 12, 24].map(|after| ms(at_ms + after)) {
            let early = Instant::from_nanos(at.as_nanos().saturating_sub(1));
            if at > ms(at_ms) {
                assert_eq!(next(&mut lab, early).map(|packet| packet.serial), Err(Wait::Until(at)));
            }
            assert!(next(&mut lab, at).is_ok());
        }
    }
    assert_eq!(next(&mut lab, ms(124)).map(|packet| packet.serial), Err(Wait::ARRIVAL));
}

/// A late packet does not delay those after it: times are counted on from the schedule.
#[test]
fn the_rate_is_kept_if_packets_leave_late() {
    let mut lab = lab(config(), 100);
    for _ in 0..3 {
        arrive(&mut lab, 0, datagram(0, 1_500, Ecn::NotEct));
    }
    assert!([0, 15, 24].iter().all(|at_ms| next(&mut lab, ms(*at_ms)).is_ok()));
}

#[test]
fn overhead_cells_and_the_least_length_count() {
    let bytes =
        |overhead, mpu, ip_bytes| CakeConfig { overhead, mpu: Bytes(mpu), ..config() }.bytes(ip_bytes);
    let ethernet = Framing::PerPacket(Bytes(38));
    assert_eq!(
        [bytes(ethernet, 0, 1_500), bytes(ethernet, 84, 40), bytes(ethernet, 84, 46)],
        [1_538, 84, 84]
    );
    // 16 bytes of LLC/SNAP and AAL5, cells of 53 bytes that carry 48.
    assert_eq!([bytes(Framing::Atm, 0, 40), bytes(Framing::Atm, 97, 40)], [2 * 53, 3 * 53]);
}

/// A byte at 1 Mbit/s takes 8 us: `cake_set_rate` halves 8000 * 2^34 until 34 bits are left.
#[test]
fn times_are_fractions_of_integers() {
    assert_eq!(Pace::new(125_000).time(1_500), Duration::from_millis(12));
    assert_eq!(Pace::new(3).time(1), Pace::new(64).time(1), "the least rate");
    // 1000 / 3 ns for each byte, rounded down.
    assert_eq!(Pace::new(3_000_000).time(1_000).as_nanos(), 333_333);
}

#[test]
fn code_points_have_the_tins_of_their_services() {
    let tins = |tins| {
        ["BE", "AF11", "CS1", "1", "CS2", "AF41", "CS4", "CS5", "44", "EF", "CS6", "CS7", "4"]
            .map(|dscp| tin_of(tins, dscp.parse().unwrap()))
    };
    assert_eq!(tins(Tins::Besteffort), [0; 13]);
    assert_eq!(tins(Tins::Diffserv3), [0, 0, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2, 2]);
    assert_eq!(tins(Tins::Diffserv4), [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 2]);
}

/// Each tin has its threshold: a quarter of the rate for voice, a half for video, a sixteenth for bulk. Best
/// effort has the rest. Without a rate they share as 16 : 1 : 8 : 4.
#[test]
fn tins_share_by_their_thresholds() {
    let kinds = [of(0, "BE"), of(1, "CS1"), of(2, "AF41"), of(3, "EF")];
    let shaped = CakeConfig { tins: Tins::Diffserv4, ..config() };
    let left = saturated(&mut lab(shaped, 1_000), &kinds, 1_600);
    for (left, due) in left.iter().zip([300_u32, 100, 800, 400]) {
        assert!(left.abs_diff(due) < 5, "{left} {due}");
    }
    let left = saturated(&mut lab(CakeConfig { rate: None, ..shaped }, 1_000), &kinds, 2_900);
    for (left, due) in left.iter().zip([1_600_u32, 100, 800, 400]) {
        assert!(left.abs_diff(due) < 15, "{left} {due}");
    }
}

#[test]
fn voice_goes_first_within_its_threshold() {
    let mut lab = lab(CakeConfig { tins: Tins::Diffserv3, ..config() }, 1_000);
    for (serial, dscp) in (0..).zip(["BE", "BE", "BE", "EF"]) {
        arrive(&mut lab, 0, Packet { serial, ..of(0, dscp) });
    }
    assert_eq!(lab.drain(0), [3, 0, 1, 2]);
}

/// Three downloads of one host, one of another.
#[test]
fn hosts_share_evenly_and_then_their_flows() {
    let kinds = [0, 1, 2, 3].map(|flow| of(flow, "BE"));
    let shares = |isolation| {
        let mut lab = lab(CakeConfig { isolation, ..config() }, 1_000);
        for flow in 0..4 {
            // The numbers of the servers come first.
            lab.queue.announce(FlowId(flow), [10 + flow, 1 + u32::from(flow == 3)]);
        }
        saturated(&mut lab, &kinds, 600)
    };
    let near = |left: &[u32], due: [u32; 4]| left.iter().zip(due).all(|(left, due)| left.abs_diff(due) < 9);
    for (isolation, due) in [
        (Isolation::TripleIsolate, [100, 100, 100, 300]),
        (Isolation::DualDsthost, [100, 100, 100, 300]),
        (Isolation::DualSrchost, [150; 4]),
        (Isolation::Flows, [150; 4]),
    ] {
        let left = shares(isolation);
        assert!(near(&left, due), "{isolation:?} {left:?}");
    }
}

#[test]
fn without_isolation_a_tin_is_a_fifo() {
    let mut lab = lab(CakeConfig { isolation: Isolation::None, ..config() }, 1_000);
    for serial in 0..6 {
        arrive(&mut lab, 0, Packet { serial, ..of(serial as u32 % 3, "BE") });
    }
    assert_eq!(lab.drain(0), [0, 1, 2, 3, 4, 5]);
}

/// DRR++: a flow that becomes active goes before those that have used their quantum, 300 bytes at this rate.
#[test]
fn a_sparse_flow_goes_before_the_busy_ones() {
    let mut lab = lab(config(), 100);
    for serial in 0..4 {
        arrive(&mut lab, 0, Packet { serial, ..of(0, "BE") });
    }
    assert_eq!([0, 12].map(|at_ms| lab.leave(at_ms, 1_500)), [Some(0), Some(1)]);
    arrive(&mut lab, 20, Packet { serial: 9, ip_bytes: 100, ..of(1, "BE") });
    assert_eq!(lab.drain(24), [9, 2, 3]);
}

/// Eight flows whose hashes have the same remainder have queues of their own; the ninth shares one.
#[test]
fn eight_flows_of_a_set_do_not_meet() {
    let times = (Duration::from_millis(5), Duration::from_millis(100));
    let mut tin = Tin::new(None, SHARE, [false; 2], times, 1_500);
    let mut stream = SEED.stream("red.down");
    let mut queue = |number: u32| {
        let queue = tin.queue_of(Hashes { flow: 8 + 1_024 * number + 3, hosts: [0; 2] });
        tin.activate(queue, &mut stream);
        queue
    };
    assert_eq!((0..9).map(&mut queue).collect::<Vec<_>>(), [11, 12, 13, 14, 15, 8, 9, 10, 11]);
    assert_eq!(queue(5), 8, "it keeps its queue");
}

/// Packets that have waited for a second leave every millisecond; the times at which one is dropped.
fn drops(cobalt: &mut Cobalt, times: std::ops::Range<u64>, waited_ms: u64, ecn: Ecn) -> Vec<u64> {
    let with = parameters();
    let mut random = SEED.stream("red.down");
    let mut arena = lasthop_core::PacketArena::default();
    let mut log = Log::default();
    let mut is_dropped = |at_ms: &u64| {
        let id = arena.insert(datagram(*at_ms, 1_500, ecn));
        let since = ms(at_ms - waited_ms);
        let packets = &mut Packets { now: ms(*at_ms), arena: &mut arena, observer: &mut log };
        cobalt.drops(&with, Waiting { id, ip_bytes: 1_500, since }, &mut random, packets)
    };
    let dropped = times.filter(|at_ms| is_dropped(at_ms)).collect();
    if ecn == Ecn::NotEct { dropped } else { log.lines.iter().map(|line| line.1).collect() }
}

fn parameters() -> CobaltParameters {
    CobaltParameters::new(
        Duration::from_millis(5),
        Duration::from_millis(100),
        Some(Pace::new(12_500_000)),
        1_500,
    )
}

/// 100 ms divided by the roots of 2, 3, 4 and 5 are 70.7, 57.7, 50 and 44.7 ms. The first drop comes at once.
#[test]
fn drops_and_marks_come_at_increasing_frequency() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let dropped = drops(&mut Cobalt::default(), 2_000..2_250, 1_000, ecn);
        assert_eq!(dropped, [2_001, 2_071, 2_129, 2_179, 2_224]);
    }
}

/// After the delay has become short, the count falls with the drops that would have been due, so that it goes
/// on from there when the delay is long again.
#[test]
fn the_frequency_falls_as_it_has_risen() {
    let mut cobalt = Cobalt::default();
    drops(&mut cobalt, 2_000..2_230, 1_000, Ecn::NotEct);
    assert_eq!(cobalt.count, 6);
    // 40.8 ms after the last drop the next was due, and then 44.7 and 50 ms.
    assert_eq!(drops(&mut cobalt, 2_230..2_330, 1, Ecn::NotEct), NONE);
    assert_eq!(cobalt.count, 4);
    assert!(!cobalt.rests(ms(2_330)));
    drops(&mut cobalt, 2_330..4_000, 1, Ecn::NotEct);
    assert_eq!(cobalt.count, 0);
}

/// A queue may hold one and a half packets at least, of 120 ms here, however slow it is (`cake_set_rate`).
#[test]
fn a_slow_tin_is_allowed_a_packet_and_a_half() {
    let with = CobaltParameters::new(
        Duration::from_millis(5),
        Duration::from_millis(100),
        Some(Pace::new(12_500)),
        1_500,
    );
    assert_eq!((with.target, with.interval), (Duration::from_millis(180), Duration::from_millis(360)));
}

/// BLUE: 1/256 more for each target in which the queue overflows, 1/4096 less for each in which it is empty.
#[test]
fn blue_learns_from_overflows_and_empty_queues() {
    let (with, mut cobalt) = (parameters(), Cobalt::default());
    for at_ms in [10, 12, 14, 16, 22] {
        cobalt.note_full(&with, ms(at_ms));
    }
    assert_eq!(cobalt.probability, 3 << 24, "those at 10, 16 and 22 ms");
    cobalt.note_empty(&with, ms(30));
    cobalt.note_empty(&with, ms(31));
    assert_eq!(cobalt.probability, (3 << 24) - (1 << 20));
    // Of 2560 packets that do not wait, about 30 are dropped.
    let dropped = drops(&mut cobalt, 2_000..4_560, 0, Ecn::Ect0).len()
        + drops(&mut cobalt, 2_000..4_560, 0, Ecn::NotEct).len();
    assert!((15..50).contains(&dropped), "{dropped}");
}

#[test]
fn a_full_queue_drops_the_head_of_the_longest_flow() {
    let mut lab = lab(config(), 6);
    for serial in 0..4 {
        arrive(&mut lab, 0, Packet { serial, ..of(1, "BE") });
    }
    for serial in 4..8 {
        arrive(&mut lab, 0, Packet { serial, ip_bytes: 100, ..of(2, "BE") });
    }
    assert_eq!(lab.met(Seen::Dropped(DropCause::LongestFlow)), [(0, 0), (0, 1)]);
    assert_eq!((lab.queue.depth().packets, lab.queue.depth().bytes), (6, 3_400));
}

fn ack(number: u64, flags: Flags, blocks: &[[u64; 2]]) -> Packet {
    let mut sack = SackList::default();
    for &[start, end] in blocks {
        sack.push(SackBlock { start, end });
    }
    let timestamps = Some(Timestamps { value: number as u32, echo: 1 });
    let segment =
        Segment { ack: number, flags: Flags::ACK.with(flags), sack, timestamps, ..Segment::default() };
    Packet { serial: number, ip_bytes: 52, body: Body::Tcp(segment), ..datagram(0, 52, Ecn::NotEct) }
}

/// The ACKs that the filter drops.
fn filtered(ack_filter: AckFilter, acks: &[Packet]) -> Vec<u64> {
    let mut lab = lab(CakeConfig { ack_filter, ..config() }, 100);
    for packet in acks {
        assert!(arrive(&mut lab, 0, packet.clone()));
    }
    let dropped = lab.met(Seen::Dropped(DropCause::AckFilter));
    assert_eq!(lab.queue.depth().packets as usize, acks.len() - dropped.len());
    dropped.iter().map(|(_, serial)| *serial).collect()
}

#[test]
fn of_superfluous_acks_two_stay_or_if_asked_for_one() {
    let plain = [1_u64, 2, 3, 4].map(|number| ack(number, Flags::default(), &[]));
    assert_eq!(filtered(AckFilter::Off, &plain), NONE);
    assert_eq!(filtered(AckFilter::On, &plain), [1, 2]);
    assert_eq!(filtered(AckFilter::Aggressive, &plain), [1, 2, 3]);
}

#[test]
fn acks_that_say_something_of_their_own_stay() {
    let none = Flags::default();
    let all = |acks: &[Packet]| filtered(AckFilter::Aggressive, acks);
    assert_eq!(all(&[ack(1, none, &[]), ack(1, none, &[])]), NONE, "a duplicate ACK");
    let news = |number, end| ack(number, none, &[[5, end]]);
    assert_eq!(all(&[news(1, 6), news(1, 7)]), [1], "selects more");
    assert_eq!(all(&[news(1, 7), news(2, 6)]), NONE, "selects less");
    assert_eq!(all(&[ack(1, none, &[[0, 1]]), ack(2, none, &[])]), NONE, "reports a duplicate");
    assert_eq!(all(&[ack(2, none, &[]), ack(1, none, &[])]), NONE, "in disorder");
    assert_eq!(all(&[ack(1, Flags::FIN, &[]), ack(2, none, &[])]), NONE, "has another flag");
    let other = Packet { flow: FlowId(7), ..ack(2, none, &[]) };
    assert_eq!(all(&[ack(1, none, &[]), other]), NONE, "of another flow");
    let mut data = ack(1, none, &[]);
    if let Body::Tcp(segment) = &mut data.body {
        segment.payload_bytes = 10;
    }
    assert_eq!(all(&[data, ack(2, none, &[])]), NONE, "with data");
}

/// The last ACK with each state of ECN's flags stays.
#[test]
fn changes_of_ecn_feedback_stay() {
    let flags = [Flags::default(), Flags::ECE, Flags::ECE, Flags::CWR];
    let acks: Vec<_> = (1..).zip(flags).map(|(number, flags)| ack(number, flags, &[])).collect();
    assert_eq!(filtered(AckFilter::Aggressive, &acks), [2]);
}
