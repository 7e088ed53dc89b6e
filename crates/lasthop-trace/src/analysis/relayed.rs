//! A flow that goes through a relay: from the records of its two connections to that of the whole.

use super::{Flow, Transport};
use crate::records::FlowRecord;
use lasthop_core::Part;

/// Fills in what the whole flows learn from their sides, which come after them.
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
            lasthop_core::Host::Server => (peer_side, host_side),
            lasthop_core::Host::Client => (host_side, peer_side),
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

/// Adds the counts of a side to those of the whole. What was measured on the way stays with the sides.
pub(super) fn add_counts(whole: &mut FlowRecord, side: &FlowRecord) {
    whole.sent_packets += side.sent_packets;
    whole.received_packets += side.received_packets;
    whole.sent_bytes += side.sent_bytes;
    whole.retransmitted_packets += side.retransmitted_packets;
    whole.unnecessary_retransmissions += side.unnecessary_retransmissions;
    whole.timeouts += side.timeouts;
    whole.syn_timeouts += side.syn_timeouts;
    whole.spurious_timeouts += side.spurious_timeouts;
    whole.fast_retransmits += side.fast_retransmits;
    whole.tail_loss_probes = whole.tail_loss_probes.zip(side.tail_loss_probes).map(|(sum, more)| sum + more);
    whole.undone += side.undone;
    whole.duplicate_acks += side.duplicate_acks;
    whole.triple_duplicate_acks += side.triple_duplicate_acks;
    whole.sack_blocks += side.sack_blocks;
    whole.sack_blocks_total += side.sack_blocks_total;
    whole.data_drops_queue += side.data_drops_queue;
    whole.data_drops_red += side.data_drops_red;
    whole.data_drops_aqm += side.data_drops_aqm;
    whole.data_drops_error += side.data_drops_error;
    whole.ack_drops_queue += side.ack_drops_queue;
    whole.ack_drops_red += side.ack_drops_red;
    whole.ack_drops_aqm += side.ack_drops_aqm;
    whole.ack_drops_error += side.ack_drops_error;
    whole.data_marks_ecn += side.data_marks_ecn;
    whole.ack_marks_ecn += side.ack_marks_ecn;
    if !side.drop_hops.is_empty() {
        let between = if whole.drop_hops.is_empty() { "" } else { ", " };
        whole.drop_hops = format!("{}{between}{}", whole.drop_hops, side.drop_hops);
    }
}
