//! A direction as queue disciplines of Linux: what of a scenario they can be, and what they cannot.

use lasthop_core::{Bytes, Duration, Faults, QueueSize, Rate};

use super::errors::can_be_positive;
use super::htb::tc_burst;
use super::{
    BufferRelease, ClassConfig, Discipline, ErrorConfig, HtbConfig, LinkConfig, PathConfig, QueueConfig,
};

/// Most debt that HTB keeps (`htb_change_class`, `mbuffer`).
const DEBT_MAX: Duration = Duration::from_secs(60);
/// A bucket is told to HTB as the time it lasts, in 32 bits of 64 ns (`PSCHED_TICKS2NS`).
const BUCKET_MAX: Duration = Duration::from_nanos((u32::MAX as u64) << 6);

/// One direction as Linux' queue disciplines: a single class of HTB and netem in it, which delays a packet before
/// the class lets it go.
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
    /// Delay of netem.
    pub delay: Duration,
    /// Packets that netem holds at most, delayed or waiting for the class.
    pub limit: u32,
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
        }
    }

    fn lone_class(&self) -> Option<&ClassConfig> {
        self.htb.as_ref()?.class.first()
    }

    /// Finds what Linux' queue disciplines have no counterpart of, for packets of up to `mtu` bytes.
    pub fn check_linux(&self, mtu: Bytes, faults: &mut Faults) {
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
        faults.below(place, |faults| queue.check_linux(mtu, faults));
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
        faults.require(self.change.is_empty(), "change", || {
            "the rate and the delay of a Linux router stay as they are; leave it out".into()
        });
    }
}

impl QueueConfig {
    fn check_linux(&self, mtu: Bytes, faults: &mut Faults) {
        faults.require(self.discipline == Discipline::DropTail, "discipline", || {
            "the queue of a Linux router is netem's, which drops at the tail; leave it out".into()
        });
        faults.require(self.red.is_none(), "red", || {
            "the queue of a Linux router is netem's, without RED; leave it out".into()
        });
        faults.require(matches!(self.limit, QueueSize::Packets(_)), "limit", || {
            format!("netem counts packets; write \"{} packets\", say", packets(self.limit, mtu))
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
