//! Wi-Fi: the keys of the medium and of its stations, their defaults and their valid values.

use lasthop_core::units::QueueSize;
use lasthop_core::{Bytes, Faults, Instant, Probability, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timetable::Timetable;

/// A Wi-Fi network of one access point: the distributed coordination function of IEEE 802.11-2020, clause
/// 10.3, and with n, ac and ax its enhanced form (EDCA, clause 10.23.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WifiConfig {
    /// The standard, which sets slots, preambles, contention windows and aggregation.
    #[serde(default)]
    pub standard: Standard,
    /// The queues of the access point, and of each station towards it.
    #[serde(default)]
    pub queue: WifiQueue,
    /// Maximum size of a queue. If absent, 1000 packets with "fifo", which is Linux' `txqueuelen`, and 8192
    /// otherwise, which is the limit of mac80211.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<QueueSize>,
    /// Number of retransmissions of a frame before it is dropped.
    #[serde(default = "retries")]
    #[schemars(range(max = 255))]
    pub retries: u32,
    /// Frames longer than this use RTS/CTS; off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rts_threshold: Option<Bytes>,
    /// Maximum number of packets in a frame, at most 64, which is the default of n, ac and ax. The other
    /// standards send one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mpdus: Option<u32>,
    /// Maximum length of a frame with several packets; that of the standard if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ampdu: Option<Bytes>,
    /// Share of airtime that other networks use.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub busy: Probability,
}

/// Properties of a host as a station of a Wi-Fi network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WifiStation {
    /// Rate of the physical layer, in both directions. If absent, that of a good link of the standard: 11, 54, 54,
    /// 130, 780 or 1201 Mbit/s for b, a, g, n, ac, ax. With a course, it is only nominal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A CSV file, relative to the folder of the scenario, with the rate over time: `time_s` and `rate_bps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Timetable>,
    /// Share of packets that are lost in each attempt, in both directions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: Probability,
}

/// An amendment of IEEE 802.11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standard {
    /// Direct sequence in the 2.4 GHz band with long preambles (clause 16).
    B,
    /// OFDM in the 5 GHz band (clause 17).
    A,
    /// OFDM in the 2.4 GHz band with short slots, without stations of b (clause 18).
    G,
    /// High throughput in the 5 GHz band (clause 19).
    N,
    /// Very high throughput (clause 21).
    #[default]
    Ac,
    /// High efficiency, single user (IEEE 802.11ax-2021, clause 27).
    Ax,
}

/// Queues of packets that wait for transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WifiQueue {
    /// One queue for all stations. A frame goes to the station of the packet that has waited longest.
    Fifo,
    /// A queue with FQ-CoDel for each station, in round robin.
    #[default]
    #[serde(rename = "fq_codel")]
    FqCodel,
    /// The same, but each station gets the same share of airtime, as in mac80211.
    Airtime,
}

/// The window of block acknowledgements.
pub(crate) const WINDOW: u32 = 64;

const fn retries() -> u32 {
    7
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(share: &Probability) -> bool {
    share.get() == 0.0
}

impl Standard {
    /// The rate of a good link.
    const fn rate(self) -> Rate {
        Rate::from_bits_per_second(match self {
            Self::B => 11_000_000,
            Self::A | Self::G => 54_000_000,
            Self::N => 130_000_000,
            Self::Ac => 780_000_000,
            Self::Ax => 1_201_000_000,
        })
    }

    /// True if frames carry several packets and access categories differ.
    pub(crate) const fn aggregates(self) -> bool {
        matches!(self, Self::N | Self::Ac | Self::Ax)
    }
}

impl WifiConfig {
    pub(crate) fn limit(&self) -> QueueSize {
        self.limit.unwrap_or(QueueSize::Packets(if self.queue == WifiQueue::Fifo { 1000 } else { 8192 }))
    }

    pub(super) fn places(&self) -> f64 {
        match self.limit() {
            QueueSize::Packets(packets) => f64::from(packets),
            QueueSize::Bytes(bytes) => f64::from(bytes) / 40.0,
        }
    }

    pub(super) fn words(&self) -> String {
        let queue = match self.queue {
            WifiQueue::Fifo => "fifo",
            WifiQueue::FqCodel => "fq_codel",
            WifiQueue::Airtime => "airtime",
        };
        format!("Wi-Fi, {queue}, {}", self.limit())
    }

    pub(super) fn check(&self, faults: &mut Faults) {
        faults.at_most(self.retries, 255, "retries");
        if let Some(most) = self.max_mpdus {
            faults.in_range(most, 1..=WINDOW, "max_mpdus");
        }
        for (key, stated) in
            [("max_mpdus", self.max_mpdus.is_some()), ("max_ampdu", self.max_ampdu.is_some())]
        {
            faults.require(!stated || self.standard.aggregates(), key, || {
                "applies to n, ac and ax only, which aggregate packets; leave it out".into()
            });
        }
        if let Some(most) = self.max_ampdu {
            faults.in_range(most, Bytes(4_096)..=Bytes(6_500_631), "max_ampdu");
        }
        faults.require(self.busy.get() <= 0.95, "busy", || {
            format!("{} leaves hardly any airtime; write at most 0.95", self.busy)
        });
        let holds_one = match self.limit() {
            QueueSize::Packets(packets) => (1..=1_000_000).contains(&packets),
            QueueSize::Bytes(bytes) => (100_000..=1_000_000_000).contains(&bytes),
        };
        faults.require(holds_one, "limit", || {
            "is out of range; write from 1 to 1000000 packets, or from 100 kB to 1 GB".into()
        });
    }
}

impl WifiStation {
    /// A station with defaults only.
    pub const PLAIN: Self = Self { rate: None, course: None, error: Probability::ZERO };

    /// The rates over time, in bit/s; the first from the start.
    pub(crate) fn rates(&self, wifi: &WifiConfig) -> Vec<(Instant, f64)> {
        let rates = self.course(wifi).into_iter();
        rates.map(|(since, rate)| (since, rate.bits_per_second() as f64)).collect()
    }

    /// The same, as rates.
    pub(crate) fn course(&self, wifi: &WifiConfig) -> Vec<(Instant, Rate)> {
        let rate = self.rate.unwrap_or(wifi.standard.rate());
        let rows = self.course.iter().flat_map(Timetable::rows);
        let rows: Vec<_> = rows.filter_map(|row| Some((Instant::ZERO + row.at, row.rate?))).collect();
        if rows.is_empty() { vec![(Instant::ZERO, rate)] } else { rows }
    }

    pub fn check(&self, faults: &mut Faults) {
        let least = Rate::from_bits_per_second(1_000_000);
        let most = Rate::from_bits_per_second(10_000_000_000);
        if let Some(rate) = self.rate {
            faults.in_range(rate, least..=most, "rate");
        }
        faults.require(self.error.get() <= 0.95, "error", || {
            format!("{} would lose nearly every packet; write at most 0.95", self.error)
        });
        let rows = self.course.iter().flat_map(Timetable::rows);
        let mut bad = rows.filter(|row| row.rate.is_none_or(|rate| rate < least || rate > most));
        faults.require(bad.next().is_none(), "course", || {
            format!("has a rate outside of {least} to {most}, or an outage, which is not modelled; change it")
        });
    }
}
