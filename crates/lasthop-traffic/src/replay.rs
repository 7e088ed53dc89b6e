//! Datagrams with the times and sizes of a recording.

use std::num::NonZeroU16;
use std::sync::Arc;

use lasthop_core::{
    Bytes, Datagram, Distribution, Dscp, Duration, Faults, Host, Instant, News, Protocol, Segment,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recording::{Packet, Recording};
use crate::{Action, Application, Offer, Outlook, Program, Surroundings, Traffic};

#[cfg(test)]
mod tests;

/// A recording, replayed as UDP datagrams, which do not react to the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayConfig {
    /// Name of the flow in the records.
    pub name: String,
    /// The recording, from the scenario's folder: a capture (pcap or pcapng), or a CSV file.
    pub file: Recording,
    /// Start of the recording: its time 0, or the first packet of a capture.
    #[schemars(default = "crate::at_once")]
    pub start: Distribution<Duration>,
    /// Code point of the flow's packets; best effort if absent.
    #[serde(default)]
    pub dscp: Dscp,
    /// Port of the server; 30001 for the first flow, 30002 for the second and so on if absent.
    pub port: Option<NonZeroU16>,
}

impl Traffic for ReplayConfig {
    keys! { name, start, dscp, port }

    fn check(&self, mtu: Bytes, faults: &mut Faults) {
        let room = mtu.0 - u64::from(Datagram::HEADER_BYTES);
        let (number, largest) = self.file.largest();
        faults.require(u64::from(largest) <= room, "file", || {
            format!(
                "packet {number} has {largest} bytes of payload, but mtu = \"{mtu}\" allows {room}; raise \
                 mtu, or capture without segmentation offload"
            )
        });
    }

    fn latest_begin(&self) -> Duration {
        self.start.most() + self.file.end()
    }

    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn stream_bytes(&self) -> Option<u64> {
        Some(self.file.total_bytes())
    }

    fn offer(&self, around: &Outlook<'_>) -> Offer {
        Offer {
            streaming: self.file.packets().len() as f64,
            ip_bytes: f64::from(Segment::BASE_HEADER_BYTES),
            ..around.flow()
        }
    }

    fn begin(&self, start: Instant, around: &Surroundings<'_>) -> Program {
        Program::Replay(Replay::new(&self.file, start, around.sender))
    }
}

/// A recording that is being sent.
#[derive(Clone, Debug)]
pub struct Replay {
    packets: Arc<[Packet]>,
    start: Instant,
    sender: Host,
    /// Number of packets that were due, and of packets that have been handed out.
    due: usize,
    sent: usize,
}

impl Replay {
    /// A source at `sender` for which the recording's time 0 is `start`.
    pub fn new(recording: &Recording, start: Instant, sender: Host) -> Self {
        Self { packets: recording.packets(), start, sender, due: 0, sent: 0 }
    }
}

impl Application for Replay {
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.packets.get(self.due).map(|packet| self.start + packet.at)
    }

    fn handle_wakeup(&mut self, now: Instant) {
        while self.next_wakeup().is_some_and(|next| next <= now) {
            self.due += 1;
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
        let packet = self.packets[..self.due].get(self.sent)?;
        self.sent += 1;
        Some(Action::datagram(self.sender, u64::from(packet.bytes)))
    }
}
