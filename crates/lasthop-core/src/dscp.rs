//! Differentiated services code points (RFC 2474), by number or by name.

use std::fmt;
use std::str::FromStr;

use schemars::{Schema, json_schema};

use crate::units::{ParseError, nearest};

#[cfg(test)]
mod tests;

/// A code point of the DS field: the upper six bits of IPv4's TOS byte (RFC 2474, section 3). The default is
/// best effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

/// Class selectors (RFC 2474, section 4.2.2), assured forwarding (RFC 2597, section 6), expedited forwarding
/// (RFC 3246). Output uses the first name of a code point; CS0 is best effort.
const NAMES: [(&str, u8); 22] = [
    ("BE", 0),
    ("CS0", 0),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

impl Dscp {
    pub const MAX: u8 = 63;

    /// The code point in the lower six bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::MAX)
    }

    /// The number, `0..=63`.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for Dscp {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let name = text.trim();
        if let Some(&(_, number)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(Self(number));
        }
        match name.parse::<i64>() {
            Ok(number) => {
                u8::try_from(number).ok().filter(|number| *number <= Self::MAX).map(Self).ok_or_else(|| {
                    ParseError::new(format!(
                        "{number} is not a code point: write a number from 0 to {} (the nearest is {})",
                        Self::MAX,
                        number.clamp(0, i64::from(Self::MAX))
                    ))
                })
            }
            Err(_) => Err(ParseError::new(format!(
                "{text:?} is not a code point: did you mean {:?}? (accepted: EF, AF11 to AF43, BE, CS0 to \
                 CS7, or a number from 0 to {})",
                nearest(name, NAMES.iter().map(|(known, _)| *known)).unwrap_or_default(),
                Self::MAX
            ))),
        }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

/// A regular expression (ECMA 262) for JSON Schema.
struct Pattern(&'static str);

const PATTERN: Pattern = Pattern(r"^\s*(EF|AF[1-4][1-3]|BE|CS[0-7]|[0-5]?[0-9]|6[0-3])\s*$");

impl Pattern {
    fn schema(&self, description: &str) -> Schema {
        json_schema!({
            "description": format!("{description} (EF, AF11 to AF43, BE, CS0 to CS7, 0 to {})", Dscp::MAX),
            "type": ["string", "integer"],
            "pattern": self.0,
            "minimum": 0,
            "maximum": Dscp::MAX,
            "examples": ["EF"],
        })
    }
}

crate::units::text_serde!(Dscp, "Dscp", "A code point of the DS field, by name or number", PATTERN);
