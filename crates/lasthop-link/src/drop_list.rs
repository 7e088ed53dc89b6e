//! Packets of a flow that are dropped by number, to test how a stack repairs exactly that loss.

use std::collections::{BTreeMap, VecDeque};

use lasthop_core::{Body, FlowId, Packet};

#[cfg(test)]
mod tests;

/// The numbers of the packets to drop, by flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct DropList {
    flows: BTreeMap<FlowId, Numbers>,
}

#[derive(Clone, Debug)]
struct Numbers {
    /// Packets that count, so far.
    seen: u64,
    /// Numbers still to come, in order.
    next: VecDeque<u64>,
}

impl DropList {
    /// Adds a flow; its numbers ascend.
    pub(crate) fn add(&mut self, flow: FlowId, numbers: &[u64]) {
        self.flows.insert(flow, Numbers { seen: 0, next: numbers.iter().copied().collect() });
    }

    /// Counts an arriving packet, and returns true if its number is in the list. The numbers, from 1, count each
    /// transmission of a TCP segment with data, and datagrams.
    pub(crate) fn names(&mut self, packet: &Packet) -> bool {
        let Some(Numbers { seen, next }) = self.flows.get_mut(&packet.flow) else { return false };
        let counts = match &packet.body {
            Body::Tcp(segment) => segment.payload_bytes > 0,
            Body::Udp(_) | Body::Quic(_) => true,
        };
        *seen += u64::from(counts);
        let is_named = counts && next.front() == Some(seen);
        if is_named {
            next.pop_front();
        }
        is_named
    }
}
