//! A scenario file laid over the one it extends, that one over the next, and so on.

use std::path::{Path, PathBuf};

use crate::assume;
use crate::check::mend;
use crate::error::{FAULTS_MAX, Problem, ScenarioErrors};
use crate::findings::Findings;
use crate::schema;
use crate::source::{self, Sources};
use crate::traces;
use crate::tree::Node;

/// Key by which a file names the one it extends.
pub const KEY: &str = "extends";

/// A file with all that it extends, as far as it can be read.
#[derive(Default)]
pub struct Loaded {
    /// Their tables merged: the extending file's values win, and its lists and distributions replace those they meet;
    /// places keep the file they come from. What is wrong has been repaired.
    pub tree: Node,
    pub sources: Sources,
    /// What is wrong.
    pub found: Findings,
    /// Where the repair is a guess.
    pub guessed: Vec<String>,
}

impl Loaded {
    /// Reads a file and all that it extends.
    pub fn read(path: &Path) -> Result<Self, ScenarioErrors> {
        Self::read_as(path, &source::read(path)?, None)
    }

    /// Reads bytes in place of those of a file, and what they name from where it lies: any file, or only those of `files`,
    /// as the bytes must have them.
    pub fn read_as(path: &Path, bytes: &[u8], files: Option<&[String]>) -> Result<Self, ScenarioErrors> {
        let mut loaded = Self::default();
        let mut paths = vec![path.to_owned()];
        let mut layers = vec![loaded.layer(path, bytes, files)?];
        if let Some(extends) = layers[0].get(KEY)
            && let Err(reason) = traces::allowed(extends.text().unwrap_or_default(), files)
        {
            loaded.found.add(Problem::new(extends.span, format!("`{KEY}`: {reason}")));
            return Err(loaded.failed());
        }
        while let Some(extends) = layers.last().and_then(|file: &Node| file.get(KEY)) {
            let extended = beside(paths.last().map_or(path, PathBuf::as_path), extends);
            let bytes = if paths.iter().any(|earlier| same_file(earlier, &extended)) {
                Err(circle(&paths, &extended))
            } else {
                source::read(&extended).map_err(|error| error.to_string())
            };
            match bytes {
                Ok(bytes) => layers.push(loaded.layer(&extended, &bytes, None)?),
                Err(reason) => {
                    loaded.found.add(Problem::new(extends.span, format!("`{KEY}`: {reason}")));
                    return Err(loaded.failed());
                }
            }
            paths.push(extended);
        }
        let merged = layers.into_iter().rev().reduce(|mut under, over| {
            under.merge(&over);
            under
        });
        loaded.tree = merged.unwrap_or_default();
        Ok(loaded)
    }

    /// Reads a text without a place among files, which therefore extends none.
    pub fn read_alone(file_name: &str, bytes: &[u8]) -> Result<Self, ScenarioErrors> {
        let mut loaded = Self::default();
        loaded.tree = loaded.layer(Path::new(file_name), bytes, None)?;
        if let Some(extends) = loaded.tree.get(KEY) {
            let message = format!(
                "`{KEY}`: this text is not read from a folder in which to look for another file; save it as a file"
            );
            loaded.found.add(Problem::new(extends.span, message));
        }
        Ok(loaded)
    }

    /// One file, checked as far as that goes while others may supply what it lacks.
    fn layer(&mut self, path: &Path, bytes: &[u8], files: Option<&[String]>) -> Result<Node, ScenarioErrors> {
        let file = self.sources.add(&path.display().to_string(), bytes)?;
        let mut tree = Node::parse(self.sources.text(file), file).map_err(|problems| {
            for problem in problems {
                self.found.add(problem);
            }
            self.failed()
        })?;
        let faults = mend(&mut tree, &schema::FILE);
        let gives_up = faults.len() == FAULTS_MAX;
        for fault in faults {
            self.guessed.extend(fault.is_guess().then(|| fault.path()));
            self.found.add(fault.problem);
        }
        if gives_up {
            let message = format!("there are {FAULTS_MAX} things wrong or more; only these are told");
            self.found.add(Problem::new(None, message));
            return Err(self.failed());
        }
        let found = &mut self.found;
        traces::read(&mut tree, path.parent(), files, &mut |problem| found.add(problem));
        assume::flow_names(&mut tree);
        Ok(tree)
    }

    /// What has been found, where nothing can be read further.
    fn failed(&mut self) -> ScenarioErrors {
        std::mem::take(&mut self.found).all(&self.sources, 0)
    }
}

fn circle(paths: &[PathBuf], extended: &PathBuf) -> String {
    let chain: Vec<_> = paths.iter().chain([extended]).map(|path| path.display().to_string()).collect();
    format!("the files extend each other in a circle ({}); break it here", chain.join(" -> "))
}

fn beside(path: &Path, extends: &Node) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    folder.join(extends.text().unwrap_or_default())
}

fn same_file(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
