//! Which combinations of levels are cells.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Problem, Span, suggest};
use crate::findings::Findings;
use crate::tree::{Entry, Node};

/// Maximum number of cells of a study, and so of points. A larger matrix is a mistake in one of its blocks.
pub const CELLS_MAX: usize = 10_000;

/// Maximum number of combinations that the blocks of a matrix list; repeated ones count each time.
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

/// For every cell the index of its level of every factor. Cells stand in the order of the blocks, the
/// last factor varying fastest, each cell once. The `ranges` are not part of it. A factor or level that a
/// block lists and that does not exist is reported and left out.
pub fn expand(
    factors: &[Factor<'_>],
    ranges: &[&str],
    matrix: Option<&Node>,
    found: &mut Findings,
) -> Vec<Vec<usize>> {
    let all: Vec<Vec<usize>> = factors.iter().map(|factor| (0..factor.levels.len()).collect()).collect();
    let Some(blocks) = matrix.and_then(Node::items) else {
        return product(&all, None, found);
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
                found.add(Problem::new(entry.span, message));
            } else if let Some((factor, levels)) = listed_levels(factors, entry, found) {
                choice[factor] = levels;
            }
        }
        let combinations = product(&choice, block.span, found);
        listed += combinations.len();
        for cell in combinations {
            if seen.insert(cell.clone()) {
                cells.push(cell);
            }
        }
        if cells.len() > CELLS_MAX || listed > LISTED_MAX {
            found.add(too_many(block.span));
            return Vec::new();
        }
    }
    cells
}

/// One line of a block: the index of the factor, and the indices of the listed levels.
fn listed_levels(factors: &[Factor<'_>], entry: &Entry, found: &mut Findings) -> Option<(usize, Vec<usize>)> {
    let names: Vec<&str> = factors.iter().map(|factor| factor.name).collect();
    let Some(index) = names.iter().position(|name| *name == entry.key) else {
        let message = format!("`matrix`: unknown factor `{}`{}", entry.key, suggest(&entry.key, &names));
        found.add(Problem::new(entry.span, message));
        return None;
    };
    let names = factors[index].level_names();
    let places: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let level = |item: &Node| {
        let written = item.text().unwrap_or_default();
        let index = places.get(written).copied();
        if index.is_none() && !found.is_full() {
            let factor = &entry.key;
            let message = format!(
                "`matrix.{factor}`: unknown level {written:?} of factor `{factor}`{}",
                suggest(written, &names)
            );
            found.add(Problem::new(item.span, message));
        }
        index
    };
    let levels = entry.node.items().unwrap_or_default().iter().filter_map(level).collect();
    Some((index, levels))
}

fn product(choices: &[Vec<usize>], span: Option<Span>, found: &mut Findings) -> Vec<Vec<usize>> {
    let mut cells = vec![Vec::new()];
    for choice in choices {
        if cells.len().saturating_mul(choice.len()) > CELLS_MAX {
            found.add(too_many(span));
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
            "the factors make more than {CELLS_MAX} cells; list fewer levels in [[matrix]], or sample fewer \
             points"
        ),
    )
}
