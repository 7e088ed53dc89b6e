//! Notes on settings that are valid, but probably unintended.

use lasthop_core::Fault;

use crate::flow::Flow;
use crate::topology::Tree;
use crate::types::Scenario;

/// Notes flows that will send or transfer nothing, and queues that do not suit their links.
pub fn notes(scenario: &Scenario) -> Vec<Fault> {
    let tree = scenario.tree();
    let flows = scenario.flow.iter().enumerate();
    let of_flows = flows.filter_map(|(index, flow)| {
        Some(Fault { key: format!("flow[{index}].start"), message: start(scenario, &tree, flow)? })
    });
    let hops = scenario.hops();
    let of_queues = hops.iter().flat_map(|hop| {
        let place = scenario.place_of(hop.name);
        hop.links().filter_map(move |(direction, path)| {
            let key = format!("{place}{}.queue.discipline", direction.name());
            Some(Fault { key, message: path.note(scenario.mtu)? })
        })
    });
    of_flows.chain(of_queues).collect()
}

fn start(scenario: &Scenario, tree: &Tree, flow: &Flow) -> Option<String> {
    let (start, limit, name) = (flow.traffic().start().least(), scenario.time_limit, flow.traffic().name());
    if start >= limit {
        return Some(format!(
            "{name} sends nothing: it starts after \"{start}\" at the earliest, but the run ends after \
             time_limit = \"{limit}\"; raise time_limit, or start earlier"
        ));
    }
    let round_trip = scenario.round_trip(tree, flow);
    let opens = flow.traffic().stream_bytes().is_none();
    (opens && start + round_trip >= limit).then(|| {
        format!(
            "{name} transfers nothing: the run ends after time_limit = \"{limit}\", before the first round \
             trip of \"{round_trip}\" is over; raise time_limit, or start earlier"
        )
    })
}
