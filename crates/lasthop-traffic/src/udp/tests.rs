use lasthop_core::{Bytes, Distribution, Dscp, Rate};
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
        port: None,
    }
}

/// Time and number of every datagram, woken only when the source asks for it.
fn departures(config: &ConstantUdpConfig, start: Instant) -> Vec<(Instant, u64)> {
    let mut source = ConstantUdp::new(config, start);
    let mut departures = Vec::new();
    while let Some(due) = source.next_wakeup() {
        let datagram = source.poll_transmit(due).expect("due");
        assert_eq!(u64::from(datagram.payload_bytes), config.payload.0);
        departures.push((due, datagram.number));
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
    assert_eq!(departures[..3], [(at(40), 0), (at(168), 1), (at(296), 2)]);
    assert_eq!(departures.len(), 1407);
    assert_eq!(stream.total_bytes(), 1407 * 512);
}

#[test]
fn a_datagram_due_at_the_end_is_not_sent() {
    let interval = Duration::from_millis(128);
    assert_eq!(departures(&config(32_000, 512, interval * 2), at(0)), [(at(0), 0), (at(128), 1)]);
    let longer = interval * 2 + Duration::from_nanos(1);
    assert_eq!(departures(&config(32_000, 512, longer), at(0)).len(), 3);
}

#[test]
fn the_shortest_stream_is_one_datagram() {
    assert_eq!(departures(&config(32_000, 512, Duration::from_nanos(1)), at(7)), [(at(7), 0)]);
}

#[test]
fn nothing_leaves_before_it_is_due() {
    let mut source = ConstantUdp::new(&config(32_000, 512, Duration::from_secs(1)), at(10));
    assert_eq!(source.poll_transmit(at(9)), None);
    assert!(source.poll_transmit(at(10)).is_some());
    assert_eq!(source.poll_transmit(at(10)), None, "the next is 128 ms away");
    assert_eq!(source.next_wakeup(), Some(at(138)));
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
        prop_assert!(departures.windows(2).all(|pair| pair[1].0 - pair[0].0 == stream.interval()));
        prop_assert!(departures.iter().map(|departure| departure.1).eq(0..departures.len() as u64));
        prop_assert_eq!(departures.len() as u64 * payload, stream.total_bytes());
        let end = at(start + millis);
        let (last, _) = departures[departures.len() - 1];
        prop_assert!(last < end && end <= last + stream.interval());
    }
}
