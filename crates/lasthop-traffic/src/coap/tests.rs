use std::collections::BTreeMap;

use lasthop_core::Seed;
use proptest::prelude::*;

use super::*;

const CLIENT: Host = Host::Client;
const SERVER: Host = Host::Server;

fn config(keys: &str) -> CoapConfig {
    let interval = if keys.contains("interval") { "" } else { "interval = \"10 s\"\n" };
    let text = format!("name = \"coap\"\nresponse = \"20 B\"\n{interval}start = \"0 s\"\n{keys}");
    toml::from_str(&text).expect("a configuration")
}

/// A client whose first request is made at 0, with these keys.
fn coap(keys: &str, seed: u64) -> Coap {
    let config = config(keys);
    assert_eq!(Faults::collect(|faults| config.check(Bytes(1500), faults)), []);
    Coap::new(&config, Instant::ZERO, SERVER, Seed { study: seed, replication: 1 }.stream("coap"))
}

/// A timer of exactly 2 s, then 4 s and so on.
fn fixed(keys: &str) -> Coap {
    coap(&format!("ack_random_factor = 1\n{keys}"), 1)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn actions(coap: &mut Coap) -> Vec<Action> {
    std::iter::from_fn(|| coap.poll_action()).collect()
}

/// The actions when it is woken, at a time when it wants that.
fn woken(coap: &mut Coap, millis: u64) -> Vec<Action> {
    assert_eq!(coap.next_wakeup(), Some(at(millis)));
    coap.handle_wakeup(at(millis));
    actions(coap)
}

/// The actions after a host has received the datagram with this number.
fn received(coap: &mut Coap, millis: u64, host: Host, datagram: u32) -> Vec<Action> {
    coap.handle_stream(at(millis), 0, host, datagram, 20);
    actions(coap)
}

const REQUEST: Action = Action::datagram(CLIENT, 200);
const RESPONSE: Action = Action::datagram(SERVER, 20);
const OVER: Action = Action::Complete { flow: 0 };

const fn told(event: ExchangeEvent) -> Action {
    Action::Exchange { flow: 0, event }
}

const fn requested(number: u64) -> Action {
    told(ExchangeEvent::Requested { number })
}

const fn completed(number: u64) -> Action {
    told(ExchangeEvent::Completed { number })
}

const fn spurious(timeouts: u32, retransmissions: u32) -> Action {
    told(ExchangeEvent::Spurious { number: 0, timeouts, retransmissions })
}

const fn expired(seq: u64, backoff: u32) -> Action {
    Action::Transport { flow: 0, host: CLIENT, event: TransportEvent::Timeout { seq, backoff } }
}

const fn again(seq: u64) -> Action {
    let event = TransportEvent::Retransmitted { seq, kind: RetransmissionKind::Timeout };
    Action::Transport { flow: 0, host: CLIENT, event }
}

#[test]
fn each_request_has_a_response_and_the_next_one_comes_at_its_time() {
    let mut two = fixed("requests = 2");
    assert_eq!(woken(&mut two, 0), [requested(0), REQUEST]);
    assert_eq!(received(&mut two, 300, SERVER, 0), [RESPONSE]);
    assert_eq!(received(&mut two, 600, CLIENT, 0), [completed(0)]);
    assert_eq!(woken(&mut two, 10_000), [requested(1), REQUEST]);
    assert_eq!(received(&mut two, 10_300, SERVER, 1), [RESPONSE]);
    assert_eq!(received(&mut two, 10_600, CLIENT, 1), [completed(1), OVER]);
    assert_eq!(two.next_wakeup(), None);
}

#[test]
fn a_lost_request_is_sent_again_when_the_timer_expires() {
    let mut one = fixed("requests = 1");
    assert_eq!(woken(&mut one, 0), [requested(0), REQUEST]);
    // Datagram 0 is lost.
    assert_eq!(woken(&mut one, 2_000), [expired(0, 1), again(0), REQUEST]);
    assert_eq!(received(&mut one, 2_300, SERVER, 1), [RESPONSE]);
    assert_eq!(received(&mut one, 2_600, CLIENT, 0), [completed(0), OVER]);
}

#[test]
fn the_server_answers_a_duplicate_with_the_same_response() {
    let mut one = fixed("requests = 1");
    woken(&mut one, 0);
    assert_eq!(received(&mut one, 300, SERVER, 0), [RESPONSE]);
    // The response is lost.
    assert_eq!(woken(&mut one, 2_000), [expired(0, 1), again(0), REQUEST]);
    assert_eq!(received(&mut one, 2_300, SERVER, 1), [RESPONSE]);
    assert_eq!(received(&mut one, 2_600, CLIENT, 1), [completed(0), OVER], "the retransmission was needed");
    assert_eq!(received(&mut one, 2_700, SERVER, 1), [RESPONSE], "a copy made by the network");
    assert_eq!(received(&mut one, 3_000, CLIENT, 2), [], "the client has the response already");
}

#[test]
fn a_response_that_was_on_its_way_shows_that_the_timer_was_too_short() {
    let mut one = fixed("requests = 1");
    woken(&mut one, 0);
    assert_eq!(received(&mut one, 1_500, SERVER, 0), [RESPONSE]);
    assert_eq!(woken(&mut one, 2_000), [expired(0, 1), again(0), REQUEST]);
    assert_eq!(received(&mut one, 3_000, CLIENT, 0), [spurious(1, 1), completed(0), OVER]);
    assert_eq!(received(&mut one, 3_500, SERVER, 1), [RESPONSE]);
    assert_eq!(received(&mut one, 5_000, CLIENT, 1), []);
}

/// The responses to transmissions 1 and 0 arrive in this order: first one expiry counts as spurious, then both.
#[test]
fn responses_out_of_order_count_each_spurious_expiry_once() {
    let mut one = fixed("requests = 1");
    woken(&mut one, 0);
    woken(&mut one, 2_000);
    woken(&mut one, 6_000);
    received(&mut one, 6_100, SERVER, 0);
    received(&mut one, 6_200, SERVER, 1);
    assert_eq!(received(&mut one, 7_000, CLIENT, 1), [spurious(1, 1), completed(0), OVER]);
    assert_eq!(received(&mut one, 7_100, CLIENT, 0), [spurious(1, 1)]);
}

/// RFC 7252, section 4.8.2: with the default parameters, the last retransmission leaves after at most 45 s
/// (`MAX_TRANSMIT_SPAN`), and the client gives up after at most 93 s (`MAX_TRANSMIT_WAIT`).
#[test]
fn the_timer_doubles_until_the_client_gives_up() {
    let mut one = fixed("requests = 1");
    woken(&mut one, 0);
    for (transmission, millis) in [(1, 2_000), (2, 6_000), (3, 14_000), (4, 30_000)] {
        assert_eq!(woken(&mut one, millis), [expired(0, transmission), again(0), REQUEST]);
    }
    assert_eq!(woken(&mut one, 62_000), [expired(0, 5), OVER], "it has been sent five times");
    assert_eq!(one.next_wakeup(), None);
    // It comes too late, but shows that all expiries but the first were spurious.
    received(&mut one, 62_100, SERVER, 1);
    assert_eq!(received(&mut one, 62_200, CLIENT, 0), [spurious(4, 3)]);
    let defaults = config("");
    assert_eq!(defaults.transmit_wait(), Duration::from_secs(93));
    assert_eq!(defaults.lifetime(), Duration::from_secs(247));
}

#[test]
fn the_first_timeout_is_drawn_between_its_limits() {
    let first = |seed| {
        let mut one = coap("requests = 1", seed);
        woken(&mut one, 0);
        one.next_wakeup().expect("a timer").as_secs_f64()
    };
    let mut drawn: Vec<f64> = (0..500).map(first).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    assert!(drawn[0] >= 2.0 && drawn[499] <= 3.0, "{drawn:?}");
    assert!(drawn[0] < 2.02 && drawn[499] > 2.98 && (drawn[250] - 2.5).abs() < 0.1, "{drawn:?}");
    let mut one = coap("requests = 1", 1);
    woken(&mut one, 0);
    let first = one.next_wakeup().expect("a timer");
    one.handle_wakeup(first);
    let second = one.next_wakeup().expect("a timer");
    assert_eq!(second.saturating_since(first), first.saturating_since(Instant::ZERO) * 2);
}

#[test]
fn with_nstart_1_a_request_waits_until_the_one_before_is_over() {
    let mut three = fixed("requests = 3\ninterval = \"1 s\"\nmax_retransmit = 0");
    assert_eq!(woken(&mut three, 0), [requested(0), REQUEST]);
    assert_eq!(woken(&mut three, 1_000), [requested(1)]);
    assert_eq!(received(&mut three, 1_200, SERVER, 0), [RESPONSE]);
    assert_eq!(received(&mut three, 1_500, CLIENT, 0), [completed(0), REQUEST]);
    assert_eq!(woken(&mut three, 2_000), [requested(2)]);
    assert_eq!(woken(&mut three, 3_500), [expired(1, 1), REQUEST], "request 1 is given up");
}

#[test]
fn with_nstart_2_the_second_request_does_not_wait() {
    let mut three = fixed("requests = 3\ninterval = \"500 ms\"\nnstart = 2");
    assert_eq!(woken(&mut three, 0), [requested(0), REQUEST]);
    assert_eq!(woken(&mut three, 500), [requested(1), REQUEST]);
    assert_eq!(woken(&mut three, 1_000), [requested(2)]);
    received(&mut three, 1_100, SERVER, 0);
    received(&mut three, 1_100, SERVER, 1);
    assert_eq!(received(&mut three, 1_200, CLIENT, 1), [completed(1), REQUEST], "request 0 is still open");
    assert_eq!(woken(&mut three, 2_000), [expired(0, 1), again(0), REQUEST]);
    assert_eq!(received(&mut three, 2_100, CLIENT, 0), [spurious(1, 1), completed(0)]);
}

#[test]
fn what_no_message_can_refer_to_is_forgotten() {
    let mut long = fixed("requests = 1000");
    for number in 0..1000 {
        woken(&mut long, u64::from(number) * 10_000);
        received(&mut long, u64::from(number) * 10_000 + 1, SERVER, number);
        received(&mut long, u64::from(number) * 10_000 + 2, CLIENT, number);
    }
    // EXCHANGE_LIFETIME without the random factor is 30 s + 200 s + 2 s.
    assert!(long.exchanges.len() <= 25 && long.sent.iter().all(|sent| sent.messages.len() <= 25));
}

#[test]
fn each_fault_names_its_key() {
    let faults = |keys: &str| {
        let faults = Faults::collect(|faults| config(keys).check(Bytes(1500), faults));
        faults.into_iter().map(|fault| (fault.key, fault.message)).collect::<Vec<_>>()
    };
    let keys = |keys: &str| faults(keys).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys("requests = 0"), ["requests"]);
    assert_eq!(keys("ack_timeout = \"0 s\""), ["ack_timeout"]);
    assert_eq!(keys("ack_timeout = \"2 h\""), ["ack_timeout"]);
    assert_eq!(keys("ack_random_factor = 0.9"), ["ack_random_factor"]);
    assert_eq!(keys("ack_random_factor = nan"), ["ack_random_factor"]);
    assert_eq!(keys("max_retransmit = 400"), ["max_retransmit", "ack_timeout"]);
    assert_eq!(keys("nstart = 0"), ["nstart"]);
    assert_eq!(keys("request = \"3 B\""), ["request"]);
    let [(key, message)] = &faults("request = \"1473 B\"")[..] else { panic!("one fault") };
    assert!(key == "request" && message.ends_with("write from \"4 B\" to \"1472 B\""), "{message}");
}

/// When a network with these losses and delays delivers each datagram, if at all.
fn delivered(seed: u64, loss: f64, most_millis: u64) -> impl FnMut(Instant) -> Option<Instant> {
    let mut stream = Seed { study: seed, replication: 2 }.stream("network");
    move |now| {
        let delay = Duration::from_nanos((stream.unit() * most_millis as f64 * 1e6) as u64);
        (stream.unit() >= loss).then_some(now + delay)
    }
}

proptest! {
    /// Over any network, every request is completed or given up, after at most four retransmissions, and it is
    /// completed within MAX_TRANSMIT_WAIT. NSTART holds.
    #[test]
    fn every_request_ends(
        requests in 1..30_u32, nstart in 1..4_u32, interval in 0..20_000_u64, loss in prop_oneof![Just(0.0), 0.0..0.9_f64],
        most_millis in 0..20_000_u64, seed in any::<u64>(),
    ) {
        let keys = format!("requests = {requests}\nnstart = {nstart}\n");
        let mut config = config(&keys);
        config.interval = Distribution::Static(Duration::from_millis(interval));
        let stream = Seed { study: seed, replication: 1 }.stream("coap");
        let mut coap = Coap::new(&config, Instant::ZERO, SERVER, stream);
        let mut network = delivered(seed, loss, most_millis);
        // Datagrams on their way, by arrival.
        let mut on_the_way: BTreeMap<(Instant, u32), (Host, u32)> = BTreeMap::new();
        let (mut sent, mut order) = ([0_u32; 2], 0);
        let (mut first_sent, mut retransmissions, mut completions) = (Vec::new(), BTreeMap::new(), 0);
        let (mut is_again, mut spurious_seen, mut is_over) = (false, 0, false);
        loop {
            let arrival = on_the_way.first_key_value().map(|((at, _), _)| *at);
            let Some(now) = coap.next_wakeup().into_iter().chain(arrival).min() else { break };
            if arrival == Some(now) {
                let (_, (host, datagram)) = on_the_way.pop_first().expect("it is there");
                coap.handle_stream(now, 0, host, datagram, 1);
            } else {
                coap.handle_wakeup(now);
            }
            for action in actions(&mut coap) {
                match action {
                    Action::Write { host, .. } => {
                        if host == CLIENT && !std::mem::take(&mut is_again) {
                            first_sent.push(now);
                        }
                        let number = sent[host as usize];
                        sent[host as usize] += 1;
                        order += 1;
                        if let Some(at) = network(now) {
                            on_the_way.insert((at, order), (host.other(), number));
                        }
                    }
                    Action::Transport { event: TransportEvent::Retransmitted { seq, .. }, .. } => {
                        is_again = true;
                        *retransmissions.entry(seq).or_insert(0) += 1;
                    }
                    Action::Exchange { event: ExchangeEvent::Completed { number }, .. } => {
                        completions += 1;
                        let took = now.saturating_since(first_sent[number as usize]);
                        prop_assert!(took <= Duration::from_secs(93), "{took}");
                    }
                    Action::Exchange { event: ExchangeEvent::Spurious { retransmissions, .. }, .. } => {
                        spurious_seen += retransmissions;
                    }
                    Action::Complete { .. } => {
                        prop_assert!(!std::mem::replace(&mut is_over, true));
                    }
                    _ => {}
                }
            }
            prop_assert!(coap.outstanding.len() <= nstart as usize);
        }
        prop_assert!(is_over && first_sent.len() == requests as usize && completions <= requests);
        prop_assert!(retransmissions.values().all(|number| *number <= 4));
        prop_assert!(spurious_seen <= retransmissions.values().sum());
        prop_assert!(loss > 0.0 || completions == requests);
    }
}
