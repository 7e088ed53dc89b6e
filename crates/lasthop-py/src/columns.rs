//! Conversion of columns for Python: to buffers, without a Python object for each number.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lasthop_trace::Column;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// A column for Python: text, or numbers as a type (in the notation of Python's `struct`), bytes in native
/// order, and a byte per row that is 1 if the row has a value.
pub enum Cells {
    Text(Vec<Cow<'static, str>>),
    Numbers { kind: &'static str, values: Vec<u8>, present: Vec<u8> },
}

impl Cells {
    /// A column of this kind without rows.
    pub fn like(column: &Column) -> Self {
        let kind = match column {
            Column::Text(_) => return Self::Text(Vec::new()),
            Column::Int(_) => "Q",
            Column::Float(_) => "d",
        };
        Self::Numbers { kind, values: Vec::new(), present: Vec::new() }
    }

    pub fn append(&mut self, column: Column) {
        match (self, column) {
            (Self::Text(text), Column::Text(more)) => text.extend(more),
            (cells, column) => cells.append_numbers(&column),
        }
    }

    fn append_numbers(&mut self, column: &Column) {
        match (self, column) {
            (Self::Numbers { values, present, .. }, Column::Int(cells)) => {
                write(values, present, cells, u64::to_ne_bytes);
            }
            (Self::Numbers { values, present, .. }, Column::Float(cells)) => {
                write(values, present, cells, f64::to_ne_bytes);
            }
            _ => unreachable!("a table has the same columns in every batch"),
        }
    }

    pub fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Text(cells) => texts(py, &cells),
            Self::Numbers { kind, values, present } => {
                let buffers = (kind, PyBytes::new(py, &values), PyBytes::new(py, &present));
                Ok(buffers.into_pyobject(py)?.into_any())
            }
        }
    }
}

/// A column as `gather` returns it.
pub fn column<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    if let Column::Text(cells) = column {
        return texts(py, cells);
    }
    let mut cells = Cells::like(column);
    cells.append_numbers(column);
    cells.into_python(py)
}

/// Text for Python. Rows with the same text, which most are, share one object.
fn texts<'py>(py: Python<'py>, cells: &[Cow<'static, str>]) -> PyResult<Bound<'py, PyAny>> {
    let mut objects: BTreeMap<&str, Bound<'py, PyString>> = BTreeMap::new();
    let shared =
        cells.iter().map(|cell| objects.entry(cell).or_insert_with(|| PyString::new(py, cell)).clone());
    Ok(PyList::new(py, shared)?.into_any())
}

/// Appends the values of `cells` and, for each, whether there is one.
fn write<T: Copy + Default>(
    values: &mut Vec<u8>,
    present: &mut Vec<u8>,
    cells: &[Option<T>],
    bytes: fn(T) -> [u8; 8],
) {
    values.reserve(cells.len() * size_of::<T>());
    for cell in cells {
        values.extend_from_slice(&bytes(cell.unwrap_or_default()));
    }
    present.extend(cells.iter().map(|cell| u8::from(cell.is_some())));
}
