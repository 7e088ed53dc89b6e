//! Numbers of any kind with their unit, and ranges of such numbers: a numeric factor varies over a range.

use std::fmt;
use std::str::FromStr;

use crate::time;
use crate::units::{self, BYTES_UNITS, PACKET_UNITS, ParseError, RATE_UNITS, UnitTable};

/// The kind of quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bits per second.
    Rate,
    /// Nanoseconds.
    Duration,
    /// Bytes.
    Size,
    /// Packets of a queue.
    Packets,
    /// A whole number without a unit.
    Whole,
    /// A number without a unit.
    Real,
}

const TABLES: [(Kind, &UnitTable); 4] = [
    (Kind::Rate, &RATE_UNITS),
    (Kind::Duration, &time::UNITS),
    (Kind::Size, &BYTES_UNITS),
    (Kind::Packets, &PACKET_UNITS),
];

/// Above this number, some whole numbers have no exact float.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

impl Kind {
    fn table(self) -> Option<&'static UnitTable> {
        TABLES.iter().find(|(kind, _)| *kind == self).map(|(_, table)| *table)
    }

    /// With its article: "a rate".
    pub fn what(self) -> &'static str {
        self.table().map_or("a number", |table| table.what)
    }

    /// The unit of [`Amount::number`]; empty if there is none.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Rate => "bit/s",
            Self::Duration => "s",
            Self::Size => "B",
            Self::Packets => "packets",
            Self::Whole | Self::Real => "",
        }
    }

    /// True for kinds that are counted: each whole number of a range is a separate level.
    pub const fn is_count(self) -> bool {
        matches!(self, Self::Packets | Self::Whole)
    }
}

/// A number of some kind. Displays without blanks and to the last digit: "1.23457Mbit/s".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    pub kind: Kind,
    /// The amount. It is a whole number, and exact, for all kinds but [`Kind::Real`].
    value: f64,
}

impl Amount {
    /// A number without a unit; `None` if it is not finite.
    pub fn real(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self { kind: Kind::Real, value })
    }

    /// A whole number without a unit; `None` if it has no exact float.
    pub fn whole(value: i64) -> Option<Self> {
        let value = value as f64;
        (value.abs() < WHOLE_MAX).then_some(Self { kind: Kind::Whole, value })
    }

    /// The number in the unit of its kind.
    pub fn number(self) -> f64 {
        if self.kind == Kind::Duration { self.value / 1e9 } else { self.value }
    }

    /// True if the numbers of its kind are whole in their unit.
    pub fn is_whole(self) -> bool {
        !matches!(self.kind, Kind::Duration | Kind::Real)
    }

    /// The same number, as a kind that may be real.
    #[must_use]
    pub fn as_real(self) -> Self {
        Self { kind: if self.kind == Kind::Whole { Kind::Real } else { self.kind }, ..self }
    }
}

impl FromStr for Amount {
    type Err = ParseError;

    /// Reads a number with a unit.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let number = |c: char| c.is_ascii_digit() || "-\u{2212}.".contains(c);
        let unit = text.trim().trim_start_matches(number).trim();
        if unit.is_empty() {
            return Err(ParseError::new(format!(
                "{text:?} has no unit: write for example \"64 kbit/s\", or a number without quotation marks"
            )));
        }
        let names = TABLES.iter().flat_map(|(_, table)| table.units.iter().map(|(name, _)| *name));
        let nearest = units::nearest(unit, names).unwrap_or_default();
        let has = |meant: &str| TABLES.iter().find(|(_, table)| table.has(meant));
        let (kind, table) = has(unit).or_else(|| has(nearest)).unwrap_or(&TABLES[0]);
        let value = table.parse(text)? as f64;
        if value >= WHOLE_MAX {
            return Err(ParseError::new(format!("{text:?} is too large for {}", table.what)));
        }
        Ok(Self { kind: *kind, value })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(table) = self.kind.table() else { return self.value.fmt(f) };
        let value = self.value as u64;
        let fits = |size: u64| size <= value && 10_u64.pow(size.ilog10()) == size;
        let (name, size) = table.units.iter().rfind(|(_, size)| fits(*size)).unwrap_or(&table.units[0]);
        write!(f, "{}", value / size)?;
        if !value.is_multiple_of(*size) {
            let digits = format!("{:0width$}", value % size, width = size.ilog10() as usize);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

/// The distribution of levels over a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Uniform.
    #[default]
    Linear,
    /// Uniform in the logarithm.
    Log,
}

/// The numbers of one kind between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    from: Amount,
    to: Amount,
    scale: Scale,
}

/// Levels are rounded to a decimal that is at most this share of the range away.
const RESOLUTION: f64 = 1e-5;

impl Range {
    /// The range from `from` to `to`. None unless both ends have the same kind, `from` is less than `to`,
    /// and, on a logarithmic scale, `from` is above zero.
    pub fn new(from: Amount, to: Amount, scale: Scale) -> Option<Self> {
        let ordered = from.kind == to.kind && from.value < to.value;
        let drawn = scale == Scale::Linear || from.value > 0.0;
        (ordered && drawn).then_some(Self { from, to, scale })
    }

    pub const fn ends(&self) -> [Amount; 2] {
        [self.from, self.to]
    }

    /// The distribution of levels.
    pub const fn scale(&self) -> Scale {
        self.scale
    }

    /// The level below which the share `share` (`0.0..=1.0`) of the range lies, rounded to few digits. The
    /// level depends on the range and the share only.
    pub fn at(&self, share: f64) -> Amount {
        let Self { from, to, scale } = *self;
        // All whole numbers are equally likely: 1 to 3 means from 1 to less
        // than 4.
        let beyond = if from.kind.is_count() { to.value + 1.0 } else { to.value };
        let (value, width) = match scale {
            Scale::Linear => (from.value + share * (beyond - from.value), beyond - from.value),
            Scale::Log => {
                let width = libm::log(beyond / from.value);
                let value = from.value * libm::exp(share * width);
                (value, value * width)
            }
        };
        let rounded = if from.kind.is_count() {
            libm::floor(value)
        } else {
            round(value, width * RESOLUTION, from.kind == Kind::Real)
        };
        Amount { value: rounded.clamp(from.value, to.value), ..from }
    }
}

/// Rounds to a power of ten no larger than `step`, or to a whole number if that may not be less than one.
fn round(value: f64, step: f64, real: bool) -> f64 {
    let digits = libm::floor(libm::log10(step));
    if digits < 0.0 {
        let decimals = if real { -digits as usize } else { 0 };
        // Through the text: a product of powers of ten would not be the nearest float.
        return format!("{value:.decimals$}").parse().unwrap_or(value);
    }
    let step = libm::pow(10.0, digits);
    libm::round(value / step) * step
}

#[cfg(test)]
mod tests;
