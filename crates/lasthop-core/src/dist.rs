//! Distributions of lengths: static, uniform, exponential with cuts, and user-defined sequences.
//!
//! A scenario states a [`Distribution`]; a [`Sampler`] draws from it. Each run makes a new sampler, so a
//! sequence starts from its first value in every variant.

use std::borrow::Cow;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::ParseError;
use crate::{Bytes, Duration, RandomStream, Rate};

/// A quantity that can be drawn: a whole number of base units.
pub trait Quantity:
    Copy + Ord + Display + FromStr<Err = ParseError> + Serialize + DeserializeOwned + JsonSchema
{
    /// The quantity of `value` base units.
    fn from_base_units(value: u64) -> Self;

    /// The number of base units.
    fn base_units(self) -> u64;
}

/// In nanoseconds.
impl Quantity for Duration {
    fn from_base_units(value: u64) -> Self {
        Self::from_nanos(value)
    }

    fn base_units(self) -> u64 {
        self.as_nanos()
    }
}

/// In bytes.
impl Quantity for Bytes {
    fn from_base_units(value: u64) -> Self {
        Self(value)
    }

    fn base_units(self) -> u64 {
        self.0
    }
}

/// In bit/s. There is no rate of 0.
impl Quantity for Rate {
    fn from_base_units(value: u64) -> Self {
        Self::from_bits_per_second(value.max(1))
    }

    fn base_units(self) -> u64 {
        self.bits_per_second()
    }
}

/// A distribution of lengths. As text, a plain quantity is [`Distribution::Static`].
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution<T> {
    /// Always the same value.
    Static(T),
    /// Every whole number of base units from `min` to `max`, both included, is equally likely.
    Uniform { min: T, max: T },
    /// Exponential, cut to `min..=max`.
    Exponential {
        /// Mean before the cut.
        mean: T,
        /// Smallest value; 0 if absent.
        min: Option<T>,
        /// Largest value; unlimited if absent.
        max: Option<T>,
        /// How a draw outside the limits is treated.
        cut: Cut,
    },
    /// These values in this order, repeatedly.
    Sequence(Vec<T>),
}

/// How an exponential draw outside the limits is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// The value is drawn again until it lies inside.
    #[default]
    Redraw,
    /// The value is moved to the limit that it passed.
    Clamp,
}

/// Minimum share of exponential draws inside the limits, so that redrawing terminates.
const REDRAW_SHARE_MIN: f64 = 1e-4;

impl<T: Quantity> Distribution<T> {
    /// Checks that values can be drawn: limits in order, a positive mean, a sequence with values.
    pub fn validate(&self) -> Result<(), ParseError> {
        let ordered = |min: T, max: T| {
            if min <= max {
                return Ok(());
            }
            Err(ParseError::new(format!("min = \"{min}\" is above max = \"{max}\": exchange them")))
        };
        match self {
            Self::Uniform { min, max } => ordered(*min, *max),
            Self::Exponential { mean, min, max, cut } => {
                if mean.base_units() == 0 {
                    return Err(ParseError::new(
                        "the mean of an exponential distribution must be above zero",
                    ));
                }
                if let (Some(min), Some(max)) = (min, max) {
                    ordered(*min, *max)?;
                }
                if *cut == Cut::Redraw && share_inside(*mean, *min, *max) < REDRAW_SHARE_MIN {
                    return Err(ParseError::new(format!(
                        "values with mean = \"{mean}\" hardly ever lie between min and max: widen the \
                         limits, or write cut = \"clamp\""
                    )));
                }
                Ok(())
            }
            Self::Sequence(values) if values.is_empty() => Err(ParseError::new(
                "a sequence needs at least one value: for example values = [\"3 s\", \"4 s\"]",
            )),
            Self::Static(_) | Self::Sequence(_) => Ok(()),
        }
    }

    /// The smallest value that can be drawn.
    pub fn least(&self) -> T {
        match self {
            Self::Static(value) | Self::Uniform { min: value, .. } => *value,
            Self::Exponential { min, .. } => min.unwrap_or(T::from_base_units(0)),
            Self::Sequence(values) => values.iter().copied().min().unwrap_or(T::from_base_units(0)),
        }
    }

    /// The greatest value that can be drawn. For an exponential distribution without `max` it is ten times
    /// the mean, which few draws exceed.
    pub fn most(&self) -> T {
        match self {
            Self::Static(value) | Self::Uniform { max: value, .. } => *value,
            Self::Exponential { mean, max, .. } => {
                max.unwrap_or(T::from_base_units(mean.base_units().saturating_mul(10)))
            }
            Self::Sequence(values) => values.iter().copied().max().unwrap_or(T::from_base_units(0)),
        }
    }

    /// The mean; of an exponential distribution before its cut.
    pub fn mean(&self) -> T {
        match self {
            Self::Static(value) | Self::Exponential { mean: value, .. } => *value,
            Self::Uniform { min, max } => {
                T::from_base_units(min.base_units() + (max.base_units() - min.base_units()) / 2)
            }
            Self::Sequence(values) => {
                let sum: u128 = values.iter().map(|value| u128::from(value.base_units())).sum();
                T::from_base_units((sum / values.len().max(1) as u128) as u64)
            }
        }
    }

    /// A sampler at the start of its sequence. The distribution must be valid.
    pub fn sampler(&self) -> Sampler<T> {
        debug_assert_eq!(self.validate(), Ok(()));
        Sampler { distribution: self.clone(), next: 0 }
    }
}

/// Probability that an exponential draw falls inside the limits.
fn share_inside<T: Quantity>(mean: T, min: Option<T>, max: Option<T>) -> f64 {
    let beyond = |limit: T| libm::exp(-(limit.base_units() as f64) / mean.base_units() as f64);
    min.map_or(1.0, beyond) - max.map_or(0.0, beyond)
}

/// Draws from a [`Distribution`].
#[derive(Clone, Debug)]
pub struct Sampler<T> {
    distribution: Distribution<T>,
    next: usize,
}

impl<T: Quantity> Sampler<T> {
    /// The next value. Static values and sequences draw nothing from `stream`.
    pub fn sample(&mut self, stream: &mut RandomStream) -> T {
        match &self.distribution {
            Distribution::Static(value) => *value,
            Distribution::Uniform { min, max } => {
                let (min, max) = (min.base_units(), max.base_units());
                let offset = (stream.unit() * ((max - min) as f64 + 1.0)) as u64;
                T::from_base_units(min + offset.min(max - min))
            }
            Distribution::Exponential { mean, min, max, cut } => {
                let min = min.map_or(0, T::base_units);
                let max = max.map_or(u64::MAX, T::base_units);
                loop {
                    let value = exponential(mean.base_units(), stream);
                    if *cut == Cut::Clamp || (min..=max).contains(&value) {
                        return T::from_base_units(value.clamp(min, max));
                    }
                }
            }
            Distribution::Sequence(values) => {
                let value = values[self.next];
                self.next = (self.next + 1) % values.len();
                value
            }
        }
    }
}

/// An exponential draw by inverse transform, to the nearest base unit.
fn exponential(mean: u64, stream: &mut RandomStream) -> u64 {
    (mean as f64 * -libm::log(1.0 - stream.unit()) + 0.5) as u64
}

/// The table form of a distribution in a scenario file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
enum Table<T> {
    Uniform {
        min: T,
        max: T,
    },
    Exponential {
        mean: T,
        #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
        min: Option<T>,
        #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
        max: Option<T>,
        #[serde(default)]
        cut: Cut,
    },
    Sequence {
        values: Vec<T>,
    },
}

impl<T: Quantity> Serialize for Distribution<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::Static(value) => value.serialize(serializer),
            Self::Uniform { min, max } => Table::Uniform { min, max }.serialize(serializer),
            Self::Exponential { mean, min, max, cut } => {
                Table::Exponential { mean, min, max, cut }.serialize(serializer)
            }
            Self::Sequence(values) => Table::Sequence { values }.serialize(serializer),
        }
    }
}

impl<'de, T: Quantity> Deserialize<'de> for Distribution<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let distribution = deserializer.deserialize_any(DistributionVisitor(PhantomData))?;
        distribution.validate().map_err(de::Error::custom)?;
        Ok(distribution)
    }
}

struct DistributionVisitor<T>(PhantomData<T>);

impl<'de, T: Quantity> Visitor<'de> for DistributionVisitor<T> {
    type Value = Distribution<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "a quantity as a string, or a table with distribution = \"uniform\", \"exponential\" or \"sequence\"",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(Distribution::Static).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
            Table::Uniform { min, max } => Distribution::Uniform { min, max },
            Table::Exponential { mean, min, max, cut } => Distribution::Exponential { mean, min, max, cut },
            Table::Sequence { values } => Distribution::Sequence(values),
        })
    }
}

impl<T: Quantity> JsonSchema for Distribution<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("DistributionOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let cut = generator.subschema_for::<Cut>();
        json_schema!({
            "description": "Always the same value (a quantity), or a distribution (a table)",
            "oneOf": [
                value,
                {
                    "type": "object",
                    "description": "Every value from min to max is equally likely",
                    "properties": { "distribution": { "const": "uniform" }, "min": value, "max": value },
                    "required": ["distribution", "min", "max"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "description": "Exponential with a mean, cut to min and max",
                    "properties": {
                        "distribution": { "const": "exponential" },
                        "mean": value, "min": value, "max": value, "cut": cut,
                    },
                    "required": ["distribution", "mean"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "description": "These values in this order, repeatedly",
                    "properties": {
                        "distribution": { "const": "sequence" },
                        "values": { "type": "array", "items": value, "minItems": 1 },
                    },
                    "required": ["distribution", "values"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests;
