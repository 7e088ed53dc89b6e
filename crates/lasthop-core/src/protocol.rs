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
    /// QUIC with QUIC datagrams inside (RFC 9221), which it does not retransmit.
    #[serde(rename = "quic-datagram")]
    QuicDatagrams,
}

impl Protocol {
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Quic, Self::QuicDatagrams];

    /// Its name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Quic => "quic",
            Self::QuicDatagrams => "quic-datagram",
        }
    }

    /// True if its flows are transfers: all data that is written arrives, and the sender adapts to the
    /// network. The flows of the other protocols are streams, which last as long as their application sends.
    pub const fn is_transfer(self) -> bool {
        match self {
            Self::Tcp | Self::Quic => true,
            Self::Udp | Self::QuicDatagrams => false,
        }
    }
}
