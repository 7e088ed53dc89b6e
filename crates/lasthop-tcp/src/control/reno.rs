//! Reno (RFC 5681), in the unit of any stack.

use super::{Controller, Segments, Setup, Window};

/// The window is the only state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reno<W>(pub W);

impl Reno<Segments> {
    pub fn new(setup: Setup) -> Self {
        Self(setup.window)
    }
}

impl<W: Window> Controller for Reno<W> {
    type Window = W;

    fn state(&self) -> &W {
        &self.0
    }

    fn state_mut(&mut self) -> &mut W {
        &mut self.0
    }
}
