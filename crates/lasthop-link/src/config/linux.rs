//! A direction as queue disciplines of Linux: what of a scenario they can be, and what they cannot.

use lasthop_core::units::{Probability, QueueSize};
use lasthop_core::{Bytes, Duration, Rate};

use super::{
    BufferRelease, ConfigError, Discipline, ErrorConfig, PathConfig, QueueConfig, can_be_positive, check,
};
use crate::config::htb::{ClassConfig, HtbConfig, tc_burst};

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
    /// This direction as Linux' queue disciplines, for packets of up to `mtu` bytes; an error names what they have no
    /// counterpart of. The send buffer is not looked at: behind them nothing holds a packet back.
    pub fn linux_queues(&self, mtu: Bytes) -> Result<LinuxQueues, ConfigError> {
        let link = &self.link;
        let class = self.htb.as_ref().map(HtbConfig::lone_class).transpose()?;
        let rate = class.map_or(link.rate, |class| class.rate);
        check(link.rate >= rate, "link.rate", || {
            format!(
                "a Linux router has one rate, that of its HTB class, but \"{}\" is below it; write at least \"{rate}\"",
                link.rate
            )
        })?;
        let burst = class.map_or(tc_burst(), |class| class.burst);
        let cburst = class.map_or(tc_burst(), |class| class.cburst);
        let rate_key = if class.is_some() { "htb.class[0].rate" } else { "link.rate" };
        rate_fits(rate, mtu, burst.max(cburst)).map_err(|reason| fault(rate_key, reason))?;
        check(!can_be_positive(&link.overhead), "link.overhead", || {
            "a Linux router needs no time of its own for a packet; leave it out".into()
        })?;
        check(link.release == BufferRelease::Serialised, "link.release", || {
            "a Linux router has no link-layer acknowledgement; write \"serialised\"".into()
        })?;
        check(link.trace.is_none(), "link.trace", || {
            "a Linux router has a rate, no trace; leave it out".into()
        })?;
        check(link.change.is_empty(), "link.change", || {
            "the rate and the delay of a Linux router stay as they are; leave it out".into()
        })?;
        let own = class.and_then(|class| class.queue.as_ref());
        let (place, queue) = own.map_or(("queue", &self.queue), |queue| ("htb.class[0].queue", queue));
        let limit = queue.packets(mtu).map_err(|(key, reason)| fault(&format!("{place}.{key}"), reason))?;
        let overhead = self.htb.as_ref().map_or(Bytes(0), |htb| htb.overhead);
        Ok(LinuxQueues { rate, burst, cburst, overhead, delay: link.delay, limit })
    }
}

impl HtbConfig {
    /// The class, if there is nothing that only several of them are for.
    fn lone_class(&self) -> Result<&ClassConfig, ConfigError> {
        let [class] = &self.class[..] else {
            let message = "a Linux router has one class for all packets; leave the others out";
            return Err(fault("htb.class", message.into()));
        };
        check(self.rate.is_none(), "htb.rate", || {
            "a Linux router has one class, which nobody lends to; leave it out".into()
        })?;
        check(class.ceil.is_none_or(|ceil| ceil == class.rate), "htb.class[0].ceil", || {
            format!(
                "a class that nobody lends to never passes its rate; write \"{}\" or leave it out",
                class.rate
            )
        })?;
        Ok(class)
    }
}

impl QueueConfig {
    /// The limit in packets; otherwise the key and what is wrong with it.
    fn packets(&self, mtu: Bytes) -> Result<u32, (&'static str, String)> {
        if self.discipline != Discipline::DropTail {
            let reason = "the queue of a Linux router is netem's, which drops at the tail; leave it out";
            return Err(("discipline", reason.into()));
        }
        if self.red.is_some() {
            return Err(("red", "the queue of a Linux router is netem's, without RED; leave it out".into()));
        }
        match self.limit {
            QueueSize::Packets(packets) => Ok(packets),
            QueueSize::Bytes(bytes) => {
                let packets = u64::from(bytes) / mtu.0;
                Err(("limit", format!("netem counts packets; write \"{packets} packets\", say")))
            }
        }
    }
}

impl ErrorConfig {
    /// The probability by which netem loses packets, each by its own chance; an error names what it has no counterpart
    /// of.
    pub fn linux_loss(&self) -> Result<Probability, ConfigError> {
        check(self.arq.is_none(), "arq", || {
            "what the netem of a Linux router loses nobody sends again; leave it out".into()
        })?;
        let steady = !can_be_positive(&self.good) || self.packet_error_probability.get() == 0.0;
        check(steady, "good", || {
            "netem loses every packet by the same chance, it has no good states; write \"0 s\"".into()
        })?;
        Ok(self.packet_error_probability)
    }
}

/// What is wrong with a rate for HTB, with packets and buckets of this size.
fn rate_fits(rate: Rate, mtu: Bytes, bucket: Bytes) -> Result<(), String> {
    let bits = rate.bits_per_second();
    let time = |bytes: Bytes| u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(bits);
    let nearest = (bits / 8).max(1) * 8;
    if !bits.is_multiple_of(8) {
        return Err(format!("Linux counts a rate in whole bytes per second; write \"{nearest} bit/s\""));
    }
    if time(mtu) >= u128::from(DEBT_MAX.as_nanos()) {
        return Err(format!(
            "a packet of {mtu} takes more than {DEBT_MAX} at \"{rate}\", which HTB cannot count"
        ));
    }
    if time(bucket) > u128::from(BUCKET_MAX.as_nanos()) {
        return Err(format!(
            "a bucket of {bucket} lasts more than {BUCKET_MAX} at \"{rate}\"; make it smaller"
        ));
    }
    Ok(())
}

fn fault(key: &str, message: String) -> ConfigError {
    ConfigError { key: key.into(), message }
}
