//! The random numbers of an algorithm.

use lasthop_core::RandomStream;

/// The random stream of an algorithm, once an engine has set it. It is not part of the configuration, so all
/// values compare as equal.
#[derive(Clone, Debug, Default)]
pub struct Draws(Option<RandomStream>);

impl Draws {
    /// The stream.
    ///
    /// # Panics
    ///
    /// If no engine has set it.
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
