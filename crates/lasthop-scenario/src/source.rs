//! Reads files, and converts positions in their text to lines.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::error::{Problem, ScenarioError, close};

/// Maximum size of a file; a hundred times that of the largest study.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The texts that a scenario is read from, in the order in which they were added.
#[derive(Default)]
pub struct Sources(Vec<Source>);

struct Source {
    file: String,
    text: String,
    /// Offset in the text at which each line begins.
    lines: Vec<usize>,
}

impl Sources {
    /// Adds the bytes of a file, which must be UTF-8; returns the file's index.
    pub fn add(&mut self, file: &str, bytes: &[u8]) -> Result<usize, ScenarioError> {
        let error = |line, message: &str| ScenarioError { file: file.into(), line, message: message.into() };
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return Err(error(
                Some(1),
                "the file is UTF-16 (it starts with a UTF-16 byte order mark); save it as UTF-8",
            ));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let ends = text.match_indices('\n').map(|(end, _)| end + 1);
                let lines = std::iter::once(0).chain(ends).collect();
                self.0.push(Source { file: file.into(), text: text.into(), lines });
                Ok(self.0.len() - 1)
            }
            Err(invalid) => {
                let line = bytes[..invalid.valid_up_to()].split(|byte| *byte == b'\n').count();
                Err(error(
                    Some(line),
                    "the file is not UTF-8: this line contains an invalid byte; save the file as UTF-8",
                ))
            }
        }
    }

    pub fn text(&self, file: usize) -> &str {
        &self.0[file].text
    }

    /// Adds the file name and line to a problem.
    pub fn locate(&self, problem: Problem) -> ScenarioError {
        let Problem { span, message } = problem;
        let source = &self.0[span.map_or(0, |span| span.file)];
        let line = span.map(|span| source.lines.partition_point(|begin| *begin <= span.start));
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        ScenarioError { file: source.file.clone(), line, message }
    }
}

/// Reads a whole text file, or returns in words why that is not possible.
pub fn read(path: &Path) -> Result<Vec<u8>, ScenarioError> {
    let error = |message: String| ScenarioError { file: path.display().to_string(), line: None, message };
    let mut bytes = Vec::new();
    let file = open(path, FILE_BYTES_MAX).map_err(error)?;
    // Some special files do not report their size.
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|cause| error(format!("cannot read the file: {cause}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(error(too_large(FILE_BYTES_MAX)));
    }
    Ok(bytes)
}

/// Opens a regular file of at most `most` bytes; an error explains why that is not possible.
pub fn open(path: &Path, most: u64) -> Result<File, String> {
    let explain = |cause: std::io::Error| match cause.kind() {
        ErrorKind::NotFound => format!("there is no such file{}", similar_file(path)),
        ErrorKind::PermissionDenied => "no permission to read the file; change its mode, or copy it".into(),
        _ => format!("cannot open the file: {cause}"),
    };
    // Checked before opening: opening a pipe blocks until another process writes into it.
    let facts = path.metadata().map_err(explain)?;
    if facts.is_dir() {
        return Err("this is a directory; give a file in it".into());
    }
    if !facts.is_file() {
        return Err("this is a pipe or a device, not a regular file; save its output to a file first".into());
    }
    if facts.len() > most {
        return Err(too_large(most));
    }
    File::open(path).map_err(explain)
}

fn too_large(most: u64) -> String {
    format!("the file is larger than the maximum of {most} bytes; use a smaller one")
}

/// Suggests a file next to `path` with a similar name.
fn similar_file(path: &Path) -> String {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names: Vec<String> = folder.read_dir().map_or_else(
        |_| Vec::new(),
        |entries| {
            let files = entries.flatten().filter(|entry| entry.path().is_file()).take(1000);
            files.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        },
    );
    let names: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| Path::new(name).extension() == path.extension())
        .collect();
    let near = path.file_name().and_then(|name| close(name.to_str()?, &names));
    near.map_or_else(String::new, |near| format!("; did you mean {}?", folder.join(near).display()))
}
