//! The packets of a capture for Python, as bytes that numpy can use directly.

use std::fs::File;
use std::path::{Path, PathBuf};

use lasthop_scenario::open_file;
use lasthop_trace::Packets;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::CaptureError;

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
pub fn packets(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let packets = read_capture(py, &path, lasthop_trace::packets)?;
    table(py, packets)
}

/// Reads a capture of any length: the file is not kept in memory, and a packet takes a few bytes.
pub fn read_capture<T: Send>(
    py: Python<'_>,
    path: &Path,
    read: fn(File) -> Result<T, lasthop_trace::CaptureError>,
) -> PyResult<T> {
    let file = open_file(path, u64::MAX).map_err(CaptureError::new_err)?;
    py.detach(|| read(file)).map_err(|error| CaptureError::new_err(error.to_string()))
}

fn table(py: Python<'_>, packets: Packets) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    macro_rules! columns {
        ($($kind:literal: $($name:ident)+;)+) => {$($({
            let bytes: Vec<u8> = packets.$name.iter().flat_map(|cell| cell.to_ne_bytes()).collect();
            table.set_item(stringify!($name), ($kind, PyBytes::new(py, &bytes)))?;
        })+)+};
    }
    columns! {
        "Q": time_ns;
        "I": flow seq ack bytes digest stamp echo sack_from sack_to;
        "H": window;
        "B": flags reverse;
    }
    let flows = packets.flows.into_iter().map(|flow| {
        let ((source, source_port), (destination, destination_port)) = flow.ends;
        let ends = (source.to_string(), source_port, destination.to_string(), destination_port);
        (ends, flow.tcp, flow.mss, flow.scale, flow.header)
    });
    table.set_item("flows", flows.collect::<Vec<_>>())?;
    table.set_item("cut_headers", packets.cut_headers)?;
    table.set_item("cut_at", packets.lacks.cut_at)?;
    table.set_item("dropped", packets.lacks.dropped)?;
    Ok(table)
}
