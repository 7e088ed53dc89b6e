//! The packets that arrive at a router queue, on their way into the capture. A queue discipline may drop or
//! mark a packet long after it has accepted it, and a comment cannot be added to a packet that is written. So
//! a packet is held back while it waits in the queue, and with it what arrived later, to keep the order.

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// The arrivals at one point that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// In order of arrival; the number of the first is `passed`.
    held: VecDeque<Held>,
    /// How many were held before.
    passed: u64,
    /// The numbers of those that wait in the queue, by the packets' serials.
    waiting: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Held {
    block: EnhancedPacketBlock<'static>,
    waits: bool,
}

impl Arrivals {
    /// A packet arrives; it waits until it is settled.
    pub(super) fn add(&mut self, serial: u64, block: EnhancedPacketBlock<'static>) {
        self.waiting.insert(serial, self.passed + self.held.len() as u64);
        self.held.push_back(Held { block, waits: true });
    }

    pub(super) fn is_waiting(&self, serial: u64) -> bool {
        self.waiting.contains_key(&serial)
    }

    /// Adds a comment to a packet, if it waits.
    pub(super) fn comment(&mut self, serial: u64, text: Cow<'static, str>) {
        if let Some(number) = self.waiting.get(&serial) {
            let held = &mut self.held[(number - self.passed) as usize];
            held.block.options.push(EnhancedPacketOption::Comment(text));
        }
    }

    /// A packet has left the queue, or is lost: no more events of it follow here.
    pub(super) fn settle(&mut self, serial: u64) {
        if let Some(number) = self.waiting.remove(&serial) {
            self.held[(number - self.passed) as usize].waits = false;
        }
    }

    /// Takes the next packet to write: the first, unless it still waits.
    pub(super) fn take_settled(&mut self) -> Option<EnhancedPacketBlock<'static>> {
        if self.held.front()?.waits {
            return None;
        }
        self.passed += 1;
        self.held.pop_front().map(|held| held.block)
    }

    pub(super) fn rest(self) -> impl Iterator<Item = EnhancedPacketBlock<'static>> {
        self.held.into_iter().map(|held| held.block)
    }
}
