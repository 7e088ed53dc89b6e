//! The live engine: what a process of its own calls, which has one thread only.

use lasthop_host::run::RunSpec;
use lasthop_host::shell::ShellSpec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::run::Batch;
use crate::{LiveError, Results, table};

/// Runs a program behind the last hop; its exit code.
#[pyfunction]
pub fn live_shell(spec: &str) -> PyResult<i32> {
    let spec: ShellSpec = parse(spec)?;
    lasthop_host::shell::shell(&spec).map_err(|error| LiveError::new_err(error.to_string()))
}

/// Runs replications; their records, and facts as JSON.
#[pyfunction]
pub fn live_run(py: Python<'_>, spec: &str) -> PyResult<(Results, String)> {
    let spec: RunSpec = parse(spec)?;
    let runs = lasthop_host::run::run(&spec).map_err(|error| LiveError::new_err(error.to_string()))?;
    let facts: Vec<_> = runs.runs.iter().map(|(_, facts)| facts).collect();
    let facts = serde_json::json!({
        "runs": facts, "differences": runs.differences, "priority": runs.priority,
    });
    let facts = facts.to_string();
    let mut batch = Batch::default();
    for (records, facts) in runs.runs {
        batch.add(facts.replication, records);
    }
    let results = Results {
        flows: table(py, &batch.flows.rows, Some(&batch.flows.replications))?,
        pages: table(py, &batch.pages.rows, Some(&batch.pages.replications))?,
        shorts: table(py, &batch.shorts.rows, Some(&batch.shorts.replications))?,
        runs: table(py, &batch.runs.rows, Some(&batch.runs.replications))?,
    };
    Ok((results, facts))
}

fn parse<T: DeserializeOwned>(spec: &str) -> PyResult<T> {
    serde_json::from_str(spec).map_err(|error| PyValueError::new_err(error.to_string()))
}
