//! Rates, sizes and probabilities as newtypes.

use crate::Duration;

/// A bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// `bits` bits per second; must not be zero.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        assert!(bits > 0);
        Self(bits)
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Time to transmit `bytes` bytes, to the nearest nanosecond.
    pub fn transmission_time(self, bytes: u32) -> Duration {
        let bits_nanos = u64::from(bytes) * 8 * 1_000_000_000;
        Duration::from_nanos((bits_nanos + self.0 / 2) / self.0)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A probability, `0.0..=1.0`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// The value, `0.0..=1.0`.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// A queue size or threshold, in packets or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSize {
    /// That many packets, whatever their length.
    Packets(u32),
    /// That many bytes of IP length.
    Bytes(u32),
}
