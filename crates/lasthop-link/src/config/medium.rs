//! Media, which several stations and both directions of a hop share.

use lasthop_core::{Direction, Duration, Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::{CellConfig, CellUser};
use super::wifi::{WifiConfig, WifiStation};

/// A medium that both directions of a hop and all stations behind it share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum MediumConfig {
    /// Wi-Fi (IEEE 802.11): an access point and its stations.
    #[serde(rename = "wifi")]
    Wifi(WifiConfig),
    /// A cell of a mobile network: a base station and its users.
    #[serde(rename = "cell")]
    Cell(CellConfig),
}

impl MediumConfig {
    /// Its `kind` in scenarios, which is also the key of a host's properties as a station.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Wifi(_) => "wifi",
            Self::Cell(_) => "cell",
        }
    }

    /// Finds faults of the medium by itself.
    pub fn check(&self, faults: &mut Faults) {
        match self {
            Self::Wifi(wifi) => wifi.check(faults),
            Self::Cell(cell) => cell.check(faults),
        }
    }
}

/// A medium with its stations, in an order that the owner chooses.
#[derive(Clone, Debug)]
pub enum MediumSetup<'a> {
    Wifi(&'a WifiConfig, Vec<&'a WifiStation>),
    /// A cell with its users.
    Cell(&'a CellConfig, Vec<&'a CellUser>),
}

impl MediumSetup<'_> {
    /// The capacity of a direction in bit/s, from the start and after each change: the rate of the fastest station
    /// at the time. On Wi-Fi, packets cannot reach it, because headers, backoff and ACKs take time, too.
    pub fn rates(&self, direction: Direction) -> Vec<(Instant, f64)> {
        let courses: Vec<Vec<(Instant, f64)>> = match self {
            Self::Wifi(wifi, stations) => stations.iter().map(|station| station.rates(wifi)).collect(),
            Self::Cell(_, users) => users.iter().map(|user| user.rates(direction)).collect(),
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
            Self::Cell(_, users) => {
                let ways = [Direction::Down, Direction::Up];
                let rates = users.iter().flat_map(|user| ways.into_iter().flat_map(|way| user.rates(way)));
                let rates = rates.map(|(_, rate)| rate).filter(|rate| *rate > 0.0);
                rates.fold(f64::INFINITY, f64::min)
            }
        }
    }

    pub const fn stations(&self) -> usize {
        match self {
            Self::Wifi(_, stations) => stations.len(),
            Self::Cell(_, users) => users.len(),
        }
    }

    /// Packets that fit in the queues of one direction.
    pub fn places(&self) -> f64 {
        match self {
            Self::Wifi(wifi, stations) => wifi.places() * stations.len().max(1) as f64,
            Self::Cell(cell, users) => cell.places() * users.len().max(1) as f64,
        }
    }

    /// A description of the medium, as a label.
    pub fn words(&self) -> String {
        match self {
            Self::Wifi(wifi, _) => wifi.words(),
            Self::Cell(cell, _) => cell.words(),
        }
    }

    /// The delay that it adds to each packet; that of Wi-Fi is negligible.
    pub const fn delay(&self) -> Duration {
        match self {
            Self::Wifi(..) => Duration::ZERO,
            Self::Cell(cell, _) => cell.delay,
        }
    }
}
