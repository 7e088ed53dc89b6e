//! Recorded schedules of links, from the files that a scenario names.

use std::path::Path;

use lasthop_link::Schedule;

use crate::error::Problem;
use crate::source;
use crate::tree::{Node, Value};

/// Key by which a link names a file.
const KEY: &str = "trace";

/// Puts the text of every trace in place of the name of its file, which lies in `folder`.
pub fn read(tree: &mut Node, folder: Option<&Path>, found: &mut impl FnMut(Problem)) {
    match &mut tree.value {
        Value::Table(entries) => {
            for entry in entries {
                if entry.key == "link"
                    && let Some(trace) = entry.node.child(KEY)
                {
                    read_one(trace, folder, found);
                } else {
                    read(&mut entry.node, folder, found);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| read(item, folder, found)),
        _ => {}
    }
}

fn read_one(trace: &mut Node, folder: Option<&Path>, found: &mut impl FnMut(Problem)) {
    let Value::Text(text) = &mut trace.value else { return };
    let path = folder.unwrap_or(Path::new("")).join(&text);
    let schedule = source::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
        let words = String::from_utf8_lossy(&bytes);
        Schedule::parse(&words).map_err(|error| format!("{}: {error}", path.display()))
    });
    *text = match schedule {
        Ok(schedule) => schedule.to_string(),
        Err(reason) => {
            found(Problem::new(trace.span, format!("`{KEY}`: {reason}")));
            // Any: it is not used.
            "1".into()
        }
    };
}
