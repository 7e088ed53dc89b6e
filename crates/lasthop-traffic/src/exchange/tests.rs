use std::collections::VecDeque;

use lasthop_core::Seed;
use proptest::prelude::*;

use super::*;
use crate::Content;

fn exchanges(keys: &str) -> Exchanges {
    let text = format!("name = \"rr\"\nstart = \"0 s\"\nresponse = \"3 kB\"\n{keys}");
    let config: RequestResponseConfig = toml::from_str(&text).expect("a configuration");
    assert_eq!(Faults::collect(|faults| config.check(Bytes(1500), faults)), []);
    Exchanges::new(&config, at(10), Host::Server, 1460, Seed { study: 1, replication: 1 }.stream("rr"))
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn actions(exchanges: &mut Exchanges) -> Vec<Action> {
    std::iter::from_fn(|| exchanges.poll_action()).collect()
}

fn write(host: Host, bytes: u64) -> Action {
    Action::Write { flow: 0, host, bytes, write_bytes: 1460, content: Content::Filler }
}

fn close(host: Host) -> Action {
    Action::Close { flow: 0, host }
}

/// The actions after a host has received this number of bytes.
fn received(exchanges: &mut Exchanges, millis: u64, host: Host, bytes: u64) -> Vec<Action> {
    exchanges.handle_news(
        at(millis),
        0,
        host,
        News { received: Some(bytes), ended: false, ..News::default() },
    );
    actions(exchanges)
}

fn ended(exchanges: &mut Exchanges, millis: u64, host: Host) -> Vec<Action> {
    exchanges.handle_news(at(millis), 0, host, News { received: None, ended: true, ..News::default() });
    actions(exchanges)
}

fn woken(exchanges: &mut Exchanges, millis: u64) -> Vec<Action> {
    exchanges.handle_wakeup(at(millis));
    actions(exchanges)
}

const fn requested(number: u64) -> Action {
    Action::Exchange { flow: 0, event: ExchangeEvent::Requested { number } }
}

const fn completed(number: u64) -> Action {
    Action::Exchange { flow: 0, event: ExchangeEvent::Completed { number } }
}

#[test]
fn two_exchanges_share_a_connection_with_a_pause_between() {
    let mut two = exchanges("requests = 2\nthink = \"100 ms\"");
    assert_eq!(woken(&mut two, 9), []);
    let connect = Action::Connect { flow: 0, host: Host::Client };
    assert_eq!(woken(&mut two, 10), [requested(0), connect, write(Host::Client, 200)]);
    assert_eq!(two.next_wakeup(), None, "the response is awaited");
    assert_eq!(received(&mut two, 50, Host::Server, 199), [], "a part of the request");
    assert_eq!(received(&mut two, 51, Host::Server, 200), [write(Host::Server, 3000)]);
    assert_eq!(received(&mut two, 60, Host::Client, 1460), []);
    assert_eq!(received(&mut two, 70, Host::Client, 3000), [completed(0)]);
    assert_eq!(two.next_wakeup(), Some(at(170)));
    assert_eq!(woken(&mut two, 170), [requested(1), write(Host::Client, 200)], "no second connection");
    assert_eq!(received(&mut two, 180, Host::Server, 400), [write(Host::Server, 3000)]);
    assert_eq!(received(&mut two, 200, Host::Client, 6000), [completed(1), close(Host::Client)]);
    assert_eq!(two.next_wakeup(), None);
    assert_eq!(ended(&mut two, 240, Host::Server), [close(Host::Server)]);
}

#[test]
fn a_lost_connection_ends_the_exchanges() {
    let mut lost = exchanges("think = \"1 s\"");
    woken(&mut lost, 10);
    received(&mut lost, 50, Host::Server, 200);
    received(&mut lost, 70, Host::Client, 3000);
    assert_eq!(ended(&mut lost, 80, Host::Client), [close(Host::Client)]);
    assert_eq!(lost.next_wakeup(), None);
}

#[test]
fn what_cannot_be_is_said_with_its_key() {
    let faults = |keys: &str| {
        let text = format!("name = \"rr\"\nstart = \"0 s\"\n{keys}");
        let config: RequestResponseConfig = toml::from_str(&text).expect("a configuration");
        let faults = Faults::collect(|faults| config.check(Bytes(1500), faults));
        faults.into_iter().map(|fault| fault.key).collect::<Vec<_>>()
    };
    assert_eq!(faults("response = \"0 B\""), ["response"]);
    assert_eq!(faults("response = \"1 kB\"\nrequests = 0"), ["requests"]);
    assert_eq!(faults("response = \"1 kB\"\nrequest = \"2 GB\""), ["request"]);
}

proptest! {
    /// For random sizes and pauses, each request has one response and each response one completion.
    #[test]
    fn as_many_responses_as_requests(requests in 1..50_u32, think in 0..500_u64, seed in any::<u64>()) {
        let sizes = r#"{ distribution = "uniform", min = "1 B", max = "5 kB" }"#;
        let text = format!(
            "name = \"rr\"\nstart = \"0 s\"\nrequests = {requests}\nresponse = {sizes}\nrequest = {sizes}\n\
             think = \"{think} ms\""
        );
        let config: RequestResponseConfig = toml::from_str(&text).expect("a configuration");
        let stream = Seed { study: seed, replication: 1 }.stream("rr");
        let mut rr = Exchanges::new(&config, at(0), Host::Client, 1460, stream);
        let (mut now, mut received, mut completions) = (at(0), [0, 0], 0);
        let mut closed = false;
        while let Some(due) = rr.next_wakeup() {
            now = now.max(due);
            rr.handle_wakeup(now);
            let mut waiting: VecDeque<Action> = actions(&mut rr).into();
            while let Some(action) = waiting.pop_front() {
                match action {
                    Action::Write { host, bytes, .. } => {
                        let total = &mut received[usize::from(host == Host::Client)];
                        *total += bytes;
                        let news = News { received: Some(*total), ended: false, ..News::default() };
                        rr.handle_news(now, 0, host.other(), news);
                        waiting.extend(actions(&mut rr));
                    }
                    Action::Exchange { event: ExchangeEvent::Completed { .. }, .. } => completions += 1,
                    Action::Close { host, .. } => {
                        prop_assert_eq!(
                            host, Host::Server, "where the client sends, the server asks"
                        );
                        closed = true;
                    }
                    _ => {}
                }
            }
        }
        prop_assert_eq!(completions, requests);
        prop_assert!(closed);
    }
}
