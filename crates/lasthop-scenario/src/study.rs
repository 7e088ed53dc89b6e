//! A study: a scenario file, expanded into cells, each with a complete scenario.

use std::path::Path;

use lasthop_core::Amount;
use lasthop_core::amount::Scale;
use serde::Deserialize;

use crate::assume::Assumption;
use crate::compose::{Chosen, Composed, compose};
use crate::error::{Problem, ScenarioError, ScenarioErrors};
use crate::extends::{self, Loaded};
use crate::findings::Findings;
use crate::matrix::{CELLS_MAX, FACTORS_MAX, Factor, expand, too_many};
use crate::range::{self, Method, RangeFactor, Sample, Sampler};
use crate::schema::{REPLICATIONS, SEED};
use crate::source::Sources;
use crate::tree::{Entry, Node, Value};
use crate::types::Scenario;
use crate::when;

/// Maximum number of values in all cells together; twenty times that of the largest study.
const VALUES_MAX: usize = 4_000_000;

/// A scenario file that has been read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Short name, usable as a folder name.
    pub name: String,
    pub title: String,
    /// Description of the study; empty if the file has none.
    pub description: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Number of runs of each cell; at least 1.
    pub replications: u32,
    /// The factors with named levels and the levels of each, in the order of the file.
    pub factors: Vec<(String, Vec<String>)>,
    /// The factors that are ranges, if there are any.
    pub space: Option<Space>,
    /// The cells, at least one, in the order of the matrix; the cells of a point follow each other.
    pub cells: Vec<Cell>,
    /// Assumptions about the study as a whole.
    pub assumed: Vec<Assumption>,
    /// The file that it was read from, as the user named it.
    pub file: String,
    /// Notes on settings that are probably unintended, such as a flow that never starts.
    pub notes: Vec<ScenarioError>,
}

/// Ranges, and how they are sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    pub method: Method,
    /// Number of points drawn.
    pub points: u32,
    /// The ranges, in the order of the file.
    pub ranges: Vec<RangeInfo>,
}

/// A factor whose levels are a range of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeInfo {
    pub name: String,
    /// The ends, in units of the same kind.
    pub ends: [Amount; 2],
    pub scale: Scale,
    /// The keys of the scenario that it sets.
    pub sets: Vec<String>,
}

/// A combination of levels, and its scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Factor and level, in the order of the factors.
    pub levels: Vec<(String, String)>,
    /// The levels of the factors that are ranges, in their order.
    pub point: Vec<(String, Amount)>,
    pub scenario: Scenario,
    /// Assumptions about the scenario.
    pub assumed: Vec<Assumption>,
    /// Keys and names of all user code in the scenario.
    pub code: Vec<(String, String)>,
    /// Why the model engine cannot run it.
    unmodelled: Option<ScenarioError>,
}

impl Study {
    /// An error about the file as a whole.
    pub fn error(&self, message: String) -> ScenarioError {
        ScenarioError { file: self.file.clone(), line: None, message }
    }

    /// Returns the errors, each once, that `refusal` reports for the cells with these keys.
    pub fn accepts(
        &self,
        keys: &[String],
        refusal: impl Fn(&Cell) -> Result<(), ScenarioError>,
    ) -> Result<(), ScenarioErrors> {
        let cells = self.cells.iter().filter(|cell| keys.contains(&cell.key()));
        let refused = cells.filter_map(|cell| Some((cell.key(), refusal(cell).err()?)));
        ScenarioErrors::of_cells(refused, keys.len())
    }
}

impl Cell {
    /// A cell of a study that another process has loaded, and that the model engine accepts; without its point.
    pub fn resolved(levels: Vec<(String, String)>, mut scenario: Scenario) -> Self {
        let code = scenario.user_code();
        Self { levels, point: Vec::new(), scenario, assumed: Vec::new(), code, unmodelled: None }
    }

    /// Returns an error if the scenario has a feature that the model engine does not model.
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
const STUDY_KEYS: [&str; 10] = [
    extends::KEY,
    "name",
    "title",
    "description",
    "seed",
    "replications",
    "factor",
    "matrix",
    range::SAMPLE,
    "claim",
];

impl Study {
    /// Reads and checks a file and the files it extends.
    ///
    /// `extends = "study.toml"` names another file, relative to the folder of the extending file; `extends =
    /// "lte"` names a preset, if that folder has no file `lte`. The extending file is merged over the other:
    /// tables, including factors and levels, are merged key by key; other values, lists (such as `flow` and
    /// `matrix`) and distributions are replaced. The factors of the extending file come last, and their levels
    /// may change values that levels of the extended file set.
    ///
    /// All errors are reported at once; an error that occurs in many cells is reported once.
    pub fn from_path(path: &Path) -> Result<Self, ScenarioErrors> {
        Self::sampled(path, &Sampler::NONE)
    }

    /// Reads and checks a file as [`Study::from_path`] does, with the points of its ranges from `sampler`.
    pub fn sampled(path: &Path, sampler: &Sampler<'_>) -> Result<Self, ScenarioErrors> {
        Self::from_loaded(Loaded::read(path)?, path, sampler)
    }

    /// Reads and checks a file as [`Study::sampled`] does, but only for its last hop: if it has no flows, one is
    /// added.
    pub fn of_link(path: &Path, sampler: &Sampler<'_>) -> Result<Self, ScenarioErrors> {
        Self::from_loaded(Loaded { for_link: true, ..Loaded::read(path)? }, path, sampler)
    }

    /// Reads and checks the bytes of a file, which may extend presets only; `file_name` is for error messages.
    pub fn from_bytes(bytes: &[u8], file_name: &str, sampler: &Sampler<'_>) -> Result<Self, ScenarioErrors> {
        Self::from_loaded(Loaded::read_alone(file_name, bytes)?, Path::new(file_name), sampler)
    }

    /// Reads and checks bytes instead of a file's content. They may name only `files`, relative to the folder of
    /// that file.
    pub fn in_place_of(
        path: &Path,
        bytes: &[u8],
        files: &[String],
        sampler: &Sampler<'_>,
    ) -> Result<Self, ScenarioErrors> {
        Self::from_loaded(Loaded::read_as(path, bytes, Some(files))?, path, sampler)
    }

    /// Reads and checks the text of a file without ranges, as [`Study::from_bytes`] does.
    pub fn from_str(text: &str, file_name: &str) -> Result<Self, ScenarioErrors> {
        Self::from_bytes(text.as_bytes(), file_name, &Sampler::NONE)
    }

    /// `file_name` names the study if the file states no name.
    fn from_loaded(loaded: Loaded, file_name: &Path, sampler: &Sampler<'_>) -> Result<Self, ScenarioErrors> {
        let Loaded { tree, sources, mut findings, guessed, for_link } = loaded;
        let mut assumed = Vec::new();
        let header = Header::read(&tree, file_name, &mut findings, &mut assumed);
        let (factors, ranges) = factors(&tree, &mut findings);
        if let Some(problem) = too_wide(&factors, ranges.len(), &tree) {
            findings.add(problem);
            return Err(findings.all(&sources, 0));
        }
        when::check(&factors, &mut findings);
        let names: Vec<_> = ranges.iter().map(|range| range.name).collect();
        let combinations = expand(&factors, &names, tree.get("matrix"), &mut findings);
        let stated = tree.get("factor").map_or(&[][..], entries_of).iter();
        let stated = stated.filter(|factor| range::is_range(&factor.node)).count();
        if ranges.len() < stated {
            // The range might set the value that the cells lack.
            return Err(findings.all(&sources, 0));
        }
        let sample = range::sample(&tree, &ranges, header.seed, sampler.points);
        let guessed: Vec<String> = guessed.iter().map(|path| in_cell(path).to_owned()).collect();
        let mut reading = Reading {
            base: base(&tree),
            factors: &factors,
            ranges: &ranges,
            sources: &sources,
            guessed,
            for_link,
            findings,
            notes: Findings::default(),
        };
        let mut points = vec![Vec::new()];
        if stated > 0 {
            // A faulty key or end affects every point: checking the ends reports it once.
            for end in reading.ends() {
                reading.cells(&combinations, &[end]);
                if !reading.findings.is_empty() {
                    return Err(reading.findings.all(&sources, combinations.len()));
                }
            }
            points = reading.draw(&tree, sample, sampler, combinations.len());
            assumed.extend(range::assumed(&tree, sample, sampler.points));
        } else if let Some(stated) = tree.get(range::SAMPLE) {
            let message =
                "`sample`: no factor is a range; add from, to and sets to a factor, or leave out [sample]";
            reading.findings.add(Problem::new(stated.span, message));
        }
        let total = combinations.len() * points.len();
        let cells = reading.cells(&combinations, &points);
        if !reading.findings.is_empty() {
            return Err(reading.findings.all(&sources, total));
        }
        let notes = reading.notes.located(&sources, total);
        let level_names = |factor: &Factor<'_>| factor.levels.iter().map(|level| level.key.clone()).collect();
        let factors = factors.iter().map(|factor| (factor.name.into(), level_names(factor))).collect();
        let ranges: Vec<_> = ranges.iter().map(RangeInfo::of).collect();
        let space = Space { method: sample.method, points: sample.points, ranges };
        let space = Some(space).filter(|space| !space.ranges.is_empty());
        let file = file_name.display().to_string();
        let Header { name, title, description, seed, replications } = header;
        Ok(Self { name, title, description, seed, replications, factors, space, cells, assumed, file, notes })
    }
}

/// For each range a level, and the values that it sets in the scenario.
type Point = Vec<(Amount, Node)>;

/// The expansion of a file into cells.
struct Reading<'a> {
    base: Node,
    factors: &'a [Factor<'a>],
    ranges: &'a [RangeFactor<'a>],
    sources: &'a Sources,
    guessed: Vec<String>,
    for_link: bool,
    findings: Findings,
    notes: Findings,
}

impl Reading<'_> {
    /// Composes every combination of named levels at every point. Faulty cells are reported and skipped.
    fn cells(&mut self, combinations: &[Vec<usize>], points: &[Point]) -> Vec<Cell> {
        let mut cells = Vec::new();
        if let Some(problem) = too_long(&self.base, self.factors, combinations.len() * points.len()) {
            self.findings.add(problem);
            return cells;
        }
        for point in points {
            cells.extend(combinations.iter().filter_map(|combination| self.cell(combination, point)));
        }
        cells
    }

    fn cell(&mut self, combination: &[usize], point: &Point) -> Option<Cell> {
        let texts: Vec<String> = point.iter().map(|(amount, _)| amount.to_string()).collect();
        let mut chosen = choose(self.factors, combination);
        for ((range, level), (_, node)) in self.ranges.iter().zip(&texts).zip(point) {
            chosen.insert(range.place, Chosen { factor: range.name, level, node: node.clone() });
        }
        let levels: Vec<_> =
            chosen.iter().map(|chosen| (chosen.factor.into(), chosen.level.into())).collect();
        let name = key(&levels);
        let composed = compose(&self.base, &chosen, self.sources, &self.guessed, self.for_link);
        for problem in composed.problems {
            self.findings.add_in(&name, problem);
        }
        for note in composed.notes {
            self.notes.add_in(&name, note);
        }
        let Composed { scenario: Some(mut scenario), assumed, unmodelled, .. } = composed else {
            return None;
        };
        let unmodelled = unmodelled.map(|problem| self.sources.locate(problem));
        let named =
            self.ranges.iter().zip(point).map(|(range, (amount, _))| (range.name.to_owned(), *amount));
        let point = named.collect();
        let code = scenario.user_code();
        Some(Cell { levels, point, scenario, assumed, code, unmodelled })
    }

    /// The point with all ranges at their lower ends, and the one with all at their upper ends.
    fn ends(&self) -> [Point; 2] {
        [0, 1].map(|end| self.ranges.iter().map(|range| range.ends()[end].clone()).collect())
    }

    fn draw(
        &mut self,
        file: &Node,
        sample: Sample,
        sampler: &Sampler<'_>,
        combinations: usize,
    ) -> Vec<Point> {
        let place = file.span_of("sample.points").filter(|_| file.get(range::SAMPLE).is_some());
        if combinations.saturating_mul(sample.points as usize) > CELLS_MAX {
            self.findings.add(too_many(place));
            return Vec::new();
        }
        match range::levels(self.ranges, sample, sampler.draw) {
            Ok(points) => {
                if let Some(note) = range::note(sample, points.len()) {
                    self.notes.add(Problem::new(place, note));
                }
                let part = |(range, amount): (&RangeFactor<'_>, Amount)| (amount, range.level(amount));
                points.into_iter().map(|point| self.ranges.iter().zip(point).map(part).collect()).collect()
            }
            Err(reason) => {
                self.findings
                    .add(Problem::new(place.or(file.span_of("factor")), format!("`sample`: {reason}")));
                Vec::new()
            }
        }
    }
}

impl RangeInfo {
    fn of(factor: &RangeFactor<'_>) -> Self {
        Self {
            name: factor.name.into(),
            ends: factor.range.ends(),
            scale: factor.range.scale(),
            sets: factor.keys(),
        }
    }
}

/// The levels of a combination, each with the values that it sets in that combination.
fn choose<'a>(factors: &[Factor<'a>], combination: &[usize]) -> Vec<Chosen<'a>> {
    let entries =
        factors.iter().zip(combination).map(|(factor, level)| (factor.name, &factor.levels[*level]));
    let names: Vec<_> = entries.clone().map(|(factor, level)| (factor, level.key.as_str())).collect();
    let chosen = entries.map(|(factor, level)| Chosen {
        factor,
        level: &level.key,
        node: when::resolve(&level.node, &names),
    });
    chosen.collect()
}

/// Converts a path in a file to a path in a cell: `factor.variant.sack.tcp.sack` to `tcp.sack`.
fn in_cell(path: &str) -> &str {
    let mut rest = path;
    while let Some((first, others)) = rest.split_once('.') {
        if first != "factor" && first != when::KEY {
            break;
        }
        rest = others.splitn(3, '.').nth(2).unwrap_or_default();
    }
    rest
}

/// The keys of a file for the study as a whole.
#[derive(Default, Deserialize)]
struct Header {
    #[serde(default)]
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default = "seed")]
    seed: u64,
    #[serde(default = "replications")]
    replications: u32,
}

const fn seed() -> u64 {
    SEED
}

const fn replications() -> u32 {
    REPLICATIONS
}

impl Header {
    fn read(file: &Node, path: &Path, findings: &mut Findings, assumed: &mut Vec<Assumption>) -> Self {
        let mut header = file.read().unwrap_or_else(|error| {
            findings.add(Problem::new(file.span, error.inner().message()));
            Self::default()
        });
        if file.get("name").is_none() {
            header.name = name_of(path);
            assumed.push(Assumption::new("name", &header.name, "from the file name"));
        } else if !header.name.chars().all(fits_folder) || !header.name.starts_with(fits_start) {
            let message = format!(
                "`name`: {:?} cannot name a folder; use letters, digits, `.`, `_` and `-`, as in \"kulve2003\"",
                header.name
            );
            findings.add(Problem::new(file.span_of("name"), message));
        }
        if header.title.is_empty() {
            header.title.clone_from(&header.name);
        }
        for (key, value) in [("seed", header.seed), ("replications", header.replications.into())] {
            if file.get(key).is_none() {
                assumed.push(Assumption::new(key, value, "default"));
            }
        }
        header
    }
}

fn fits_folder(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

fn fits_start(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
}

/// The name of a study from its file name: without the extension, and usable as a folder name.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem.chars().map(|letter| if fits_folder(letter) { letter } else { '-' }).collect();
    let name = name.trim_start_matches(|letter| !fits_start(letter));
    if name.is_empty() { "scenario".into() } else { name.into() }
}

fn entries_of(node: &Node) -> &[Entry] {
    node.table().map_or(&[], Vec::as_slice)
}

/// The factors with named levels, and the factors that are ranges. Checks that their names can be part of a
/// cell's key.
fn factors<'a>(file: &'a Node, findings: &mut Findings) -> (Vec<Factor<'a>>, Vec<RangeFactor<'a>>) {
    let entries = file.get("factor").map_or(&[][..], entries_of);
    let named = entries.iter().filter(|factor| !range::is_range(&factor.node));
    for label in entries.iter().chain(named.clone().flat_map(|factor| entries_of(&factor.node))) {
        let stray = |c: char| c.is_whitespace() || c.is_control() || ",=".contains(c);
        if label.key.is_empty() || label.key.contains(stray) {
            let message = format!(
                "{:?} cannot name a factor or level: names are part of keys such as link=e0,variant=red; leave \
                 out blanks, control characters, `,` and `=`",
                label.key
            );
            findings.add(Problem::new(label.span, message));
        }
    }
    let factors = named.map(|factor| Factor { name: &factor.key, levels: entries_of(&factor.node) });
    (factors.collect(), range::read(entries, findings))
}

/// Reports too many factors or levels.
fn too_wide(factors: &[Factor<'_>], ranges: usize, tree: &Node) -> Option<Problem> {
    let many = factors.len() + ranges;
    let message =
        || format!("there are {many} factors, but at most {FACTORS_MAX} can be combined; leave out some");
    let problem = (many > FACTORS_MAX).then(|| Problem::new(tree.span_of("factor"), message()));
    problem.or_else(|| {
        let large = factors.iter().find(|factor| factor.levels.len() > CELLS_MAX)?;
        Some(too_many(tree.span_of(&format!("factor.{}", large.name))))
    })
}

/// Reports too many values in all cells: each cell has a copy of `base`, and a level of each factor.
fn too_long(base: &Node, factors: &[Factor<'_>], cells: usize) -> Option<Problem> {
    let largest =
        |factor: &Factor<'_>| factor.levels.iter().map(|level| level.node.size()).max().unwrap_or(0);
    let each = base.size() + factors.iter().map(largest).sum::<usize>();
    let total = each.saturating_mul(cells);
    (total > VALUES_MAX).then(|| {
        let message = format!(
            "{cells} cells of up to {each} values have {total} values in total, more than {VALUES_MAX}; write \
             one entry with a count for equal flows, or list fewer levels"
        );
        Problem::new(None, message)
    })
}

/// The file without the keys of the study.
fn base(file: &Node) -> Node {
    let mut base = file.clone();
    if let Value::Table(entries) = &mut base.value {
        entries.retain(|entry| !STUDY_KEYS.contains(&entry.key.as_str()));
    }
    base
}
