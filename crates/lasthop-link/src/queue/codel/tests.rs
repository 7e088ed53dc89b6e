//! The pseudocode of RFC 8289 by hand: packets of 1500 bytes, of which the link takes one every 12 ms (1 Mbit/s).

use lasthop_core::units::QueueSize;
use lasthop_core::{PacketArena, Rate};

use super::*;
use crate::discipline::Outlet;
use crate::testing::{Log, Seen, datagram};

const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);

struct Lab {
    codel: CoDel,
    arena: PacketArena,
    log: Log,
    sent: u64,
}

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

impl Lab {
    fn new(ecn: bool, mtu: u64) -> Self {
        let outlet = Outlet { rate: Rate::from_bits_per_second(1_000_000), mtu: Bytes(mtu) };
        let queue = DropTail::new(QueueSize::Packets(60), outlet);
        let config = CoDelConfig { target: TARGET, interval: INTERVAL, ecn };
        let codel = CoDel::new(config, outlet.mtu, queue);
        Self { codel, arena: PacketArena::default(), log: Log::default(), sent: 0 }
    }

    fn arrive(&mut self, at_ms: u64, count: u32, ip_bytes: u32, ecn: Ecn) {
        for _ in 0..count {
            let id = self.arena.insert(datagram(self.sent, ip_bytes, ecn));
            self.sent += 1;
            let packets = &mut Packets { arena: &mut self.arena, observer: &mut self.log };
            self.codel.enqueue(ms(at_ms), id, packets);
        }
    }

    /// The serial number of the packet that leaves, if one does.
    fn leave(&mut self, at_ms: u64, room: u64) -> Option<u64> {
        let packets = &mut Packets { arena: &mut self.arena, observer: &mut self.log };
        let left = self.codel.dequeue(ms(at_ms), room, packets).ok()?;
        let serial = self.arena.get(left.id).serial;
        self.arena.remove(left.id);
        Some(serial)
    }

    /// One packet every 12 ms as long as there are any.
    fn drain(&mut self, from_ms: u64) {
        let mut at_ms = from_ms;
        while self.leave(at_ms, 1_500).is_some() {
            at_ms += 12;
        }
    }

    /// When which packets met this.
    fn met(&mut self, what: Seen) -> Vec<(u64, u64)> {
        let lines = std::mem::take(&mut self.log.lines).into_iter();
        let met = lines.filter(|line| line.2 == what);
        met.map(|(at, serial, _)| (at.as_nanos() / 1_000_000, serial)).collect()
    }
}

const DROPPED: Seen = Seen::Dropped(DropCause::CoDel);

/// Above the target from 12 ms on, so the first drop is at the first packet from 112 ms on; the next ones follow after
/// 100 ms, and 100 ms over the roots of 2, 3, 4 ... The last packet is never dropped.
#[test]
fn a_standing_queue_is_hit_ever_more_often() {
    let mut lab = Lab::new(false, 1_500);
    lab.arrive(0, 60, 1_500, Ecn::Ect0);
    lab.drain(0);
    let drops =
        [(120, 10), (228, 20), (300, 27), (360, 33), (408, 38), (444, 42), (492, 47), (528, 51), (564, 55)];
    assert_eq!(lab.met(DROPPED), drops);
}

#[test]
fn with_ecn_it_marks_what_it_can_and_delivers_it() {
    let mut lab = Lab::new(true, 1_500);
    lab.arrive(0, 60, 1_500, Ecn::Ect0);
    lab.drain(0);
    assert!(lab.log.lines.iter().all(|line| line.2 == Seen::Marked));
    assert_eq!(lab.met(Seen::Marked)[..5], [(120, 10), (228, 19), (300, 25), (360, 30), (408, 34)]);
    let mut lab = Lab::new(true, 1_500);
    lab.arrive(0, 60, 1_500, Ecn::NotEct);
    lab.drain(0);
    assert_eq!(lab.met(DROPPED)[..2], [(120, 10), (228, 20)]);
}

/// The rate of drops that controlled the queue the last time, 8 after the first, is where the next time begins, if that
/// is within 16 intervals.
#[test]
fn the_rate_of_drops_is_remembered_for_a_while() {
    for (again_ms, drops) in [(700, [820, 856]), (3_000, [3_120, 3_228])] {
        let mut lab = Lab::new(false, 1_500);
        lab.arrive(0, 60, 1_500, Ecn::NotEct);
        lab.drain(0);
        lab.log.lines.clear();
        lab.arrive(again_ms, 60, 1_500, Ecn::NotEct);
        lab.drain(again_ms);
        let times: Vec<_> = lab.met(DROPPED).into_iter().map(|(at_ms, _)| at_ms).collect();
        assert_eq!(times[..2], drops);
    }
}

#[test]
fn a_queue_that_was_empty_in_between_is_no_standing_queue() {
    let mut lab = Lab::new(false, 1_500);
    for start_ms in [0, 90, 180] {
        lab.arrive(start_ms, 7, 1_500, Ecn::NotEct);
        lab.drain(start_ms);
    }
    assert_eq!((lab.met(DROPPED), lab.arena.len()), (Vec::new(), 0));
}

#[test]
fn less_than_a_packet_more_is_no_standing_queue_however_long_it_waits() {
    let mut lab = Lab::new(false, 1_500);
    lab.arrive(0, 1, 1_500, Ecn::NotEct);
    for second in 1..20 {
        lab.arrive(1_000 * (second - 1), 1, 1_500, Ecn::NotEct);
        assert_eq!(lab.leave(1_000 * second, 1_500), Some(second - 1));
    }
    assert_eq!(lab.met(DROPPED), []);
}

#[test]
fn a_packet_that_is_longer_than_the_dropped_one_waits_for_room() {
    let mut lab = Lab::new(false, 100);
    lab.arrive(0, 3, 100, Ecn::NotEct);
    lab.arrive(0, 3, 1_500, Ecn::NotEct);
    assert_eq!([lab.leave(0, 100), lab.leave(10, 100)], [Some(0), Some(1)]);
    assert_eq!(lab.leave(110, 99), None);
    assert_eq!(lab.leave(110, 200), None);
    assert_eq!((lab.met(DROPPED), lab.codel.depth().packets), (vec![(110, 2)], 3));
    assert_eq!((lab.leave(111, 1_499), lab.leave(500, 1_500)), (None, Some(3)));
    assert_eq!((lab.met(DROPPED), lab.codel.depth().bytes), (Vec::new(), 3_000));
}

#[test]
fn the_limit_drops_at_the_tail() {
    let mut lab = Lab::new(false, 1_500);
    lab.arrive(0, 62, 1_500, Ecn::NotEct);
    assert_eq!(lab.met(Seen::Dropped(DropCause::QueueOverflow)), [(0, 60), (0, 61)]);
}
