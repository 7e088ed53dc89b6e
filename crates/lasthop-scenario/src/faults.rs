//! Faults of flows, to test stacks: packets dropped by number, and a host whose port changes.

use lasthop_core::{Direction, Faults, FlowId, Host, Place};
use lasthop_traffic::NatPlace;

use crate::flow::{Flow, FlowStack};
use crate::topology::HopKind;
use crate::types::Scenario;

/// The packets of a flow that are dropped by number, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropList<'a> {
    pub flow: FlowId,
    /// The first place on the route of its data.
    pub place: Place,
    /// Numbers from 1, ascending.
    pub numbers: &'a [u64],
}

impl Scenario {
    /// The drop lists of all flows.
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

    /// Checks a flow's drop list, if it has one.
    pub(crate) fn check_drop_list(&self, flow: &Flow, faults: &mut Faults) {
        let list = &flow.drop_list;
        if list.is_empty() {
            return;
        }
        faults.require(list[0] > 0 && list.is_sorted_by(|number, next| number < next), "drop_list", || {
            "numbers start at 1 and must ascend; write for example [3, 7]".into()
        });
        let traffic = flow.traffic();
        let why = if self.atm.is_some() {
            Some("an ATM switch has no router that could lose packets by number")
        } else if self.has_linux_router() {
            Some("Linux' router does not number packets, only router.implementation = \"lasthop\" does")
        } else if traffic.opens_later() {
            Some("short flows open during the run, so no list can name their packets")
        } else if flow.real_program().is_some() {
            Some("the connections of a real program are not known before the run")
        } else if flow.relay.is_some() || flow.stack == FlowStack::Mptcp {
            Some("several connections carry the flow, but a list applies to one connection")
        } else if self.begins_on_air(flow) {
            Some("the first hop of its data is a medium, which does not number packets")
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
    /// Checks that the port of its host may change.
    pub(crate) fn check_rebind(&self, faults: &mut Faults) {
        let Some(rebind) = &self.rebind else { return };
        faults.below("rebind", |faults| rebind.check(faults));
        let caller = self.traffic().caller(self.direction.directions()[0].sender());
        let migrates = self.migrate.is_some() || self.quic().is_some_and(|quic| quic.migration);
        let why = if self.stack != FlowStack::Quic {
            Some(
                "TCP and UDP identify a connection by its ports, so a new port would break it; add stack = \
                 \"quic\"",
            )
        } else if caller != Host::Client {
            Some("the server opens the connection, which a NAT would not let in; write direction = \"up\"")
        } else if rebind.nat != NatPlace::Client {
            Some("without real programs, the NAT is at the client; leave out nat")
        } else if migrates {
            Some("a migration changes the host's address anyway; remove the migration")
        } else {
            None
        };
        faults.require(why.is_none(), "rebind", || format!("{}, or leave it out", why.unwrap_or_default()));
    }
}
