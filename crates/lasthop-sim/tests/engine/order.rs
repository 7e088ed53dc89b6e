//! Simultaneous events: down path, up path, LANs, then the flows in the order of the scenario.

use crate::support::{bulk, observe, path, scenario, udp};
use lasthop_core::{
    Body, Direction, Distribution, DropCause, Duration, FlowId, Host, Instant, Observer, Packet, PacketEvent,
    QueueSize, Seed, TransportEvent,
};
use lasthop_scenario::Scenario;
use lasthop_traffic::FlowConfig;

const MTU: u64 = 1000;
const SEED: Seed = Seed { study: 1, replication: 1 };
const RATE: u64 = 1_000_000;
/// Serialisation of a full packet at `RATE`.
const PACKET: Duration = Duration::from_millis(8);

/// Packets and timeouts in the order of the events.
#[derive(Default)]
struct Log {
    packets: Vec<(Instant, PacketEvent, Packet)>,
    timeouts: Vec<Instant>,
}

impl Observer for Log {
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.packets.push((now, event, packet.clone()));
    }

    fn transport(&mut self, now: Instant, _flow: FlowId, host: Host, event: TransportEvent) {
        if host == Host::Server && matches!(event, TransportEvent::Timeout { .. }) {
            self.timeouts.push(now);
        }
    }
}

impl Log {
    fn of(scenario: &Scenario) -> Self {
        observe(scenario, SEED, Self::default()).0
    }

    /// Flow and serial of the packets that the server sent at `at`, in order.
    fn sent_at(&self, at: Instant) -> Vec<(u32, u64)> {
        let sent = |(time, event, packet): &&(Instant, PacketEvent, Packet)| {
            *time == at && *event == PacketEvent::Sent && packet.direction == Direction::Down
        };
        self.packets.iter().filter(sent).map(|(_, _, packet)| (packet.flow.0, packet.serial)).collect()
    }

    fn drops(&self) -> Vec<(Instant, u32)> {
        let overflow = PacketEvent::Dropped(DropCause::QueueOverflow);
        let dropped = self.packets.iter().filter(|(_, event, _)| *event == overflow);
        dropped.map(|(at, _, packet)| (*at, packet.flow.0)).collect()
    }

    /// When the SYN-ACK reaches the server.
    fn syn_ack_at(&self) -> Instant {
        let delivered = |(_, event, packet): &&(Instant, PacketEvent, Packet)| {
            *event == PacketEvent::Delivered && packet.direction == Direction::Up
        };
        self.packets.iter().find(delivered).expect("a SYN-ACK arrives").0
    }
}

fn with_flows(flow: Vec<FlowConfig>) -> Scenario {
    let link = path(RATE, Duration::from_millis(100), QueueSize::Packets(20), 9600);
    scenario(MTU, &link, flow)
}

/// One datagram of a full packet.
fn datagram(name: &str, start: Duration) -> FlowConfig {
    udp(name, RATE, MTU - 28, Duration::from_nanos(1), start)
}

fn after(start: Duration) -> Instant {
    Instant::ZERO + start
}

#[test]
fn flows_that_start_together_start_in_the_order_of_the_scenario() {
    let start = Duration::from_secs(1);
    let (a, b) = (bulk("a", 5000, start), bulk("b", 5000, start));
    assert_eq!(Log::of(&with_flows(vec![a, b])).sent_at(after(start)), [(0, 0), (1, 1)]);
}

#[test]
fn the_protocol_gives_no_precedence() {
    let start = Duration::from_secs(1);
    let (tcp, udp) = (bulk("tcp", 5000, start), datagram("udp", start));
    for flows in [vec![tcp.clone(), udp.clone()], vec![udp, tcp]] {
        assert_eq!(Log::of(&with_flows(flows)).sent_at(after(start)), [(0, 0), (1, 1)]);
    }
}

/// Flow 0 sends a packet every packet time; flow 1 puts one more into the queue of one packet. Each packet of
/// flow 0 then arrives exactly when a serialisation ends.
#[test]
fn a_packet_that_arrives_when_a_serialisation_ends_finds_the_freed_room() {
    let payload = MTU - 28;
    let payload_rate = payload * 8 * 1_000_000_000 / PACKET.as_nanos();
    let flows = vec![
        udp("steady", payload_rate, payload, PACKET * 10, Duration::ZERO),
        datagram("one-more", Duration::ZERO),
    ];
    let mut tight = scenario(MTU, &path(RATE, Duration::from_millis(10), QueueSize::Packets(1), MTU), flows);
    let log = Log::of(&tight);
    let arrivals: Vec<_> = log.packets.iter().filter(|(_, event, _)| is_enqueued(*event)).collect();
    let dequeued = |at: Instant| {
        log.packets.iter().any(|(time, event, _)| *time == at && matches!(event, PacketEvent::Dequeued(_)))
    };
    assert_eq!(arrivals.len(), 11);
    assert!(arrivals.iter().skip(2).all(|(at, ..)| dequeued(*at)), "at the same instant");
    assert_eq!(log.drops(), [], "the room is freed first");

    // One nanosecond later is too late.
    tight.down.as_mut().unwrap().link.overhead = Distribution::Static(Duration::from_nanos(1));
    assert_eq!(Log::of(&tight).drops().first(), Some(&(arrivals[2].0, 0)));
}

fn is_enqueued(event: PacketEvent) -> bool {
    matches!(event, PacketEvent::Enqueued(_))
}

/// The reactions to a delivery come before a flow's own actions at that instant, even if that flow comes
/// first in the scenario.
#[test]
fn a_delivery_comes_before_the_flows() {
    let late = Duration::from_secs(100);
    let transfer = bulk("tcp", 5000, Duration::ZERO);
    let at = Log::of(&with_flows(vec![datagram("udp", late), transfer.clone()])).syn_ack_at();
    let together = datagram("udp", at.saturating_since(Instant::ZERO));
    let flows: Vec<u32> =
        Log::of(&with_flows(vec![together, transfer])).sent_at(at).iter().map(|s| s.0).collect();
    // The handshake's ACK, two segments, then the datagram.
    assert_eq!(flows, [1, 1, 1, 0]);
}

/// The SYN-ACK that arrives at the instant at which the timer of the SYN expires is in time.
#[test]
fn an_acknowledgment_comes_before_the_timer_of_the_same_instant() {
    let mut scenario = with_flows(vec![bulk("tcp", 5000, Duration::ZERO)]);
    let on_time = Log::of(&scenario);
    assert_eq!(on_time.timeouts, []);
    let delay = scenario.up.as_ref().unwrap().link.delay;
    scenario.up.as_mut().unwrap().link.delay = Duration::from_secs(30);
    let expiry = Log::of(&scenario).timeouts[0];

    scenario.up.as_mut().unwrap().link.delay = delay + (expiry - on_time.syn_ack_at());
    let at_expiry = Log::of(&scenario);
    assert_eq!(at_expiry.syn_ack_at(), expiry);
    assert!(!at_expiry.timeouts.contains(&expiry));

    scenario.up.as_mut().unwrap().link.delay += Duration::from_nanos(1);
    assert_eq!(Log::of(&scenario).timeouts.first(), Some(&expiry));
}

/// Serials number transmissions in the order of sending, over all flows and both directions.
#[test]
fn serials_follow_the_order_of_sending() {
    let flows = vec![bulk("a", 50_000, Duration::ZERO), bulk("b", 50_000, Duration::ZERO)];
    let log = Log::of(&with_flows(flows));
    let sent = log.packets.iter().filter(|(_, event, _)| *event == PacketEvent::Sent);
    assert!(sent.clone().map(|(_, _, packet)| packet.serial).eq(0..sent.clone().count() as u64));
    assert!(sent.clone().any(|(_, _, packet)| matches!(packet.body, Body::Tcp(_)) && packet.flow.0 == 1));
}
