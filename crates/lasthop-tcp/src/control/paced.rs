//! A constant window and a rate, for tests of pacing and of rate samples.

use lasthop_core::Rate;

use super::{Controller, RateSample, Segments, Setup};

#[derive(Clone, Debug)]
pub(crate) struct Paced {
    window: Segments,
    pub samples: Vec<RateSample>,
}

impl Paced {
    pub fn new(setup: Setup) -> Self {
        Self { window: setup.window, samples: Vec::new() }
    }
}

impl Controller for Paced {
    in_segments!(window);

    fn on_ack(&mut self, sample: &RateSample) {
        self.samples.push(*sample);
    }

    fn is_rate_based(&self) -> bool {
        true
    }

    /// A segment of 1000 bytes every 8 ms.
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::from_bits_per_second(1_000_000))
    }
}
