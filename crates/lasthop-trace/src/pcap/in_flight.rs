//! The bytes of packets in flight, kept until the last event of the packet.

use lasthop_core::PacketEvent;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct InFlight<K> {
    packets: BTreeMap<K, Vec<u8>>,
    /// The packet that arrived last, whose copy would follow it.
    arrived: Option<(K, Vec<u8>)>,
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self { packets: BTreeMap::new(), arrived: None }
    }
}

impl<K: Ord> InFlight<K> {
    /// A packet is about to be sent.
    pub fn keep(&mut self, key: K, bytes: &[u8]) {
        self.packets.insert(key, bytes.to_vec());
    }

    /// A packet in flight, or the copy of one.
    pub fn bytes(&self, key: &K) -> Option<&[u8]> {
        let copied =
            || self.arrived.as_ref().filter(|(arrived, _)| arrived == key).map(|(_, bytes)| &bytes[..]);
        self.original(key).or_else(copied)
    }

    /// A packet in flight, unless it is a copy.
    pub fn original(&self, key: &K) -> Option<&[u8]> {
        self.packets.get(key).map(Vec::as_slice)
    }

    /// Forgets a packet after its last event.
    pub fn forget(&mut self, key: &K, event: PacketEvent) {
        match event {
            PacketEvent::Delivered => self.arrived = self.packets.remove_entry(key),
            PacketEvent::Dropped(_) => drop(self.packets.remove(key)),
            _ => {}
        }
    }
}
