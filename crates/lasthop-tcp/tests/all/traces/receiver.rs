//! The receiving half: when it acknowledges, its window, its ECN echo.

use crate::support::poll;
use lasthop_core::{Duration, Ecn, Flags, FlowId, Host, Instant, SackBlock, Segment, Timestamps};
use lasthop_tcp::{Endpoint, TcpConfig, TickClock};

use crate::wire::{MTU, config};

/// A receiving endpoint that was opened at 0; segments are 536 bytes long.
pub struct Client {
    pub tcp: Endpoint,
    pub now: Instant,
}

impl Client {
    pub fn listen(config: &TcpConfig) -> Self {
        Self::listen_with_phase(config, Duration::ZERO)
    }

    fn listen_with_phase(config: &TcpConfig, phase: Duration) -> Self {
        let clock = TickClock::new(config.tick, phase);
        let tcp = Endpoint::listen(config.clone(), MTU, clock, FlowId(0), Host::Client);
        let mut client = Self { tcp, now: Instant::ZERO };
        let flags = if config.ecn { Flags::SYN.with(Flags::ECE).with(Flags::CWR) } else { Flags::SYN };
        let syn = Segment { flags, sack_permitted: true, ..Segment::default() };
        let answer = client.take(&syn, Ecn::NotEct);
        let ecn = if config.ecn { Flags::ECE } else { Flags::default() };
        assert_eq!(answer.unwrap().flags, Flags::SYN.with(Flags::ACK).with(ecn));
        client
    }

    fn take(&mut self, segment: &Segment, ecn: Ecn) -> Option<Segment> {
        self.tcp.handle_segment(self.now, segment, ecn, None, &mut ());
        poll(&mut self.tcp, self.now).map(|(segment, _)| segment)
    }

    pub fn segment(number: u64) -> Segment {
        Segment {
            seq: 1 + number * 536,
            payload_bytes: 536,
            ack: 1,
            flags: Flags::ACK,
            window_bytes: 64 * 536,
            ..Segment::default()
        }
    }

    /// Segment `number` arrives; the ACK that leaves at once, as the number of the next segment wanted.
    pub fn data(&mut self, number: u64) -> Option<u64> {
        self.take(&Self::segment(number), Ecn::NotEct).map(|ack| (ack.ack - 1) / 536)
    }

    fn window_after(&mut self, number: u64) -> Option<u64> {
        self.take(&Self::segment(number), Ecn::NotEct).map(|ack| ack.window_bytes / 536)
    }

    fn echo_after(&mut self, number: u64, flags: Flags, ecn: Ecn) -> Option<bool> {
        let segment = Segment { flags: Flags::ACK.with(flags), ..Self::segment(number) };
        self.take(&segment, ecn).map(|ack| ack.flags.contains(Flags::ECE))
    }
}

#[test]
fn first_segment_is_acknowledged_at_once_then_every_second() {
    let mut client = Client::listen(&config(|_| ()));
    let acks: Vec<_> = (0..7).map(|number| client.data(number)).collect();
    assert_eq!(acks, [Some(1), None, Some(3), None, Some(5), None, Some(7)]);
}

/// PAWS (RFC 7323, section 5.3) where the retransmission of segment 1 overtakes the later ones: what left two
/// ticks or more before it is refused, as if it had not come.
#[test]
fn data_older_than_the_left_edge_is_refused() {
    let config = config(|c| (c.sack, c.dsack, c.timestamps) = (true, true, true));
    let mut tcp = Endpoint::listen(
        config.clone(),
        MTU,
        TickClock::new(config.tick, Duration::ZERO),
        FlowId(0),
        Host::Client,
    );
    let stamped =
        |segment: Segment, value| Segment { timestamps: Some(Timestamps { value, echo: 0 }), ..segment };
    let mut arrives = |number, value| {
        let segment = match number {
            None => Segment { flags: Flags::SYN, sack_permitted: true, ..Segment::default() },
            Some(number) => Client::segment(number),
        };
        tcp.handle_segment(Instant::ZERO, &stamped(segment, value), Ecn::NotEct, None, &mut ());
        let (ack, _) = poll(&mut tcp, Instant::ZERO)?;
        let blocks: Vec<_> =
            ack.sack.as_slice().iter().map(|&SackBlock { start, end }| (start / 536, end / 536)).collect();
        Some(((ack.ack / 536), blocks, ack.timestamps?.echo))
    };
    arrives(None, 10).expect("a SYN-ACK");
    assert_eq!(arrives(Some(0), 20), Some((1, vec![], 20)));
    assert_eq!(arrives(Some(4), 23), Some((1, vec![(4, 5)], 20)));
    assert_eq!(arrives(Some(1), 24), Some((2, vec![(4, 5)], 24)));
    assert_eq!(arrives(Some(2), 22), Some((2, vec![(4, 5)], 24)), "refused, although it is in order");
    assert_eq!(arrives(Some(0), 20), Some((2, vec![(0, 1), (4, 5)], 24)), "refused, and known");
    assert_eq!(arrives(Some(5), 23), Some((2, vec![(4, 6)], 24)), "a tick older");
    assert_eq!(arrives(Some(2), 23), Some((3, vec![(4, 6)], 24)), "its timestamp is not echoed");
}

#[test]
fn first_segment_waits_for_the_second_without_the_switch() {
    let mut client = Client::listen(&config(|c| c.first_segment_acked_at_once = false));
    let acks: Vec<_> = (0..4).map(|number| client.data(number)).collect();
    assert_eq!(acks, [None, Some(2), None, Some(4)]);
}

#[test]
fn quick_acks_answer_the_first_segments_at_once() {
    let quick = |initial: u32| {
        let mut client = Client::listen(&config(|c| {
            c.quick_acks = true;
            c.first_segment_acked_at_once = false;
            c.receive_window_initial = initial;
        }));
        (0..40).take_while(|&number| client.data(number).is_some()).count()
    };
    // Half of the window that was advertised before the first segment; at least 2, at most 16.
    assert_eq!([1, 4, 11, 32, 64].map(quick), [2, 2, 5, 16, 16]);
}

#[test]
fn an_ack_that_rides_on_data_uses_up_a_quick_ack() {
    let mut client = Client::listen(&config(|c| {
        c.quick_acks = true;
        c.first_segment_acked_at_once = false;
    }));
    assert_eq!(client.data(0), Some(1));
    client.tcp.write(client.now, 536, 536, &mut ());
    assert!(poll(&mut client.tcp, client.now).is_some_and(|(data, _)| data.payload_bytes > 0));
    assert_eq!(client.data(1), None);
}

/// Delay of a held ACK, for a segment that arrives `arrival` us after the start of a host whose clock is
/// `phase` us into a tick.
fn delay_micros(arrival: u64, phase: u64) -> u64 {
    let mut client = Client::listen_with_phase(&config(|_| ()), Duration::from_micros(phase));
    client.data(0);
    client.now = Instant::ZERO + Duration::from_micros(arrival);
    assert_eq!(client.data(1), None);
    let due = client.tcp.next_wakeup().expect("the ACK is held");
    client.tcp.handle_wakeup(due, &mut ());
    let (ack, _) = poll(&mut client.tcp, due).expect("the ACK leaves");
    assert_eq!((ack.ack, client.tcp.next_wakeup()), (1 + 2 * 536, None));
    (due - client.now).as_nanos() / 1_000
}

#[test]
fn held_ack_leaves_on_a_tick_after_210_to_220_ms() {
    // (floor(100 t + phi) + 22 - phi) / 100 s
    assert_eq!(delay_micros(50_000, 0), 220_000);
    assert_eq!(delay_micros(50_001, 0), 219_999);
    assert_eq!(delay_micros(59_999, 0), 210_001);
    assert_eq!(delay_micros(50_000, 4_000), 216_000);
    assert_eq!(delay_micros(56_000, 4_000), 220_000);
}

#[test]
fn held_ack_is_not_put_off_by_a_later_small_segment() {
    let mut client = Client::listen(&config(|_| ()));
    client.data(0);
    let small = |part: u64| Segment { seq: 537 + part * 100, payload_bytes: 100, ..Client::segment(0) };
    assert_eq!(client.take(&small(0), Ecn::NotEct), None);
    let due = client.tcp.next_wakeup();
    assert!(due.is_some());
    client.now = Instant::ZERO + Duration::from_millis(100);
    assert_eq!(client.take(&small(1), Ecn::NotEct), None);
    assert_eq!(client.tcp.next_wakeup(), due);
    let full = Segment { seq: 737, ..Client::segment(0) };
    assert_eq!(client.take(&full, Ecn::NotEct).map(|ack| ack.ack), Some(737 + 536));
    assert_eq!(client.tcp.next_wakeup(), None, "it left with another ACK");
}

#[test]
fn gap_and_duplicate_are_acknowledged_at_once() {
    let mut client = Client::listen(&config(|_| ()));
    assert_eq!(client.data(0), Some(1));
    assert_eq!(client.data(2), Some(1), "out of order");
    assert_eq!(client.data(3), Some(1), "out of order");
    assert_eq!(client.data(2), Some(1), "duplicate above");
    assert_eq!(client.data(0), Some(1), "duplicate below");
    assert_eq!(client.data(1), Some(4), "the gap is filled");
}

#[test]
fn ack_leaves_at_once_while_another_gap_is_open() {
    let mut client = Client::listen(&config(|_| ()));
    client.data(0);
    assert_eq!(client.data(3), Some(1));
    assert_eq!(client.data(1), Some(2), "2 is still missing");
    assert_eq!(client.data(2), Some(4));
    assert_eq!(client.data(4), None, "in order again: held");
}

#[test]
fn fin_is_acknowledged_at_once_and_closes_the_stream() {
    let mut client = Client::listen(&config(|_| ()));
    client.data(0);
    let fin = Segment { flags: Flags::FIN.with(Flags::ACK), ..Client::segment(1) };
    let ack = client.take(&fin, Ecn::NotEct).unwrap();
    assert_eq!(ack.ack, 1 + 2 * 536 + 1);
    assert!(client.tcp.peer_closed());
    assert_eq!(client.tcp.received_bytes(), 2 * 536);
}

#[test]
fn early_fin_closes_only_after_the_gap_is_filled() {
    let mut client = Client::listen(&config(|_| ()));
    client.data(0);
    client.take(&Segment { flags: Flags::FIN.with(Flags::ACK), ..Client::segment(2) }, Ecn::NotEct);
    assert!(!client.tcp.peer_closed());
    assert_eq!(client.tcp.received_bytes(), 536);
    client.data(1);
    assert!(client.tcp.peer_closed());
    assert_eq!(client.tcp.received_bytes(), 3 * 536);
}

#[test]
fn window_grows_by_two_for_each_in_order_segment_from_4_to_64() {
    let mut client = Client::listen(&config(|_| ()));
    let windows: Vec<u64> = (0..64).filter_map(|number| client.window_after(number)).collect();
    assert_eq!(windows[..5], [6, 10, 14, 18, 22]);
    assert_eq!(windows.iter().max(), Some(&64));
    assert_eq!(windows.last(), Some(&64));
}

#[test]
fn window_stands_still_for_segments_out_of_order() {
    let mut client = Client::listen(&config(|_| ()));
    assert_eq!(client.window_after(0), Some(6));
    assert_eq!(client.window_after(2), Some(6));
    assert_eq!(client.window_after(3), Some(6));
    assert_eq!(client.window_after(1), Some(8));
}

#[test]
fn at_most_four_sack_blocks_fit_and_three_with_timestamps() {
    for (timestamps, room) in [(false, 4), (true, 3)] {
        let mut client = Client::listen(&config(|c| c.timestamps = false));
        if timestamps {
            client = Client { tcp: stamped(), now: Instant::ZERO };
        }
        let blocks: Vec<usize> = [2, 4, 6, 8, 10]
            .iter()
            .map(|&number| client.take(&Client::segment(number), Ecn::NotEct).unwrap().sack.len())
            .collect();
        let expected: Vec<usize> = (1..=5).map(|count| count.min(room)).collect();
        assert_eq!(blocks, expected);
    }
}

/// Linux remembers four ranges (`tcp_sack_new_ofo_skb`).
#[test]
fn a_range_that_is_forgotten_comes_back_only_as_far_as_it_is_touched() {
    let mut client = Client::listen(&config(|_| ()));
    let first = |client: &mut Client, number| {
        let ack = client.take(&Client::segment(number), Ecn::NotEct).unwrap();
        let block = ack.sack.as_slice()[0];
        ((block.start - 1) / 536, (block.end - 1) / 536)
    };
    for number in [2, 4, 6, 8, 10] {
        assert_eq!(first(&mut client, number), (number, number + 1));
    }
    assert_eq!(first(&mut client, 3), (3, 5), "4 is remembered, 2 is not");
    // All of it is there none the less.
    assert_eq!((client.data(0), client.data(1)), (Some(1), Some(5)));
}

/// A client that has agreed on timestamps.
fn stamped() -> Endpoint {
    let config = config(|c| c.timestamps = true);
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut tcp = Endpoint::listen(config.clone(), MTU, clock, FlowId(0), Host::Client);
    let timestamps = Some(lasthop_core::Timestamps { value: 1, echo: 0 });
    let syn = Segment { flags: Flags::SYN, sack_permitted: true, timestamps, ..Segment::default() };
    tcp.handle_segment(Instant::ZERO, &syn, Ecn::NotEct, None, &mut ());
    let (answer, _) = poll(&mut tcp, Instant::ZERO).unwrap();
    assert_eq!(answer.timestamps.unwrap().echo, 1);
    tcp
}

#[test]
fn without_the_switch_duplicates_are_not_reported() {
    for dsack in [false, true] {
        let mut client = Client::listen(&config(|c| c.dsack = dsack));
        client.data(0);
        let ack = client.take(&Client::segment(0), Ecn::NotEct).unwrap();
        assert_eq!(ack.sack.len(), usize::from(dsack));
    }
}

#[test]
fn congestion_mark_is_echoed_until_cwr() {
    let mut client = Client::listen(&config(|c| c.ecn = true));
    let none = Flags::default();
    assert_eq!(client.echo_after(0, none, Ecn::Ect0), Some(false));
    assert_eq!(client.echo_after(1, none, Ecn::Ce), None, "the ACK is held");
    assert_eq!(client.echo_after(2, none, Ecn::Ect0), Some(true));
    assert_eq!(client.echo_after(4, none, Ecn::Ect0), Some(true), "a gap");
    assert_eq!(client.echo_after(3, Flags::CWR, Ecn::Ect0), Some(false));
    assert_eq!(client.echo_after(5, Flags::CWR, Ecn::Ce), None);
    assert_eq!(client.echo_after(6, none, Ecn::Ect0), Some(true), "marked again with the CWR itself");
}
