//! A flow that several connections carry, such as MPTCP's subflows (RFC 8684). Its times are those of its
//! receiving application, its counts are the sums of its connections.

use super::{Analysis, Flow, Transport, outcome, rate, rate_within};
use crate::records::FlowRecord;
use lasthop_core::{FlowId, Host, Instant, Part, TransportEvent};
use std::collections::BTreeMap;

/// Bytes that its application has read.
#[derive(Clone, Debug, Default)]
pub(super) struct Joint {
    connections: Vec<FlowId>,
    /// When the first packet of the first connection was sent.
    started: Option<Instant>,
    bytes: u64,
    /// When its sender is to stop, if it has a duration, and what was read until then.
    stop: Option<(Instant, u64)>,
    /// When the receiver had read everything.
    ended: Option<Instant>,
    closed: bool,
    aborted: Option<Instant>,
    /// When counting restarted, and the bytes read until then.
    restarted: Option<(Instant, u64)>,
}

impl Joint {
    pub fn ended(&self) -> Option<Instant> {
        self.aborted.or(self.ended)
    }

    pub fn event(&mut self, now: Instant, event: TransportEvent) {
        match event {
            TransportEvent::Closed => self.closed = true,
            TransportEvent::Aborted => self.aborted = Some(now),
            _ => {}
        }
    }

    fn read(&mut self, now: Instant, bytes: u64, ended: bool) {
        self.bytes = bytes;
        if let Some((until, read)) = &mut self.stop
            && now <= *until
        {
            *read = bytes;
        }
        if ended {
            self.ended.get_or_insert(now);
        }
    }

    pub fn restart(&mut self, now: Instant) {
        self.restarted = Some((now, self.bytes));
    }

    /// Its own part of its record, for a run that ends at `end`.
    pub fn finish(self, end: Instant, record: &mut FlowRecord) {
        record.outcome = outcome(self.aborted, self.closed);
        let Some(started) = self.started else { return };
        record.start_s = Some(started.as_secs_f64());
        let elapsed_s = self.ended.map(|at| at.saturating_since(started).as_secs_f64());
        record.elapsed_s = elapsed_s.filter(|_| self.stop.is_none());
        let cut = self.ended().unwrap_or(end);
        let (bytes, last) = match self.stop {
            Some((stop, bytes)) => (bytes, stop.min(self.aborted.unwrap_or(end))),
            None => (self.bytes, cut),
        };
        record.throughput_Bps = match self.restarted {
            None => Some(rate(bytes, started, last)),
            Some((from, before)) => rate_within(bytes.saturating_sub(before), from.max(started), last),
        };
    }
}

impl Flow {
    pub(super) fn joins(&mut self, connection: FlowId) {
        if !matches!(self.transport, Transport::Joint(_)) {
            self.transport = Transport::Joint(Joint::default());
        }
        if let Transport::Joint(joint) = &mut self.transport {
            joint.connections.push(connection);
        }
    }
}

impl Analysis {
    pub(super) fn joint_read(&mut self, now: Instant, id: FlowId, host: Host, bytes: u64, ended: bool) {
        let started = self.joint_start(id);
        let Some(flow) = self.flow(id).filter(|flow| flow.sender() != host) else { return };
        let time = flow.sends_for;
        if let Transport::Joint(joint) = &mut flow.transport {
            joint.stop = joint.stop.or_else(|| Some((started? + time?, 0)));
            joint.read(now, bytes, ended);
        }
    }

    /// When the first connection of such a flow began.
    fn joint_start(&self, id: FlowId) -> Option<Instant> {
        let Some(Transport::Joint(joint)) = self.flows[id.0 as usize].as_ref().map(|flow| &flow.transport)
        else {
            return None;
        };
        let starts = joint.connections.iter().filter_map(|id| self.flows[id.0 as usize].as_ref()?.started);
        starts.min()
    }

    pub(super) fn begin_joints(&mut self) {
        for id in (0..self.flows.len() as u32).map(FlowId) {
            let start = self.joint_start(id);
            if let Some(Transport::Joint(joint)) = self.flow(id).map(|flow| &mut flow.transport) {
                joint.started = start;
            }
        }
    }
}

/// The records of flows of several connections, while those of the connections are added to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Wholes {
    /// The index of each flow's record.
    rows: BTreeMap<FlowId, usize>,
}

impl Wholes {
    /// Adds the record of a flow, which will follow `records`, to that of the flow that it is a part of.
    pub fn add(&mut self, id: FlowId, part: Part, record: &mut FlowRecord, records: &mut [FlowRecord]) {
        let Some(of) = part.of(id) else {
            self.rows.insert(id, records.len());
            return;
        };
        let Some(whole) = self.rows.get(&of).map(|row| &mut records[*row]) else { return };
        record.part_of.clone_from(&whole.flow);
        add_counts(whole, record);
    }
}

fn add_counts(whole: &mut FlowRecord, part: &FlowRecord) {
    macro_rules! add {
        ($($field:ident)*) => { $( whole.$field += part.$field; )* };
    }
    add!(
        sent_packets received_packets sent_bytes retransmitted_packets unnecessary_retransmissions timeouts
        syn_timeouts spurious_timeouts fast_retransmits undone duplicate_acks triple_duplicate_acks
        sack_blocks sack_blocks_total data_drops_queue data_drops_red data_drops_aqm data_drops_epd
        data_drops_selective data_drops_error data_marks_ecn ack_drops_queue ack_drops_red ack_drops_aqm
        ack_drops_error ack_marks_ecn
    );
    let probes = whole.tail_loss_probes.zip(part.tail_loss_probes);
    whole.tail_loss_probes = probes.map(|(whole, part)| whole + part);
}
