//! Scripts of packetdrill on the TCP of the model.

use std::collections::BTreeMap;

use lasthop_packetdrill::{Outcome, Tolerance, run};
use lasthop_tcp::Profile;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A line of a script and a message.
type Message = (u32, String);
/// Python code of a script, its line, and the fields of `tcp_info` that it may use.
type Code = (u32, String, BTreeMap<&'static str, u64>);
/// Missing features of the model, the first difference, the code reached, microseconds passed.
type Verdict = (Vec<Message>, Option<Message>, Vec<Code>, u64);

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
pub fn packetdrill(
    text: &str,
    files: BTreeMap<String, String>,
    stack: &str,
    tolerance_us: Option<i64>,
) -> PyResult<Verdict> {
    let profile = serde_json::from_value::<Profile>(stack.into());
    let profile = profile.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let tolerance = tolerance_us.map(|micros| Tolerance { micros, percent: 0.0 });
    let Outcome { missing, difference, codes, elapsed_us } = match run(text, &files, profile, tolerance) {
        Ok(outcome) => outcome,
        Err(error) => return Ok((Vec::new(), Some((error.line, error.message)), Vec::new(), 0)),
    };
    let codes = codes.into_iter().map(|code| (code.line, code.text, code.info.into_iter().collect()));
    let difference = difference.map(|difference| (difference.line, difference.message));
    Ok((missing, difference, codes.collect(), elapsed_us))
}
