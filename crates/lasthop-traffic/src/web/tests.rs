use lasthop_core::{Bytes, Distribution, Duration, Instant, Seed};

use super::*;

fn config() -> WebClientsConfig {
    let class = |unit, share| WebClass { unit: Bytes(unit), share: Probability::new(share).unwrap() };
    let five = CutPoisson { mean: 5, min: 1, max: 9 };
    WebClientsConfig {
        name: "client".into(),
        clients: 100,
        start: Distribution::Static(Duration::ZERO),
        batches: 10,
        interval: Duration::from_secs(10),
        requests: five,
        gap: Distribution::Uniform { min: Duration::from_millis(100), max: Duration::from_millis(500) },
        multiple: five,
        first_unit: Bytes(100),
        others: vec![class(1000, 0.28), class(10_000, 0.4), class(100_000, 0.112), class(1_000_000, 0.008)],
    }
}

/// All writes of the servers: time, client, bytes.
fn responses(config: &WebClientsConfig, one_way: Duration, replication: u64) -> Vec<(Instant, u32, u64)> {
    let seed = Seed { study: 1, replication };
    let mut clients = WebClients::new(config, Instant::ZERO, one_way, seed);
    let mut all = Vec::new();
    while let Some(now) = clients.next_wakeup() {
        clients.handle_wakeup(now);
        let Some(Action::Write { flow, host: Host::Server, bytes, .. }) = clients.poll_action() else {
            panic!("a response is due");
        };
        assert_eq!(clients.poll_action(), None, "one after the other");
        all.push((now, flow, bytes));
    }
    all
}

#[test]
fn each_client_asks_in_ten_batches_and_first_for_an_index_page() {
    let all = responses(&config(), Duration::ZERO, 1);
    for client in 0..100 {
        let own: Vec<_> = all.iter().filter(|response| response.1 == client).collect();
        for batch in 0..10_u64 {
            let begin = Instant::ZERO + Duration::from_secs(10 * batch);
            let end = begin + Duration::from_secs(10);
            let of_batch: Vec<_> = own.iter().filter(|(at, ..)| (begin..end).contains(at)).collect();
            assert!((1..=9).contains(&of_batch.len()));
            let (first_at, _, first_bytes) = of_batch[0];
            assert!((100..=900).contains(first_bytes), "the index page is of class 0");
            let gap = first_at.saturating_since(begin);
            assert!(gap >= Duration::from_millis(100) && gap <= Duration::from_millis(500));
            for pair in of_batch.windows(2) {
                let gap = pair[1].0.saturating_since(pair[0].0);
                assert!(gap >= Duration::from_millis(100) && gap <= Duration::from_millis(500));
                assert!(pair[1].2 >= 1000);
            }
        }
    }
}

#[test]
fn the_load_is_that_of_the_study() {
    // Mean of the cut Poisson: sum of k 5^k/k! over sum of 5^k/k!, k = 1..9.
    let terms: Vec<f64> = (1..=9).map(|k| (1..=k).map(|i| 5.0 / f64::from(i)).product()).collect();
    let mean = (1..=9).zip(&terms).map(|(k, p)| f64::from(k) * p).sum::<f64>() / terms.iter().sum::<f64>();
    let other = (0.28 * 1e3 + 0.4 * 1e4 + 0.112 * 1e5 + 0.008 * 1e6) / 0.8;
    let batch_bytes = mean * 100.0 + (mean - 1.0) * mean * other;
    let offered_bps = batch_bytes * 8.0 * 100.0 / 10.0;
    assert!((offered_bps - 45e6).abs() < 2e6, "about 45 Mbit/s, {offered_bps}");
    let totals: Vec<f64> = (1..=20)
        .map(|replication| {
            let all = responses(&config(), Duration::ZERO, replication);
            all.iter().map(|(.., bytes)| *bytes as f64).sum::<f64>() * 8.0 / 100.0
        })
        .collect();
    let drawn = totals.iter().sum::<f64>() / 20.0;
    assert!((drawn / offered_bps - 1.0).abs() < 0.02, "{drawn} against {offered_bps}");
}

#[test]
fn requests_take_the_one_way_delay_and_nothing_else_depends_on_it() {
    let near = responses(&config(), Duration::ZERO, 1);
    let delay = Duration::from_millis(275);
    let far = responses(&config(), delay, 1);
    let shifted: Vec<_> = near.iter().map(|&(at, client, bytes)| (at + delay, client, bytes)).collect();
    assert_eq!(far, shifted);
}

#[test]
fn nothing_is_due_before_its_time() {
    let mut clients =
        WebClients::new(&config(), Instant::ZERO, Duration::ZERO, Seed { study: 1, replication: 1 });
    clients.handle_wakeup(Instant::ZERO);
    assert_eq!(clients.poll_action(), None);
}
