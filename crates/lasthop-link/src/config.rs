//! The configuration of the last hop. Each mechanism has its own file with its keys, their defaults and the
//! checks across keys.

use lasthop_core::{Bytes, Faults, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blackhole::BlackholeConfig;

pub(crate) mod cake;
pub(crate) mod cell;
mod codel;
mod course;
mod dual_pi2;
mod errors;
mod fair;
mod framing;
pub(crate) mod grant;
pub(crate) mod htb;
mod impairments;
mod link;
pub(crate) mod linux;
mod medium;
mod pie;
mod policer;
mod queue;
mod red;
#[cfg(test)]
mod tests;
pub(crate) mod wifi;

pub use cake::{AckFilter, CakeConfig, Isolation, Tins};
pub use cell::{CellConfig, CellUp, CellUser, DrxConfig, HarqConfig, Scheduler};
pub use codel::{CoDelConfig, FqCoDelConfig};
pub use course::{CourseConfig, DrawnCourse, Epochs, StateConfig, States, Walk};
pub use dual_pi2::DualPi2Config;
pub use errors::{ArqConfig, ErrorConfig, Start, StateLookup};
pub use fair::FlowsConfig;
pub use framing::Framing;
pub use grant::{GrantConfig, RequestKind};
pub use htb::{ClassConfig, HtbConfig, MatchConfig};
pub use impairments::GilbertElliott;
pub use link::{
    BufferRelease, HeaderCompression, LinkChange, LinkConfig, SlotsConfig, UserErrors, check_delay,
};
pub use linux::{LinuxDiscipline, LinuxFlows, LinuxQueue, LinuxQueues, LinuxRed};
pub use medium::{MediumConfig, MediumSetup};
pub use pie::{FqPieConfig, PieConfig};
pub use policer::PolicerConfig;
pub use queue::{DisciplineConfig, QueueConfig, UserDiscipline};
pub use red::{DropTailConfig, RedConfig};
pub(crate) use wifi::WINDOW;
pub use wifi::{Standard, WifiConfig, WifiQueue, WifiStation};

/// One direction of the last hop: the router queue, then the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// A policer in front of the queue, which drops packets above its rate; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerConfig>,
    /// A period in which every packet that arrives here is lost; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blackhole: Option<BlackholeConfig>,
    /// The router queue in front of the link; with classes, the default queue of each class.
    pub queue: QueueConfig,
    /// Classes of packets in front of the link, each with a queue; if absent, one queue for all packets.
    pub htb: Option<HtbConfig>,
    /// Grants that the sender must request before it sends; if absent, it sends without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantConfig>,
    /// The link itself.
    pub link: LinkConfig,
}

impl PathConfig {
    /// The capacity in bit/s of IP packets of `ip_bytes` bytes, from the start and after each change of the
    /// link's rate: that rate, or the limit of HTB. During an outage it is 0.
    pub fn ip_rates(&self, ip_bytes: u32) -> Vec<(Instant, f64)> {
        let framed = self.link.framing.map_or(ip_bytes, |framing| framing.bytes(ip_bytes));
        let share = f64::from(ip_bytes) / f64::from(framed);
        let shaped = self.shaped_ip_rate(ip_bytes);
        let rates = self.link.rates();
        rates.map(|(since, rate)| (since, shaped.min(rate * share))).collect()
    }

    /// Rejects a rate of CAKE in one of several classes: HTB cannot skip a queue that holds packets back.
    fn check_one_shaper(&self, htb: &HtbConfig, faults: &mut Faults) {
        let mut check = |queue: &QueueConfig, key: &str| {
            let has_rate = queue.cake().is_some_and(|cake| cake.rate.is_some());
            faults.require(!has_rate || htb.class.len() == 1, key, || {
                "HTB uses the rates of its classes; leave it out, or write one class only".into()
            });
        };
        check(&self.queue, "queue.rate");
        for (index, class) in htb.class.iter().enumerate() {
            if let Some(queue) = &class.queue {
                check(queue, &format!("htb.class[{index}].queue.rate"));
            }
        }
    }

    /// The rate that HTB or CAKE allows, in bit/s of IP packets of `ip_bytes` bytes.
    pub(crate) fn shaped_ip_rate(&self, ip_bytes: u32) -> f64 {
        let of = |queue: &QueueConfig| queue.cake().map_or(f64::INFINITY, |cake| cake.ip_rate(ip_bytes));
        match &self.htb {
            None => of(&self.queue),
            Some(htb) => match &htb.class[..] {
                [class] => of(class.queue.as_ref().unwrap_or(&self.queue)).min(htb.ip_rate(ip_bytes)),
                _ => htb.ip_rate(ip_bytes),
            },
        }
    }

    /// Notes a setting of the queue that is probably unintended.
    pub fn note(&self, mtu: Bytes) -> Option<String> {
        self.htb.is_none().then(|| self.queue.note(self.link.rate, mtu))?
    }

    /// Finds faults of a direction of a last hop, with packets of up to `mtu` bytes.
    pub fn check(&self, mtu: Bytes, faults: &mut Faults) {
        if let Some(policer) = self.policer {
            faults.below("policer", |faults| policer.check(mtu, faults));
        }
        if let Some(blackhole) = self.blackhole {
            faults.below("blackhole", |faults| blackhole.check(faults));
        }
        let classes: Vec<_> = self.htb.iter().flat_map(HtbConfig::leaves).collect();
        let is_shared = classes.iter().any(|class| class.queue.is_none());
        let queues = if is_shared { classes.len() } else { 1 };
        faults.below("queue", |faults| self.queue.check(mtu, queues, faults));
        if let Some(htb) = &self.htb {
            self.check_one_shaper(htb, faults);
            faults.below("htb", |faults| htb.check(mtu, faults));
        }
        faults.below("link", |faults| self.link.check(mtu, faults));
        if let Some(grant) = &self.grant {
            faults.below("grant", |faults| grant.check(self, faults));
        }
    }
}
