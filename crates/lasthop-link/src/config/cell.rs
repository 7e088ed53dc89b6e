//! Cells of mobile networks: the keys of the medium and of its users, their defaults and their valid values.

use lasthop_core::units::QueueSize;
use lasthop_core::{Direction, Duration, Faults, Instant, Probability, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timetable::Timetable;

/// A cell of a mobile network: a base station that assigns slots to its users, separately in each direction
/// (frequency-division duplex).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellConfig {
    /// Length of a slot: the transmission time interval.
    #[serde(default = "tti")]
    pub tti: Duration,
    /// Assignment of slots to users.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Averaging window of "proportional-fair"; 100 slots if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Duration>,
    /// Delay from the end of a slot until its packets leave the cell: decoding, and the operator's network.
    #[serde(default)]
    pub delay: Duration,
    /// Maximum size of each queue: one per user at the base station, and one in each user's device.
    #[serde(default = "limit")]
    pub limit: QueueSize,
    /// Errors of transport blocks, and their retransmission; no block is lost if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harq: Option<HarqConfig>,
    /// Discontinuous reception; if absent, users always listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drx: Option<DrxConfig>,
}

/// Assignment of slots to users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// All users with data share the slot equally; a part that a user does not need goes to the others.
    RoundRobin,
    /// The slot goes to the user with the highest ratio of current rate to mean throughput; a part that it does
    /// not need goes to the next user.
    #[default]
    ProportionalFair,
}

/// Hybrid ARQ: a transport block that cannot be decoded is sent again, and the receiver combines all tries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarqConfig {
    /// Probability that the first try of a block fails. Try k fails with the k-th power of it, because the
    /// receiver combines tries.
    pub error: Probability,
    /// Time from a try to the first slot of the next try; 8 slots if absent, as in LTE with frequency-division
    /// duplex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Duration>,
    /// Number of tries, after which the packets in the block are lost.
    #[serde(default = "tries")]
    #[schemars(range(min = 1, max = 16))]
    pub tries: u32,
}

/// Discontinuous reception: a user without traffic for some time listens only periodically, until it sends or
/// receives something. The cycles of the users are spread evenly, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrxConfig {
    /// How long a user listens at the start of each cycle.
    pub on: Duration,
    /// How long a user listens after a slot in which it received or sent new data.
    pub inactivity: Duration,
    /// Length of the cycle.
    pub cycle: Duration,
}

/// Properties of a host as a user of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellUser {
    /// Rate of IP packets if the user had all slots. With a course, it is only nominal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A CSV file, relative to the folder of the scenario, with the rate over time: `time_s` and `rate_bps`. A
    /// rate of 0 is an outage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Timetable>,
    /// Rate and course in the direction up, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<CellUp>,
}

/// The direction up of a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellUp {
    /// Rate of IP packets if the user had all slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A CSV file with the rate over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Timetable>,
}

const fn tti() -> Duration {
    Duration::from_millis(1)
}

const fn limit() -> QueueSize {
    QueueSize::Bytes(750_000)
}

const fn tries() -> u32 {
    4
}

const RATE_LEAST: Rate = Rate::from_bits_per_second(1_000);
const RATE_MOST: Rate = Rate::from_bits_per_second(20_000_000_000);

impl CellConfig {
    /// Averaging window of proportional fairness, in slots.
    pub(crate) fn window_slots(&self) -> f64 {
        self.window.map_or(100.0, |window| window.as_nanos() as f64 / self.tti.as_nanos() as f64)
    }

    pub(super) fn places(&self) -> f64 {
        match self.limit {
            QueueSize::Packets(packets) => f64::from(packets),
            QueueSize::Bytes(bytes) => f64::from(bytes) / 40.0,
        }
    }

    pub(super) fn words(&self) -> String {
        let scheduler = match self.scheduler {
            Scheduler::RoundRobin => "round-robin",
            Scheduler::ProportionalFair => "proportional-fair",
        };
        format!("{scheduler}, {}", self.limit)
    }

    pub(super) fn check(&self, faults: &mut Faults) {
        faults.in_range(self.tti, Duration::from_micros(50)..=Duration::from_millis(100), "tti");
        if let Some(window) = self.window {
            faults.require(self.scheduler == Scheduler::ProportionalFair, "window", || {
                "applies to scheduler = \"proportional-fair\" only; leave it out".into()
            });
            faults.in_range(window, self.tti..=Duration::from_secs(1_000), "window");
        }
        faults.at_most(self.delay, Duration::from_secs(10), "delay");
        let holds_one = match self.limit {
            QueueSize::Packets(packets) => (1..=1_000_000).contains(&packets),
            QueueSize::Bytes(bytes) => (100_000..=1_000_000_000).contains(&bytes),
        };
        faults.require(holds_one, "limit", || {
            "is out of range; write from 1 to 1000000 packets, or from 100 kB to 1 GB".into()
        });
        if let Some(harq) = &self.harq {
            faults.below("harq", |faults| harq.check(self.tti, faults));
        }
        if let Some(drx) = &self.drx {
            faults.below("drx", |faults| drx.check(self.tti, faults));
        }
    }
}

impl HarqConfig {
    pub(crate) fn round_trip(&self, tti: Duration) -> Duration {
        self.round_trip.unwrap_or(tti * 8)
    }

    fn check(&self, tti: Duration, faults: &mut Faults) {
        faults.require(self.error.get() <= 0.95, "error", || {
            format!("{} would lose nearly every block; write at most 0.95", self.error)
        });
        if let Some(round_trip) = self.round_trip {
            faults.in_range(round_trip, tti..=Duration::from_secs(1), "round_trip");
        }
        faults.in_range(self.tries, 1..=16, "tries");
    }
}

impl DrxConfig {
    fn check(&self, tti: Duration, faults: &mut Faults) {
        // TS 36.331 and TS 38.331 end at cycles of 10.24 s.
        faults.in_range(self.cycle, tti..=Duration::from_millis(10_240), "cycle");
        faults.in_range(self.on, tti..=self.cycle.max(tti), "on");
        faults.at_most(self.inactivity, Duration::from_secs(60), "inactivity");
        for (key, length) in [("on", self.on), ("inactivity", self.inactivity), ("cycle", self.cycle)] {
            let is_whole = length.as_nanos().is_multiple_of(tti.as_nanos().max(1));
            faults.require(is_whole, key, || format!("is not a multiple of the tti, {tti}; write one"));
        }
    }
}

impl CellUser {
    /// The rates of a direction over time, from the start; `None` during an outage.
    pub(crate) fn course(&self, direction: Direction) -> Vec<(Instant, Option<Rate>)> {
        let up = self.up.as_ref().filter(|_| direction == Direction::Up);
        let (rate, course) = up.map_or((self.rate, &self.course), |up| (up.rate, &up.course));
        let rows = course.iter().flat_map(Timetable::rows);
        let rows: Vec<_> = rows.map(|row| (Instant::ZERO + row.at, row.rate)).collect();
        if rows.is_empty() { vec![(Instant::ZERO, rate)] } else { rows }
    }

    /// The same in bit/s.
    pub(crate) fn rates(&self, direction: Direction) -> Vec<(Instant, f64)> {
        let bits = |rate: Option<Rate>| rate.map_or(0.0, |rate| rate.bits_per_second() as f64);
        self.course(direction).into_iter().map(|(since, rate)| (since, bits(rate))).collect()
    }

    pub fn check(&self, faults: &mut Faults) {
        check_rate(self.rate, self.course.as_ref(), faults);
        if let Some(up) = &self.up {
            faults.below("up", |faults| check_rate(up.rate, up.course.as_ref(), faults));
        }
    }
}

fn check_rate(rate: Option<Rate>, course: Option<&Timetable>, faults: &mut Faults) {
    faults.require(rate.is_some() || course.is_some(), "rate", || {
        "is missing; write the user's rate if it had all slots, for example \"30 Mbit/s\", or a course".into()
    });
    if let Some(rate) = rate {
        faults.in_range(rate, RATE_LEAST..=RATE_MOST, "rate");
    }
    let mut rates = course.into_iter().flat_map(Timetable::rows).filter_map(|row| row.rate);
    faults.require(rates.all(|rate| (RATE_LEAST..=RATE_MOST).contains(&rate)), "course", || {
        format!("has a rate outside of {RATE_LEAST} to {RATE_MOST}; write 0 for an outage")
    });
}
