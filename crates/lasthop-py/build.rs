//! Notes the commit that is built, so that results can name it.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    // A query that refreshed the index would be a reason to build again.
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["describe", "--always"]).unwrap_or_else(|| "unknown".to_owned());
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).map_or("", |_| "-dirty");
    println!("cargo::rustc-env=LASTHOP_COMMIT={commit}{dirty}");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={directory}/logs/HEAD");
        println!("cargo::rerun-if-changed={directory}/index");
    }
}
