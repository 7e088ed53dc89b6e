//! Python bindings, thin: scenario files in, columns of records out.
//!
//! Signatures and units are documented in `python/lasthop/_core.pyi`.

mod columns;
mod interrupt;
mod kernel;
#[cfg_attr(not(target_os = "linux"), path = "no_live.rs")]
mod live;
mod packetdrill;
mod packets;
mod results;
mod run;
mod trace;
mod user;

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use lasthop_core::amount::Scale;
use lasthop_core::{
    DropCause, DropLabels, EventLabels, Failure, Fault, PacketStep, Protocol, Seed, TransportKind,
};
use lasthop_link::CourseConfig;
use lasthop_scenario::{Assumption, Estimate, Sample, Sampler, Scenario, ScenarioErrors};
use lasthop_trace::{
    Batch, CapturePoints, CaptureRecord, Column, Columnar, DROPS_FILE, Heard, Meaning, ProtocolRecord,
    Request, SNAP_LENGTH, SeriesRow, SizeRecord, StreamRecord,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sha2::{Digest, Sha256};

use interrupt::{Interrupt, checkpoint};
use lasthop_sim::{HostMemory, RunFailure};
use results::Results;
use run::{RunError, memory_from_json, memory_to_json};
use trace::Trace;
use user::{Classes, PyAck, PyPacket};

pyo3::create_exception!(_core, ScenarioError, PyValueError, "A scenario file is wrong.");
pyo3::create_exception!(_core, LiveError, PyRuntimeError, "This machine cannot run the live engine.");
pyo3::create_exception!(
    _core,
    UserCodeError,
    PyRuntimeError,
    "A custom algorithm failed, or violated its contract."
);
pyo3::create_exception!(_core, CaptureError, PyValueError, "A capture file cannot be analysed.");

#[pyclass(frozen)]
struct Study {
    study: lasthop_scenario::Study,
}

#[pyclass(frozen)]
struct Cell {
    cell: lasthop_scenario::Cell,
    /// The scenario with its user code, once the code has been looked up.
    bound: OnceLock<Box<Scenario>>,
}

impl From<lasthop_scenario::Cell> for Cell {
    fn from(cell: lasthop_scenario::Cell) -> Self {
        Self { cell, bound: OnceLock::new() }
    }
}

impl Cell {
    /// The scenario for the model engine; raises if it cannot be run.
    fn runnable(&self) -> PyResult<&Scenario> {
        self.cell.needs_model().map_err(|error| ScenarioError::new_err(error.to_string()))?;
        if self.cell.code.is_empty() {
            return Ok(&self.cell.scenario);
        }
        if self.bound.get().is_none() {
            let mut scenario = self.cell.scenario.clone();
            let bound = scenario.bind(&Classes);
            bound.map_err(|Fault { key, message }| ScenarioError::new_err(format!("`{key}`: {message}")))?;
            // Another thread may have set it first.
            let _ = self.bound.set(Box::new(scenario));
        }
        Ok(self.bound.get().expect("it has just been set"))
    }

    fn failed(&self, py: Python<'_>, error: RunError) -> PyErr {
        match error {
            RunError::Io(error) => error.into(),
            RunError::User(replication, RunFailure { failure, at }) => {
                let Failure { message, cause } = failure;
                let cause = match cause.map(<Box<dyn Any + Send>>::downcast::<Interrupt>) {
                    Some(Ok(interrupt)) => return interrupt.0,
                    Some(Err(cause)) => cause.downcast::<PyErr>().ok().map(|cause| *cause),
                    None => None,
                };
                let key = self.cell.key();
                let cell = if key.is_empty() { String::new() } else { format!("cell {key}, ") };
                let error =
                    UserCodeError::new_err(format!("{cell}replication {replication}, at {at}: {message}"));
                error.set_cause(py, cause);
                error
            }
        }
    }
}

#[pymethods]
impl Study {
    #[getter]
    fn name(&self) -> &str {
        &self.study.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.study.title
    }

    #[getter]
    fn description(&self) -> Option<&str> {
        Some(self.study.description.as_str()).filter(|text| !text.is_empty())
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.study.seed
    }

    #[getter]
    fn replications(&self) -> u32 {
        self.study.replications
    }

    #[getter]
    fn factors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict_of(py, self.study.factors.iter().map(|(name, levels)| (name, levels)))
    }

    #[getter]
    fn space<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(space) = &self.study.space else { return Ok(None) };
        let ranges = PyDict::new(py);
        for range in &space.ranges {
            let facts = PyDict::new(py);
            let [from, to] = range.ends;
            facts.set_item("unit", from.kind.unit())?;
            facts.set_item("from", from.number())?;
            facts.set_item("to", to.number())?;
            facts.set_item("counts", from.kind.is_count())?;
            facts.set_item("scale", if range.scale == Scale::Log { "log" } else { "linear" })?;
            facts.set_item("sets", &range.sets)?;
            ranges.set_item(&range.name, facts)?;
        }
        let facts = PyDict::new(py);
        facts.set_item("method", space.method.name())?;
        facts.set_item("points", space.points)?;
        facts.set_item("ranges", ranges)?;
        Ok(Some(facts))
    }

    #[getter]
    fn cells(&self) -> Vec<Cell> {
        self.study.cells.iter().cloned().map(Cell::from).collect()
    }

    #[getter]
    fn assumed(&self) -> Vec<(String, String, String)> {
        assumptions(&self.study.assumed)
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.study.notes.iter().map(ToString::to_string).collect()
    }

    #[pyo3(signature = (keys, *, real_hosts, linux_router))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn check_hosts(&self, keys: Vec<String>, real_hosts: bool, linux_router: bool) -> PyResult<()> {
        let accepted = self.study.accepts(&keys, |cell| {
            if !real_hosts {
                return cell.needs_model();
            }
            if let Some((key, name)) = cell.code.first() {
                let message = format!(
                    "`{key}`: {name:?} is custom code, which runs on the model engine only; leave out --engine"
                );
                return Err(self.study.error(message));
            }
            live::needs_real_hosts(&cell.scenario, linux_router).map_err(|error| self.study.error(error))
        });
        accepted.map_err(|errors| ScenarioError::new_err(errors.to_string()))
    }

    #[getter]
    fn code(&self) -> Vec<(String, String)> {
        let every = self.study.cells.iter().flat_map(|cell| &cell.code);
        every.collect::<BTreeSet<_>>().into_iter().cloned().collect()
    }

    #[getter]
    fn digest(&self) -> String {
        let cells: Vec<String> =
            self.study.cells.iter().map(|cell| format!("{}\n{}", cell.key(), json(&cell.scenario))).collect();
        digest(&format!("{}\n{}", self.study.name, cells.join("\n")))
    }
}

#[pymethods]
impl Cell {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn new(levels: Vec<(String, String)>, scenario: String) -> PyResult<Self> {
        let scenario = Scenario::from_json(&mut serde_json::Deserializer::from_str(&scenario))
            .map_err(|error| PyValueError::new_err(format!("not a resolved scenario: {error}")))?;
        Ok(lasthop_scenario::Cell::resolved(levels, scenario).into())
    }

    #[getter]
    fn key(&self) -> String {
        self.cell.key()
    }

    #[getter]
    fn capture_files(&self) -> Vec<String> {
        capture_files(&CapturePoints::of(&self.cell.scenario))
    }

    #[getter]
    fn levels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict_of(py, self.cell.levels.iter().map(|(factor, level)| (factor, level)))
    }

    #[getter]
    fn point<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let point = PyDict::new(py);
        for (factor, amount) in &self.cell.point {
            if amount.is_whole() {
                point.set_item(factor, amount.number() as i64)?;
            } else {
                point.set_item(factor, amount.number())?;
            }
        }
        Ok(point)
    }

    #[getter]
    fn kernel(&self) -> Option<&str> {
        self.cell.scenario.kernel.as_deref()
    }

    #[getter]
    fn sequential(&self) -> bool {
        self.cell.scenario.sequential()
    }

    #[getter]
    fn flows(&self) -> usize {
        self.cell.scenario.flows().len()
    }

    #[getter]
    fn time_limit_s(&self) -> f64 {
        self.cell.scenario.time_limit.as_secs_f64()
    }

    #[getter]
    fn estimate(&self) -> (f64, f64) {
        let Estimate { packets, memory } = self.cell.scenario.estimate();
        (packets, memory)
    }

    #[getter]
    fn assumed(&self) -> Vec<(String, String, String)> {
        assumptions(&self.cell.assumed)
    }

    #[getter]
    fn facts(&self) -> String {
        json(&self.cell.scenario.facts())
    }

    /// The course of a direction of a hop in one replication, as CSV for a scenario's `course`; `None`
    /// if the link has no course. Raises if there is no such hop.
    fn course(&self, hop: &str, direction: &str, seed: u64, replication: u64) -> PyResult<Option<String>> {
        let drawn = self.cell.scenario.drawn(Seed { study: seed, replication });
        let hops = drawn.hops();
        let names: Vec<&str> = hops.iter().map(|hop| hop.name).collect();
        let Some(hop) = hops.iter().find(|candidate| candidate.name == hop) else {
            return Err(PyValueError::new_err(format!(
                "there is no hop {hop:?} (accepted: {})",
                names.join(", ")
            )));
        };
        let path = hop.links().find(|(way, _)| way.name() == direction).map(|(_, path)| path);
        let course = path.and_then(|path| path.link.course.as_ref());
        Ok(course.and_then(CourseConfig::table).map(ToString::to_string))
    }

    /// Start of each transfer by real programs in a replication, in seconds, and bytes of its file if it has a
    /// duration.
    fn transfers(&self, seed: u64, replication: u64) -> Vec<(f64, Option<u64>)> {
        let seed = Seed { study: seed, replication };
        self.cell.scenario.drawn(seed).transfers(seed)
    }

    #[getter]
    fn scenario(&self) -> String {
        json(&self.cell.scenario)
    }

    #[getter]
    fn digest(&self) -> String {
        digest(&json(&self.cell.scenario))
    }

    #[getter]
    fn code(&self) -> Vec<(String, String)> {
        self.cell.code.clone()
    }

    #[pyo3(signature = (
        seed, first, count, observations = "{}", *, records = true, memory = None, stop = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has keywords")]
    fn run(
        &self,
        py: Python<'_>,
        seed: u64,
        first: u64,
        count: u64,
        observations: &str,
        records: bool,
        memory: Option<&str>,
        stop: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let scenario = self.runnable()?;
        let observations = serde_json::from_str(observations)
            .map_err(|error| PyValueError::new_err(format!("not valid observations: {error}")))?;
        let request = Request { seed, first, count, observations };
        let memory = memory.map_or_else(|| Ok(HostMemory::default()), memory_from_json);
        let mut memory =
            memory.map_err(|error| PyValueError::new_err(format!("not the state of hosts: {error}")))?;
        let done = py.detach(|| run::run(scenario, &request, records, &mut memory, &mut checkpoint(stop)));
        let (batch, kept) = done.map_err(|error| self.failed(py, error))?;
        Results::new(py, batch, kept, scenario.sequential().then(|| memory_to_json(&memory)))
    }
}

/// Key, value and reason of each assumption.
fn assumptions(assumed: &[Assumption]) -> Vec<(String, String, String)> {
    assumed.iter().map(|each| (each.key.clone(), each.value.clone(), each.why.clone())).collect()
}

fn capture_files(points: &CapturePoints) -> Vec<String> {
    points.names().map(CapturePoints::file_name).chain([DROPS_FILE.to_owned()]).collect()
}

/// A dict of these values, in their order.
fn dict_of<'py, K: IntoPyObject<'py>, V: IntoPyObject<'py>>(
    py: Python<'py>,
    values: impl IntoIterator<Item = (K, V)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    values.into_iter().try_for_each(|(key, value)| dict.set_item(key, value))?;
    Ok(dict)
}

/// Columns as a dict of lists.
fn dict(py: Python<'_>, columns: Vec<(&'static str, Column)>) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in columns {
        match column {
            Column::Int(cells) => dict.set_item(name, cells)?,
            Column::Float(cells) => dict.set_item(name, cells)?,
            Column::Text(cells) => dict.set_item(name, cells)?,
        }
    }
    Ok(dict.unbind())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a validated scenario has only finite numbers and text keys")
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[pyfunction]
#[pyo3(signature = (path, points = None, draw = None, for_link = false))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
fn load(
    path: PathBuf,
    points: Option<u32>,
    draw: Option<Bound<'_, PyAny>>,
    for_link: bool,
) -> PyResult<Study> {
    let read = if for_link { lasthop_scenario::Study::of_link } else { lasthop_scenario::Study::sampled };
    sampled(draw.as_ref(), points, |sampler| read(&path, sampler))
}

#[pyfunction]
#[pyo3(signature = (text, name, draw = None, files = None))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
fn parse(
    text: &str,
    name: &str,
    draw: Option<Bound<'_, PyAny>>,
    files: Option<Vec<String>>,
) -> PyResult<Study> {
    let bytes = text.as_bytes();
    sampled(draw.as_ref(), None, |sampler| match &files {
        Some(files) => lasthop_scenario::Study::in_place_of(name.as_ref(), bytes, files, sampler),
        None => lasthop_scenario::Study::from_bytes(bytes, name, sampler),
    })
}

/// Reads a study whose points Python draws.
fn sampled(
    draw: Option<&Bound<'_, PyAny>>,
    points: Option<u32>,
    read: impl FnOnce(&Sampler<'_>) -> Result<lasthop_scenario::Study, ScenarioErrors>,
) -> PyResult<Study> {
    let drawn = |Sample { method, points, dimensions, seed }: Sample| {
        let Some(draw) = draw else {
            return (Sampler::NONE.draw)(Sample { method, points, dimensions, seed });
        };
        let rows = draw.call1((method.name(), points, dimensions, seed)).and_then(|rows| rows.extract());
        rows.map_err(|error| error.to_string())
    };
    let study = read(&Sampler { points, draw: &drawn });
    Ok(Study { study: study.map_err(|error| ScenarioError::new_err(error.to_string()))? })
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
fn analyze(py: Python<'_>, path: PathBuf) -> PyResult<[Py<PyDict>; 4]> {
    let analysis = packets::read_capture(py, &path, lasthop_trace::analyze)?;
    Ok([
        dict(py, StreamRecord::columns(&analysis.streams))?,
        dict(py, CaptureRecord::columns(&[analysis.capture]))?,
        dict(py, ProtocolRecord::columns(&analysis.protocols))?,
        dict(py, SizeRecord::columns(&analysis.sizes))?,
    ])
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
fn read_file(path: PathBuf) -> PyResult<Cow<'static, [u8]>> {
    let read = lasthop_scenario::read_file(&path);
    read.map(Cow::Owned).map_err(|error| ScenarioError::new_err(error.to_string()))
}

fn drop_causes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let labels = DropCause::ALL.iter().map(|cause| cause.labels());
    let causes = labels.map(|&DropLabels { name, event, place, count, label, words, symbol, doc }| {
        let (place, count) = (("place", place.name()), ("count", count.name()));
        let texts = [("label", label), ("words", words), ("symbol", symbol), ("doc", doc)];
        dict_of(py, [("name", name), ("event", event), place, count].into_iter().chain(texts))
    });
    causes.collect()
}

fn event_kinds(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let labels = PacketStep::LABELS.iter().chain(TransportKind::LABELS);
    let kinds = labels.map(|&EventLabels { name, role, label, words, symbol, doc }| {
        let texts = [("label", label), ("words", words), ("symbol", symbol), ("doc", doc)];
        dict_of(py, [("name", name), ("role", role.name())].into_iter().chain(texts))
    });
    kinds.collect()
}

/// Names of the transport protocols, and whether their flows are transfers.
fn protocols(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    dict_of(py, Protocol::ALL.iter().map(|protocol| (protocol.name(), protocol.is_transfer())))
}

#[pyfunction]
fn to_toml(json: &str) -> PyResult<String> {
    lasthop_scenario::to_toml(json).map_err(PyValueError::new_err)
}

/// The rating R of the E-model, and how much the delay and the missing frames lower it.
#[pyfunction]
fn e_model(
    impairment: f64,
    loss_robustness: f64,
    loss: f64,
    burst_ratio: f64,
    delay_s: f64,
) -> (f64, f64, f64) {
    let heard = Heard { impairment, loss_robustness, loss, burst_ratio, delay_s };
    let (delay, equipment) = heard.impairments();
    (heard.rating(), delay, equipment)
}

#[pyfunction]
fn schema() -> String {
    lasthop_scenario::json_schema()
}

/// Name, label, unit and definition of the columns of each table.
fn meanings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let tables = Batch::MEANINGS.into_iter().chain([("series", SeriesRow::MEANINGS)]);
    let columns = |(table, meanings): (_, &[Meaning])| {
        let columns = meanings.iter().map(|m| (m.name, m.label, m.unit, m.definition.trim_start()));
        (table, columns.collect::<Vec<_>>())
    };
    dict_of(py, tables.map(columns))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("RULES", env!("LASTHOP_RULES"))?;
    module.add("CAPTURE_FILES", capture_files(&CapturePoints::single()))?;
    module.add("SNAP_LENGTH", SNAP_LENGTH)?;
    module.add("MEANINGS", meanings(module.py())?)?;
    module.add("DROP_CAUSES", drop_causes(module.py())?)?;
    module.add("EVENT_KINDS", event_kinds(module.py())?)?;
    module.add("PROTOCOLS", protocols(module.py())?)?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("LiveError", module.py().get_type::<LiveError>())?;
    module.add("CaptureError", module.py().get_type::<CaptureError>())?;
    module.add("UserCodeError", module.py().get_type::<UserCodeError>())?;
    module.add_class::<PyAck>()?;
    module.add_class::<PyPacket>()?;
    module.add_class::<Study>()?;
    module.add_class::<Cell>()?;
    module.add_class::<Results>()?;
    module.add_class::<Trace>()?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(parse, module)?)?;
    module.add_function(wrap_pyfunction!(read_file, module)?)?;
    module.add_function(wrap_pyfunction!(results::gather, module)?)?;
    module.add_function(wrap_pyfunction!(analyze, module)?)?;
    module.add_function(wrap_pyfunction!(packets::packets, module)?)?;
    module.add_function(wrap_pyfunction!(kernel::initial_file_system, module)?)?;
    module.add_function(wrap_pyfunction!(live::live_run, module)?)?;
    module.add_function(wrap_pyfunction!(live::live_shell, module)?)?;
    module.add_function(wrap_pyfunction!(packetdrill::packetdrill, module)?)?;
    module.add_function(wrap_pyfunction!(to_toml, module)?)?;
    module.add_function(wrap_pyfunction!(e_model, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)
}
