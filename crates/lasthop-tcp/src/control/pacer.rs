//! Pacing within TCP, as in Linux (`tcp_update_skb_after_send`): segments leave at a rate, not in bursts. The
//! wakeup is an instant, not a tick (in Linux, a high-resolution timer).

use lasthop_core::{Duration, Instant, Rate};

/// Number of segments that leave unpaced at the beginning of a connection.
const UNPACED: u32 = 10;
/// A burst corresponds to about a millisecond at the pacing rate: the rate in bytes per second is divided by
/// two to this power (`sk_pacing_shift`).
pub(super) const BURST_SHIFT: u32 = 10;
/// Maximum bytes of a burst.
const BURST_BYTES_MAX: u64 = 1 << 16;
/// A shorter path allows a larger burst: the additional bytes are halved for every 512 us
/// (`tcp_tso_rtt_log`).
const NEAR_LOG: u32 = 9;

/// When the next segment may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// The earlier segments have left, and their time at the pacing rate has passed.
    release: Instant,
    /// True if a segment waits for that.
    waits: bool,
    /// Segments that have left, counted up to [`UNPACED`].
    left: u32,
}

impl Pacer {
    /// True if a segment may leave now; if not, a wakeup is set.
    pub fn may_send(&mut self, now: Instant) -> bool {
        self.waits = self.release > now;
        !self.waits
    }

    /// A burst of `segments` leaves; without a rate the next may follow at once.
    pub fn on_sent(&mut self, now: Instant, segments: u32, bytes: u32, rate: Option<Rate>) {
        let due = self.release;
        self.release = due.max(now);
        let Some(rate) = rate else { return };
        self.left = (self.left + segments).min(UNPACED);
        if self.left == UNPACED {
            let length = u64::from(bytes) * 8 * 1_000_000_000 / rate.bits_per_second();
            // A late segment gets a credit of up to half of its time.
            let late = (self.release - due).as_nanos();
            self.release += Duration::from_nanos(length - late.min(length / 2));
        }
    }

    /// When the last segment left, or when its time at the pacing rate ends.
    pub fn release(&self) -> Instant {
        self.release
    }

    /// When the next segment may leave.
    pub fn next(&self, now: Instant) -> Instant {
        self.release.max(now)
    }

    /// How long the next segment would have to wait.
    pub fn wait(&self, now: Instant) -> Duration {
        self.next(now) - now
    }

    /// When the waiting segment may leave.
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

/// Number of segments that leave together at a pacing rate, at least `least` (`tcp_tso_autosize`).
pub(crate) fn burst(rate: Rate, least_rtt_us: u64, mss: u32, least: u32) -> u32 {
    let bytes = (rate.bits_per_second() / 8) >> BURST_SHIFT;
    let near = BURST_BYTES_MAX.checked_shr((least_rtt_us >> NEAR_LOG).min(64) as u32).unwrap_or(0);
    let bytes = (bytes + near).min(BURST_BYTES_MAX);
    ((bytes / u64::from(mss)) as u32).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// A segment of 1000 bytes takes 8 ms.
    const RATE: Option<Rate> = Some(Rate::from_bits_per_second(1_000_000));

    /// Nine have left, at once.
    fn begun() -> Pacer {
        let mut pacer = Pacer::default();
        for _ in 0..9 {
            assert!(pacer.may_send(at(300)));
            pacer.on_sent(at(300), 1, 1_000, RATE);
        }
        pacer
    }

    #[test]
    fn after_the_first_ten_segments_leave_as_far_apart_as_the_rate_takes_them() {
        let mut pacer = begun();
        assert!(pacer.may_send(at(300)));
        pacer.on_sent(at(300), 1, 1_000, RATE);
        assert!(!pacer.may_send(at(8_299)));
        assert_eq!((pacer.wakeup(), pacer.wait(at(300))), (Some(at(8_300)), Duration::from_millis(8)));
        assert!(!pacer.take_wakeup(at(8_299)) && pacer.take_wakeup(at(8_300)));
        assert!(pacer.wakeup().is_none() && pacer.may_send(at(8_300)));
    }

    #[test]
    fn lateness_is_credited_up_to_half_of_a_segments_time() {
        let mut pacer = begun();
        pacer.on_sent(at(300), 1, 1_000, RATE);
        // 1 ms late: 7 ms to the next.
        pacer.on_sent(at(9_300), 1, 1_000, RATE);
        assert_eq!(pacer.wait(at(9_300)), Duration::from_millis(7));
        // A pause gives credit for at most half of a segment.
        pacer.on_sent(at(50_000), 1, 1_000, RATE);
        assert_eq!(pacer.wait(at(50_000)), Duration::from_millis(4));
        assert_eq!(pacer.wait(at(60_000)), Duration::ZERO);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = begun();
        (0..20).for_each(|_| pacer.on_sent(at(0), 1, 1_000, None));
        assert!(pacer.may_send(at(300)) && pacer.wakeup().is_none());
    }

    #[test]
    fn a_burst_lasts_for_a_millisecond_and_for_more_on_a_short_path() {
        let mbit = |number: u64| Rate::from_bits_per_second(number * 1_000_000);
        assert_eq!(burst(mbit(1), 50_000, 1_448, 2), 2);
        // 12.5 MB/s / 1024 = 12 207 bytes.
        assert_eq!(burst(mbit(100), 50_000, 1_448, 2), 8);
        // A path of 2.6 ms adds 65 536 / 2^5 bytes.
        assert_eq!(burst(mbit(100), 2_600, 1_448, 2), 9);
        assert_eq!(burst(mbit(10_000), 100, 1_448, 2), 45, "64 KiB are the most");
    }
}
