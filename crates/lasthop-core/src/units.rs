//! Rates, sizes and probabilities as newtypes, and how all quantities are read from text.
//!
//! Text is read in exact decimal arithmetic on integers: "0.15 ms" is 150000 ns, and digits beyond the
//! base unit are an error rather than rounded away.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not the expected quantity, as a message for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

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
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A probability, `0.0..=1.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Impossibility.
    pub const ZERO: Self = Self(0.0);
    /// Certainty.
    pub const ONE: Self = Self(1.0);

    /// The probability `value`, which must lie in `0.0..=1.0`.
    pub fn new(value: f64) -> Result<Self, ParseError> {
        if (0.0..=1.0).contains(&value) {
            return Ok(Self(value));
        }
        Err(ParseError::new(format!(
            "{value} is not a probability: write a number from 0 to 1, for example 0.63, or \"63 %\""
        )))
    }

    /// The value, `0.0..=1.0`.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// As a share of the greatest 32-bit number, the form that Linux expects.
    pub fn share_of_u32(self) -> u32 {
        libm::round(self.0 * f64::from(u32::MAX)) as u32
    }
}

/// A queue size or threshold, in packets or in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSize {
    /// This number of packets, whatever their length.
    Packets(u32),
    /// This number of bytes of IP length.
    Bytes(u32),
}

/// The units a kind of quantity accepts, each with its size in the base unit.
pub(crate) struct UnitTable {
    /// The kind of quantity with its article: "a rate".
    pub what: &'static str,
    /// A text that is accepted.
    pub example: &'static str,
    /// Name of the base unit.
    pub finest: &'static str,
    /// Names and sizes, the smallest first.
    pub units: &'static [(&'static str, u64)],
    /// Other units that are accepted, but never written.
    pub named: &'static [(&'static str, u64)],
}

pub(crate) const RATE_UNITS: UnitTable = UnitTable {
    what: "a rate",
    example: "64 kbit/s",
    finest: "bit per second",
    units: &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)],
    named: &CODINGS,
};

/// Rates of a time slot of GSM, in bit/s. GPRS sends a radio block of 181, 268, 312 or 428 bits every 20 ms,
/// depending on its coding scheme (3GPP TS 43.064, "Coding parameters for the GPRS coding schemes"), with the
/// headers of RLC and MAC. The traffic channels of circuit-switched data, of which HSCSD bundles several
/// (3GPP TS 43.034), are named after their rates.
const CODINGS: [(&str, u64); 7] = [
    ("CS-1", 181 * 50),
    ("CS-2", 268 * 50),
    ("CS-3", 312 * 50),
    ("CS-4", 428 * 50),
    ("TCH/F4.8", 4_800),
    ("TCH/F9.6", 9_600),
    ("TCH/F14.4", 14_400),
];

/// Number of time slots of a GSM carrier.
const SLOTS_MAX: u64 = 8;

/// The highest rate that is read.
const RATE_BPS_MAX: u64 = 1_000_000_000_000;

pub(crate) const BYTES_UNITS: UnitTable = UnitTable {
    what: "a size",
    example: "9600 B",
    finest: "byte",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    named: &[],
};

pub(crate) const PACKET_UNITS: UnitTable = UnitTable {
    what: "a number of packets",
    example: "20 packets",
    finest: "packet",
    units: &[("packet", 1), ("packets", 1)],
    named: &[],
};

/// Packets and bytes share one table; the unit determines which of the two is counted.
const QUEUE_UNITS: UnitTable = UnitTable {
    what: "a queue size",
    example: "20 packets",
    finest: "packet or byte",
    units: &[
        ("packets", 1),
        ("packet", 1),
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
    ],
    named: &[],
};

impl UnitTable {
    /// Reads a text as a whole number of base units.
    pub fn parse(&self, text: &str) -> Result<u64, ParseError> {
        self.parse_with_unit(text).map(|(value, _)| value)
    }

    /// Reads a text as a whole number of base units, and returns the unit of the text.
    fn parse_with_unit(&self, text: &str) -> Result<(u64, &'static str), ParseError> {
        let (whole, fraction, unit) = self.split(text)?;
        let size = self.unit_size(text, unit)?;
        let too_large = || ParseError::new(format!("{text:?} is too large for {}", self.what));
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let mantissa: u128 = digits.parse().map_err(|_| too_large())?;
        let scale = 10_u128.checked_pow(fraction.len() as u32).ok_or_else(|| self.too_fine(text))?;
        let scaled = mantissa.checked_mul(u128::from(size.1)).ok_or_else(too_large)?;
        if scaled % scale != 0 {
            return Err(self.too_fine(text));
        }
        Ok((u64::try_from(scaled / scale).map_err(|_| too_large())?, size.0))
    }

    /// Splits a text into the digits before the point, those after it, and the unit.
    fn split<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str, &'a str), ParseError> {
        let trimmed = text.trim();
        if let Some(positive) = trimmed.strip_prefix(['-', '\u{2212}'])
            && positive.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '.')
        {
            return Err(ParseError::new(format!(
                "{text:?} is negative: {} must not be negative, write for example {:?}",
                self.what, self.example
            )));
        }
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = trimmed.split_at(digits(trimmed));
        let (fraction, unit) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let bare_point = fraction.is_empty() && rest.starts_with('.');
        if whole.is_empty() || bare_point || unit.starts_with(['.', ',', '_']) {
            return Err(ParseError::new(format!(
                "{text:?} is not {}: write a decimal number and a unit, for example {:?} (accepted: {})",
                self.what,
                self.example,
                self.accepted()
            )));
        }
        Ok((whole, fraction, unit.trim()))
    }

    fn unit_size(&self, text: &str, unit: &str) -> Result<(&'static str, u64), ParseError> {
        if let Some(found) = self.all().find(|(name, _)| *name == unit) {
            return Ok(*found);
        }
        let number = text.trim().strip_suffix(unit).unwrap_or(text).trim();
        let accepted = self.accepted();
        if unit.is_empty() {
            let unit = self.example.split(' ').nth(1).unwrap_or_default();
            return Err(ParseError::new(format!(
                "missing unit in {text:?}: write for example \"{number} {unit}\" (accepted: {accepted})"
            )));
        }
        let nearest = self.nearest(unit).unwrap_or_default();
        Err(ParseError::new(format!(
            "unknown unit {unit:?} in {text:?}: did you mean \"{number} {nearest}\"? (accepted: {accepted})"
        )))
    }

    fn too_fine(&self, text: &str) -> ParseError {
        ParseError::new(format!("{text:?} has too many digits: the smallest unit is a {}", self.finest))
    }

    fn accepted(&self) -> String {
        self.all().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn all(&self) -> impl Iterator<Item = &'static (&'static str, u64)> {
        self.units.iter().chain(self.named)
    }

    /// True if there is a unit with this name.
    pub fn has(&self, unit: &str) -> bool {
        self.all().any(|(name, _)| *name == unit)
    }

    /// The probable unit. It is one of `named` only if nearly all of its letters match.
    fn nearest(&self, unit: &str) -> Option<&'static str> {
        let of = |units: &'static [(&'static str, u64)]| units.iter().map(|(name, _)| *name);
        let named = nearest(unit, of(self.named));
        let is_near =
            |name: &&str| strsim::damerau_levenshtein(&unit.to_lowercase(), &name.to_lowercase()) <= 2;
        named.filter(is_near).or_else(|| nearest(unit, of(self.units)))
    }

    /// A regular expression (ECMA 262) for JSON Schema.
    fn pattern(&self) -> String {
        let units: Vec<_> = self.all().map(|(name, _)| name.replace('.', r"\.")).collect();
        format!(r"^\s*[0-9]+(\.[0-9]+)?\s*({})\s*$", units.join("|"))
    }

    pub fn schema(&self, description: &str) -> Schema {
        json_schema!({
            "type": "string",
            "description": format!("{description}: a number and a unit ({})", self.accepted()),
            "pattern": self.pattern(),
            "examples": [self.example],
        })
    }
}

/// The candidate that the author most likely meant, ignoring letter case; `None` only without candidates.
pub fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = text.to_lowercase();
    candidates.min_by_key(|candidate| {
        (
            strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
            strsim::damerau_levenshtein(text, candidate),
        )
    })
}

/// Writes `value` with the largest of `units` (the smallest first) in which it is a whole number.
pub(crate) fn write_in_largest_unit(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
) -> fmt::Result {
    let fits = units.iter().rev().find(|(_, size)| value.is_multiple_of(*size));
    let (name, size) = fits.unwrap_or(&("", 1));
    write!(f, "{} {name}", value / size)
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (bits, unit) = RATE_UNITS.parse_with_unit(text)?;
        if let Some((name, slot)) = CODINGS.iter().find(|(name, _)| *name == unit)
            && !(bits.is_multiple_of(*slot) && (1..=SLOTS_MAX).contains(&(bits / slot)))
        {
            return Err(ParseError::new(format!(
                "{text:?} is not a number of GSM time slots: write a whole number from 1 to {SLOTS_MAX}, for example \
                 \"3 {name}\""
            )));
        }
        match bits {
            0 => Err(ParseError::new(format!(
                "{text:?} is zero: a rate must be above zero, write for example \"64 kbit/s\""
            ))),
            bits if bits > RATE_BPS_MAX => Err(ParseError::new(format!(
                "{text:?} is more than \"{}\": at that rate a packet of 1500 bytes takes 12 ns, and lasthop \
                 counts whole nanoseconds",
                Self(RATE_BPS_MAX)
            ))),
            bits => Ok(Self(bits)),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_largest_unit(f, self.0, RATE_UNITS.units)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        BYTES_UNITS.parse(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl FromStr for QueueSize {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (value, unit) = QUEUE_UNITS.parse_with_unit(text)?;
        let value = u32::try_from(value)
            .map_err(|_| ParseError::new(format!("{text:?} is too large for {}", QUEUE_UNITS.what)))?;
        Ok(if unit.starts_with("packet") { Self::Packets(value) } else { Self::Bytes(value) })
    }
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(1) => f.write_str("1 packet"),
            Self::Packets(count) => write!(f, "{count} packets"),
            Self::Bytes(bytes) => write!(f, "{bytes} B"),
        }
    }
}

impl FromStr for Probability {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (number, whole) = text.trim().strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        let value: f64 = number.trim().parse().map_err(|_| {
            ParseError::new(format!(
                "{text:?} is not a probability: write a number from 0 to 1, for example 0.63, or \"63 %\""
            ))
        })?;
        Self::new(value / whole)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a value from text through `FromStr`; a bare number is reported as a missing unit.
pub(crate) struct TextVisitor<T> {
    pub expecting: &'static str,
    pub value: std::marker::PhantomData<T>,
}

impl<T: FromStr<Err = ParseError>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Serde and schema of a file that a scenario holds as text: `parse` reads the text, `Display` writes it.
#[macro_export]
macro_rules! file_serde {
    ($type:ty, $name:literal, $description:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $description })
            }
        }
    };
}

/// Serde and schema of a quantity that is written as text with a unit.
macro_rules! text_serde {
    ($type:ty, $name:literal, $description:literal, $table:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = std::marker::PhantomData;
                let expecting = concat!($description, ": a string with a number and a unit");
                deserializer.deserialize_any($crate::units::TextVisitor { expecting, value })
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $table.schema($description)
            }
        }
    };
}
pub(crate) use text_serde;

text_serde!(Rate, "Rate", "A bit rate, above zero", RATE_UNITS);
text_serde!(Bytes, "Bytes", "A size in bytes", BYTES_UNITS);
text_serde!(QueueSize, "QueueSize", "A number of packets or of bytes", QUEUE_UNITS);

impl Serialize for Probability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = TextVisitor { expecting: "a probability", value: std::marker::PhantomData };
        deserializer.deserialize_any(visitor)
    }
}

impl JsonSchema for Probability {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Probability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A probability, such as 0.01 or \"1 %\"",
            "anyOf": [{ "type": "number", "minimum": 0, "maximum": 1 }, { "type": "string" }],
        })
    }
}

#[cfg(test)]
mod tests;
