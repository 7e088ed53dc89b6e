//! Rates without buckets: the time at which the next packet may leave ("Piece of CAKE", section III-A).

use lasthop_core::Duration;

/// The least rate, in bytes per second, so that a shaper always goes on.
const LEAST: u64 = 64;
/// Bits of the time of a byte, as many as leave room for the length of a packet.
const BITS: u32 = 34;

/// The time of a byte, as a fraction of integers (`cake_set_rate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    nanos: u64,
    shift: u32,
}

impl Pace {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        let (mut nanos, mut shift) = ((1_000_000_000 << BITS) / bytes_per_second.max(LEAST), BITS);
        while nanos >> BITS != 0 {
            nanos >>= 1;
            shift -= 1;
        }
        Self { nanos, shift }
    }

    /// The time of this number of bytes.
    pub(super) fn time(self, bytes: u32) -> Duration {
        Duration::from_nanos((u64::from(bytes) * self.nanos) >> self.shift)
    }
}
