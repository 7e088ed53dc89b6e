//! Conversion of results for Python.

use lasthop_trace::{Batch, Column, Kept};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::Cells;
use crate::dict;
use crate::trace::Trace;

#[pyclass(frozen)]
pub struct Results {
    batch: Batch,
    trace: Option<Py<Trace>>,
    memory: Option<String>,
}

impl Results {
    pub fn new(py: Python<'_>, batch: Batch, kept: Option<Kept>, memory: Option<String>) -> PyResult<Self> {
        let trace = kept.map(|kept| Py::new(py, Trace::of(kept))).transpose()?;
        Ok(Self { batch, trace, memory })
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyDict>> {
        let columns = self.batch.tables().into_iter().find(|(own, _)| *own == name);
        dict(py, columns.map(|(_, columns)| columns).unwrap_or_default())
    }
}

/// A property for each table, and the other methods; a type has one block of methods.
macro_rules! properties {
    ($($table:ident)*) => {
        #[pymethods]
        impl Results {
            $(#[getter]
            fn $table(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
                self.table(py, stringify!($table))
            })*

            #[getter]
            fn trace(&self, py: Python<'_>) -> Option<Py<Trace>> {
                self.trace.as_ref().map(|trace| trace.clone_ref(py))
            }

            #[getter]
            fn memory(&self) -> Option<&str> {
                self.memory.as_deref()
            }
        }
    };
}

properties! { flows pages shorts hops stations runs }

/// The tables of several results together, as buffers; the column `position` has each row's result.
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

/// Name and columns of each table; the first column is the position of each row's batch.
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
