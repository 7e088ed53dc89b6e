//! Recordings of links and of traffic, read from the files that a scenario names.

use std::io::Read as _;
use std::path::Path;

use lasthop_capture::carried;
use lasthop_core::{Datagram, Duration};
use lasthop_link::{Schedule, Timetable};
use lasthop_traffic::{Packet, Recording};

use crate::error::Problem;
use crate::source;
use crate::tree::{Node, Value};

/// Reads a file and returns its content in the form that the complete scenario holds.
type Read = fn(&Path) -> Result<String, String>;

/// The keys of a link or a flow that name a file, with a valid content that replaces the file after an error.
const OF_LINK: [(&str, Read, &str); 2] = [
    ("trace", |path| of_text(path, |text| Schedule::parse(text).map_err(|error| error.to_string())), "1"),
    (
        "course",
        |path| of_text(path, |text| Timetable::parse(text).map_err(|error| error.to_string())),
        "time_s,rate_bps,delay_s\n0,1,0",
    ),
];
const OF_FLOW: [(&str, Read, &str); 1] = [("file", recording, "time_s,bytes\n0,1")];

/// Magic numbers of captures: pcap in either byte order with microseconds or nanoseconds, and pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// Maximum size of a capture; its packets become part of the scenario.
const CAPTURE_BYTES_MAX: u64 = 1 << 30;

/// Replaces the name of every file by its content. The files are in `folder`, and must be among `files`, if
/// given.
pub fn read(
    tree: &mut Node,
    folder: Option<&Path>,
    files: Option<&[String]>,
    report: &mut impl FnMut(Problem),
) {
    if tree.get("kind").and_then(Node::text) == Some("replay") {
        read_all(&OF_FLOW, tree, folder, files, report);
    }
    match &mut tree.value {
        Value::Table(entries) => {
            for entry in entries {
                // A link, or a station of a medium.
                if entry.key == "link" || entry.key == "wifi" || entry.key == "cell" {
                    read_all(&OF_LINK, &mut entry.node, folder, files, report);
                }
                if entry.key == "cell"
                    && let Some(up) = entry.node.child("up")
                {
                    read_all(&OF_LINK, up, folder, files, report);
                }
                read(&mut entry.node, folder, files, report);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| read(item, folder, files, report)),
        _ => {}
    }
}

fn read_all(
    keys: &[(&str, Read, &str)],
    table: &mut Node,
    folder: Option<&Path>,
    files: Option<&[String]>,
    report: &mut impl FnMut(Problem),
) {
    for (key, text_of, any) in keys {
        let Some(node) = table.child(key) else { continue };
        let Value::Text(text) = &mut node.value else { continue };
        let path = folder.unwrap_or(Path::new("")).join(&text);
        let read = allowed(text, files).and_then(|()| text_of(&path));
        *text = read.unwrap_or_else(|reason| {
            report(Problem::new(node.span, format!("`{key}`: {reason}")));
            (*any).into()
        });
    }
}

/// Checks that a scenario may name a file; if not, returns the reason.
pub fn allowed(file: &str, files: Option<&[String]>) -> Result<(), String> {
    match files {
        Some(files) if !files.iter().any(|own| own == file) => {
            let accepted = if files.is_empty() { "it names none".into() } else { format!("{files:?}") };
            Err(format!("{file:?} is not one of the files that the opened scenario names ({accepted})"))
        }
        _ => Ok(()),
    }
}

/// Reads a text file and normalises its content by `parse`.
fn of_text<T: ToString>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<String, String> {
    let bytes = source::read(path).map_err(|error| error.to_string())?;
    let parsed = parse(&String::from_utf8_lossy(&bytes));
    parsed.map(|parsed| parsed.to_string()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Packets of a capture or of a CSV file.
fn recording(path: &Path) -> Result<String, String> {
    let with_path = |reason: String| format!("{}: {reason}", path.display());
    let mut magic = [0; 4];
    let is_whole = source::open(path, CAPTURE_BYTES_MAX).map_err(with_path)?.read_exact(&mut magic).is_ok();
    if !(is_whole && CAPTURES.contains(&magic)) {
        return of_text(path, Recording::parse);
    }
    captured(path).and_then(Recording::new).map(|packets| packets.to_string()).map_err(with_path)
}

/// The IP packets of a capture as datagrams of the same length, with times since the first one. Other frames
/// and a truncated last frame are skipped.
fn captured(path: &Path) -> Result<Vec<Packet>, String> {
    let file = source::open(path, CAPTURE_BYTES_MAX)?;
    let mut packets: Vec<(u64, u32)> = Vec::new();
    lasthop_capture::read(file, |frame| {
        let length = carried(&frame)?.ip_length() as u32;
        if length > Datagram::HEADER_BYTES {
            packets.push((frame.time_ns, length - Datagram::HEADER_BYTES));
        }
        Ok(())
    })
    .map_err(|error| error.to_string())?;
    let first = packets.iter().map(|(time_ns, _)| *time_ns).min().unwrap_or_default();
    let packet = |(time_ns, bytes)| Packet { at: Duration::from_nanos(time_ns - first), bytes };
    Ok(packets.into_iter().map(packet).collect())
}
