//! A link that follows a recorded schedule of delivery opportunities, like Mahimahi's `mm-link` (Netravali et
//! al., USENIX ATC 2015).

use std::fmt;
use std::sync::Arc;

use lasthop_core::{Duration, Instant, Rate};

#[cfg(test)]
mod tests;

/// IP bytes that one opportunity delivers.
const OPPORTUNITY_BYTES: u32 = 1500;

/// The delivery opportunities of a link: times since the start, in order, repeated with the last one as the
/// period. A complete scenario contains the text of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    opportunities: Arc<[Duration]>,
    period: Duration,
}

/// Why a text is not a valid schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// Line of the text, from 1.
    pub line: usize,
    /// The fault and a remedy.
    pub message: String,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Schedule {
    /// Reads a Mahimahi trace: a line for each opportunity, its time in milliseconds after the start, never
    /// decreasing. A millisecond with several opportunities has several lines.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut opportunities = Vec::new();
        let mut latest = 0;
        for (line, word) in (1..).zip(text.lines().map(str::trim)) {
            let error = |message: String| ScheduleError { line, message };
            let millis = word.parse::<u32>().map_err(|_| {
                error(format!("{word:?} is not a time; write a whole number of milliseconds, such as 20"))
            })?;
            if millis < latest {
                return Err(error(format!(
                    "{millis} comes after {latest}; sort the lines, as times must not decrease"
                )));
            }
            latest = millis;
            opportunities.push(Duration::from_millis(u64::from(millis)));
        }
        if latest == 0 {
            let message = "the last time is the length of the trace and must be above 0".into();
            return Err(ScheduleError { line: opportunities.len().max(1), message });
        }
        let opportunities = opportunities.into();
        Ok(Self { opportunities, period: Duration::from_millis(u64::from(latest)) })
    }

    /// The mean rate of the opportunities, if each is used completely.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.opportunities.len() as u64 * u64::from(OPPORTUNITY_BYTES) * 8;
        Rate::from_bits_per_second(((bits as f64 / self.period.as_secs_f64()).round() as u64).max(1))
    }
}

impl Schedule {
    /// The bytes of the opportunities before `end`, if each is used completely.
    pub(crate) fn bytes_until(&self, end: Instant) -> u64 {
        let Some(latest) = end.as_nanos().checked_sub(1) else { return 0 };
        let (rounds, rest) = (latest / self.period.as_nanos(), latest % self.period.as_nanos());
        let in_part = self.opportunities.partition_point(|at| at.as_nanos() <= rest) as u64;
        u64::from(OPPORTUNITY_BYTES) * (rounds * self.opportunities.len() as u64 + in_part)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opportunities.iter().try_for_each(|at| writeln!(f, "{}", at.as_nanos() / 1_000_000))
    }
}

lasthop_core::file_serde!(Schedule, "Trace", "A Mahimahi trace, as a file in the scenario's folder.");

/// The use of opportunities. The link queries them; they never wake it.
///
/// An opportunity carries 1500 bytes: a packet, several small packets, or parts of packets. The rest of a
/// packet waits for the next opportunity, and the packet leaves with its last byte. An opportunity with
/// nothing to send is lost, and so is the rest of an opportunity after the last byte to send. A packet that
/// arrives at the time of an opportunity is too late for it.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    schedule: Schedule,
    /// The next opportunity: its index, and the start of its round.
    next: usize,
    round: Instant,
    /// The opportunity in use, and the bytes that it can still carry.
    current: Instant,
    left: u32,
    /// True if nothing was sent since it.
    idle: bool,
}

impl Opportunities {
    /// The schedule starts at the start of the run.
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self { schedule, next: 0, round: Instant::ZERO, current: Instant::ZERO, left: 0, idle: true }
    }

    /// Notes that the link had nothing to send until now.
    pub(crate) fn rest(&mut self) {
        self.idle = true;
    }

    /// When the last byte leaves of a packet that the link has at `now`.
    pub(crate) fn transmission_end(&mut self, now: Instant, ip_bytes: u32) -> Instant {
        if self.idle || self.current < now {
            self.lose_unused(now);
        }
        self.idle = false;
        let mut bytes = ip_bytes;
        loop {
            if self.left == 0 {
                self.current = self.opportunity();
                self.left = OPPORTUNITY_BYTES;
                self.turn_to_next();
            }
            let carried = bytes.min(self.left);
            self.left -= carried;
            bytes -= carried;
            if bytes == 0 {
                return self.current;
            }
        }
    }

    fn opportunity(&self) -> Instant {
        self.round + self.schedule.opportunities[self.next]
    }

    fn turn_to_next(&mut self) {
        self.next += 1;
        if self.next == self.schedule.opportunities.len() {
            self.next = 0;
            self.round += self.schedule.period;
        }
    }

    /// Discards the opportunities up to `now`, and the rest of the last one.
    fn lose_unused(&mut self, now: Instant) {
        self.left = 0;
        let period = self.schedule.period.as_nanos();
        let whole_rounds = (now.saturating_since(self.round).as_nanos() / period).saturating_sub(1);
        if whole_rounds > 0 {
            self.round += Duration::from_nanos(whole_rounds * period);
            self.next = 0;
        }
        while self.opportunity() <= now {
            self.turn_to_next();
        }
    }
}
