//! Errors: each gives the place, the fault and a remedy, in one paragraph.

use std::fmt;

use lasthop_core::units::nearest;

/// Maximum number of faults reported for a file or cell.
pub const FAULTS_MAX: usize = 1000;

/// Why a scenario file cannot be used. Displays as one paragraph: `file:line: reason; suggestion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file as the user named it.
    pub file: String,
    /// Line from 1; `None` if the error concerns the file as a whole.
    pub line: Option<usize>,
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// All errors of a scenario file, at least one, in the order of its lines. Displays one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioErrors(Vec<ScenarioError>);

impl ScenarioErrors {
    /// There must be at least one error.
    pub(crate) const fn new(errors: Vec<ScenarioError>) -> Self {
        Self(errors)
    }

    /// Collects the errors of cells, each once; `total` is the number of cells.
    pub(crate) fn of_cells(
        cell_errors: impl Iterator<Item = (String, ScenarioError)>,
        total: usize,
    ) -> Result<(), Self> {
        let mut errors: Vec<(ScenarioError, Cells)> = Vec::new();
        for (first, error) in cell_errors {
            match errors.iter_mut().find(|(earlier, _)| *earlier == error) {
                Some((_, cells)) => cells.count += 1,
                None => errors.push((error, Cells { first, count: 1 })),
            }
        }
        let with_cells = |(mut error, cells): (ScenarioError, Cells)| {
            error.message += &cells.describe(total);
            error
        };
        let errors: Vec<_> = errors.into_iter().map(with_cells).collect();
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    pub fn as_slice(&self) -> &[ScenarioError] {
        &self.0
    }
}

impl From<ScenarioError> for ScenarioErrors {
    fn from(error: ScenarioError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ScenarioErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ScenarioErrors {}

/// The cells in which an error occurs.
#[derive(Debug)]
pub struct Cells {
    pub first: String,
    pub count: usize,
}

impl Cells {
    /// The text to append to a message, given the number of all cells.
    pub fn describe(&self, total: usize) -> String {
        let Self { first, count } = self;
        match *count {
            _ if total <= 1 => String::new(),
            1 => format!(" (in cell {first})"),
            _ if *count == total => format!(" (in all {total} cells)"),
            _ => format!(" (in {count} of {total} cells, the first is {first})"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Index of the file: 0 is the file that the user named; each further file is extended by the previous one.
    pub file: usize,
    /// First byte in the file's text.
    pub start: usize,
}

/// An error before its file and line are determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub span: Option<Span>,
    pub message: String,
}

impl Problem {
    pub fn new(span: Option<Span>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

/// "; did you mean `x`?" if a candidate is similar, then all candidates.
pub fn suggest(text: &str, candidates: &[&str]) -> String {
    let mut suggestion = String::new();
    if let Some(near) = close(text, candidates) {
        suggestion = format!("; did you mean `{near}`?");
    }
    if candidates.is_empty() {
        return suggestion + "; none are defined here";
    }
    format!("{suggestion} (accepted: {})", candidates.join(", "))
}

/// The most similar candidate, if it is similar enough.
pub fn close<'a>(text: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let near = nearest(text, candidates.iter().copied())?;
    let similarity = strsim::normalized_damerau_levenshtein(&text.to_lowercase(), &near.to_lowercase());
    let abbreviated = text.len() >= 3 && (near.contains(text) || text.contains(near));
    (similarity >= 0.5 || abbreviated).then_some(near)
}
