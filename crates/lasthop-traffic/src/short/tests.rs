use lasthop_core::{Bytes, Distribution, Duration, FlowId, Instant, Probability, Seed};

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

fn flows(arrivals: Arrivals) -> ShortFlows {
    let stream = Seed { study: 1, replication: 1 }.stream("short");
    ShortFlows::new(&config(arrivals), Instant::ZERO, Duration::from_secs(2), stream)
}

#[test]
fn the_next_one_starts_the_gap_after_the_last_is_over() {
    let gap = Distribution::Static(Duration::from_millis(20));
    let mut flows = flows(Arrivals::Sequential { gap });
    assert!(flows.poll_start(Instant::ZERO, FlowId(7)).is_some());
    assert_eq!(flows.next_wakeup(), None, "it is under way");
    let over = Instant::ZERO + Duration::from_secs(12);
    flows.handle_over(over, FlowId(3));
    assert_eq!(flows.next_wakeup(), None, "that was another one");
    flows.handle_over(over, FlowId(7));
    let next = over + Duration::from_millis(20);
    assert_eq!(flows.next_wakeup(), Some(next));
    flows.handle_over(next, FlowId(7));
    assert_eq!(flows.next_wakeup(), Some(next), "a transfer ends once");
    assert_eq!(flows.poll_start(over, FlowId(8)), None);
    assert!(flows.poll_start(next, FlowId(8)).is_some());
}

#[test]
fn random_arrivals_offer_the_load_and_wait_for_nothing() {
    let mut flows = flows(Arrivals::Poisson { load: Probability::new(0.5).unwrap() });
    let mut started = 0;
    while let Some(now) = flows.next_wakeup().filter(|now| now.as_secs_f64() < 40_000.0) {
        assert!(flows.poll_start(now, FlowId(started)).is_some());
        started += 1;
    }
    // A response takes 2 s, so half the load is one every 4 s.
    assert!((9_700..10_300).contains(&started), "{started}");
}

#[test]
fn hosts_are_drawn_evenly() {
    let mut flows = flows(Arrivals::Poisson { load: Probability::new(0.5).unwrap() });
    let drawn: usize = (0..10_000)
        .map(|number| {
            let now = flows.next_wakeup().unwrap();
            flows.poll_start(now, FlowId(number)).unwrap()
        })
        .sum();
    assert!((4_800..5_200).contains(&drawn), "{drawn}");
}
