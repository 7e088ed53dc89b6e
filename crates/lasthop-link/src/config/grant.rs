//! Grants that a sender must request before it may send.

use std::ops::RangeInclusive;

use lasthop_core::{Duration, Faults, Probability, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::{LinkChange, LinkConfig, PathConfig};

/// From below the shortest slot of NR to far above the longest; its bytes fit 32 bits.
const INTERVALS: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_millis(100);

/// A link whose sender must request capacity, as a cable modem does from the head-end (DOCSIS), and a phone from
/// the base station (LTE, NR). Packets wait in the queue until they are granted, and leave in granted slots at
/// the link's rate. Several packets share a slot, and a packet may span slots. The unused rest of a slot is lost.
///
/// Time is divided into intervals, each with at most one slot, at its start. A request covers all waiting bytes
/// that are not requested yet. It is sent in the header of the first data in a slot or, without a slot, at the
/// next opportunity for requests. The bytes are granted from the first interval that begins at least `delay`
/// after the request, at up to the link's rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantConfig {
    /// Period at which the head-end assigns slots: the interval of DOCSIS' MAPs, the slot of LTE and NR.
    #[schemars(extend("examples" = ["2 ms"]))]
    pub interval: Duration,
    /// Time from a request to the earliest interval of its grant. It includes the delay to the head-end, its
    /// decision, and the delay and lead time of the grant.
    #[schemars(extend("examples" = ["4 ms"]))]
    pub delay: Duration,
    /// How a sender without a slot sends a request.
    #[serde(default)]
    pub request: RequestKind,
    /// Time between two reserved opportunities, with request = "reserved".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Duration>,
    /// Probability that a request collides with that of another host and is lost; with request = "contention".
    /// The sender retries when the grant does not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision: Option<Probability>,
    /// Rate that is granted without requests: proactive grants of low-latency DOCSIS, or semi-persistent
    /// scheduling. The default "0 bit/s" is none.
    #[serde(default, deserialize_with = "rate_or_zero", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rate_or_zero_schema")]
    pub proactive: Option<Rate>,
}

/// How a sender without a slot sends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// At the start of each interval, in contention with other hosts.
    #[default]
    Contention,
    /// At a reserved opportunity in each `period`: the scheduling request of LTE and NR.
    Reserved,
}

/// The value for no rate, as rates are above zero.
const ZERO: &str = "0 bit/s";

fn rate_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| text != ZERO);
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

fn rate_or_zero_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [Rate::json_schema(generator), { "type": "string", "const": ZERO }] })
}

impl GrantConfig {
    /// The time between two opportunities for requests.
    pub(crate) fn opportunities(&self) -> Duration {
        self.period.unwrap_or(self.interval)
    }

    /// Finds faults of grants on the link of `path`.
    pub(super) fn check(&self, path: &PathConfig, faults: &mut Faults) {
        let link = &path.link;
        faults.require(path.htb.is_none(), "", || {
            "classes and grants both decide when a packet leaves; move htb to a separate hop in front of this one"
                .into()
        });
        faults.in_range(self.interval, INTERVALS, "interval");
        let nanobits = u128::from(self.interval.as_nanos()) * u128::from(link.rate.bits_per_second());
        faults.require(nanobits >= 8_000_000_000, "interval", || {
            format!(
                "\"{}\" is too short for a byte at \"{}\"; write a longer interval",
                self.interval, link.rate
            )
        });
        match self.request {
            RequestKind::Contention => faults.require(self.period.is_none(), "period", || {
                "opportunities of contention occur in each interval; leave it out, or write request = \"reserved\""
                    .into()
            }),
            RequestKind::Reserved => {
                faults.require(self.period.is_some_and(|period| period >= self.interval), "period", || {
                    "must be set, and not be shorter than the interval; write for example \"10 ms\"".into()
                });
                faults.require(self.collision.is_none(), "collision", || {
                    "reserved opportunities do not collide; leave it out, or write request = \"contention\"".into()
                });
            }
        }
        let collision = self.collision.unwrap_or_default();
        faults.require(collision < Probability::ONE, "collision", || {
            "every request would collide; write less than 1".into()
        });
        let proactive = self.proactive.unwrap_or(link.rate);
        faults.require(proactive <= link.rate, "proactive", || {
            format!("exceeds the link's rate; write \"{}\" at most", link.rate)
        });
        let rest = link.rate.bits_per_second().saturating_sub(proactive.bits_per_second());
        let nanobits = u128::from(self.interval.as_nanos()) * u128::from(rest);
        faults.require(rest == 0 || nanobits >= 8_000_000_000, "proactive", || {
            format!(
                "leaves less than a byte per interval for requests; write less, or \"{}\", the whole link",
                link.rate
            )
        });
        Self::check_link(link, faults);
    }

    /// Grants count bytes of IP packets at one rate.
    fn check_link(link: &LinkConfig, faults: &mut Faults) {
        for (key, stated) in [
            ("trace", link.trace.is_some()),
            ("course", link.course.is_some()),
            ("change", link.change.iter().any(|LinkChange { rate, .. }| rate.is_some())),
        ] {
            faults.require(!stated, "", || {
                format!("grants need a constant rate, but link.{key} changes it; leave out one of the two")
            });
        }
        for (key, stated) in
            [("framing", link.framing.is_some()), ("header_compression", link.header_compression.is_some())]
        {
            faults.require(!stated, "", || {
                format!(
                    "grants count IP bytes, but link.{key} changes packet sizes; leave out one of the two"
                )
            });
        }
    }
}
