//! The key `command` sets the command line of a scenario's only program, for example in a level of a factor.

use serde_json::{Value as Json, json};

use crate::error::Problem;
use crate::tree::{Node, Value};

/// The key, at the top of a scenario or in a level.
pub const KEY: &str = "command";

const KIND: &str = "program";

/// Its schema.
pub fn schema() -> Json {
    json!({
        "type": "string", "examples": ["./new/client --retries 3"],
        "description": "Shell command line of the only flow of kind `program`. It replaces the flow's own \
                        `command`, so that a factor can set it",
    })
}

/// Moves the command line to the program.
pub fn give_to_program(merged: &mut Node) -> Result<(), Problem> {
    let Some(stated) = merged.get(KEY).cloned() else { return Ok(()) };
    if let Value::Table(entries) = &mut merged.value {
        entries.retain(|entry| entry.key != KEY);
    }
    // The check against the schema reports anything but a string.
    let Some(line) = stated.text() else { return Ok(()) };
    let flows = match merged.child("flow").map(|flows| &mut flows.value) {
        Some(Value::Array(flows)) => flows.as_mut_slice(),
        _ => &mut [],
    };
    let is_program = |flow: &&mut Node| flow.get("kind").and_then(Node::text) == Some(KIND);
    let mut programs = flows.iter_mut().filter(is_program);
    let (Some(program), None) = (programs.next(), programs.next()) else {
        let message =
            "there must be exactly one [[flow]] of kind \"program\" to run it; add one, or leave it out";
        return Err(Problem::new(stated.span, format!("`{KEY}`: {message}")));
    };
    let words = ["/bin/sh", "-c", line].map(|word| Node { span: stated.span, ..Node::from_text(word) });
    program.set(&[KEY], Node { span: stated.span, value: Value::Array(words.into()) });
    Ok(())
}
