//! Other networks on the same channel, which use a share of airtime.

use lasthop_core::{Duration, Instant, RandomStream};

/// Duration of a transmission of another network: a frame with several packets.
const FRAME: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Others {
    /// When the next frame is due.
    next: Instant,
    /// Mean time from the end of a frame to the next one, in nanoseconds.
    mean_gap: f64,
    stream: RandomStream,
}

impl Others {
    /// `None` if their share is 0.
    pub(super) fn new(share: f64, mut stream: RandomStream) -> Option<Self> {
        if share == 0.0 {
            return None;
        }
        let mean_gap = FRAME.as_nanos() as f64 * (1.0 - share) / share;
        let next = Instant::ZERO + gap(mean_gap, &mut stream);
        Some(Self { next, mean_gap, stream })
    }

    /// The start of their next transmission if the channel is idle since `free`. They wait for the end of the current
    /// transmission, and then go first.
    pub(super) fn start(&self, free: Instant) -> Instant {
        self.next.max(free)
    }

    /// They transmit from `now`; returns the end. A delayed frame does not delay the next one, so that their share
    /// is exact.
    pub(super) fn take(&mut self, now: Instant) -> Instant {
        self.next = self.next + FRAME + gap(self.mean_gap, &mut self.stream);
        now + FRAME
    }
}

fn gap(mean: f64, stream: &mut RandomStream) -> Duration {
    Duration::from_nanos((-mean * libm::log(1.0 - stream.unit())) as u64)
}
