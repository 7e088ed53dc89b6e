//! The results of the analysis of a capture. Field names are column names; names that [`FlowRecord`] has,
//! too, have the same meaning.
//!
//! [`FlowRecord`]: crate::FlowRecord

use crate::columns::{cells, columnar};
use lasthop_core::Protocol;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// TCP: both FINs were acknowledged.
    Closed,
    /// TCP: a packet with RST was seen before that.
    Reset,
    /// TCP: neither.
    Unfinished,
    /// UDP has no end.
    #[default]
    Connectionless,
}

cells! {
    Ending => Text(|cell| match cell {
        Ending::Closed => "closed".into(),
        Ending::Reset => "reset".into(),
        Ending::Unfinished => "unfinished".into(),
        Ending::Connectionless => "connectionless".into(),
    });
}

columnar! {
    /// One direction of one flow. "Sender" is the source address and port, "ACKs" are the packets in the
    /// opposite direction, which has its own row with the same `connection`. All values are as seen at the
    /// capture point: later losses are not yet visible, and packets lost earlier are missing. A data segment
    /// has payload; for UDP read datagram. Counts that do not apply to UDP are 0, measurements `None`.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct StreamRecord {
        /// Number of the flow in the capture, from 1, in the order of their first packets.
        connection: u64,
        protocol: Protocol,
        source: String,
        source_port: u32,
        destination: String,
        destination_port: u32,
        outcome: Ending,
        /// 1 if the SYNs and FINs of both directions are in the capture (tcptrace's "complete conn"), else 0.
        complete: bool,
        /// First packet of the sender, in nanoseconds since 1970; `None` if it sent none.
        start_ns: Option<u64>,
        /// TCP: the sender's first SYN to the ACK of its FIN. UDP: its first to its last datagram.
        elapsed_s: Option<f64>,
        /// First to last packet of the flow in either direction (tcptrace's "elapsed time").
        span_s: f64,
        /// First data segment to the ACK of the last byte.
        data_transmit_s: Option<f64>,
        /// TCP: `unique_bytes` / `elapsed_s`, or / `span_s` if a SYN or FIN is missing. UDP: payload plus 8
        /// per datagram / `elapsed_s`.
        throughput_Bps: Option<f64>,
        /// Packets of the sender, with payload or not.
        packets: u64,
        /// Data segments of the sender.
        sent_packets: u64,
        sent_bytes: u64,
        /// The part of `sent_bytes` that was not sent before.
        unique_bytes: u64,
        /// Data segments that carry at least one byte sent before.
        retransmitted_packets: u64,
        retransmitted_bytes: u64,
        /// SYNs and FINs sent again without payload. tcptrace's "rexmt data pkts" includes them.
        retransmitted_syns_fins: u64,
        /// Segments that fill a gap below others seen earlier.
        out_of_order_packets: u64,
        /// Packets that repeat the highest ACK number of the receiver, without payload and without change
        /// of the window (tcptrace's "duplicate acks"). The receiver's FIN counts.
        duplicate_acks: u64,
        triple_duplicate_acks: u64,
        /// ACKs with SACK information (tcptrace's "sacks sent" of the other direction).
        sack_blocks: u64,
        sack_blocks_total: u64,
        /// ACKs whose first block reports a duplicate (RFC 2883).
        dsacks: u64,
        /// Packets of the sender with the congestion-experienced mark.
        marks_ecn: u64,
        /// ACKs with ECN echo, except that of the handshake.
        ecn_echoes: u64,
        /// Packets of the sender with CWR (window reduced), except that of the handshake.
        cwr_packets: u64,
        syns: u64,
        fins: u64,
        resets: u64,
        mss_bytes: Option<u32>,
        /// Window scale that the sender announced, an exponent of 2.
        window_scale: Option<u32>,
        /// ACKs of the receiver that close its window.
        zero_windows: u64,
        /// Segments sent into the closed window; they do not count as retransmissions.
        zero_window_probes: u64,
        /// Round-trip times from the capture point to the receiver: segments sent once and in order, each
        /// answered by an ACK of its last byte.
        rtt_samples: u64,
        rtt_min_s: Option<f64>,
        rtt_median_s: Option<f64>,
        rtt_p95_s: Option<f64>,
        rtt_max_s: Option<f64>,
        /// UDP: median time between two consecutive datagrams.
        spacing_p50_ms: Option<f64>,
        spacing_p75_ms: Option<f64>,
        spacing_p90_ms: Option<f64>,
        spacing_max_ms: Option<f64>,
    }
}

columnar! {
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct CaptureRecord {
        packets: u64,
        tcp_packets: u64,
        udp_packets: u64,
        /// Of neither protocol; not analysed.
        other_packets: u64,
        /// Fragments of IP packets; not analysed.
        fragments: u64,
        /// Too short for their headers; not analysed.
        incomplete_packets: u64,
        /// Byte of the file where it was cut short, within a packet; `None` if it was not.
        cut_at: Option<u64>,
    }
}

columnar! {
    /// Frames of one protocol, with all that they carry.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct ProtocolRecord {
        /// The protocol and those below it, from the network layer up: `ip:tcp`. What an IP packet carries is
        /// called as IANA calls it, in small letters; a fragment is `ip:fragment`, whatever it carries.
        protocol: String,
        packets: u64,
        /// Their bytes on the wire, with the header of the link layer.
        bytes: u64,
    }
}

columnar! {
    /// Frames of a range of lengths on the wire, link layer included. Ranges with frames, and those between.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct SizeRecord {
        from_bytes: u64,
        /// Greatest; `None` if it has no end.
        to_bytes: Option<u64>,
        packets: u64,
        bytes: u64,
        min_bytes: Option<u64>,
        max_bytes: Option<u64>,
    }
}
