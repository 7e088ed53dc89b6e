use super::*;
use crate::namespace::Address;
use etherparse::PacketBuilder;
use lasthop_core::{Direction, DropCause, Place};

const NOW: Instant = Instant::ZERO;
const SERVER: [u8; 4] = [10, 0, 0, 1];
const CLIENT: [u8; 4] = [10, 0, 1, 1];

fn connections() -> Connections {
    let kernel = Rc::new(Diag::open().unwrap());
    let hosts = [SERVER, CLIENT].map(|address| ([address.into(); 2], Rc::clone(&kernel)));
    Connections::known_to(hosts.into())
}

/// A packet of a host between the server's port 80 and this port of the client.
fn packet(sender: Host, client_port: u16, flags: &str, payload: usize) -> Vec<u8> {
    let (from, to) = if sender == Host::Server { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
    let (source, destination) = if sender == Host::Server { (80, client_port) } else { (client_port, 80) };
    let ip = PacketBuilder::ipv4(from, to, 64);
    let mut bytes = Vec::new();
    if flags == "udp" {
        ip.udp(source, destination).write(&mut bytes, &vec![0; payload]).unwrap();
        return bytes;
    }
    let mut tcp = ip.tcp(source, destination, 1, 1000);
    for flag in flags.chars() {
        tcp = match flag {
            's' => tcp.syn(),
            'a' => tcp.ack(1),
            'f' => tcp.fin(),
            'r' => tcp.rst(),
            _ => unreachable!(),
        };
    }
    tcp.write(&mut bytes, &vec![0; payload]).unwrap();
    bytes
}

/// Its flow.
fn send(
    connections: &mut Connections,
    sender: Host,
    client_port: u16,
    flags: &str,
    payload: usize,
) -> FlowId {
    let bytes = packet(sender, client_port, flags, payload);
    connections.identify(NOW, sender, &Headers::read(&bytes).unwrap(), &mut ()).0
}

#[test]
fn data_go_the_way_that_most_of_the_payload_went() {
    let mut all = connections();
    for port in [5000, 5001] {
        assert_eq!(send(&mut all, Host::Client, port, "s", 0), FlowId(u32::from(port) - 5000));
        send(&mut all, Host::Server, port, "sa", 0);
        send(&mut all, Host::Client, port, "a", 100);
    }
    send(&mut all, Host::Server, 5000, "a", 1000);
    assert_eq!(send(&mut all, Host::Client, 5000, "udp", 10), FlowId(2));
    assert_eq!(send(&mut all, Host::Server, 5000, "udp", 30), FlowId(2));
    let flows: Vec<_> = all.flows(&[0; 3]).into_values().map(|flow| (flow.name, flow.sender)).collect();
    let expected = [("tcp-1", Host::Server), ("tcp-2", Host::Client), ("udp-1", Host::Server)];
    assert_eq!(flows, expected.map(|(name, sender)| (name.to_owned(), sender)));
}

#[test]
fn connections_to_the_server_of_a_transfer_have_its_name() {
    let mut all = connections();
    all.transfers = vec![([SERVER.into(); 2], "mine".into(), Some(Duration::from_secs(9)))];
    for port in [5000, 5001] {
        send(&mut all, Host::Client, port, "udp", 10);
    }
    let flows: Vec<_> = all.flows(&[0; 2]).into_values().map(|flow| (flow.name, flow.sends_for)).collect();
    let nine = Some(Duration::from_secs(9));
    assert_eq!(flows, [("mine".to_owned(), nine), ("mine-2".to_owned(), nine)]);
    all.transfers[0].0 = [CLIENT.into(); 2];
    send(&mut all, Host::Client, 5002, "udp", 10);
    let flows: Vec<_> = all.flows(&[0; 3]).into_values().collect();
    assert_eq!((flows[2].name.as_str(), flows[2].sends_for), ("udp-1", None), "it goes to another host");
}

#[test]
fn a_syn_opens_another_connection_only_after_the_end_of_the_last() {
    let mut all = connections();
    assert_eq!(send(&mut all, Host::Client, 5000, "a", 0), FlowId::stranger(0), "its SYN was never seen");
    assert_eq!(send(&mut all, Host::Client, 5000, "s", 0), FlowId(0));
    assert_eq!(send(&mut all, Host::Client, 5000, "s", 0), FlowId(0), "sent again");
    send(&mut all, Host::Client, 5000, "fa", 0);
    assert_eq!(send(&mut all, Host::Client, 5000, "s", 0), FlowId(0), "half closed");
    assert_eq!(send(&mut all, Host::Server, 5000, "fa", 0), FlowId(0));
    assert_eq!(send(&mut all, Host::Client, 5000, "a", 0), FlowId(0), "the last ACK");
    assert_eq!(send(&mut all, Host::Client, 5000, "s", 0), FlowId(1));
    assert_eq!(send(&mut all, Host::Server, 5000, "r", 0), FlowId(1));
    assert_eq!(send(&mut all, Host::Client, 5000, "s", 0), FlowId(2));
}

#[test]
fn a_tape_tells_what_it_was_told_of_connections_that_somebody_took() {
    struct Seen(Vec<String>);
    impl Observer for Seen {
        fn announce(&mut self, info: &FlowInfo) {
            self.0.push(info.name.clone());
        }
        fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
            self.0.push(format!("{} {event:?} {}", now.as_nanos(), packet.serial));
        }
        fn transport(&mut self, _: Instant, flow: FlowId, _: Host, event: TransportEvent) {
            self.0.push(format!("{} {event:?}", flow.0));
        }
    }
    let mut all = connections();
    send(&mut all, Host::Client, 4999, "s", 0);
    send(&mut all, Host::Server, 4999, "r", 0);
    send(&mut all, Host::Client, 5000, "s", 0);
    send(&mut all, Host::Server, 5000, "sa", 0);
    let mut tape = Tape::default();
    let packet = |flow| Packet {
        serial: 7,
        flow,
        direction: Direction::Up,
        ip_bytes: 40,
        ecn: Ecn::NotEct,
        is_copy: false,
        place: Place::from(Direction::Up),
        queued_at: Instant::MAX,
        dscp: Dscp::default(),
        server_port: 80,
        body: Body::default(),
    };
    tape.packet(Instant::from_nanos(3), PacketEvent::Sent, &packet(FlowId(0)));
    tape.packet(Instant::from_nanos(4), PacketEvent::Dropped(DropCause::LinkError), &packet(FlowId(0)));
    tape.packet(Instant::from_nanos(5), PacketEvent::Sent, &packet(FlowId(1)));
    tape.packet(Instant::from_nanos(6), PacketEvent::Sent, &packet(FlowId::stranger(0)));
    tape.transport(Instant::from_nanos(9), FlowId(1), Host::Client, TransportEvent::Established);
    let mut seen = Seen(Vec::new());
    let others = tape.play(&all.flows(&[0; 3]), &mut seen);
    assert_eq!(seen.0, ["tcp-1", "5 Sent 7", "0 Established"]);
    assert_eq!(others, Counts { events: 2, sent: 1, dropped: 1, ..Counts::default() });
}

#[test]
fn a_server_s_own_kernel_knows_of_its_connections() {
    let [first, second, client] = [(); 3].map(|()| Rc::new(Diag::open().unwrap()));
    let hosts = [(Address::server(0), &first), (Address::server(1), &second), (Address::CLIENT, &client)];
    let all = Connections::known_to(hosts.map(|(host, kernel)| (host.all(), Rc::clone(kernel))).into());
    for (address, kernel) in [
        ("10.0.0.1", &first),
        ("10.0.0.2", &second),
        ("fd00::2", &second),
        ("10.0.1.1", &client),
        ("192.0.2.1", &first),
    ] {
        assert!(Rc::ptr_eq(&all.kernel_of(address.parse().unwrap()), kernel), "{address}");
    }
}
