//! Requests and responses on one persistent connection: a client sends a request, waits for the complete
//! response, pauses, and sends the next request.

use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Distribution, Dscp, Duration, ExchangeEvent, Faults, Host, Instant, News, RandomStream, Sampler,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dialogue::Dialogue;
use crate::{Action, Application, OBJECT_MAX, Offer, Outlook, Program, Surroundings, TRANSFER_MAX, Traffic};

#[cfg(test)]
mod tests;

/// Maximum number of requests of a client.
pub(crate) const REQUESTS_MAX: u32 = 1_000_000;

/// Requests on a persistent connection, one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestResponseConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Number of requests.
    #[serde(default = "default_requests")]
    pub requests: u32,
    /// Size of each request.
    #[serde(default = "default_request")]
    pub request: Distribution<Bytes>,
    /// Size of each response.
    #[schemars(extend("examples" = ["10 kB"]))]
    pub response: Distribution<Bytes>,
    /// Pause from the complete response to the next request.
    #[serde(default = "crate::at_once")]
    pub think: Distribution<Duration>,
    /// When the client connects and makes its first request.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

pub(crate) const fn default_requests() -> u32 {
    100
}

pub(crate) const fn default_request() -> Distribution<Bytes> {
    Distribution::Static(Bytes(200))
}

impl RequestResponseConfig {
    fn check_size(&self, size: &Distribution<Bytes>, key: &str, faults: &mut Faults) {
        let (least, most) = (size.least(), size.most());
        faults.require(least.0 >= 1 && most <= OBJECT_MAX, key, || {
            format!("from \"{least}\" to \"{most}\"; write from \"1 B\" to \"{OBJECT_MAX}\"")
        });
        let total = u64::from(self.requests).saturating_mul(most.0);
        faults.require(most > OBJECT_MAX || total <= TRANSFER_MAX.0, key, || {
            format!("{} of up to \"{most}\" exceed \"{TRANSFER_MAX}\" in total; write less", self.requests)
        });
    }
}

impl Traffic for RequestResponseConfig {
    keys! { name, start, dscp, port }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.requests, 1..=REQUESTS_MAX, "requests");
        self.check_size(&self.request, "request", faults);
        self.check_size(&self.response, "response", faults);
    }

    /// When the last request would leave if only the pauses took time.
    fn latest_begin(&self) -> Duration {
        let thinking = self.think.most().as_nanos().saturating_mul(u64::from(self.requests));
        Duration::from_nanos(self.start.most().as_nanos().saturating_add(thinking))
    }

    fn offered_bytes(&self) -> u64 {
        u64::from(self.requests).saturating_mul(self.request.most().0.saturating_add(self.response.most().0))
    }

    fn caller(&self, sender: Host) -> Host {
        sender.other()
    }

    fn requests(&self) -> Option<u32> {
        Some(self.requests)
    }

    fn runs_over_quic(&self) -> bool {
        true
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        // Each request waits for a round trip.
        let requests = f64::from(self.requests).min(1.0 + around.limit / around.round_trip.max(1e-9));
        let [request, response] =
            [&self.request, &self.response].map(|size| around.segments(size.most().0 as f64));
        around.waiting(requests * (request + response))
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let stream = around.seed.stream(&format!("request-response.{}", around.name));
        Program::RequestResponse(Exchanges::new(self, start, around.sender, around.write_bytes, stream))
    }
}

/// A running client and its server.
#[derive(Clone, Debug)]
pub struct Exchanges {
    request: Sampler<Bytes>,
    response: Sampler<Bytes>,
    think: Sampler<Duration>,
    stream: RandomStream,
    dialogue: Dialogue,
    /// When the next request is made, unless the client awaits a response.
    next: Option<Instant>,
    /// Number of requests, and of those made so far.
    requests: u64,
    made: u64,
}

impl Exchanges {
    /// Exchanges that begin at `start`, with the responses of `server` in writes of `write_bytes`. Sizes and
    /// pauses are drawn from `stream`.
    pub fn new(
        config: &RequestResponseConfig,
        start: Instant,
        server: Host,
        write_bytes: u64,
        stream: RandomStream,
    ) -> Self {
        Self {
            request: config.request.sampler(),
            response: config.response.sampler(),
            think: config.think.sampler(),
            stream,
            dialogue: Dialogue::new(server, write_bytes),
            next: Some(start),
            requests: u64::from(config.requests),
            made: 0,
        }
    }

    fn tell(&mut self, event: ExchangeEvent) {
        self.dialogue.tell(Action::Exchange { flow: 0, event });
    }
}

impl Application for Exchanges {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    /// Makes the request that is due.
    fn handle_wakeup(&mut self, now: Instant) {
        if self.next.take_if(|next| *next <= now).is_some() {
            self.tell(ExchangeEvent::Requested { number: self.made });
            self.made += 1;
            let request = self.request.sample(&mut self.stream).0;
            let response = self.response.sample(&mut self.stream).0;
            self.dialogue.ask(request, response);
        }
    }

    fn handle_news(&mut self, now: Instant, _flow: u32, host: Host, news: News) {
        if self.dialogue.handle_news(host, news) {
            self.tell(ExchangeEvent::Completed { number: self.made - 1 });
            if self.made == self.requests {
                self.dialogue.close();
            } else {
                self.next = Some(now + self.think.sample(&mut self.stream));
            }
        }
        if self.dialogue.is_over() {
            self.next = None;
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.dialogue.poll_action()
    }
}
