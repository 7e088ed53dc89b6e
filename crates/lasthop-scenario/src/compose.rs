//! The scenario of a cell: profile, then base, then the levels.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_core::Fault;
use lasthop_tcp::Profile;

use crate::assume::{self, Assumption};
use crate::check::{self, join, mend};
use crate::command;
use crate::desugar;
use crate::error::{FAULTS_MAX, Problem};
use crate::notes::notes;
use crate::schema;
use crate::source::Sources;
use crate::transfer;
use crate::tree::{Entry, Node, Value, quote};
use crate::types::Scenario;
use crate::validate::validate;

pub struct Chosen<'a> {
    pub factor: &'a str,
    pub level: &'a str,
    /// The values that the level sets in this cell.
    pub node: Node,
}

#[derive(Default)]
pub struct Composed {
    /// None if there are faults.
    pub scenario: Option<Scenario>,
    pub assumed: Vec<Assumption>,
    pub problems: Vec<Problem>,
    /// Notes on settings that are probably unintended.
    pub notes: Vec<Problem>,
    /// Why the model engine cannot run it.
    pub unmodelled: Option<Problem>,
}

/// How a path in the file reads in the desugared scenario, and how a message about that reads for the file.
type Names = (fn(&str) -> String, fn(&str) -> String);

/// Composes a cell. Values at `guessed` come from repairs; faults that may be due to them are not reported.
/// `for_link` is [`Loaded::for_link`](crate::extends::Loaded).
pub fn compose(
    base: &Node,
    chosen: &[Chosen<'_>],
    sources: &Sources,
    guessed: &[String],
    for_link: bool,
) -> Composed {
    let mut composed = Composed { problems: contradictions(chosen, sources), ..Composed::default() };
    let mut merged = base.clone();
    for Chosen { node, .. } in chosen {
        composed.problems.extend(without_effect(&merged, node));
        merged.merge(node);
    }
    merged.unset(&|key| schema::SWITCHES.contains(key));
    // A key that is missing in both the file and the level is reported at the file, not at the last level.
    merged.span = base.span;
    if let Err(problem) = command::give_to_program(&mut merged)
        && !guessed.iter().any(|faulty| faulty == command::KEY)
    {
        composed.problems.push(problem);
        return composed;
    }
    let by_programs = match transfer::desugar(&mut merged) {
        Ok(by_programs) => by_programs,
        // A guess may have made the flows what they are.
        Err(problem) => {
            composed.problems.extend(guessed.is_empty().then_some(problem));
            return composed;
        }
    };
    let of_programs: Names = (transfer::in_program, transfer::as_written);
    let of_tree: Names = (desugar::in_tree, desugar::as_written);
    let changed = [by_programs.then_some(of_programs), desugar::desugar(&mut merged).then_some(of_tree)];
    let changed = || changed.into_iter().flatten();
    let as_desugared = |path: &String| changed().fold(path.clone(), |path, (new, _)| new(&path));
    let as_written =
        |text: &mut String| *text = changed().fold(std::mem::take(text), |text, (_, old)| old(&text));
    let guessed: Vec<String> = guessed.iter().map(as_desugared).collect();
    let mut composed = resolve(composed, merged, chosen, &guessed, for_link);
    composed.assumed.iter_mut().for_each(|assumption| as_written(&mut assumption.key));
    let problems = composed.problems.iter_mut().chain(&mut composed.notes).chain(&mut composed.unmodelled);
    problems.for_each(|problem| as_written(&mut problem.message));
    composed
}

/// Completes the merged file of a cell, checks it and reads it as a scenario.
fn resolve(
    mut composed: Composed,
    mut merged: Node,
    chosen: &[Chosen<'_>],
    guessed: &[String],
    for_link: bool,
) -> Composed {
    composed.assumed = assume::complete(&mut merged, for_link);
    if let Err(problem) = fill_in_profiles(&mut merged) {
        composed.problems.push(problem);
        return composed;
    }
    // A direction that is a copy of the other has the same faults: report them once.
    let copies: Vec<String> =
        composed.assumed.iter().map(|assumption| &assumption.key).filter(|key| is_up(key)).cloned().collect();
    let is_copy = |path: &str| copies.iter().any(|copy| begins_with(path, copy));
    let mut guessed = guessed.to_vec();
    let faults = mend(&mut merged, &schema::SCENARIO);
    let paths: BTreeSet<String> = faults.iter().map(check::Fault::path).collect();
    for fault in &faults {
        let path = fault.path();
        if !is_copy(&path)
            && !is_of_all(&path, &paths)
            && !guessed.iter().any(|earlier| begins_with(&path, earlier))
        {
            composed.problems.push(fault.problem.clone());
        }
        guessed.extend(fault.is_guess().then_some(path));
    }
    if faults.len() == FAULTS_MAX {
        return composed;
    }
    composed.assumed.extend(assume::switches(&mut merged));
    let problem_at = |Fault { key, message }| {
        let hint = how_to_unset(&merged, chosen, &key, &message);
        Problem::new(merged.span_of(&key), format!("`{key}`: {message}{hint}"))
    };
    let scenario: Scenario = match merged.read() {
        Ok(scenario) => scenario,
        Err(error) if guessed.is_empty() => {
            let (key, message) = (error.path().to_string(), error.inner().message().to_owned());
            composed.problems.push(problem_at(Fault { key, message }));
            return composed;
        }
        Err(_) => return composed,
    };
    let faults = validate(&scenario);
    let paths: BTreeSet<String> = faults.iter().map(|fault| fault.key.clone()).collect();
    let own = |path: &str| {
        !is_copy(path) && !is_of_all(path, &paths) && !guessed.iter().any(|faulty| may_come_of(path, faulty))
    };
    let faults = faults.into_iter().filter(|fault| own(&fault.key)).take(FAULTS_MAX);
    composed.problems.extend(faults.map(problem_at));
    if composed.problems.is_empty() && guessed.is_empty() {
        let noted = notes(&scenario).into_iter().filter(|note| !is_copy(&note.key));
        composed.notes = noted.map(problem_at).collect();
        composed.unmodelled = scenario.unmodelled().map(problem_at);
        composed.scenario = Some(scenario);
    }
    composed
}

/// The problem of an empty table in `over`: it does not change the table that it extends.
pub fn without_effect(under: &Node, over: &Node) -> Option<Problem> {
    let (path, span) = under.without_effect(over)?;
    let path = join(&path);
    let message = format!(
        "`{path}`: an empty table does not change the inherited one; write {path} = false to remove the \
         inherited table, or leave it out"
    );
    Some(Problem::new(span, message))
}

/// How to remove a key of an extended file or of a level's base, if a fault's message suggests to leave it out.
fn how_to_unset(merged: &Node, chosen: &[Chosen<'_>], key: &str, message: &str) -> String {
    let Some(span) = merged.at(key).and_then(|node| node.span) else { return String::new() };
    let is_inherited =
        span.file > 0 || !chosen.is_empty() && !chosen.iter().any(|level| level.node.states(span));
    if !is_inherited || !message.contains("leave") {
        return String::new();
    }
    let by_name = key.strip_prefix("flow[").and_then(|rest| {
        let (index, rest) = rest.split_once(']')?;
        Some(format!("flow.{}{rest}", quote(&merged.at(&format!("flow[{index}].name"))?.rendered())))
    });
    format!("; {} = false removes the inherited key", by_name.as_deref().unwrap_or(key))
}

/// True if `path` is the direction up of a hop: `up` or `hop.NAME.up`.
fn is_up(path: &str) -> bool {
    path == "up"
        || path.strip_prefix("hop.").and_then(|hop| hop.split_once('.')).is_some_and(|(_, side)| side == "up")
}

/// True if `path` is `beginning` or lies inside it.
fn begins_with(path: &str, beginning: &str) -> bool {
    path.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// True if a fault at `path` may be due to the guess at `faulty`: one path lies in the table of the other, or
/// everything depends on the guess.
fn may_come_of(path: &str, faulty: &str) -> bool {
    fn table(path: &str) -> &str {
        path.rsplit_once(['.', '[']).map_or(path, |(table, _)| table)
    }
    let everywhere = ["mtu", "time_limit"].contains(&faulty);
    everywhere || begins_with(path, table(faulty)) || begins_with(faulty, table(path))
}

/// Levels of different factors must not set a key to different values: the result would depend on the order
/// of the factors. Only levels of a file that extends another may change values that levels of that file set.
fn contradictions(chosen: &[Chosen<'_>], sources: &Sources) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, later) in chosen.iter().enumerate() {
        for earlier in &chosen[..index] {
            let Some(conflict) = earlier.node.conflict(&later.node) else { continue };
            let [first, second] = conflict.spans;
            let [first_place, second_place] =
                [first, second].map(|span| sources.locate(Problem::new(span, "")));
            let elsewhere = first_place.file != second_place.file;
            let of_file = if elsewhere { format!(" of {}", first_place.file) } else { String::new() };
            let message = format!(
                "`{}` is set here by {}={} and, to another value, on line {}{of_file} by {}={}; set it in \
                 one factor only",
                join(&conflict.path),
                later.factor,
                later.level,
                first_place.line.unwrap_or_default(),
                earlier.factor,
                earlier.level
            );
            problems.push(Problem::new(second, message));
        }
    }
    problems
}

/// True if a fault at `path`, in the `tcp` of a flow, relay or host, comes from `[tcp]`.
fn is_of_all(path: &str, wrong: &BTreeSet<String>) -> bool {
    let of_flow = path.strip_prefix("flow[").and_then(|rest| rest.split_once("].tcp"));
    let of_host = || path.strip_prefix("host.").and_then(|rest| rest.split_once(".tcp"));
    let of_relay = || path.strip_prefix("flow[").and_then(|rest| rest.split_once("].relay.tcp"));
    of_flow.or_else(of_host).or_else(of_relay).is_some_and(|(_, key)| wrong.contains(&format!("tcp{key}")))
}

/// Merges TCP switches: `[tcp]` over the profile, a host's over both, a flow's over its host's, and a relay's
/// over its flow's.
fn fill_in_profiles(merged: &mut Node) -> Result<(), Problem> {
    let stated = merged.get("tcp").cloned().unwrap_or_default();
    if let Some(tcp) = merged.child("tcp") {
        *tcp = with_profile(stated.clone())?;
    }
    let mut of_hosts = BTreeMap::new();
    if let Some(Node { value: Value::Table(hosts), .. }) = merged.child("host") {
        for Entry { key, node: host, .. } in hosts {
            let Some(own) = host.child("tcp").filter(|own| own.table().is_some()) else { continue };
            of_hosts.insert(key.clone(), over(&stated, own));
            *own = Node { span: own.span, ..with_profile(over(&stated, own))? };
        }
    }
    let only = desugar::only_host(merged);
    let Some(Node { value: Value::Array(flows), .. }) = merged.child("flow") else { return Ok(()) };
    for flow in flows {
        let host = flow.get("host").and_then(Node::text).map(str::to_owned).or_else(|| only.clone());
        let of_host = host.and_then(|host| of_hosts.get(&host));
        let mut of_flow = stated.clone();
        if let Some(own) = flow.child("tcp").filter(|own| own.table().is_some()) {
            of_flow = over(of_host.unwrap_or(&stated), own);
            *own = Node { span: own.span, ..with_profile(of_flow.clone())? };
        }
        let relay = flow.child("relay").and_then(|relay| relay.child("tcp"));
        if let Some(own) = relay.filter(|own| own.table().is_some()) {
            *own = Node { span: own.span, ..with_profile(over(&of_flow, own))? };
        }
    }
    Ok(())
}

/// Merges the switches `own` over `all`.
fn over(all: &Node, own: &Node) -> Node {
    let mut tcp = all.clone().without_spans();
    tcp.merge(own);
    tcp
}

fn with_profile(tcp: Node) -> Result<Node, Problem> {
    let Some(profile) = tcp.get("profile") else { return Ok(tcp) };
    let profile =
        profile.read::<Profile>().map_err(|error| Problem::new(profile.span, error.inner().message()))?;
    let mut switches = Node::parse(profile.toml(), 0).unwrap_or_default().without_spans();
    switches.merge(&tcp);
    Ok(switches)
}
