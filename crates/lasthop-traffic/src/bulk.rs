//! A bulk transfer: the sender connects, writes everything and closes; the receiver closes after it.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Faults, Host, Instant, News, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Application, Content, Offer, Outlook, Program, Surroundings, TRANSFER_MAX, Traffic};

/// A bulk TCP transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Application bytes to transfer; or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// How long the sender writes as fast as it can, instead of `bytes`. Data not sent by then are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Size of each write. With `linux-6`, waiting writes are joined, as in Linux; 128 KiB if absent, as in
    /// iperf3. With the older profiles, a segment never spans two writes; one maximum segment if absent.
    pub write: Option<Bytes>,
    /// When the sender connects.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

impl Traffic for BulkConfig {
    keys! { name, start, dscp, port }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        faults.require(self.bytes.is_some() || self.duration.is_some(), "bytes", || {
            "is missing; add for example bytes = \"1 MB\" or duration = \"30 s\"".into()
        });
        faults.require(self.bytes.is_none() || self.duration.is_none(), "duration", || {
            "the transfer ends after its bytes; leave out duration or bytes".into()
        });
        if let Some(bytes) = self.bytes {
            faults.not_zero(&bytes, "bytes", "100 kB");
            faults.require(bytes <= TRANSFER_MAX, "bytes", || {
                format!("\"{bytes}\" is too much for one transfer; write at most \"{TRANSFER_MAX}\"")
            });
        }
        if let Some(duration) = self.duration {
            faults.not_zero(&duration, "duration", "30 s");
        }
        if let Some(write) = self.write {
            let segment = mtu.0 - u64::from(Segment::BASE_HEADER_BYTES);
            faults.not_zero(&write, "write", &format!("{segment} B"));
        }
    }

    fn latest_begin(&self) -> Duration {
        self.start.most() + self.duration.unwrap_or_default()
    }

    fn offered_bytes(&self) -> u64 {
        self.bytes.unwrap_or_default().0
    }

    fn sends_for(&self) -> Option<Duration> {
        self.duration
    }

    fn runs_over_quic(&self) -> bool {
        true
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        let full = f64::from(around.segment_bytes);
        let segment = self.write.map_or(full, |write| full.min(write.0 as f64)).max(1.0);
        let most = self
            .duration
            .map_or(f64::INFINITY, |sends_for| around.lasts(sends_for) * around.fastest_bps / 8.0);
        Offer {
            waiting: (self.bytes.map_or(most, |bytes| bytes.0 as f64) / segment).ceil(),
            ip_bytes: segment + f64::from(Segment::BASE_HEADER_BYTES),
            ..around.flow()
        }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let write_bytes = self.write.map_or(around.write_bytes, |write| write.0);
        let bytes = self.bytes.unwrap_or(TRANSFER_MAX).0;
        let end = self.duration.map(|duration| start + duration);
        Program::BulkTcp(Bulk::new(start, around.sender, (bytes, write_bytes), end))
    }
}

#[derive(Clone, Debug)]
pub struct Bulk {
    start: Option<Instant>,
    sender: Host,
    bytes: u64,
    write_bytes: u64,
    /// When it must stop, if it has a duration.
    end: Option<Instant>,
    actions: VecDeque<Action>,
}

impl Bulk {
    /// A transfer of `bytes`, in writes of `write_bytes`, that begins at `start` and stops at `end`, if
    /// given.
    pub fn new(start: Instant, sender: Host, (bytes, write_bytes): (u64, u64), end: Option<Instant>) -> Self {
        Self { start: Some(start), sender, bytes, write_bytes, end, actions: VecDeque::new() }
    }
}

impl Application for Bulk {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.start.or(self.end)
    }

    fn handle_wakeup(&mut self, now: Instant) {
        let (flow, host) = (0, self.sender);
        if self.start.take_if(|start| *start <= now).is_some() {
            let Self { bytes, write_bytes, .. } = *self;
            let content = Content::Filler;
            self.actions.extend([
                Action::Connect { flow, host },
                Action::Write { flow, host, bytes, write_bytes, content },
            ]);
            if self.end.is_none() {
                self.actions.push_back(Action::Close { flow, host });
            }
        }
        if self.end.take_if(|end| *end <= now).is_some() {
            self.actions.extend([Action::Stop { flow, host }, Action::Close { flow, host }]);
        }
    }

    fn heeds_data(&self) -> bool {
        false
    }

    #[inline]
    fn handle_news(&mut self, _now: Instant, flow: u32, host: Host, news: News) {
        if news.ended && host != self.sender {
            self.actions.push_back(Action::Close { flow, host });
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
