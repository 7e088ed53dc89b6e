//! The engine's interfaces, with an application and a transport that exist only in these tests.

use std::path::Path;

use lasthop_core::{Body, Datagram, Duration, Ecn, News, Packet};
use lasthop_scenario::Study;
use lasthop_traffic::Content;

use super::*;
use crate::flows::Ends;

const ASKS: u64 = 100;
const GETS: u64 = 250;
const START: Duration = Duration::from_secs(1);
/// How long an end waits for a response.
const PATIENCE: Duration = Duration::from_secs(3);

/// The client sends a request; the server answers with the requested number of bytes and closes.
struct Question {
    start: Option<Instant>,
    actions: Vec<Action>,
}

impl Question {
    fn write(&mut self, host: Host, bytes: u64) {
        let content = Content::Filler;
        self.actions.push(Action::Write { flow: 0, host, bytes, write_bytes: ASKS, content });
    }
}

impl Application for Question {
    fn next_wakeup(&self) -> Option<Instant> {
        self.start
    }

    fn handle_wakeup(&mut self, now: Instant) {
        if self.start.take_if(|start| *start <= now).is_some() {
            self.actions.push(Action::Connect { flow: 0, host: Host::Client });
            self.write(Host::Client, ASKS);
        }
    }

    fn handle_news(&mut self, _now: Instant, flow: u32, host: Host, news: News) {
        match (host, news.received) {
            (Host::Server, Some(ASKS)) => {
                self.write(host, GETS);
                self.actions.push(Action::Close { flow, host });
            }
            (Host::Client, Some(GETS)) => self.actions.push(Action::Complete { flow }),
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        (!self.actions.is_empty()).then(|| self.actions.remove(0))
    }
}

/// Stop-and-wait: one datagram at a time, an empty datagram as its acknowledgment, and a retransmission if
/// that does not arrive.
#[derive(Default)]
struct StopAndWait {
    /// Number of datagrams that it ignores.
    deaf: u32,
    unsent: Vec<u32>,
    sent: u64,
    /// The datagram that waits for its acknowledgment, and until when.
    waiting: Option<(Datagram, Instant)>,
    out: Vec<Datagram>,
    received: u64,
    expected: u64,
    read: u64,
    /// Time of the last event.
    happened: Option<Instant>,
}

impl StopAndWait {
    fn send_next(&mut self, now: Instant) {
        if self.waiting.is_none() && !self.unsent.is_empty() {
            let datagram = Datagram { number: self.sent, payload_bytes: self.unsent.remove(0) };
            self.sent += 1;
            self.waiting = Some((datagram, now + PATIENCE));
            self.out.push(datagram);
        }
    }
}

impl Transport for StopAndWait {
    fn connect<O: Observer>(&mut self, now: Instant, _observer: &mut O) {
        self.happened = Some(now);
    }

    fn open<O: Observer>(&mut self, _now: Instant, _observer: &mut O) {}

    fn write<O: Observer>(&mut self, now: Instant, bytes: u64, write_bytes: u64, _observer: &mut O) {
        self.happened = Some(now);
        let starts = (0..bytes).step_by(write_bytes as usize);
        self.unsent.extend(starts.map(|start| write_bytes.min(bytes - start) as u32));
        self.send_next(now);
    }

    fn close<O: Observer>(&mut self, now: Instant, _observer: &mut O) {
        self.happened = Some(now);
    }

    fn handle_packet<O: Observer>(&mut self, now: Instant, packet: &Packet, _observer: &mut O) {
        let Body::Udp(datagram) = packet.body else { panic!("nobody sends {packet:?}") };
        self.happened = Some(now);
        if self.deaf > 0 {
            self.deaf -= 1;
        } else if datagram.payload_bytes == 0 {
            self.waiting.take_if(|(sent, _)| sent.number == datagram.number);
            self.send_next(now);
        } else {
            if datagram.number == self.expected {
                self.expected += 1;
                self.received += u64::from(datagram.payload_bytes);
            }
            self.out.push(Datagram { payload_bytes: 0, ..datagram });
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.waiting.map(|(_, until)| until)
    }

    fn handle_wakeup<O: Observer>(&mut self, now: Instant, _observer: &mut O) {
        self.happened = Some(now);
        if let Some((datagram, until)) = &mut self.waiting {
            *until = now + PATIENCE;
            self.out.push(*datagram);
        }
    }

    fn poll_transmit<O: Observer>(&mut self, now: Instant, packet: &mut Packet, _observer: &mut O) -> bool {
        // A postponed timer does not count.
        assert_eq!(self.happened, Some(now), "it is asked when something has happened");
        let Some(datagram) = (!self.out.is_empty()).then(|| self.out.remove(0)) else { return false };
        packet.ip_bytes = Datagram::HEADER_BYTES + datagram.payload_bytes;
        (packet.ecn, packet.body) = (Ecn::NotEct, Body::Udp(datagram));
        true
    }

    fn news(&mut self) -> News {
        let is_more = std::mem::replace(&mut self.read, self.received) < self.received;
        News { received: is_more.then_some(self.received), ended: false, ..News::default() }
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// Hosts whose servers are deaf for a while.
struct Deaf(u32);

impl Hosts for Deaf {
    type End = StopAndWait;

    fn ends(&self, _flow: FlowId, _info: &FlowInfo, _later: Option<usize>) -> Ends<StopAndWait> {
        Ends {
            server: StopAndWait { deaf: self.0, ..StopAndWait::default() },
            client: StopAndWait::default(),
        }
    }
}

#[derive(Default)]
struct Log {
    /// Time, direction, number and payload of packets.
    sent: Vec<(Instant, Direction, u64, u32)>,
    written: Vec<(Host, u64)>,
    completed: Vec<Instant>,
}

impl Observer for Log {
    fn written(&mut self, _now: Instant, _flow: FlowId, host: Host, bytes: u64) {
        self.written.push((host, bytes));
    }

    fn completed(&mut self, now: Instant, flow: FlowId) {
        assert_eq!(flow, FlowId(0));
        self.completed.push(now);
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if let (PacketEvent::Sent, Body::Udp(Datagram { number, payload_bytes })) = (event, &packet.body) {
            self.sent.push((now, packet.direction, *number, *payload_bytes));
        }
    }
}

/// A cell of the study kulve2003.
fn published() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/kulve2003/study.toml");
    Study::from_path(&path).expect("a study").cells[0].scenario.clone()
}

/// One flow over a link of the study.
fn ask(deaf: u32) -> (Log, RunEnd) {
    let mut scenario = published();
    scenario.flow.truncate(1);
    let question = Question { start: Some(Instant::ZERO + START), actions: Vec::new() };
    let mut log = Log::default();
    let seed = Seed { study: 1, replication: 1 };
    let mut clock = Instant::ZERO;
    let mut engine = Engine::new(&scenario, seed, Deaf(deaf), vec![question], &mut log);
    let end = engine.run(&mut clock, &mut || ());
    (log, end)
}

#[test]
fn an_application_and_a_transport_of_their_own_need_nothing_else() {
    let (log, end) = ask(0);
    assert_eq!(log.written, [(Host::Client, ASKS), (Host::Server, GETS)]);
    let sent: Vec<_> =
        log.sent.iter().map(|&(_, direction, number, bytes)| (direction, number, bytes)).collect();
    let (down, up) = (Direction::Down, Direction::Up);
    let expected = [
        (up, 0, 100),
        (down, 0, 0),
        (down, 0, 100),
        (up, 0, 0),
        (down, 1, 100),
        (up, 1, 0),
        (down, 2, 50),
        (up, 2, 0),
    ];
    assert_eq!(sent, expected, "the acknowledgment of what brought the news leaves first");
    assert_eq!(log.sent[0].0, Instant::ZERO + START);
    assert_eq!((log.completed.len(), end.packets_inside), (1, 0));
}

#[test]
fn a_transport_is_woken_when_it_wants() {
    let (log, _) = ask(2);
    let asked = log.sent.iter().filter(|(_, direction, _, bytes)| *direction == Direction::Up && *bytes > 0);
    let times: Vec<Instant> = asked.map(|sent| sent.0).collect();
    let first = Instant::ZERO + START;
    assert_eq!(times, [first, first + PATIENCE, first + PATIENCE * 2]);
    assert_eq!(log.completed.len(), 1);
}

#[test]
fn a_checkpoint_comes_once_a_second_and_may_end_the_run() {
    let (scenario, seed) = (published(), Seed { study: 1, replication: 1 });
    let mut checkpoints = 0;
    let try_run = |checkpoint: &mut dyn FnMut()| {
        super::try_run(&scenario, seed, &mut HostMemory::default(), &mut (), checkpoint)
    };
    let end = try_run(&mut || checkpoints += 1).expect("nothing ends it");
    let seconds = end.time.as_nanos() / 1_000_000_000;
    assert!((seconds / 2..=seconds).contains(&checkpoints), "{checkpoints} in {seconds} s");
    assert_eq!(end, run(&scenario, seed, &mut HostMemory::default(), &mut ()));
    let ended = try_run(&mut || Failure::new("enough".to_owned()).raise()).expect_err("it has been ended");
    assert_eq!(ended.failure.message, "enough");
    assert!(ended.at < Instant::ZERO + Duration::from_secs(3));
}
