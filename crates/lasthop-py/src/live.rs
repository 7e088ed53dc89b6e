//! The live engine: functions for a separate process with a single thread.

use lasthop_host::run::RunSpec;
use lasthop_host::shell::ShellSpec;
use lasthop_scenario::Scenario;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::LiveError;

/// Says why hosts with a real TCP cannot run a scenario.
pub fn needs_real_hosts(scenario: &Scenario, linux_router: bool) -> Result<(), String> {
    lasthop_host::run::needs_real_hosts(scenario, linux_router).map_err(|error| error.to_string())
}

/// Runs a program behind the last hop; returns its exit code.
#[pyfunction]
pub fn live_shell(spec: &str) -> PyResult<i32> {
    let spec: ShellSpec = parse(spec)?;
    lasthop_host::shell::shell(&spec).map_err(|error| LiveError::new_err(error.to_string()))
}

/// Runs replications; returns their records and facts as JSON.
#[pyfunction]
pub fn live_run(spec: &str) -> PyResult<String> {
    let spec: RunSpec = parse(spec)?;
    let runs =
        lasthop_host::run::run(&spec, None, None).map_err(|error| LiveError::new_err(error.to_string()))?;
    Ok(runs.answer().to_string())
}

fn parse<T: DeserializeOwned>(spec: &str) -> PyResult<T> {
    serde_json::from_str(spec).map_err(|error| PyValueError::new_err(error.to_string()))
}
