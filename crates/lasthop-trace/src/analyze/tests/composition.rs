use super::*;

/// Protocol, packets and bytes of each row.
fn protocols(link: u32, packets: &[Vec<u8>]) -> Vec<(String, u64, u64)> {
    let found = analyze(&*pcap(link, packets)).unwrap().protocols;
    found.into_iter().map(|record| (record.protocol, record.packets, record.bytes)).collect()
}

fn rows(rows: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    rows.iter().map(|&(protocol, packets, bytes)| (protocol.to_owned(), packets, bytes)).collect()
}

/// The packet with a different protocol number.
fn of_protocol(number: u8, mut packet: Vec<u8>) -> Vec<u8> {
    packet[9] = number;
    packet
}

#[test]
fn a_protocol_counts_with_what_it_carries() {
    let whole = packet(true, &data(1, 100));
    let mut fragment = whole.clone();
    fragment[6] |= 0x20;
    let packets = [
        whole.clone(),
        packet(false, &segment(1, 101)),
        of_protocol(17, whole.clone()),
        of_protocol(1, whole.clone()),
        of_protocol(145, whole),
        fragment,
    ];
    let expected = [
        ("ip", 6, 5 * 140 + 40),
        ("ip:icmp", 1, 140),
        ("ip:tcp", 2, 140 + 40),
        ("ip:udp", 1, 140),
        ("ip:protocol-145", 1, 140),
        ("ip:fragment", 1, 140),
    ];
    assert_eq!(protocols(RAW, &packets), rows(&expected));
}

#[test]
fn frames_that_carry_no_ip_have_the_name_of_their_ether_type() {
    let frame = |ether_type: [u8; 2], bytes: usize| {
        let mut frame = [[2; 12].as_slice(), &ether_type].concat();
        frame.resize(bytes, 0);
        frame
    };
    let packets =
        [frame([8, 6], 42), frame([0x88, 0xcc], 60), frame([0, 46], 60), frame([0, 38], 52), vec![2; 5]];
    let expected = [("llc", 2, 112), ("arp", 1, 42), ("ethertype-0x88cc", 1, 60), ("incomplete", 1, 5)];
    assert_eq!(protocols(ETHERNET, &packets), rows(&expected));
}

#[test]
fn a_header_that_the_snap_length_cut_still_names_its_protocol() {
    let packets: Vec<_> = [packet(true, &data(1, 100))].map(|packet| packet[..30].to_vec()).into();
    assert_eq!(protocols(RAW, &packets), rows(&[("ip", 1, 30), ("ip:tcp", 1, 30)]));
}

#[test]
fn packets_fall_into_ranges_that_double() {
    let length = |bytes: usize| packet(true, &data(1, bytes - 40));
    let packets = [40, 52, 79, 80, 576, 576].map(length);
    let sizes = analyze(&*pcap(RAW, &packets)).unwrap().sizes;
    let rows: Vec<_> = sizes
        .iter()
        .map(|range| {
            (range.from_bytes, range.to_bytes, range.packets, range.bytes, range.min_bytes, range.max_bytes)
        })
        .collect();
    assert_eq!(
        rows,
        [
            (40, Some(79), 3, 171, Some(40), Some(79)),
            (80, Some(159), 1, 80, Some(80), Some(80)),
            (160, Some(319), 0, 0, None, None),
            (320, Some(639), 2, 1152, Some(576), Some(576)),
        ],
        "none before the first, none behind the last"
    );
    assert_eq!(analyze(&*pcap(RAW, &[])).unwrap().sizes, []);
    let longest = analyze(&*pcap(RAW, &[length(9000)])).unwrap().sizes;
    assert_eq!((longest[0].from_bytes, longest[0].to_bytes, longest.len()), (5120, None, 1));
}
