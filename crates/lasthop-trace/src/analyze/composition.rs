//! The composition of a capture: protocols, and lengths of packets.

use std::collections::BTreeMap;

use etherparse::{IpNumber, ether_type};

use super::record::{ProtocolRecord, SizeRecord};

/// Lower ends of the ranges of lengths, as in tshark's `-z plen,tree`.
const FROM: [u64; 10] = [0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120];

/// Ether types below it are lengths of IEEE 802.2 frames.
const ETHER_TYPE_MIN: u16 = 0x600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Layers {
    pub(super) network: Network,
    /// The content of an IP packet.
    pub(super) upper: Option<Upper>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Network {
    Ip,
    Ipv6,
    /// Another ether type.
    Other(u16),
    Incomplete,
}

/// The content of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Upper {
    Protocol(IpNumber),
    Fragment,
}

impl Network {
    /// The protocol of an ether type other than IP.
    pub(super) fn of(ether_type: u16) -> Self {
        // For IEEE 802.2 the field is the length of the frame.
        Self::Other(if ether_type < ETHER_TYPE_MIN { ether_type.min(1) } else { ether_type })
    }

    fn name(self) -> String {
        match self {
            Self::Ip => "ip".to_owned(),
            Self::Ipv6 => "ipv6".to_owned(),
            Self::Other(0) => "unknown".to_owned(),
            Self::Other(1) => "llc".to_owned(),
            Self::Other(number) if number == ether_type::ARP.0 => "arp".to_owned(),
            Self::Other(number) => format!("ethertype-{number:#06x}"),
            Self::Incomplete => "incomplete".to_owned(),
        }
    }
}

impl Upper {
    fn name(self) -> String {
        match self {
            Self::Fragment => "fragment".to_owned(),
            Self::Protocol(number) => {
                number.keyword_str().map_or_else(|| format!("protocol-{}", number.0), str::to_ascii_lowercase)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    packets: u64,
    bytes: u64,
}

/// Frames of a range of lengths.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    amount: Amount,
    min_bytes: Option<u64>,
    max_bytes: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Composition {
    protocols: BTreeMap<Layers, Amount>,
    sizes: [Range; FROM.len()],
}

impl Amount {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

impl Composition {
    /// A frame of `bytes` bytes on the wire.
    pub(super) fn count(&mut self, layers: Layers, bytes: u64) {
        self.protocols.entry(layers).or_default().add(1, bytes);
        let range = &mut self.sizes[FROM.partition_point(|from| *from <= bytes) - 1];
        range.amount.add(1, bytes);
        range.min_bytes = Some(range.min_bytes.map_or(bytes, |least| least.min(bytes)));
        range.max_bytes = range.max_bytes.max(Some(bytes));
    }

    /// The protocols, each before those that it carries, and the lengths.
    pub(super) fn finish(self) -> (Vec<ProtocolRecord>, Vec<SizeRecord>) {
        (self.protocols(), self.sizes())
    }

    fn protocols(&self) -> Vec<ProtocolRecord> {
        let mut networks: BTreeMap<Network, Amount> = BTreeMap::new();
        for (layers, amount) in &self.protocols {
            networks.entry(layers.network).or_default().add(amount.packets, amount.bytes);
        }
        let mut records = Vec::new();
        for (network, &Amount { packets, bytes }) in &networks {
            let below = network.name();
            records.push(ProtocolRecord { protocol: below.clone(), packets, bytes });
            let carried = self.protocols.iter().filter(|(layers, _)| layers.network == *network);
            records.extend(carried.filter_map(|(layers, &Amount { packets, bytes })| {
                let protocol = format!("{below}:{}", layers.upper?.name());
                Some(ProtocolRecord { protocol, packets, bytes })
            }));
        }
        records
    }

    fn sizes(&self) -> Vec<SizeRecord> {
        let has = |range: &Range| range.amount.packets > 0;
        let (Some(first), Some(last)) = (self.sizes.iter().position(has), self.sizes.iter().rposition(has))
        else {
            return Vec::new();
        };
        let record = |index: usize| {
            let Range { amount: Amount { packets, bytes }, min_bytes, max_bytes } = self.sizes[index];
            let to_bytes = FROM.get(index + 1).map(|next| next - 1);
            SizeRecord { from_bytes: FROM[index], to_bytes, packets, bytes, min_bytes, max_bytes }
        };
        (first..=last).map(record).collect()
    }
}
