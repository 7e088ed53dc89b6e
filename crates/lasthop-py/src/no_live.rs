//! The live engine on other systems than Linux: each function refuses.

use lasthop_scenario::Scenario;
use pyo3::prelude::*;

use crate::LiveError;

const NEEDS_LINUX: &str = "the kernel and live engines need Linux; leave out --engine";

pub fn needs_real_hosts(_: &Scenario, _: bool) -> Result<(), String> {
    Err(NEEDS_LINUX.to_owned())
}

#[pyfunction]
pub fn live_shell(_spec: &str) -> PyResult<i32> {
    Err(LiveError::new_err(NEEDS_LINUX))
}

#[pyfunction]
pub fn live_run(_spec: &str) -> PyResult<String> {
    Err(LiveError::new_err(NEEDS_LINUX))
}
