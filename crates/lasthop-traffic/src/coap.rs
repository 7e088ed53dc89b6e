//! CoAP over UDP (RFC 7252): confirmable requests with the timers of its message layer, and responses that travel
//! in the acknowledgments (section 5.2.1).

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Datagram, Distribution, Dscp, Duration, ExchangeEvent, Faults, Host, Instant, News, Protocol,
    RandomStream, RetransmissionKind, Sampler, TransportEvent,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::{REQUESTS_MAX, default_request, default_requests};
use crate::offer::cautious_mean;
use crate::{Action, Application, COUNT_MAX, Offer, Outlook, Program, Surroundings, Traffic};

#[cfg(test)]
mod tests;

/// Header of a message without token, options and payload (RFC 7252, section 3).
const MESSAGE_MIN: Bytes = Bytes(4);
/// `MAX_LATENCY`: the maximum time that a datagram is assumed to take (section 4.8.2).
const LATENCY_MAX: Duration = Duration::from_secs(100);
const RETRANSMIT_MAX: u32 = 20;
const RANDOM_FACTOR_MAX: f64 = 10.0;
/// Maximum time until a client gives up a request.
const TRANSMIT_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Confirmable CoAP requests at regular times, each with a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoapConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Number of requests.
    #[serde(default = "default_requests")]
    pub requests: u32,
    /// Size of each request: the payload of its datagram.
    #[serde(default = "default_request")]
    pub request: Distribution<Bytes>,
    /// Size of each response: the payload of its datagram.
    #[schemars(extend("examples" = ["50 B"]))]
    pub response: Distribution<Bytes>,
    /// Time from one request to the next, whether or not the response has arrived.
    #[schemars(extend("examples" = ["60 s"]))]
    pub interval: Distribution<Duration>,
    /// `ACK_TIMEOUT`: the shortest time until the first retransmission of a request.
    #[serde(default = "crate::seconds::<2>")]
    pub ack_timeout: Duration,
    /// `ACK_RANDOM_FACTOR`: the time until the first retransmission is drawn between `ack_timeout` and this
    /// multiple of it. Each further retransmission waits twice as long.
    #[serde(default = "default_ack_random_factor")]
    pub ack_random_factor: f64,
    /// `MAX_RETRANSMIT`: number of retransmissions after which the client gives up a request when its timer
    /// expires again.
    #[serde(default = "default_max_retransmit")]
    pub max_retransmit: u32,
    /// `NSTART`: maximum number of requests that await a response at a time. Further requests wait until
    /// then.
    #[serde(default = "default_nstart")]
    pub nstart: u32,
    /// When the first request is made.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

const fn default_ack_random_factor() -> f64 {
    1.5
}

const fn default_max_retransmit() -> u32 {
    4
}

const fn default_nstart() -> u32 {
    1
}

impl CoapConfig {
    fn first_timeout(&self) -> Distribution<Duration> {
        let most = self.ack_timeout.as_nanos() as f64 * self.ack_random_factor;
        Distribution::Uniform { min: self.ack_timeout, max: Duration::from_nanos(most.round() as u64) }
    }

    /// The longest time from the first transmission until the timer has expired this often.
    fn expired_after(&self, expiries: u32) -> Duration {
        let most = self.first_timeout().most().as_nanos();
        Duration::from_nanos(most.saturating_mul((1 << expiries.min(RETRANSMIT_MAX + 1)) - 1))
    }

    /// `MAX_TRANSMIT_WAIT`: the longest time from the first transmission of a request until the client gives it
    /// up (section 4.8.2).
    pub fn transmit_wait(&self) -> Duration {
        self.expired_after(self.max_retransmit.saturating_add(1))
    }

    /// `EXCHANGE_LIFETIME`: after this time no message of a request can arrive anymore (section 4.8.2).
    fn lifetime(&self) -> Duration {
        let transmit_span = self.expired_after(self.max_retransmit);
        transmit_span + LATENCY_MAX * 2 + self.ack_timeout
    }

    fn check_size(size: &Distribution<Bytes>, key: &str, mtu: Bytes, faults: &mut Faults) {
        let (least, most) = (size.least(), size.most());
        let room = Bytes(mtu.0 - u64::from(Datagram::HEADER_BYTES));
        faults.require(least >= MESSAGE_MIN && most <= room, key, || {
            format!(
                "messages from \"{least}\" to \"{most}\" do not fit a datagram with mtu = \"{mtu}\"; write \
                 from \"{MESSAGE_MIN}\" to \"{room}\""
            )
        });
    }
}

impl Traffic for CoapConfig {
    keys! { name, start, dscp, port }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        faults.in_range(self.requests, 1..=REQUESTS_MAX, "requests");
        Self::check_size(&self.request, "request", mtu, faults);
        Self::check_size(&self.response, "response", mtu, faults);
        faults.not_zero(&self.ack_timeout, "ack_timeout", "2 s");
        let factor = self.ack_random_factor;
        faults.require((1.0..=RANDOM_FACTOR_MAX).contains(&factor), "ack_random_factor", || {
            format!("{factor} is out of range; write from 1 to {RANDOM_FACTOR_MAX}")
        });
        faults.in_range(self.max_retransmit, 0..=RETRANSMIT_MAX, "max_retransmit");
        faults.in_range(self.nstart, 1..=COUNT_MAX, "nstart");
        let wait = self.transmit_wait();
        faults.require(wait <= TRANSMIT_WAIT_MAX, "ack_timeout", || {
            format!(
                "a request would be given up only after \"{wait}\"; lower it or max_retransmit, to give up \
                 within \"{TRANSMIT_WAIT_MAX}\""
            )
        });
    }

    /// When the last request is given up, if it does not wait for others.
    fn latest_begin(&self) -> Duration {
        let requests = self.interval.most().as_nanos().saturating_mul(u64::from(self.requests));
        let last = self.start.most().as_nanos().saturating_add(requests);
        Duration::from_nanos(last.saturating_add(self.transmit_wait().as_nanos()))
    }

    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    /// The maximum without copies that the network makes: the actual amount depends on it.
    fn stream_bytes(&self) -> Option<u64> {
        let transmissions = u64::from(self.requests).saturating_mul(u64::from(self.max_retransmit) + 1);
        Some(transmissions.saturating_mul(self.request.most().0))
    }

    fn asks(&self) -> bool {
        true
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let interval = (cautious_mean(&self.interval) / 1e9).max(1e-9);
        let requests = f64::from(self.requests).min(1.0 + around.limit / interval);
        Offer {
            streaming: requests * (f64::from(self.max_retransmit) + 1.0),
            ip_bytes: self.request.most().0 as f64 + f64::from(Datagram::HEADER_BYTES),
            ..around.flow()
        }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let stream = around.seed.stream(&format!("coap.{}", around.name));
        Program::Coap(Coap::new(self, start, around.sender.other(), stream))
    }
}

/// A running client and its server.
#[derive(Clone, Debug)]
pub struct Coap {
    request: Sampler<Bytes>,
    response: Sampler<Bytes>,
    interval: Sampler<Duration>,
    first_timeout: Sampler<Duration>,
    stream: RandomStream,
    max_retransmit: u32,
    nstart: usize,
    lifetime: Duration,
    server: Host,
    /// When the next request is made, unless all are.
    next: Option<Instant>,
    requests_left: u32,
    /// The requests of which messages may still arrive, and those that wait. The first one has this number.
    exchanges: VecDeque<Exchange>,
    first: u32,
    /// Number of the next request to be sent.
    unsent: u32,
    /// Numbers of the requests that await a response.
    outstanding: Vec<u32>,
    /// The messages of each host, the server's first.
    sent: [Messages; 2],
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug)]
struct Exchange {
    request: u64,
    response: u64,
    /// Time from the next transmission to the expiry of the timer.
    timeout: Duration,
    /// When the timer expires.
    due: Instant,
    /// After this time, no message of it arrives.
    end: Instant,
    transmissions: u32,
    expiries: u32,
    /// The first transmission whose response has arrived, counted from 0.
    answered: Option<u32>,
}

/// A request or the response to it, by the request's number and its transmission. The number has the role of the
/// message ID.
type Message = (u32, u32);

/// Datagrams sent by a host. The first one has this number among all its datagrams.
#[derive(Clone, Debug, Default)]
struct Messages {
    first: u32,
    messages: VecDeque<Message>,
}

impl Messages {
    fn get(&self, datagram: u32) -> Option<Message> {
        self.messages.get(datagram.checked_sub(self.first)? as usize).copied()
    }

    /// Forgets the datagrams before the first one of this request or a later one.
    fn forget_before(&mut self, request: u32) {
        while self.messages.front().is_some_and(|(number, _)| *number < request) {
            self.messages.pop_front();
            self.first += 1;
        }
    }
}

impl Coap {
    /// A client whose first request is made at `start`, and the server that responds. Sizes and times are drawn
    /// from `stream`, all those of a request when it is made.
    pub fn new(config: &CoapConfig, start: Instant, server: Host, stream: RandomStream) -> Self {
        Self {
            request: config.request.sampler(),
            response: config.response.sampler(),
            interval: config.interval.sampler(),
            first_timeout: config.first_timeout().sampler(),
            stream,
            max_retransmit: config.max_retransmit,
            nstart: config.nstart as usize,
            lifetime: config.lifetime(),
            server,
            next: Some(start),
            requests_left: config.requests,
            exchanges: VecDeque::new(),
            first: 0,
            unsent: 0,
            outstanding: Vec::new(),
            sent: Default::default(),
            actions: VecDeque::new(),
        }
    }

    fn make_request(&mut self, at: Instant) {
        let number = u64::from(self.first) + self.exchanges.len() as u64;
        let stream = &mut self.stream;
        self.exchanges.push_back(Exchange {
            request: self.request.sample(stream).0,
            response: self.response.sample(stream).0,
            timeout: self.first_timeout.sample(stream),
            due: Instant::MAX,
            end: Instant::MAX,
            transmissions: 0,
            expiries: 0,
            answered: None,
        });
        self.requests_left -= 1;
        let next = at + self.interval.sample(&mut self.stream);
        self.next = (self.requests_left > 0).then_some(next);
        self.tell(ExchangeEvent::Requested { number });
    }

    /// The request with this number, unless it is forgotten.
    fn exchange(&mut self, number: u32) -> Option<&mut Exchange> {
        self.exchanges.get_mut(number.checked_sub(self.first)? as usize)
    }

    fn send_request(&mut self, now: Instant, number: u32) {
        let Some(exchange) = self.exchange(number) else { return };
        let message = (number, exchange.transmissions);
        exchange.transmissions += 1;
        exchange.due = now + exchange.timeout;
        exchange.timeout = exchange.timeout * 2;
        let bytes = exchange.request;
        self.send(self.server.other(), message, bytes);
    }

    fn send(&mut self, host: Host, message: Message, bytes: u64) {
        self.sent[host as usize].messages.push_back(message);
        self.actions.push_back(Action::datagram(host, bytes));
    }

    /// The timer of a request has expired: sends it again, or gives it up (section 4.2). True if it still awaits
    /// a response.
    fn expire(&mut self, now: Instant, number: u32) -> bool {
        let max_retransmit = self.max_retransmit;
        let Some(exchange) = self.exchange(number) else { return false };
        exchange.expiries += 1;
        let (seq, backoff) = (u64::from(number), exchange.expiries);
        let is_sent_again = exchange.transmissions <= max_retransmit;
        self.report(TransportEvent::Timeout { seq, backoff });
        if is_sent_again {
            self.report(TransportEvent::Retransmitted { seq, kind: RetransmissionKind::Timeout });
            self.send_request(now, number);
        }
        is_sent_again
    }

    /// Sends requests that have waited, up to `NSTART` (section 4.7). Says so when everything is done.
    fn proceed(&mut self, now: Instant) {
        let made = self.first + self.exchanges.len() as u32;
        while self.unsent < made && self.outstanding.len() < self.nstart {
            let number = self.unsent;
            self.unsent += 1;
            self.outstanding.push(number);
            let end = now + self.lifetime;
            if let Some(exchange) = self.exchange(number) {
                exchange.end = end;
            }
            self.send_request(now, number);
        }
        if self.outstanding.is_empty() && self.requests_left == 0 {
            self.actions.push_back(Action::Complete { flow: 0 });
        }
    }

    /// Forgets requests of which no message can arrive anymore.
    fn forget(&mut self, now: Instant) {
        while self.exchanges.front().is_some_and(|exchange| exchange.end <= now)
            && !self.outstanding.contains(&self.first)
        {
            self.exchanges.pop_front();
            self.first += 1;
        }
        self.sent.iter_mut().for_each(|messages| messages.forget_before(self.first));
    }

    /// The client has the response to a transmission of a request; later responses to the same request are
    /// ignored.
    fn receive_response(&mut self, now: Instant, (number, transmission): Message) {
        let Some(exchange) = self.exchange(number) else { return };
        let Exchange { transmissions, expiries, answered, .. } = *exchange;
        if answered.is_some_and(|answered| answered <= transmission) {
            return;
        }
        exchange.answered = Some(transmission);
        // Retransmissions follow transmission 0, and each expiry belongs to the transmission before it.
        let (timeouts, retransmissions) = match answered {
            None => (expiries - transmission, transmissions - 1 - transmission),
            Some(answered) => (answered - transmission, answered - transmission),
        };
        if timeouts > 0 {
            self.tell(ExchangeEvent::Spurious { number: u64::from(number), timeouts, retransmissions });
        }
        if let Some(index) = self.outstanding.iter().position(|outstanding| *outstanding == number) {
            self.outstanding.remove(index);
            self.tell(ExchangeEvent::Completed { number: u64::from(number) });
            self.proceed(now);
        }
    }

    fn tell(&mut self, event: ExchangeEvent) {
        self.actions.push_back(Action::Exchange { flow: 0, event });
    }

    fn report(&mut self, event: TransportEvent) {
        self.actions.push_back(Action::Transport { flow: 0, host: self.server.other(), event });
    }
}

impl Application for Coap {
    fn next_wakeup(&self) -> Option<Instant> {
        let due = |number: &u32| self.exchanges[(number - self.first) as usize].due;
        self.outstanding.iter().map(due).chain(self.next).min()
    }

    fn handle_wakeup(&mut self, now: Instant) {
        while let Some(at) = self.next.filter(|next| *next <= now) {
            self.make_request(at);
        }
        let mut index = 0;
        while let Some(number) = self.outstanding.get(index).copied() {
            let is_due = self.exchange(number).is_some_and(|exchange| exchange.due <= now);
            if is_due && !self.expire(now, number) {
                self.outstanding.remove(index);
            } else {
                index += 1;
            }
        }
        self.proceed(now);
        self.forget(now);
    }

    fn handle_news(&mut self, _now: Instant, _flow: u32, _host: Host, _news: News) {}

    /// A message has arrived. The server answers a request that it has answered before with the same response,
    /// without processing it again (section 4.5).
    fn handle_stream(&mut self, now: Instant, _flow: u32, host: Host, datagram: u32, _received: u64) {
        let Some(message) = self.sent[host.other() as usize].get(datagram) else { return };
        if host != self.server {
            self.receive_response(now, message);
        } else if let Some(bytes) = self.exchange(message.0).map(|exchange| exchange.response) {
            self.send(host, message, bytes);
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
