//! Errors in scripts.

use std::fmt;

/// An error in the text of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Line of the file, from 1.
    pub line: u32,
    /// The fault, and what is accepted.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

pub(crate) fn error<T>(line: u32, message: impl Into<String>) -> Result<T, ScriptError> {
    Err(ScriptError { line, message: message.into() })
}
