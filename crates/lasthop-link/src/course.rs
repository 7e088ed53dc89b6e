//! Rate and delay of a link over time.

use lasthop_core::{Duration, Instant, Rate};

use crate::config::{LinkChange, LinkConfig};
use crate::opportunities::Opportunities;

/// What a link's rate and delay are, and will be. It is asked, never woken: a change takes no event.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    service: Service,
    delay: Duration,
    /// The shortest delay from now on.
    least_delay: Duration,
    /// Those to come, the next one last.
    changes: Vec<LinkChange>,
}

/// What takes packets along.
#[derive(Clone, Debug)]
enum Service {
    Rate(Rate),
    Trace(Opportunities),
}

impl Course {
    pub(crate) fn new(config: &LinkConfig) -> Self {
        let LinkConfig { rate, delay, ref trace, ref change, .. } = *config;
        let changes = change.iter().rev().cloned().collect();
        let service = match trace {
            None => Service::Rate(rate),
            Some(schedule) => Service::Trace(Opportunities::new(schedule.clone())),
        };
        let mut course = Self { service, delay, least_delay: delay, changes };
        course.look_ahead();
        course
    }

    /// When a packet is serialised whose transmission begins at `now`. What is left of it when the rate changes goes on
    /// at the new one.
    pub(crate) fn transmission_end(&mut self, now: Instant, ip_bytes: u32) -> Instant {
        self.advance(now);
        let mut rate = match &mut self.service {
            Service::Rate(rate) => *rate,
            Service::Trace(opportunities) => return opportunities.transmission_end(now, ip_bytes),
        };
        let mut since = now;
        let mut nanobits = u64::from(ip_bytes) * 8 * 1_000_000_000;
        for change in self.changes.iter().rev() {
            let at = Instant::ZERO + change.at;
            let sent = rate.bits_per_second().saturating_mul(at.saturating_since(since).as_nanos());
            if sent >= nanobits {
                break;
            }
            if let Some(next) = change.rate {
                nanobits -= sent;
                (rate, since) = (next, at);
            }
        }
        since + rate.time_of_nanobits(nanobits)
    }

    /// The link has had nothing to send until now.
    pub(crate) fn rest(&mut self) {
        if let Service::Trace(opportunities) = &mut self.service {
            opportunities.rest();
        }
    }

    /// The delay of what leaves the sending side at `now`.
    pub(crate) fn delay(&mut self, now: Instant) -> Duration {
        self.advance(now);
        self.delay
    }

    /// No packet that has not left the sending side yet has a shorter delay than this.
    pub(crate) fn least_delay(&self) -> Duration {
        self.least_delay
    }

    /// Time never runs backwards from call to call.
    fn advance(&mut self, now: Instant) {
        while let Some(change) = self.changes.pop_if(|change| Instant::ZERO + change.at <= now) {
            if let (Service::Rate(rate), Some(changed)) = (&mut self.service, change.rate) {
                *rate = changed;
            }
            self.delay = change.delay.unwrap_or(self.delay);
            self.look_ahead();
        }
    }

    fn look_ahead(&mut self) {
        let to_come = self.changes.iter().filter_map(|change| change.delay);
        self.least_delay = to_come.fold(self.delay, Duration::min);
    }
}
