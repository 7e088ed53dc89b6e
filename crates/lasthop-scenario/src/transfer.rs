//! Flows of kind `transfer`, and the tables `[stack.NAME]` of the implementations that carry them.
//!
//! A cell whose transfers all use lasthop's own stacks has flows of kind `bulk-tcp` instead, so that every engine
//! runs it. Otherwise, real programs carry all transfers: the flows become one of kind `program`, and the key
//! `transfers` of that flow has an entry for each, with the command lines of its stack.

use serde_json::{Map, Value as Json, json};

use crate::desugar::only_host;
use crate::error::Problem;
use crate::tree::{NAME, Node, Value};

/// The table of stacks, at the top of a scenario or in a level.
pub const KEY: &str = "stack";

const KIND: &str = "transfer";
/// The stacks that lasthop has: quinn-proto, and the TCP of the engine.
const BUILT_IN: [&str; 2] = [QUINN, TCP];
const QUINN: &str = "quinn";
/// The adapter that stands for `quinn` next to real programs.
const QUINN_PROGRAM: &str = "quinn-example";
const TCP: &str = "tcp";
/// The test case of the stacks above.
const TEST_CASE: &str = "transfer";
/// The name of the flow that stands for all transfers, which no table shows.
const PROGRAM: &str = "transfers";
/// The path of a transfer in that flow, where the file has a flow.
const PLACE: &str = "flow[0].transfers[";
/// The keys of a transfer that real programs can carry.
const KEYS: [&str; 14] = [
    NAME,
    "kind",
    KEY,
    "bytes",
    "objects",
    "duration",
    "count",
    "testcase",
    "start",
    "host",
    "direction",
    "tcp",
    "rebind",
    COST,
];
/// The key for what computing costs, which is the same for all programs of a run.
const COST: &str = "cpu_cost";
/// The key of a stack's table for another name of an adapter.
const ADAPTER: &str = "adapter";
/// Flows of an entry.
const COUNT_MAX: u32 = 200;
/// Keys of a transfer's entry that come from elsewhere than its flow.
const OWN_KEYS: [&str; 4] = ["client", "server", "env", "congestion_control"];

/// The schema of `[stack]`.
pub fn schema() -> Json {
    let line =
        |what: &str| json!({ "type": "string", "description": what, "examples": ["./run_endpoint.sh"] });
    json!({
        "type": "object",
        "description": "Implementations of transport protocols, by the name that flows of kind `transfer` use. \
                        The programs have the interface of the endpoints of the QUIC interop runner. A stack \
                        of the catalogue is changed key by key",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "adapter": {
                    "type": "string",
                    "description": "A stack of the catalogue, an adapter's file, or a built-in one, which runs as a \
                                    program then; the stack's own name if absent",
                    "examples": ["quic-go"],
                },
                "client": line("Shell command line of the client"),
                "server": line("Shell command line of the server"),
                "endpoint": line("Shell command line of both"),
                "env": {
                    "type": "object",
                    "description": "Environment variables of both, in addition to those of the runner",
                    "additionalProperties": { "type": "string" },
                },
            },
            "additionalProperties": false,
        },
    })
}

/// Adds the kind to the schema of a file's flows: the keys of a transfer, and those of a bulk transfer, which it may
/// become.
pub fn add_kind(definitions: &mut Map<String, Json>) {
    let mut properties = definitions["TransferConfig"]["properties"].clone();
    let Some(kinds) = definitions.get_mut("Flow").and_then(|flow| flow["oneOf"].as_array_mut()) else {
        return;
    };
    let keys_of = |name: &str| {
        let own = kinds.iter().map(|kind| &kind["properties"]).find(|own| own["kind"]["const"] == name);
        own.cloned().unwrap_or_default()
    };
    properties[COST] = keys_of("program")[COST].clone();
    let bulk = keys_of("bulk-tcp");
    if let (Some(own), Json::Object(others)) = (properties.as_object_mut(), bulk) {
        own.retain(|key, _| !OWN_KEYS.contains(&key.as_str()));
        let is_new = |key: &str| !own.contains_key(key) && !["write", "stack"].contains(&key);
        let others: Vec<_> = others.into_iter().filter(|(key, _)| is_new(key) || key == "start").collect();
        own.extend(others);
        own.insert("kind".into(), json!({ "type": "string", "const": KIND }));
    }
    kinds.push(json!({
        "type": "object",
        "description": "Files that a client of any QUIC or TCP implementation downloads from its server; real \
                        programs, unless the stack is lasthop's own.",
        "properties": properties,
        "required": ["kind", KEY],
        "additionalProperties": false,
    }));
}

/// Replaces the transfers by flows that engines run. Returns true if real programs carry them.
pub fn desugar(merged: &mut Node) -> Result<bool, Problem> {
    let stacks = merged.take(KEY).unwrap_or_default();
    if let Some(own) = BUILT_IN.iter().find_map(|name| stacks.get(name)) {
        let names = BUILT_IN.join(" and ");
        return Err(Problem::new(own.span, format!("`{KEY}`: {names} are built in; choose another name")));
    }
    let around = Around {
        stacks,
        control: merged.at("tcp.congestion_control").cloned(),
        only_host: only_host(merged),
    };
    let Some(Node { value: Value::Array(flows), span }) = merged.child("flow") else { return Ok(false) };
    let is_transfer = |flow: &Node| flow.get("kind").and_then(Node::text) == Some(KIND);
    if !flows.iter().any(is_transfer) {
        return Ok(false);
    }
    let own = |flow: &Node| flow.get(KEY).and_then(Node::text).is_some_and(|name| BUILT_IN.contains(&name));
    let Some(foreign) = flows.iter().find(|flow| is_transfer(flow) && !own(flow)) else {
        for (index, flow) in flows.iter_mut().enumerate().filter(|(_, flow)| is_transfer(flow)) {
            as_bulk(flow).map_err(|(key, why)| at(flow, index, key, &why))?;
        }
        return Ok(false);
    };
    let name = foreign.get(KEY).map(Node::rendered).unwrap_or_default();
    let mut program = Node { span: *span, ..Node::default() };
    let mut transfers = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        if !is_transfer(flow) {
            let why = format!(
                "real programs carry the transfers of {name:?}, and no other kind can run next to them; write \
                 kind = \"transfer\" and stack = \"tcp\", or leave the flow out"
            );
            return Err(at(flow, index, "kind", &why));
        }
        let entries = around.entry(flow).and_then(each);
        transfers.extend(entries.map_err(|(key, why)| at(flow, index, key, &why))?);
        let Some(cost) = flow.get(COST) else { continue };
        if program.get(COST).is_some_and(|other| other.rendered() != cost.rendered()) {
            let why = "another transfer has a different one, but it applies to all programs; write it once";
            return Err(at(flow, index, COST, why));
        }
        program.set(&[COST], cost.clone());
    }
    program.set(&["kind"], Node::from_text("program"));
    program.set(&[NAME], Node { span: *span, ..Node::from_text(PROGRAM) });
    if let Some(host) = transfers[0].get("host") {
        program.set(&["host"], host.clone());
    }
    program.set(&["transfers"], Node { span: *span, value: Value::Array(transfers) });
    *flows = vec![program];
    Ok(true)
}

fn at(flow: &Node, index: usize, key: &str, why: &str) -> Problem {
    Problem::new(flow.span_of(key), format!("`flow[{index}].{key}`: {why}"))
}

/// A key, and what is wrong with it.
type Wrong = (&'static str, String);

/// Turns a transfer by one of lasthop's own stacks into a bulk transfer.
fn as_bulk(flow: &mut Node) -> Result<(), Wrong> {
    let stack = flow.take(KEY);
    if stack.as_ref().and_then(Node::text) == Some(QUINN) {
        flow.set(&[KEY], Node { span: flow.span, ..Node::from_text("quic") });
    }
    let case = flow.get("testcase").and_then(Node::text).unwrap_or(TEST_CASE);
    if case != TEST_CASE {
        return Err(("testcase", format!("{case:?}: built-in stacks only have {TEST_CASE:?}; leave it out")));
    }
    if flow.get(COST).is_some() {
        return Err((COST, "applies to stacks that are real programs; leave it out".into()));
    }
    flow.take("testcase");
    match flow.get("objects").and_then(Node::items) {
        None => {}
        Some([only]) if flow.get("bytes").is_none() => flow.set(&["bytes"], only.clone()),
        Some(_) => {
            return Err(("objects", "a built-in stack transfers one file; write bytes instead".into()));
        }
    }
    flow.take("objects");
    flow.set(&["kind"], Node::from_text("bulk-tcp"));
    Ok(())
}

/// What the rest of a scenario says about its transfers.
struct Around {
    stacks: Node,
    /// The congestion control of `[tcp]`.
    control: Option<Node>,
    /// The name of the only host.
    only_host: Option<String>,
}

impl Around {
    /// The entry of a transfer that real programs carry.
    fn entry(&self, flow: &Node) -> Result<Node, Wrong> {
        let Some(stack) = flow.get(KEY).and_then(Node::text) else {
            return Err((KEY, "is missing; add for example stack = \"quinn\"".into()));
        };
        let mut entry = flow.clone();
        let Value::Table(keys) = &mut entry.value else { return Ok(entry) };
        if let Some(other) = keys.iter().find(|entry| !KEYS.contains(&entry.key.as_str())) {
            let why = format!("`{}` applies to built-in stacks only; leave it out", other.key);
            return Err((KEY, format!("{stack:?} is a real program, and {why}")));
        }
        keys.retain(|entry| !["kind", "tcp", COST].contains(&entry.key.as_str()));
        if let Some(host) = self.only_host.as_ref().filter(|_| uploads(flow) && flow.get("host").is_none()) {
            entry.set(&["host"], Node::from_text(host));
        }
        let table = self.stacks.get(stack);
        let adapter = table.and_then(|table| table.get(ADAPTER));
        let runs = adapter.and_then(Node::text).unwrap_or(stack);
        let control = flow.at("tcp.congestion_control").or(self.control.as_ref()).filter(|_| runs == TCP);
        if let Some(control) = control {
            entry.set(&["congestion_control"], control.clone());
        }
        if runs == QUINN {
            entry.set(&[KEY], Node::from_text(QUINN_PROGRAM));
        } else if let Some(adapter) = adapter {
            entry.set(&[KEY], adapter.clone());
        }
        let Some(table) = table else { return Ok(entry) };
        for (key, both) in [("client", true), ("server", true), ("env", false)] {
            if let Some(stated) = table.get(key).or_else(|| table.get("endpoint").filter(|_| both)) {
                entry.set(&[key], stated.clone());
            }
        }
        Ok(entry)
    }
}

fn uploads(flow: &Node) -> bool {
    flow.get("direction").and_then(Node::text) == Some("up")
}

/// The transfers of an entry, whose names are numbered if it has a count.
fn each(mut entry: Node) -> Result<Vec<Node>, Wrong> {
    let Some(count) = entry.take("count") else { return Ok(vec![entry]) };
    let number = count.read::<u32>().ok().filter(|number| (1..=COUNT_MAX).contains(number));
    let Some(number) = number else {
        return Err(("count", format!("{} is out of range; write from 1 to {COUNT_MAX}", count.rendered())));
    };
    if number > 1 && uploads(&entry) {
        return Err((
            "count",
            "one of them can upload, as its server's host has one port 443; leave it out".into(),
        ));
    }
    let name = entry.get(NAME).map(Node::rendered).unwrap_or_default();
    let numbered = |number| {
        let mut own = entry.clone();
        own.set(&[NAME], Node { span: entry.span_of(NAME), ..Node::from_text(&format!("{name}-{number}")) });
        own
    };
    Ok((1..=number).map(numbered).collect())
}

/// Rewrites a path or a message about a desugared scenario to the keys of the file.
pub fn as_written(text: &str) -> String {
    text.replace(PLACE, "flow[")
}

/// Rewrites a path in the file to the keys of the desugared scenario.
pub fn in_program(path: &str) -> String {
    path.strip_prefix("flow[").map_or_else(|| path.to_owned(), |rest| format!("{PLACE}{rest}"))
}
