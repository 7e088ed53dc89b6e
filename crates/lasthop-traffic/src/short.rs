//! Short transfers: the mobile host asks, the fixed host answers with some full segments and closes. One after
//! another, or at random times whatever is under way.

use lasthop_core::{
    Bytes, Distribution, Duration, Faults, FlowId, Instant, Probability, RandomStream, Sampler, Segment,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{COUNT_MAX, OBJECT_MAX};

#[cfg(test)]
mod tests;

/// Short transfers, each over a connection of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortFlowsConfig {
    /// Name in the records, where a flow of its own has one.
    pub name: String,
    /// Full segments of each response.
    pub packets: u32,
    /// Size of each request.
    pub request: Bytes,
    /// When the first one may start.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// What the next one waits for.
    pub arrivals: Arrivals,
    /// TCP of the fixed host and window of the mobile one; each flow draws one of these, all equally likely.
    pub hosts: Vec<ShortHosts>,
}

/// When short transfers start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// One after another: the next one starts so long after the response is there, or the connection given up.
    Sequential {
        /// From one to the next.
        gap: Distribution<Duration>,
    },
    /// A Poisson process, whatever is under way.
    Poisson {
        /// Load that the responses' packets offer, as a share of the bottleneck.
        load: Probability,
    },
}

/// What the hosts of some of the short transfers do other than `[tcp]` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortHosts {
    /// What results of these are called.
    pub name: String,
    /// Initial congestion window in segments.
    pub initial_window: u32,
    /// Advertised window at first, in segments.
    pub receive_window_initial: u32,
}

impl ShortFlowsConfig {
    pub(crate) fn check(&self, faults: &mut Faults) {
        faults.in_range(self.packets, 1..=COUNT_MAX, "packets");
        faults.in_range(self.request, Bytes(1)..=OBJECT_MAX, "request");
        if let Arrivals::Poisson { load } = self.arrivals {
            faults
                .require(load.get() > 0.0, "arrivals.load", || "nothing ever starts; write 0.5, say".into());
        }
        faults.require(!self.hosts.is_empty(), "hosts", || {
            "is empty; add { name = \"iw3\", initial_window = 3, receive_window_initial = 4 }, say".into()
        });
        for (index, hosts) in self.hosts.iter().enumerate() {
            faults.below(&format!("hosts[{index}]"), |faults| hosts.check(&self.hosts[..index], faults));
        }
    }
}

impl ShortHosts {
    fn check(&self, earlier: &[Self], faults: &mut Faults) {
        let Self { name, initial_window, receive_window_initial } = self;
        let is_taken = earlier.iter().any(|other| other.name == *name);
        faults.require(!is_taken && !name.is_empty(), "name", || {
            format!("{name:?} is empty or taken; write \"iw{initial_window}\", say")
        });
        faults.in_range(*initial_window, 1..=Segment::WINDOW_MAX, "initial_window");
        faults.in_range(*receive_window_initial, 2..=Segment::WINDOW_MAX, "receive_window_initial");
    }
}

/// The transfers at work.
#[derive(Clone, Debug)]
pub struct ShortFlows {
    arrivals: Sampler<Duration>,
    sequential: bool,
    hosts: u32,
    stream: RandomStream,
    next: Option<Instant>,
    /// The one that the next one waits for.
    current: Option<FlowId>,
}

impl ShortFlows {
    /// Transfers of which the first starts at `start`, or in a Poisson process the mean interval later on average;
    /// `response_time` is how long the bottleneck takes for one response.
    pub fn new(
        config: &ShortFlowsConfig,
        start: Instant,
        response_time: Duration,
        mut stream: RandomStream,
    ) -> Self {
        let (mut arrivals, sequential) = match &config.arrivals {
            Arrivals::Sequential { gap } => (gap.sampler(), true),
            Arrivals::Poisson { load } => (poisson_interval(response_time, *load).sampler(), false),
        };
        let first = if sequential { start } else { start + arrivals.sample(&mut stream) };
        let hosts = config.hosts.len() as u32;
        Self { arrivals, sequential, hosts, stream, next: Some(first), current: None }
    }

    /// When the next one starts, as far as is known.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    /// Starts the one that is due by `now`, as `flow`; returns the index of its hosts.
    pub fn poll_start(&mut self, now: Instant, flow: FlowId) -> Option<usize> {
        let due = self.next.take_if(|next| *next <= now)?;
        if self.sequential {
            self.current = Some(flow);
        } else {
            self.next = Some(due + self.arrivals.sample(&mut self.stream));
        }
        Some((self.stream.unit() * f64::from(self.hosts)) as usize)
    }

    /// The response of `flow` is there, or its connection is given up.
    pub fn handle_over(&mut self, now: Instant, flow: FlowId) {
        if self.current.take_if(|current| *current == flow).is_some() {
            self.next = Some(now + self.arrivals.sample(&mut self.stream));
        }
    }
}

fn poisson_interval(response_time: Duration, load: Probability) -> Distribution<Duration> {
    let mean = Duration::from_nanos((response_time.as_nanos() as f64 / load.get()) as u64);
    Distribution::Exponential { mean, min: None, max: None, cut: lasthop_core::Cut::Redraw }
}
