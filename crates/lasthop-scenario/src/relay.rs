//! Relays, which split a TCP flow into two connections (performance-enhancing proxies, RFC 3135, section 2.4).
//! The records contain three flows: the whole, and the connections on the two sides of the relay.

use std::borrow::Cow;

use lasthop_core::{Direction, Faults, FlowInfo, Host, Part, Place};
use lasthop_tcp::TcpConfig;
use lasthop_traffic::Instance;

use crate::error::suggest;
use crate::flow::Flow;
use crate::topology::Tree;
use crate::types::Scenario;

/// The flows of an application between two hosts that exchange packets, or the whole flows through a relay.
/// Its index is the `application` of its flows.
#[derive(Clone, Debug)]
pub struct HostPair<'a> {
    pub instance: Instance<'a>,
    /// The number of the instance.
    pub application: u32,
    pub part: Part,
}

impl HostPair<'_> {
    /// The name of the application, or of its side of a relay, in the records.
    pub fn name(&self) -> String {
        self.part.name_of(self.instance.application())
    }
}

impl Scenario {
    /// The host pairs of a run: first one per application, then two more per application with a relay.
    pub fn host_pairs(&self) -> Vec<HostPair<'_>> {
        let (mut host_pairs, mut sides) = (Vec::new(), Vec::new());
        for (application, instance) in (0..).zip(self.applications()) {
            let is_relayed = self.flow[instance.entry].relay.is_some();
            let part = if is_relayed { Part::Relayed } else { Part::Whole };
            let pair = HostPair { instance, application, part };
            if is_relayed {
                sides.extend(Part::SIDES.map(|part| HostPair { part, ..pair.clone() }));
            }
            host_pairs.push(pair);
        }
        host_pairs.extend(sides);
        host_pairs
    }

    /// The names of its relays, each once.
    pub fn relays(&self) -> Vec<String> {
        let mut names = Vec::new();
        for relay in self.flow.iter().filter_map(|flow| flow.relay.as_ref()) {
            if !names.contains(&relay.name()) {
                names.push(relay.name());
            }
        }
        names
    }

    /// Adds the two sides of each flow that goes through a relay.
    pub(crate) fn with_sides(&self, flows: Vec<FlowInfo>) -> Vec<FlowInfo> {
        if self.flow.iter().all(|flow| flow.relay.is_none()) {
            return flows;
        }
        let host_pairs = self.host_pairs();
        let mut all = Vec::new();
        for info in flows {
            let of_side = |part| {
                let is_it = |pair: &HostPair<'_>| pair.application == info.application && pair.part == part;
                host_pairs.iter().position(is_it).map(|number| FlowInfo {
                    name: part.name_of(&info.name),
                    application: number as u32,
                    part,
                    ..info.clone()
                })
            };
            let sides: Vec<_> = Part::SIDES.into_iter().filter_map(of_side).collect();
            let part = if sides.is_empty() { Part::Whole } else { Part::Relayed };
            all.push(FlowInfo { part, ..info });
            all.extend(sides);
        }
        all
    }

    /// The name of the host at an end of a part of a flow.
    pub fn host_at<'a>(&'a self, flow: &'a Flow, part: Part, end: Host) -> Cow<'a, str> {
        match &flow.relay {
            Some(relay) if part.relay_end() == Some(end) => Cow::Owned(relay.name()),
            _ => Cow::Borrowed(self.host_of(flow, end)),
        }
    }

    /// TCP at an end of a part of a flow. A relay uses `relay.tcp` towards its hop, and the flow's TCP elsewhere.
    pub fn tcp_of_part<'a>(&'a self, flow: &'a Flow, part: Part, end: Host) -> &'a TcpConfig {
        let Some(relay) = flow.relay.as_ref().filter(|_| part.relay_end() == Some(end)) else {
            return self.tcp_at(flow, end);
        };
        let tree = self.tree();
        let own = relay.tcp.as_deref().filter(|_| {
            let hop = tree.number(&relay.at);
            self.route_of(&tree, flow, part, Direction::Down)
                .iter()
                .any(|place| Some(tree.at(*place).0) == hop)
        });
        own.or(flow.tcp.as_deref()).unwrap_or(&self.tcp)
    }

    /// The places that the packets of a part of a flow cross in a direction.
    pub fn route_of(&self, tree: &Tree, flow: &Flow, part: Part, direction: Direction) -> Vec<Place> {
        let Some((relay, at)) = flow.relay.as_ref().zip(part.relay_end()) else {
            return self.route(tree, flow, direction);
        };
        let relay = tree.number(&relay.at).and_then(|hop| tree.behind(hop));
        let hop = |end| if end == at { relay } else { self.hop_of(tree, flow, end, flow.via.as_ref()) };
        let sender = direction.sender();
        tree.route(hop(sender), hop(sender.other()))
    }

    /// Checks the relay of a flow whose ends are valid.
    pub(crate) fn check_relay(&self, flow: &Flow, faults: &mut Faults) {
        let Some(relay) = &flow.relay else { return };
        if !self.names_hops() {
            return faults.require(false, "relay", || "a relay needs a hop; leave out [atm]".into());
        }
        let names: Vec<&str> = self.hop.keys().map(String::as_str).collect();
        let tree = self.tree();
        let Some(hop) = tree.number(&relay.at) else {
            return faults.require(false, "relay.at", || {
                format!("there is no hop {:?}{}", relay.at, suggest(&relay.at, &names))
            });
        };
        let way = self.route(&tree, flow, Direction::Down);
        faults.require(way.iter().any(|place| tree.at(*place).0 == hop), "relay.at", || {
            let on_way: Vec<&str> = way.iter().map(|place| tree.name(tree.at(*place).0)).collect();
            format!("the flow does not cross {:?} (accepted: {})", relay.at, on_way.join(", "))
        });
        faults.require(!self.host.contains_key(&relay.name()), "relay.at", || {
            format!("the relay's name is {:?}, as that of a host; rename the host", relay.name())
        });
    }
}
