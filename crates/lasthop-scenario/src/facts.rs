//! Facts of a scenario for stories and pictures of its runs, so that none of them derives these facts again.

use std::collections::BTreeMap;

use lasthop_core::{Direction, QueueSize};
use lasthop_link::{ClassConfig, PathConfig, QueueConfig};
use lasthop_tcp::TcpConfig;
use lasthop_traffic::Voice;
use serde::Serialize;

use crate::types::Scenario;

/// Facts of a scenario. Directions are named `down` and `up`; times are in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Facts<'a> {
    /// Applications, by their names in the records.
    pub applications: BTreeMap<String, ApplicationFacts<'a>>,
    /// Delay from a failed transmission to the next one (ARQ); 0 without ARQ.
    pub retry_delay_ns: BTreeMap<&'static str, u64>,
    /// The queues of the router, in the order of the scenario, or that of the ATM switch.
    pub queues: BTreeMap<&'static str, Vec<QueueFacts>>,
}

/// Facts of an application.
#[derive(Debug, Serialize)]
pub struct ApplicationFacts<'a> {
    /// The `kind` of its flows.
    pub kind: &'static str,
    /// The TCP of its ends, if TCP carries it.
    pub tcp: &'a TcpConfig,
    /// Present for a call.
    pub voice: Option<VoiceFacts>,
}

/// Properties of a call that determine its quality, apart from the network; see [`Voice`].
#[derive(Debug, Serialize)]
pub struct VoiceFacts {
    codec: &'static str,
    frame_ns: u64,
    codec_delay_ns: u64,
    jitter_buffer_ns: u64,
    impairment: f64,
    loss_robustness: f64,
    /// The longest gap that concealment fills; `None` if it has no end.
    conceals_ns: Option<u64>,
}

/// Facts of a queue.
#[derive(Debug, Serialize)]
pub struct QueueFacts {
    /// Name of its class; empty if it is the only queue.
    pub name: String,
    /// True if RED's average is in bytes.
    pub red_in_bytes: bool,
}

impl From<Voice> for VoiceFacts {
    fn from(voice: Voice) -> Self {
        Self {
            codec: voice.codec,
            frame_ns: voice.frame.as_nanos(),
            codec_delay_ns: voice.codec_delay.as_nanos(),
            jitter_buffer_ns: voice.jitter_buffer.as_nanos(),
            impairment: voice.impairment,
            loss_robustness: voice.loss_robustness,
            conceals_ns: voice.conceals.map(lasthop_core::Duration::as_nanos),
        }
    }
}

impl QueueFacts {
    fn of(name: &str, queue: &QueueConfig) -> Self {
        let red_in_bytes = queue.red.as_ref().is_some_and(|red| matches!(red.min, QueueSize::Bytes(_)));
        Self { name: name.to_owned(), red_in_bytes }
    }

    /// The queues of one direction of a last hop, or of an ATM switch.
    fn all(side: Option<&PathConfig>) -> Vec<Self> {
        let Some(path) = side else { return vec![Self { name: String::new(), red_in_bytes: false }] };
        let Some(htb) = &path.htb else { return vec![Self::of("", &path.queue)] };
        let class = |class: &ClassConfig| Self::of(&class.name, class.queue.as_ref().unwrap_or(&path.queue));
        htb.class.iter().map(class).collect()
    }
}

impl Scenario {
    /// The facts for stories and pictures.
    pub fn facts(&self) -> Facts<'_> {
        let applications = self.applications().into_iter().map(|instance| {
            let facts = ApplicationFacts {
                kind: instance.config.kind(),
                tcp: self.tcp_of(&instance),
                voice: instance.config.traffic().voice().map(VoiceFacts::from),
            };
            (instance.application().to_owned(), facts)
        });
        let sides =
            [Direction::Down, Direction::Up].map(|direction| (direction.name(), self.side(direction)));
        Facts {
            applications: applications.collect(),
            retry_delay_ns: sides.iter().map(|&(name, side)| (name, self.retry_delay_ns(side))).collect(),
            queues: sides.iter().map(|&(name, side)| (name, QueueFacts::all(side))).collect(),
        }
    }

    fn retry_delay_ns(&self, side: Option<&PathConfig>) -> u64 {
        let errors = side.and_then(|path| path.link.errors.as_ref()).or(self.errors.as_ref());
        let arq = errors.and_then(|errors| errors.arq.as_ref());
        arq.map_or(0, |arq| arq.delay.as_nanos())
    }
}
