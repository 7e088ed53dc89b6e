//! A scenario file laid over the one it extends, that one over the next, and so on.

use std::path::{Path, PathBuf};

use crate::check::check;
use crate::error::{Problem, ScenarioError};
use crate::schema;
use crate::source::{self, Sources};
use crate::tree::Node;

/// Key by which a file names the one it extends.
pub const KEY: &str = "extends";

/// Reads a file and all that it extends. Their tables are merged, the extending file's values win, and its
/// lists and distributions replace those they meet; places keep the file they come from.
pub fn read(path: &Path) -> Result<(Node, Sources), ScenarioError> {
    let mut sources = Sources::default();
    let mut paths = vec![path.to_owned()];
    let mut layers = vec![layer(&mut sources, path, &source::read(path)?)?];
    while let Some(extends) = layers.last().and_then(|file: &Node| file.get(KEY)) {
        let problem =
            |message: String| sources.locate(Problem::new(extends.span, format!("`{KEY}`: {message}")));
        let extended = beside(paths.last().map_or(path, PathBuf::as_path), extends);
        if paths.iter().any(|earlier| same_file(earlier, &extended)) {
            let chain: Vec<_> =
                paths.iter().chain([&extended]).map(|path| path.display().to_string()).collect();
            let chain = chain.join(" -> ");
            return Err(problem(format!("the files extend each other in a circle ({chain}); break it here")));
        }
        let bytes = source::read(&extended).map_err(|error| problem(error.to_string()))?;
        let file = layer(&mut sources, &extended, &bytes)?;
        layers.push(file);
        paths.push(extended);
    }
    let merged = layers.into_iter().rev().reduce(|mut under, over| {
        under.merge(&over);
        under
    });
    Ok((merged.unwrap_or_else(Node::nothing), sources))
}

/// Reads a text without a place among files, which therefore extends none.
pub fn read_alone(file_name: &str, bytes: &[u8]) -> Result<(Node, Sources), ScenarioError> {
    let mut sources = Sources::default();
    let file = layer(&mut sources, Path::new(file_name), bytes)?;
    if let Some(extends) = file.get(KEY) {
        let message = format!(
            "`{KEY}`: this text is not read from a folder in which to look for another file; save it as a file"
        );
        return Err(sources.locate(Problem::new(extends.span, message)));
    }
    Ok((file, sources))
}

/// One file, checked as far as that goes while others may supply what it lacks.
fn layer(sources: &mut Sources, path: &Path, bytes: &[u8]) -> Result<Node, ScenarioError> {
    let file = sources.add(&path.display().to_string(), bytes)?;
    let parsed = Node::parse(sources.text(file), file);
    parsed
        .and_then(|node| check(&node, &schema::PART).map(|()| node))
        .map_err(|problem| sources.locate(problem))
}

fn beside(path: &Path, extends: &Node) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    folder.join(extends.text().unwrap_or_default())
}

fn same_file(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
