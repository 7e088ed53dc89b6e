//! A constant-bit-rate UDP source.

use std::num::NonZeroU16;

use lasthop_core::{
    Bytes, Datagram, Distribution, Dscp, Duration, Ecn, Faults, Host, Instant, News, Protocol, Rate,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Application, Datagrams, Offer, Outlook, Program, Surroundings, TRANSFER_MAX, Traffic};

#[cfg(test)]
mod tests;

/// A constant-bit-rate UDP stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConstantUdpConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Rate of the payload, without headers.
    pub rate: Rate,
    /// Payload of each datagram.
    #[schemars(extend("examples" = ["160 B"]))]
    pub payload: Bytes,
    /// How long datagrams are sent.
    #[schemars(extend("examples" = ["10 s"]))]
    pub duration: Duration,
    /// When the first datagram leaves.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// ECN field of the datagrams: "ect0", or "ect1" for low-latency queues (RFC 9331); not ECN-capable if
    /// absent. The stream does not react to marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Ect>,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

/// A codepoint of ECN-capable transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ect {
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
}

impl ConstantUdpConfig {
    /// Time between two datagrams; it must not be zero.
    pub fn interval(&self) -> Duration {
        self.rate.transmission_time(self.payload.0 as u32)
    }

    /// Its stream of datagrams; `key` is the key that sets its rate.
    pub(crate) fn datagrams_of<'a>(
        &self,
        key: &'static str,
        start: &'a Distribution<Duration>,
    ) -> Datagrams<'a> {
        let Self { rate, payload, duration, .. } = *self;
        Datagrams { key, rate, payload, interval: self.interval(), start, duration }
    }

    /// Payload of all datagrams together, in bytes; `u64::MAX` if it is more.
    pub fn total_bytes(&self) -> u64 {
        let datagrams = self.duration.as_nanos().div_ceil(self.interval().as_nanos());
        datagrams.saturating_mul(self.payload.0)
    }

    /// Whether its datagrams fit into packets of `mtu` bytes.
    pub(crate) fn fits(&self, mtu: Bytes) -> bool {
        (1..=mtu.0 - u64::from(Datagram::HEADER_BYTES)).contains(&self.payload.0)
    }

    /// Finds a duration with no data or too much data, and a rate at which there is no time between
    /// datagrams.
    pub(crate) fn check_amount(&self, faults: &mut Faults) {
        let Self { rate, payload, duration, .. } = self;
        let takes_time = !self.interval().is_zero();
        faults.require(takes_time, "rate", || {
            format!(
                "at \"{rate}\", datagrams of {} bytes of payload are less than a nanosecond apart; lower it",
                payload.0
            )
        });
        faults.require(!takes_time || self.total_bytes() <= TRANSFER_MAX.0, "duration", || {
            format!(
                "\"{duration}\" at \"{rate}\" exceeds \"{TRANSFER_MAX}\"; shorten it, or lower \
                 the rate"
            )
        });
        faults.not_zero(duration, "duration", "60 s");
    }
}

impl Traffic for ConstantUdpConfig {
    keys! { name, start, dscp, port }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let room = mtu.0 - u64::from(Datagram::HEADER_BYTES);
        let payload = self.payload.0;
        let fits = self.fits(mtu);
        faults.require(fits, "payload", || {
            format!(
                "a datagram of {payload} bytes of payload does not fit mtu = \"{mtu}\"; \
                 write from \"1 B\" to \"{room} B\""
            )
        });
        if fits {
            self.check_amount(faults);
        }
    }

    fn latest_begin(&self) -> Duration {
        self.start.most() + self.duration
    }

    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn stream_bytes(&self) -> Option<u64> {
        Some(self.total_bytes())
    }

    fn ecn(&self) -> Ecn {
        match self.ecn {
            None => Ecn::NotEct,
            Some(Ect::Ect0) => Ecn::Ect0,
            Some(Ect::Ect1) => Ecn::Ect1,
        }
    }

    fn datagrams(&self) -> Option<Datagrams<'_>> {
        Some(self.datagrams_of("rate", &self.start))
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        Offer {
            streaming: (around.lasts(self.duration) / self.interval().as_secs_f64()).ceil(),
            ip_bytes: self.payload.0 as f64 + f64::from(Datagram::HEADER_BYTES),
            ..around.flow()
        }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        Program::ConstantUdp(ConstantUdp::new(self, start, around.sender))
    }
}

/// Sends one datagram every interval; the payload rate sets the interval.
#[derive(Clone, Debug)]
pub struct ConstantUdp {
    sender: Host,
    next: Instant,
    end: Instant,
    interval: Duration,
    payload_bytes: u64,
    /// Number of datagrams that are due and not handed out yet.
    due: u32,
}

impl ConstantUdp {
    /// A source at `sender` whose first datagram leaves at `start`.
    pub fn new(config: &ConstantUdpConfig, start: Instant, sender: Host) -> Self {
        Self {
            sender,
            next: start,
            end: start + config.duration,
            interval: config.interval(),
            payload_bytes: config.payload.0,
            due: 0,
        }
    }
}

impl Application for ConstantUdp {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        (self.next < self.end).then_some(self.next)
    }

    fn handle_wakeup(&mut self, now: Instant) {
        while self.next <= now && self.next < self.end {
            self.due += 1;
            self.next += self.interval;
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
        self.due = self.due.checked_sub(1)?;
        Some(Action::datagram(self.sender, self.payload_bytes))
    }
}
