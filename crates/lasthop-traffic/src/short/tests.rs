use lasthop_core::Seed;

use super::*;

fn config(arrivals: Arrivals) -> ShortFlowsConfig {
    let hosts = |name: &str, initial_window| ShortHosts {
        name: name.into(),
        initial_window,
        receive_window_initial: 16,
    };
    ShortFlowsConfig {
        name: "short".into(),
        packets: 9,
        request: Bytes(200),
        start: Distribution::Static(Duration::ZERO),
        arrivals,
        hosts: vec![hosts("iw3", 3), hosts("iw10", 10)],
    }
}

const SEGMENT: u64 = 1_000;

fn flows(arrivals: Arrivals) -> ShortFlows {
    let stream = Seed { study: 1, replication: 1 }.stream("short");
    ShortFlows::new(&config(arrivals), Instant::ZERO, Duration::from_secs(2), (9 * SEGMENT, SEGMENT), stream)
}

fn sequential() -> ShortFlows {
    flows(Arrivals::Sequential { gap: Distribution::Static(Duration::from_millis(20)) })
}

fn random() -> ShortFlows {
    flows(Arrivals::Poisson { load: Probability::new(0.5).unwrap() })
}

fn actions(flows: &mut ShortFlows) -> Vec<Action> {
    std::iter::from_fn(|| flows.poll_action()).collect()
}

/// The index of the hosts of the flow that is started at `now`.
fn start(flows: &mut ShortFlows, now: Instant) -> Option<usize> {
    flows.handle_wakeup(now);
    match actions(flows)[..] {
        [] => None,
        [
            Action::Open { flow, hosts },
            Action::Connect { host: Host::Client, .. },
            Action::Write { bytes: 200, .. },
        ] => {
            assert_eq!(flow + 1, flows.started);
            Some(hosts)
        }
        ref other => panic!("{other:?}"),
    }
}

fn received(bytes: u64) -> News {
    News { received: Some(bytes), ended: false, ..News::default() }
}

#[test]
fn the_whole_request_is_answered_in_full_segments_and_the_whole_response_completes_it() {
    let mut flows = sequential();
    start(&mut flows, Instant::ZERO);
    let now = Instant::ZERO + Duration::from_secs(1);
    flows.handle_news(now, 0, Host::Server, received(199));
    assert_eq!(actions(&mut flows), []);
    flows.handle_news(now, 0, Host::Server, received(200));
    let (flow, host, content) = (0, Host::Server, Content::Filler);
    let response = Action::Write { flow, host, bytes: 9 * SEGMENT, write_bytes: SEGMENT, content };
    assert_eq!(actions(&mut flows), [response, Action::Close { flow, host }]);
    flows.handle_news(
        now,
        0,
        Host::Client,
        News { received: Some(9 * SEGMENT), ended: true, ..News::default() },
    );
    assert_eq!(actions(&mut flows), [Action::Complete { flow }, Action::Close { flow, host: Host::Client }]);
    assert_eq!(flows.next_wakeup(), Some(now + Duration::from_millis(20)));
}

#[test]
fn the_next_one_starts_the_gap_after_the_last_is_over() {
    let mut flows = sequential();
    assert!(start(&mut flows, Instant::ZERO).is_some());
    assert_eq!(flows.next_wakeup(), None, "it is under way");
    let lost = News { received: None, ended: true, ..News::default() };
    let over = Instant::ZERO + Duration::from_secs(12);
    flows.handle_news(over, 3, Host::Client, lost);
    assert_eq!(flows.next_wakeup(), None, "that was another one");
    flows.handle_news(over, 0, Host::Client, lost);
    let next = over + Duration::from_millis(20);
    assert_eq!(flows.next_wakeup(), Some(next));
    flows.handle_news(next, 0, Host::Server, lost);
    assert_eq!(flows.next_wakeup(), Some(next), "a transfer ends once");
    actions(&mut flows);
    assert_eq!(start(&mut flows, over), None);
    assert!(start(&mut flows, next).is_some());
}

#[test]
fn random_arrivals_offer_the_load_and_wait_for_nothing() {
    let mut flows = random();
    while let Some(now) = flows.next_wakeup().filter(|now| now.as_secs_f64() < 40_000.0) {
        assert!(start(&mut flows, now).is_some());
    }
    // A response takes 2 s, so half the load is one every 4 s.
    assert!((9_700..10_300).contains(&flows.started), "{}", flows.started);
}

#[test]
fn hosts_are_drawn_evenly() {
    let mut flows = random();
    let drawn: usize = (0..10_000)
        .map(|_| {
            let now = flows.next_wakeup().unwrap();
            start(&mut flows, now).unwrap()
        })
        .sum();
    assert!((4_800..5_200).contains(&drawn), "{drawn}");
}
