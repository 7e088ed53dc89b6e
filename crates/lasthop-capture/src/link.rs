//! From a frame to the IP packet that it carries: link layer and VLAN tags.

use etherparse::{EtherType, ether_type};

use crate::reader::Frame;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried<'a> {
    Ip {
        packet: &'a [u8],
        /// Its bytes on the wire, including padding of the link layer.
        wire_length: usize,
    },
    /// Something else: its ether type; a length if below 1536 (IEEE 802.2), 0 if there is none.
    Other(u16),
    /// The link-layer header was not captured completely.
    Incomplete,
}

impl Carried<'_> {
    /// The length of the IP packet by its own header, without padding; 0 for other or incomplete content.
    pub fn ip_length(&self) -> usize {
        let &Carried::Ip { packet, wire_length } = self else { return 0 };
        let field =
            |at: usize| packet.get(at..at + 2).map(|two| usize::from(u16::from_be_bytes([two[0], two[1]])));
        let stated = match packet.first().map(|first| first >> 4) {
            Some(4) => field(2),
            Some(6) => field(4).map(|payload| if payload == 0 { 0 } else { 40 + payload }),
            _ => None,
        };
        // Segmentation offload leaves a length of 0 in packets that are too long for the field.
        stated.map_or(0, |stated| if stated == 0 { wire_length } else { stated })
    }
}

/// The content of a frame; an error if its link type is unknown.
pub fn carried<'a>(frame: &Frame<'a>) -> Result<Carried<'a>, String> {
    let data = frame.data;
    let Some((ether_type, header)) = link_header(frame.link, data)? else { return Ok(Carried::Incomplete) };
    let (ether_type, header) = skip_vlan_tags(ether_type, header, data);
    Ok(match ether_type {
        ether_type::IPV4 | ether_type::IPV6 => match data.get(header..) {
            Some(packet) => Carried::Ip { packet, wire_length: frame.wire_length.saturating_sub(header) },
            None => Carried::Incomplete,
        },
        other => Carried::Other(other.0),
    })
}

/// Ether type and length of the link-layer header; `None` if it is incomplete. The numbers are those of
/// <https://www.tcpdump.org/linktypes.html>.
fn link_header(link: u32, data: &[u8]) -> Result<Option<(EtherType, usize)>, String> {
    let at = |offset: usize| {
        data.get(offset..offset + 2).map(|two| EtherType(u16::from_be_bytes([two[0], two[1]])))
    };
    Ok(match link {
        // NULL has the address family in the byte order of the capturing host, LOOP in network order;
        // each system has its own number for IPv6.
        0 | 108 => data.first_chunk().map(|family: &[u8; 4]| {
            let family = u32::from_le_bytes(*family).min(u32::from_be_bytes(*family));
            let ether_type = match family {
                2 => ether_type::IPV4,
                10 | 24 | 28 | 30 => ether_type::IPV6,
                _ => EtherType(0),
            };
            (ether_type, 4)
        }),
        1 => at(12).map(|ether_type| (ether_type, 14)),
        // PPP, with or without its HDLC address and control bytes (RFC 1662, section 3.1).
        9 | 50 => {
            let start = if data.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
            at(start).map(|protocol| match protocol.0 {
                0x0021 => (ether_type::IPV4, start + 2),
                0x0057 => (ether_type::IPV6, start + 2),
                _ => (EtherType(0), start + 2),
            })
        }
        // Raw IP; some systems write 12 or 14 for 101.
        12 | 14 | 101 | 228 | 229 => data.first().map(|first| match first >> 4 {
            4 => (ether_type::IPV4, 0),
            6 => (ether_type::IPV6, 0),
            _ => (EtherType(0), 0),
        }),
        113 => at(14).map(|ether_type| (ether_type, 16)),
        276 => at(0).map(|ether_type| (ether_type, 20)),
        other => {
            return Err(format!(
                "packets of link type {other}; supported are raw IP, Ethernet, Linux cooked capture, \
                 loopback and PPP"
            ));
        }
    })
}

/// IEEE 802.1Q, single or stacked.
fn skip_vlan_tags(mut ether_type: EtherType, mut header: usize, data: &[u8]) -> (EtherType, usize) {
    while let ether_type::VLAN_TAGGED_FRAME
    | ether_type::PROVIDER_BRIDGING
    | ether_type::VLAN_DOUBLE_TAGGED_FRAME = ether_type
        && let Some(tag) = data.get(header..header + 4)
    {
        ether_type = EtherType(u16::from_be_bytes([tag[2], tag[3]]));
        header += 4;
    }
    (ether_type, header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(link: u32, data: &[u8]) -> Frame<'_> {
        Frame { time_ns: 0, link, wire_length: data.len(), data }
    }

    #[test]
    fn padding_does_not_count_in_an_ip_packet() {
        let mut ethernet = [0; 60];
        ethernet[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0, 0, 29]);
        let carried = carried(&frame(1, &ethernet)).unwrap();
        assert_eq!((carried.ip_length(), matches!(carried, Carried::Ip { wire_length: 46, .. })), (29, true));
    }

    #[test]
    fn a_length_of_0_is_that_on_the_wire_and_of_ipv6_has_the_header_beside_it() {
        let mut raw = [0; 100];
        raw[0] = 0x45;
        assert_eq!(carried(&frame(101, &raw)).unwrap().ip_length(), 100);
        raw[..6].copy_from_slice(&[0x60, 0, 0, 0, 0, 8]);
        assert_eq!(carried(&frame(101, &raw)).unwrap().ip_length(), 48);
    }

    #[test]
    fn what_is_no_ip_packet_has_no_length() {
        let mut arp = [0; 42];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(carried(&frame(1, &arp)), Ok(Carried::Other(0x0806)));
        assert_eq!(carried(&frame(1, &[0; 5])), Ok(Carried::Incomplete));
        assert_eq!(Carried::Other(0x0806).ip_length(), 0);
        assert!(carried(&frame(999, &arp)).unwrap_err().contains("link type 999"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(link in 0..300_u32, data in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(carried) = carried(&frame(link, &data)) {
                prop_assert!(carried.ip_length() <= 40 + 65_535);
            }
        }
    }
}
