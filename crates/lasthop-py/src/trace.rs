//! Conversion of the kept data of a run for Python: columns as lists, or as buffers for data frames.

use std::sync::{Mutex, PoisonError};

use lasthop_trace::{Column, Kept, LeftOut};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::column;
use crate::dict;

type Columns = Vec<(&'static str, Column)>;

/// Columns as the engine made them, or as lists once they have been requested as lists.
enum State {
    Columns(Columns),
    Lists(Py<PyDict>),
}

struct Table(Mutex<State>);

impl Table {
    const fn new(columns: Columns) -> Self {
        Self(Mutex::new(State::Columns(columns)))
    }

    fn lists(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Columns(columns) = &mut *state {
            *state = State::Lists(dict(py, std::mem::take(columns))?);
        }
        match &*state {
            State::Lists(lists) => Ok(lists.clone_ref(py)),
            State::Columns(_) => unreachable!("they have just become lists"),
        }
    }

    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Columns(columns) = &*state else { return Ok(None) };
        let table = PyDict::new(py);
        for (name, cells) in columns {
            table.set_item(name, column(py, cells)?)?;
        }
        Ok(Some(table))
    }
}

#[pyclass(frozen)]
pub struct Trace {
    tables: [(&'static str, Table); 7],
    left_out: LeftOut,
}

impl Trace {
    pub fn of(kept: Kept) -> Self {
        let Kept { tables, left_out } = kept;
        Self { tables: tables.map(|(name, columns)| (name, Table::new(columns))), left_out }
    }

    fn table(&self, name: &str) -> PyResult<&Table> {
        let found = self.tables.iter().find(|(own, _)| *own == name).map(|(_, table)| table);
        found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

#[pymethods]
impl Trace {
    #[getter]
    fn packets(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("packets")?.lists(py)
    }

    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("transport")?.lists(py)
    }

    #[getter]
    fn objects(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("objects")?.lists(py)
    }

    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("flows")?.lists(py)
    }

    #[getter]
    fn bad_periods(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("bad_periods")?.lists(py)
    }

    #[getter]
    fn series(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("series")?.lists(py)
    }

    #[getter]
    fn delays(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.table("delays")?.lists(py)
    }

    #[getter]
    fn left_out<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let LeftOut { points, marks, flows } = self.left_out;
        let dict = PyDict::new(py);
        for (name, number) in [("points", points), ("marks", marks), ("flows", flows)] {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }

    fn buffers<'py>(&self, py: Python<'py>, table: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.table(table)?.buffers(py)
    }
}
