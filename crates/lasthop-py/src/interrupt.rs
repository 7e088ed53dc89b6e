//! Ctrl-C during a run: Python cannot notice it by itself while Rust code runs.

use std::time::{Duration, Instant};

use lasthop_core::Failure;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Interval of checks. Each check takes Python's lock, for which other threads may have to wait.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The exception of Ctrl-C as the cause of a failure; the code that happened to run is not at fault.
pub struct Interrupt(pub PyErr);

impl Interrupt {
    pub fn raise(self) -> ! {
        Failure { message: "interrupted".to_owned(), cause: Some(Box::new(self)) }.raise()
    }
}

/// The checkpoint of a run, called without Python's lock. It ends the run by an [`Interrupt`] with the
/// exception of Ctrl-C, or with `KeyboardInterrupt` once `stop` is set, because only the main thread receives
/// Ctrl-C.
pub fn checkpoint(stop: Option<Py<PyAny>>) -> impl FnMut() {
    let mut last_check = Instant::now();
    move || {
        if last_check.elapsed() < ASK_EVERY {
            return;
        }
        last_check = Instant::now();
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
