//! How writes become segments: joined or not, and Nagle's algorithm, according to RFC 896 and as in Linux.

use crate::support::poll;
use crate::wire;
use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, Segment};
use lasthop_tcp::{CongestionControl, Endpoint, Profile, TcpConfig, TickClock};

const MSS: u64 = 536;

/// A connected server, and the segments that it sends at once.
struct Server {
    tcp: Endpoint,
    now: Instant,
}

impl Server {
    fn new(profile: Profile, nagle: bool) -> Self {
        let mut config: TcpConfig = toml::from_str(profile.toml()).expect("the profile is complete");
        config.congestion_control = CongestionControl::Reno;
        (config.timestamps, config.nagle, config.initial_window) = (false, nagle, 10);
        Self::with(config)
    }

    fn with(config: TcpConfig) -> Self {
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let mut tcp = Endpoint::listen(config, 576, clock, FlowId(0), Host::Server);
        tcp.open(Instant::ZERO, &mut ());
        Self { tcp, now: Instant::ZERO + Duration::from_millis(5) }
    }

    /// The payloads that leave now.
    fn sent(&mut self) -> Vec<u64> {
        let mut payloads = Vec::new();
        while let Some((segment, _)) = poll(&mut self.tcp, self.now) {
            payloads.push(u64::from(segment.payload_bytes));
        }
        payloads
    }

    fn write(&mut self, bytes: u64) -> Vec<u64> {
        self.tcp.write(self.now, bytes, bytes, &mut ());
        self.sent()
    }

    /// A total of this number of bytes is acknowledged, a round trip later.
    fn acknowledge(&mut self, bytes: u64) -> Vec<u64> {
        self.now += Duration::from_millis(100);
        let ack =
            Segment { seq: 1, ack: 1 + bytes, flags: Flags::ACK, window_bytes: 64_000, ..Segment::default() };
        self.tcp.handle_segment(self.now, &ack, Ecn::NotEct, None, &mut ());
        self.sent()
    }
}

/// The typist of RFC 896: characters typed during a round trip leave together.
#[test]
fn small_writes_are_collected_for_a_round_trip() {
    for profile in [Profile::Linux6, Profile::Ns1998] {
        let mut server = Server::new(profile, true);
        assert_eq!(server.write(1), [1], "nothing is on its way");
        assert_eq!([server.write(1), server.write(1), server.write(3)].concat(), [0_u64; 0]);
        assert_eq!(server.acknowledge(1), [5]);
        assert_eq!(server.acknowledge(6), [0_u64; 0]);
        assert_eq!(server.write(1), [1], "{profile}");
    }
}

#[test]
fn without_it_each_write_leaves_at_once() {
    for profile in [Profile::Linux6, Profile::Ns1998, Profile::Linux24] {
        let mut server = Server::new(profile, false);
        assert_eq!([server.write(1), server.write(1), server.write(3)].concat(), [1, 1, 3], "{profile}");
    }
}

/// `tcp_sendmsg` of Linux 2.4: a write fills the last segment that waits, and leaves alone what was sent.
#[test]
fn joined_writes_fill_the_segments_that_wait() {
    for (joined_writes, later) in [(true, [536, 536, 356]), (false, [428, 536, 464])] {
        let mut server = Server::with(TcpConfig { joined_writes, ..wire::config(|_| ()) });
        assert_eq!(server.write(1_500), [536, 536]);
        assert_eq!(server.write(1_000), [0_u64; 0]);
        assert_eq!(server.acknowledge(1_072), later);

        let mut server = Server::with(TcpConfig { joined_writes, ..wire::config(|_| ()) });
        assert_eq!(server.write(700), [536, 164]);
        assert_eq!(server.write(300), [0_u64; 0]);
        assert_eq!(server.acknowledge(700), [300]);
        assert_eq!(server.write(100), [100], "nothing waits");

        // Writes of 700 bytes without a pause, as a program makes that copies a file.
        let mut server = Server::with(TcpConfig { joined_writes, ..wire::config(|_| ()) });
        server.tcp.write(server.now, 2_800, 700, &mut ());
        assert_eq!(server.sent(), [536, 164]);
        let next = if joined_writes { [536, 536, 536] } else { [536, 164, 536] };
        assert_eq!(server.acknowledge(700), next);
    }
}

/// A response in two writes, the second of them small: Minshall's version sends its end, because the
/// unacknowledged segments are full. Under RFC 896 it waits.
#[test]
fn the_end_of_a_message_waits_behind_full_segments_in_rfc_896_only() {
    for (profile, expected) in [(Profile::Linux6, vec![MSS, MSS, 100]), (Profile::Ns1998, vec![MSS, MSS])] {
        let mut server = Server::new(profile, true);
        assert_eq!(server.write(2 * MSS + 100), expected, "{profile}");
        let held: u64 = 2 * MSS + 100 - expected.iter().sum::<u64>();
        assert_eq!(server.acknowledge(2 * MSS), vec![held; usize::from(held > 0)], "{profile}");
    }
}

/// A header and a body in two writes, each smaller than a segment: the body waits for the ACK of the header.
#[test]
fn a_second_small_write_waits_for_the_ack_of_the_first() {
    for profile in [Profile::Linux6, Profile::Ns1998] {
        let mut server = Server::new(profile, true);
        assert_eq!(server.write(200), [200]);
        assert_eq!(server.write(300), [0_u64; 0]);
        assert_eq!(server.acknowledge(200), [300], "{profile}");
    }
}

#[test]
fn what_waits_leaves_as_soon_as_it_fills_a_segment() {
    for profile in [Profile::Linux6, Profile::Ns1998] {
        let mut server = Server::new(profile, true);
        server.write(1);
        assert_eq!(server.write(MSS - 1), [0_u64; 0]);
        assert_eq!(server.write(2), [MSS], "and a byte waits");
        assert_eq!(server.acknowledge(1 + MSS), [1], "{profile}");
    }
}

/// An application that writes 100 bytes at a time, as fast as it can.
#[test]
fn an_application_that_goes_on_writing_fills_its_segments() {
    let mut server = Server::new(Profile::Linux6, true);
    server.tcp.write(server.now, 1_200, 100, &mut ());
    assert_eq!(server.sent(), [100, MSS, MSS]);
    assert_eq!(server.acknowledge(100), [1_100 - 2 * MSS]);
}

/// `tcp_nagle_test`: not for the final FIN.
#[test]
fn the_end_of_the_stream_does_not_wait() {
    for profile in [Profile::Linux6, Profile::Ns1998] {
        let mut server = Server::new(profile, true);
        server.write(1);
        assert_eq!(server.write(10), [0_u64; 0]);
        server.tcp.close(server.now, &mut ());
        assert_eq!(server.sent(), [10], "{profile}");
    }
}
