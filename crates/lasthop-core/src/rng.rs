//! Named random streams: each component draws from its own stream, so that adding a component, a thread or a
//! variant changes nothing elsewhere.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The seed of all streams of one replication: the study's seed and the replication's number, recorded
/// separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Seed of the study.
    pub study: u64,
    /// Number of the replication, from 1.
    pub replication: u64,
}

impl Seed {
    /// The seed for one of several equal parts, whose streams have the same names.
    #[must_use]
    pub fn of_part(self, name: &str) -> Self {
        Self { study: self.study ^ fnv1a(name), ..self }
    }

    /// The stream named `name`. The same name always yields the same numbers, regardless of other components.
    pub fn stream(self, name: &str) -> RandomStream {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.study.to_le_bytes());
        key[8..16].copy_from_slice(&self.replication.to_le_bytes());
        key[16..24].copy_from_slice(&fnv1a(name).to_le_bytes());
        RandomStream(ChaCha8Rng::from_seed(key))
    }
}

/// FNV-1a, 64 bits: stable across platforms and versions, which std's hashers do not promise.
fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A reproducible stream of random numbers (ChaCha8).
#[derive(Clone, Debug)]
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// Uniform in `0.0..1.0`, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// 64 uniform bits, to seed a generator elsewhere.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}
