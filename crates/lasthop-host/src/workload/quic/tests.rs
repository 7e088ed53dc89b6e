use super::*;
use lasthop_core::Duration;
use std::net::UdpSocket;

const MTU: Bytes = Bytes(1500);
const BYTES: u64 = 200_000;

/// Both ends on this machine, the server's first.
fn both() -> [End; 2] {
    let seed = Seed { study: 1, replication: 1 };
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (server, client) = (free(), free());
    let ends = lasthop_quic::ends(&QuicConfig::default(), MTU, &Rc::default(), seed, FlowId(0), false);
    let addresses = [[server, client], [client, server]];
    let end = |(quic, addresses)| End::new(quic, MTU, Dscp::default(), addresses).unwrap();
    let [of_server, of_client] = ends;
    [end((of_server, addresses[0])), end((of_client, addresses[1]))]
}

/// Exchanges datagrams between both ends until there are none, in no time; `see` gets each datagram that was
/// sent.
fn speak(ends: &mut [End; 2], now: Instant, mut see: impl FnMut(usize, &mut End)) {
    let mut is_silent = false;
    while !is_silent {
        is_silent = true;
        for (index, end) in ends.iter_mut().enumerate() {
            while end.receive(now, &mut ()).unwrap() {
                is_silent = false;
            }
            end.flush(now, &mut ()).unwrap();
            is_silent &= end.sent.is_empty();
            see(index, end);
        }
    }
}

#[test]
fn each_datagram_on_the_way_is_known_by_its_bytes() {
    let mut ends = both();
    ends[0].quic.connect(Instant::ZERO, &mut ());
    let mut numbers = [0, 0];
    speak(&mut ends, Instant::ZERO, |index, end| {
        let bytes: Vec<Vec<u8>> = end.sent.iter().map(|sent| sent.bytes.clone()).collect();
        assert!(end.identify(b"of somebody else").is_none());
        for bytes in bytes {
            let known = end.identify(&bytes).unwrap();
            assert_eq!((known.number, known.payload_bytes), (numbers[index], bytes.len() as u32));
            assert!(end.identify(&bytes).is_none(), "it has been seen");
            numbers[index] += 1;
        }
    });
    assert!(ends.iter().all(|end| end.quic.is_established()) && numbers[0] > 2);
}

#[test]
fn what_finds_no_room_in_the_socket_waits_and_is_sent_later() {
    let mut ends = both();
    // Between these sockets a datagram occupies buffer until it is read, and the kernel grants only the
    // minimum buffer.
    let (server, client) = Socket::pair(Domain::UNIX, Type::DGRAM.nonblocking(), None).unwrap();
    server.set_send_buffer_size(1).unwrap();
    (ends[0].socket, ends[1].socket) = (server, client);
    ends[0].quic.connect(Instant::ZERO, &mut ());
    ends[0].quic.write(Instant::ZERO, BYTES, BYTES, &mut ());
    let (mut now, mut has_waited) = (Instant::ZERO, false);
    while ends[1].quic.received() < BYTES {
        speak(&mut ends, now, |_, end| {
            has_waited |= end.waiting.is_some();
            assert!(end.waiting.is_none() || end.next_wakeup() == Some(Instant::ZERO));
            end.sent.clear();
        });
        now += Duration::from_millis(10);
        for end in &mut ends {
            end.quic.handle_wakeup(now, &mut ());
        }
        assert!(now < Instant::ZERO + Duration::from_secs(60), "it comes to an end");
    }
    assert!(has_waited);
}
