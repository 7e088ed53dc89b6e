//! User code in Python: adapts classes of `lasthop.common.algorithms` to the traits that the engine calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use lasthop_core::{Ecn, Failure, Instant, QueueSize, RandomStream, Rate};
use lasthop_link::{ErrorAlgorithm, ErrorSetup, QueueAlgorithm, QueueSetup, QueuedPacket, Verdicts};
use lasthop_scenario::{Found, Library};
use lasthop_tcp::{Ack, CongestionAlgorithm, CongestionWindow, ControlSetup, Sign};
use lasthop_traffic::{TrafficAlgorithm, TrafficSetup, Wanted};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::interrupt::Interrupt;

/// Looks up classes by importing their modules.
pub struct Classes;

#[derive(Debug)]
struct Class {
    name: String,
    class: Py<PyAny>,
}

impl Class {
    /// The class with this name, which is derived from `base` of `lasthop.common.algorithms`.
    fn find(name: &str, base: &str) -> Result<Arc<Self>, String> {
        Python::attach(|py| {
            let class = py.import("lasthop.common.algorithms")?.call_method1("find", (name, base))?;
            Ok(Arc::new(Self { name: name.to_owned(), class: class.unbind() }))
        })
        .map_err(|error: PyErr| Python::attach(|py| error.value(py).to_string()))
    }

    /// An instance with its own random stream and facts.
    fn make<'py>(
        &self,
        py: Python<'py>,
        mut stream: RandomStream,
        facts: Bound<'py, PyDict>,
    ) -> PyResult<Instance> {
        let created = py
            .import("lasthop.common.algorithms")?
            .call_method1("make", (&self.class, stream.bits(), facts))?;
        let (object, hooks): (Py<PyAny>, Vec<String>) = created.extract()?;
        Ok(Instance { name: self.name.clone(), object, hooks })
    }
}

#[derive(Debug)]
struct Instance {
    name: String,
    object: Py<PyAny>,
    /// The methods that the class overrides.
    hooks: Vec<String>,
}

impl Instance {
    /// Calls a method of it; an exception ends the run.
    fn call<T>(&self, did: &str, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> T {
        Python::attach(|py| call(self.object.bind(py))).unwrap_or_else(|error| self.fail(did, error))
    }

    fn fail(&self, did: &str, error: PyErr) -> ! {
        fail(&format!("{}.{did} raised", self.name), error)
    }

    fn does(&self, hook: &str) -> bool {
        self.hooks.iter().any(|own| own == hook)
    }
}

/// Ends the run by the exception of the user code, or by a Ctrl-C that arrived while the code ran.
fn fail(what: &str, error: PyErr) -> ! {
    let (is_interrupt, place) = Python::attach(|py| {
        let details = py.import("lasthop.common.algorithms").and_then(|module| {
            let trace = error.traceback(py);
            let is_interrupt = module.call_method1("is_interrupt", (error.value(py), &trace))?.extract()?;
            let place: String = module.call_method1("place_of", (trace,))?.extract()?;
            Ok((is_interrupt, place))
        });
        details.unwrap_or_default()
    });
    if is_interrupt {
        Interrupt(error).raise()
    }
    Failure { message: format!("{what} {error}{place}"), cause: Some(Box::new(error)) }.raise()
}

fn create<T>(name: &str, instance: PyResult<T>) -> T {
    instance.unwrap_or_else(|error| fail(&format!("cannot create {name}:"), error))
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

impl Library for Classes {
    fn congestion_control(&self, name: &str) -> Found<ControlSetup, dyn CongestionAlgorithm> {
        let class = Class::find(name, "CongestionControl")?;
        Ok(Arc::new(move |setup| Box::new(create(&class.name, Control::new(&class, setup)))))
    }

    fn queue_discipline(&self, name: &str) -> Found<QueueSetup, dyn QueueAlgorithm> {
        let class = Class::find(name, "QueueDiscipline")?;
        Ok(Arc::new(move |setup| Box::new(create(&class.name, Queue::new(&class, setup)))))
    }

    fn error_model(&self, name: &str) -> Found<ErrorSetup, dyn ErrorAlgorithm> {
        let class = Class::find(name, "ErrorModel")?;
        Ok(Arc::new(move |setup| Box::new(create(&class.name, Errors::new(&class, setup)))))
    }

    fn traffic(&self, name: &str) -> Found<TrafficSetup, dyn TrafficAlgorithm> {
        let class = Class::find(name, "Traffic")?;
        Ok(Arc::new(move |setup| Box::new(create(&class.name, Sender::new(&class, setup)))))
    }
}

/// The information in an ACK for a congestion control.
#[pyclass(frozen, get_all, name = "Ack", module = "lasthop")]
pub struct PyAck {
    now_s: f64,
    acked: u32,
    window_limited: bool,
    #[pyo3(name = "delivery_rate_Bps")]
    delivery_rate: Option<f64>,
    app_limited: bool,
}

impl PyAck {
    fn of(ack: &Ack, segment_bytes: u32) -> Self {
        let delivery = ack.delivery.filter(|delivery| delivery.interval_us > 0);
        let delivery_rate = delivery.map(|delivery| {
            let bytes = delivery.segments as f64 * f64::from(segment_bytes);
            bytes / delivery.interval_us as f64 * 1e6
        });
        Self {
            now_s: seconds(ack.now),
            acked: ack.acked,
            window_limited: ack.is_window_limited,
            delivery_rate,
            app_limited: ack.delivery.is_some_and(|delivery| delivery.is_app_limited),
        }
    }
}

#[derive(Debug)]
struct Control {
    instance: Instance,
    segment_bytes: u32,
    /// The instance's attributes as last synchronised.
    last: CongestionWindow,
    rate_based: bool,
    state: Option<&'static str>,
    starts: bool,
    samples: bool,
}

impl Control {
    fn new(class: &Class, setup: ControlSetup) -> PyResult<Self> {
        let ControlSetup { stream, segment_bytes, start } = setup;
        Python::attach(|py| {
            let facts = PyDict::new(py);
            facts.set_item("segment_bytes", segment_bytes)?;
            facts.set_item("window", start.window)?;
            facts.set_item("ssthresh", start.ssthresh)?;
            let instance = class.make(py, stream, facts)?;
            let rate_based = instance.object.getattr(py, "rate_based")?.extract(py)?;
            let (starts, samples) = (instance.does("on_start"), instance.does("on_rtt"));
            Ok(Self { instance, segment_bytes, last: start, rate_based, state: None, starts, samples })
        })
    }

    /// Calls a method with the window of the stack, and applies its decision.
    fn decide(
        &mut self,
        did: &str,
        own: &mut CongestionWindow,
        call: impl for<'p> FnOnce(&Bound<'p, PyAny>) -> PyResult<Bound<'p, PyAny>>,
    ) {
        let (last, state) = (&mut self.last, &mut self.state);
        let decided = self.instance.call(did, |object| {
            let py = object.py();
            // A value that Rust has not changed keeps its fraction from Python.
            if own.window != last.window {
                object.setattr(intern!(py, "window"), own.window)?;
            }
            if own.ssthresh != last.ssthresh {
                object.setattr(intern!(py, "ssthresh"), own.ssthresh)?;
            }
            call(object)?;
            *state = name(&object.getattr(intern!(py, "state"))?, *state)?;
            Ok(CongestionWindow {
                window: segments(&object.getattr(intern!(py, "window"))?, "window")?,
                ssthresh: segments(&object.getattr(intern!(py, "ssthresh"))?, "ssthresh")?,
                pacing_rate: rate(&object.getattr(intern!(py, "pacing_rate_Bps"))?)?,
            })
        });
        *last = decided;
        *own = decided;
    }
}

/// A whole number of segments; a float is truncated. A threshold may be infinite, a window may not.
fn segments(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u32> {
    if let Ok(whole) = value.extract::<u32>() {
        return Ok(whole);
    }
    let is_window = name == "window";
    match value.extract::<f64>() {
        Ok(number) if number >= 0.0 && (number.is_finite() || !is_window) => {
            Ok(number.min(f64::from(u32::MAX)) as u32)
        }
        _ => Err(PyTypeError::new_err(format!(
            "{name} = {value} is not a number of segments; set it to {} or more",
            u32::from(is_window)
        ))),
    }
}

/// A state's name, given the previous one. Each distinct name is leaked once.
fn name(value: &Bound<'_, PyAny>, before: Option<&'static str>) -> PyResult<Option<&'static str>> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if value.is_none() {
        return Ok(None);
    }
    let Ok(text) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("state = {value} is not a name; set a string or None")));
    };
    let text = text.to_str()?;
    if before == Some(text) {
        return Ok(before);
    }
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let existing = names.get(text).copied();
    Ok(Some(existing.unwrap_or_else(|| {
        let leaked: &'static str = Box::leak(text.to_owned().into_boxed_str());
        names.insert(leaked);
        leaked
    })))
}

fn rate(value: &Bound<'_, PyAny>) -> PyResult<Option<Rate>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.extract::<f64>() {
        Ok(number) if number * 8.0 >= 1.0 && number.is_finite() => {
            Ok(Some(Rate::from_bits_per_second((number * 8.0) as u64)))
        }
        _ => Err(PyTypeError::new_err(format!(
            "pacing_rate_Bps = {value} would stop the sender; set None, or bytes per second above 0"
        ))),
    }
}

impl CongestionAlgorithm for Control {
    fn on_start(&mut self, now: Instant, own: &mut CongestionWindow) {
        if self.starts {
            self.decide("on_start", own, |object| {
                object.call_method1(intern!(object.py(), "on_start"), (seconds(now),))
            });
        }
    }

    fn on_ack(&mut self, ack: &Ack, own: &mut CongestionWindow) {
        let ack = PyAck::of(ack, self.segment_bytes);
        self.decide("on_ack", own, |object| object.call_method1(intern!(object.py(), "on_ack"), (ack,)));
    }

    fn on_rtt(&mut self, now: Instant, rtt_us: u64, own: &mut CongestionWindow) {
        if self.samples {
            self.decide("on_rtt", own, |object| {
                object.call_method1(intern!(object.py(), "on_rtt"), (seconds(now), rtt_us as f64 / 1e6))
            });
        }
    }

    fn on_congestion(&mut self, sign: Sign, in_use: u32, own: &mut CongestionWindow) {
        self.decide("on_congestion", own, |object| {
            let py = object.py();
            let sign = match sign {
                Sign::Loss => intern!(py, "loss"),
                Sign::Ecn => intern!(py, "ecn"),
            };
            object.call_method1(intern!(py, "on_congestion"), (sign, in_use))
        });
    }

    fn on_timeout(&mut self, now: Instant, in_use: u32, own: &mut CongestionWindow) {
        self.decide("on_timeout", own, |object| {
            object.call_method1(intern!(object.py(), "on_timeout"), (seconds(now), in_use))
        });
    }

    fn on_repeated_timeout(&mut self, now: Instant, own: &mut CongestionWindow) {
        self.decide("on_repeated_timeout", own, |object| {
            object.call_method1(intern!(object.py(), "on_repeated_timeout"), (seconds(now),))
        });
    }

    fn on_spurious(&mut self, window: u32, ssthresh: u32, own: &mut CongestionWindow) {
        self.decide("on_spurious", own, |object| {
            object.call_method1(intern!(object.py(), "on_spurious"), (window, ssthresh))
        });
    }

    fn is_rate_based(&self) -> bool {
        self.rate_based
    }

    fn state(&self) -> Option<&'static str> {
        self.state
    }
}

/// The information about a packet for a queue discipline.
#[pyclass(frozen, get_all, name = "Packet", module = "lasthop")]
pub struct PyPacket {
    number: u64,
    flow: u32,
    direction: &'static str,
    bytes: u32,
    ecn: &'static str,
    dscp: u8,
    arrived_s: f64,
}

impl PyPacket {
    fn of(packet: &QueuedPacket, arrived: Instant) -> Self {
        let ecn = match packet.ecn {
            Ecn::NotEct => "not-ect",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        };
        Self {
            number: packet.number,
            flow: packet.flow.0,
            direction: packet.direction.name(),
            bytes: packet.ip_bytes,
            ecn,
            dscp: packet.dscp.get(),
            arrived_s: seconds(arrived),
        }
    }
}

#[pymethods]
impl PyPacket {
    fn __repr__(&self) -> String {
        format!("<Packet {}: {} bytes of flow {}>", self.number, self.bytes, self.flow)
    }
}

#[derive(Debug)]
struct Queue {
    instance: Instance,
    /// Packets that the discipline drops or marks, in a shared list: (action, packet).
    verdicts: Py<PyList>,
}

impl Queue {
    fn new(class: &Class, setup: QueueSetup) -> PyResult<Self> {
        let QueueSetup { stream, limit, rate, mtu } = setup;
        Python::attach(|py| {
            let facts = PyDict::new(py);
            let (packets, bytes) = match limit {
                QueueSize::Packets(packets) => (Some(packets), None),
                QueueSize::Bytes(bytes) => (None, Some(bytes)),
            };
            let verdicts = PyList::empty(py);
            facts.set_item("limit_packets", packets)?;
            facts.set_item("limit_bytes", bytes)?;
            facts.set_item("rate_Bps", rate.bits_per_second() as f64 / 8.0)?;
            facts.set_item("mtu_bytes", mtu.0)?;
            facts.set_item("_verdicts", &verdicts)?;
            Ok(Self { instance: class.make(py, stream, facts)?, verdicts: verdicts.unbind() })
        })
    }

    fn take_verdicts(&self, py: Python<'_>, verdicts: &mut Verdicts) -> PyResult<()> {
        let list = self.verdicts.bind(py);
        if list.is_empty() {
            return Ok(());
        }
        for verdict in list.iter() {
            let (what, packet): (Bound<'_, PyString>, Bound<'_, PyPacket>) = verdict.extract()?;
            let number = packet.get().number;
            if what == "drop" { verdicts.drop(number) } else { verdicts.mark(number) }
        }
        list.del_slice(0, list.len())
    }
}

/// The number of a packet that a method has returned.
fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() {
        return Ok(None);
    }
    let packet = value.cast::<PyPacket>().map_err(|_| {
        PyTypeError::new_err(format!(
            "it returned {value}, which is not a packet; return a packet in the queue, or None"
        ))
    })?;
    Ok(Some(packet.get().number))
}

impl QueueAlgorithm for Queue {
    fn enqueue(&mut self, now: Instant, packet: &QueuedPacket, verdicts: &mut Verdicts) -> bool {
        self.instance.call("enqueue", |object| {
            let py = object.py();
            let packet = PyPacket::of(packet, now);
            let answer = object.call_method1(intern!(py, "enqueue"), (seconds(now), packet))?;
            self.take_verdicts(py, verdicts)?;
            answer.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "it returned {answer}; return True if the packet is accepted, else False"
                ))
            })
        })
    }

    fn peek(&self) -> Option<u64> {
        self.instance.call("peek", |object| number(&object.call_method0(intern!(object.py(), "peek"))?))
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts) -> Option<u64> {
        self.instance.call("dequeue", |object| {
            let py = object.py();
            let value = object.call_method1(intern!(py, "dequeue"), (seconds(now),))?;
            self.take_verdicts(py, verdicts)?;
            number(&value)
        })
    }
}

#[derive(Debug)]
struct Errors(Instance);

impl Errors {
    fn new(class: &Class, ErrorSetup { stream }: ErrorSetup) -> PyResult<Self> {
        Python::attach(|py| Ok(Self(class.make(py, stream, PyDict::new(py))?)))
    }
}

impl ErrorAlgorithm for Errors {
    fn loses(&mut self, now: Instant, ip_bytes: u32) -> bool {
        self.0.call("loses", |object| {
            let lost = object.call_method1(intern!(object.py(), "loses"), (seconds(now), ip_bytes))?;
            lost.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "it returned {lost}; return True if the packet is lost, else False"
                ))
            })
        })
    }
}

#[derive(Debug)]
struct Sender {
    instance: Instance,
    /// The actions that the instance requests, in a shared list: (action, number).
    wanted: Py<PyList>,
    receives: bool,
}

impl Sender {
    fn new(class: &Class, setup: TrafficSetup) -> PyResult<Self> {
        let TrafficSetup { stream, flow, segment_bytes } = setup;
        Python::attach(|py| {
            let facts = PyDict::new(py);
            let wanted = PyList::empty(py);
            facts.set_item("flow", flow)?;
            facts.set_item("segment_bytes", segment_bytes)?;
            facts.set_item("_wanted", &wanted)?;
            let instance = class.make(py, stream, facts)?;
            let receives = instance.does("on_received");
            Ok(Self { instance, wanted: wanted.unbind(), receives })
        })
    }

    /// Calls a method, and performs the actions that it requests.
    fn run_hook(
        &self,
        did: &str,
        wanted: &mut Wanted,
        call: impl for<'p> FnOnce(&Bound<'p, PyAny>) -> PyResult<Bound<'p, PyAny>>,
    ) {
        let requests: Vec<(String, f64)> = self.instance.call(did, |object| {
            call(object)?;
            let list = self.wanted.bind(object.py());
            let requests = list.extract()?;
            list.del_slice(0, list.len())?;
            Ok(requests)
        });
        for (what, number) in requests {
            match what.as_str() {
                "send" => wanted.send(number as u64),
                "answer" => wanted.answer(number as u64),
                "request" => _ = wanted.request(),
                "complete" => wanted.complete(number as u64),
                "wake_at" => wanted.wake_at(Instant::from_nanos((number * 1e9).round() as u64)),
                _ => wanted.close(),
            }
        }
    }
}

impl TrafficAlgorithm for Sender {
    fn on_start(&mut self, now: Instant, wanted: &mut Wanted) {
        self.run_hook("on_start", wanted, |object| object.call_method1("on_start", (seconds(now),)));
    }

    fn on_wakeup(&mut self, now: Instant, wanted: &mut Wanted) {
        self.run_hook("on_wakeup", wanted, |object| object.call_method1("on_wakeup", (seconds(now),)));
    }

    fn on_received(&mut self, now: Instant, bytes: u64, is_answer: bool, wanted: &mut Wanted) {
        if self.receives {
            self.run_hook("on_received", wanted, |object| {
                object.call_method1("on_received", (seconds(now), bytes, is_answer))
            });
        }
    }
}
