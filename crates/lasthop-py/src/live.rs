//! The live engine: what a process of its own calls, which has one thread only.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::LiveError;

/// Runs a program behind the last hop; its exit code.
#[pyfunction]
pub fn live_shell(spec: &str) -> PyResult<i32> {
    let spec = serde_json::from_str(spec).map_err(|error| PyValueError::new_err(error.to_string()))?;
    lasthop_host::shell::shell(&spec).map_err(|error| LiveError::new_err(error.to_string()))
}
