//! Rate and delay of a link over time.

use lasthop_core::{Duration, Instant, Rate, Transmission};

use crate::config::{CourseConfig, Framing, LinkChange, LinkConfig};
use crate::opportunities::Opportunities;
use crate::timetable::{Row, Timetable};

/// The current and future rate and delay of a link. It is queried, never woken: a change needs no event.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    service: Service,
    framing: Option<Framing>,
    delay: Duration,
    /// The shortest delay from now on.
    least_delay: Duration,
    /// The changes to come, the next one last.
    steps: Vec<Step>,
}

/// The rate at which packets are sent.
#[derive(Clone, Debug)]
enum Service {
    /// The rate is constant.
    Steady(Transmission),
    /// Bits per second; 0 during an outage, which another rate ends.
    Rate(u64),
    Trace(Opportunities),
}

/// A change; absent values stay the same.
#[derive(Clone, Debug)]
struct Step {
    at: Instant,
    bits_per_second: Option<u64>,
    delay: Option<Duration>,
    /// The shortest delay from then on, if one is stated then or later.
    least_delay: Option<Duration>,
}

impl From<&LinkChange> for Step {
    fn from(change: &LinkChange) -> Self {
        let bits_per_second = change.rate.map(Rate::bits_per_second);
        Self { at: Instant::ZERO + change.at, bits_per_second, delay: change.delay, least_delay: None }
    }
}

impl From<&Row> for Step {
    fn from(row: &Row) -> Self {
        let bits_per_second = Some(row.rate.map_or(0, Rate::bits_per_second));
        Self { at: Instant::ZERO + row.at, bits_per_second, delay: row.delay, least_delay: None }
    }
}

impl Course {
    pub(crate) fn new(config: &LinkConfig) -> Self {
        let LinkConfig { rate, delay, framing, ref trace, ref course, ref change, .. } = *config;
        let table = course.as_ref().and_then(CourseConfig::table);
        let rows = table.into_iter().flat_map(Timetable::rows);
        let mut steps: Vec<Step> = rows.map(Step::from).chain(change.iter().map(Step::from)).collect();
        steps.reverse();
        let mut least_delay: Option<Duration> = None;
        for step in &mut steps {
            least_delay = least_delay.into_iter().chain(step.delay).min();
            step.least_delay = least_delay;
        }
        let service = match trace {
            None if steps.is_empty() => Service::Steady(Transmission::at(rate)),
            None => Service::Rate(rate.bits_per_second()),
            Some(schedule) => Service::Trace(Opportunities::new(schedule.clone())),
        };
        let mut course = Self { service, framing, delay, least_delay: delay, steps };
        course.advance(Instant::ZERO);
        course.look_ahead();
        course
    }

    /// The end of serialisation of a packet whose transmission begins at `now`. If the rate changes, the rest
    /// of the packet continues at the new rate.
    pub(crate) fn transmission_end(&mut self, now: Instant, ip_bytes: u32) -> Instant {
        self.advance(now);
        let bytes = self.framing.map_or(ip_bytes, |framing| framing.bytes(ip_bytes));
        let mut rate = match &mut self.service {
            Service::Steady(transmission) => return now + transmission.time(bytes),
            Service::Rate(rate) => *rate,
            Service::Trace(opportunities) => return opportunities.transmission_end(now, bytes),
        };
        let mut since = now;
        let mut nanobits = u64::from(bytes) * 8 * 1_000_000_000;
        for step in self.steps.iter().rev() {
            let sent = rate.saturating_mul(step.at.saturating_since(since).as_nanos());
            if sent >= nanobits {
                break;
            }
            if let Some(next) = step.bits_per_second {
                nanobits -= sent;
                (rate, since) = (next, step.at);
            }
        }
        since + Rate::from_bits_per_second(rate).time_of_nanobits(nanobits)
    }

    /// The link has had nothing to send until now.
    pub(crate) fn rest(&mut self) {
        if let Service::Trace(opportunities) = &mut self.service {
            opportunities.rest();
        }
    }

    /// The delay of packets that leave the sending side at `now`.
    pub(crate) fn delay(&mut self, now: Instant) -> Duration {
        self.advance(now);
        self.delay
    }

    /// Minimum delay of packets that have not left the sending side yet.
    pub(crate) fn least_delay(&self) -> Duration {
        self.least_delay
    }

    /// Time never runs backwards from call to call.
    fn advance(&mut self, now: Instant) {
        while let Some(step) = self.steps.pop_if(|step| step.at <= now) {
            if let (Service::Rate(rate), Some(changed)) = (&mut self.service, step.bits_per_second) {
                *rate = changed;
            }
            self.delay = step.delay.unwrap_or(self.delay);
            self.look_ahead();
        }
    }

    fn look_ahead(&mut self) {
        let later = self.steps.last().and_then(|next| next.least_delay);
        self.least_delay = later.map_or(self.delay, |later| later.min(self.delay));
    }
}
