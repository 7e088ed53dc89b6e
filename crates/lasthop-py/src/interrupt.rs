//! Ctrl-C during a run, which Python cannot notice by itself while Rust works.

use std::time::{Duration, Instant};

use lasthop_core::Failure;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// How often Python is asked: each time takes its lock, for which other threads may have to wait.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What Ctrl-C has raised, as the cause of a failure: no fault of the code that happened to run.
pub struct Interrupt(pub PyErr);

impl Interrupt {
    /// Ends the run.
    pub fn raise(self) -> ! {
        Failure { message: "interrupted".to_owned(), cause: Some(Box::new(self)) }.raise()
    }
}

/// What a run calls now and then, without Python's lock. It ends the run by an [`Interrupt`]: what Ctrl-C has
/// raised, or `KeyboardInterrupt` once `stop` says so; only the main thread hears of Ctrl-C.
pub fn checkpoint(stop: Option<Py<PyAny>>) -> impl FnMut() {
    let mut asked = Instant::now();
    move || {
        if asked.elapsed() < ASK_EVERY {
            return;
        }
        asked = Instant::now();
        if let Err(error) = Python::attach(|py| ask(py, stop.as_ref())) {
            Interrupt(error).raise()
        }
    }
}

fn ask(py: Python<'_>, stop: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    match stop {
        Some(stop) if stop.call0(py)?.is_truthy(py)? => Err(PyKeyboardInterrupt::new_err(())),
        _ => Ok(()),
    }
}
