//! The kernel engine: the initial file system that a guest boots from.

use cpio::NewcBuilder;
use pyo3::prelude::*;
use std::io::Write;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const TEXT: u32 = 0o100_644;
const CHARACTER_DEVICE: u32 = 0o020_600;
const CONSOLE: (u32, u32) = (5, 1);

/// An archive with `init`, `/spec.json` and a console.
#[pyfunction]
pub fn initial_file_system(init: &[u8], spec: &str) -> PyResult<Vec<u8>> {
    let mut archive = Vec::with_capacity(init.len() + spec.len() + 1024);
    let mut add = |builder: NewcBuilder, content: &[u8]| {
        let mut file = builder.write(&mut archive, content.len() as u32);
        file.write_all(content)?;
        file.finish().map(drop)
    };
    let (major, minor) = CONSOLE;
    let entry = |number, name, mode| NewcBuilder::new(name).ino(number).mode(mode).nlink(1);
    add(entry(1, "dev", FOLDER), &[])?;
    add(entry(2, "dev/console", CHARACTER_DEVICE).rdev_major(major).rdev_minor(minor), &[])?;
    add(entry(3, "init", PROGRAM), init)?;
    add(entry(4, "spec.json", TEXT), spec.as_bytes())?;
    cpio::newc::trailer(&mut archive)?;
    Ok(archive)
}
