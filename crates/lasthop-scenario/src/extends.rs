//! Merges a scenario file over the file it extends, that file over the next, and so on.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::assume;
use crate::check::mend;
use crate::compose::without_effect;
use crate::error::{FAULTS_MAX, Problem, ScenarioErrors, suggest};
use crate::findings::Findings;
use crate::presets;
use crate::schema;
use crate::source::{self, Sources};
use crate::traces;
use crate::tree::Node;

/// Key by which a file names the file or the preset that it extends.
pub const KEY: &str = "extends";

/// A file merged over all files that it extends, as far as they can be read.
#[derive(Default)]
pub struct Loaded {
    /// The merged tables. Values of the extending file win; its lists and distributions replace inherited ones.
    /// Spans refer to the original files. Faults have been repaired.
    pub tree: Node,
    pub sources: Sources,
    pub findings: Findings,
    /// The paths at which a repair guessed the value.
    pub guessed: Vec<String>,
    /// True if the file is read only for its last hop and may lack flows.
    pub for_link: bool,
}

impl Loaded {
    /// Reads a file and all files it extends.
    pub fn read(path: &Path) -> Result<Self, ScenarioErrors> {
        Self::read_as(path, &source::read(path)?, None)
    }

    /// Reads bytes instead of a file's content. File names in them are relative to the folder of that file. If
    /// `files` is given, only these files may be named, spelled exactly so.
    pub fn read_as(path: &Path, bytes: &[u8], files: Option<&[String]>) -> Result<Self, ScenarioErrors> {
        Self::chain(path, Some(path), bytes, files)
    }

    /// Reads a text without a folder, which can extend presets only.
    pub fn read_alone(file_name: &str, bytes: &[u8]) -> Result<Self, ScenarioErrors> {
        Self::chain(Path::new(file_name), None, bytes, None)
    }

    fn chain(
        name: &Path,
        place: Option<&Path>,
        bytes: &[u8],
        files: Option<&[String]>,
    ) -> Result<Self, ScenarioErrors> {
        let mut loaded = Self::default();
        let mut layers = vec![loaded.layer(name, bytes, files)?];
        let mut earlier = Earlier::default();
        earlier.add(place);
        let mut place = place.map(Path::to_owned);
        while let Some(extends) = layers.last().and_then(|file: &Node| file.get(KEY)) {
            let named = extends.text().unwrap_or_default();
            let files = files.filter(|_| layers.len() == 1);
            let extended = Extended::find(named, place.as_deref(), &earlier, files);
            let Extended { name, place: found, bytes } = extended.map_err(|reason| {
                loaded.findings.add(Problem::new(extends.span, format!("`{KEY}`: {reason}")));
                loaded.failed()
            })?;
            layers.push(loaded.layer(&name, &bytes, None)?);
            earlier.add(found.as_deref());
            place = found;
        }
        let merged = layers.into_iter().rev().reduce(|mut under, over| {
            if let Some(problem) = without_effect(&under, &over) {
                loaded.findings.add(problem);
            }
            under.merge(&over);
            under
        });
        loaded.tree = merged.unwrap_or_default();
        Ok(loaded)
    }

    /// Reads one file and checks it, except for missing keys, which other files may supply.
    fn layer(&mut self, path: &Path, bytes: &[u8], files: Option<&[String]>) -> Result<Node, ScenarioErrors> {
        let file = self.sources.add(&path.display().to_string(), bytes)?;
        let mut tree = Node::parse(self.sources.text(file), file).map_err(|problems| {
            for problem in problems {
                self.findings.add(problem);
            }
            self.failed()
        })?;
        let faults = mend(&mut tree, &schema::FILE);
        let gives_up = faults.len() == FAULTS_MAX;
        for fault in faults {
            self.guessed.extend(fault.is_guess().then(|| fault.path()));
            self.findings.add(fault.problem);
        }
        if gives_up {
            let message = format!("there are {FAULTS_MAX} errors or more; only these are reported");
            self.findings.add(Problem::new(None, message));
            return Err(self.failed());
        }
        let findings = &mut self.findings;
        traces::read(&mut tree, path.parent(), files, &mut |problem| findings.add(problem));
        assume::flow_names(&mut tree);
        Ok(tree)
    }

    /// Takes the findings so far, as reading cannot continue.
    fn failed(&mut self) -> ScenarioErrors {
        std::mem::take(&mut self.findings).all(&self.sources, 0)
    }
}

#[derive(Default)]
struct Earlier {
    paths: Vec<PathBuf>,
    /// The same files by canonical path.
    files: BTreeSet<PathBuf>,
}

impl Earlier {
    fn add(&mut self, path: Option<&Path>) {
        self.files.extend(path.and_then(|path| path.canonicalize().ok()));
        self.paths.extend(path.map(Path::to_owned));
    }

    fn has(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|file| self.files.contains(&file))
    }
}

fn circle(earlier: &Earlier, extended: &Path) -> String {
    let paths = earlier.paths.iter().map(PathBuf::as_path).chain([extended]);
    let chain: Vec<_> = paths.map(|path| path.display().to_string()).collect();
    format!("the files extend each other in a cycle ({}); extend another file here", chain.join(" -> "))
}

/// The file or preset that a file extends.
struct Extended {
    /// Name for error messages.
    name: PathBuf,
    /// Its path; presets have none.
    place: Option<PathBuf>,
    bytes: Cow<'static, [u8]>,
}

impl Extended {
    /// Finds a file, relative to the folder of the extending file, or a preset if there is no such file.
    /// If `files` is given, only these may be named.
    fn find(
        named: &str,
        from: Option<&Path>,
        earlier: &Earlier,
        files: Option<&[String]>,
    ) -> Result<Self, String> {
        let path = from.map(|from| from.parent().unwrap_or(Path::new("")).join(named));
        if let Some(text) = presets::text(named)
            && !path.as_deref().is_some_and(Path::is_file)
        {
            let name = format!("preset {named}").into();
            return Ok(Self { name, place: None, bytes: text.as_bytes().into() });
        }
        traces::allowed(named, files)?;
        let is_name = Path::new(named).extension().is_none() && !named.contains('/');
        let Some(path) = path.filter(|path| !is_name || path.exists()) else {
            return Err(if is_name {
                format!("there is no preset or file {named:?}{}", suggest(named, &presets::names()))
            } else {
                "a scenario that is not in a file can extend presets only; save it as a file".into()
            });
        };
        if earlier.has(&path) {
            return Err(circle(earlier, &path));
        }
        if let Some(name) = named.strip_suffix(".toml")
            && presets::text(name).is_some()
            && !path.exists()
        {
            return Err(format!(
                "{}: there is no such file; the name of the preset is {name:?}",
                path.display()
            ));
        }
        let bytes = source::read(&path).map_err(|error| error.to_string())?;
        Ok(Self { name: path.clone(), place: Some(path), bytes: bytes.into() })
    }
}
