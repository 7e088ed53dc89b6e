//! A bulk transfer: the sender connects, writes everything and closes; the receiver closes after it.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use lasthop_core::{Bytes, Distribution, Dscp, Duration, Faults, Host, Instant, News, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Action, Application, Content, Program, Surroundings, TRANSFER_MAX, Traffic};

/// A bulk TCP transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// Application bytes to transfer.
    pub bytes: Bytes,
    /// Size of each write; segments do not span writes. One maximum segment if absent.
    pub write: Option<Bytes>,
    /// When the sender connects.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets, in both directions; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the fixed host; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

impl Traffic for BulkConfig {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self) -> &Distribution<Duration> {
        &self.start
    }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        faults.not_zero(&self.bytes, "bytes", "100 kB");
        faults.require(self.bytes <= TRANSFER_MAX, "bytes", || {
            format!("\"{}\" is too much for one transfer; write at most \"{TRANSFER_MAX}\"", self.bytes)
        });
        if let Some(write) = self.write {
            let segment = mtu.0 - u64::from(Segment::BASE_HEADER_BYTES);
            faults.not_zero(&write, "write", &format!("{segment} B"));
        }
    }

    fn offered_bytes(&self) -> u64 {
        self.bytes.0
    }

    fn dscp(&self) -> Dscp {
        self.dscp
    }

    fn port(&self) -> Option<NonZeroU16> {
        self.port
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        let write_bytes = self.write.map_or(u64::from(around.segment_bytes), |write| write.0);
        Program::BulkTcp(Bulk::new(start, around.sender, self.bytes.0, write_bytes))
    }
}

/// A transfer under way.
#[derive(Clone, Debug)]
pub struct Bulk {
    start: Option<Instant>,
    sender: Host,
    bytes: u64,
    write_bytes: u64,
    actions: VecDeque<Action>,
}

impl Bulk {
    /// A transfer of `bytes` that begins at `start`.
    pub fn new(start: Instant, sender: Host, bytes: u64, write_bytes: u64) -> Self {
        Self { start: Some(start), sender, bytes, write_bytes, actions: VecDeque::new() }
    }
}

impl Application for Bulk {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.start
    }

    fn handle_wakeup(&mut self, now: Instant) {
        if self.start.take_if(|start| *start <= now).is_some() {
            let (flow, host) = (0, self.sender);
            let Self { bytes, write_bytes, .. } = *self;
            self.actions.extend([
                Action::Connect { flow, host },
                Action::Write { flow, host, bytes, write_bytes, content: Content::Filler },
                Action::Close { flow, host },
            ]);
        }
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
