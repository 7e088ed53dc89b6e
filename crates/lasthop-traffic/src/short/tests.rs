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
        packet_size: None,
        request: Bytes(200),
        control: None,
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
            Action::Open { flow, hosts, is_control: false },
            Action::Connect { host: Host::Client, .. },
            Action::Write { bytes: 200, .. },
        ] => {
            assert_eq!(flow + 1, flows.transfers.opened);
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
fn packets_of_a_stated_size_make_a_response_of_their_bytes() {
    let of_size = |packet_size| ShortFlowsConfig {
        packets: 21,
        packet_size,
        ..config(Arrivals::Sequential { gap: Distribution::Static(Duration::ZERO) })
    };
    let full = of_size(None);
    assert_eq!((full.response(1_448), full.segments(1_448)), (30_408, 21));
    // 21 full segments, and one of 1092 bytes.
    let stated = of_size(Some(Bytes(1_500)));
    assert_eq!((stated.response(1_448), stated.segments(1_448)), (31_500, 22));
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
    assert!((9_700..10_300).contains(&flows.transfers.opened), "{}", flows.transfers.opened);
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

const CONTROL: Option<Bytes> = Some(Bytes(256));
const GAP: Duration = Duration::from_millis(20);

/// The first test has begun: flow 0 is its control connection.
fn tested() -> ShortFlows {
    let arrivals = Arrivals::Sequential { gap: Distribution::Static(GAP) };
    let stream = Seed { study: 1, replication: 1 }.stream("short");
    let config = ShortFlowsConfig { control: CONTROL, ..config(arrivals) };
    let mut flows =
        ShortFlows::new(&config, Instant::ZERO, Duration::from_secs(2), (9 * SEGMENT, SEGMENT), stream);
    flows.handle_wakeup(Instant::ZERO);
    let begun = actions(&mut flows);
    assert!(
        matches!(
            begun[..],
            [
                Action::Open { flow: 0, is_control: true, .. },
                Action::Connect { flow: 0, host: Host::Client },
                Action::Write { flow: 0, bytes: 256, .. }
            ]
        ),
        "{begun:?}"
    );
    flows
}

/// The actions after news of a flow at a host.
fn actions_after(flows: &mut ShortFlows, flow: u32, host: Host, news: News) -> Vec<Action> {
    flows.handle_news(Instant::ZERO, flow, host, news);
    actions(flows)
}

const fn wrote(flow: u32, host: Host, bytes: u64, write_bytes: u64) -> Action {
    Action::Write { flow, host, bytes, write_bytes, content: Content::Filler }
}

const ENDED: News = News { received: None, ended: true, ready: false };

#[test]
fn a_control_connection_arranges_a_transfer_and_brings_its_results() {
    let (client, server) = (Host::Client, Host::Server);
    let mut flows = tested();
    assert_eq!(actions_after(&mut flows, 0, server, received(256)), [wrote(0, server, 256, 256)]);
    let requests = actions_after(&mut flows, 0, client, received(256));
    assert!(matches!(requests[0], Action::Open { flow: 1, is_control: false, .. }), "{requests:?}");
    assert_eq!(requests[1..], [Action::Connect { flow: 1, host: client }, wrote(1, client, 200, 200)]);
    let answer = [wrote(1, server, 9 * SEGMENT, SEGMENT)];
    assert_eq!(
        actions_after(&mut flows, 1, server, received(200)),
        answer,
        "the client closes, not the server"
    );
    let complete = [Action::Complete { flow: 1 }, Action::Close { flow: 1, host: client }];
    assert_eq!(actions_after(&mut flows, 1, client, received(9 * SEGMENT)), complete);
    let results = [wrote(0, server, 256, 256), Action::Close { flow: 1, host: server }];
    assert_eq!(actions_after(&mut flows, 1, server, ENDED), results);
    assert_eq!(actions_after(&mut flows, 1, client, ENDED), [Action::Close { flow: 1, host: client }]);
    assert_eq!(flows.next_wakeup(), None, "the results are under way");
    let over = [1, 0].map(|flow| Action::Close { flow, host: client });
    assert_eq!(actions_after(&mut flows, 0, client, received(512)), over);
    assert_eq!(flows.next_wakeup(), Some(Instant::ZERO + GAP));
    assert_eq!(actions_after(&mut flows, 0, server, ENDED), [Action::Close { flow: 0, host: server }]);
    flows.handle_wakeup(Instant::ZERO + GAP);
    assert!(matches!(actions(&mut flows)[0], Action::Open { flow: 2, is_control: true, .. }));
}

#[test]
fn a_test_whose_connections_are_given_up_is_over() {
    for given_up in [0, 1] {
        let mut flows = tested();
        actions_after(&mut flows, 0, Host::Client, received(256));
        let closed = actions_after(&mut flows, given_up, Host::Client, ENDED);
        assert!(closed.contains(&Action::Close { flow: 1 - given_up, host: Host::Client }), "{closed:?}");
        assert_eq!(flows.next_wakeup(), Some(Instant::ZERO + GAP), "{given_up}");
    }
    let mut flows = tested();
    actions_after(&mut flows, 0, Host::Client, received(256));
    actions_after(&mut flows, 1, Host::Server, ENDED);
    assert_eq!(flows.next_wakeup(), None, "of what the server gave up it sends results");
    actions_after(&mut flows, 0, Host::Client, received(512));
    assert!(flows.next_wakeup().is_some());
}
