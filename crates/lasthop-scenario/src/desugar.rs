//! Turns scenarios without `[hop]` that need more than a link between two hosts into a tree of one hop.

use crate::hops::{ONLY_HOP, ONLY_HOST};
use crate::tree::{Node, Value};

/// The keys of a hop that may be at the top of a file.
const KEYS: [&str; 5] = ["down", "up", "medium", "errors", "router"];

/// The path of the only hop in a tree; messages omit it.
const PLACE: &str = "hop.last-hop.";

/// If the scenario has a medium, a named host or a relay: moves the only hop below `hop`, connects the hosts to
/// it and places the relays at it. Returns true if it did.
pub fn desugar(scenario: &mut Node) -> bool {
    let relays = |flow: &Node| flow.get("relay").is_some();
    let needs_tree = scenario.get("medium").is_some()
        || scenario.get("host").is_some()
        || scenario.get("flow").and_then(Node::items).is_some_and(|flows| flows.iter().any(relays));
    let states_hop = KEYS.iter().any(|key| scenario.get(key).is_some());
    if !needs_tree || !states_hop || scenario.get("hop").is_some() || scenario.get("atm").is_some() {
        return false;
    }
    for key in KEYS {
        if let Some(node) = scenario.take(key) {
            scenario.set(&["hop", ONLY_HOP, key], node);
        }
    }
    if scenario.get("host").is_none() {
        scenario.set(&["host", ONLY_HOST, "behind"], Node::from_text(ONLY_HOP));
    }
    if let Some(Node { value: Value::Table(hosts), .. }) = scenario.child("host") {
        for host in hosts {
            state(&mut host.node, "behind");
        }
    }
    if let Some(Node { value: Value::Array(flows), .. }) = scenario.child("flow") {
        for relay in flows.iter_mut().filter_map(|flow| flow.child("relay")) {
            state(relay, "at");
        }
    }
    true
}

/// The name of a scenario's host, if it names only one.
pub fn only_host(scenario: &Node) -> Option<String> {
    let hosts = scenario.get("host").and_then(Node::table).filter(|hosts| hosts.len() == 1)?;
    Some(hosts[0].key.clone())
}

/// Sets a key of a table to the only hop, unless the key exists.
fn state(table: &mut Node, key: &str) {
    if table.table().is_some() && table.get(key).is_none() {
        table.set(&[key], Node::from_text(ONLY_HOP));
    }
}

/// Rewrites a path or a message about a desugared scenario to the keys of the file.
pub fn as_written(text: &str) -> String {
    text.replace(PLACE, "")
}

/// Rewrites a path in the file to the keys of the desugared scenario.
pub fn in_tree(path: &str) -> String {
    let key = path.split(['.', '[']).next().unwrap_or_default();
    if KEYS.contains(&key) { format!("{PLACE}{path}") } else { path.to_owned() }
}
