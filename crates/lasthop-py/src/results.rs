//! Results on their way to Python: columns as buffers, without a Python object for each number.

use lasthop_trace::{Batch, Column};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::dict;

type Columns = Vec<(&'static str, Column)>;

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
    for (name, columns, positions) in py.detach(|| below_each_other(&batches)) {
        let table = PyDict::new(py);
        table.set_item(position, buffers(py, Column::Int(positions))?)?;
        for (name, column) in columns {
            table.set_item(name, buffers(py, column)?)?;
        }
        tables.set_item(name, table)?;
    }
    Ok(tables)
}

/// Name and columns of each table, and for each row the position of its batch.
fn below_each_other(batches: &[&Batch]) -> Vec<(&'static str, Columns, Vec<Option<u64>>)> {
    let mut gathered: Vec<(&'static str, Columns, Vec<Option<u64>>)> = Vec::new();
    for (position, batch) in (0..).zip(batches) {
        for (place, (name, columns)) in batch.tables().into_iter().enumerate() {
            let height = columns.first().map_or(0, |(_, column)| column.len());
            let own = vec![Some(position); height];
            if let Some((_, whole, positions)) = gathered.get_mut(place) {
                for ((_, cells), (_, more)) in whole.iter_mut().zip(columns) {
                    cells.append(more);
                }
                positions.extend(own);
            } else {
                gathered.push((name, columns, own));
            }
        }
    }
    gathered
}

/// Text as a list; numbers as type, bytes in native order, and a byte per row that says whether it has one.
fn buffers(py: Python<'_>, column: Column) -> PyResult<Bound<'_, PyAny>> {
    match column {
        Column::Int(cells) => numbers(py, "uint64", &cells, u64::to_ne_bytes),
        Column::Float(cells) => numbers(py, "float64", &cells, f64::to_ne_bytes),
        Column::Text(cells) => cells.into_pyobject(py),
    }
}

fn numbers<'py, T: Copy + Default>(
    py: Python<'py>,
    kind: &str,
    cells: &[Option<T>],
    bytes: fn(T) -> [u8; 8],
) -> PyResult<Bound<'py, PyAny>> {
    let values: Vec<u8> = cells.iter().flat_map(|cell| bytes(cell.unwrap_or_default())).collect();
    let known: Vec<u8> = cells.iter().map(|cell| u8::from(cell.is_some())).collect();
    Ok((kind, PyBytes::new(py, &values), PyBytes::new(py, &known)).into_pyobject(py)?.into_any())
}
