//! Collects errors and notes while a file is read.

use std::collections::BTreeMap;

use crate::error::{Cells, FAULTS_MAX, Problem, ScenarioError, ScenarioErrors, Span};
use crate::source::Sources;

/// The findings so far, each once, ordered by position in the files.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<(Option<Span>, String), Option<Cells>>);

impl Findings {
    /// Adds a finding that does not depend on cells.
    pub fn add(&mut self, problem: Problem) {
        self.0.entry((problem.span, problem.message)).or_default();
    }

    pub fn add_in(&mut self, cell: &str, problem: Problem) {
        let cells = self.0.entry((problem.span, problem.message)).or_default();
        cells.get_or_insert_with(|| Cells { first: cell.into(), count: 0 }).count += 1;
    }

    /// Returns the findings with files and lines; `total` is the number of all cells.
    pub fn located(self, sources: &Sources, total: usize) -> Vec<ScenarioError> {
        let locate = |((span, message), cells): ((Option<Span>, String), Option<Cells>)| {
            let cells = cells.map_or_else(String::new, |cells| cells.describe(total));
            sources.locate(Problem { span, message: message + &cells })
        };
        self.0.into_iter().map(locate).collect()
    }

    /// All findings as errors; there must be at least one.
    pub fn all(self, sources: &Sources, total: usize) -> ScenarioErrors {
        ScenarioErrors::new(self.located(sources, total))
    }

    /// Whether there are enough findings to end a search.
    pub fn is_full(&self) -> bool {
        self.0.len() >= FAULTS_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
