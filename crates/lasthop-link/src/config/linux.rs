//! A direction as queue disciplines of Linux: translation of a scenario, and checks of unsupported settings.

use lasthop_core::{Bytes, DropCause, Duration, Ecn, Faults, Packet, Probability, QueueSize, Rate};

use super::errors::can_be_positive;
use super::htb::tc_burst;
use super::{
    BufferRelease, CakeConfig, ClassConfig, CoDelConfig, DisciplineConfig, DropTailConfig, DualPi2Config,
    ErrorConfig, FlowsConfig, FqCoDelConfig, FqPieConfig, HtbConfig, LinkConfig, PathConfig, PieConfig,
    QueueConfig, RedConfig,
};

/// Maximum debt of HTB (`htb_change_class`, `mbuffer`).
const DEBT_MAX: Duration = Duration::from_secs(60);
/// HTB stores a bucket size as its duration, in 32 bits and units of 64 ns (`PSCHED_TICKS2NS`).
const BUCKET_MAX: Duration = Duration::from_nanos((u32::MAX as u64) << 6);

/// At this rate every packet takes less than 20 ns.
const NEVER_FELT: Rate = Rate::from_bits_per_second(1_000_000_000_000);

/// Bits of the number in which `sch_red` keeps its average; the bits of the weight are the fraction
/// (`red_check_params`).
const AVERAGE_BITS: u32 = u32::BITS - 1;

/// One direction as Linux' queue disciplines: the classes of HTB, and a queue discipline in each class that
/// holds packets. For a drop-tail queue without RED it is netem if there is only one class. netem delays a
/// packet before the class sends it; with other disciplines, the emulator provides the delay of the link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinuxQueues {
    /// The classes; one for all packets if the scenario has none.
    pub htb: HtbConfig,
    /// Delay of netem, or of the link after another discipline.
    pub delay: Duration,
    /// The queue discipline of each class, in order; `None` for a class that contains others.
    pub queues: Vec<Option<LinuxQueue>>,
}

/// The queue discipline of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxQueue {
    /// Its limit; with netem including delayed packets.
    pub limit: QueueSize,
    pub discipline: LinuxDiscipline,
}

/// A queue discipline of Linux and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinuxDiscipline {
    /// `sch_netem`.
    Netem,
    /// `pfifo_head_drop` of `sch_fifo`.
    HeadDrop,
    /// `pfifo` or `bfifo` of `sch_fifo`, by the unit of the limit.
    Fifo,
    /// `sch_red`.
    Red(LinuxRed),
    /// `sch_codel`.
    Codel(CoDelConfig),
    /// `sch_fq_codel`.
    FqCodel(CoDelConfig, LinuxFlows),
    /// `sch_pie`.
    Pie(PieConfig),
    /// `sch_fq_pie`.
    FqPie(PieConfig, LinuxFlows),
    /// `sch_dualpi2`, since 6.17.
    DualPi2(DualPi2Config),
    /// `sch_sfq`.
    Sfq(LinuxFlows),
    /// `sch_cake`.
    Cake(CakeConfig),
}

/// Parameters of RED, which counts bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxRed {
    /// Average above which packets are dropped or marked at random.
    pub min: u32,
    /// Average above which all packets are dropped, or marked.
    pub max: u32,
    /// The probability just below that.
    pub max_probability: Probability,
    /// The weight of a sample, as a power of one half.
    pub weight_log: u8,
    pub ecn: bool,
    /// True if those above `max` are dropped whether or not they are ECN-capable.
    pub harddrop: bool,
    pub adaptive: bool,
}

/// Parameters of a discipline with a queue for each flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinuxFlows {
    /// Queues that flows are hashed to.
    pub flows: u32,
    /// Bytes that a flow may send per round.
    pub quantum: Bytes,
}

impl LinuxQueues {
    pub fn has_netem(&self) -> bool {
        self.queues.iter().flatten().any(|queue| queue.discipline == LinuxDiscipline::Netem)
    }
}

impl LinuxDiscipline {
    /// The cause of drops other than a full queue.
    pub const fn drop_cause(self) -> DropCause {
        match self {
            Self::Netem => DropCause::LinkError,
            Self::Fifo => DropCause::QueueOverflow,
            Self::Red(_) => DropCause::Red,
            Self::Codel(_) | Self::FqCodel(..) | Self::Cake(_) => DropCause::CoDel,
            Self::Pie(_) | Self::FqPie(..) => DropCause::Pie,
            Self::DualPi2(_) => DropCause::DualPi2,
            Self::Sfq(_) => DropCause::LongestFlow,
            Self::HeadDrop => DropCause::PushedOut,
        }
    }

    /// True if it never drops an accepted packet.
    pub const fn drops_arrivals_only(self) -> bool {
        matches!(self, Self::Netem | Self::Fifo | Self::Red(_) | Self::Pie(_) | Self::FqPie(..))
    }

    /// True if a full queue accepts every arrival and drops another packet.
    pub const fn takes_arrivals(self) -> bool {
        matches!(self, Self::HeadDrop)
    }

    /// The inner queue of a packet. Packets of different inner queues can overtake each other.
    pub const fn queue_of(self, packet: &Packet) -> u32 {
        match self {
            Self::FqCodel(..) | Self::FqPie(..) | Self::Sfq(_) | Self::Cake(_) => packet.flow.0,
            Self::DualPi2(_) => matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce) as u32,
            _ => 0,
        }
    }
}

impl From<&RedConfig> for LinuxRed {
    fn from(red: &RedConfig) -> Self {
        Self {
            min: number(red.min),
            max: number(red.max),
            max_probability: red.max_probability,
            weight_log: weight_log(red.weight),
            ecn: red.ecn,
            harddrop: red.harddrop,
            adaptive: red.adaptive,
        }
    }
}

impl FlowsConfig {
    fn linux(self, mtu: Bytes) -> LinuxFlows {
        LinuxFlows { flows: self.flows, quantum: self.quantum.unwrap_or(mtu) }
    }
}

impl PathConfig {
    /// This direction as Linux' queue disciplines; it must have passed [`PathConfig::check_linux`]. The send
    /// buffer is ignored: nothing after them delays a packet.
    pub fn linux_queues(&self, mtu: Bytes) -> LinuxQueues {
        let htb = self.htb.clone().unwrap_or_else(|| HtbConfig::of_one(self.link.rate));
        let is_alone = htb.class.len() == 1;
        let queue = |index: usize| {
            let queue = htb.class[index].queue.as_ref().unwrap_or(&self.queue);
            let discipline = queue.linux_discipline(mtu, is_alone);
            htb.is_leaf(index).then_some(LinuxQueue { limit: queue.limit, discipline })
        };
        let queues = (0..htb.class.len()).map(queue).collect();
        LinuxQueues { queues, htb, delay: self.link.delay }
    }

    /// The link after the classes: its delay, with a rate and a buffer that have no effect.
    pub(crate) fn linux_link(&self, mtu: Bytes) -> LinkConfig {
        LinkConfig { rate: NEVER_FELT, send_buffer: Bytes(2 * mtu.0), ..self.link.clone() }
    }

    /// Finds settings without a counterpart in Linux' queue disciplines, for packets of up to `mtu` bytes.
    /// `errors` is true if the link loses packets.
    pub fn check_linux(&self, mtu: Bytes, errors: bool, faults: &mut Faults) {
        let is_alone = self.htb.as_ref().is_none_or(|htb| htb.class.len() == 1);
        let check_queue = |queue: &QueueConfig, faults: &mut Faults| {
            queue.check_linux(mtu, is_alone, faults);
            queue.check_linux_errors(errors, is_alone, faults);
        };
        for (key, stated) in [("policer", self.policer.is_some()), ("blackhole", self.blackhole.is_some())] {
            faults.require(!stated, key, || {
                "a Linux router supports only queue disciplines; leave it out".into()
            });
        }
        faults.below("link", |faults| self.link.check_linux(faults));
        faults.require(self.grant.is_none(), "grant", || {
            "a Linux router does not request grants; leave it out".into()
        });
        if self.htb.as_ref().is_none_or(|htb| htb.leaves().any(|class| class.queue.is_none())) {
            faults.below("queue", |faults| check_queue(&self.queue, faults));
        }
        let Some(htb) = &self.htb else {
            faults.below("link.rate", |faults| check_rate(self.link.rate, mtu, tc_burst(), faults));
            return;
        };
        let most = htb.most_bits();
        faults.require(self.link.rate.bits_per_second() >= most, "link.rate", || {
            let most = Rate::from_bits_per_second(most);
            format!(
                "a Linux router applies only the rates of its HTB classes, up to \"{most}\", but \"{}\" is \
                 below that; write at least \"{most}\"",
                self.link.rate
            )
        });
        faults.below("htb", |faults| htb.check_linux(mtu, faults));
        for (index, class) in htb.class.iter().enumerate() {
            if let Some(queue) = &class.queue {
                faults.below(&format!("htb.class[{index}].queue"), |faults| check_queue(queue, faults));
            }
        }
    }
}

impl HtbConfig {
    /// One class for all packets.
    fn of_one(rate: Rate) -> Self {
        let class = ClassConfig {
            name: String::new(),
            parent: None,
            rate,
            ceil: None,
            priority: 0,
            quantum: None,
            burst: tc_burst(),
            cburst: tc_burst(),
            matches: Vec::new(),
            default: true,
            queue: None,
        };
        Self { rate: None, burst: tc_burst(), overhead: Bytes(0), class: vec![class] }
    }

    /// Rejects rates that Linux cannot represent.
    fn check_linux(&self, mtu: Bytes, faults: &mut Faults) {
        if let Some(rate) = self.rate {
            faults.below("rate", |faults| check_rate(rate, mtu, self.burst, faults));
        }
        for (index, class) in self.class.iter().enumerate() {
            faults.below(&format!("class[{index}]"), |faults| {
                let ceil = class.ceil.unwrap_or(class.rate);
                let bucket = if ceil == class.rate { class.burst.max(class.cburst) } else { class.burst };
                faults.below("rate", |faults| check_rate(class.rate, mtu, bucket, faults));
                if ceil != class.rate {
                    faults.below("ceil", |faults| check_rate(ceil, mtu, class.cburst, faults));
                }
            });
        }
    }
}

impl LinkConfig {
    fn check_linux(&self, faults: &mut Faults) {
        faults.require(!can_be_positive(&self.overhead), "overhead", || {
            "a Linux router has no per-packet overhead; leave it out".into()
        });
        faults.require(self.release == BufferRelease::Serialised, "release", || {
            "a Linux router has no link-layer acknowledgement; write \"serialised\"".into()
        });
        let errors = "supports no impairment other than [errors]; leave it out";
        for (key, stated, why) in [
            (
                "header_compression",
                self.header_compression.is_some(),
                "does not compress headers; leave it out",
            ),
            (
                "receive_buffer",
                self.receive_buffer.is_some(),
                "has no buffer at the receiving side; leave it out",
            ),
            ("trace", self.trace.is_some(), "does not support traces; leave it out"),
            ("course", self.course.is_some(), "does not support courses; leave it out"),
            (
                "framing",
                self.framing.is_some(),
                "adds framing in HTB; leave it out, and write htb.overhead instead",
            ),
            ("loss", self.loss.is_some(), errors),
            ("bit_error_rate", self.bit_error_rate.is_some(), errors),
            ("gilbert_elliott", self.gilbert_elliott.is_some(), errors),
            ("errors", self.errors.is_some(), errors),
            ("jitter", self.jitter.is_some(), errors),
            ("slots", self.slots.is_some(), errors),
            ("corrupt", self.corrupt.is_some(), errors),
            ("duplicate", self.duplicate.is_some(), errors),
        ] {
            faults.require(!stated, key, || format!("a Linux router {why}"));
        }
        faults.require(self.change.is_empty(), "change", || {
            "the rate and the delay of a Linux router are constant; leave it out".into()
        });
    }
}

impl QueueConfig {
    fn linux_discipline(&self, mtu: Bytes, is_alone: bool) -> LinuxDiscipline {
        match &self.discipline {
            DisciplineConfig::DropTail(DropTailConfig { red: Some(red) }) => LinuxDiscipline::Red(red.into()),
            // `check_linux` rejects the latter two.
            DisciplineConfig::DropTail(_) | DisciplineConfig::RandomDrop | DisciplineConfig::User { .. } => {
                if is_alone {
                    LinuxDiscipline::Netem
                } else {
                    LinuxDiscipline::Fifo
                }
            }
            DisciplineConfig::DropHead => LinuxDiscipline::HeadDrop,
            DisciplineConfig::Codel(codel) => LinuxDiscipline::Codel(*codel),
            DisciplineConfig::FqCodel(FqCoDelConfig { codel, flows }) => {
                LinuxDiscipline::FqCodel(*codel, flows.linux(mtu))
            }
            DisciplineConfig::Pie(pie) => LinuxDiscipline::Pie(*pie),
            DisciplineConfig::FqPie(FqPieConfig { pie, flows }) => {
                LinuxDiscipline::FqPie(*pie, flows.linux(mtu))
            }
            DisciplineConfig::DualPi2(dual_pi2) => LinuxDiscipline::DualPi2(*dual_pi2),
            DisciplineConfig::Sfq(flows) => LinuxDiscipline::Sfq(flows.linux(mtu)),
            DisciplineConfig::Cake(cake) => LinuxDiscipline::Cake(*cake),
        }
    }

    fn check_linux(&self, mtu: Bytes, is_alone: bool, faults: &mut Faults) {
        match &self.discipline {
            DisciplineConfig::RandomDrop => faults.require(false, "discipline", || {
                "Linux has no random drop; write \"drop-head\", or leave out router.implementation".into()
            }),
            DisciplineConfig::User { .. } => faults.require(false, "discipline", || {
                "a Linux router cannot run a custom discipline; write one of Linux', or leave out \
                 router.implementation"
                    .into()
            }),
            _ => {}
        }
        match &self.discipline {
            DisciplineConfig::DropTail(DropTailConfig { red: Some(red) }) => {
                check_bytes("RED", self.limit, mtu, "limit", faults);
                faults.below("red", |faults| red.check_linux(mtu, faults));
            }
            DisciplineConfig::Cake(cake) => {
                check_bytes("CAKE", self.limit, mtu, "limit", faults);
                if let Some(rate) = cake.rate {
                    let bits = rate.bits_per_second();
                    faults.require(bits.is_multiple_of(8), "rate", || whole_bytes(bits));
                }
            }
            DisciplineConfig::DropTail(_) if !is_alone => {}
            _ => faults.require(matches!(self.limit, QueueSize::Packets(_)), "limit", || {
                format!(
                    "Linux counts packets; write for example \"{} packets\"",
                    u64::from(number(self.limit)) / mtu.0
                )
            }),
        }
        match &self.discipline {
            DisciplineConfig::FqCodel(FqCoDelConfig { flows, .. })
            | DisciplineConfig::FqPie(FqPieConfig { flows, .. }) => {
                let quantum = flows.quantum.unwrap_or(mtu);
                // `fq_codel_change` and `fq_pie_change` accept no less.
                faults.require(quantum >= Bytes(256), "quantum", || {
                    format!("\"{quantum}\" is below Linux' minimum; write \"256 B\" or more")
                });
            }
            DisciplineConfig::Sfq(FlowsConfig { flows, .. }) => {
                faults.require(flows.is_power_of_two(), "flows", || {
                    format!("Linux' SFQ needs a power of two; write {}", flows.next_power_of_two())
                });
            }
            _ => {}
        }
    }

    /// Finds link errors with a discipline other than netem. `errors` is true if there are any.
    fn check_linux_errors(&self, errors: bool, is_alone: bool, faults: &mut Faults) {
        let (key, own) = match self.red() {
            Some(_) => ("red", "RED".into()),
            None => ("discipline", format!("\"{}\"", self.discipline)),
        };
        let is_drop_tail = self.discipline == DisciplineConfig::default();
        faults.require(!errors || is_drop_tail, key, || {
            format!(
                "{own} has no netem, so packets cannot be lost; leave out the discipline, or the table errors"
            )
        });
        faults.require(!errors || !is_drop_tail || is_alone, "", || {
            "with several classes there is no netem, so packets cannot be lost; leave out the table errors"
                .into()
        });
    }
}

impl RedConfig {
    /// Finds settings without a counterpart in `sch_red`, for packets of up to `mtu` bytes.
    fn check_linux(&self, mtu: Bytes, faults: &mut Faults) {
        let packet = self.avpkt.unwrap_or(mtu);
        check_bytes("RED", self.min, packet, "min", faults);
        check_bytes("RED", self.max, packet, "max", faults);
        faults.require(!self.gentle, "gentle", || "Linux' RED has no gentle variant; leave it out".into());
        let log_max = (AVERAGE_BITS - number(self.max).max(1).ilog2()).saturating_sub(1);
        let log = u32::from(weight_log(self.weight));
        let nearest = power_of_a_half(log.min(log_max));
        faults.require(log <= log_max, "weight", || {
            format!("too low for Linux, whose average up to max has 32 bits; write {nearest} or more")
        });
        faults.require(log > log_max || self.weight.get().to_bits() == nearest.to_bits(), "weight", || {
            format!("Linux' RED needs a power of 1/2; write {nearest} (2^-{log})")
        });
    }
}

impl ErrorConfig {
    /// Finds settings without a counterpart in netem, which loses packets independently.
    pub fn check_linux(&self, faults: &mut Faults) {
        faults.require(self.arq.is_none(), "arq", || {
            "a Linux router does not retransmit the packets that netem loses; leave it out".into()
        });
        faults.require(self.bit_error_rate.is_none(), "bit_error_rate", || {
            "netem's loss does not depend on packet length; write packet_error_probability".into()
        });
        let steady = !can_be_positive(&self.good) || !self.can_hit();
        faults.require(steady, "good", || {
            "netem has a constant loss probability and no good states; write \"0 s\"".into()
        });
    }
}

/// The number of packets or bytes.
const fn number(size: QueueSize) -> u32 {
    match size {
        QueueSize::Packets(number) | QueueSize::Bytes(number) => number,
    }
}

/// Finds a number of packets where Linux counts bytes. `packet` is the length of a packet.
fn check_bytes(name: &str, size: QueueSize, packet: Bytes, key: &str, faults: &mut Faults) {
    faults.require(matches!(size, QueueSize::Bytes(_)), key, || {
        format!("Linux' {name} counts bytes; write for example \"{} B\"", u64::from(number(size)) * packet.0)
    });
}

/// The power of one half that is nearest to a weight, by ratio.
fn weight_log(weight: Probability) -> u8 {
    libm::round(-libm::log2(weight.get().max(f64::MIN_POSITIVE))) as u8
}

fn power_of_a_half(log: u32) -> f64 {
    libm::exp2(-f64::from(log))
}

fn whole_bytes(bits: u64) -> String {
    let nearest = (bits / 8).max(1) * 8;
    format!("Linux counts a rate in whole bytes per second; write \"{nearest} bit/s\"")
}

/// Finds faults of a rate for HTB, with packets and buckets of this size.
fn check_rate(rate: Rate, mtu: Bytes, bucket: Bytes, faults: &mut Faults) {
    let bits = rate.bits_per_second();
    let time = |bytes: Bytes| u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(bits);
    faults.require(bits.is_multiple_of(8), "", || whole_bytes(bits));
    faults.require(time(mtu) < u128::from(DEBT_MAX.as_nanos()), "", || {
        format!(
            "a packet of {mtu} takes more than {DEBT_MAX} at \"{rate}\", which HTB cannot count; raise it"
        )
    });
    faults.require(time(bucket) <= u128::from(BUCKET_MAX.as_nanos()), "", || {
        format!(
            "a bucket of {bucket} lasts more than {BUCKET_MAX} at \"{rate}\"; raise the rate, or make \
             the bucket smaller"
        )
    });
}
