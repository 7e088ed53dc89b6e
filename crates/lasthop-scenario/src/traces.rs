//! Recorded schedules and courses of links, from the files that a scenario names.

use std::path::Path;

use lasthop_link::{Schedule, ScheduleError, Timetable};

use crate::error::Problem;
use crate::source;
use crate::tree::{Node, Value};

/// Reads the text of a file and writes it as the whole scenario has it.
type Read = fn(&str) -> Result<String, ScheduleError>;

/// The keys by which a link names a file; and a text that any file may have, to go on with after an error.
const KEYS: [(&str, Read, &str); 2] = [
    ("trace", |text| Ok(Schedule::parse(text)?.to_string()), "1"),
    ("course", |text| Ok(Timetable::parse(text)?.to_string()), "time_s,rate_bps,delay_s\n0,1,0"),
];

/// Puts the text of every file in place of its name. The files lie in `folder`.
pub fn read(tree: &mut Node, folder: Option<&Path>, found: &mut impl FnMut(Problem)) {
    match &mut tree.value {
        Value::Table(entries) => {
            for entry in entries {
                if entry.key == "link" {
                    for file in KEYS {
                        if let Some(node) = entry.node.child(file.0) {
                            read_one(file, node, folder, found);
                        }
                    }
                }
                read(&mut entry.node, folder, found);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| read(item, folder, found)),
        _ => {}
    }
}

fn read_one(
    (key, text_of, any): (&str, Read, &str),
    node: &mut Node,
    folder: Option<&Path>,
    found: &mut impl FnMut(Problem),
) {
    let Value::Text(text) = &mut node.value else { return };
    let path = folder.unwrap_or(Path::new("")).join(&text);
    let read = source::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
        let words = String::from_utf8_lossy(&bytes);
        text_of(&words).map_err(|error| format!("{}: {error}", path.display()))
    });
    *text = read.unwrap_or_else(|reason| {
        found(Problem::new(node.span, format!("`{key}`: {reason}")));
        any.into()
    });
}
