//! The transport protocols of flows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// QUIC, in datagrams of UDP.
    Quic,
    /// QUIC with datagrams of its own inside (RFC 9221), which it does not repeat.
    #[serde(rename = "quic-datagram")]
    QuicDatagrams,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Quic, Self::QuicDatagrams];

    /// What it is called in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Quic => "quic",
            Self::QuicDatagrams => "quic-datagram",
        }
    }

    /// True if its flows are transfers: what is written arrives whole, and the sender adapts to the network. Others are
    /// streams, which last as long as their application sends.
    pub const fn is_transfer(self) -> bool {
        match self {
            Self::Tcp | Self::Quic => true,
            Self::Udp | Self::QuicDatagrams => false,
        }
    }
}
