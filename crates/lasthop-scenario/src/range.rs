//! Factors whose levels are a range of numbers, and the points at which they are sampled.
//!
//! ```toml
//! [factor.rate]
//! from = "64 kbit/s"
//! to = "10 Mbit/s"
//! scale = "log"
//! sets = "down.link.rate"
//!
//! [sample]
//! method = "sobol"
//! points = 64
//! ```

use lasthop_core::Amount;
use lasthop_core::amount::{Kind, Range, Scale};
use serde::Deserialize;

use crate::assume::Assumption;
use crate::error::{Problem, Span};
use crate::findings::Findings;
use crate::tree::{Entry, Node, Value};

/// Keys of a factor that is a range.
pub const KEYS: [&str; 4] = ["from", "to", "scale", "sets"];

/// The key of a file that sets how ranges are sampled.
pub const SAMPLE: &str = "sample";

/// Default number of points.
pub const POINTS: u32 = 64;

/// How points are distributed over the ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A scrambled Sobol sequence: when points are added, the existing points stay.
    #[default]
    Sobol,
    /// A Latin hypercube: one point in each of as many slices of every range as there are points.
    LatinHypercube,
}

impl Method {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sobol => "sobol",
            Self::LatinHypercube => "latin-hypercube",
        }
    }
}

/// A request for points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The method.
    pub method: Method,
    /// Number of points.
    pub points: u32,
    /// Number of coordinates of a point.
    pub dimensions: usize,
    /// Seed that determines the points.
    pub seed: u64,
}

/// Draws points: `points` rows of `dimensions` numbers from 0 to 1.
pub type Draw<'a> = dyn Fn(Sample) -> Result<Vec<Vec<f64>>, String> + 'a;

/// The source of the points of ranges.
pub struct Sampler<'a> {
    /// Number of points, if it overrides the number in the file.
    pub points: Option<u32>,
    /// The function that draws them.
    pub draw: &'a Draw<'a>,
}

impl Sampler<'_> {
    /// A sampler for files without ranges: a range is an error.
    pub const NONE: Sampler<'static> = Sampler {
        points: None,
        draw: &|_| Err("ranges cannot be sampled here; write levels instead".into()),
    };
}

/// The end of a range, as written.
pub struct End(Amount);

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = toml::Value::deserialize(deserializer)?;
        let amount = match &node {
            toml::Value::String(text) => text.parse().map_err(serde::de::Error::custom)?,
            toml::Value::Integer(number) => number_of(Amount::whole(*number))?,
            toml::Value::Float(number) => number_of(Amount::real(*number))?,
            _ => number_of(None)?,
        };
        Ok(Self(amount))
    }
}

fn number_of<E: serde::de::Error>(amount: Option<Amount>) -> Result<Amount, E> {
    amount.ok_or_else(|| E::custom("is not the end of a range; write for example \"64 kbit/s\" or 0.5"))
}

/// A factor that is a range.
#[derive(Clone, Debug)]
pub struct RangeFactor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Index among all factors of the file.
    pub place: usize,
    /// The range of its levels.
    pub range: Range,
    /// The keys that it sets, each as the steps of a path, and their place in the file.
    pub sets: Vec<(Vec<String>, Option<Span>)>,
    /// Its ends, as written.
    ends: [Node; 2],
}

impl RangeFactor<'_> {
    /// The values that a level sets in the scenario; their spans are those of `sets`.
    pub fn level(&self, amount: Amount) -> Node {
        let value = match amount.kind {
            Kind::Whole => Value::Integer(amount.number() as i64),
            Kind::Real => Value::Float(amount.number()),
            _ => Value::Text(amount.to_string()),
        };
        self.part(&Node { span: None, value })
    }

    /// The values that its ends set, with the spans of the ends.
    pub fn ends(&self) -> [(Amount, Node); 2] {
        let [from, to] = self.range.ends();
        [(from, self.part(&self.ends[0])), (to, self.part(&self.ends[1]))]
    }

    fn part(&self, value: &Node) -> Node {
        let mut part = Node::default();
        for (path, span) in &self.sets {
            part.span = *span;
            let steps: Vec<&str> = path.iter().map(String::as_str).collect();
            part.set(&steps, Node { span: value.span.or(*span), ..value.clone() });
        }
        part
    }

    /// The keys that it sets, as written in the file.
    pub fn keys(&self) -> Vec<String> {
        self.sets.iter().map(|(path, _)| path.join(".")).collect()
    }
}

/// True if a factor is a range, rather than named levels.
pub fn is_range(factor: &Node) -> bool {
    let stated = |key: &&str| factor.get(key).is_some_and(|node| node.table().is_none());
    KEYS.iter().any(stated)
}

/// Reads the factors that are ranges. Faulty ranges are reported and skipped.
pub fn read<'a>(factors: &'a [Entry], findings: &mut Findings) -> Vec<RangeFactor<'a>> {
    let mut ranges: Vec<RangeFactor<'a>> = Vec::new();
    for (place, factor) in factors.iter().enumerate().filter(|(_, factor)| is_range(&factor.node)) {
        match range(place, factor).and_then(|range| set_once(&ranges, range)) {
            Ok(range) => ranges.push(range),
            Err(problem) => findings.add(problem),
        }
    }
    ranges
}

fn range(place: usize, factor: &Entry) -> Result<RangeFactor<'_>, Problem> {
    let name = format!("factor.{}", factor.key);
    let entries = factor.node.table().map_or(&[][..], Vec::as_slice);
    if let Some(level) = entries.iter().find(|entry| !KEYS.contains(&entry.key.as_str())) {
        let message =
            format!("`{name}`: a range has no named levels; leave out {}, or from and to", level.key);
        return Err(Problem::new(level.span, message));
    }
    let [from, to] = [end(factor, "from", "64 kbit/s")?, end(factor, "to", "10 Mbit/s")?];
    let sets = factor.node.get("sets").ok_or_else(|| {
        let message = format!(
            "missing key `{name}.sets`: the key of the scenario that the levels set; add for example \
             sets = \"down.link.rate\""
        );
        Problem::new(factor.span, message)
    })?;
    let keys = sets.items().unwrap_or_else(|| std::slice::from_ref(sets));
    let sets: Result<Vec<_>, _> = keys.iter().map(|key| Ok((steps(&name, key)?, key.span))).collect();
    let scale = match factor.node.get("scale").and_then(Node::text) {
        Some("log") => Scale::Log,
        _ => Scale::Linear,
    };
    let ends = ["from", "to"].map(|key| factor.node.get(key).cloned().unwrap_or_default());
    let range = spread(&name, factor, from, to, scale)?;
    Ok(RangeFactor { name: &factor.key, place, range, sets: sets?, ends })
}

fn end(factor: &Entry, key: &str, example: &str) -> Result<Amount, Problem> {
    let name = &factor.key;
    let node = factor.node.get(key).ok_or_else(|| {
        let message = format!("missing key `factor.{name}.{key}`; add for example {key} = {example:?}");
        Problem::new(factor.span, message)
    })?;
    node.read::<End>().map(|end| end.0).map_err(|error| {
        Problem::new(node.span, format!("`factor.{name}.{key}`: {}", error.inner().message()))
    })
}

/// The range between two ends.
fn spread(name: &str, factor: &Entry, from: Amount, to: Amount, scale: Scale) -> Result<Range, Problem> {
    let span = |key| factor.node.span_of(key);
    // The ends 0 and 0.5 are both real numbers.
    let (from, to) = match (from.kind, to.kind) {
        (Kind::Real, Kind::Whole) | (Kind::Whole, Kind::Real) => (from.as_real(), to.as_real()),
        _ => (from, to),
    };
    let text = |key: &str| factor.node.get(key).map(Node::rendered).unwrap_or_default();
    let (low, high) = (text("from"), text("to"));
    if from.kind != to.kind {
        let message = format!(
            "`{name}.to`: {high:?} is {}, but `from` = {low:?} is {}; write both in units of the same kind",
            to.kind.what(),
            from.kind.what()
        );
        return Err(Problem::new(span("to"), message));
    }
    if let Some(range) = Range::new(from, to, scale) {
        return Ok(range);
    }
    if from.number() >= to.number() {
        let remedy = if from == to { "write two different ends" } else { "swap them" };
        let message = format!("`{name}.from`: {low:?} is not below `to` = {high:?}; {remedy}");
        return Err(Problem::new(span("from"), message));
    }
    let message = format!(
        "`{name}.scale`: a logarithmic scale cannot include `from` = {low:?}; start above zero, or write \
         scale = \"linear\""
    );
    Err(Problem::new(span("scale"), message))
}

/// The steps of a path such as `down.link.rate`, parsed like a TOML key.
fn steps(name: &str, key: &Node) -> Result<Vec<String>, Problem> {
    let text = key.text().unwrap_or_default();
    let wrong = || {
        let message = format!(
            "`{name}.sets`: {text:?} is not a key of the scenario; write it as in a level of a factor, for \
             example \"down.link.rate\" or \"flow.NAME.bytes\""
        );
        Problem::new(key.span, message)
    };
    let parsed = Node::parse(&format!("{text} = 0"), 0).map_err(|_| wrong())?;
    let mut steps = Vec::new();
    let mut node = &parsed;
    while let Some(entries) = node.table() {
        let [entry] = &entries[..] else { return Err(wrong()) };
        steps.push(entry.key.clone());
        node = &entry.node;
    }
    if node.value == Value::Integer(0) { Ok(steps) } else { Err(wrong()) }
}

/// Rejects a range that sets a key of an earlier range.
fn set_once<'a>(earlier: &[RangeFactor<'_>], range: RangeFactor<'a>) -> Result<RangeFactor<'a>, Problem> {
    for (path, span) in &range.sets {
        let other = earlier.iter().find(|other| other.sets.iter().any(|(other, _)| other == path));
        if let Some(other) = other {
            let message = format!(
                "`factor.{}.sets`: factor `{}` sets `{}`, too; set it in one factor only",
                range.name,
                other.name,
                path.join(".")
            );
            return Err(Problem::new(*span, message));
        }
    }
    Ok(range)
}

/// The file's settings for its points; `points` overrides the number.
pub fn sample(file: &Node, ranges: &[RangeFactor<'_>], seed: u64, points: Option<u32>) -> Sample {
    let stated = file.get(SAMPLE);
    let method = stated.and_then(|sample| sample.get("method")?.read::<Method>().ok());
    let number = stated.and_then(|sample| sample.get("points")?.read::<u32>().ok());
    Sample {
        method: method.unwrap_or_default(),
        points: points.or(number).unwrap_or(POINTS),
        dimensions: ranges.len(),
        seed,
    }
}

/// The settings for points that a file with ranges omits.
pub fn assumed(file: &Node, sample: Sample, points: Option<u32>) -> Vec<Assumption> {
    let keys = [("method", sample.method.name().to_owned()), ("points", sample.points.to_string())];
    let stated = |key: &str| {
        let is_option = key == "points" && points.is_some();
        is_option || file.get(SAMPLE).is_some_and(|sample| sample.get(key).is_some())
    };
    let missing = keys.into_iter().filter(|(key, _)| !stated(key));
    missing.map(|(key, value)| Assumption::new(format!("{SAMPLE}.{key}"), value, "default")).collect()
}

/// Draws the levels of all ranges, one row per point. Points with the same levels appear once.
pub fn levels(
    ranges: &[RangeFactor<'_>],
    sample: Sample,
    draw: &Draw<'_>,
) -> Result<Vec<Vec<Amount>>, String> {
    let mut points: Vec<Vec<Amount>> = Vec::new();
    for row in draw(sample)? {
        let at = |(range, share): (&RangeFactor<'_>, &f64)| range.range.at(*share);
        points.push(ranges.iter().zip(&row).map(at).collect());
    }
    let mut seen = std::collections::BTreeSet::new();
    points.retain(|point| seen.insert(point.iter().map(Amount::to_string).collect::<Vec<_>>()));
    Ok(points)
}

/// Notes on a sample that has `points` different points.
pub fn note(sample: Sample, points: usize) -> Option<String> {
    let drawn = sample.points;
    if sample.method == Method::Sobol && !drawn.is_power_of_two() {
        let (below, above) = (drawn.next_power_of_two() / 2, drawn.next_power_of_two());
        return Some(format!(
            "`sample.points`: {drawn} is not a power of two; a Sobol sequence covers ranges evenly with {below} \
             or {above} points"
        ));
    }
    (points < drawn as usize).then(|| {
        format!("`sample.points`: only {points} of {drawn} points differ, because levels are whole numbers")
    })
}
