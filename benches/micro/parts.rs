//! What one packet costs in each part: `cargo bench`.
//!
//! Rates are of packets, ACKs or events; divan shows the fastest, slowest, median and mean of its samples.

use divan::{Bencher, counter::ItemsCount};
use lasthop_core::{
    Body, Datagram, Direction, Dscp, Duration, Ecn, FlowId, FlowInfo, Host, Instant, Observer, Packet,
    PacketArena, PacketEvent, Seed, Segment, TransportEvent,
};
use lasthop_link::Path;
use lasthop_micro::scenario;
use lasthop_scenario::Scenario;
use lasthop_sim::agenda::{Agenda, FIRST_APPLICATION, NETWORK};
use lasthop_sim::{HostMemory, run};
use lasthop_tcp::{Endpoint, TickClock};
use lasthop_trace::Analysis;

fn main() {
    divan::main();
}

const SEED: Seed = Seed { study: 1, replication: 1 };
const PACKETS: u64 = 10_000;

/// A router with this queue in front of 10 Mbit/s, and a flow to make it a scenario.
fn router(down: &str) -> Scenario {
    scenario(&format!(
        "[down]\nlink = {{ rate = \"10 Mbit/s\", delay = \"10 ms\" }}\n{down}\n[[flow]]\n\
         kind = \"bulk-tcp\"\nbytes = \"1 MB\"\n"
    ))
}

/// Packets arrive half as fast again as they can leave.
fn offer(scenario: &Scenario) -> usize {
    let down = scenario.down.as_ref().expect("a last hop");
    let mut path = Path::new(down, scenario.mtu, None, Direction::Down, SEED);
    let mut arena = PacketArena::default();
    let mut now = Instant::ZERO;
    let mut delivered = 0;
    for serial in 0..PACKETS {
        now += Duration::from_micros(800);
        while let Some(due) = path.next_wakeup().filter(|due| *due <= now) {
            path.handle_wakeup(due, &mut arena, &mut ());
            while let Some(id) = path.poll_delivery(due, &arena) {
                arena.remove(id);
                delivered += 1;
            }
        }
        let body = Body::Udp(Datagram { number: serial, payload_bytes: 1472 });
        let packet = Packet {
            serial,
            flow: FlowId(0),
            direction: Direction::Down,
            ip_bytes: 1500,
            ecn: Ecn::NotEct,
            is_copy: false,
            place: lasthop_core::Place::default(),
            dscp: Dscp::default(),
            server_port: 0,
            queued_at: Instant::MAX,
            body,
        };
        let id = arena.insert(packet);
        path.handle_packet(now, id, &mut arena, &mut ());
    }
    delivered
}

#[divan::bench(args = [
    "queue.limit = \"100 packets\"",
    "queue = { limit = \"100 packets\", red = { min = \"20 packets\", max = \"60 packets\", \
     max_probability = 0.1, weight = 0.002, avpkt = \"1500 B\" } }",
    "queue = { limit = \"100 packets\", discipline = \"codel\" }",
])]
fn packet_through_a_queue(bencher: Bencher, queue: &str) {
    let scenario = router(queue);
    bencher.counter(ItemsCount::new(PACKETS)).bench(|| offer(&scenario));
}

const MTU: u32 = 1500;

/// A sender with `outstanding` segments on the way, and the ACKs that come if every `1 / holes`th of them is
/// lost.
fn flight(outstanding: usize, holes: usize) -> (Endpoint, Vec<Segment>, Instant) {
    let scenario = scenario(
        "[down.link]\nrate = \"10 Gbit/s\"\ndelay = \"50 ms\"\n[tcp]\nprofile = \"linux-6\"\n\
         congestion_control = \"reno\"\nreceive_window_initial = 200000\nreceive_window_max = 200000\n\
         [[flow]]\nkind = \"bulk-tcp\"\nbytes = \"10 GB\"\n",
    );
    let clock = TickClock::new(scenario.tcp.tick, Duration::ZERO);
    let mut server = Endpoint::listen(scenario.tcp.clone(), MTU, clock, FlowId(0), Host::Server);
    let mut client = Endpoint::listen(scenario.tcp.clone(), MTU, clock, FlowId(0), Host::Client);
    let mut now = Instant::ZERO;
    server.open(now, &mut ());
    client.open(now, &mut ());
    let mss = u64::from(server.mss());
    server.write(now, 10_000_000_000, mss, &mut ());
    loop {
        let mut sent = Vec::new();
        let mut segment = Segment::default();
        while server.poll_transmit(now, &mut segment).is_some() {
            sent.push(segment);
        }
        now += Duration::from_millis(100);
        let is_full = sent.len() >= outstanding;
        let mut acks = Vec::new();
        for (index, arrived) in sent.iter().enumerate() {
            let lost = is_full && holes > 0 && index % (sent.len() / holes).max(2) == 0;
            if !lost {
                client.handle_segment(now, arrived, Ecn::NotEct, None, &mut ());
                while client.poll_transmit(now, &mut segment).is_some() {
                    acks.push(segment);
                }
            }
        }
        if is_full {
            return (server, acks, now);
        }
        for ack in &acks {
            server.handle_segment(now, ack, Ecn::NotEct, None, &mut ());
        }
    }
}

/// 10 000 segments are on the way, or two for each hole: the ACKs of those that arrive come.
#[divan::bench(args = [0, 1, 100, 5_000, 10_000])]
fn ack_with_holes(bencher: Bencher, holes: usize) {
    let count = |(_, acks, _): &(Endpoint, Vec<Segment>, Instant)| ItemsCount::new(acks.len());
    let outstanding = (2 * holes).max(10_000);
    bencher.with_inputs(|| flight(outstanding, holes)).input_counter(count).bench_values(
        |(mut server, acks, now)| {
            let mut segment = Segment::default();
            for ack in &acks {
                server.handle_segment(now, ack, Ecn::NotEct, None, &mut ());
                while server.poll_transmit(now, &mut segment).is_some() {}
            }
            server
        },
    );
}

/// A link and so many timers, which go on and on: every second event is the link's.
#[divan::bench(args = [1, 100, 10_000])]
fn event_of_the_agenda(bencher: Bencher, timers: u32) {
    let mut agenda = Agenda::new(timers);
    for timer in 0..timers {
        agenda.schedule(FIRST_APPLICATION + timer, Some(Instant::from_nanos(u64::from(timer) * 2)));
    }
    let mut network = Instant::from_nanos(1);
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for _ in 0..PACKETS {
            let (now, component) = agenda.pop(network).expect("they go on");
            if component == NETWORK {
                network = now + Duration::from_nanos(2);
            } else {
                agenda.schedule(component, Some(now + Duration::from_nanos(2 * u64::from(timers))));
            }
        }
    });
}

/// What the analysis is told of a run.
enum Seen {
    Packet(Instant, PacketEvent, Packet),
    Transport(Instant, FlowId, Host, TransportEvent),
    Written(Instant, FlowId, Host, u64),
}

#[derive(Default)]
struct Recording {
    flows: Vec<FlowInfo>,
    seen: Vec<Seen>,
}

impl Observer for Recording {
    fn announce(&mut self, info: &FlowInfo) {
        self.flows.push(info.clone());
    }

    fn written(&mut self, now: Instant, flow: FlowId, host: Host, bytes: u64) {
        self.seen.push(Seen::Written(now, flow, host, bytes));
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.seen.push(Seen::Packet(now, event, packet.clone()));
    }

    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.seen.push(Seen::Transport(now, flow, host, event));
    }
}

impl Recording {
    fn replay(&self, observer: &mut impl Observer) {
        self.flows.iter().for_each(|info| observer.announce(info));
        for seen in &self.seen {
            match seen {
                Seen::Packet(now, event, packet) => observer.packet(*now, *event, packet),
                Seen::Transport(now, flow, host, event) => observer.transport(*now, *flow, *host, *event),
                Seen::Written(now, flow, host, bytes) => observer.written(*now, *flow, *host, *bytes),
            }
        }
    }
}

/// A transfer of 10 MB over 10 Mbit/s, with the losses of its slow start.
#[divan::bench]
fn event_analysed(bencher: Bencher) {
    let scenario = scenario(
        "[down]\nlink = { rate = \"10 Mbit/s\", delay = \"10 ms\" }\nqueue.limit = \"20 packets\"\n\
         [[flow]]\nkind = \"bulk-tcp\"\nbytes = \"10 MB\"\n",
    );
    let mut recording = Recording::default();
    let end = run(&scenario, SEED, &mut HostMemory::default(), &mut recording);
    bencher.counter(ItemsCount::new(recording.seen.len())).bench_local(|| {
        let mut analysis = Analysis::of(&scenario);
        recording.replay(&mut analysis);
        analysis.finish(end.time)
    });
}
