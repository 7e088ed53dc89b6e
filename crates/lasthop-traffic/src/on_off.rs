//! An on-off UDP source: periods of sending at a constant rate alternate with silence.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Distribution, Dscp, Duration, Faults, Host, Instant, News, Protocol, RandomStream, Rate, Sampler,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::offer::period;
use crate::{
    Action, Application, ConstantUdpConfig, Datagrams, Offer, Outlook, Program, Surroundings, Traffic,
};

#[cfg(test)]
mod tests;

/// Datagrams at a constant rate in on periods, and silence in the off periods between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOffConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Rate of the payload while it sends, without headers.
    pub rate: Rate,
    /// Payload of each datagram.
    #[serde(default = "default_payload")]
    pub payload: Bytes,
    /// Length of each on period, which starts with a datagram.
    #[schemars(extend("examples" = ["1 s"]))]
    pub on: Distribution<Duration>,
    /// Length of each off period.
    #[schemars(extend("examples" = ["1 s"]))]
    pub off: Distribution<Duration>,
    /// Total duration.
    #[serde(default = "crate::seconds::<60>")]
    pub duration: Duration,
    /// Start of the first on period.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

const fn default_payload() -> Bytes {
    Bytes(1000)
}

impl OnOffConfig {
    /// The stream that it would be without silence.
    pub fn stream(&self) -> ConstantUdpConfig {
        let Self { name, rate, payload, duration, start, dscp, port, .. } = self.clone();
        ConstantUdpConfig { name, rate, payload, duration, start, dscp, ecn: None, port }
    }
}

impl Traffic for OnOffConfig {
    keys! { name, start, dscp, port }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        self.stream().check(mtu, faults);
        faults.not_zero(&self.on.most(), "on", "1 s");
    }

    fn latest_begin(&self) -> Duration {
        self.stream().latest_begin()
    }

    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    /// The maximum: the actual amount is drawn.
    fn stream_bytes(&self) -> Option<u64> {
        self.stream().stream_bytes()
    }

    fn datagrams(&self) -> Option<Datagrams<'_>> {
        Some(self.stream().datagrams_of("rate", &self.start))
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let mut offer = self.stream().offer(around);
        // Each burst begins with a datagram.
        offer.streaming += 2.0 * around.lasts(self.duration) / period(&self.on, &self.off);
        offer
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let stream = around.seed.stream(&format!("on-off.{}", around.name));
        Program::OnOff(OnOff::new(self, start, around.sender, stream))
    }
}

#[derive(Clone, Debug)]
pub struct OnOff {
    sender: Host,
    interval: Duration,
    payload_bytes: u64,
    on: Sampler<Duration>,
    off: Sampler<Duration>,
    stream: RandomStream,
    /// When the next datagram leaves, if there is one.
    next: Option<Instant>,
    /// When it falls silent, and when it ends.
    silent: Instant,
    end: Instant,
    actions: VecDeque<Action>,
}

impl OnOff {
    /// A source at `sender` that begins to send at `start`. It draws the lengths of its periods from
    /// `stream`: on, off, on, and so on.
    pub fn new(config: &OnOffConfig, start: Instant, sender: Host, stream: RandomStream) -> Self {
        let mut source = Self {
            sender,
            interval: config.stream().interval(),
            payload_bytes: config.payload.0,
            on: config.on.sampler(),
            off: config.off.sampler(),
            stream,
            next: None,
            silent: start,
            end: start + config.duration,
            actions: VecDeque::new(),
        };
        source.speak(start);
        source
    }

    /// Begins to send at `from`, or later if the drawn on periods are empty.
    fn speak(&mut self, mut from: Instant) {
        while from < self.end {
            self.silent = from + self.on.sample(&mut self.stream);
            if self.silent > from {
                self.next = Some(from);
                return;
            }
            from = self.silent + self.off.sample(&mut self.stream);
        }
        self.next = None;
        self.actions.push_back(Action::Complete { flow: 0 });
    }
}

impl Application for OnOff {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    fn handle_wakeup(&mut self, now: Instant) {
        while let Some(due) = self.next.filter(|next| *next <= now) {
            self.actions.push_back(Action::datagram(self.sender, self.payload_bytes));
            let following = due + self.interval;
            if following < self.silent.min(self.end) {
                self.next = Some(following);
            } else {
                let again = self.silent + self.off.sample(&mut self.stream);
                self.speak(again);
            }
        }
    }

    #[inline]
    fn handle_news(&mut self, _now: Instant, _flow: u32, _host: Host, _news: News) {}

    #[inline]
    fn heeds_data(&self) -> bool {
        false
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
