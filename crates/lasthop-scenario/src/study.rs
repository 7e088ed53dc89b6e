//! A scenario file as a study: its cells, each a complete scenario.

use std::path::Path;

use lasthop_tcp::Profile;
use serde::Deserialize;

use crate::check::{check, join};
use crate::error::{Problem, ScenarioError};
use crate::extends;
use crate::matrix::{Factor, expand};
use crate::schema;
use crate::source::Sources;
use crate::tree::{Entry, Node, Value};
use crate::types::Scenario;
use crate::validate::validate;
use crate::when;

/// A scenario file, read and checked whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Short name, fit for a folder.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// What the study is about; empty if the file does not say.
    pub description: String,
    /// What all random streams derive from.
    pub seed: u64,
    /// How often every cell is run; at least 1.
    pub replications: u32,
    /// The factors and the levels of each, in the order of the file.
    pub factors: Vec<(String, Vec<String>)>,
    /// The cells in the order of the matrix; at least one.
    pub cells: Vec<Cell>,
}

/// One combination of levels and the scenario it makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Factor and level, in the order of the factors.
    pub levels: Vec<(String, String)>,
    /// What is run.
    pub scenario: Scenario,
    /// Why the model engine cannot run it.
    unmodelled: Option<ScenarioError>,
}

impl Cell {
    /// An error that names the place of what the model engine has no model of, if there is such a thing.
    pub fn needs_model(&self) -> Result<(), ScenarioError> {
        self.unmodelled.clone().map_or(Ok(()), Err)
    }

    /// "link=e0,workload=2tcp0udp": the cell's name in records and filters; empty without factors.
    pub fn key(&self) -> String {
        key(&self.levels)
    }
}

fn key(levels: &[(String, String)]) -> String {
    let pairs: Vec<_> = levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    pairs.join(",")
}

/// Keys of a file that are not part of its base scenario.
const STUDY_KEYS: [&str; 8] =
    [extends::KEY, "name", "title", "description", "seed", "replications", "factor", "matrix"];

impl Study {
    /// Reads and checks a file, and those it extends.
    ///
    /// `extends = "study.toml"` names another file, from the folder of the one that says so. The extending
    /// file is laid over it: tables are merged key by key, so a level of a factor gets further keys and
    /// a factor further levels; other values, lists (such as `flow` and `matrix`) and distributions are
    /// replaced. Its own factors come after those of the extended file, and their levels may change what the
    /// levels there set.
    pub fn from_path(path: &Path) -> Result<Self, ScenarioError> {
        let (file, sources) = extends::read(path)?;
        Self::from_tree(&file, &sources).map_err(|problem| sources.locate(problem))
    }

    /// Reads and checks the bytes of a file; `file_name` is for error messages. `extends` is an error: bytes
    /// have no folder.
    pub fn from_bytes(bytes: &[u8], file_name: &str) -> Result<Self, ScenarioError> {
        let (file, sources) = extends::read_alone(file_name, bytes)?;
        Self::from_tree(&file, &sources).map_err(|problem| sources.locate(problem))
    }

    /// Reads and checks the text of a file, as [`Study::from_bytes`] does.
    pub fn from_str(text: &str, file_name: &str) -> Result<Self, ScenarioError> {
        Self::from_bytes(text.as_bytes(), file_name)
    }

    fn from_tree(file: &Node, sources: &Sources) -> Result<Self, Problem> {
        check(file, &schema::FILE)?;
        let header = Header::read(file)?;
        let factors = factors(file)?;
        when::check(&factors)?;
        let combinations = expand(&factors, file.get("matrix"))?;
        let several = combinations.len() > 1;
        let base = base(file);
        let mut cells = Vec::with_capacity(combinations.len());
        for combination in combinations {
            let entries =
                factors.iter().zip(combination).map(|(factor, level)| (factor, &factor.levels[level]));
            let names: Vec<_> =
                entries.clone().map(|(factor, level)| (factor.name, level.key.as_str())).collect();
            let chosen: Vec<Chosen<'_>> = entries
                .map(|(factor, level)| Chosen {
                    factor: factor.name,
                    level: &level.key,
                    node: when::resolve(&level.node, &names),
                })
                .collect();
            let levels: Vec<_> =
                names.iter().map(|(factor, level)| ((*factor).into(), (*level).into())).collect();
            let in_cell = |mut problem: Problem| {
                if several {
                    problem.message = format!("{} (in cell {})", problem.message, key(&levels));
                }
                problem
            };
            let (scenario, unmodelled) = compose(&base, &chosen, sources).map_err(in_cell)?;
            let unmodelled = unmodelled.map(|problem| sources.locate(in_cell(problem)));
            cells.push(Cell { levels, scenario, unmodelled });
        }
        let level_names = |factor: &Factor<'_>| factor.levels.iter().map(|level| level.key.clone()).collect();
        let factors = factors.iter().map(|factor| (factor.name.into(), level_names(factor))).collect();
        let Header { name, title, description, seed, replications } = header;
        Ok(Self { name, title, description, seed, replications, factors, cells })
    }
}

/// What a file says of the study as a whole.
#[derive(Deserialize)]
struct Header {
    name: String,
    title: String,
    #[serde(default)]
    description: String,
    seed: u64,
    replications: u32,
}

impl Header {
    fn read(file: &Node) -> Result<Self, Problem> {
        let header =
            Self::deserialize(file.to_toml()).map_err(|error| Problem::new(file.span, error.message()))?;
        let folder = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !header.name.chars().all(folder) || !header.name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let message = format!(
                "`name`: {:?} is not fit for a folder; use letters, digits, `.`, `_` and `-`, \"kulve2003\" say",
                header.name
            );
            return Err(Problem::new(file.span_of("name"), message));
        }
        Ok(header)
    }
}

fn entries_of(node: &Node) -> &[Entry] {
    node.table().map_or(&[], Vec::as_slice)
}

/// The factors, whose names and levels can stand in a cell's key.
fn factors(file: &Node) -> Result<Vec<Factor<'_>>, Problem> {
    let entries = file.get("factor").map_or(&[][..], entries_of);
    for label in entries.iter().flat_map(|factor| std::iter::once(factor).chain(entries_of(&factor.node))) {
        let stray = |c: char| c.is_whitespace() || c.is_control() || ",=".contains(c);
        if label.key.is_empty() || label.key.contains(stray) {
            let message = format!(
                "{:?} cannot name a factor or level: it stands in keys such as link=e0,variant=red; leave out \
                 blanks, `,` and `=`",
                label.key
            );
            return Err(Problem::new(label.span, message));
        }
    }
    Ok(entries.iter().map(|factor| Factor { name: &factor.key, levels: entries_of(&factor.node) }).collect())
}

/// The file without what belongs to the study.
fn base(file: &Node) -> Node {
    let mut base = file.clone();
    if let Value::Table(entries) = &mut base.value {
        entries.retain(|entry| !STUDY_KEYS.contains(&entry.key.as_str()));
    }
    base
}

/// The level of a factor that a cell has.
struct Chosen<'a> {
    factor: &'a str,
    level: &'a str,
    /// What it says in this cell.
    node: Node,
}

/// The scenario of a cell - profile, then base, then the levels - and why the model engine cannot run it.
fn compose(
    base: &Node,
    chosen: &[Chosen<'_>],
    sources: &Sources,
) -> Result<(Scenario, Option<Problem>), Problem> {
    contradiction(chosen, sources)?;
    let mut merged = base.clone();
    for Chosen { node, .. } in chosen {
        merged.merge(node);
    }
    fill_in_profile(&mut merged)?;
    check(&merged, &schema::SCENARIO)?;
    let read: Result<Scenario, _> = serde_path_to_error::deserialize(merged.to_toml());
    let scenario =
        read.map_err(|error| problem_at(&merged, &error.path().to_string(), error.inner().message()))?;
    validate(&scenario).map_err(|(path, reason)| problem_at(&merged, &path, &reason))?;
    let unmodelled = scenario.unmodelled().map(|(key, reason)| problem_at(&merged, &key, &reason));
    Ok((scenario, unmodelled))
}

fn problem_at(node: &Node, path: &str, reason: &str) -> Problem {
    Problem::new(node.span_of(path), format!("`{path}`: {reason}"))
}

/// Levels of different factors must not give one key different values: which one holds would depend on
/// the order of the factors. Only a file that extends another may change what that one's levels set.
fn contradiction(chosen: &[Chosen<'_>], sources: &Sources) -> Result<(), Problem> {
    for (index, later) in chosen.iter().enumerate() {
        for earlier in &chosen[..index] {
            let Some(conflict) = earlier.node.conflict(&later.node) else { continue };
            let [first, second] = conflict.spans;
            let [first_place, second_place] =
                [first, second].map(|span| sources.locate(Problem::new(span, "")));
            let elsewhere = first_place.file != second_place.file;
            let of_file = if elsewhere { format!(" of {}", first_place.file) } else { String::new() };
            let message = format!(
                "`{}` is set here by {}={} and, to another value, on line {}{of_file} by {}={}; leave it to one \
                 factor",
                join(&conflict.path),
                later.factor,
                later.level,
                first_place.line.unwrap_or_default(),
                earlier.factor,
                earlier.level
            );
            return Err(Problem::new(second, message));
        }
    }
    Ok(())
}

/// Lays the stated TCP switches over those of the profile.
fn fill_in_profile(merged: &mut Node) -> Result<(), Problem> {
    let Value::Table(entries) = &mut merged.value else { return Ok(()) };
    let Some(tcp) = entries.iter_mut().find(|entry| entry.key == "tcp") else { return Ok(()) };
    let Some(profile) = tcp.node.get("profile") else { return Ok(()) };
    let profile = Profile::deserialize(profile.to_toml())
        .map_err(|error| Problem::new(profile.span, error.message()))?;
    let mut switches = Node::parse(profile.toml(), 0)?.without_spans();
    switches.merge(&tcp.node);
    tcp.node = switches;
    Ok(())
}
