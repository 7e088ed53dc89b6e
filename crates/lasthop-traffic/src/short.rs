//! Short transfers: the mobile host asks, the fixed host answers with some full segments and closes. One after
//! another, or at random times whatever is under way.

use std::collections::VecDeque;

use lasthop_core::{
    Bytes, Distribution, Duration, Faults, Host, Instant, News, Probability, RandomStream, Sampler,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::offer::cautious_mean;
use crate::{
    Action, Application, COUNT_MAX, Content, HttpConfig, OBJECT_MAX, Offer, Outlook, Program, ShortHosts,
    Surroundings, Traffic,
};

#[cfg(test)]
mod tests;

/// So many seconds, and round trips, does a transfer last whose packets get through.
const LASTS: (f64, f64) = (5.0, 20.0);
/// Packets of a handshake, and what is sent again and again before a transfer is given up.
const HANDSHAKE: f64 = 20.0;

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

impl Traffic for ShortFlowsConfig {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self) -> &Distribution<Duration> {
        &self.start
    }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
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

    fn number_key(&self) -> Option<&'static str> {
        Some("arrivals")
    }

    fn only_down(&self) -> Option<&'static str> {
        Some("short flows are answers of the fixed host")
    }

    fn flow_names(&self, _name: &str, _http: Option<&HttpConfig>) -> Vec<String> {
        Vec::new()
    }

    fn caller(&self, _sender: Host) -> Host {
        Host::Client
    }

    fn later_flows(&self) -> &[ShortHosts] {
        &self.hosts
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let bits = f64::from(self.packets) * around.mtu.0 as f64 * 8.0;
        let on_link = bits / if around.down_bps > 0.0 { around.down_bps } else { 1.0 };
        let (passing, passing_at_once, load) = match &self.arrivals {
            Arrivals::Sequential { gap } => {
                let each = cautious_mean(gap) / 1e9 + around.round_trip.max(on_link);
                (around.limit / each.max(1e-9), 1.0, 0.0)
            }
            Arrivals::Poisson { load } => {
                let per_second = load.get() / on_link.max(1e-9);
                let lasts = LASTS.0 + LASTS.1 * around.round_trip;
                (1.1 * per_second * around.limit, per_second * lasts, load.get())
            }
        };
        let streaming = passing * (2.0 * f64::from(self.packets) + HANDSHAKE);
        Offer { streaming, flows: 0.0, passing, passing_at_once, load, ..around.flow() }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let bits = f64::from(self.packets) * around.mtu.0 as f64 * 8.0;
        let response_time = Duration::from_nanos((bits / around.bottleneck_bps * 1e9) as u64);
        let stream = around.seed.stream(&format!("short.{}", around.name));
        let response = u64::from(self.packets) * u64::from(around.segment_bytes);
        let writes = (response, around.write_bytes);
        Program::ShortFlows(ShortFlows::new(self, start, response_time, writes, stream))
    }
}

/// The transfers at work.
#[derive(Clone, Debug)]
pub struct ShortFlows {
    arrivals: Sampler<Duration>,
    sequential: bool,
    hosts: u32,
    request: u64,
    response: u64,
    write_bytes: u64,
    stream: RandomStream,
    next: Option<Instant>,
    /// How many have been started.
    started: u32,
    /// The one that the next one waits for.
    current: Option<u32>,
    actions: VecDeque<Action>,
}

impl ShortFlows {
    /// Transfers of which the first starts at `start`, or in a Poisson process the mean interval later on average;
    /// `response_time` is how long the bottleneck takes for one response, of `response` bytes in writes of `write_bytes`.
    pub fn new(
        config: &ShortFlowsConfig,
        start: Instant,
        response_time: Duration,
        (response, write_bytes): (u64, u64),
        mut stream: RandomStream,
    ) -> Self {
        let (mut arrivals, sequential) = match &config.arrivals {
            Arrivals::Sequential { gap } => (gap.sampler(), true),
            Arrivals::Poisson { load } => (poisson_interval(response_time, *load).sampler(), false),
        };
        let first = if sequential { start } else { start + arrivals.sample(&mut stream) };
        Self {
            arrivals,
            sequential,
            hosts: config.hosts.len() as u32,
            request: config.request.0,
            response,
            write_bytes,
            stream,
            next: Some(first),
            started: 0,
            current: None,
            actions: VecDeque::new(),
        }
    }

    fn write(&mut self, flow: u32, host: Host, bytes: u64, write_bytes: u64) {
        let content = Content::Filler;
        self.actions.push_back(Action::Write { flow, host, bytes, write_bytes, content });
    }

    /// The response on `flow` is there, or its connection is given up.
    fn handle_over(&mut self, now: Instant, flow: u32) {
        if self.current.take_if(|current| *current == flow).is_some() {
            self.next = Some(now + self.arrivals.sample(&mut self.stream));
        }
    }
}

impl Application for ShortFlows {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    /// Starts the transfer that is due.
    fn handle_wakeup(&mut self, now: Instant) {
        let Some(due) = self.next.take_if(|next| *next <= now) else { return };
        let flow = self.started;
        self.started += 1;
        if self.sequential {
            self.current = Some(flow);
        } else {
            self.next = Some(due + self.arrivals.sample(&mut self.stream));
        }
        let hosts = (self.stream.unit() * f64::from(self.hosts)) as usize;
        self.actions.extend([Action::Open { flow, hosts }, Action::Connect { flow, host: Host::Client }]);
        self.write(flow, Host::Client, self.request, self.request);
    }

    fn handle_news(&mut self, now: Instant, flow: u32, host: Host, news: News) {
        match host {
            Host::Server if news.received == Some(self.request) => {
                self.write(flow, host, self.response, self.write_bytes);
                self.actions.push_back(Action::Close { flow, host });
            }
            Host::Client if news.received == Some(self.response) => {
                self.actions.push_back(Action::Complete { flow });
                self.handle_over(now, flow);
            }
            _ => {}
        }
        if news.ended {
            // The response has ended, or an end has given up.
            self.handle_over(now, flow);
            self.actions.push_back(Action::Close { flow, host });
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

fn poisson_interval(response_time: Duration, load: Probability) -> Distribution<Duration> {
    let mean = Duration::from_nanos((response_time.as_nanos() as f64 / load.get()) as u64);
    Distribution::Exponential { mean, min: None, max: None, cut: lasthop_core::Cut::Redraw }
}
