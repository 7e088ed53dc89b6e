//! A path with an owner that records what happens, for tests.

use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{
    Body, Bytes, Datagram, Direction, Distribution, DropCause, Dscp, Duration, Ecn, FlowId, Instant,
    Observer, Packet, PacketArena, PacketEvent, Place, QueueDepth, Rate, Seed,
};

use crate::config::{
    ArqConfig, BufferRelease, ErrorConfig, LinkChange, LinkConfig, PathConfig, QueueConfig, RedConfig, Start,
    StateLookup,
};
use crate::discipline::{Outlet, Packets};
use crate::path::Path;

const MTU: Bytes = Bytes(576);

pub(crate) const SEED: Seed = Seed { study: 1, replication: 1 };

/// A packet on its way down.
pub(crate) fn datagram(serial: u64, ip_bytes: u32, ecn: Ecn) -> Packet {
    Packet {
        serial,
        flow: FlowId(0),
        direction: Direction::Down,
        ip_bytes,
        ecn,
        is_copy: false,
        place: Place::default(),
        queued_at: Instant::MAX,
        dscp: Dscp::default(),
        server_port: 30_001,
        body: Body::Udp(Datagram::default()),
    }
}

/// The link of kulve2003: 64 kbit/s, 300 ms, 20 packets, 9600 bytes; 72.1 ms per packet of 576 bytes.
pub(crate) fn studied_path() -> PathConfig {
    PathConfig {
        policer: None,
        blackhole: None,
        queue: drop_tail(20),
        htb: None,
        grant: None,
        link: LinkConfig {
            rate: Rate::from_bits_per_second(64_000),
            trace: None,
            course: None,
            framing: None,
            header_compression: None,
            delay: Duration::from_millis(300),
            change: Vec::new(),
            overhead: Distribution::Static(Duration::from_micros(100)),
            send_buffer: Bytes(9600),
            receive_buffer: None,
            release: BufferRelease::Acknowledged,
            loss: None,
            bit_error_rate: None,
            gilbert_elliott: None,
            error_model: None,
            errors: None,
            jitter: None,
            reorder: false,
            slots: None,
            corrupt: None,
            duplicate: None,
        },
    }
}

pub(crate) fn drop_tail(packets: u32) -> QueueConfig {
    QueueConfig::drop_tail(QueueSize::Packets(packets))
}

pub(crate) fn red(min: u32, max: u32, max_probability: f64, weight: f64) -> RedConfig {
    RedConfig {
        min: QueueSize::Packets(min),
        max: QueueSize::Packets(max),
        max_probability: Probability::new(max_probability).unwrap(),
        weight: Probability::new(weight).unwrap(),
        idle_packet_time: Some(Duration::from_millis(100)),
        avpkt: None,
        ecn: false,
        harddrop: true,
        gentle: false,
        adaptive: false,
    }
}

/// Good and bad states of fixed lengths; every try in a bad state is hit.
pub(crate) fn errors(good_ms: u64, bad_ms: u64, arq: Option<ArqConfig>) -> ErrorConfig {
    ErrorConfig {
        start: Start::Good,
        good: Distribution::Static(Duration::from_millis(good_ms)),
        bad: Distribution::Static(Duration::from_millis(bad_ms)),
        packet_error_probability: Some(Probability::ONE),
        bit_error_rate: None,
        arq,
    }
}

pub(crate) fn arq(retransmissions: u32, delay: Duration) -> ArqConfig {
    ArqConfig { retransmissions, delay, serialised: false, state_lookup: StateLookup::EachTry }
}

/// A rate in bit/s and a delay in milliseconds, from this time in milliseconds on.
pub(crate) fn change((at_ms, (rate, delay_ms)): (u64, (u64, u64))) -> LinkChange {
    LinkChange {
        at: Duration::from_millis(at_ms),
        rate: Some(Rate::from_bits_per_second(rate)),
        delay: Some(Duration::from_millis(delay_ms)),
    }
}

pub(crate) fn at_us(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// An event of a packet. It excludes RED's average, which is NaN without RED, so that it is comparable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    Marked,
    Enqueued(u32),
    Dequeued(u32),
    Retry,
    Dropped(DropCause),
    Delivered,
    Duplicated,
}

/// One line of the log: time, serial number of the packet, event.
pub(crate) type Line = (Instant, u64, Seen);

/// All events in the order in which they were reported.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) lines: Vec<Line>,
    /// Router queue after the last event that changed it.
    pub(crate) last_depth: QueueDepth,
}

impl Observer for Log {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let seen = match event {
            PacketEvent::Marked => Seen::Marked,
            PacketEvent::Enqueued(depth) => {
                self.last_depth = depth;
                Seen::Enqueued(depth.packets)
            }
            PacketEvent::Dequeued(depth) => {
                self.last_depth = depth;
                Seen::Dequeued(depth.packets)
            }
            PacketEvent::LinkRetry => Seen::Retry,
            PacketEvent::Dropped(cause) => Seen::Dropped(cause),
            PacketEvent::Delivered => Seen::Delivered,
            PacketEvent::Duplicated => Seen::Duplicated,
            PacketEvent::Sent | PacketEvent::Forwarded => panic!("the owner's event"),
        };
        self.lines.push((now, packet.serial, seen));
    }
}

/// Owns a path as the engine does: wakeups first, then deliveries, then arrivals of the same instant.
pub(crate) struct Lab {
    pub(crate) path: Path,
    pub(crate) arena: PacketArena,
    pub(crate) log: Log,
    pub(crate) sent: u64,
    pub(crate) most_buffered: u64,
}

impl Lab {
    pub(crate) fn new(config: &PathConfig, errors: Option<&ErrorConfig>) -> Self {
        Self::with(config, errors, Direction::Down, SEED)
    }

    pub(crate) fn with(
        config: &PathConfig,
        errors: Option<&ErrorConfig>,
        direction: Direction,
        seed: Seed,
    ) -> Self {
        Self {
            path: Path::new(config, MTU, errors, direction, seed),
            arena: PacketArena::default(),
            log: Log::default(),
            sent: 0,
            most_buffered: 0,
        }
    }

    /// A packet of `ip_bytes` arrives at `at`; serial numbers count from 0.
    pub(crate) fn send(&mut self, at: Instant, ip_bytes: u32, ecn: Ecn) {
        self.send_to(at, ip_bytes, ecn, 30_001);
    }

    /// The same, of the flow with the server's port `server_port`.
    pub(crate) fn send_to(&mut self, at: Instant, ip_bytes: u32, ecn: Ecn, server_port: u16) {
        self.send_packet(at, Packet { server_port, ..datagram(0, ip_bytes, ecn) });
    }

    /// The same, of any packet.
    pub(crate) fn send_packet(&mut self, at: Instant, packet: Packet) {
        self.run_until(at);
        let packet = Packet { serial: self.sent, ..packet };
        self.sent += 1;
        let id = self.arena.insert(packet);
        self.path.handle_packet(at, id, &mut self.arena, &mut self.log);
        self.look();
    }

    /// `count` packets of 576 bytes arrive at `at`.
    pub(crate) fn burst(&mut self, at: Instant, count: u32) {
        for _ in 0..count {
            self.send(at, 576, Ecn::NotEct);
        }
    }

    /// Everything due at or before `until`.
    pub(crate) fn run_until(&mut self, until: Instant) {
        while let Some(due) = self.path.next_wakeup().filter(|due| *due <= until) {
            self.path.handle_wakeup(due, &mut self.arena, &mut self.log);
            self.look();
            while let Some(id) = self.path.poll_delivery(due, &self.arena) {
                let packet = self.arena.get(id);
                self.log.packet(due, PacketEvent::arrival_of(packet), packet);
                self.arena.remove(id);
            }
        }
    }

    /// Handles everything until the path is idle.
    pub(crate) fn run(&mut self) {
        self.run_until(Instant::MAX);
    }

    /// Times and serial numbers of the lines that `wanted` selects.
    pub(crate) fn when(&self, wanted: impl Fn(Seen) -> bool) -> Vec<(Instant, u64)> {
        self.log.lines.iter().filter(|line| wanted(line.2)).map(|line| (line.0, line.1)).collect()
    }

    pub(crate) fn delivered(&self) -> Vec<(Instant, u64)> {
        self.when(|seen| seen == Seen::Delivered)
    }

    pub(crate) fn dropped(&self, cause: DropCause) -> Vec<(Instant, u64)> {
        self.when(|seen| seen == Seen::Dropped(cause))
    }

    pub(crate) fn dequeued(&self) -> Vec<(Instant, u64)> {
        self.when(|seen| matches!(seen, Seen::Dequeued(_)))
    }

    fn look(&mut self) {
        self.most_buffered = self.most_buffered.max(self.path.send_buffer_bytes());
    }
}

/// A queue discipline alone, with an owner that records what happens.
pub(crate) struct QueueLab<D> {
    pub(crate) queue: D,
    pub(crate) arena: PacketArena,
    pub(crate) log: Log,
    sent: u64,
}

/// This number of milliseconds after the start.
pub(crate) fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A link of 1 Mbit/s.
pub(crate) fn outlet(mtu: u64) -> Outlet {
    Outlet { rate: Rate::from_bits_per_second(1_000_000), framing: None, mtu: Bytes(mtu) }
}

impl<D: crate::discipline::Discipline> QueueLab<D> {
    pub(crate) fn new(queue: D) -> Self {
        Self { queue, arena: PacketArena::default(), log: Log::default(), sent: 0 }
    }

    /// This number of packets of one flow; serial numbers count from 0.
    pub(crate) fn arrive(&mut self, at_ms: u64, count: u32, ip_bytes: u32, ecn: Ecn) {
        self.arrive_of(FlowId(0), at_ms, count, ip_bytes, ecn);
    }

    pub(crate) fn arrive_of(&mut self, flow: FlowId, at_ms: u64, count: u32, ip_bytes: u32, ecn: Ecn) {
        for _ in 0..count {
            let id = self.arena.insert(Packet { flow, ..datagram(self.sent, ip_bytes, ecn) });
            self.sent += 1;
            let packets = &mut Packets { now: ms(at_ms), arena: &mut self.arena, observer: &mut self.log };
            self.queue.enqueue(id, packets);
        }
    }

    /// The serial number of the packet that leaves, if any.
    pub(crate) fn leave(&mut self, at_ms: u64, room: u64) -> Option<u64> {
        self.leave_whole(at_ms, room).map(|packet| packet.serial)
    }

    /// The packet that leaves, if any.
    pub(crate) fn leave_whole(&mut self, at_ms: u64, room: u64) -> Option<Packet> {
        let packets = &mut Packets { now: ms(at_ms), arena: &mut self.arena, observer: &mut self.log };
        let left = self.queue.dequeue(room, packets).ok()?;
        let packet = self.arena.get(left.id).clone();
        self.arena.remove(left.id);
        Some(packet)
    }

    /// Removes one packet every 12 ms, the time of 1500 bytes at 1 Mbit/s, until there are none. Returns the
    /// packets.
    pub(crate) fn drain(&mut self, from_ms: u64) -> Vec<u64> {
        let times = (from_ms..).step_by(12);
        times.map_while(|at_ms| self.leave(at_ms, 1_500)).collect()
    }

    /// Times and packets of this event so far.
    pub(crate) fn met(&mut self, what: Seen) -> Vec<(u64, u64)> {
        let lines = std::mem::take(&mut self.log.lines).into_iter();
        let met = lines.filter(|line| line.2 == what);
        met.map(|(at, serial, _)| (at.as_nanos() / 1_000_000, serial)).collect()
    }
}
