//! Short transfers: the client sends a request, and the server answers with some full segments and closes.
//! Transfers follow each other, or start at random times.

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

use control::Tests;

mod control;
#[cfg(test)]
mod tests;

/// Seconds, and round trips, that a transfer lasts if its packets get through.
const LASTS: (f64, f64) = (5.0, 20.0);
/// Packets of a handshake, and the retransmissions before a transfer is given up.
const HANDSHAKE: f64 = 20.0;

/// Short transfers, each over its own connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortFlowsConfig {
    /// Name in the records.
    pub name: String,
    /// Number of full segments of each response; with `packet_size`, the number of packets of that size.
    #[schemars(extend("examples" = [10]))]
    pub packets: u32,
    /// Bytes of each of the `packets`; the payload of a full segment if absent. With `"1500 B"`, 21 packets
    /// are 31 500 bytes, which are 21 full segments and a shorter one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_size: Option<Bytes>,
    /// Size of each request.
    #[schemars(extend("examples" = ["300 B"]))]
    pub request: Bytes,
    /// Size of the messages on a control connection for each transfer, as in netperf's tests. One message in each
    /// direction precedes the transfer. Another from the server follows when the client has the response and has
    /// closed the transfer's connection. If absent, there is no control connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Bytes>,
    /// Earliest start of the first transfer.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// How the starts of transfers are chosen.
    pub arrivals: Arrivals,
    /// TCP settings of the server and window of the client. Each flow draws one of these entries uniformly.
    pub hosts: Vec<ShortHosts>,
}

/// When short transfers start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// In sequence: the next transfer starts a pause after the response is complete or the connection has
    /// failed.
    Sequential {
        /// Pause from one transfer to the next.
        gap: Distribution<Duration>,
    },
    /// A Poisson process, regardless of running transfers.
    Poisson {
        /// Offered load of the responses' packets, as a share of the bottleneck's rate.
        load: Probability,
    },
}

impl Traffic for ShortFlowsConfig {
    keys! { name, start }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.packets, 1..=COUNT_MAX, "packets");
        if let Some(size) = self.packet_size {
            faults.in_range(size, Bytes(1)..=Bytes(OBJECT_MAX.0 / u64::from(COUNT_MAX)), "packet_size");
        }
        faults.in_range(self.request, Bytes(1)..=OBJECT_MAX, "request");
        if let Some(message) = self.control {
            faults.in_range(message, Bytes(1)..=OBJECT_MAX, "control");
        }
        if let Arrivals::Poisson { load } = self.arrivals {
            faults.require(load.get() > 0.0, "arrivals.load", || {
                "no flow would ever start; write for example 0.5".into()
            });
        }
        faults.require(!self.hosts.is_empty(), "hosts", || {
            "is empty; add for example { name = \"iw3\", initial_window = 3, receive_window_initial = 4 }"
                .into()
        });
        for (index, hosts) in self.hosts.iter().enumerate() {
            faults.below(&format!("hosts[{index}]"), |faults| hosts.check(&self.hosts[..index], faults));
        }
    }

    fn number_key(&self) -> Option<&'static str> {
        Some("arrivals")
    }

    fn only_down(&self) -> Option<&'static str> {
        Some("short flows are answers of the server")
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
        let segments = self.segments(around.segment_bytes) as f64;
        let bits = segments * around.mtu.0 as f64 * 8.0;
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
        let connections = if self.control.is_some() { 2.0 } else { 1.0 };
        let (passing, passing_at_once) = (connections * passing, connections * passing_at_once);
        let streaming = passing * (2.0 * segments + HANDSHAKE);
        Offer { streaming, flows: 0.0, passing, passing_at_once, load, ..around.flow() }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let bits = self.segments(around.segment_bytes) as f64 * around.mtu.0 as f64 * 8.0;
        let response_time = Duration::from_nanos((bits / around.bottleneck_bps * 1e9) as u64);
        let stream = around.seed.stream(&format!("short.{}", around.name));
        let writes = (self.response(around.segment_bytes), around.write_bytes);
        Program::ShortFlows(ShortFlows::new(self, start, response_time, writes, stream))
    }
}

impl ShortFlowsConfig {
    /// Bytes of a response.
    fn response(&self, segment_bytes: u32) -> u64 {
        u64::from(self.packets) * self.packet_size.map_or(u64::from(segment_bytes), |size| size.0)
    }

    /// Segments of a response.
    fn segments(&self, segment_bytes: u32) -> u64 {
        self.response(segment_bytes).div_ceil(u64::from(segment_bytes))
    }
}

#[derive(Clone, Debug)]
pub struct ShortFlows {
    arrivals: Sampler<Duration>,
    sequential: bool,
    hosts: u32,
    stream: RandomStream,
    next: Option<Instant>,
    /// The transfer that the next one waits for, identified by its first flow.
    current: Option<u32>,
    transfers: Transfers,
    /// The control connections, if each transfer has one.
    tests: Option<Tests>,
}

/// Requests and responses, and the next actions.
#[derive(Clone, Debug)]
struct Transfers {
    request: u64,
    response: u64,
    write_bytes: u64,
    /// Number of flows opened so far.
    opened: u32,
    actions: VecDeque<Action>,
}

impl Transfers {
    fn write(&mut self, flow: u32, host: Host, bytes: u64, write_bytes: u64) {
        let content = Content::Filler;
        self.actions.push_back(Action::Write { flow, host, bytes, write_bytes, content });
    }

    fn close(&mut self, flow: u32, host: Host) {
        self.actions.push_back(Action::Close { flow, host });
    }

    /// The client opens a flow and writes its first message. Returns the number of the flow.
    fn open(&mut self, hosts: usize, is_control: bool, bytes: u64) -> u32 {
        let (flow, host) = (self.opened, Host::Client);
        self.opened += 1;
        self.actions.extend([Action::Open { flow, hosts, is_control }, Action::Connect { flow, host }]);
        self.write(flow, host, bytes, bytes);
        flow
    }

    /// The client makes a request. Returns the number of the flow.
    fn ask(&mut self, hosts: usize) -> u32 {
        self.open(hosts, false, self.request)
    }

    /// The server answers if it has the complete request. Returns whether it did.
    fn answer(&mut self, flow: u32, news: News) -> bool {
        let is_asked = news.received == Some(self.request);
        if is_asked {
            self.write(flow, Host::Server, self.response, self.write_bytes);
        }
        is_asked
    }

    /// Whether the client now has the complete response.
    fn complete(&mut self, flow: u32, news: News) -> bool {
        let is_complete = news.received == Some(self.response);
        if is_complete {
            self.actions.push_back(Action::Complete { flow });
        }
        is_complete
    }
}

impl ShortFlows {
    /// Transfers whose first one starts at `start`, or, in a Poisson process, on average a mean interval
    /// later. `response_time` is the time that the bottleneck takes for one response, of `response` bytes in
    /// writes of `write_bytes`.
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
        let request = config.request.0;
        Self {
            arrivals,
            sequential,
            hosts: config.hosts.len() as u32,
            stream,
            next: Some(first),
            current: None,
            transfers: Transfers { request, response, write_bytes, opened: 0, actions: VecDeque::new() },
            tests: config.control.map(|message| Tests::new(message.0)),
        }
    }

    /// The response on `flow` is complete, or its connection is given up.
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
        if !self.sequential {
            self.next = Some(due + self.arrivals.sample(&mut self.stream));
        }
        let hosts = (self.stream.unit() * f64::from(self.hosts)) as usize;
        let flow = match &mut self.tests {
            Some(tests) => tests.begin(&mut self.transfers, hosts),
            None => self.transfers.ask(hosts),
        };
        self.current = Some(flow).filter(|_| self.sequential);
    }

    fn handle_news(&mut self, now: Instant, flow: u32, host: Host, news: News) {
        let transfers = &mut self.transfers;
        let over = if let Some(tests) = &mut self.tests {
            tests.handle_news(transfers, flow, host, news)
        } else {
            let is_complete = match host {
                Host::Server => {
                    if transfers.answer(flow, news) {
                        transfers.close(flow, host);
                    }
                    false
                }
                Host::Client => transfers.complete(flow, news),
            };
            // The response is complete or has ended, or an end has given up.
            Some(flow).filter(|_| is_complete || news.ended)
        };
        if let Some(flow) = over {
            self.handle_over(now, flow);
        }
        if news.ended {
            self.transfers.close(flow, host);
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.transfers.actions.pop_front()
    }
}

fn poisson_interval(response_time: Duration, load: Probability) -> Distribution<Duration> {
    let mean = Duration::from_nanos((response_time.as_nanos() as f64 / load.get()) as u64);
    Distribution::Exponential { mean, min: None, max: None, cut: lasthop_core::Cut::Redraw }
}
