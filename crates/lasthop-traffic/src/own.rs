//! Custom traffic: one flow, whose application is code that the scenario names.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Datagram, Distribution, Dscp, Duration, ExchangeEvent, Failure, Faults, Host, Instant, News,
    Protocol, RandomStream, UserCode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Application, Content, FlowConfig, Offer, Outlook, Program, Surroundings, Traffic};

#[cfg(test)]
mod tests;

/// A custom application with one flow. The engine connects a TCP flow for the sender, and closes the
/// receiver's side after the sender's.
pub trait TrafficAlgorithm: fmt::Debug {
    fn on_start(&mut self, now: Instant, wanted: &mut Wanted);

    /// Called at the time requested with [`Wanted::wake_at`].
    fn on_wakeup(&mut self, now: Instant, wanted: &mut Wanted);

    /// `bytes` more have reached the receiver or, if `is_answer`, `bytes` of an answer have reached the sender.
    fn on_received(&mut self, _now: Instant, _bytes: u64, _is_answer: bool, _wanted: &mut Wanted) {}
}

/// The actions that an application requests, in order.
#[derive(Debug)]
pub struct Wanted {
    actions: VecDeque<Action>,
    wakeup: Option<Instant>,
    now: Instant,
    /// Number of requests so far, and the numbers of those that are not complete.
    requests: u64,
    open: Vec<u64>,
    config: Facts,
}

#[derive(Clone, Debug)]
struct Facts {
    name: String,
    sender: Host,
    protocol: Protocol,
    /// Size of a write of TCP, or maximum size of a datagram.
    write_bytes: u64,
}

impl Wanted {
    /// The sender writes `bytes`; over UDP they are one datagram.
    pub fn send(&mut self, bytes: u64) {
        self.write(self.config.sender, bytes, "send");
    }

    /// The receiver writes `bytes`.
    pub fn answer(&mut self, bytes: u64) {
        self.write(self.config.sender.other(), bytes, "answer");
    }

    /// A request begins, whose completion time is to be measured. Returns its number.
    pub fn request(&mut self) -> u64 {
        let number = self.requests;
        self.requests += 1;
        self.open.push(number);
        self.tell(ExchangeEvent::Requested { number });
        number
    }

    /// The request with this number is complete.
    pub fn complete(&mut self, number: u64) {
        let Some(index) = self.open.iter().position(|open| *open == number) else {
            self.fail(&format!("complete({number}): pass the number of a request that is not complete"));
        };
        self.open.remove(index);
        self.tell(ExchangeEvent::Completed { number });
    }

    /// The sender has nothing more to send.
    pub fn close(&mut self) {
        self.wakeup = None;
        self.actions.push_back(Action::Complete { flow: 0 });
        if self.config.protocol == Protocol::Tcp {
            self.actions.push_back(Action::Close { flow: 0, host: self.config.sender });
        }
    }

    /// Calls [`TrafficAlgorithm::on_wakeup`] at this time, which replaces any time requested before. It must
    /// lie in the future.
    pub fn wake_at(&mut self, at: Instant) {
        if at <= self.now {
            self.fail(&format!("wake_at({at}): the time is not in the future"));
        }
        self.wakeup = Some(at);
    }

    fn write(&mut self, host: Host, bytes: u64, did: &str) {
        let Facts { protocol, write_bytes, .. } = self.config;
        if bytes == 0 {
            self.fail(&format!("{did} with 0 bytes; pass 1 or more"));
        }
        let is_datagram = protocol == Protocol::Udp;
        if is_datagram && bytes > write_bytes {
            self.fail(&format!("{did} with {bytes} bytes, but a datagram carries at most {write_bytes}"));
        }
        let write_bytes = if is_datagram { bytes } else { write_bytes };
        self.actions.push_back(Action::Write { flow: 0, host, bytes, write_bytes, content: Content::Filler });
    }

    fn tell(&mut self, event: ExchangeEvent) {
        self.actions.push_back(Action::Exchange { flow: 0, event });
    }

    fn fail(&self, did: &str) -> ! {
        Failure::new(format!("{}.{did}", self.config.name)).raise()
    }
}

#[derive(Clone, Debug)]
pub struct TrafficSetup {
    pub stream: RandomStream,
    /// Name of the flow.
    pub flow: String,
    /// Payload of a full segment; the maximum payload of a datagram.
    pub segment_bytes: u32,
}

/// Custom traffic, defined by code instead of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// The custom code.
    pub code: UserTraffic,
    /// Transport protocol of the flow.
    #[serde(default)]
    pub protocol: Carrier,
    /// Maximum duration. Data not sent by then are dropped.
    #[serde(default = "crate::seconds::<60>")]
    pub duration: Duration,
    /// When it starts.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

pub type UserTraffic = UserCode<TrafficSetup, dyn TrafficAlgorithm>;

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// A connection, opened by the sender.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

impl FlowConfig {
    /// The user code of this traffic, if it has any.
    pub fn own_code(&mut self) -> Option<&mut UserTraffic> {
        match self {
            Self::Own(own) => Some(&mut own.code),
            _ => None,
        }
    }
}

impl Traffic for OwnConfig {
    keys! { name, start, dscp, port }

    fn check(&self, _mtu: Bytes, faults: &mut Faults) {
        faults.not_zero(&self.duration, "duration", "60 s");
    }

    fn latest_begin(&self) -> Duration {
        self.start.most() + self.duration
    }

    fn protocol(&self) -> Protocol {
        match self.protocol {
            Carrier::Tcp => Protocol::Tcp,
            Carrier::Udp => Protocol::Udp,
        }
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        around.waiting(f64::INFINITY)
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let datagram = around.mtu.0 - u64::from(Datagram::HEADER_BYTES);
        let protocol = self.protocol();
        let (segment_bytes, write_bytes) = match protocol {
            Protocol::Udp => (datagram as u32, datagram),
            _ => (around.segment_bytes, around.write_bytes),
        };
        let setup = TrafficSetup {
            stream: around.seed.stream(&format!("own.{}", around.name)),
            flow: around.name.to_owned(),
            segment_bytes,
        };
        let facts = Facts { name: self.code.name().to_owned(), sender: around.sender, protocol, write_bytes };
        Program::Own(OwnTraffic::new(self.code.make(setup), start, self.duration, facts))
    }
}

#[derive(Debug)]
pub struct OwnTraffic {
    code: Box<dyn TrafficAlgorithm>,
    start: Option<Instant>,
    /// When it must stop, until it has.
    end: Option<Instant>,
    /// Bytes received so far, by the server and by the client.
    received: [u64; 2],
    wanted: Wanted,
}

impl OwnTraffic {
    fn new(code: Box<dyn TrafficAlgorithm>, start: Instant, duration: Duration, config: Facts) -> Self {
        let (actions, open) = (VecDeque::new(), Vec::new());
        let wanted = Wanted { actions, wakeup: None, now: Instant::ZERO, requests: 0, open, config };
        Self { code, start: Some(start), end: Some(start + duration), received: [0; 2], wanted }
    }
}

impl Application for OwnTraffic {
    fn next_wakeup(&self) -> Option<Instant> {
        let due = [self.wanted.wakeup, self.end].into_iter().flatten().min();
        self.start.or(due.filter(|_| self.end.is_some()))
    }

    fn handle_wakeup(&mut self, now: Instant) {
        self.wanted.now = now;
        let Facts { sender: host, protocol, .. } = self.wanted.config;
        if self.start.take_if(|start| *start <= now).is_some() {
            if protocol == Protocol::Tcp {
                self.wanted.actions.push_back(Action::Connect { flow: 0, host });
            }
            self.code.on_start(now, &mut self.wanted);
        }
        if self.end.take_if(|end| *end <= now).is_some() {
            self.wanted.actions.push_back(Action::Stop { flow: 0, host });
            self.wanted.close();
        } else if self.wanted.wakeup.take_if(|at| *at <= now).is_some() {
            self.code.on_wakeup(now, &mut self.wanted);
        }
    }

    fn handle_news(&mut self, now: Instant, _flow: u32, host: Host, news: News) {
        self.wanted.now = now;
        let sender = self.wanted.config.sender;
        if let (Some(received), Some(_)) = (news.received, self.end) {
            let before = std::mem::replace(&mut self.received[host as usize], received);
            self.code.on_received(now, received - before, host == sender, &mut self.wanted);
        }
        if news.ended && host != sender {
            self.wanted.actions.push_back(Action::Close { flow: 0, host });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.wanted.actions.pop_front()
    }
}
