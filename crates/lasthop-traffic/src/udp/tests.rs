use proptest::prelude::*;

use super::*;

fn config(rate: u64, payload: u64, duration: Duration) -> ConstantUdpConfig {
    ConstantUdpConfig {
        name: "udp".into(),
        rate: Rate::from_bits_per_second(rate),
        payload: Bytes(payload),
        duration,
        start: Distribution::Static(Duration::ZERO),
        dscp: Dscp::default(),
        ecn: None,
        port: None,
    }
}

/// The sizes of the datagrams that leave when the source is woken.
fn woken(source: &mut ConstantUdp, now: Instant) -> Vec<u64> {
    source.handle_wakeup(now);
    let write = |action| match action {
        Action::Write { flow: 0, host: Host::Client, bytes, write_bytes, .. } if bytes == write_bytes => {
            bytes
        }
        other => panic!("not a datagram: {other:?}"),
    };
    std::iter::from_fn(|| source.poll_action()).map(write).collect()
}

/// The departure times of all datagrams, if the source is woken at each requested time.
fn departures(config: &ConstantUdpConfig, start: Instant) -> Vec<Instant> {
    let mut source = ConstantUdp::new(config, start, Host::Client);
    let mut departures = Vec::new();
    while let Some(due) = source.next_wakeup() {
        assert_eq!(woken(&mut source, due), [config.payload.0]);
        departures.push(due);
    }
    departures
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// kulve2003: 512 bytes at 32 kbit/s is a datagram every 128 ms, 1407 of them in 180 s.
#[test]
fn the_payload_rate_sets_the_interval() {
    let stream = config(32_000, 512, Duration::from_secs(180));
    assert_eq!(stream.interval(), Duration::from_millis(128));
    let departures = departures(&stream, at(40));
    assert_eq!(departures[..3], [at(40), at(168), at(296)]);
    assert_eq!(departures.len(), 1407);
    assert_eq!(stream.total_bytes(), 1407 * 512);
}

#[test]
fn a_datagram_due_at_the_end_is_not_sent() {
    let interval = Duration::from_millis(128);
    assert_eq!(departures(&config(32_000, 512, interval * 2), at(0)), [at(0), at(128)]);
    let longer = interval * 2 + Duration::from_nanos(1);
    assert_eq!(departures(&config(32_000, 512, longer), at(0)).len(), 3);
}

#[test]
fn the_shortest_stream_is_one_datagram() {
    assert_eq!(departures(&config(32_000, 512, Duration::from_nanos(1)), at(7)), [at(7)]);
}

#[test]
fn nothing_leaves_before_it_is_due() {
    let mut source = ConstantUdp::new(&config(32_000, 512, Duration::from_secs(1)), at(10), Host::Client);
    assert!(woken(&mut source, at(9)).is_empty());
    assert_eq!(woken(&mut source, at(10)), [512]);
    assert!(woken(&mut source, at(10)).is_empty(), "the next is 128 ms away");
    assert_eq!(source.next_wakeup(), Some(at(138)));
    assert_eq!(woken(&mut source, at(400)), [512; 3], "who comes late gets all that is due");
}

proptest! {
    #[test]
    fn departures_are_equally_spaced_and_add_up(
        rate in 1_000_u64..10_000_000,
        payload in 1_u64..=1472,
        millis in 1_u64..2_000,
        start in 0_u64..10_000,
    ) {
        let stream = config(rate, payload, Duration::from_millis(millis));
        let departures = departures(&stream, at(start));
        prop_assert!(departures.windows(2).all(|pair| pair[1] - pair[0] == stream.interval()));
        prop_assert_eq!(departures.len() as u64 * payload, stream.total_bytes());
        let end = at(start + millis);
        let last = departures[departures.len() - 1];
        prop_assert!(last < end && end <= last + stream.interval());
    }
}
