use super::*;
use crate::analyze::Ending;

fn talk() -> Vec<Vec<u8>> {
    let mut talk = Conversation::open();
    talk.a(data(1, 100));
    talk.a(data(101, 100));
    talk.b(segment(1, 201));
    talk.0
}

/// The packets, each after a header of the link layer.
fn behind(header: &[u8]) -> Vec<Vec<u8>> {
    talk().iter().map(|packet| [header, packet].concat()).collect()
}

#[test]
fn every_link_layer_says_the_same() {
    let expected = good(&pcap(RAW, &talk()));
    let addresses = [2; 12];
    let mut sll = [0; 16];
    sll[14] = 8;
    let mut sll2 = [0; 20];
    sll2[0] = 8;
    let tagged = |tags: &[u8]| [&addresses[..], tags, &[8, 0]].concat();
    for (link, header) in [
        (12, vec![]),
        (228, vec![]),
        (ETHERNET, tagged(&[])),
        (ETHERNET, tagged(&[0x81, 0, 0, 7])),
        (ETHERNET, tagged(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2])),
        (113, sll.to_vec()),
        (276, sll2.to_vec()),
        (0, vec![2, 0, 0, 0]),
        (0, vec![0, 0, 0, 2]),
        (108, vec![0, 0, 0, 2]),
        (9, vec![0, 0x21]),
        (9, vec![0xff, 3, 0, 0x21]),
        (50, vec![0xff, 3, 0, 0x21]),
    ] {
        assert_eq!(good(&pcap(link, &behind(&header))), expected, "link type {link}, {header:?}");
    }
}

#[test]
fn padding_of_short_frames_is_no_payload() {
    let mut frames = behind(&[[2; 12].as_slice(), &[8, 0]].concat());
    for frame in &mut frames {
        frame.resize(frame.len().max(60), 0);
    }
    assert_eq!(good(&pcap(ETHERNET, &frames)).0, good(&pcap(RAW, &talk())).0);
}

#[test]
fn packets_cut_by_the_snap_length_count_in_full() {
    for snap in [40, 68, 100] {
        let mut file = pcap_header(RAW);
        for (number, packet) in talk().iter().enumerate() {
            let captured = &packet[..packet.len().min(snap)];
            let mut record = pcap_record(1, 10_000 * number as u32, captured);
            record[12..16].copy_from_slice(&(packet.len() as u32).to_le_bytes());
            file.extend(record);
        }
        assert_eq!(good(&file), good(&pcap(RAW, &talk())), "snap length {snap}");
    }
}

#[test]
fn what_the_snap_length_leaves_too_little_of_is_counted() {
    let packets: Vec<Vec<u8>> = talk().iter().map(|packet| packet[..30].to_vec()).collect();
    let (streams, capture) = good(&pcap(RAW, &packets));
    assert_eq!((streams.len(), capture.incomplete_packets, capture.tcp_packets), (0, 6, 0));
}

#[test]
fn ipv6_with_extension_headers_says_the_same() {
    // Hop-by-hop options and an atomic fragment (RFC 6946), which is a complete packet.
    let extensions = [44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 9];
    let packets: Vec<Vec<u8>> = talk()
        .iter()
        .map(|packet| {
            let length = (packet.len() - 20 + extensions.len()) as u16;
            let address = |last: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            let mut ip = vec![0x60, 0, 0, 0, length.to_be_bytes()[0], length.to_be_bytes()[1], 0, 64];
            ip.extend([address(packet[15]), address(packet[19])].concat());
            [&ip, &extensions[..], &packet[20..]].concat()
        })
        .collect();
    let (streams, capture) = good(&pcap(RAW, &packets));
    let (expected, _) = good(&pcap(RAW, &talk()));
    assert_eq!(capture.tcp_packets, 6);
    assert_eq!((streams[0].source.as_str(), streams[0].destination.as_str()), ("fd00::1", "fd00::2"));
    for (stream, expected) in streams.iter().zip(expected) {
        let StreamRecord { source, destination, .. } = expected.clone();
        assert_eq!(StreamRecord { source, destination, ..stream.clone() }, expected);
    }
}

#[test]
fn a_packet_too_long_for_its_length_field_is_as_long_as_it_was_on_the_wire() {
    let mut packets = talk();
    packets[3][2..4].copy_from_slice(&[0, 0]);
    assert_eq!(good(&pcap(RAW, &packets)), good(&pcap(RAW, &talk())));
}

#[test]
fn fragments_and_other_protocols_are_counted_and_left_out() {
    let mut packets = talk();
    let mut first = packets[3].clone();
    first[6] |= 0x20;
    let mut later = packets[3].clone();
    later[7] = 5;
    let mut ping = packets[3].clone();
    ping[9] = 1;
    packets.extend([first, later, ping]);
    let (streams, capture) = good(&pcap(RAW, &packets));
    assert_eq!(
        (capture.packets, capture.tcp_packets, capture.fragments, capture.other_packets),
        (9, 6, 2, 1)
    );
    assert_eq!(streams, good(&pcap(RAW, &talk())).0);
    let arp = [[2; 12].as_slice(), &[8, 6], &[0; 28]].concat();
    assert_eq!(good(&pcap(ETHERNET, &[arp])).1.other_packets, 1);
}

#[test]
fn datagrams_give_counts_and_spacing() {
    let datagram = |from_a: bool, len: usize| {
        let mut bytes = Vec::new();
        let ((source, destination), ports) = if from_a { ((A, B), (7000, 53)) } else { ((B, A), (53, 7000)) };
        PacketBuilder::ipv4(source, destination, 64)
            .udp(ports.0, ports.1)
            .write(&mut bytes, &vec![0; len])
            .unwrap();
        bytes
    };
    let packets =
        [(true, 100), (true, 100), (false, 50), (true, 100)].map(|(from_a, len)| datagram(from_a, len));
    let (streams, capture) = good(&pcap(RAW, &packets));
    assert_eq!((capture.udp_packets, streams.len()), (4, 2));
    let [a, b] = <[StreamRecord; 2]>::try_from(streams).unwrap();
    assert_eq!((a.outcome, a.sent_packets, a.sent_bytes), (Ending::Connectionless, 3, 300));
    assert_eq!((a.elapsed_s, a.throughput_Bps), (Some(0.03), Some(324.0 / 0.03)));
    assert_eq!((a.spacing_p50_ms, a.spacing_max_ms), (Some(15.0), Some(20.0)));
    assert_eq!((b.sent_packets, b.elapsed_s, b.throughput_Bps, b.spacing_p50_ms), (1, Some(0.0), None, None));
    assert_eq!(good(&pcap(RAW, &packets[..2])).0.len(), 1, "a direction without datagrams has no row");
}
