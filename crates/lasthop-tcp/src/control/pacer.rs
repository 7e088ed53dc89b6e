//! Pacing: segments leave at a rate, not in bursts. The wakeup is an instant, not a tick (Linux: a timer of high
//! resolution).

use lasthop_core::{Instant, Rate};

/// When the next segment may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// The segments before it are through at the pacing rate.
    release: Instant,
    /// Something waits for that.
    waits: bool,
}

impl Pacer {
    /// True if a segment may leave now; if not, a wakeup is set.
    pub fn may_send(&mut self, now: Instant) -> bool {
        self.waits = self.release > now;
        !self.waits
    }

    /// Data leaves; without a rate the next may follow at once.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, rate: Option<Rate>) {
        if let Some(rate) = rate {
            self.release = self.release.max(now) + rate.transmission_time(bytes);
        }
    }

    /// When what waits may leave.
    pub fn wakeup(&self) -> Option<Instant> {
        self.waits.then_some(self.release)
    }

    /// True if the wakeup is due; it is over then.
    pub fn take_wakeup(&mut self, now: Instant) -> bool {
        let due = self.waits && self.release <= now;
        self.waits &= !due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::Duration;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn segments_leave_as_far_apart_as_the_rate_takes_them() {
        let rate = Some(Rate::from_bits_per_second(1_000_000));
        let mut pacer = Pacer::default();
        assert!(pacer.may_send(at(300)));
        pacer.on_sent(at(300), 1_000, rate);
        assert!(!pacer.may_send(at(8_299)));
        assert_eq!(pacer.wakeup(), Some(at(8_300)));
        assert!(!pacer.take_wakeup(at(8_299)) && pacer.take_wakeup(at(8_300)));
        assert!(pacer.wakeup().is_none() && pacer.may_send(at(8_300)));
        pacer.on_sent(at(50_000), 1_000, rate);
        assert!(!pacer.may_send(at(57_999)), "a pause is no credit");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = Pacer::default();
        pacer.on_sent(at(0), 1_000, None);
        assert!(pacer.may_send(at(0)) && pacer.wakeup().is_none());
    }
}
