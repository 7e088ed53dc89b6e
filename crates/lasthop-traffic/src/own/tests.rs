use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lasthop_core::{Seed, UserName};

use super::*;

/// A write of 100 bytes at the start and another a second later.
#[derive(Debug)]
struct Twice;

impl TrafficAlgorithm for Twice {
    fn on_start(&mut self, now: Instant, wanted: &mut Wanted) {
        wanted.send(100);
        wanted.wake_at(now + Duration::from_secs(1));
    }

    fn on_wakeup(&mut self, _now: Instant, wanted: &mut Wanted) {
        wanted.send(100);
        wanted.close();
    }
}

/// Requests to be woken immediately, forever.
#[derive(Debug)]
struct Restless;

impl TrafficAlgorithm for Restless {
    fn on_start(&mut self, now: Instant, wanted: &mut Wanted) {
        wanted.wake_at(now);
    }

    fn on_wakeup(&mut self, _now: Instant, _wanted: &mut Wanted) {}
}

/// Requests at 0 s and 1 s, of which the later one is complete first; the earlier one is complete twice.
#[derive(Debug)]
struct Crossed;

impl TrafficAlgorithm for Crossed {
    fn on_start(&mut self, now: Instant, wanted: &mut Wanted) {
        assert_eq!(wanted.request(), 0);
        wanted.wake_at(now + Duration::from_secs(1));
    }

    fn on_wakeup(&mut self, now: Instant, wanted: &mut Wanted) {
        if now < Instant::ZERO + Duration::from_secs(2) {
            let number = wanted.request();
            wanted.complete(number);
            wanted.wake_at(now + Duration::from_secs(1));
        } else {
            wanted.complete(0);
            wanted.complete(0);
        }
    }
}

fn traffic(code: fn() -> Box<dyn TrafficAlgorithm>, duration: u64, protocol: Protocol) -> OwnTraffic {
    let name = UserName::try_from("rust:twice".to_owned()).expect("a name");
    let code: UserTraffic = UserCode::new(name, Arc::new(move |_| code()));
    let stream = Seed { study: 1, replication: 1 }.stream("own.flow");
    let setup = TrafficSetup { stream, flow: "flow".into(), segment_bytes: 1_000 };
    let facts = Facts { name: code.name().to_owned(), sender: Host::Server, protocol, write_bytes: 1_000 };
    OwnTraffic::new(code.make(setup), Instant::ZERO, Duration::from_millis(duration), facts)
}

/// Its actions, each with its time in ms.
fn played(mut traffic: OwnTraffic) -> Vec<(u64, Action)> {
    let mut actions = Vec::new();
    while let Some(due) = traffic.next_wakeup() {
        traffic.handle_wakeup(due);
        actions
            .extend(std::iter::from_fn(|| traffic.poll_action()).map(|it| (due.as_nanos() / 1_000_000, it)));
        assert!(actions.len() < 10, "{actions:?}");
    }
    actions
}

const HOST: Host = Host::Server;
const WRITE: Action =
    Action::Write { flow: 0, host: HOST, bytes: 100, write_bytes: 1_000, content: Content::Filler };
const CLOSE: [Action; 2] = [Action::Complete { flow: 0 }, Action::Close { flow: 0, host: HOST }];

#[test]
fn it_connects_by_itself_and_ends_when_it_says_so() {
    let actions = played(traffic(|| Box::new(Twice), 5_000, Protocol::Tcp));
    let wanted = [(0, Action::Connect { flow: 0, host: HOST }), (0, WRITE), (1_000, WRITE)];
    assert_eq!(actions[..5], [&wanted[..], &CLOSE.map(|action| (1_000, action))].concat());
}

#[test]
fn its_duration_ends_it() {
    let actions = played(traffic(|| Box::new(Twice), 500, Protocol::Tcp));
    let stop = Action::Stop { flow: 0, host: HOST };
    assert_eq!(actions[2..], [stop, CLOSE[0], CLOSE[1]].map(|action| (500, action)));
}

#[test]
fn a_wish_that_would_never_let_time_pass_ends_the_run() {
    let run = || played(traffic(|| Box::new(Restless), 500, Protocol::Udp));
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("it wants to be woken now");
    assert!(Failure::caught(payload).message.contains("the time is not in the future"));
}

#[test]
fn a_request_is_complete_once() {
    let mut crossed = traffic(|| Box::new(Crossed), 5_000, Protocol::Udp);
    let mut seen = Vec::new();
    for seconds in 0..2 {
        crossed.handle_wakeup(Instant::ZERO + Duration::from_secs(seconds));
        seen.extend(std::iter::from_fn(|| crossed.poll_action()));
    }
    let told = |event| Action::Exchange { flow: 0, event };
    let [first, second] = [0, 1].map(|number| told(ExchangeEvent::Requested { number }));
    assert_eq!(seen, [first, second, told(ExchangeEvent::Completed { number: 1 })]);
    let run = || crossed.handle_wakeup(Instant::ZERO + Duration::from_secs(2));
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("it is complete already");
    let message = Failure::caught(payload).message;
    assert!(message.contains("complete(0): pass the number of a request that is not complete"), "{message}");
}
