//! Faults in a configuration.
//!
//! A configuration type checks itself in a method `check(&self, .., faults)`. It names only its own keys; its
//! owner sets the place of the configuration with [`Faults::below`]. A rule across several configurations is
//! checked by the owner of all of them.

use std::fmt;
use std::ops::RangeInclusive;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the value, as in `queue.red.max`.
    pub key: String,
    /// The reason and, after a semicolon, a remedy.
    pub message: String,
}

/// The faults found so far.
#[derive(Debug, Default)]
pub struct Faults {
    /// Path of the table that is being checked; empty at the top.
    place: String,
    list: Vec<Fault>,
}

impl Faults {
    /// The faults that `checks` find, in their order.
    pub fn collect(checks: impl FnOnce(&mut Self)) -> Vec<Fault> {
        let mut faults = Self::default();
        checks(&mut faults);
        faults.list
    }

    /// Adds the fault `message` of the value at `key` unless `holds`; an empty key means the table itself.
    pub fn require(&mut self, holds: bool, key: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.list.push(Fault { key: joined(&self.place, key), message: message() });
        }
    }

    /// Number of faults found so far.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Requires a value other than zero.
    pub fn not_zero<T: Default + PartialEq>(&mut self, value: &T, key: &str, example: &str) {
        self.require(*value != T::default(), key, || {
            format!("must not be zero; write for example {example:?}")
        });
    }

    /// Requires a value of at most `max`.
    pub fn at_most<T: Copy + PartialOrd + fmt::Display>(&mut self, value: T, max: T, key: &str) {
        self.require(value <= max, key, || {
            format!("{} is out of range; write at most {}", as_written(&value), as_written(&max))
        });
    }

    /// Requires a value in `range`.
    pub fn in_range<T: Copy + Ord + fmt::Display>(&mut self, value: T, range: RangeInclusive<T>, key: &str) {
        self.require(range.contains(&value), key, || {
            let [min, max] = [range.start(), range.end()].map(as_written);
            let nearest = if value < *range.start() { &min } else { &max };
            let value = as_written(&value);
            format!("{value} is out of range; write from {min} to {max} (the nearest is {nearest})")
        });
    }

    /// Runs checks of the configuration at `key`.
    pub fn below(&mut self, key: &str, checks: impl FnOnce(&mut Self)) {
        let length = self.place.len();
        self.place = joined(&self.place, key);
        checks(self);
        self.place.truncate(length);
    }
}

fn joined(place: &str, key: &str) -> String {
    let dot = if place.is_empty() || key.is_empty() || key.starts_with('[') { "" } else { "." };
    format!("{place}{dot}{key}")
}

/// A value in a scenario file's notation: quantities have units and are in quotation marks.
fn as_written(value: &impl fmt::Display) -> String {
    let text = value.to_string();
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn only(check: impl FnOnce(&mut Faults)) -> (String, String) {
        let list = Faults::collect(check);
        let [fault] = &list[..] else { panic!("{list:?}") };
        (fault.key.clone(), fault.message.clone())
    }

    #[test]
    fn a_fault_knows_the_whole_path_to_its_value() {
        let (key, _) = only(|faults| {
            faults.below("down", |faults| {
                faults.below("htb", |_| {});
                faults.below("htb.class[1]", |faults| {
                    faults.below("match", |faults| faults.not_zero(&0, "[2]", "1"));
                });
            });
        });
        assert_eq!(key, "down.htb.class[1].match[2]");
        let (key, _) = only(|faults| faults.below("queue", |faults| faults.require(false, "", String::new)));
        assert_eq!(key, "queue");
    }

    #[test]
    fn a_value_out_of_range_gets_the_nearest_valid_one() {
        let (_, message) = only(|faults| faults.in_range(0, 1..=255, "retries"));
        assert_eq!(message, "0 is out of range; write from 1 to 255 (the nearest is 1)");
        let (_, message) = only(|faults| faults.in_range(Bytes(9), Bytes(1)..=Bytes(8), "size"));
        assert_eq!(
            message,
            "\"9 B\" is out of range; write from \"1 B\" to \"8 B\" (the nearest is \"8 B\")"
        );
        let (_, message) = only(|faults| faults.at_most(Bytes(9), Bytes(8), "size"));
        assert_eq!(message, "\"9 B\" is out of range; write at most \"8 B\"");
    }

    #[test]
    fn what_is_right_has_no_faults() {
        let list = Faults::collect(|faults| {
            faults.in_range(1, 1..=1, "a");
            faults.at_most(1, 1, "b");
            faults.not_zero(&1, "c", "1");
            faults.require(true, "d", || unreachable!("never asked"));
        });
        assert_eq!(list, []);
    }
}
