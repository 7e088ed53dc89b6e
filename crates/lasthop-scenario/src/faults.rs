//! Faults by name, to test stacks: packets of a flow that are lost by number, and a host whose port changes.
//! A blackhole is a fault of a hop's direction, and beside its queue.

use lasthop_core::{Direction, Faults, FlowId, Host, Place};

use crate::flow::{Flow, FlowStack};
use crate::hops::RouterImplementation;
use crate::topology::HopKind;
use crate::types::Scenario;

/// The packets of a flow that are lost by number, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropList<'a> {
    /// The flow.
    pub flow: FlowId,
    /// The first place on the way of its data.
    pub place: Place,
    /// Rising numbers, from 1.
    pub numbers: &'a [u64],
}

impl Scenario {
    /// The lists of its flows.
    pub fn drop_lists(&self) -> Vec<DropList<'_>> {
        if self.flow.iter().all(|flow| flow.drop_list.is_empty()) {
            return Vec::new();
        }
        let (tree, host_pairs) = (self.tree(), self.host_pairs());
        let lists = (0..).zip(self.flows()).filter_map(|(number, info)| {
            let flow = &self.flow[host_pairs[info.application as usize].instance.entry];
            let place = *self.route(&tree, flow, Direction::from(info.sender)).first()?;
            (!flow.drop_list.is_empty()).then_some(DropList {
                flow: FlowId(number),
                place,
                numbers: &flow.drop_list,
            })
        });
        lists.collect()
    }

    /// Checks a flow's list, if it has one.
    pub(crate) fn check_drop_list(&self, flow: &Flow, faults: &mut Faults) {
        let list = &flow.drop_list;
        if list.is_empty() {
            return;
        }
        faults.require(list[0] > 0 && list.is_sorted_by(|one, next| one < next), "drop_list", || {
            "numbers begin with 1 and rise; write [3, 7], say".into()
        });
        let traffic = flow.traffic();
        let why = if self.atm.is_some() {
            Some("an ATM switch has no router that could lose packets by number")
        } else if self.router.implementation == RouterImplementation::Linux {
            Some("Linux' router does not know the numbers of packets; write \"lasthop\" there")
        } else if traffic.opens_later() {
            Some("short flows come and go, and have no numbers before the run")
        } else if flow.real_program().is_some() {
            Some("the connections of a real program are not known before the run")
        } else if flow.relay.is_some() || flow.stack == FlowStack::Mptcp {
            Some("several connections carry the flow, and the list is for one")
        } else if self.begins_on_air(flow) {
            Some("the first hop of its data is a medium, which does not know the numbers of packets")
        } else {
            None
        };
        faults.require(why.is_none(), "drop_list", || format!("{}; leave it out", why.unwrap_or_default()));
    }

    /// Whether the first hop that a flow's data cross is a medium.
    fn begins_on_air(&self, flow: &Flow) -> bool {
        let (tree, hops) = (self.tree(), self.hops());
        let directions = flow.direction.directions().iter();
        let mut firsts = directions.filter_map(|way| self.route(&tree, flow, *way).first().copied());
        firsts.any(|place| matches!(hops[tree.at(place).0].kind, HopKind::Medium(_)))
    }
}

impl Flow {
    /// Checks that its host may get another port.
    pub(crate) fn check_rebind(&self, faults: &mut Faults) {
        if self.rebind.is_none() {
            return;
        }
        let caller = self.traffic().caller(self.direction.directions()[0].sender());
        let migrates = self.migrate.is_some() || self.quic().is_some_and(|quic| quic.migration);
        let why = if self.stack != FlowStack::Quic {
            Some(
                "TCP and UDP know a connection by its ports, so packets from another one belong to none; add \
                 stack = \"quic\"",
            )
        } else if caller != Host::Client {
            Some("the server connects, and a NAT lets nobody in; write direction = \"up\"")
        } else if migrates {
            Some("the host has another address after a move anyway; leave out one of the two")
        } else {
            None
        };
        faults.require(why.is_none(), "rebind", || format!("{}, or leave it out", why.unwrap_or_default()));
    }
}
