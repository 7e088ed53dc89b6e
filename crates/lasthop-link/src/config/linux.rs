//! A direction as queue disciplines of Linux: what of a scenario they can be, and what they cannot.

use lasthop_core::{Bytes, DropCause, Duration, Faults, QueueSize, Rate};

use super::codel::CoDelConfig;
use super::errors::can_be_positive;
use super::fair::FlowsConfig;
use super::fq_codel::FqCoDelConfig;
use super::fq_pie::FqPieConfig;
use super::htb::tc_burst;
use super::pie::PieConfig;
use super::{
    BufferRelease, ClassConfig, Discipline, ErrorConfig, HtbConfig, LinkConfig, PathConfig, QueueConfig,
};

/// Most debt that HTB keeps (`htb_change_class`, `mbuffer`).
const DEBT_MAX: Duration = Duration::from_secs(60);
/// A bucket is told to HTB as the time it lasts, in 32 bits of 64 ns (`PSCHED_TICKS2NS`).
const BUCKET_MAX: Duration = Duration::from_nanos((u32::MAX as u64) << 6);

/// One direction as Linux' queue disciplines: a single class of HTB and a queue discipline in it. That of a drop-tail queue
/// is netem, which delays a packet before the class lets it go; behind another the link's delay is the emulator's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxQueues {
    /// Rate of the class.
    pub rate: Rate,
    /// Its bucket.
    pub burst: Bytes,
    /// The bucket of its ceiling, which is its rate.
    pub cburst: Bytes,
    /// Bytes that a packet counts more than its IP length.
    pub overhead: Bytes,
    /// Delay of netem, or of the link behind another discipline.
    pub delay: Duration,
    /// Packets that the discipline holds at most; with netem delayed ones too.
    pub limit: u32,
    /// What waits for the class.
    pub discipline: LinuxDiscipline,
}

/// A queue discipline of Linux and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinuxDiscipline {
    /// `sch_netem`.
    Netem,
    /// `sch_codel`.
    Codel(LinuxCoDel),
    /// `sch_fq_codel`.
    FqCodel(LinuxCoDel, LinuxFlows),
    /// `sch_pie`.
    Pie(LinuxPie),
    /// `sch_fq_pie`.
    FqPie(LinuxPie, LinuxFlows),
    /// `sch_sfq`.
    Sfq(LinuxFlows),
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxCoDel {
    /// Time in the queue that is short enough.
    pub target: Duration,
    /// How long it must have been longer.
    pub interval: Duration,
    /// Whether it marks.
    pub ecn: bool,
}

/// Parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxPie {
    /// The delay that it aims at.
    pub target: Duration,
    /// Time between two updates.
    pub tupdate: Duration,
    /// Whether it marks.
    pub ecn: bool,
}

/// Parameters of a discipline with a queue for each flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxFlows {
    /// Queues that flows are hashed to.
    pub flows: u32,
    /// What a flow may send at its turn.
    pub quantum: Bytes,
}

impl LinuxDiscipline {
    /// Why it drops a packet that has found no full queue.
    pub const fn drop_cause(self) -> DropCause {
        match self {
            Self::Netem => DropCause::LinkError,
            Self::Codel(_) | Self::FqCodel(..) => DropCause::CoDel,
            Self::Pie(_) | Self::FqPie(..) => DropCause::Pie,
            Self::Sfq(_) => DropCause::LongestFlow,
        }
    }

    /// Whether it drops no packet that it has taken in.
    pub const fn drops_arrivals_only(self) -> bool {
        matches!(self, Self::Netem | Self::Pie(_) | Self::FqPie(..))
    }

    /// Whether packets of different flows can overtake each other.
    pub const fn has_flows(self) -> bool {
        matches!(self, Self::FqCodel(..) | Self::FqPie(..) | Self::Sfq(_))
    }
}

impl From<CoDelConfig> for LinuxCoDel {
    fn from(CoDelConfig { target, interval, ecn }: CoDelConfig) -> Self {
        Self { target, interval, ecn }
    }
}

impl From<PieConfig> for LinuxPie {
    fn from(PieConfig { target, tupdate, ecn }: PieConfig) -> Self {
        Self { target, tupdate, ecn }
    }
}

impl From<FlowsConfig> for LinuxFlows {
    fn from(FlowsConfig { flows, quantum }: FlowsConfig) -> Self {
        Self { flows, quantum }
    }
}

impl PathConfig {
    /// This direction as Linux' queue disciplines; it must have passed [`PathConfig::check_linux`]. The send buffer is not
    /// looked at: behind them nothing holds a packet back.
    pub fn linux_queues(&self, mtu: Bytes) -> LinuxQueues {
        let class = self.lone_class();
        let queue = class.and_then(|class| class.queue.as_ref()).unwrap_or(&self.queue);
        LinuxQueues {
            rate: class.map_or(self.link.rate, |class| class.rate),
            burst: class.map_or(tc_burst(), |class| class.burst),
            cburst: class.map_or(tc_burst(), |class| class.cburst),
            overhead: self.htb.as_ref().map_or(Bytes(0), |htb| htb.overhead),
            delay: self.link.delay,
            limit: packets(queue.limit, mtu),
            discipline: queue.linux_discipline(mtu),
        }
    }

    fn lone_class(&self) -> Option<&ClassConfig> {
        self.htb.as_ref()?.class.first()
    }

    /// Finds what Linux' queue disciplines have no counterpart of, for packets of up to `mtu` bytes.
    /// `errors` says whether the link loses any.
    pub fn check_linux(&self, mtu: Bytes, errors: bool, faults: &mut Faults) {
        if let Some(htb) = &self.htb {
            faults.below("htb", |faults| htb.check_linux(faults));
        }
        let class = self.lone_class();
        let LinuxQueues { rate, burst, cburst, .. } = self.linux_queues(mtu);
        faults.require(self.link.rate >= rate, "link.rate", || {
            format!(
                "a Linux router has one rate, that of its HTB class, but \"{}\" is below it; write at least \"{rate}\"",
                self.link.rate
            )
        });
        let rate_key = if class.is_some() { "htb.class[0].rate" } else { "link.rate" };
        faults.below(rate_key, |faults| check_rate(rate, mtu, burst.max(cburst), faults));
        faults.below("link", |faults| self.link.check_linux(faults));
        let own = class.and_then(|class| class.queue.as_ref());
        let (place, queue) = own.map_or(("queue", &self.queue), |queue| ("htb.class[0].queue", queue));
        faults.below(place, |faults| {
            queue.check_linux(mtu, faults);
            queue.check_linux_errors(errors, faults);
        });
    }
}

impl HtbConfig {
    /// Finds what only several classes are for.
    fn check_linux(&self, faults: &mut Faults) {
        faults.require(self.class.len() == 1, "class", || {
            "a Linux router has one class for all packets; leave the others out".into()
        });
        faults.require(self.rate.is_none(), "rate", || {
            "a Linux router has one class, which nobody lends to; leave it out".into()
        });
        for (index, class) in self.class.iter().enumerate() {
            let rate = class.rate;
            faults.require(
                class.ceil.is_none_or(|ceil| ceil == rate),
                &format!("class[{index}].ceil"),
                || {
                    format!(
                        "a class that nobody lends to never passes its rate; write \"{rate}\" or leave it out"
                    )
                },
            );
        }
    }
}

impl LinkConfig {
    fn check_linux(&self, faults: &mut Faults) {
        faults.require(!can_be_positive(&self.overhead), "overhead", || {
            "a Linux router needs no time of its own for a packet; leave it out".into()
        });
        faults.require(self.release == BufferRelease::Serialised, "release", || {
            "a Linux router has no link-layer acknowledgement; write \"serialised\"".into()
        });
        faults.require(self.trace.is_none(), "trace", || {
            "a Linux router has a rate, no trace; leave it out".into()
        });
        faults.require(self.course.is_none(), "course", || {
            "a Linux router has one rate, no course; leave it out".into()
        });
        faults.require(self.framing.is_none(), "framing", || {
            "a Linux router counts what HTB adds to packets; leave it out, and write htb.overhead in its place".into()
        });
        for (key, stated) in [
            ("loss", self.loss.is_some()),
            ("gilbert_elliott", self.gilbert_elliott.is_some()),
            ("errors", self.errors.is_some()),
            ("jitter", self.jitter.is_some()),
            ("corrupt", self.corrupt.is_some()),
            ("duplicate", self.duplicate.is_some()),
        ] {
            faults.require(!stated, key, || {
                "a Linux router loses packets of both directions as [errors] says, and nothing else befalls them; \
                 leave it out"
                    .into()
            });
        }
        faults.require(self.change.is_empty(), "change", || {
            "the rate and the delay of a Linux router stay as they are; leave it out".into()
        });
    }
}

impl QueueConfig {
    fn linux_discipline(&self, mtu: Bytes) -> LinuxDiscipline {
        match self.discipline {
            // The latter is refused.
            Discipline::DropTail | Discipline::DualPi2 => LinuxDiscipline::Netem,
            Discipline::Codel => LinuxDiscipline::Codel(self.codel().into()),
            Discipline::FqCodel => {
                let FqCoDelConfig { codel, flows } = self.fq_codel(mtu);
                LinuxDiscipline::FqCodel(codel.into(), flows.into())
            }
            Discipline::Pie => LinuxDiscipline::Pie(self.pie().into()),
            Discipline::FqPie => {
                let FqPieConfig { pie, flows } = self.fq_pie(mtu);
                LinuxDiscipline::FqPie(pie.into(), flows.into())
            }
            Discipline::Sfq => LinuxDiscipline::Sfq(self.sfq(mtu).flows.into()),
        }
    }

    fn check_linux(&self, mtu: Bytes, faults: &mut Faults) {
        faults.require(self.red.is_none(), "red", || {
            "the queue of a Linux router is netem's, without RED; leave it out".into()
        });
        faults.require(self.discipline != Discipline::DualPi2, "discipline", || {
            "Linux has \"dualpi2\" since 6.17, and the guest kernel is older; write \"pie\" or \"fq_codel\", or leave out \
             router.implementation"
                .into()
        });
        faults.require(matches!(self.limit, QueueSize::Packets(_)), "limit", || {
            format!("Linux counts packets; write \"{} packets\", say", packets(self.limit, mtu))
        });
        let quantum = self.quantum.unwrap_or(mtu);
        // `fq_codel_change` and `fq_pie_change` take no less.
        let is_fq = matches!(self.discipline, Discipline::FqCodel | Discipline::FqPie);
        let least = Bytes(if is_fq { 256 } else { 1 });
        faults.require(quantum >= least, "quantum", || {
            format!("\"{quantum}\" is less than Linux' least; write \"{least}\" or more")
        });
        let flows = self.flows.unwrap_or(1);
        faults.require(self.discipline != Discipline::Sfq || flows.is_power_of_two(), "flows", || {
            format!("Linux' SFQ has a power of two; write {}", flows.next_power_of_two())
        });
    }

    /// Finds errors on the link in front of a discipline without netem. `errors` says whether there are any.
    fn check_linux_errors(&self, errors: bool, faults: &mut Faults) {
        let own = self.discipline;
        faults.require(!errors || own == Discipline::DropTail, "discipline", || {
            format!("\"{own}\" has no netem, which would lose packets; leave it out, or the table errors")
        });
    }
}

impl ErrorConfig {
    /// Finds what netem, which loses each packet by its own chance, has no counterpart of.
    pub fn check_linux(&self, faults: &mut Faults) {
        faults.require(self.arq.is_none(), "arq", || {
            "what the netem of a Linux router loses nobody sends again; leave it out".into()
        });
        let steady = !can_be_positive(&self.good) || self.packet_error_probability.get() == 0.0;
        faults.require(steady, "good", || {
            "netem loses every packet by the same chance, it has no good states; write \"0 s\"".into()
        });
    }
}

/// A limit as netem counts.
fn packets(limit: QueueSize, mtu: Bytes) -> u32 {
    match limit {
        QueueSize::Packets(packets) => packets,
        QueueSize::Bytes(bytes) => (u64::from(bytes) / mtu.0) as u32,
    }
}

/// Finds what is wrong with a rate for HTB, with packets and buckets of this size.
fn check_rate(rate: Rate, mtu: Bytes, bucket: Bytes, faults: &mut Faults) {
    let bits = rate.bits_per_second();
    let time = |bytes: Bytes| u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(bits);
    faults.require(bits.is_multiple_of(8), "", || {
        let nearest = (bits / 8).max(1) * 8;
        format!("Linux counts a rate in whole bytes per second; write \"{nearest} bit/s\"")
    });
    faults.require(time(mtu) < u128::from(DEBT_MAX.as_nanos()), "", || {
        format!(
            "a packet of {mtu} takes more than {DEBT_MAX} at \"{rate}\", which HTB cannot count; raise it"
        )
    });
    faults.require(time(bucket) <= u128::from(BUCKET_MAX.as_nanos()), "", || {
        format!("a bucket of {bucket} lasts more than {BUCKET_MAX} at \"{rate}\"; raise the rate, or make the bucket smaller")
    });
}
