//! Accurate ECN (RFC 9768): tables 2 to 4, and the counter at both ends.

use crate::support::poll;
use lasthop_core::{
    Duration, Ecn, EcnOption, Flags, FlowId, Host, Instant, SackBlock, Segment, Timestamps, TransportEvent,
};
use lasthop_tcp::{CongestionControl, Endpoint, Profile, TcpConfig, TickClock};

use crate::wire::Wire;
use std::num::NonZeroU16;

fn config(accurate: bool) -> TcpConfig {
    let mut config: TcpConfig = toml::from_str(Profile::Linux6.toml()).expect("the profile is complete");
    (config.ecn, config.accurate_ecn, config.timestamps) = (true, accurate, false);
    config
}

fn endpoint(accurate: bool) -> Endpoint {
    let config = config(accurate);
    let clock = TickClock::new(config.tick, Duration::ZERO);
    Endpoint::listen(config, 576, clock, FlowId(0), Host::Server)
}

fn syn(ace: u8) -> Segment {
    let flags = Flags::SYN.with(Flags::from_ace(ace));
    Segment {
        flags,
        sack_permitted: true,
        window_scale: Some(7),
        window_bytes: 64 * 536,
        ..Segment::default()
    }
}

fn take(tcp: &mut Endpoint, segment: &Segment, ecn: Ecn) -> Option<(Segment, Ecn)> {
    tcp.handle_segment(Instant::ZERO, segment, ecn, None, &mut ());
    poll(tcp, Instant::ZERO)
}

/// A client that has requested counters and gets this response: the segments that it then sends, the ACK
/// first.
fn client(ace: u8, ecn: Ecn) -> Vec<(Segment, Ecn)> {
    let mut tcp = endpoint(true);
    tcp.connect(Instant::ZERO, &mut ());
    tcp.write(Instant::ZERO, 2_000, 2_000, &mut ());
    let (syn_sent, of_syn) = poll(&mut tcp, Instant::ZERO).expect("the SYN");
    assert_eq!((syn_sent.flags.ace(), of_syn), (0b111, Ecn::NotEct));
    let answer = Segment { ack: 1, flags: syn(ace).flags.with(Flags::ACK), ..syn(ace) };
    tcp.handle_segment(Instant::ZERO, &answer, ecn, None, &mut ());
    std::iter::from_fn(|| poll(&mut tcp, Instant::ZERO)).collect()
}

fn after_round_trip() -> Instant {
    Instant::ZERO + Duration::from_millis(100)
}

/// A server whose SYN-ACK was acknowledged with this value in the ACE field: the segments that it then sends.
fn server(ace: u8) -> (Endpoint, Vec<(Segment, Ecn)>) {
    let mut tcp = endpoint(true);
    take(&mut tcp, &syn(0b111), Ecn::NotEct).expect("the SYN-ACK");
    tcp.write(after_round_trip(), 50_000, 50_000, &mut ());
    deliver(&mut tcp, 1, ace);
    let sent = std::iter::from_fn(|| poll(&mut tcp, after_round_trip())).collect();
    (tcp, sent)
}

fn deliver(tcp: &mut Endpoint, ack: u64, ace: u8) {
    let flags = Flags::ACK.with(Flags::from_ace(ace));
    let segment = Segment { seq: 1, ack, flags, window_bytes: 64 * 536, ..Segment::default() };
    tcp.handle_segment(after_round_trip(), &segment, Ecn::NotEct, None, &mut ());
}

/// Table 2, blocks 1, 2 and 3, and section 3.1.3.
#[test]
fn a_server_answers_with_the_best_that_both_have() {
    for (asked, own, ecn, answered) in [
        (0b111, true, Ecn::NotEct, 0b010),
        (0b111, true, Ecn::Ect1, 0b011),
        (0b111, true, Ecn::Ect0, 0b100),
        (0b111, true, Ecn::Ce, 0b110),
        (0b111, false, Ecn::NotEct, 0b001),
        (0b011, true, Ecn::NotEct, 0b001),
        (0b000, true, Ecn::NotEct, 0b000),
        (0b101, true, Ecn::NotEct, 0b010),
    ] {
        let (answer, of_answer) = take(&mut endpoint(own), &syn(asked), ecn).expect("a SYN-ACK");
        assert_eq!((answer.flags.ace(), of_answer), (answered, Ecn::NotEct), "{asked:03b} {own} {ecn:?}");
    }
}

/// Tables 2 and 3: the mode is visible in the data's ECN field and in the flags of its header.
#[test]
fn a_client_follows_the_answer() {
    let (counter, echo) = (Some(5), None);
    for (answer, data, ace) in [
        (0b010, Ecn::Ect0, counter),
        // Mangled on the path: the SYN was not ECN-capable.
        (0b011, Ecn::NotEct, counter),
        (0b100, Ecn::NotEct, counter),
        (0b110, Ecn::NotEct, counter),
        (0b101, Ecn::Ect0, counter),
        (0b001, Ecn::Ect0, echo),
        (0b000, Ecn::NotEct, echo),
        (0b111, Ecn::NotEct, echo),
    ] {
        let sent = client(answer, Ecn::NotEct);
        let first = if ace.is_some() { 0b010 } else { 0 };
        assert_eq!((sent[0].0.payload_bytes, sent[0].0.flags.ace()), (0, first), "{answer:03b}");
        assert_eq!((sent[0].0.seq, sent[0].0.ack), (1, 1));
        assert_eq!((sent[1].1, sent[1].0.flags.ace()), (data, ace.unwrap_or(0)), "{answer:03b}");
    }
}

/// Table 3.
#[test]
fn the_ack_of_a_syn_ack_says_how_that_arrived() {
    for (ecn, ace, counter) in
        [(Ecn::NotEct, 0b010, 5), (Ecn::Ect1, 0b011, 5), (Ecn::Ect0, 0b100, 5), (Ecn::Ce, 0b110, 6)]
    {
        let sent = client(0b010, ecn);
        assert_eq!([sent[0].0.flags.ace(), sent[1].0.flags.ace()], [ace, counter], "{ecn:?}");
    }
}

/// Table 4: the counter of the next ACK is relative to `s.cep`.
#[test]
fn a_server_learns_how_its_syn_ack_arrived() {
    for (ace, data, counter) in [
        (0b000, Ecn::NotEct, None),
        (0b001, Ecn::Ect0, Some(5)),
        (0b010, Ecn::Ect0, Some(5)),
        (0b011, Ecn::NotEct, Some(5)),
        (0b100, Ecn::NotEct, Some(5)),
        (0b101, Ecn::Ect0, Some(5)),
        (0b110, Ecn::NotEct, Some(6)),
        (0b111, Ecn::Ect0, Some(5)),
    ] {
        let reductions = |next: u8| {
            let (mut tcp, sent) = server(ace);
            assert_eq!(sent[0].1, data, "{ace:03b}");
            let mut log = crate::wire::Log::default();
            let flags = Flags::ACK.with(Flags::from_ace(next));
            let ack = Segment { seq: 1, ack: 1 + 536, flags, window_bytes: 64 * 536, ..Segment::default() };
            tcp.handle_segment(after_round_trip(), &ack, Ecn::NotEct, None, &mut log);
            log.0.iter().filter(|event| **event == TransportEvent::EcnReduction).count()
        };
        if let Some(counter) = counter {
            assert_eq!([reductions(counter), reductions(counter + 1)], [0, 1], "{ace:03b}");
        } else {
            assert_eq!((0..8).map(reductions).sum::<usize>(), 0, "it must not heed counters");
        }
    }
}

/// As in Linux 7.3 (`tcp_ecn_send`); RFC 3168, section 6.1.5, forbids it.
#[test]
fn retransmissions_are_ecn_capable() {
    for (ace, ecn) in [(0b010, Ecn::Ect0), (0b000, Ecn::NotEct)] {
        let (mut tcp, _) = server(ace);
        let sent = std::iter::from_fn(|| {
            let now = tcp.next_wakeup()?;
            tcp.handle_wakeup(now, &mut ());
            Some(std::iter::from_fn(|| poll(&mut tcp, now)).collect::<Vec<_>>())
        });
        // The first is a probe, with new data.
        let again = sent.flatten().find(|(segment, _)| segment.seq == 1).expect("a timeout");
        assert_eq!(again.1, ecn);
    }
}

/// Section 3.2.2.2: the mark of the SYN-ACK is a sign of congestion.
#[test]
fn a_mark_on_the_syn_ack_halves_the_initial_window() {
    let data = |ace| server(ace).1.len();
    assert_eq!([data(0b010), data(0b110)], [10, 7], "CUBIC's 0.7");
}

/// Section 3.1.4.1: counters are requested twice, then not any more.
#[test]
fn a_syn_falls_back_when_it_is_sent_the_third_time() {
    let mut wire = Wire::connect(&config(true), 10);
    let mut asked = vec![wire.last().flags.ace()];
    for _ in 0..3 {
        wire.expire();
        asked.push(wire.last().flags.ace());
    }
    assert_eq!(asked, [0b111, 0b111, 0, 0]);
}

/// Section 3.1.5: the client may have entered no mode at all.
#[test]
fn a_server_that_gets_a_syn_without_flags_sends_nothing_ecn_capable() {
    let mut tcp = endpoint(true);
    take(&mut tcp, &syn(0b111), Ecn::NotEct);
    let (again, _) = take(&mut tcp, &syn(0), Ecn::NotEct).expect("the SYN-ACK again");
    assert_eq!(again.flags.ace(), 0b010, "it does not switch");
    tcp.write(after_round_trip(), 5_000, 5_000, &mut ());
    deliver(&mut tcp, 1, 0b010);
    let sent: Vec<_> = std::iter::from_fn(|| poll(&mut tcp, after_round_trip())).collect();
    assert!(sent.len() > 1 && sent.iter().all(|(_, ecn)| *ecn == Ecn::NotEct));
}

/// Section 3.2.2.5.1, at a receiver that acknowledges every eighth segment: the counters of the ACKs that
/// leave at once.
#[test]
fn the_first_mark_and_every_second_are_acknowledged_at_once() {
    let mut config = config(true);
    (config.delayed_ack_adapts, config.quick_acks, config.ack_every) = (false, false, 8);
    let clock = TickClock::new(config.tick, Duration::ZERO);
    let mut tcp = Endpoint::listen(config, 576, clock, FlowId(0), Host::Client);
    take(&mut tcp, &syn(0b111), Ecn::NotEct);
    deliver(&mut tcp, 1, 0b010);
    let mut number = 0;
    let mut arrive = |ecn| {
        let flags = Flags::ACK.with(Flags::from_ace(5));
        let (seq, payload_bytes, window_bytes) = (1 + number * 536, 536, 64 * 536);
        number += 1;
        let segment = Segment { seq, payload_bytes, ack: 1, flags, window_bytes, ..Segment::default() };
        take(&mut tcp, &segment, ecn).map(|(ack, _)| ack.flags.ace())
    };
    assert_eq!([Ecn::Ect0; 2].map(&mut arrive), [Some(5), None], "the first segment, as ever");
    assert_eq!(arrive(Ecn::Ce), Some(6), "a change");
    assert_eq!([Ecn::Ce; 4].map(&mut arrive), [None, Some(0), None, Some(2)], "two more, and two more");
    assert_eq!([Ecn::Ect0; 2].map(&mut arrive), [None, None], "they change nothing");
    assert_eq!([Ecn::Ce, Ecn::Ect0, Ecn::Ce].map(&mut arrive), [Some(3), None, Some(4)]);
}

#[test]
fn marks_cut_the_window_once_per_window_of_data_and_cwr_is_a_part_of_the_counter() {
    let (mut tcp, sent) = server(0b010);
    assert_eq!(sent.len(), 10);
    let mut log = crate::wire::Log::default();
    for (ack, ace) in [(1, 6), (2, 7), (3, 0), (10, 0), (11, 1)] {
        let flags = Flags::ACK.with(Flags::from_ace(ace));
        let segment =
            Segment { seq: 1, ack: 1 + ack * 536, flags, window_bytes: 64 * 536, ..Segment::default() };
        tcp.handle_segment(after_round_trip(), &segment, Ecn::NotEct, None, &mut log);
        while let Some((segment, _)) = poll(&mut tcp, after_round_trip()) {
            assert_eq!(segment.flags.ace(), 5, "the own counter, for nothing marked has come");
        }
    }
    let reductions = log.0.iter().filter(|event| **event == TransportEvent::EcnReduction).count();
    assert_eq!(reductions, 2);
}

/// Prague requests counters by itself. With them its data is ECT(1), including retransmissions; without them
/// it is Reno without ECN.
#[test]
fn prague_needs_counters() {
    for (answer, ecn) in [(0b010, Ecn::Ect1), (0b001, Ecn::NotEct), (0b000, Ecn::NotEct)] {
        let config = TcpConfig { congestion_control: CongestionControl::Prague, ..config(false) };
        let mut wire = Wire::connect(&config, 100);
        assert_eq!(wire.last().flags.ace(), 0b111);
        let flags = syn(answer).flags.with(Flags::ACK);
        wire.deliver(&Segment { ack: 1, flags, ..syn(answer) });
        let before = wire.sent.len();
        assert!(wire.sent[before - 10..].iter().all(|sent| sent.1 == ecn), "{answer:03b}");
        wire.expire();
        wire.expire();
        let again = wire.sent.last().expect("sent again");
        assert_eq!((again.0.seq, again.1), (1, ecn), "{answer:03b}");
    }
}

/// An end that also wants the option, and its clock.
fn optional() -> Endpoint {
    let config = TcpConfig { accurate_ecn_option: true, ..config(true) };
    let clock = TickClock::new(config.tick, Duration::ZERO);
    Endpoint::listen(config, 576, clock, FlowId(0), Host::Server)
}

fn counters(fields: u8, counts: [u32; 3]) -> EcnOption {
    EcnOption { fields, is_order_1: true, counts }
}

/// A client after a SYN-ACK with this option: the payload of its segments, and the option of its first ACK.
fn client_with(option: Option<EcnOption>) -> (Endpoint, u32, Option<EcnOption>) {
    let mut tcp = optional();
    tcp.connect(Instant::ZERO, &mut ());
    let (syn_sent, _) = poll(&mut tcp, Instant::ZERO).expect("the SYN");
    assert_eq!(syn_sent.ecn_option(), None);
    let mut answer = Segment { ack: 1, flags: syn(0b010).flags.with(Flags::ACK), ..syn(0b010) };
    answer.mss = NonZeroU16::new(536);
    if let Some(option) = &option {
        answer.set_ecn_option(option);
    }
    let (ack, _) = take(&mut tcp, &answer, Ecn::NotEct).expect("an ACK");
    let payload = tcp.mss();
    (tcp, payload, ack.ecn_option())
}

/// RFC 9768, section 3.2.3.2: an end that does not see the option does not send it.
#[test]
fn the_option_is_sent_if_the_handshake_has_it() {
    let first = counters(3, EcnOption::FIRST);
    let (_, payload, told) = client_with(Some(first));
    assert_eq!((payload, told), (524, Some(first)));
    let (_, payload, told) = client_with(None);
    assert_eq!((payload, told), (536, None));
    let order_0 = EcnOption { is_order_1: false, ..first };
    assert_eq!(client_with(Some(order_0)).2, Some(first), "in Linux' order, whatever the peer's");
}

#[test]
fn a_server_offers_it_once_and_sends_it_if_the_client_does() {
    for is_offered in [true, false] {
        let mut tcp = optional();
        let offer = Segment { mss: NonZeroU16::new(536), ..syn(0b111) };
        let (answer, _) = take(&mut tcp, &offer, Ecn::NotEct).expect("the SYN-ACK");
        assert_eq!(answer.ecn_option(), Some(counters(3, EcnOption::FIRST)));
        let (again, _) = take(&mut tcp, &offer, Ecn::NotEct).expect("the SYN-ACK again");
        assert_eq!(again.ecn_option(), None);
        let mut ack = Segment { seq: 1, ack: 1, flags: Flags::ACK.with(Flags::from_ace(2)), ..syn(0) };
        ack.flags = ack.flags.without(Flags::SYN);
        if is_offered {
            ack.set_ecn_option(&counters(3, EcnOption::FIRST));
        }
        tcp.handle_segment(after_round_trip(), &ack, Ecn::NotEct, None, &mut ());
        tcp.write(after_round_trip(), 50_000, 50_000, &mut ());
        let (data, _) = poll(&mut tcp, after_round_trip()).expect("data");
        let expected = if is_offered { (524, Some(counters(3, EcnOption::FIRST))) } else { (536, None) };
        assert_eq!((data.payload_bytes, data.ecn_option()), expected);
        assert_eq!(data.ip_bytes(), 576, "a full packet either way");
    }
}

/// Section 3.2.3.3: a change of the codepoint is acknowledged at once, in both directions, with the bytes of
/// each codepoint; as Linux 7.3 answers in its script `tcp_accecn_2nd_data_as_first`.
#[test]
fn an_ack_counts_the_bytes_of_each_codepoint() {
    let (mut tcp, ..) = client_with(Some(counters(3, EcnOption::FIRST)));
    let mut data = |seq, payload_bytes, ecn| {
        let flags = Flags::ACK.with(Flags::from_ace(5));
        let segment = Segment { seq, ack: 1, flags, payload_bytes, ..syn(0) };
        let segment = Segment { flags, sack_permitted: false, window_scale: None, ..segment };
        take(&mut tcp, &segment, ecn).and_then(|(ack, _)| ack.ecn_option().map(|told| (ack, told)))
    };
    let (ack, told) = data(501, 500, Ecn::Ce).expect("out of order");
    assert_eq!(told, counters(3, [1, 500, 1]));
    assert_eq!((ack.sack.len(), ack.ip_bytes()), (1, 40 + 12 + 12));
    assert_eq!(data(1, 500, Ecn::Ect0).expect("a gap is filled").1, counters(3, [1, 500, 501]));
    assert_eq!(data(1_001, 100, Ecn::Ce).expect("a mark").1, counters(3, [1, 600, 501]));
    assert_eq!(data(1_101, 100, Ecn::Ect1).expect("another codepoint").1, counters(3, [101, 600, 501]));
}

/// What fits beside SACK blocks, as `tcp_options_fit_accecn` has it for 40 bytes.
#[test]
fn sack_blocks_leave_room_for_fewer_counters() {
    let bytes = |fields| EcnOption::bytes(fields, true);
    assert_eq!([0, 1, 2, 3].map(bytes), [0, 4, 8, 12]);
    assert_eq!([0, 1, 2, 3].map(|fields| EcnOption::bytes(fields, false)), [4, 8, 8, 12]);
    let mut segment = Segment { timestamps: Some(Timestamps::default()), ..Segment::default() };
    let mut rooms = vec![segment.option_room()];
    for block in 0..3 {
        segment.sack.push(SackBlock { start: 100 * block, end: 100 * block + 50 });
        rooms.push(segment.option_room());
    }
    assert_eq!(rooms, [28, 16, 8, 0]);
    segment.sack.truncate(2);
    segment.set_ecn_option(&counters(2, [5, 6, 7]));
    assert_eq!((segment.option_room(), segment.ecn_option()), (0, Some(counters(2, [5, 6, 0]))));
    assert_eq!((segment.sack.len(), segment.ip_bytes()), (2, 80));
}

/// Pure ACKs are ECN-capable, as in Linux. Their marks count; the third is told at once, so that the counter
/// does not wrap unseen (section 3.2.2.5.1).
#[test]
fn marks_of_acks_without_data_count() {
    let (mut tcp, sent) = server(0b010);
    assert!(sent.iter().all(|(data, ecn)| (data.flags.ace(), *ecn) == (5, Ecn::Ect0)));
    let ack = Segment {
        seq: 1,
        ack: 1,
        flags: Flags::ACK.with(Flags::from_ace(5)),
        window_bytes: 64 * 536,
        ..Segment::default()
    };
    let mut answers = |ecn| {
        tcp.handle_segment(after_round_trip(), &ack, ecn, None, &mut ());
        poll(&mut tcp, after_round_trip()).map(|(answer, ecn)| (answer.flags.ace(), ecn))
    };
    assert_eq!([Ecn::Ce, Ecn::Ect0, Ecn::Ce].map(&mut answers), [None; 3]);
    assert_eq!([Ecn::Ce, Ecn::Ce].map(&mut answers), [Some((0, Ecn::Ect0)), None], "5 and 3, modulo 8");
}

/// A SYN-ACK that is sent for the third time does without ECN (section 3.2.3.2.2). A client that has seen no
/// other one does not count, which its ACK tells, or its data if that was lost.
#[test]
fn the_third_syn_ack_does_without_ecn() {
    let third = || {
        let mut tcp = endpoint(true);
        let (first, _) = take(&mut tcp, &syn(0b111), Ecn::NotEct).expect("the SYN-ACK");
        let again = [(); 2].map(|()| {
            let due = tcp.next_wakeup().expect("a timeout");
            tcp.handle_wakeup(due, &mut ());
            poll(&mut tcp, due).expect("the SYN-ACK again").0.flags.ace()
        });
        assert_eq!((first.flags.ace(), again), (0b010, [0b010, 0b000]));
        tcp
    };
    let now = Instant::ZERO + Duration::from_secs(5);
    for (payload_bytes, ace, data) in
        [(0, 0, Ecn::NotEct), (536, 0, Ecn::NotEct), (0, 0b010, Ecn::Ect0), (536, 5, Ecn::Ect0)]
    {
        let mut tcp = third();
        tcp.write(now, 536, 536, &mut ());
        let flags = Flags::ACK.with(Flags::from_ace(ace));
        let ack = Segment { seq: 1, ack: 1, flags, payload_bytes, ..syn(0) };
        tcp.handle_segment(now, &ack, Ecn::NotEct, None, &mut ());
        let sent: Vec<_> = std::iter::from_fn(|| poll(&mut tcp, now)).collect();
        let first = sent.iter().find(|(segment, _)| segment.payload_bytes > 0).expect("data");
        assert_eq!(first.1, data, "{payload_bytes} {ace:03b}");
    }
}

/// As in Linux 7.3 (`tcp_accecn_close_local_close_then_remote_fin` of its scripts).
#[test]
fn the_answer_to_the_last_fin_has_no_counter() {
    let mut tcp = endpoint(true);
    take(&mut tcp, &syn(0b111), Ecn::NotEct).expect("the SYN-ACK");
    deliver(&mut tcp, 1, 0b010);
    tcp.close(after_round_trip(), &mut ());
    let (fin, _) = poll(&mut tcp, after_round_trip()).expect("a FIN");
    assert!(fin.flags.contains(Flags::FIN) && fin.flags.ace() == 5);
    let flags = Flags::ACK.with(Flags::FIN).with(Flags::from_ace(5));
    let last = Segment { seq: 1, ack: 2, flags, window_bytes: 64 * 536, ..Segment::default() };
    let (answer, ecn) = take(&mut tcp, &last, Ecn::Ect0).expect("an ACK");
    assert_eq!((answer.ack, answer.flags.ace(), ecn), (2, 0, Ecn::Ect0));
}
