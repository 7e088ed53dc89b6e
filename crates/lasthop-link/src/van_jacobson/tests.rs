//! Lengths of headers, and the effects of a loss, packet by packet.

use lasthop_core::{Body, Segment};

use super::*;
use crate::testing::datagram;

/// A packet of flow `flow` from `seq` on.
fn tcp(flow: u32, seq: u64, ack: u64, payload_bytes: u32) -> Packet {
    let segment =
        Segment { seq, ack, payload_bytes, flags: Flags::ACK, window_bytes: 8_000, ..Segment::default() };
    of(flow, segment)
}

fn of(flow: u32, segment: Segment) -> Packet {
    let ip_bytes = 40 + segment.payload_bytes;
    Packet { flow: FlowId(flow), body: Body::Tcp(segment), ..datagram(0, ip_bytes, Ecn::NotEct) }
}

/// The bytes of the header of each packet.
fn headers(packets: &[Packet]) -> Vec<u32> {
    let mut link = VanJacobson::default();
    for packet in packets {
        link.send(packet);
    }
    let payload = |packet: &Packet| packet.tcp().map_or(0, |segment| segment.payload_bytes);
    let header = |(place, packet): (usize, &Packet)| packet.ip_bytes - payload(packet) - link.saved(place);
    packets.iter().enumerate().map(header).collect()
}

/// RFC 1144, section 3.2.2: data in one direction needs only the mask and the checksum, which are three
/// bytes.
#[test]
fn data_in_one_direction_takes_three_bytes() {
    let transfer = [
        tcp(1, 1, 1, 0),
        tcp(1, 1, 1, 536),
        tcp(1, 537, 1, 536),
        tcp(1, 1_073, 1, 100),
        tcp(1, 1_173, 1, 536),
    ];
    assert_eq!(headers(&transfer), [40, 3, 3, 3, 3]);
}

/// The other special case: typed characters come back as echoes, and each character acknowledges the previous
/// echo.
#[test]
fn typing_takes_three_bytes_a_character() {
    let typed = [tcp(1, 10, 50, 1), tcp(1, 11, 51, 1), tcp(1, 12, 52, 1)];
    assert_eq!(headers(&typed), [40, 3, 3]);
}

/// A difference of up to 255 takes a byte, a larger one three; that of a window may be negative.
#[test]
fn an_ack_tells_what_it_adds() {
    let acks = [tcp(1, 1, 1, 0), tcp(1, 1, 101, 0), tcp(1, 1, 356, 0), tcp(1, 1, 1_428, 0)];
    assert_eq!(headers(&acks), [40, 4, 4, 6]);
    let with_window = |packet: Packet, window_bytes| {
        let segment = Segment { window_bytes, ..*packet.tcp().unwrap() };
        of(1, segment)
    };
    let windows =
        [tcp(1, 1, 1, 0), with_window(tcp(1, 1, 101, 0), 8_100), with_window(tcp(1, 1, 201, 0), 8_000)];
    assert_eq!(headers(&windows), [40, 5, 7]);
}

#[test]
fn what_was_sent_before_goes_whole() {
    let repeated_ack = [tcp(1, 1, 1, 0), tcp(1, 1, 537, 0), tcp(1, 1, 537, 0)];
    assert_eq!(headers(&repeated_ack), [40, 6, 40]);
    let retransmission = [tcp(1, 1, 1, 536), tcp(1, 537, 1, 536), tcp(1, 1, 1, 536), tcp(1, 1_073, 1, 536)];
    assert_eq!(headers(&retransmission), [40, 3, 40, 6]);
}

#[test]
fn a_change_that_no_difference_tells_goes_whole() {
    let marked = Packet { ecn: Ecn::Ce, ..tcp(1, 537, 1, 536) };
    assert_eq!(headers(&[tcp(1, 1, 1, 536), marked]), [40, 40]);
    let stamped = |seq, value| {
        let timestamps = Some(Timestamps { value, echo: 1 });
        let segment = Segment { timestamps, ..*tcp(1, seq, 1, 524).tcp().unwrap() };
        let packet = of(1, segment);
        Packet { ip_bytes: packet.ip_bytes + 12, ..packet }
    };
    // RFC 1144 does not support options: with timestamps, only packets of the same tick are compressed.
    assert_eq!(headers(&[stamped(1, 7), stamped(525, 7), stamped(1_049, 8)]), [52, 3, 52]);
    let far = [tcp(1, 1, 1, 536), tcp(1, 70_000, 1, 536)];
    assert_eq!(headers(&far), [40, 40]);
}

#[test]
fn beginnings_ends_and_other_protocols_stay_as_they_are() {
    let with = |flags| {
        let segment = Segment { flags, ..*tcp(1, 1, 1, 0).tcp().unwrap() };
        of(1, segment)
    };
    let packets = [
        with(Flags::SYN),
        with(Flags::ACK),
        with(Flags::ACK.with(Flags::FIN)),
        datagram(0, 540, Ecn::NotEct),
    ];
    assert_eq!(headers(&packets), [40, 40, 40, 540]);
    assert_eq!(
        headers(&[
            tcp(1, 1, 1, 100),
            of(1, Segment { flags: Flags::ACK.with(Flags::PSH), ..*tcp(1, 101, 1, 100).tcp().unwrap() })
        ]),
        [40, 3]
    );
}

#[test]
fn packets_that_take_turns_name_their_connection() {
    let turns =
        [tcp(1, 1, 1, 100), tcp(2, 1, 1, 100), tcp(1, 101, 1, 100), tcp(1, 201, 1, 100), tcp(2, 101, 1, 100)];
    assert_eq!(headers(&turns), [40, 40, 4, 3, 4]);
}

#[test]
fn sixteen_connections_are_remembered() {
    let round = |seq| (0..16).map(move |flow| tcp(flow, seq, 1, 100));
    let all: Vec<_> = round(1).chain(round(101)).collect();
    assert_eq!(headers(&all)[16..], [4; 16]);
    // The seventeenth connection replaces the one that was silent for longest, the first.
    let more = [tcp(16, 1, 1, 100), tcp(15, 201, 1, 100), tcp(0, 201, 1, 100)];
    assert_eq!(headers(&[all, more.to_vec()].concat())[32..], [40, 4, 40]);
}

/// The far side of a transfer that loses one packet. Returns which of the other packets it can decode.
fn made_out(packets: &[Packet], lost: usize) -> Vec<bool> {
    let mut link = VanJacobson::default();
    for packet in packets {
        link.send(packet);
    }
    (0..packets.len()).map(|place| link.receive(place != lost)).collect()
}

#[test]
fn a_loss_takes_all_along_up_to_the_retransmission() {
    let transfer = [
        tcp(1, 1, 1, 536),
        tcp(1, 537, 1, 536),
        tcp(1, 1_073, 1, 536),
        tcp(1, 1_609, 1, 536),
        tcp(1, 537, 1, 536),
    ];
    assert_eq!(made_out(&transfer, 1), [true, false, false, false, true]);
}

#[test]
fn a_repeated_ack_repairs_what_a_lost_one_has_done() {
    let acks =
        [tcp(1, 1, 1, 0), tcp(1, 1, 537, 0), tcp(1, 1, 1_073, 0), tcp(1, 1, 1_073, 0), tcp(1, 1, 1_609, 0)];
    assert_eq!(made_out(&acks, 1), [true, false, false, true, true]);
}

/// RFC 1144, section 4.1: after an error, the connection of packets is unknown until one carries the number
/// of its slot.
#[test]
fn after_a_loss_packets_that_do_not_name_their_connection_are_tossed() {
    let packets = [
        tcp(1, 1, 1, 100),
        tcp(2, 1, 1, 100),
        datagram(0, 540, Ecn::NotEct),
        tcp(2, 101, 1, 100),
        tcp(1, 101, 1, 100),
        tcp(1, 201, 1, 100),
    ];
    assert_eq!(made_out(&packets, 2), [true, true, false, false, true, true]);
}
