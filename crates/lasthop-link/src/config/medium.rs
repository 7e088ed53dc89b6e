//! Media: what several stations and both directions of a hop share.

use lasthop_core::{Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wifi::{WifiConfig, WifiStation};

/// A medium that both directions of a hop and all stations behind it share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum MediumConfig {
    /// Wi-Fi (IEEE 802.11): an access point and its stations.
    #[serde(rename = "wifi")]
    Wifi(WifiConfig),
}

impl MediumConfig {
    /// Its `kind` in scenarios, which is also the key of a host with what the station states.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Wifi(_) => "wifi",
        }
    }

    /// Finds faults of the medium by itself.
    pub fn check(&self, faults: &mut Faults) {
        match self {
            Self::Wifi(wifi) => wifi.check(faults),
        }
    }
}

/// A medium with its stations, in an order that the owner chooses.
#[derive(Clone, Debug)]
pub enum MediumSetup<'a> {
    /// Wi-Fi.
    Wifi(&'a WifiConfig, Vec<&'a WifiStation>),
}

impl MediumSetup<'_> {
    /// The capacity in bit/s, from the start and after each change: the rate of the station that is the
    /// fastest then. It is no rate that packets reach: headers, waiting and acknowledgements take time, too.
    pub fn rates(&self) -> Vec<(Instant, f64)> {
        let courses: Vec<Vec<(Instant, f64)>> = match self {
            Self::Wifi(wifi, stations) => stations.iter().map(|station| station.rates(wifi)).collect(),
        };
        let mut times: Vec<Instant> = courses.iter().flatten().map(|(since, _)| *since).collect();
        times.push(Instant::ZERO);
        times.sort_unstable();
        times.dedup();
        let at = |now: Instant, course: &Vec<(Instant, f64)>| {
            course.iter().rev().find(|(since, _)| *since <= now).map_or(0.0, |(_, rate)| *rate)
        };
        let fastest = |now| courses.iter().map(|course| at(now, course)).fold(0.0, f64::max);
        times.into_iter().map(|since| (since, fastest(since))).collect()
    }

    /// The rate of the slowest station, in bit/s.
    pub fn slowest(&self) -> f64 {
        match self {
            Self::Wifi(wifi, stations) => {
                let rates = stations.iter().flat_map(|station| station.rates(wifi));
                rates.map(|(_, rate)| rate).fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// Number of stations.
    pub const fn stations(&self) -> usize {
        match self {
            Self::Wifi(_, stations) => stations.len(),
        }
    }

    /// Packets that fit in the queues of one direction.
    pub fn places(&self) -> f64 {
        match self {
            Self::Wifi(wifi, stations) => wifi.places() * stations.len().max(1) as f64,
        }
    }

    /// The medium in words, as a label.
    pub fn words(&self) -> String {
        match self {
            Self::Wifi(wifi, _) => wifi.words(),
        }
    }
}
