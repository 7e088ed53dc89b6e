//! Records the commit being built, so that results can name it, and a digest of the sources, so that results
//! of different sources are never mixed. Two builds of one commit may differ, and two commits may compute the
//! same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The sources of the engines, relative to this package.
const CRATES: &str = "..";

fn git(arguments: &[&str]) -> Option<String> {
    // A query that refreshed the index would trigger another build.
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Returns every source file and profile below `folder`; tests do not affect results.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the crates can be read") {
        let path = entry.expect("the crates can be read").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "tests" && name != "benches") {
                found.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "toml") {
            found.push(path);
        }
    }
    found
}

/// Digest of the crates' sources by name.
fn rules() -> String {
    let mut files = sources(Path::new(CRATES));
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.to_str().expect("names of sources are text"));
        digest.update(fs::read(&file).expect("the crates can be read"));
    }
    hex::encode(digest.finalize())
}

fn main() {
    println!("cargo::rerun-if-changed={CRATES}");
    println!("cargo::rustc-env=LASTHOP_RULES={}", rules());
    let commit = git(&["describe", "--always"]).unwrap_or_else(|| "unknown".to_owned());
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).map_or("", |_| "-dirty");
    println!("cargo::rustc-env=LASTHOP_COMMIT={commit}{dirty}");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={directory}/logs/HEAD");
        println!("cargo::rerun-if-changed={directory}/index");
    }
}
