//! The QUIC configuration of a scenario.

use lasthop_core::{Bytes, Datagram, Duration, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// QUIC of both ends of a flow. Settings without a key here have quinn-proto's defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the scenario")]
pub struct QuicConfig {
    /// Congestion control.
    pub congestion_control: CongestionControl,
    /// Implementation of handshake and encryption. It does not affect the records.
    pub crypto: Crypto,
    /// Packets are ECN-capable, and the sender reacts to marks (RFC 9000, section 13.4).
    pub ecn: bool,
    /// Datagrams grow to the path's MTU (RFC 8899); otherwise they have at most 1200 bytes.
    pub mtu_discovery: bool,
    /// Assumed round-trip time before the first measurement (RFC 9002, section 6.2.2).
    pub initial_rtt: Duration,
    /// Time without a packet from the other end after which a connection fails (RFC 9000, section 10.1).
    pub idle_timeout: Duration,
    /// The client has a session ticket from an earlier connection, so it sends data in its first packets (0-RTT;
    /// RFC 9001, section 4.6).
    pub zero_rtt: bool,
    /// At each change of a link, the client changes its address, and its connection migrates (RFC 9000, section 9).
    pub migration: bool,
    /// The ACK frequency extension: the sender requests that the receiver does not acknowledge this number of
    /// packets, only the next one. If absent, the receiver acknowledges every second packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_eliciting_threshold: Option<u32>,
}

/// The congestion controllers of quinn-proto.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionControl {
    /// RFC 9002, section 7.
    #[serde(rename = "newreno")]
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
    /// The window of BBR version 1, initially 240 kB. Pacing follows the window, not BBR's gains.
    Bbr,
}

/// Implementation of handshake and encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Crypto {
    /// TLS 1.3, as on the Internet (RFC 9001).
    #[default]
    Tls,
    /// Messages and packets of the same lengths, but without content: faster, but captures of them cannot be
    /// decoded.
    Null,
}

impl Default for QuicConfig {
    fn default() -> Self {
        Self {
            congestion_control: CongestionControl::default(),
            crypto: Crypto::default(),
            ecn: true,
            mtu_discovery: true,
            initial_rtt: Duration::from_millis(333),
            idle_timeout: Duration::from_secs(30),
            zero_rtt: false,
            migration: false,
            ack_eliciting_threshold: None,
        }
    }
}

impl QuicConfig {
    /// The IP packet size that QUIC requires of every path: 1200 bytes of payload (RFC 9000, section 14).
    pub const MTU_MIN: Bytes = Bytes(1200 + Datagram::HEADER_BYTES as u64);
    const THRESHOLD_MAX: u32 = 1000;

    /// Payload that quinn-proto sends before the first acknowledgment.
    pub const fn initial_window(&self) -> Bytes {
        match self.congestion_control {
            CongestionControl::NewReno | CongestionControl::Cubic => Bytes(12_000),
            CongestionControl::Bbr => Bytes(240_000),
        }
    }

    /// Finds faults of a connection over packets of up to `mtu` bytes.
    pub fn check(&self, mtu: Bytes, faults: &mut Faults) {
        faults.require(mtu >= Self::MTU_MIN, "stack", || {
            format!(
                "\"quic\" needs packets of \"{}\" (RFC 9000, section 14), but mtu = \"{mtu}\"",
                Self::MTU_MIN
            )
        });
        faults.below("quic", |faults| {
            faults.require(!self.zero_rtt || self.crypto == Crypto::Tls, "zero_rtt", || {
                "with crypto = \"null\" hosts store no tickets or tokens; leave out one of the two".into()
            });
            faults.not_zero(&self.initial_rtt, "initial_rtt", "333 ms");
            faults.not_zero(&self.idle_timeout, "idle_timeout", "30 s");
            if let Some(threshold) = self.ack_eliciting_threshold {
                faults.in_range(threshold, 0..=Self::THRESHOLD_MAX, "ack_eliciting_threshold");
            }
        });
    }
}
