//! What one packet costs in each part: `cargo bench`.
//!
//! Times are per packet or ACK; divan shows the fastest, slowest, median and mean of its samples.

use divan::{Bencher, counter::ItemsCount};
use lasthop_core::{
    Body, Datagram, Direction, Dscp, Duration, Ecn, FlowId, Host, Instant, Packet, PacketArena, Seed, Segment,
};
use lasthop_link::Path;
use lasthop_micro::scenario;
use lasthop_scenario::Scenario;
use lasthop_tcp::{Endpoint, TickClock};

fn main() {
    divan::main();
}

const SEED: Seed = Seed { study: 1, replication: 1 };
const PACKETS: u64 = 10_000;

/// A router with this queue in front of 10 Mbit/s, and a flow to make it a scenario.
fn router(down: &str) -> Scenario {
    scenario(&format!(
        "[down]\nlink = {{ rate = \"10 Mbit/s\", delay = \"10 ms\" }}\n{down}\n[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"1 MB\"\n"
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
        now = now + Duration::from_micros(800);
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
    "queue = { limit = \"100 packets\", red = { min = \"20 packets\", max = \"60 packets\", max_probability = 0.1, weight = 0.002, avpkt = \"1500 B\" } }",
    "queue = { limit = \"100 packets\", discipline = \"codel\" }",
])]
fn packet_through_a_queue(bencher: Bencher, queue: &str) {
    let scenario = router(queue);
    bencher.counter(ItemsCount::new(PACKETS)).bench(|| offer(&scenario));
}

const MTU: u32 = 1500;

/// A sender with `outstanding` segments on the way, and the ACKs that come if every `1 / holes`th of them is lost.
fn flight(outstanding: usize, holes: usize) -> (Endpoint, Vec<Segment>, Instant) {
    let scenario = scenario(
        "[down.link]\nrate = \"10 Gbit/s\"\ndelay = \"50 ms\"\n[tcp]\nprofile = \"linux-6\"\ncongestion_control = \"reno\"\n\
         receive_window_initial = 200000\nreceive_window_max = 200000\n[[flow]]\nkind = \"bulk-tcp\"\nbytes = \"10 GB\"\n",
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
        now = now + Duration::from_millis(100);
        let last = sent.len() >= outstanding;
        let mut acks = Vec::new();
        for (index, arrived) in sent.iter().enumerate() {
            let lost = last && holes > 0 && index % (sent.len() / holes).max(2) == 0;
            if !lost {
                client.handle_segment(now, arrived, Ecn::NotEct, None, &mut ());
                while client.poll_transmit(now, &mut segment).is_some() {
                    acks.push(segment);
                }
            }
        }
        if last {
            return (server, acks, now);
        }
        for ack in &acks {
            server.handle_segment(now, ack, Ecn::NotEct, None, &mut ());
        }
    }
}

/// 10 000 segments are on the way: half of their ACKs come.
#[divan::bench(args = [0, 1, 100, 5_000])]
fn ack_with_holes(bencher: Bencher, holes: usize) {
    let count = |(_, acks, _): &(Endpoint, Vec<Segment>, Instant)| ItemsCount::new(acks.len());
    bencher.with_inputs(|| flight(10_000, holes)).input_counter(count).bench_values(|(mut server, acks, now)| {
        let mut segment = Segment::default();
        for ack in &acks {
            server.handle_segment(now, ack, Ecn::NotEct, None, &mut ());
            while server.poll_transmit(now, &mut segment).is_some() {}
        }
        server
    });
}
