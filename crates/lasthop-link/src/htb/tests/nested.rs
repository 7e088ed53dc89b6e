//! Classes inside classes.

use super::*;

/// Class number `index` in another one, or under the root. Its quantum follows from its rate.
fn within(parent: Option<&str>, name: &str, index: u16, own: u64) -> ClassConfig {
    ClassConfig {
        name: name.into(),
        parent: parent.map(Into::into),
        quantum: None,
        ..class(index, own * 1_000, 800_000, 0)
    }
}

/// A class that holds no packets.
fn inner(parent: Option<&str>, name: &str, own: u64) -> ClassConfig {
    ClassConfig { matches: Vec::new(), ..within(parent, name, u16::MAX, own) }
}

/// The example of the HTB manual (Devera 2002, section 3) in kbit/s: of 100 kB/s, A has 40 and B 60. In A are
/// WWW with 30 and SMTP with 10.
fn manual() -> HtbConfig {
    let a = Some("A");
    let classes = vec![
        inner(None, "A", 320),
        within(a, "WWW", 1, 240),
        within(a, "SMTP", 2, 80),
        ClassConfig { default: true, ..within(None, "B", 0, 480) },
    ];
    htb(Some(800_000), classes)
}

/// Share of each class in the root's rate, in per cent, over a minute in which these classes always have
/// packets of 1000 bytes.
fn shares(config: &HtbConfig, busy: &[u16]) -> Vec<f64> {
    let of_class = |port: u16| {
        config.class.iter().position(|class| class.matches.iter().any(|m| m.port == NonZeroU16::new(port)))
    };
    let default = config.class.iter().position(|class| class.default).unwrap();
    let mut lab = Lab::new(&fast(config.clone()), None);
    let ports: Vec<u16> = busy.iter().map(|port| if *port == 0 { 30_001 } else { *port }).collect();
    for _ in 0..6_000 {
        for port in &ports {
            lab.send_to(at_us(0), 1_000, Ecn::NotEct, *port);
        }
    }
    lab.run_until(at_us(60_000_000));
    let mut sent = vec![0_u64; config.class.len()];
    for (_, serial) in lab.dequeued() {
        let port = busy[serial as usize % busy.len()];
        sent[of_class(port).unwrap_or(default)] += 1_000;
    }
    let all = config.rate.unwrap().bits_per_second() as f64 / 8.0 * 60.0;
    sent.iter().map(|bytes| (*bytes as f64 / all * 1_000.0).round() / 10.0).collect()
}

/// In front of a link that is never the bottleneck.
fn fast(htb: HtbConfig) -> PathConfig {
    let mut path = path_of_1500(htb);
    path.link.rate = rate(1_000_000_000);
    path.link.send_buffer = Bytes(100_000);
    path.link.release = BufferRelease::Serialised;
    path.queue.limit = QueueSize::Packets(100_000);
    path
}

fn near(shares: &[f64], expected: &[f64]) -> bool {
    shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.2)
}

/// Without buckets a packet of 576 bytes is paid for in 144 ms at 32 kbit/s, in 288 ms at 16 kbit/s.
#[test]
fn what_is_ones_own_goes_first_then_what_the_class_around_has_then_what_the_root_has() {
    let bare = |class: ClassConfig| ClassConfig { burst: Bytes(0), cburst: Bytes(0), ..class };
    let mut config = htb(
        Some(96_000),
        vec![
            bare(ClassConfig { ceil: Some(rate(64_000)), ..inner(None, "home", 32) }),
            bare(ClassConfig { ceil: Some(rate(64_000)), ..within(Some("home"), "web", 1, 16) }),
            bare(ClassConfig { ceil: Some(rate(64_000)), default: true, ..within(None, "other", 0, 32) }),
        ],
    );
    config.burst = Bytes(0);
    let (web, other) = (1, 2);
    let arrivals =
        [(0, web, 576), (0, web, 576), (0, web, 576), (0, other, 576), (0, other, 576), (0, other, 576)];
    let left = departures(&config, &arrivals, rate(1_000_000_000));
    let left: Vec<_> =
        left.iter().map(|(at, class, _)| (at.as_nanos().div_ceil(1_000_000), *class)).collect();
    let expected = [
        // Both have their own rates; the second packet leaves as soon as the link has taken the first.
        (0, web),
        (1, other),
        // The root, which has paid for two packets, lends. Its round begins with home, but home's own round
        // is over.
        (96, other),
        // Home has paid for its packet and lends, regardless of the root's tokens.
        (144, web),
        // The other's own rate has been there since 144 ms, but its ceiling of 64 kbit/s made it wait.
        (168, other),
        // The root, which has paid for all five, lends by way of home: it is home's turn.
        (240, web),
    ];
    assert_eq!(left, expected);
}

#[test]
fn each_class_gets_its_rate_when_all_are_busy() {
    let shares = shares(&manual(), &[1, 2, 0]);
    assert!(near(&shares, &[0.0, 30.0, 10.0, 60.0]), "{shares:?}");
}

#[test]
fn what_a_class_leaves_goes_to_those_in_the_same_class_first() {
    let nested = shares(&manual(), &[1, 0]);
    assert!(near(&nested, &[0.0, 40.0, 0.0, 60.0]), "{nested:?}");
    // With all of them directly under the root, the quanta of WWW and B would share it: 30 + 10/3, 60 + 20/3.
    let mut flat = manual();
    flat.class.remove(0);
    for class in &mut flat.class {
        class.parent = None;
    }
    let flat = shares(&flat, &[1, 0]);
    assert!(near(&flat, &[33.3, 0.0, 66.7]), "{flat:?}");
}

#[test]
fn what_nobody_in_it_uses_a_class_lends_to_the_rest_by_way_of_the_root() {
    let shares = shares(&manual(), &[0]);
    assert!(near(&shares, &[0.0, 0.0, 0.0, 100.0]), "{shares:?}");
}

/// WWW and SMTP share what B leaves by their quanta, 3000 and 1000 bytes.
#[test]
fn borrowers_of_a_class_that_borrows_itself_share_by_quantum() {
    let mut config = manual();
    let quanta = [1, 2].map(|index| config.class[index].quantum_bytes());
    assert_eq!(quanta, [3_000, 1_000]);
    let busy = shares(&config, &[1, 2]);
    assert!(near(&busy, &[0.0, 75.0, 25.0, 0.0]), "{busy:?}");
    // A may not exceed its ceiling, and neither may its children.
    config.class[0].ceil = Some(rate(400_000));
    let bounded = shares(&config, &[1, 2]);
    assert!(near(&bounded, &[0.0, 30.0 + 7.5, 10.0 + 2.5, 0.0]), "{bounded:?}");
}

#[test]
fn the_priority_of_a_borrower_counts_at_the_class_that_lends() {
    let mut config = manual();
    config.class[2].priority = 1;
    let shares = shares(&config, &[1, 2]);
    assert!(near(&shares, &[0.0, 90.0, 10.0, 0.0]), "{shares:?}");
}

#[test]
fn those_who_borrow_deep_in_the_tree_come_before_those_who_borrow_above() {
    // Each class has a sixteenth of the root's rate, and two of three are in another class, which has an
    // eighth.
    let config = htb(
        Some(800_000),
        vec![
            inner(None, "deep", 400),
            ClassConfig { priority: 7, ..within(Some("deep"), "low", 1, 50) },
            ClassConfig { default: true, ..within(None, "high", 0, 50) },
        ],
    );
    // At the root, high comes first; but before that, low gets the rest of the other class.
    let shares = shares(&config, &[1, 0]);
    assert!(near(&shares, &[0.0, 50.0, 50.0]), "{shares:?}");
}

#[test]
fn a_class_with_one_in_it_that_has_as_much_changes_nothing() {
    let plain = htb(Some(RATE), vec![class(0, 32_000, RATE, 0), class(1, 16_000, 48_000, 0)]);
    let mut config = plain.clone();
    let around = |name: &str, class: &ClassConfig| ClassConfig {
        name: name.into(),
        matches: Vec::new(),
        default: false,
        quantum: None,
        ..class.clone()
    };
    config.class = vec![
        around("a", &plain.class[0]),
        ClassConfig { parent: Some("a".into()), ..plain.class[0].clone() },
        around("b", &plain.class[1]),
        ClassConfig { parent: Some("b".into()), ..plain.class[1].clone() },
    ];
    let arrivals: Vec<Arrival> = (0..200).map(|n| (20_000, n % 2, 576)).collect();
    let moved: Vec<Arrival> =
        arrivals.iter().map(|(gap, class, bytes)| (*gap, 2 * class + 1, *bytes)).collect();
    let expected = departures(&plain, &arrivals, rate(RATE));
    let expected: Vec<Departure> =
        expected.iter().map(|(at, class, bytes)| (*at, 2 * class + 1, *bytes)).collect();
    let mut ports = config.clone();
    ports.class[3].matches[0].port = NonZeroU16::new(3);
    ports.class[1].matches = vec![MatchConfig { port: NonZeroU16::new(1), ..MatchConfig::default() }];
    assert_eq!(departures(&ports, &moved, rate(RATE)), expected);
}
