//! Runs a script in virtual time.

use lasthop_core::{Ecn, Instant};

use crate::host::{Host, Return};
use crate::script::{Action, Call, Event, PacketSpec, Script, Time, Value};
use crate::settings::Settings;
use crate::wire::{Sent, Wire, continues};

/// How long to wait for an expected packet after its time, to report a late one.
const PATIENCE_US: i64 = 2_000_000;
/// The same if any time is allowed.
const HORIZON_US: i64 = 180_000_000;

/// Python code of a script, and the values that it may use at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// Line of the file, from 1.
    pub line: u32,
    pub text: String,
    /// The fields of `tcp_info`, by name.
    pub info: Vec<(&'static str, u64)>,
}

/// A difference from the script, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Line of the file, from 1.
    pub line: u32,
    /// The expected and the actual behaviour.
    pub message: String,
}

/// A call that waits.
struct Waiting {
    line: u32,
    call: Call,
    /// When it must return, and the tolerance.
    end: i64,
    tolerance: i64,
}

pub(crate) struct Run<'a> {
    settings: &'a Settings,
    host: Host,
    wire: Wire,
    /// The time to which the next event is relative, in microseconds.
    now: i64,
    /// Time of the previous event according to the script.
    before: Option<i64>,
    was_inbound: bool,
    waiting: Option<Waiting>,
    pub codes: Vec<Code>,
}

impl<'a> Run<'a> {
    pub fn new(settings: &'a Settings) -> Self {
        let host = Host::new(settings.tcp.clone(), settings.mtu);
        let (wire, codes) = (Wire::default(), Vec::new());
        Self { settings, host, wire, now: 0, before: None, was_inbound: false, waiting: None, codes }
    }

    /// The time that has passed, in microseconds.
    pub fn elapsed_us(&self) -> u64 {
        self.host.now.as_nanos() / 1000
    }

    /// Runs all events, up to the first difference.
    pub fn events(&mut self, script: &Script) -> Result<(), Difference> {
        for event in &script.events {
            self.event(event)?;
        }
        self.finish_call()
    }

    fn event(&mut self, event: &Event) -> Result<(), Difference> {
        let is_inbound = matches!(event.action, Action::Inject(_));
        // Times between arriving packets are exact; others are relative to the actual previous event.
        let base = if is_inbound && self.was_inbound { self.before.unwrap_or(0) } else { self.now };
        let (from, to) = match event.time {
            Time::Any => (base, base + HORIZON_US),
            Time::Absolute(at) => (at, at),
            Time::Relative(after) => (base + after, base + after),
            Time::AbsoluteRange(from, to) => (from, to),
            Time::RelativeRange(from, to) => (base + from, base + to),
        };
        match &event.action {
            Action::Expect(packet) => self.expect(event, packet, (from, to))?,
            action => {
                let at = if event.time == Time::Any { self.now } else { from };
                self.advance(at)?;
                self.act(event, action, base)?;
            }
        }
        self.before = Some(if event.time == Time::Any { self.now } else { from });
        self.was_inbound = is_inbound;
        Ok(())
    }

    fn act(&mut self, event: &Event, action: &Action, base: i64) -> Result<(), Difference> {
        match action {
            Action::Inject(packet) => {
                let scaling = self.host.scales_windows();
                let segment = self
                    .wire
                    .inject(packet, scaling, self.settings.scales_echo)
                    .map_err(|message| Difference { line: event.line, message })?;
                let ecn = packet.ecn.as_ref().and_then(|ecn| ecn.first()).copied().unwrap_or(Ecn::NotEct);
                self.host.receive(&segment, ecn);
                self.poll_waiting()
            }
            Action::Call(call) => self.call(event, call, base),
            Action::Code(text) => {
                let info = self.host.info();
                self.codes.push(Code { line: event.line, text: text.clone(), info });
                Ok(())
            }
            Action::Expect(_) | Action::Command(_) | Action::Foreign(_) => Ok(()),
        }
    }

    fn advance(&mut self, to: i64) -> Result<(), Difference> {
        while let Some(due) = self.host.next_wakeup().filter(|&due| due <= instant(to)) {
            self.host.wake(due);
            self.poll_waiting()?;
        }
        self.host.now = self.host.now.max(instant(to));
        self.now = self.now.max(to);
        Ok(())
    }

    fn call(&mut self, event: &Event, call: &Call, base: i64) -> Result<(), Difference> {
        self.finish_call()?;
        let outcome = self.host.call(call, call.result.int());
        let Some(end) = call.end else { return check_result(event.line, call, outcome) };
        let end = if matches!(event.time, Time::Relative(_)) { base + end } else { end };
        let tolerance = self.tolerance(end - self.now);
        self.waiting = Some(Waiting { line: event.line, call: call.clone(), end, tolerance });
        match outcome {
            Return::Blocks => Ok(()),
            _ => self.returned(outcome),
        }
    }

    /// Tries a call that waits again.
    fn poll_waiting(&mut self) -> Result<(), Difference> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        match self.host.call(&waiting.call, waiting.call.result.int()) {
            Return::Blocks => Ok(()),
            outcome => self.returned(outcome),
        }
    }

    fn returned(&mut self, outcome: Return) -> Result<(), Difference> {
        let Some(Waiting { line, call, end, tolerance }) = self.waiting.take() else { return Ok(()) };
        check_result(line, &call, outcome)?;
        let at = self.elapsed_us().cast_signed();
        if (at - end).abs() > tolerance {
            let message =
                format!("{} should return at {}, but returned at {}", call.name, seconds(end), seconds(at));
            return Err(Difference { line, message });
        }
        Ok(())
    }

    /// Waits for a call that still waits.
    fn finish_call(&mut self) -> Result<(), Difference> {
        let Some(last) = self.waiting.as_ref().map(|waiting| waiting.end + waiting.tolerance) else {
            return Ok(());
        };
        self.advance(last)?;
        match self.waiting.take() {
            None => Ok(()),
            Some(Waiting { line, call, end, .. }) => {
                let message = format!("{} should return at {}, but still waits", call.name, seconds(end));
                Err(Difference { line, message })
            }
        }
    }

    fn tolerance(&self, since_before: i64) -> i64 {
        let granted = &self.settings.tolerance;
        granted.micros.max((granted.percent / 100.0 * since_before as f64) as i64)
    }

    fn expect(
        &mut self,
        event: &Event,
        packet: &PacketSpec,
        (from, to): (i64, i64),
    ) -> Result<(), Difference> {
        let patience = if event.time == Time::Any { to } else { to + PATIENCE_US };
        let mut parts = vec![self.next_sent(event, patience)?];
        let mut bytes = parts[0].segment.payload_bytes;
        while bytes < packet.payload {
            let next = self.next_sent(event, patience)?;
            if !continues(&parts[parts.len() - 1], &next) {
                let message = format!(
                    "expected {} bytes; got {bytes}, then {}",
                    packet.payload,
                    self.wire.describe(&next)
                );
                return Err(Difference { line: event.line, message });
            }
            bytes += next.segment.payload_bytes;
            parts.push(next);
        }
        let last = parts[parts.len() - 1];
        let at = micros(last.at);
        self.wire.compare(packet, &parts).map_err(|came| {
            let message = format!("expected another packet; got at {}: {came}", seconds(at));
            Difference { line: event.line, message }
        })?;
        self.now = self.now.max(at);
        self.check_stamp(event.line, packet, &last, from)?;
        let tolerance = self.tolerance(from - self.before.unwrap_or(from));
        if event.time == Time::Any || (from - tolerance..=to + tolerance).contains(&at) {
            return Ok(());
        }
        let wanted = if from == to { seconds(from) } else { format!("{} to {}", seconds(from), seconds(to)) };
        let message = format!("expected the packet at {wanted}; got it at {}", seconds(at));
        Err(Difference { line: event.line, message })
    }

    fn check_stamp(&self, line: u32, packet: &PacketSpec, sent: &Sent, at: i64) -> Result<(), Difference> {
        let (Some(tick), Some(off)) = (self.settings.stamp_tick, self.wire.stamp_error(packet, sent)) else {
            return Ok(());
        };
        if i64::from(off) * tick <= self.tolerance(at) {
            return Ok(());
        }
        let message = format!("the timestamp is off by {off} ticks; got: {}", self.wire.describe(sent));
        Err(Difference { line, message })
    }

    /// The next segment that the host has sent or sends up to this time.
    fn next_sent(&mut self, event: &Event, last: i64) -> Result<Sent, Difference> {
        loop {
            if let Some(sent) = self.host.sent.pop_front() {
                return Ok(sent);
            }
            let Some(due) = self.host.next_wakeup().filter(|&due| due <= instant(last)) else {
                let message = format!("expected a packet; got none up to {}", seconds(last));
                return Err(Difference { line: event.line, message });
            };
            self.host.wake(due);
            self.poll_waiting()?;
        }
    }
}

fn check_result(line: u32, call: &Call, outcome: Return) -> Result<(), Difference> {
    let expected = call.result.int();
    let matches = match outcome {
        Return::Value(value) => call.result == Value::Any || expected == Some(value),
        Return::Error(error) => {
            expected == Some(-1) && call.error.as_deref().is_none_or(|name| name == error)
        }
        Return::Blocks => false,
    };
    if matches {
        return Ok(());
    }
    let came = match outcome {
        Return::Value(value) => format!("it returned {value}"),
        Return::Error(error) => format!("it failed with {error}"),
        Return::Blocks => "it would wait".to_owned(),
    };
    let wanted = match (expected, &call.error) {
        (Some(value), Some(error)) => format!("{value} {error}"),
        (Some(value), None) => value.to_string(),
        (None, _) => "something else".to_owned(),
    };
    Err(Difference { line, message: format!("{} should return {wanted}; {came}", call.name) })
}

fn instant(micros: i64) -> Instant {
    Instant::from_nanos(micros.max(0).cast_unsigned() * 1000)
}

fn micros(at: Instant) -> i64 {
    (at.as_nanos() / 1000).cast_signed()
}

fn seconds(micros: i64) -> String {
    format!("{:.6} s", micros as f64 / 1e6)
}
