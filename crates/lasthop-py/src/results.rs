//! Results on their way to Python: columns as buffers, without a Python object for each number.

use std::collections::BTreeMap;

use lasthop_trace::{Batch, Column};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::dict;

#[pyclass(frozen)]
pub struct Results {
    batch: Batch,
}

impl Results {
    pub fn new(batch: Batch) -> Self {
        Self { batch }
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyDict>> {
        let columns = self.batch.tables().into_iter().find(|(own, _)| *own == name);
        dict(py, columns.map(|(_, columns)| columns).unwrap_or_default())
    }
}

#[pymethods]
impl Results {
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table(py, "flows")
    }

    #[getter]
    fn pages(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table(py, "pages")
    }

    #[getter]
    fn shorts(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table(py, "shorts")
    }

    #[getter]
    fn runs(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table(py, "runs")
    }
}

/// The tables of several results below each other, as buffers. The column `position` says which of `results` a row is
/// of.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
pub fn gather<'py>(
    py: Python<'py>,
    results: Vec<Py<Results>>,
    position: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let batches: Vec<&Batch> = results.iter().map(|result| &result.get().batch).collect();
    let tables = PyDict::new(py);
    for (name, columns) in py.detach(|| below_each_other(&batches, position)) {
        let table = PyDict::new(py);
        for (name, cells) in columns {
            table.set_item(name, cells.into_python(py)?)?;
        }
        tables.set_item(name, table)?;
    }
    Ok(tables)
}

/// Name and columns of each table; the first column has the position of each row's batch.
fn below_each_other<'a>(batches: &[&Batch], position: &'a str) -> Vec<(&'static str, Vec<(&'a str, Cells)>)> {
    let mut gathered: Vec<(&'static str, Vec<(&str, Cells)>)> = Vec::new();
    for (number, batch) in (0..).zip(batches) {
        for (place, (table, columns)) in batch.tables().into_iter().enumerate() {
            if gathered.len() == place {
                let names = columns.iter().map(|(name, column)| (*name, Cells::like(column)));
                let numbers = (position, Cells::like(&Column::Int(Vec::new())));
                gathered.push((table, std::iter::once(numbers).chain(names).collect()));
            }
            let height = columns.first().map_or(0, |(_, column)| column.len());
            let numbers = Column::Int(vec![Some(number); height]);
            let more = std::iter::once(numbers).chain(columns.into_iter().map(|(_, column)| column));
            for ((_, cells), column) in gathered[place].1.iter_mut().zip(more) {
                cells.append(column);
            }
        }
    }
    gathered
}

/// A column as Python gets it: text, or numbers as type (as Python's `struct` calls it), bytes in native order
/// and a byte per row that says whether it has one.
enum Cells {
    Text(Vec<String>),
    Numbers { kind: &'static str, values: Vec<u8>, known: Vec<u8> },
}

impl Cells {
    /// A column of this kind without rows.
    fn like(column: &Column) -> Self {
        let kind = match column {
            Column::Text(_) => return Self::Text(Vec::new()),
            Column::Int(_) => "Q",
            Column::Float(_) => "d",
        };
        Self::Numbers { kind, values: Vec::new(), known: Vec::new() }
    }

    /// Adds rows of the same kind.
    fn append(&mut self, column: Column) {
        match (self, column) {
            (Self::Text(text), Column::Text(more)) => text.extend(more),
            (Self::Numbers { values, known, .. }, Column::Int(cells)) => {
                write(values, known, &cells, u64::to_ne_bytes);
            }
            (Self::Numbers { values, known, .. }, Column::Float(cells)) => {
                write(values, known, &cells, f64::to_ne_bytes);
            }
            _ => unreachable!("a table has the same columns in every batch"),
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Text(cells) => texts(py, &cells),
            Self::Numbers { kind, values, known } => {
                let buffers = (kind, PyBytes::new(py, &values), PyBytes::new(py, &known));
                Ok(buffers.into_pyobject(py)?.into_any())
            }
        }
    }
}

/// A column as `gather` hands it over.
pub fn column<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    let (mut values, mut known) = (Vec::new(), Vec::new());
    let kind = match column {
        Column::Text(cells) => return texts(py, cells),
        Column::Int(cells) => {
            write(&mut values, &mut known, cells, u64::to_ne_bytes);
            "Q"
        }
        Column::Float(cells) => {
            write(&mut values, &mut known, cells, f64::to_ne_bytes);
            "d"
        }
    };
    Cells::Numbers { kind, values, known }.into_python(py)
}

/// Text as Python gets it: rows that say the same share it, and most do.
fn texts<'py>(py: Python<'py>, cells: &[String]) -> PyResult<Bound<'py, PyAny>> {
    let mut known: BTreeMap<&str, Bound<'py, PyString>> = BTreeMap::new();
    let shared =
        cells.iter().map(|cell| known.entry(cell).or_insert_with(|| PyString::new(py, cell)).clone());
    Ok(PyList::new(py, shared)?.into_any())
}

/// Appends the values of `cells` and, for each, whether there is one.
fn write<T: Copy + Default>(
    values: &mut Vec<u8>,
    known: &mut Vec<u8>,
    cells: &[Option<T>],
    bytes: fn(T) -> [u8; 8],
) {
    values.reserve(cells.len() * size_of::<T>());
    for cell in cells {
        values.extend_from_slice(&bytes(cell.unwrap_or_default()));
    }
    known.extend(cells.iter().map(|cell| u8::from(cell.is_some())));
}
