//! Records a digest of the sources, so that results of different sources are never mixed. Two builds of one
//! commit may differ, and two commits may compute the same.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The sources of the engines, relative to this package.
const CRATES: &str = "..";

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
}
