use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, PacketBuilder};
use proptest::prelude::*;

use super::*;

const SERVER: [u8; 4] = [10, 0, 0, 1];
const CLIENT: [u8; 4] = [10, 0, 1, 1];

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(SERVER, CLIENT, 64).udp(5004, 6000).write(&mut bytes, payload).unwrap();
    bytes
}

fn tcp6(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let [server, client] = [1, 2].map(|last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    PacketBuilder::ipv6(server, client, 64).tcp(80, 6000, 7, 1000).write(&mut bytes, payload).unwrap();
    bytes
}

#[test]
fn ports_and_payload_are_read_of_both_versions() {
    let packet = udp(&[1, 2, 3]);
    let headers = Headers::read(&packet).unwrap();
    assert_eq!(headers.transport.ports(), Some((5004, 6000)));
    assert!(matches!(headers.transport, Transport::Udp(_, [1, 2, 3])));
    let packet = tcp6(&[0; 9]);
    let headers = Headers::read(&packet).unwrap();
    assert_eq!(headers.transport.ports(), Some((80, 6000)));
    assert!(matches!(headers.transport, Transport::Tcp(_, 9)));
}

#[test]
fn a_fragment_has_no_ports() {
    let mut packet = udp(&[0; 64]);
    packet[6] |= 0x20; // more fragments
    assert!(matches!(Headers::read(&packet).unwrap().transport, Transport::Fragment));
    packet[7] = 3; // not the first fragment
    assert!(matches!(Headers::read(&packet).unwrap().transport, Transport::Fragment));
}

#[test]
fn a_transport_header_cut_short_is_another_protocol() {
    let mut packet = udp(&[]);
    packet[9] = 6; // TCP, but only eight bytes
    assert!(matches!(Headers::read(&packet).unwrap().transport, Transport::Other));
}

#[test]
fn what_is_no_ip_packet_is_refused() {
    let packet = udp(&[0; 100]);
    for malformed in [&packet[..packet.len() - 1], &packet[..10], &[], &[0x60; 39], &[0x00; 64]] {
        assert_eq!(Headers::read(malformed).unwrap_err(), Refusal::Malformed);
    }
}

#[test]
fn what_a_router_would_not_forward_is_refused() {
    for destination in [[224, 0, 0, 22], [255, 255, 255, 255], [169, 254, 1, 1]] {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4(SERVER, destination, 1).udp(1, 2).write(&mut bytes, &[]).unwrap();
        assert_eq!(Headers::read(&bytes).unwrap_err(), Refusal::LinkLocal);
    }
}

proptest! {
    #[test]
    fn a_mark_leaves_a_valid_packet(
        ecn in 1..=2_u8, dscp in 0..64_u8, payload in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let mut packet = udp(&payload);
        packet[1] = dscp << 2 | ecn;
        packet[10..12].fill(0);
        let checksum = Ipv4HeaderSlice::from_slice(&packet).unwrap().to_header().calc_header_checksum();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        let before = packet.clone();
        mark_congestion(&mut packet);
        let header = Ipv4HeaderSlice::from_slice(&packet).unwrap();
        prop_assert_eq!(header.ecn(), IpEcn::CongestionExperienced);
        prop_assert_eq!(header.dcp().value(), dscp);
        prop_assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        prop_assert_eq!(&packet[12..], &before[12..]);
    }

    #[test]
    fn a_mark_of_ipv6_changes_nothing_else(ecn in 1..=2_u8, dscp in 0..64_u8) {
        let mut packet = tcp6(&[]);
        packet[0] = 0x60 | dscp >> 2;
        packet[1] = dscp << 6 | ecn << 4 | 5;
        let before = packet.clone();
        mark_congestion(&mut packet);
        let header = Ipv6HeaderSlice::from_slice(&packet).unwrap();
        prop_assert_eq!(header.ecn(), IpEcn::CongestionExperienced);
        prop_assert_eq!(header.dscp().value(), dscp);
        prop_assert_eq!((packet[1] & 0xf, &packet[2..]), (5, &before[2..]));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0..3_u8,
    ) {
        if let (Some(first), 1..) = (bytes.first_mut(), version) {
            *first = if version == 1 { 0x45 } else { 0x60 };
        }
        let _ = Headers::read(&bytes);
        mark_congestion(&mut bytes);
    }

    #[test]
    fn a_damaged_packet_is_read_or_refused(at in 0..60_usize, value in any::<u8>(), cut in 0..60_usize) {
        for mut packet in [udp(&[0; 40]), tcp6(&[0; 20])] {
            let end = packet.len().min(cut + 1);
            packet[at] = value;
            let _ = Headers::read(&packet);
            let _ = Headers::read(&packet[..end]);
            replace_port(&mut packet[..end], Port::Source, 7);
        }
    }
}

#[test]
fn a_packet_with_another_port_has_the_checksum_that_its_sender_would_have_computed() {
    for (which, expected) in [(Port::Source, (7, 6000)), (Port::Destination, (5004, 7))] {
        let mut packet = udp(&[1, 2, 3]);
        replace_port(&mut packet, which, 7);
        let mut same = Vec::new();
        PacketBuilder::ipv4(SERVER, CLIENT, 64)
            .udp(expected.0, expected.1)
            .write(&mut same, &[1, 2, 3])
            .unwrap();
        assert_eq!(packet, same);
        assert_eq!(ports(&packet), Some(expected));
    }
    let mut packet = tcp6(&[5; 9]);
    replace_port(&mut packet, Port::Source, 65_535);
    let headers = etherparse::PacketHeaders::from_ip_slice(&packet).unwrap();
    let (Some(etherparse::NetHeaders::Ipv6(ip, _)), Some(transport)) = (headers.net, headers.transport)
    else {
        panic!("TCP over IPv6")
    };
    let tcp = transport.tcp().unwrap();
    assert_eq!(tcp.source_port, 65_535);
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(&ip, &[5; 9]).unwrap());
}

#[test]
fn a_datagram_without_checksum_gets_none_with_another_port() {
    let mut packet = udp(&[1, 2, 3]);
    packet[26..28].fill(0);
    replace_port(&mut packet, Port::Source, 7);
    assert_eq!(packet[26..28], [0, 0]);
}

#[test]
fn a_router_changes_the_time_to_live_and_nothing_else() {
    let mut sent = Vec::new();
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 1], 64).udp(5004, 6000).write(&mut sent, &[7; 9]).unwrap();
    let mut got = sent.clone();
    got[8] -= 1;
    let sum = Ipv4HeaderSlice::from_slice(&got).unwrap().to_header().calc_header_checksum();
    got[10..12].copy_from_slice(&sum.to_be_bytes());
    assert!(is_same(&sent, &got));
    assert!(!is_same(&sent, &got[..got.len() - 1]));
    for index in (0..sent.len()).filter(|index| ![8, 10, 11].contains(index)) {
        let mut other = got.clone();
        other[index] ^= 1;
        assert!(!is_same(&sent, &other), "byte {index}");
    }
}
