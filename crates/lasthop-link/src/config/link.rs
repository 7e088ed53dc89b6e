//! The link after the router.

use lasthop_core::{Bytes, Distribution, Duration, Faults, Instant, Probability, Rate, UserCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CourseConfig, ErrorConfig, Framing, GilbertElliott};
use crate::algorithm::{ErrorAlgorithm, ErrorSetup};
use crate::opportunities::Schedule;
use crate::timetable::Timetable;

/// One direction of the link: send buffer, serialiser, propagation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Bit rate, counted over IP packets, or with `framing` over packets of the layer below. If absent, the
    /// mean of the trace or course.
    #[schemars(extend("examples" = ["1 Mbit/s"]))]
    pub rate: Rate,
    /// A file with a recorded schedule of opportunities to deliver 1500 bytes, in the format of Mahimahi's
    /// `mm-link`, relative to the folder of the scenario. Each line is the time of an opportunity in milliseconds;
    /// the schedule repeats after the last line. It determines the capacity; `rate` is only nominal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Schedule>,
    /// A CSV file, relative to the folder of the scenario, with the state of the link over time: `time_s`,
    /// `rate_bps`, and optionally `delay_s` and `loss`, or `bit_error_rate`. A rate of 0 is an outage; the
    /// last line applies to the rest of the run. `rate` is then only nominal. Or a table with a `kind`, from which
    /// a course is drawn for each replication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<CourseConfig>,
    /// Per-packet overhead of the layer below: a number of bytes, such as "40 B", or "atm". With "atm", a
    /// packet with its LLC/SNAP header and AAL5 trailer (16 bytes, RFC 2684) fills cells of 53 bytes that
    /// carry 48. `rate`, `trace` and `course` then describe that layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framing: Option<Framing>,
    /// Compression of TCP/IP headers before they cross the link; none if absent. `rate` and `framing` then
    /// apply to the compressed packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_compression: Option<HeaderCompression>,
    /// Propagation delay; if absent, the delay of the first line of a course with delays.
    #[schemars(extend("examples" = ["50 ms"]))]
    pub delay: Duration,
    /// Changes of rate and delay during a run, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<LinkChange>,
    /// Extra time added to the serialisation of each packet, to model an emulator. It is drawn once per run and is
    /// the same in both directions, because it is a property of the machine, not of the packet.
    #[serde(default = "no_overhead")]
    pub overhead: Distribution<Duration>,
    /// Send buffer, counted over IP packets, including the packet being serialised. It must hold at least one
    /// packet of the largest size. If absent, it holds exactly one such packet, unless `release` is
    /// "acknowledged".
    pub send_buffer: Bytes,
    /// Receive buffer, counted over IP packets: it holds packets at the far side that wait for an earlier
    /// packet, which ARQ repeats or jitter delays. A packet that finds it full is lost. If absent, there is
    /// no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Bytes>,
    /// When a packet's bytes leave the send buffer.
    #[schemars(default = "serialised")]
    pub release: BufferRelease,
    /// Probability that a packet is lost after it was sent, independently of other packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Probability>,
    /// Alternatively, the probability that a bit is wrong, independently of others: a packet of n bits is
    /// lost with probability 1 - (1 - p)^n. With `framing`, the bits are those of the layer below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit_error_rate: Option<Probability>,
    /// Loss in bursts of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Loss by custom code, instead of `loss`; on the model engine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_model: Option<UserErrors>,
    /// Good and bad states with a duration, and ARQ, of this direction only. `[errors]` applies to both
    /// directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorConfig>,
    /// Extra delay of each packet on top of `delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Distribution<Duration>>,
    /// If true, a packet may overtake earlier packets that jitter or ARQ delays. If false, it waits for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reorder: bool,
    /// Delivery in bursts, as by a medium that aggregates packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotsConfig>,
    /// Probability that a packet arrives corrupt; the host discards it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Probability>,
    /// Probability that an intact packet is duplicated: a copy follows it immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Probability>,
}

/// Slots in which packets are delivered, like `slot` of Linux' netem. A packet that arrives while no slot is
/// scheduled waits for `every`; packets that arrive until then are delivered with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotsConfig {
    /// How long the first packet of a burst waits for others.
    #[schemars(extend("examples" = ["4 ms"]))]
    pub every: Duration,
}

pub type UserErrors = UserCode<ErrorSetup, dyn ErrorAlgorithm>;

/// A change of the link, such as a handover. Absent keys keep their values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    /// Time since the start of the run.
    #[schemars(extend("examples" = ["10 s"]))]
    pub at: Duration,
    /// The new bit rate. The rest of a packet that is being sent continues at this rate.
    pub rate: Option<Rate>,
    /// The new propagation delay of packets that leave the sending side after the change. They never overtake
    /// earlier packets.
    pub delay: Option<Duration>,
}

const fn serialised() -> BufferRelease {
    BufferRelease::Serialised
}

const DELAY_MAX: Duration = Duration::from_secs(86_400);

/// Rejects delays of more than a day, the light travel time of the farthest spacecraft.
pub fn check_delay(delay: Duration, key: &str, faults: &mut Faults) {
    faults.require(delay <= DELAY_MAX, key, || {
        format!(
            "\"{delay}\" is too long; write at most \"{DELAY_MAX}\", about the time that light takes to the \
             farthest spacecraft"
        )
    });
}

const fn no_overhead() -> Distribution<Duration> {
    Distribution::Static(Duration::ZERO)
}

/// Compression of TCP/IP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderCompression {
    /// Van Jacobson's compression (RFC 1144): only the difference of a TCP/IP header from the previous one
    /// crosses the link, mostly three bytes. After a loss, the following packets are lost, too, up to one
    /// with a complete header.
    Vj,
}

/// When a packet's bytes leave the link's send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferRelease {
    /// When the packet is serialised.
    Serialised,
    /// When the link-layer acknowledgement returns: one propagation delay after the receiving side released the
    /// packet in order. A lost packet counts as if it continued after its loss and were released in order without
    /// delivery: its bytes leave two propagation delays after the loss, or later if it waits for earlier packets.
    Acknowledged,
}

impl LinkConfig {
    /// Rejects a send buffer that is too small for a packet of `mtu` bytes, and changes without effect or out of
    /// order.
    pub(super) fn check(&self, mtu: Bytes, faults: &mut Faults) {
        check_delay(self.delay, "delay", faults);
        let mut before = None;
        for (index, change) in self.change.iter().enumerate() {
            faults.below(&format!("change[{index}]"), |faults| {
                change.check(before, self.trace.is_some(), faults);
            });
            before = Some(change.at);
        }
        let buffer = self.send_buffer;
        faults.require(buffer >= mtu, "send_buffer", || {
            format!("a send buffer of {buffer} is too small for a packet of {mtu}; write at least \"{mtu}\"")
        });
        let receive_buffer = self.receive_buffer.unwrap_or(mtu);
        faults.require(receive_buffer >= mtu, "receive_buffer", || {
            format!(
                "a receive buffer of {receive_buffer} is too small for a packet of {mtu}; write at least \
                 \"{mtu}\""
            )
        });
        faults.require(self.header_compression.is_none() || !self.reorder, "header_compression", || {
            "compressed headers depend on packet order; leave out this or reorder".to_owned()
        });
        faults.require(self.receive_buffer.is_none() || !self.reorder, "receive_buffer", || {
            "with reorder, no packet waits for an earlier one; leave out this or reorder".to_owned()
        });
        if let Some(slots) = &self.slots {
            faults.below("slots", |faults| faults.not_zero(&slots.every, "every", "4 ms"));
        }
        faults.require(self.slots.is_none() || !self.reorder, "slots", || {
            "slots deliver packets in order; leave out this or reorder".to_owned()
        });
        if let Some(errors) = &self.errors {
            faults.below("errors", |faults| errors.check(faults));
        }
        if let Some(framing) = self.framing {
            framing.check("framing", faults);
        }
        self.check_course(faults);
        self.check_impairments(faults);
    }

    fn check_course(&self, faults: &mut Faults) {
        let Some(course) = &self.course else { return };
        if let CourseConfig::Drawn(drawn) = course {
            faults.below("course", |faults| drawn.check(faults));
        }
        faults.require(self.trace.is_none(), "course", || {
            "the link follows its trace; leave out one of the two".to_owned()
        });
        faults.require(self.change.is_empty(), "change", || {
            "the course sets the changes of the link; leave out one of the two".to_owned()
        });
        let loses = self.loses();
        faults.require(!course.has_loss() || !loses, "course", || {
            "the course sets the loss of the link, too; leave out one of the two".to_owned()
        });
    }

    /// The rates in bit/s with their start times; 0 during an outage. For a course that is not drawn yet, the
    /// nominal rate.
    pub(super) fn rates(&self) -> impl Iterator<Item = (Instant, f64)> {
        let bits_per_second = |rate: Rate| rate.bits_per_second() as f64;
        let table = self.course.as_ref().and_then(CourseConfig::table);
        let stated = table.is_none().then(|| (Instant::ZERO, bits_per_second(self.rate)));
        let changes = self
            .change
            .iter()
            .filter_map(move |change| Some((Instant::ZERO + change.at, bits_per_second(change.rate?))));
        let rows = table.into_iter().flat_map(Timetable::rows);
        let rows = rows.map(move |row| (Instant::ZERO + row.at, row.rate.map_or(0.0, bits_per_second)));
        stated.into_iter().chain(changes).chain(rows)
    }

    /// True if it has its own loss, not that of its course.
    fn loses(&self) -> bool {
        self.loss.is_some() || self.bit_error_rate.is_some() || self.gilbert_elliott.is_some()
    }

    fn check_impairments(&self, faults: &mut Faults) {
        faults.require(self.loss.is_none() || self.bit_error_rate.is_none(), "bit_error_rate", || {
            "loss sets the loss probability, too; leave out one of the two".to_owned()
        });
        let one_by_one = if self.loss.is_some() { "loss" } else { "bit_error_rate" };
        let both = (self.loss.is_some() || self.bit_error_rate.is_some()) && self.gilbert_elliott.is_some();
        faults.require(!both, one_by_one, || {
            "this loses packets independently, but gilbert_elliott in bursts; leave out one of the two"
                .to_owned()
        });
        let course_loses = self.course.as_ref().is_some_and(CourseConfig::has_loss);
        let loses = self.loses() || course_loses;
        faults.require(self.error_model.is_none() || !loses, "error_model", || {
            "the link has another loss setting, too; leave out one of the two".to_owned()
        });
        let holds_back =
            self.jitter.is_some() || self.errors.as_ref().is_some_and(|errors| errors.arq.is_some());
        faults.require(!self.reorder || holds_back, "reorder", || {
            "without jitter or ARQ no packet can be overtaken; add jitter, or ARQ to the link's own errors"
                .to_owned()
        });
        faults.require(!self.reorder || self.release == BufferRelease::Serialised, "reorder", || {
            "a link that acknowledges packets in order delivers them in order; write release = \"serialised\""
                .to_owned()
        });
    }
}

impl LinkChange {
    /// `before` is the time of the previous change, if there is one.
    fn check(&self, before: Option<Duration>, has_trace: bool, faults: &mut Faults) {
        let Self { at, rate, delay } = self;
        faults.require(before.is_none_or(|before| before < *at), "at", || {
            format!(
                "{at} is not after the previous change; sort the changes by time, with one change per time"
            )
        });
        faults.require(rate.is_some() || delay.is_some(), "", || {
            "nothing changes; add a rate, a delay or both".to_owned()
        });
        if let Some(delay) = delay {
            check_delay(*delay, "delay", faults);
        }
        faults.require(rate.is_none() || !has_trace, "rate", || {
            "the link follows its trace; leave out the rate here, or the trace".to_owned()
        });
    }
}
