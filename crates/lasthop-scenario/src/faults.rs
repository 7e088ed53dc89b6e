//! What checks of values find, and limits that several of them share.

use lasthop_link::ConfigError;

/// Path of a value in the scenario, and what is wrong with it; what to do instead after a semicolon.
pub type Invalid = (String, String);

/// Largest window in segments: more than any real path holds, and far from overflow.
pub const SEGMENTS_MAX: u32 = 1_000_000;

/// Most retransmissions of a segment, or of a packet by the link.
pub const RETRIES_MAX: u32 = 255;

/// What is wrong with a scenario, as far as it has been checked.
#[derive(Default)]
pub struct Faults(Vec<Invalid>);

impl Faults {
    pub fn require(&mut self, holds: bool, path: &str, reason: impl FnOnce() -> String) {
        if !holds {
            self.0.push((path.into(), reason()));
        }
    }

    pub fn not_zero<T: Default + PartialEq>(&mut self, value: &T, path: &str, example: &str) {
        self.require(*value != T::default(), path, || format!("must not be zero; write {example:?}, say"));
    }

    /// Adds what is wrong with the table called `name`.
    pub fn below(&mut self, name: &str, faults: impl IntoIterator<Item = ConfigError>) {
        let faults = faults.into_iter();
        self.0.extend(faults.map(|fault| (format!("{name}.{}", fault.key), fault.message)));
    }

    pub fn all(self) -> Vec<Invalid> {
        self.0
    }
}
