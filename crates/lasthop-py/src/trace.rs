//! Conversion of the kept data of a run for Python: columns as lists, or as buffers for data frames.

use std::sync::{Mutex, PoisonError};

use lasthop_trace::{Column, Kept, LeftOut};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::column;
use crate::{dict, dict_of};

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
        let table = self.tables.iter().find(|(own, _)| *own == name).map(|(_, table)| table);
        table.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

/// A property for each table, and the other methods; a type has one block of methods.
macro_rules! properties {
    ($($table:ident)*) => {
        #[pymethods]
        impl Trace {
            $(#[getter]
            fn $table(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
                self.table(stringify!($table))?.lists(py)
            })*

            #[getter]
            fn left_out<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let LeftOut { points, marks, flows } = self.left_out;
                dict_of(py, [("points", points), ("marks", marks), ("flows", flows)])
            }

            fn buffers<'py>(&self, py: Python<'py>, table: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
                self.table(table)?.buffers(py)
            }
        }
    };
}

properties! { packets transport objects flows bad_periods series delays }
