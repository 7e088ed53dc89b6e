//! Both ends with a line between them: a delay and random losses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use lasthop_core::{
    Body, Bytes, Duration, Ecn, FlowId, Host, Instant, Observer, Packet, PacketArena, Protocol, RandomStream,
    Seed, Transport, TransportEvent,
};

use quinn_proto::congestion::ControllerFactory;
use serde_json::Value;

use crate::controller::Watched;
use crate::tap::Notes;
use crate::{CongestionControl, Crypto, Moves, Quic, QuicConfig, ends};

const MTU: Bytes = Bytes(1500);
const DELAY: Duration = Duration::from_millis(50);
/// When the client moves, in ms, if its connections can migrate.
const MOVES: [u64; 2] = [400, 700];

/// The reports of both ends: events, logs, and the datagrams that the client received.
#[derive(Debug, Default, PartialEq)]
struct Reports(Vec<(Instant, Host, TransportEvent)>, [Vec<u8>; 2], Vec<(Instant, u64)>);

impl Observer for Reports {
    fn qlog(&mut self, _flow: FlowId, host: Host, records: &[u8]) {
        self.1[host as usize].extend_from_slice(records);
    }

    fn datagram(&mut self, now: Instant, _flow: FlowId, host: Host, number: u64) {
        assert_eq!(host, Host::Client);
        self.2.push((now, number));
    }

    fn transport(&mut self, now: Instant, _flow: FlowId, host: Host, event: TransportEvent) {
        self.0.push((now, host, event));
    }
}

impl Reports {
    /// When the server reported an event that `is` accepts.
    fn times(&self, is: impl Fn(&TransportEvent) -> bool) -> Vec<Instant> {
        let server = self.0.iter().filter(|(_, host, event)| *host == Host::Server && is(event));
        server.map(|(now, ..)| *now).collect()
    }
}

fn both(config: &QuicConfig, seed: Seed, log: bool) -> [Quic; 2] {
    let at = MOVES.map(|at| Instant::ZERO + Duration::from_millis(at)).into();
    let moves = Moves { at, rebinds: false };
    ends(config, MTU, &moves, seed, FlowId(0), log)
}

struct Line {
    now: Instant,
    ends: [Quic; 2],
    reports: Reports,
    /// By arrival and number.
    under_way: BTreeMap<(Instant, u64), (Host, Packet)>,
    sent: u64,
    lengths: Vec<u32>,
    /// All datagrams, one after another.
    bytes: Vec<u8>,
    loss: f64,
    /// Packets with numbers in this range are lost, too, and packets sent in this period.
    hole: Range<u64>,
    /// Bytes of the server's response to the client's request.
    answer: Option<u64>,
    /// When the client received the first of them.
    answered: Option<Instant>,
    dark: Range<Instant>,
    /// Time, sender and packet of each transmission.
    log: Vec<(u64, Instant, Host)>,
    drawn: RandomStream,
    blank: PacketArena,
    /// The server's call, if it makes one.
    speech: Option<Speech>,
    /// The numbers of datagrams in each packet that has any.
    carried: Vec<[u32; 2]>,
}

struct Speech {
    left: u64,
    interval: Duration,
    next: Option<Instant>,
}

impl Line {
    fn new(config: &QuicConfig, seed: u64, loss: f64) -> Self {
        let seed = Seed { study: seed, replication: 1 };
        Self {
            now: Instant::ZERO,
            ends: both(config, seed, false),
            reports: Reports::default(),
            under_way: BTreeMap::new(),
            sent: 0,
            lengths: Vec::new(),
            bytes: Vec::new(),
            loss,
            hole: 0..0,
            answer: None,
            answered: None,
            dark: Instant::ZERO..Instant::ZERO,
            log: Vec::new(),
            drawn: seed.stream("loss"),
            blank: PacketArena::default(),
            speech: None,
            carried: Vec::new(),
        }
    }

    fn end(&mut self, host: Host) -> &mut Quic {
        &mut self.ends[host as usize]
    }

    /// The server sends `bytes`, and both close.
    fn transfer(mut self, bytes: u64) -> Self {
        let Self { ends: [server, _], reports, now, .. } = &mut self;
        server.connect(*now, reports);
        server.write(*now, bytes, 1000, reports);
        server.close(*now, reports);
        self.run();
        self
    }

    /// The server sends this number of datagrams of 172 bytes, the first as soon as it may and one every
    /// `interval`, and then closes. Returns the numbers of the datagrams in each packet.
    fn call(mut self, count: u64, interval: Duration) -> Self {
        self.ends = self.ends.map(|end| end.carrying(Protocol::QuicDatagrams));
        let Self { ends: [server, _], reports, now, .. } = &mut self;
        server.connect(*now, reports);
        self.speech = Some(Speech { left: count, interval, next: None });
        self.run();
        self
    }

    /// Lets the server send its next frame, if it is due.
    fn speak(&mut self) {
        let Self { ends: [server, _], reports, now, speech, .. } = self;
        let Some(Speech { left, interval, next }) = speech else { return };
        if server.news().ready {
            *next = Some(*now);
        }
        while next.is_some_and(|next| next <= *now) {
            if *left == 0 {
                *next = None;
                server.close(*now, reports);
            } else {
                *left -= 1;
                *next = next.map(|next| next + *interval);
                server.write(*now, 172, 172, reports);
            }
        }
    }

    fn run(&mut self) {
        self.flush();
        while let Some(next) = self.next() {
            self.now = next;
            assert!(next < Instant::ZERO + Duration::from_secs(10_000), "it comes to an end");
            for host in [Host::Server, Host::Client] {
                let Self { ends, reports, now, .. } = self;
                if ends[host as usize].next_wakeup().is_some_and(|due| due <= *now) {
                    ends[host as usize].handle_wakeup(*now, reports);
                }
            }
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= next) {
                let (host, packet) = entry.remove();
                self.ends[host as usize].handle_packet(next, &packet, &mut self.reports);
            }
            if self.end(Host::Client).news().ended {
                self.ends[1].close(next, &mut self.reports);
            }
            if self.ends[1].received() > 0 {
                self.answered.get_or_insert(next);
            }
            if self.ends[0].received() > 0
                && let Some(bytes) = self.answer.take()
            {
                self.ends[0].send(next, 0, bytes, &mut self.reports);
            }
            self.speak();
            self.flush();
        }
    }

    fn next(&self) -> Option<Instant> {
        let arrival = self.under_way.keys().next().map(|(at, _)| *at);
        let speech = self.speech.as_ref().and_then(|speech| speech.next);
        self.ends.iter().filter_map(Transport::next_wakeup).chain(arrival).chain(speech).min()
    }

    fn flush(&mut self) {
        for host in [Host::Server, Host::Client] {
            loop {
                let id = self.blank.reserve();
                let packet = self.blank.get_mut(id);
                let is_sent = self.ends[host as usize].poll_transmit(self.now, packet, &mut self.reports);
                let packet = packet.clone();
                self.blank.remove(id);
                if !is_sent {
                    break;
                }
                let is_lost = self.drawn.unit() < self.loss
                    || self.hole.contains(&self.sent)
                    || self.dark.contains(&self.now);
                if let Body::Quic(datagram) = &packet.body
                    && !datagram.numbers().is_empty()
                {
                    self.carried.push(datagram.datagrams);
                }
                self.log.push((self.sent, self.now, host));
                self.lengths.push(packet.ip_bytes);
                self.bytes.extend_from_slice(self.ends[host as usize].datagram());
                if !is_lost {
                    self.under_way.insert((self.now + DELAY, self.sent), (host.other(), packet));
                }
                self.sent += 1;
            }
        }
    }
}

#[test]
fn the_initial_window_is_that_of_the_controller() {
    for congestion_control in [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Bbr] {
        let config = QuicConfig { congestion_control, ..QuicConfig::default() };
        let watched = Watched { kind: congestion_control, notes: Notes::default() };
        let controller = Arc::new(watched).build(std::time::Instant::now(), 1200);
        assert_eq!(config.initial_window().0, controller.initial_window());
    }
}

#[test]
fn a_transfer_arrives_whole_and_both_ends_close() {
    for congestion_control in [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Bbr] {
        let config = QuicConfig { congestion_control, ..QuicConfig::default() };
        let mut line = Line::new(&config, 1, 0.0).transfer(1_000_000);
        assert_eq!(line.end(Host::Client).received(), 1_000_000);
        for host in [Host::Server, Host::Client] {
            assert_eq!(line.end(host).failure(), None, "{host:?}");
            assert!(line.end(host).is_over());
            let closed = |(_, at, event): &&(Instant, Host, TransportEvent)| {
                *at == host && *event == TransportEvent::Closed
            };
            assert_eq!(line.reports.0.iter().filter(closed).count(), 1, "{host:?}");
        }
        let again = |event: &TransportEvent| matches!(event, TransportEvent::Retransmitted { .. });
        assert_eq!(line.reports.times(again), []);
        // One round trip, except for the first ACK of an MTU probe, at most 25 ms later.
        let rtts = line.reports.0.iter().filter_map(|(.., event)| match event {
            TransportEvent::RttSample { rtt, .. } => Some(*rtt),
            _ => None,
        });
        assert!(rtts.clone().count() > 10);
        for rtt in rtts {
            assert!(rtt >= DELAY + DELAY && rtt <= DELAY + DELAY + Duration::from_millis(26), "{rtt:?}");
        }
    }
}

#[test]
fn mtu_discovery_fills_packets_up_to_the_mtu_and_is_a_switch() {
    let most = |mtu_discovery| {
        let config = QuicConfig { mtu_discovery, ..QuicConfig::default() };
        Line::new(&config, 1, 0.0).transfer(1_000_000).lengths.into_iter().max()
    };
    assert_eq!(most(true), Some(1500));
    assert_eq!(most(false), Some(1228));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let bytes = |seed| {
        let line = Line::new(&QuicConfig::default(), seed, 0.05).transfer(200_000);
        (line.bytes, line.reports, line.now)
    };
    assert!(bytes(1) == bytes(1));
    assert_ne!(bytes(1).0[..1200], bytes(2).0[..1200]);
}

/// Handshakes of all kinds, to detect a message that differs in length or place.
#[test]
fn the_null_twin_differs_in_nothing_but_the_bytes() {
    for (seed, loss) in (1..).zip([0.0, 0.01, 0.1, 0.2, 0.3]) {
        let [tls, null] = [Crypto::Tls, Crypto::Null].map(|crypto| {
            let config = QuicConfig { crypto, ..QuicConfig::default() };
            Line::new(&config, seed, loss).transfer(100_000)
        });
        assert_eq!(tls.lengths, null.lengths, "loss {loss}");
        assert_eq!((tls.reports, tls.now), (null.reports, null.now));
        assert_ne!(tls.bytes, null.bytes);
    }
}

#[test]
fn an_endpoint_marks_packets_only_with_ecn() {
    for ecn in [true, false] {
        let mut line = Line::new(&QuicConfig { ecn, ..QuicConfig::default() }, 1, 0.0);
        line.ends[0].connect(Instant::ZERO, &mut line.reports);
        line.flush();
        let (_, packet) = line.under_way.values().next().expect("the first packet");
        assert_eq!(packet.ecn, if ecn { Ecn::Ect0 } else { Ecn::NotEct });
        assert!(matches!(packet.body, Body::Quic(_)));
    }
}

/// Each handshake completes or fails with a reason.
fn handshakes(count: u64) {
    let (mut completed, mut failed) = (0, 0);
    for number in 0..count {
        let loss = 0.5 * number as f64 / count as f64;
        let mut line = Line::new(&QuicConfig::default(), number, loss).transfer(100);
        match (line.ends[0].is_established(), line.ends[0].failure()) {
            (true, None) => {
                assert_eq!(line.end(Host::Client).received(), 100, "handshake {number}");
                completed += 1;
            }
            (_, Some(reason)) => {
                assert!(!reason.is_empty());
                assert!(loss > 0.0, "handshake {number} failed without a loss: {reason}");
                failed += 1;
            }
            (false, None) => panic!("handshake {number} neither completed nor failed"),
        }
    }
    assert_eq!(completed + failed, count);
    assert!(completed > count * 9 / 10, "{completed} of {count} completed");
}

#[test]
fn handshakes_under_loss_complete_or_fail_with_a_reason() {
    handshakes(100);
}

/// Like the previous test; it takes a minute and a half of processor time.
#[test]
#[ignore = "long"]
fn ten_thousand_handshakes_under_loss_complete_or_fail_with_a_reason() {
    handshakes(10_000);
}

/// RFC 9002, appendix A: kInitialRtt = 333 ms; with `rttvar` = kInitialRtt / 2 the first PTO is 333 ms + 4 x
/// 166.5 ms, and each later one is twice the last (section 6.2.1).
#[test]
fn probes_of_a_handshake_that_nobody_answers_are_timed_as_in_appendix_a_of_rfc_9002() {
    let line = Line::new(&QuicConfig::default(), 1, 1.0).transfer(100);
    let timeouts = line.reports.times(|event| matches!(event, TransportEvent::Timeout { .. }));
    let expected = [999, 2_997, 6_993, 14_985].map(|at| Instant::ZERO + Duration::from_millis(at));
    assert_eq!(timeouts[..4], expected);
    assert_eq!(line.ends[0].failure().as_deref(), Some("timed out"));
}

/// RFC 9002, appendix A: kPacketThreshold = 3, and appendix B: kLossReductionFactor = 1/2.
#[test]
fn a_packet_is_lost_after_three_later_ones_and_halves_newrenos_window() {
    let mut line = Line::new(&newreno(), 1, 0.0);
    line.hole = 40..41;
    let line = line.transfer(400_000);
    let again = line.reports.times(|event| matches!(event, TransportEvent::Retransmitted { .. }));
    assert!(!again.is_empty() && again.len() <= 2, "{again:?}");
    assert_eq!(line.reports.times(|event| matches!(event, TransportEvent::Timeout { .. })), []);
    let entered = line.reports.times(|event| matches!(event, TransportEvent::RecoveryEntered { .. }));
    assert_eq!(entered.len(), 1);
    let entered = entered[0];
    let windows = |before: bool| {
        line.reports.0.iter().filter_map(move |(at, host, event)| match event {
            TransportEvent::Window { cwnd, .. } if *host == Host::Server && (*at < entered) == before => {
                Some(*cwnd)
            }
            _ => None,
        })
    };
    let (before, after) = (windows(true).next_back().unwrap(), windows(false).next().unwrap());
    assert!(after.abs_diff(before / 2) <= 1, "{before} and then {after}");
}

/// NewReno, with datagrams of one size.
fn newreno() -> QuicConfig {
    QuicConfig {
        congestion_control: CongestionControl::NewReno,
        mtu_discovery: false,
        ..QuicConfig::default()
    }
}

/// The last packets that the server sends without losses, the last one first: number and time.
fn last_of_server(bytes: u64) -> Vec<(u64, Instant)> {
    let line = Line::new(&newreno(), 1, 0.0).transfer(bytes);
    // The packet after the last one with data closes the connection.
    let sent = line.log.iter().rev().filter(|(.., host)| *host == Host::Server);
    sent.map(|(number, at, _)| (*number, *at)).skip(1).collect()
}

/// RFC 9002, appendix A: kTimeThreshold = 9/8 (section 6.1.2). Too few packets follow for the packet
/// threshold.
#[test]
fn a_packet_before_the_last_is_lost_nine_eighths_of_a_round_trip_after_it_was_sent() {
    let (lost, sent) = last_of_server(6_000)[1];
    let mut line = Line::new(&newreno(), 1, 0.0);
    line.hole = lost..lost + 1;
    let line = line.transfer(6_000);
    let again = line.reports.times(|event| matches!(event, TransportEvent::Retransmitted { .. }));
    assert_eq!(line.reports.times(|event| matches!(event, TransportEvent::Timeout { .. })), []);
    let waited = again[0].saturating_since(sent);
    assert!(waited >= Duration::from_micros(112_500) && waited < Duration::from_millis(114), "{waited:?}");
}

/// RFC 9002, section 6.2.1: `PTO = smoothed_rtt + max(4 * rttvar, kGranularity) + max_ack_delay`. Round trips
/// of 100 ms hardly vary, `max_ack_delay` is 25 ms.
#[test]
fn a_lost_tail_is_probed_after_a_round_trip_its_variation_and_the_delay_of_acknowledgments() {
    let (last, sent) = last_of_server(100_000)[0];
    let mut line = Line::new(&newreno(), 1, 0.0);
    line.hole = last..last + 1;
    let line = line.transfer(100_000);
    let timeouts = line.reports.times(|event| matches!(event, TransportEvent::Timeout { .. }));
    assert_eq!(timeouts.len(), 1);
    let waited = timeouts[0].saturating_since(sent);
    assert!(waited > Duration::from_millis(125) && waited < Duration::from_millis(175), "{waited:?}");
}

/// RFC 9002, section 7.6: when everything is lost for longer than three PTOs, the window falls to two
/// packets; in the example of section 7.6.3 that happens when the second probe is acknowledged. After a
/// shorter time it is halved once.
#[test]
fn persistent_congestion_collapses_the_window() {
    let least_after = |dark: u64| {
        let mut line = Line::new(&newreno(), 1, 0.0);
        let start = Instant::ZERO + Duration::from_millis(500);
        line.dark = start..start + Duration::from_millis(dark);
        let line = line.transfer(2_000_000);
        assert_eq!(line.ends[0].failure(), None);
        let windows = line.reports.0.iter().filter_map(|(at, host, event)| match event {
            TransportEvent::Window { cwnd, .. } if *host == Host::Server && *at >= start => Some(*cwnd),
            _ => None,
        });
        let collapses = line.reports.times(|event| *event == TransportEvent::PersistentCongestion).len();
        (windows.min().expect("it went on"), collapses)
    };
    assert_eq!(least_after(2_000), (2, 1));
    let (halved, collapses) = least_after(100);
    assert!(halved > 20 && collapses == 0, "{halved}, {collapses}");
}

/// A download that the client requests.
fn download(config: &QuicConfig, bytes: u64, loss: f64) -> Line {
    let mut line = Line::new(config, 1, loss);
    let Line { ends: [_, client], reports, now, .. } = &mut line;
    client.connect(*now, reports);
    client.send(*now, 0, 100, reports);
    client.close(*now, reports);
    line.answer = Some(bytes);
    line.run();
    line
}

/// RFC 9000, section 9.4: on a new path the sender starts again; packets in flight to the old address are
/// lost.
#[test]
fn a_connection_goes_on_at_its_hosts_new_address() {
    let [stays, moves] = [false, true].map(|migration| {
        let line = download(&QuicConfig { migration, ..newreno() }, 2_000_000, 0.0);
        assert_eq!(line.ends[1].received(), 2_000_000);
        assert_eq!(line.ends.each_ref().map(Quic::failure), [None, None]);
        line
    });
    let again =
        |line: &Line| line.reports.times(|event| matches!(event, TransportEvent::Retransmitted { .. })).len();
    assert_eq!(again(&stays), 0);
    assert!(again(&moves) > 5, "{}", again(&moves));
    assert!(moves.now > stays.now + DELAY + DELAY);
    let window = |line: &Line, from: u64| {
        let from = Instant::ZERO + Duration::from_millis(from);
        let after = line.reports.0.iter().find_map(|(at, host, event)| match event {
            TransportEvent::Window { cwnd, .. } if *host == Host::Server && *at >= from => Some(*cwnd),
            _ => None,
        });
        after.expect("it went on")
    };
    // Both moves are known to the server 50 ms later; the first acknowledgment of the new path comes 100 ms
    // after that.
    for at in MOVES {
        let windows = [&stays, &moves].map(|line| window(line, at + 140));
        assert!(windows[0] > 20 && windows[1] < 20, "{at} ms: {windows:?} without and with a move");
    }
}

/// RFC 9001, section 4.6: the first packet carries the request, so the response arrives after one round trip,
/// not two.
#[test]
fn hosts_that_have_met_need_no_round_trip_for_the_handshake() {
    for loss in [0.0, 0.2] {
        let [first, known] = [false, true].map(|zero_rtt| {
            let config = QuicConfig { zero_rtt, ..QuicConfig::default() };
            let line = download(&config, 1_000, loss);
            assert_eq!(line.ends[1].received(), 1_000);
            assert_eq!(line.ends.each_ref().map(Quic::failure), [None, None]);
            line
        });
        let answered = |line: &Line| line.answered.expect("it came").saturating_since(Instant::ZERO);
        if loss == 0.0 {
            assert_eq!((answered(&first), answered(&known)), (DELAY + DELAY + DELAY + DELAY, DELAY + DELAY));
        }
        // The bytes are reproducible, as they are without 0-RTT.
        let config = QuicConfig { zero_rtt: true, ..QuicConfig::default() };
        assert!(download(&config, 1_000, loss).bytes == known.bytes);
    }
}

/// The server's log and the client's: the header, and the events.
fn logs(line: &Line) -> [(Value, Vec<Value>); 2] {
    line.reports.1.each_ref().map(|log| {
        let mut records = log.split(|byte| *byte == 0x1e).skip(1).map(serde_json::from_slice);
        let header = records.next().expect("it begins").expect("it is JSON");
        (header, records.map(|record| record.expect("it is JSON")).collect())
    })
}

fn named<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["name"] == name).map(|event| &event["data"])
}

#[test]
fn both_ends_log_every_packet_in_order() {
    for loss in [0.0, 0.1] {
        let config = QuicConfig::default();
        let transfer = || {
            let mut line = Line::new(&config, 1, loss);
            line.ends = both(&config, Seed { study: 1, replication: 1 }, true);
            line.transfer(30_000)
        };
        let line = transfer();
        assert!(transfer().reports == line.reports, "the bytes repeat");
        // Logging does not change the packets.
        assert!(Line::new(&config, 1, loss).transfer(30_000).bytes == line.bytes);
        let logs = logs(&line);
        for (host, end) in [(Host::Server, "server"), (Host::Client, "client")] {
            let [(header, events), (_, others)] = [host, host.other()].map(|host| &logs[host as usize]);
            assert_eq!(
                (&header["qlog_format"], &header["qlog_version"]),
                (&"JSON-SEQ".into(), &"0.3".into())
            );
            assert_eq!(header["trace"]["vantage_point"]["type"], end);
            assert!(events.is_sorted_by_key(|event| event["time"].as_f64().expect("a number")));
            assert!(events.iter().all(|event| event["group_id"].is_null()));
            assert!(events.iter().all(|event| event["data"]["ssthresh"] != u64::MAX));
            let packets = |events, name| {
                let packets = named(events, name).map(|data| {
                    let header = &data["header"];
                    [
                        &header["packet_type"],
                        &header["packet_number"],
                        &data["raw"]["length"],
                        &data["frames"],
                    ]
                });
                packets.collect::<Vec<_>>()
            };
            let sent = packets(events, "transport:packet_sent");
            let bytes: u64 = sent.iter().map(|packet| packet[2].as_u64().expect("a number")).sum();
            let datagrams = line.log.iter().zip(&line.lengths).filter(|((.., from), _)| *from == host);
            assert_eq!(bytes, datagrams.map(|(_, length)| u64::from(*length) - 28).sum::<u64>());
            assert!(sent.iter().all(|packet| packet[3] != &Value::Array(Vec::new())));
            // An end that has closed accepts no more data.
            let received = packets(others, "transport:packet_received");
            assert!(received.len() > 5 && received.iter().all(|packet| sent.contains(packet)));
            assert!(loss > 0.0 || sent.starts_with(&received));
            assert_eq!(named(events, "recovery:packet_lost").count() == 0, loss == 0.0 || end == "client");
            let rtts = named(events, "recovery:metrics_updated").filter_map(|data| data["min_rtt"].as_f64());
            // The log begins with the initial round-trip time of 333 ms.
            let measured: Vec<f64> = rtts.filter(|rtt| *rtt < 300.0).collect();
            assert!(!measured.is_empty());
            assert!(measured.iter().all(|rtt| *rtt >= 100.0), "{measured:?} ms");
        }
    }
}

/// RFC 9221: a handshake of one round trip, then a datagram every 20 ms, each in its own packet, and no
/// retransmissions.
#[test]
fn datagrams_leave_one_by_one_behind_the_handshake_and_never_again() {
    let frame = Duration::from_millis(20);
    for crypto in [Crypto::Tls, Crypto::Null] {
        let config = QuicConfig { crypto, ..QuicConfig::default() };
        let line = Line::new(&config, 1, 0.0).call(100, frame);
        assert_eq!(line.carried, (0..100).map(|number| [number, number + 1]).collect::<Vec<_>>());
        let arrivals = (0..100).map(|number: u64| {
            (Instant::ZERO + DELAY + DELAY + DELAY + Duration::from_nanos(number * frame.as_nanos()), number)
        });
        assert_eq!(line.reports.2, arrivals.collect::<Vec<_>>());
        assert_eq!(line.ends[1].received(), 17_200);
        let closed = |entry: &(Instant, Host, TransportEvent)| entry.2 == TransportEvent::Closed;
        assert_eq!(line.reports.0.iter().filter(|reports| closed(reports)).count(), 2);
        assert_eq!(line.ends.each_ref().map(Quic::failure), [None, None]);
    }
    let lossy = Line::new(&QuicConfig::default(), 1, 0.2).call(500, frame);
    let mut sent: Vec<u32> = lossy.carried.iter().flat_map(|[first, end]| *first..*end).collect();
    assert_eq!(sent, (0..500).collect::<Vec<_>>());
    let got = lossy.reports.2.iter().map(|(_, number)| *number as u32);
    sent.retain(|number| got.clone().any(|other| other == *number));
    assert!((350..450).contains(&sent.len()), "{} of 500 came", sent.len());
    assert_eq!(got.count(), sent.len(), "none came twice");
    assert!(lossy.reports.times(|event| matches!(event, TransportEvent::Retransmitted { .. })).is_empty());
}

/// A window of ten packets delays datagrams that are written faster; they wait in quinn's buffer and share
/// packets with others.
#[test]
fn datagrams_that_congestion_control_holds_back_share_packets() {
    let line = Line::new(&newreno(), 1, 0.0).call(1000, Duration::from_micros(10));
    assert!(line.carried.len() < 300, "{} packets", line.carried.len());
    assert!(line.carried.is_sorted() && line.carried.iter().all(|[first, end]| end - first <= 6));
    assert_eq!(line.reports.2.len(), 1000);
}

/// quinn's buffer has 1 MiB: 32 bytes more than the content for each datagram. The oldest are dropped.
#[test]
fn a_full_buffer_drops_the_oldest_datagrams() {
    let line = Line::new(&newreno(), 1, 0.0).call(6000, Duration::from_nanos(1));
    let held = (1 << 20) / (172 + 32);
    let numbers: Vec<u64> = line.reports.2.iter().map(|(_, number)| *number).collect();
    assert!(numbers.is_sorted() && numbers.ends_with(&(6000 - held + 10..6000).collect::<Vec<_>>()));
    assert!(numbers.len() as u64 <= held + 80 && line.carried[0][0] == 0, "{} came", numbers.len());
}

/// RFC 9221, section 5: 0-RTT carries datagrams, too.
#[test]
fn hosts_that_have_met_send_datagrams_at_once() {
    let config = QuicConfig { zero_rtt: true, ..QuicConfig::default() };
    let line = Line::new(&config, 1, 0.0).call(10, Duration::from_millis(20));
    assert_eq!(line.reports.2[0], (Instant::ZERO + DELAY, 0));
    assert_eq!(line.reports.2.len(), 10);
}

/// The estimator of RFC 9002, section 5, written from its text; times are in milliseconds.
#[derive(Default)]
struct Estimator {
    latest: f64,
    min: f64,
    smoothed: Option<f64>,
    variation: f64,
}

impl Estimator {
    const MAX_ACK_DELAY: f64 = 25.0;

    fn sample(&mut self, latest: f64, ack_delay: f64) {
        self.latest = latest;
        let Some(smoothed) = self.smoothed else {
            // Section 5.2, and 5.3: "on the first RTT sample".
            (self.min, self.smoothed, self.variation) = (latest, Some(latest), latest / 2.0);
            return;
        };
        self.min = self.min.min(latest);
        let ack_delay = ack_delay.min(Self::MAX_ACK_DELAY);
        // Never below min_rtt.
        let adjusted = if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
        self.variation = 0.75 * self.variation + 0.25 * (smoothed - adjusted).abs();
        self.smoothed = Some(0.875 * smoothed + 0.125 * adjusted);
    }

    /// The names in the logs.
    fn values(&self) -> [(&'static str, f64); 4] {
        let smoothed = self.smoothed.unwrap_or_default();
        [
            ("latest_rtt", self.latest),
            ("min_rtt", self.min),
            ("smoothed_rtt", smoothed),
            ("rtt_variance", self.variation),
        ]
    }
}

/// Compares the round-trip times in the server's log with RFC 9002, section 5, applied to the packets and
/// acknowledgments in the log. Returns the estimator after each sample.
fn round_trip_times(line: &Line) -> Vec<[f64; 4]> {
    let (_, events) = &logs(line)[0];
    let mut sent = BTreeMap::new();
    let mut largest = BTreeMap::new();
    let (mut expected, mut samples) = (Estimator::default(), Vec::new());
    let mut logged: BTreeMap<&str, f64> = BTreeMap::new();
    for event in events {
        let (data, now) = (&event["data"], event["time"].as_f64().expect("a number"));
        let space = data["header"]["packet_type"].as_str().unwrap_or_default();
        let frames = || data["frames"].as_array().into_iter().flatten();
        match event["name"].as_str().expect("a name") {
            "transport:packet_sent" => {
                let asks = frames()
                    .any(|frame| !["ack", "padding"].contains(&frame["frame_type"].as_str().unwrap()));
                sent.insert((space, data["header"]["packet_number"].as_u64().unwrap()), (now, asks));
            }
            "transport:packet_received" => {
                for frame in frames().filter(|frame| frame["frame_type"] == "ack") {
                    let ranges: Vec<[u64; 2]> =
                        serde_json::from_value(frame["acked_ranges"].clone()).unwrap();
                    let newest = ranges[0][1];
                    let is_new = largest.insert(space, newest).is_none_or(|before| newest > before);
                    let (sent_at, asks) = sent[&(space, newest)];
                    if is_new && asks {
                        let delay = if space == "1RTT" { frame["ack_delay"].as_f64().unwrap() } else { 0.0 };
                        expected.sample(now - sent_at, delay);
                        samples.push(expected.values().map(|(_, value)| value));
                    }
                }
            }
            "recovery:metrics_updated" if !samples.is_empty() => {
                for (name, value) in expected.values() {
                    if let Some(new) = data[name].as_f64() {
                        logged.insert(name, new);
                    }
                    let got = logged[name];
                    assert!((got - value).abs() < 0.01, "{name} at {now} ms: {got}, not {value}");
                }
            }
            _ => {}
        }
    }
    samples
}

/// RFC 9002, sections 5.1 to 5.3, by hand: the first sample of 100 ms makes rttvar 50 ms, another one of 100
/// ms makes it 3/4 x 50 = 37.5 ms, and acknowledgments that wait at the receiver are corrected by the delay
/// that they report.
#[test]
fn round_trip_times_are_estimated_as_in_section_5_of_rfc_9002() {
    for (seed, loss) in [(1, 0.0), (2, 0.05)] {
        let config = QuicConfig::default();
        let mut line = Line::new(&config, seed, loss);
        line.ends = both(&config, Seed { study: seed, replication: 1 }, true);
        let samples = round_trip_times(&line.transfer(300_000));
        assert!(samples.len() > 20, "{}", samples.len());
        if loss == 0.0 {
            for (sample, by_hand) in
                samples.iter().zip([[100.0, 100.0, 100.0, 50.0], [100.0, 100.0, 100.0, 37.5]])
            {
                let differs =
                    sample.iter().zip(by_hand).any(|(value, expected)| (value - expected).abs() > 1e-9);
                assert!(!differs, "{sample:?}");
            }
            // All round trips take 100 ms, so only waiting at the receiver makes a sample longer.
            assert!(samples.iter().any(|[latest, ..]| *latest > 101.0));
            assert!(samples.iter().all(|[_, _, smoothed, _]| *smoothed < 101.0), "{samples:?}");
        }
    }
}
