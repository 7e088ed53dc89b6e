//! `when`: values that a level sets only in combination with levels of other factors.
//!
//! ```toml
//! [factor.buffer_rtt."2".when.link]
//! wan.atm.buffer_cells = 2300
//! geo.atm.buffer_cells = 116760
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{FAULTS_MAX, Problem, suggest};
use crate::findings::Findings;
use crate::matrix::Factor;
use crate::tree::{Node, Table, Value};

/// The key of a level.
pub const KEY: &str = "when";

/// Checks that every `when` names levels of other factors.
pub fn check(factors: &[Factor<'_>], findings: &mut Findings) {
    let level_names: BTreeMap<&str, BTreeSet<&str>> =
        factors.iter().map(|factor| (factor.name, factor.level_names().into_iter().collect())).collect();
    for factor in factors {
        for level in factor.levels.iter().filter(|level| level.node.get(KEY).is_some()) {
            if findings.is_full() {
                return;
            }
            let place = format!("factor.{}.{}.{KEY}", factor.name, level.key);
            for named in entries(level.node.get(KEY)) {
                let Some(levels) = level_names.get(named.key.as_str()).filter(|_| named.key != factor.name)
                else {
                    let others: Vec<&str> =
                        factors.iter().map(|other| other.name).filter(|name| *name != factor.name).collect();
                    let message = format!(
                        "`{place}`: there is no other factor `{}`{}",
                        named.key,
                        suggest(&named.key, &others)
                    );
                    findings.add(Problem::new(named.span, message));
                    continue;
                };
                let strays = entries(Some(&named.node)).iter();
                for stray in strays.filter(|entry| !levels.contains(entry.key.as_str())).take(FAULTS_MAX) {
                    let levels: Vec<&str> = factors
                        .iter()
                        .filter(|other| other.name == named.key)
                        .flat_map(Factor::level_names)
                        .collect();
                    let message = format!(
                        "`{place}.{}`: unknown level {:?}{}",
                        named.key,
                        stray.key,
                        suggest(&stray.key, &levels)
                    );
                    findings.add(Problem::new(stray.span, message));
                }
            }
        }
    }
}

/// The values that `level` sets in a cell with the levels `chosen` (factor and level), including its `when`.
pub fn resolve(level: &Node, chosen: &[(&str, &str)]) -> Node {
    let mut resolved = level.clone();
    if let Value::Table(entries) = &mut resolved.value {
        entries.retain(|entry| entry.key != KEY);
    }
    for (factor, other) in chosen {
        if let Some(part) = level.get(KEY).and_then(|when| when.get(factor)?.get(other)) {
            resolved.merge(part);
        }
    }
    resolved
}

fn entries(node: Option<&Node>) -> &[crate::tree::Entry] {
    node.and_then(Node::table).map_or(&[], Table::as_slice)
}
