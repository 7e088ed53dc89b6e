//! A flow that goes through a relay: from the records of its two connections to that of the whole.

use super::{Flow, Transport};
use lasthop_core::{Host, Part};

/// Fills in the values that whole flows take from their sides, which follow them.
pub(super) fn join_sides(flows: &mut [Box<Flow>]) {
    for at in 0..flows.len() {
        if flows[at].part == Part::Relayed
            && let [whole, peer_side, host_side] = &mut flows[at..][..3]
        {
            whole.join(peer_side, host_side);
        }
    }
}

impl Flow {
    fn join(&mut self, peer_side: &Self, host_side: &Self) {
        let (first, last) = match self.sender() {
            Host::Server => (peer_side, host_side),
            Host::Client => (host_side, peer_side),
        };
        self.started = first.started;
        self.first_packet = first.first_packet.into_iter().chain(last.first_packet).min();
        if let (Transport::Tcp(whole), Transport::Tcp(first), Transport::Tcp(last)) =
            (&mut self.transport, &first.transport, &last.transport)
        {
            whole.join(first, last);
        }
    }
}
