//! The router queue or that of a class: the keys of all disciplines.

use std::fmt;

use lasthop_core::{Bytes, Duration, Faults, QueueSize, Rate, UserCode, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Framing;
use super::cake::{self, AckFilter, CakeConfig, Isolation, Tins};
use super::codel::{self, CoDelConfig};
use super::dual_pi2::{self, DualPi2Config};
use super::fair::FlowsConfig;
use super::fq_codel::{self, FqCoDelConfig};
use super::fq_pie::{self, FqPieConfig};
use super::pie::{self, PieConfig};
use super::red::RedConfig;
use super::sfq::{self, SfqConfig};
use crate::algorithm::{QueueAlgorithm, QueueSetup};

/// The router queue: drop-tail, with RED in front of the limit if asked for, or another discipline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Maximum size of the queue; an arriving packet that would exceed it is dropped. If a direction states
    /// none, its router queue holds the product of the link's rate and the round-trip time, but at least 10
    /// packets.
    pub limit: QueueSize,
    /// Which packets are dropped before the queue is full, and how.
    #[serde(default, skip_serializing_if = "Discipline::is_default")]
    pub discipline: Discipline,
    /// Random early detection (Floyd and Jacobson 1993) in front of a drop-tail queue; off if absent.
    pub red: Option<RedConfig>,
    /// CoDel and FQ-CoDel: target of the time in the queue; 5 ms if absent. On slow links it must exceed the
    /// time of a packet. PIE, FQ-PIE and `dualpi2`: target delay; 15 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Duration>,
    /// CoDel and FQ-CoDel: how long all packets must have waited longer than the target before one is
    /// dropped; 100 ms if absent. It should be the round-trip time of the slowest flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// PIE, FQ-PIE and `dualpi2`: time between two updates of the drop probability; 15 ms if absent, 16 ms
    /// for `dualpi2`. Linux rounds the value of PIE up to its ticks, to 16 ms say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tupdate: Option<Duration>,
    /// `dualpi2`: low-latency packets that wait longer than this are marked; 1 ms if absent. On slow links it
    /// should exceed the time of a packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_threshold: Option<Duration>,
    /// `dualpi2`: the threshold applies to packets that find at least this many packets in the low-latency
    /// queue; 0 if absent, so it applies to all. For slow links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_qlen_step: Option<u32>,
    /// CoDel and FQ-CoDel: all ECN-capable packets that waited longer than this are marked, regardless of
    /// `ecn`; none if absent. It is a shallow threshold for DCTCP or Prague.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Duration>,
    /// CoDel, FQ-CoDel, PIE and FQ-PIE: mark ECN-capable packets instead of dropping them (RFC 3168). If
    /// absent, only FQ-CoDel does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// FQ-CoDel, FQ-PIE and SFQ: number of queues that flows are hashed to; 1024 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// FQ-CoDel, FQ-PIE and SFQ: bytes that each flow may send per turn; the size of the largest packet if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// CAKE: its own rate, counted over IP packets with `overhead` and `mpu`; none if absent, so that it
    /// sends when the link takes a packet. Behind several classes of HTB it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// CAKE: its classes of packets by code point; three if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tins: Option<Tins>,
    /// CAKE: who shares the rate evenly; hosts and then flows if absent ("triple-isolate").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// CAKE: whether superfluous ACKs are dropped; "off" if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_filter: Option<AckFilter>,
    /// CAKE: overhead of the layer below for each packet, bytes or "atm" as in `framing` of a link; 0 bytes
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Framing>,
    /// CAKE: the least bytes of a packet, with its overhead and before cells; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpu: Option<Bytes>,
    /// CAKE: round-trip time of usual flows; 100 ms if absent. Packets may wait for a twentieth of it, or one
    /// and a half times as long as a packet takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
}

/// A queue discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// No drops before the queue is full, except by RED.
    #[default]
    DropTail,
    /// An arrival that exceeds the limit is kept, and the head is dropped (Lakshman, Neidhardt and Ott 1996),
    /// so that the sender detects the loss earlier.
    DropHead,
    /// If an arrival exceeds the limit, a packet is dropped: each waiting packet and the arrival with equal
    /// probability (Random Drop, RFC 1254).
    RandomDrop,
    /// Controlled delay (RFC 8289): drops from the head of the queue while packets wait too long.
    Codel,
    /// Flow queue CoDel (RFC 8290): a queue with CoDel for each flow; the queues take turns.
    #[serde(rename = "fq_codel")]
    FqCodel,
    /// Proportional integral controller enhanced (RFC 8033): drops packets at random on arrival, to hold a
    /// target delay.
    Pie,
    /// A queue with PIE for each flow; the queues take turns.
    #[serde(rename = "fq_pie")]
    FqPie,
    /// Dual queue coupled AQM (RFC 9332): a low-latency queue for packets with ECT(1), and a queue for all
    /// others.
    #[serde(rename = "dualpi2")]
    DualPi2,
    /// Stochastic fairness queueing (INFOCOM 1990): a queue for each flow; the queues take turns, and the
    /// longest one drops from its tail.
    Sfq,
    /// Common applications kept enhanced (LANMAN 2018): a shaper, classes by code point, a queue for each
    /// flow with CoDel and BLUE, fairness among hosts, and a filter of ACKs.
    Cake,
    /// Your own discipline, on the model engine only. It gets the limit, but need not respect it.
    #[serde(untagged)]
    User(UserDiscipline),
}

/// A user's own discipline.
pub type UserDiscipline = UserCode<QueueSetup, dyn QueueAlgorithm>;

impl Discipline {
    /// The keys of a queue that only some disciplines have.
    pub const fn keys(&self) -> &'static [&'static str] {
        match self {
            Self::DropTail => &["red"],
            Self::Codel => &codel::KEYS,
            Self::FqCodel => &fq_codel::KEYS,
            Self::Pie => &pie::KEYS,
            Self::FqPie => &fq_pie::KEYS,
            Self::DualPi2 => &dual_pi2::KEYS,
            Self::Sfq => &sfq::KEYS,
            Self::Cake => &cake::KEYS,
            Self::DropHead | Self::RandomDrop | Self::User(_) => &[],
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A discipline with its parameters: what a queue states, and the discipline's own defaults for the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameters<'a> {
    DropTail,
    Red(&'a RedConfig),
    DropHead,
    RandomDrop,
    CoDel(CoDelConfig),
    FqCoDel(FqCoDelConfig),
    Pie(PieConfig),
    FqPie(FqPieConfig),
    DualPi2(DualPi2Config),
    Sfq(SfqConfig),
    Cake(CakeConfig),
    User(&'a UserDiscipline),
}

impl Parameters<'_> {
    fn check(self, mtu: Bytes, faults: &mut Faults) {
        match self {
            Self::DropTail | Self::DropHead | Self::RandomDrop | Self::User(_) => {}
            Self::Red(red) => faults.below("red", |faults| red.check(faults)),
            Self::CoDel(codel) => codel.check(faults),
            Self::FqCoDel(fq_codel) => fq_codel.check(mtu, faults),
            Self::Pie(pie) => pie.check(faults),
            Self::FqPie(fq_pie) => fq_pie.check(mtu, faults),
            Self::DualPi2(dual_pi2) => dual_pi2.check(faults),
            Self::Sfq(sfq) => sfq.flows.check(mtu, faults),
            Self::Cake(cake) => cake.check(faults),
        }
    }
}

impl QueueConfig {
    /// A queue of this limit that drops the newest packet.
    pub fn drop_tail(limit: QueueSize) -> Self {
        Self {
            limit,
            discipline: Discipline::DropTail,
            red: None,
            target: None,
            interval: None,
            tupdate: None,
            step_threshold: None,
            min_qlen_step: None,
            ce_threshold: None,
            ecn: None,
            flows: None,
            quantum: None,
            rate: None,
            tins: None,
            isolation: None,
            ack_filter: None,
            overhead: None,
            mpu: None,
            rtt: None,
        }
    }

    /// What the discipline is given, for packets of up to `mtu` bytes.
    pub(crate) fn parameters(&self, mtu: Bytes) -> Parameters<'_> {
        // FQ-CoDel marks unless told otherwise (RFC 8290, section 5.2.6), CoDel does not.
        let codel = |marks| {
            let ecn = self.ecn.unwrap_or(marks);
            CoDelConfig::new(self.target, self.interval, ecn, self.ce_threshold)
        };
        let pie = PieConfig::new(self.target, self.tupdate, self.ecn);
        let flows = FlowsConfig::new(self.flows, self.quantum, mtu);
        match &self.discipline {
            Discipline::DropTail => self.red.as_ref().map_or(Parameters::DropTail, Parameters::Red),
            Discipline::DropHead => Parameters::DropHead,
            Discipline::RandomDrop => Parameters::RandomDrop,
            Discipline::Codel => Parameters::CoDel(codel(false)),
            Discipline::FqCodel => Parameters::FqCoDel(FqCoDelConfig { codel: codel(true), flows }),
            Discipline::Pie => Parameters::Pie(pie),
            Discipline::FqPie => Parameters::FqPie(FqPieConfig { pie, flows }),
            Discipline::DualPi2 => Parameters::DualPi2(DualPi2Config::new(
                self.target,
                self.tupdate,
                self.step_threshold,
                self.min_qlen_step,
            )),
            Discipline::Sfq => Parameters::Sfq(SfqConfig { flows }),
            Discipline::Cake => Parameters::Cake(self.cake()),
            Discipline::User(code) => Parameters::User(code),
        }
    }

    fn cake(&self) -> CakeConfig {
        CakeConfig {
            rate: self.rate,
            tins: self.tins.unwrap_or_default(),
            isolation: self.isolation.unwrap_or_default(),
            ack_filter: self.ack_filter.unwrap_or_default(),
            overhead: self.overhead.unwrap_or(Framing::PerPacket(Bytes(0))),
            mpu: self.mpu.unwrap_or(Bytes(0)),
            rtt: self.rtt.unwrap_or(Duration::from_millis(100)),
        }
    }

    /// The most that it sends by itself, in bit/s of IP packets of `ip_bytes` bytes.
    pub(super) fn ip_rate(&self, ip_bytes: u32) -> f64 {
        if self.discipline == Discipline::Cake { self.cake().ip_rate(ip_bytes) } else { f64::INFINITY }
    }

    /// What is probably unintended about it in front of a link of this rate.
    pub(super) fn note(&self, link: Rate, mtu: Bytes) -> Option<String> {
        if self.discipline == Discipline::Cake { self.cake().note(link, mtu) } else { None }
    }

    /// Finds faults of one of `queues` that have the same size as this one.
    pub(super) fn check(&self, mtu: Bytes, queues: usize, faults: &mut Faults) {
        self.check_limit(mtu, queues, faults);
        self.check_keys(faults);
        self.parameters(mtu).check(mtu, faults);
    }

    fn check_limit(&self, mtu: Bytes, queues: usize, faults: &mut Faults) {
        let limit = self.limit;
        let holds_one = match limit {
            QueueSize::Packets(packets) => packets > 0,
            QueueSize::Bytes(bytes) => u64::from(bytes) >= mtu.0,
        };
        faults.require(holds_one, "limit", || {
            format!("a queue of {limit} never holds a packet of {mtu}; give it room for one at least")
        });
        let most_bytes = u64::from(u32::MAX) / queues as u64;
        let (held, most) = match limit {
            QueueSize::Packets(packets) => (packets, most_bytes / mtu.0.max(1)),
            QueueSize::Bytes(bytes) => (bytes, most_bytes),
        };
        faults.require(u64::from(held) <= most, "limit", || {
            let queues = if queues > 1 { format!("{queues} queues") } else { "a queue".into() };
            format!(
                "{queues} of {limit} with packets of {mtu} would hold more than 4 GiB; give it room for \
                 {most} at most"
            )
        });
    }

    /// Finds the keys that belong to another discipline.
    fn check_keys(&self, faults: &mut Faults) {
        let stated = [
            ("red", self.red.is_some()),
            ("target", self.target.is_some()),
            ("interval", self.interval.is_some()),
            ("tupdate", self.tupdate.is_some()),
            ("step_threshold", self.step_threshold.is_some()),
            ("min_qlen_step", self.min_qlen_step.is_some()),
            ("ce_threshold", self.ce_threshold.is_some()),
            ("ecn", self.ecn.is_some()),
            ("flows", self.flows.is_some()),
            ("quantum", self.quantum.is_some()),
            ("rate", self.rate.is_some()),
            ("tins", self.tins.is_some()),
            ("isolation", self.isolation.is_some()),
            ("ack_filter", self.ack_filter.is_some()),
            ("overhead", self.overhead.is_some()),
            ("mpu", self.mpu.is_some()),
            ("rtt", self.rtt.is_some()),
        ];
        let own = &self.discipline;
        for (key, _) in stated.into_iter().filter(|(key, stated)| *stated && !own.keys().contains(key)) {
            let owners =
                named().into_iter().filter(|discipline: &Discipline| discipline.keys().contains(&key));
            let owners: Vec<_> = owners.map(|discipline| format!("\"{discipline}\"")).collect();
            let reds = if key == "ecn" && self.red.is_some() { "; that of RED is red.ecn" } else { "" };
            faults.require(false, key, || {
                let owners = owners.join(" or ");
                format!(
                    "belongs to discipline = {owners}, but this queue has \"{own}\"; leave it out, or write \
                     discipline = {owners}{reds}"
                )
            });
        }
    }
}
