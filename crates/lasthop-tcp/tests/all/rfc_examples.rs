//! The worked examples of the RFCs, kept as data in `data/rfc_examples.json`.

use crate::support::poll;
use crate::wire::{self, Wire, config};
use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, Segment, TransportEvent, UndoCause};
use lasthop_tcp::{CachedMetrics, CongestionControl, Endpoint, FRtoMode, Profile, TcpConfig, TickClock};
use serde_json::Value;

/// Entries that need a missing mechanism, and the mechanism.
const WAITING: &[(&str, &str)] = &[
    ("rfc3649_table2", "a response-function experiment: deterministic loss over long runs"),
    ("rfc4138_A2", "a second reduction of ssthresh by a timeout in fast recovery, which Linux does not make"),
    (
        "rfc4138_A4",
        "SACKed segments that count into the window; traces/frto.rs plays it with in-flight accounting",
    ),
    ("rfc7323_F", "window scaling"),
    ("rfc8312_table1", "a response-function experiment: deterministic loss over long runs"),
    ("rfc8312_table2", "a response-function experiment: deterministic loss over long runs"),
    ("rfc8985_34", "a window: proportional rate reduction lets one segment go where the example sends two"),
];

const RECEIVER: &[&str] = &[
    "rfc2018_sec7_case1",
    "rfc2018_sec7_case2",
    "rfc2018_sec7_case3",
    "rfc2883_411",
    "rfc2883_412",
    "rfc2883_413",
    "rfc2883_421",
    "rfc2883_422",
    "rfc2883_423",
    "rfc2883_51",
    "rfc2883_52",
    "rfc2883_53",
    "rfc2883_54",
];
const FRTO: &[&str] = &["rfc4138_A1", "rfc4138_A3"];
const PRR: &[&str] = &["rfc6937_31_single", "rfc6937_31_burst15"];
const SLOW_START: &str = "rfc6928_51_table";

fn examples() -> Value {
    serde_json::from_str(include_str!("../data/rfc_examples.json")).expect("the data is JSON")
}

#[test]
fn every_entry_is_exercised_or_waits_for_a_named_mechanism() {
    let file = examples();
    let mut covered: Vec<&str> = WAITING.iter().map(|&(name, _)| name).collect();
    covered.extend(RECEIVER);
    covered.extend(FRTO);
    covered.extend(PRR);
    covered.push(SLOW_START);
    covered.sort_unstable();
    let mut entries: Vec<&str> = file.as_object().unwrap().keys().map(String::as_str).collect();
    entries.sort_unstable();
    assert_eq!(covered, entries);
}

fn range(value: &Value) -> (u64, u64) {
    (value[0].as_u64().unwrap(), value[1].as_u64().unwrap())
}

/// An endpoint that receives the segments of one receiver example. Its MSS is smaller than the segments of
/// the examples, so that each of them counts as two segments and is acknowledged at once.
struct ReceiverExample {
    tcp: Endpoint,
    rcv_nxt: u64,
}

impl ReceiverExample {
    fn open(rcv_nxt: u64) -> Self {
        let config = config(|c| {
            c.sack = true;
            c.dsack = true;
        });
        let clock = TickClock::new(config.tick, Duration::ZERO);
        let mut tcp = Endpoint::listen(config.clone(), 40 + 499, clock, FlowId(0), Host::Client);
        let syn = Segment { flags: Flags::SYN, sack_permitted: true, ..Segment::default() };
        tcp.handle_segment(Instant::ZERO, &syn, Ecn::NotEct, None, &mut ());
        let (syn_ack, _) = poll(&mut tcp, Instant::ZERO).expect("the SYN is answered");
        assert_eq!((syn_ack.ack, syn_ack.sack_permitted), (1, true));
        Self { tcp, rcv_nxt }
    }

    /// The ACK that answers a segment, in the example's byte numbers.
    fn take(&mut self, (start, end): (u64, u64)) -> (u64, Vec<(u64, u64)>) {
        let segment = Segment {
            seq: start - self.rcv_nxt + 1,
            payload_bytes: (end - start) as u32,
            ack: 1,
            flags: Flags::ACK,
            ..Segment::default()
        };
        self.tcp.handle_segment(Instant::ZERO, &segment, Ecn::NotEct, None, &mut ());
        let (ack, _) = poll(&mut self.tcp, Instant::ZERO).expect("each segment is acknowledged");
        assert!(poll(&mut self.tcp, Instant::ZERO).is_none(), "one ACK for one segment");
        let shown = |offset: u64| offset - 1 + self.rcv_nxt;
        let blocks = ack.sack.as_slice().iter().map(|b| (shown(b.start), shown(b.end)));
        (shown(ack.ack), blocks.collect())
    }
}

#[test]
fn receiver_sends_the_acks_and_sack_blocks_of_rfc_2018_and_2883() {
    let file = examples();
    for &name in RECEIVER {
        let example = &file[name];
        let mut receiver = ReceiverExample::open(example["rcv_nxt"].as_u64().unwrap());
        for event in example["events"].as_array().unwrap() {
            if event["lost"] == true {
                continue;
            }
            let sack: Vec<_> = event["sack"].as_array().unwrap().iter().map(range).collect();
            let expected = (event["ack"].as_u64().unwrap(), sack);
            assert_eq!(receiver.take(range(&event["seg"])), expected, "{name}: {}", event["seg"]);
        }
    }
}

/// The examples of RFC 4138 begin with segments 4 to 9 in flight.
const FIRST_SEGMENT: u64 = 4;

/// One example of RFC 4138, appendix A, played against a sender.
struct FRtoExample<'a> {
    name: &'a str,
    wire: Wire,
    una: u64,
    /// Next segment never sent so far.
    highest: u64,
    /// Segments sent in response to the latest event, and not yet checked.
    sent: Vec<u64>,
}

impl<'a> FRtoExample<'a> {
    fn open(name: &'a str, init: &Value) -> Self {
        let config = config(|c| {
            c.frto = FRtoMode::Rfc4138;
            c.sack = false;
            c.limited_transmit = false;
            c.initial_window = init["cwnd"].as_u64().unwrap() as u32;
        });
        // Congestion avoidance from the start: the window of the examples does not grow.
        let cached = CachedMetrics { ssthresh: config.initial_window - 1, ..CachedMetrics::default() };
        let wire = Wire::open_with_cache(&config, 40, Some(&cached));
        let flight = init["flight"].as_u64().unwrap();
        assert_eq!(u64::from(wire.window().2), flight, "{name}: the first flight");
        Self { name, wire, una: FIRST_SEGMENT, highest: FIRST_SEGMENT + flight, sent: Vec::new() }
    }

    fn play(&mut self, event: &Value) {
        let name = self.name;
        if event[0] == "send" {
            let number = event[1].as_u64().unwrap();
            assert_eq!(self.sent.first(), Some(&number), "{name}: {event}");
            self.sent.remove(0);
            self.highest = self.highest.max(number + 1);
            return;
        }
        if let Some(state) = event.get("state") {
            self.check_state(state);
            return;
        }
        assert_eq!(self.sent, [0; 0], "{name}: sent before {event}");
        let sent = if event[0] == "ack" {
            self.una = event[1].as_u64().unwrap();
            self.wire.ack(self.una - FIRST_SEGMENT)
        } else {
            assert_eq!(event[0], "rto");
            self.wire.expire()
        };
        self.sent = sent.iter().map(|number| number + FIRST_SEGMENT).collect();
    }

    fn check_state(&self, state: &Value) {
        let (cwnd, ssthresh, _) = self.wire.window();
        let expected = |key: &str| state[key].as_u64().unwrap();
        let spurious = state.get("spurious").map(|spurious| spurious == true);
        // After a genuine timeout, Linux still counts the two new segments as in flight and adds them to the
        // window; the window of the RFC is the amount that may be sent in addition to them.
        let new_segments = if spurious == Some(false) { 2 } else { 0 };
        let window = (u64::from(cwnd) - new_segments, u64::from(ssthresh));
        assert_eq!(window, (expected("cwnd"), expected("ssthresh")), "{}: {state}", self.name);
        let undone = self.wire.count(TransportEvent::Undone(UndoCause::FRto)) > 0;
        assert_eq!(undone, spurious == Some(true), "{}: {state}", self.name);
        // FlightSize of RFC 5681: data sent and not acknowledged, regardless of the sender's accounting.
        assert_eq!(self.highest - self.una, expected("flight"), "{}: {state}", self.name);
    }
}

#[test]
fn frto_follows_the_appendix_of_rfc_4138() {
    let file = examples();
    for &name in FRTO {
        let example = &file[name];
        let mut play = FRtoExample::open(name, &example["init"]);
        for event in example["events"].as_array().unwrap() {
            play.play(event);
        }
        assert_eq!(play.sent, [0; 0], "{name}: sent at the end");
    }
}

/// Number of segments that have left after each round trip, without loss and with infinite bandwidth. The
/// delayed-ACK timer never fires, as in the recurrence behind the RFC's table.
fn segments_after_each_round(initial_window: u32) -> Vec<u64> {
    let config = config(|c| {
        c.initial_window = initial_window;
        c.first_segment_acked_at_once = false;
        c.receive_window_initial = 10_000;
        c.receive_window_max = 10_000;
        c.window_scaling = true;
    });
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut server = Endpoint::listen(config.clone(), wire::MTU, clock, FlowId(0), Host::Server);
    let mut client = Endpoint::listen(config.clone(), wire::MTU, clock, FlowId(0), Host::Client);
    let mss = u64::from(server.mss());
    let mut now = Instant::ZERO;
    server.connect(now, &mut ());
    server.write(now, 400 * mss, mss, &mut ());
    let mut totals = Vec::new();
    let mut total = 0;
    while total < 150 {
        let flight: Vec<Segment> =
            std::iter::from_fn(|| poll(&mut server, now)).map(|(segment, _)| segment).collect();
        total += flight.iter().filter(|segment| segment.payload_bytes > 0).count() as u64;
        totals.push(total);
        now += Duration::from_millis(100);
        let mut answers: Vec<Segment> = Vec::new();
        for segment in flight {
            client.handle_segment(now, &segment, Ecn::NotEct, None, &mut ());
            answers.extend(std::iter::from_fn(|| poll(&mut client, now)).map(|(segment, _)| segment));
        }
        for answer in answers {
            server.handle_segment(now, &answer, Ecn::NotEct, None, &mut ());
        }
    }
    // The first round was the handshake's.
    totals.split_off(1)
}

#[test]
fn slow_start_takes_the_round_trips_of_rfc_6928() {
    let iw3 = segments_after_each_round(3);
    let iw10 = segments_after_each_round(10);
    assert_eq!(iw3[..8], [3, 6, 12, 21, 33, 51, 78, 120]);
    assert_eq!(iw10[..5], [10, 25, 46, 79, 127]);
    let rounds = |totals: &[u64], segments: u64| totals.partition_point(|&total| total < segments) + 1;
    for row in examples()[SLOW_START]["rows"].as_array().unwrap() {
        let [segments, three, ten] = [0, 1, 2].map(|column| row[column].as_u64().unwrap());
        let found = (rounds(&iw3, segments) as u64, rounds(&iw10, segments) as u64);
        assert_eq!(found, (three, ten), "{segments} segments");
    }
}

/// Twenty segments in flight under Linux 6, with losses detected by counts of SACKed segments, as in the
/// examples.
fn twenty_in_flight() -> Wire {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("the profile is complete");
    (config.initial_window, config.rack, config.tail_loss_probe) = (20, false, false);
    config.congestion_control = CongestionControl::Reno;
    let mut wire = Wire::open(&config, 60);
    wire.wait(600);
    wire
}

/// RFC 6937, section 3.1: the segments that each ACK releases; "N" is new, "R" is a retransmission, preceded
/// by the number if more than one. Linux halves the window of 20, and the example halves the flight size of
/// 22, so the last three ACKs differ. Without progress at the left edge Linux keeps the conservative bound.
#[test]
fn proportional_rate_reduction() {
    for name in PRR {
        let example = &examples()[name];
        let acks: Vec<u64> =
            example["acks"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let lost = acks[0];
        let expected = example.get("prr").or(example.get("prr_crb")).unwrap()["sent"].as_array().unwrap();
        let mut wire = twenty_in_flight();
        for (ack, expected) in acks.iter().zip(expected).take(16) {
            wire.wait(2);
            let sent = wire.sack(0, &[(lost, ack + 1)]);
            let again = sent.iter().filter(|&&number| number < 20).count();
            let word = match (again, sent.len() - again) {
                (0, 0) => String::new(),
                (0, 1) => "N".into(),
                (1, 0) => "R".into(),
                (again, 0) => format!("{again}R"),
                mixed => format!("{mixed:?}"),
            };
            assert_eq!(word, expected.as_str().unwrap(), "{name}, ACK for {ack}");
        }
    }
}
