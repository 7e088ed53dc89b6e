//! `when`: what a level of a factor adds beside certain levels of other factors.
//!
//! ```toml
//! [factor.buffer_rtt."2".when.link]
//! wan.atm.buffer_cells = 2300
//! geo.atm.buffer_cells = 116760
//! ```

use crate::error::{Problem, suggest};
use crate::findings::Findings;
use crate::matrix::Factor;
use crate::tree::{Node, Table, Value};

/// The key of a level.
pub const KEY: &str = "when";

/// Checks that every `when` names levels of other factors.
pub fn check(factors: &[Factor<'_>], found: &mut Findings) {
    for factor in factors {
        for level in factor.levels {
            let place = format!("factor.{}.{}.{KEY}", factor.name, level.key);
            for named in entries(level.node.get(KEY)) {
                let others: Vec<&str> =
                    factors.iter().map(|other| other.name).filter(|name| *name != factor.name).collect();
                let Some(other) =
                    factors.iter().find(|other| other.name == named.key && other.name != factor.name)
                else {
                    let message =
                        format!("`{place}`: no other factor `{}`{}", named.key, suggest(&named.key, &others));
                    found.add(Problem::new(named.span, message));
                    continue;
                };
                let levels = other.level_names();
                let strays = entries(Some(&named.node)).iter();
                for stray in strays.filter(|entry| !levels.contains(&entry.key.as_str())) {
                    let message = format!(
                        "`{place}.{}`: unknown level {:?}{}",
                        named.key,
                        stray.key,
                        suggest(&stray.key, &levels)
                    );
                    found.add(Problem::new(stray.span, message));
                }
            }
        }
    }
}

/// What `level` says in a cell with the levels `chosen` (factor and level): itself, and what it adds beside them.
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
