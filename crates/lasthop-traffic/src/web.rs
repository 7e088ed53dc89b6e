//! Web clients that send requests in batches, like the benchmark `SPECweb96`. Each client has one persistent
//! connection to its own server; servers answer at once.
//!
//! A request's own packets are not simulated: it reaches the server after the one-way delay, and the server
//! adds the response to the stream. Requests do not depend on the data that has arrived.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::{
    Bytes, Distribution, Duration, Faults, Host, Instant, News, Probability, RandomStream, Sampler, Seed,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Action, Application, COUNT_MAX, Content, HttpConfig, OBJECT_MAX, Offer, Outlook, Program, Surroundings,
    Traffic,
};

#[cfg(test)]
mod tests;

/// Maximum limit of a truncated Poisson distribution; beyond it, drawing would be slow.
const POISSON_MAX: u32 = 100;

/// Web clients, each with its own server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebClientsConfig {
    /// Name in the records; the flow of client 7 ends in "-7".
    pub name: String,
    /// Number of clients.
    #[schemars(extend("examples" = [20]))]
    pub clients: u32,
    /// When the first batch of every client begins.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Number of batches of each client.
    pub batches: u32,
    /// Interval from one batch to the next.
    #[schemars(extend("examples" = ["10 s"]))]
    pub interval: Duration,
    /// Number of requests of a batch.
    pub requests: CutPoisson,
    /// Pause before each request, the first one included.
    #[schemars(extend("examples" = ["1 s"]))]
    pub gap: Distribution<Duration>,
    /// Size of a response in units of its class.
    pub multiple: CutPoisson,
    /// Unit of the response to a batch's first request: the index page.
    #[schemars(extend("examples" = ["4 kB"]))]
    pub first_unit: Bytes,
    /// Classes of the other responses.
    pub others: Vec<WebClass>,
}

/// Responses of one order of magnitude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebClass {
    /// The size of a response is a multiple of this.
    #[schemars(extend("examples" = ["4 kB"]))]
    pub unit: Bytes,
    /// Share of the responses, relative to the shares of the other classes.
    pub share: Probability,
}

/// A Poisson distribution, truncated to `min..=max` by redrawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CutPoisson {
    /// Mean before truncation.
    pub mean: u32,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
}

impl CutPoisson {
    fn check(self, key: &str, faults: &mut Faults) {
        let Self { mean, min, max } = self;
        let is_ordered = min >= 1 && min <= mean && mean <= max && max <= POISSON_MAX;
        faults.require(is_ordered, key, || {
            format!("from {min} to {max} with mean {mean}; write 1 <= min <= mean <= max <= {POISSON_MAX}")
        });
    }

    fn sample(self, stream: &mut RandomStream) -> u32 {
        loop {
            let draw = poisson(f64::from(self.mean), stream);
            if (self.min..=self.max).contains(&draw) {
                return draw;
            }
        }
    }
}

/// Events of a Poisson process of `mean` events per unit of time within one unit: exponential times multiply.
fn poisson(mean: f64, stream: &mut RandomStream) -> u32 {
    let none = libm::exp(-mean);
    let mut product = stream.unit();
    let mut events = 0;
    while product > none {
        product *= stream.unit();
        events += 1;
    }
    events
}

/// The running clients: the data that their servers write, and the times.
#[derive(Clone, Debug)]
pub struct WebClients {
    config: WebClientsConfig,
    one_way: Duration,
    clients: Vec<Client>,
    /// Next response of each client, if it has one.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    response: Option<Action>,
}

#[derive(Clone, Debug)]
struct Client {
    stream: RandomStream,
    gap: Sampler<Duration>,
    batch_start: Instant,
    batches_left: u32,
    requests_left: u32,
    /// True if the next request is the first of its batch.
    first: bool,
}

impl WebClients {
    /// Clients whose first batches begin at `start`, `one_way` from their servers. Client n draws from the
    /// stream "web.`name`-n" of `seed`.
    pub fn new(config: &WebClientsConfig, start: Instant, one_way: Duration, seed: Seed) -> Self {
        let client = |number: u32| Client {
            stream: seed.stream(&format!("web.{}-{}", config.name, number + 1)),
            gap: config.gap.sampler(),
            batch_start: start,
            batches_left: config.batches,
            requests_left: 0,
            first: false,
        };
        let mut clients = Self {
            clients: (0..config.clients).map(client).collect(),
            config: config.clone(),
            one_way,
            due: BinaryHeap::with_capacity(config.clients as usize),
            response: None,
        };
        for client in 0..config.clients {
            clients.schedule(client, start);
        }
        clients
    }

    /// Schedules the next request after a client's action at `now`.
    fn schedule(&mut self, number: u32, now: Instant) {
        let client = &mut self.clients[number as usize];
        let mut now = now;
        if client.requests_left == 0 {
            if client.batches_left == 0 {
                return;
            }
            client.batches_left -= 1;
            client.requests_left = self.config.requests.sample(&mut client.stream);
            client.first = true;
            // A batch that takes longer than the interval delays the next one.
            now = now.max(client.batch_start);
            client.batch_start += self.config.interval;
        }
        client.requests_left -= 1;
        let at = now + client.gap.sample(&mut client.stream) + self.one_way;
        self.due.push(Reverse((at, number)));
    }
}

/// The servers answer one after the other, even if requests arrive at the same instant.
impl Application for WebClients {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    fn handle_wakeup(&mut self, now: Instant) {
        let Some(&Reverse((at, number))) = self.due.peek() else { return };
        if at > now {
            return;
        }
        self.due.pop();
        let client = &mut self.clients[number as usize];
        let first = std::mem::take(&mut client.first);
        let unit = if first { self.config.first_unit } else { self.config.draw_unit(&mut client.stream) };
        let multiple = self.config.multiple.sample(&mut client.stream);
        // The next gap begins when this request was made.
        self.schedule(number, Instant::from_nanos(at.as_nanos() - self.one_way.as_nanos()));
        let bytes = u64::from(multiple) * unit.0;
        let (host, content) = (Host::Server, Content::Filler);
        self.response = Some(Action::Write { flow: number, host, bytes, write_bytes: bytes, content });
    }

    fn handle_news(&mut self, _now: Instant, _flow: u32, _host: Host, _news: News) {}

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.response.take()
    }
}

impl Traffic for WebClientsConfig {
    keys! { name, start }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.clients, 1..=COUNT_MAX, "clients");
        faults.in_range(self.batches, 1..=COUNT_MAX, "batches");
        faults.not_zero(&self.interval, "interval", "10 s");
        self.requests.check("requests", faults);
        self.multiple.check("multiple", faults);
        for (index, class) in self.others.iter().enumerate() {
            faults.in_range(class.unit, Bytes(1)..=OBJECT_MAX, &format!("others[{index}].unit"));
        }
        faults.in_range(self.first_unit, Bytes(1)..=OBJECT_MAX, "first_unit");
        faults.require(self.others.iter().any(|class| class.share.get() > 0.0), "others", || {
            "no class has a share; add for example { unit = \"1 kB\", share = 0.35 }".into()
        });
    }

    fn number_key(&self) -> Option<&'static str> {
        Some("clients")
    }

    fn only_down(&self) -> Option<&'static str> {
        Some("its clients ask, and their servers answer")
    }

    fn flow_names(&self, name: &str, _http: Option<&HttpConfig>) -> Vec<String> {
        (1..=self.clients).map(|number| format!("{name}-{number}")).collect()
    }

    fn is_open_at_first(&self) -> bool {
        true
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let batches = f64::from(self.batches).min(1.0 + around.limit / self.interval.as_secs_f64());
        let largest =
            self.others.iter().map(|class| class.unit).chain([self.first_unit]).max().unwrap_or_default();
        let response = around.segments(f64::from(self.multiple.max) * largest.0 as f64);
        let client = around.waiting(batches * f64::from(self.requests.max) * response);
        client.times(f64::from(self.clients))
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        Program::WebClients(WebClients::new(self, start, around.propagation_up, around.seed))
    }
}

impl WebClientsConfig {
    fn draw_unit(&self, stream: &mut RandomStream) -> Bytes {
        let total: f64 = self.others.iter().map(|class| class.share.get()).sum();
        let mut point = stream.unit() * total;
        for class in &self.others {
            point -= class.share.get();
            if point < 0.0 {
                return class.unit;
            }
        }
        // Rounding errors can lead to just beyond the last class.
        self.others.last().map_or(self.first_unit, |class| class.unit)
    }
}
