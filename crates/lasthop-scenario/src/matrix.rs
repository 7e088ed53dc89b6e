//! Expands factors and the blocks of `[[matrix]]` into cells.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Problem, Span, suggest};
use crate::findings::Findings;
use crate::tree::{Entry, Node};

/// Maximum number of cells, and so of points. A larger matrix is probably a mistake in a block.
pub const CELLS_MAX: usize = 10_000;

/// Maximum number of combinations in all blocks together, including repeated ones.
const LISTED_MAX: usize = 100 * CELLS_MAX;

/// Maximum number of factors of a study: every pair is compared in every cell.
pub const FACTORS_MAX: usize = 100;

pub struct Factor<'a> {
    pub name: &'a str,
    pub levels: &'a [Entry],
}

impl Factor<'_> {
    pub fn level_names(&self) -> Vec<&str> {
        self.levels.iter().map(|level| level.key.as_str()).collect()
    }
}

/// Returns the cells, each as an index of a level per factor, without the `ranges`. Cells are in the order of
/// the blocks, the last factor varying fastest, each cell once. Unknown factors and levels in a block are
/// reported and skipped.
pub fn expand(
    factors: &[Factor<'_>],
    ranges: &[&str],
    matrix: Option<&Node>,
    findings: &mut Findings,
) -> Vec<Vec<usize>> {
    let all: Vec<Vec<usize>> = factors.iter().map(|factor| (0..factor.levels.len()).collect()).collect();
    let Some(blocks) = matrix.and_then(Node::items) else {
        return product(&all, None, findings);
    };
    let mut cells = Vec::new();
    let mut seen = BTreeSet::new();
    let mut listed = 0;
    for block in blocks {
        let mut choice = all.clone();
        for entry in block.table().into_iter().flatten() {
            if ranges.contains(&entry.key.as_str()) {
                let message =
                    format!("`matrix`: factor `{}` is a range and has no levels; leave it out", entry.key);
                findings.add(Problem::new(entry.span, message));
            } else if let Some((factor, levels)) = listed_levels(factors, entry, findings) {
                choice[factor] = levels;
            }
        }
        let combinations = product(&choice, block.span, findings);
        listed += combinations.len();
        for cell in combinations {
            if seen.insert(cell.clone()) {
                cells.push(cell);
            }
        }
        if cells.len() > CELLS_MAX || listed > LISTED_MAX {
            findings.add(too_many(block.span));
            return Vec::new();
        }
    }
    cells
}

/// One line of a block: the index of the factor, and the indices of the listed levels.
fn listed_levels(
    factors: &[Factor<'_>],
    entry: &Entry,
    findings: &mut Findings,
) -> Option<(usize, Vec<usize>)> {
    let names: Vec<&str> = factors.iter().map(|factor| factor.name).collect();
    let Some(index) = names.iter().position(|name| *name == entry.key) else {
        let message = format!("`matrix`: unknown factor `{}`{}", entry.key, suggest(&entry.key, &names));
        findings.add(Problem::new(entry.span, message));
        return None;
    };
    let names = factors[index].level_names();
    let places: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let level = |item: &Node| {
        let written = item.text().unwrap_or_default();
        let index = places.get(written).copied();
        if index.is_none() && !findings.is_full() {
            let factor = &entry.key;
            let message = format!(
                "`matrix.{factor}`: unknown level {written:?} of factor `{factor}`{}",
                suggest(written, &names)
            );
            findings.add(Problem::new(item.span, message));
        }
        index
    };
    let levels = entry.node.items().unwrap_or_default().iter().filter_map(level).collect();
    Some((index, levels))
}

fn product(choices: &[Vec<usize>], span: Option<Span>, findings: &mut Findings) -> Vec<Vec<usize>> {
    let mut cells = vec![Vec::new()];
    for choice in choices {
        if cells.len().saturating_mul(choice.len()) > CELLS_MAX {
            findings.add(too_many(span));
            return Vec::new();
        }
        cells = cells
            .iter()
            .flat_map(|cell: &Vec<usize>| {
                choice.iter().map(move |level| [cell.as_slice(), &[*level]].concat())
            })
            .collect();
    }
    cells
}

pub fn too_many(span: Option<Span>) -> Problem {
    Problem::new(
        span,
        format!(
            "the factors have more than {CELLS_MAX} cells; list fewer levels in [[matrix]], or sample fewer \
             points"
        ),
    )
}
