//! Deficit round robin among flows; flows that have just become active come first: the scheduler of FQ-CoDel
//! (RFC 8290, section 4.2) and of FQ-PIE.

use std::collections::VecDeque;

use lasthop_core::{Bytes, FlowId, RandomStream};

/// The queue of a flow. The number of the flow is hashed with a key of the run, where Linux hashes addresses
/// and ports; different flows share a queue equally often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash {
    key: u64,
    queues: u32,
}

impl Hash {
    pub(super) fn new(queues: u32, stream: &mut RandomStream) -> Self {
        Self { key: stream.bits(), queues }
    }

    /// The hash of a number: the finaliser of `SplitMix64` (Steele et al. 2014).
    pub(super) fn of(self, number: u32) -> u32 {
        let mut bits = self.key.wrapping_add(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 32) as u32
    }

    /// The hash, scaled to the number of queues.
    pub(super) fn queue_of(self, flow: FlowId) -> usize {
        ((u64::from(self.of(flow.0)) * u64::from(self.queues)) >> 32) as usize
    }
}

/// The remaining credit of a flow in this round, and whether the flow takes part.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    deficit: i64,
    is_listed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    quantum: i64,
    shares: Vec<Share>,
    /// The flows that have become active since their last turn, and the other flows.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl Rounds {
    pub(crate) fn new(flows: u32, quantum: Bytes) -> Self {
        Self {
            quantum: quantum.0.cast_signed(),
            shares: vec![Share::default(); flows as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// A flow has a packet: if it takes part in no round yet, it joins as a new flow with a quantum of
    /// credit.
    pub(crate) fn activate(&mut self, flow: usize) {
        let share = &mut self.shares[flow];
        if !share.is_listed {
            *share = Share { deficit: self.quantum, is_listed: true };
            self.new.push_back(flow);
        }
    }

    /// The flow whose turn it is. A flow without credit gets a quantum and moves behind the others.
    pub(crate) fn turn(&mut self) -> Option<usize> {
        loop {
            let list = if self.new.is_empty() { &mut self.old } else { &mut self.new };
            let flow = *list.front()?;
            if self.shares[flow].deficit > 0 {
                return Some(flow);
            }
            list.pop_front();
            self.shares[flow].deficit += self.quantum;
            self.old.push_back(flow);
        }
    }

    /// The flow whose turn it was has sent this number of bytes.
    pub(crate) fn charge(&mut self, flow: usize, ip_bytes: u32) {
        self.shares[flow].deficit -= i64::from(ip_bytes);
    }

    /// The flow whose turn it was had nothing to send. A new flow first moves to the old flows, so that it
    /// gains nothing by returning at once (section 4.2).
    pub(crate) fn retire(&mut self, flow: usize) {
        if self.new.front() == Some(&flow) {
            self.new.pop_front();
            if !self.old.is_empty() {
                return self.old.push_back(flow);
            }
        } else {
            self.old.pop_front();
        }
        self.shares[flow].is_listed = false;
    }
}
