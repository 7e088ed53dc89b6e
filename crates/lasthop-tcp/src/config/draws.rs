//! What an algorithm draws its numbers from.

use lasthop_core::RandomStream;

/// A stream of random numbers, or none before an engine gives one. It is no part of what is configured: all are equal.
#[derive(Clone, Debug, Default)]
pub struct Draws(Option<RandomStream>);

impl Draws {
    /// The stream.
    ///
    /// # Panics
    ///
    /// If no engine has given one.
    pub(crate) fn stream(&self) -> RandomStream {
        self.0.clone().expect("an engine gives every end a stream")
    }
}

impl From<RandomStream> for Draws {
    fn from(stream: RandomStream) -> Self {
        Self(Some(stream))
    }
}

impl PartialEq for Draws {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
