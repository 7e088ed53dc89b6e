//! The records of a run. Field names are the column names of `flows.parquet` and `runs.parquet`, with
//! the unit last.

use crate::columns::{columnar, labels};
use lasthop_core::Protocol;
use serde::Serialize;

labels! {
    /// How a flow ended.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Outcome {
        /// TCP: the sender saw both directions closed. UDP: everything offered was sent, and each
        /// datagram arrived or was dropped.
        Closed = "closed",
        /// The TCP sender gave up, or was reset.
        Aborted = "aborted",
        /// Cut: still under way when the run reached its time limit.
        #[default]
        Unfinished = "unfinished",
    }
}

columnar! {
    /// One flow of one run. "Sender" is the host that sends the flow's data, and the data direction is that of
    /// its packets. A data segment is one with payload; for UDP
    /// read datagram. Counts that make no sense for UDP are 0, measurements `None`.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct FlowRecord {
        /// Name of the flow.
        flow: String,
        /// Name of the scenario's entry that the flow belongs to; a page load has several flows.
        application: String,
        /// Transport protocol.
        protocol: Protocol,
        /// How it ended.
        outcome: Outcome,
        /// When the sender sent or got its first packet; `None` if there was none.
        start_s: Option<f64>,
        /// TCP: first SYN sent or received by the sender to the ACK of its FIN received. UDP: first to last
        /// arrival.
        elapsed_s: Option<f64>,
        /// First data segment sent to the ACK of the last application byte received.
        data_transmit_s: Option<f64>,
        /// TCP: bytes sent, each counted once, / `elapsed_s`; of a flow that was cut or aborted, the bytes that
        /// the receiver acknowledged / the time from `start_s` to then. UDP: received payload plus 8 per datagram
        /// / `elapsed_s`; with less than two arrivals / the time from `start_s` to the arrival or the run's end.
        /// `None` only if the flow sent nothing.
        throughput_Bps: Option<f64>,
        /// Data segments sent, retransmissions included.
        sent_packets: u64,
        /// Data segments that reached the receiver, every copy counted.
        received_packets: u64,
        /// Payload of `sent_packets`.
        sent_bytes: u64,
        /// Data segments that carry at least one byte sent before.
        retransmitted_packets: u64,
        /// Retransmitted segments that need not have been sent: every byte reached the receiver in
        /// copies sent earlier, before or after the retransmission was sent. So a retransmission that
        /// repairs a loss is needed, and so is one that is lost while trying to; one that is
        /// dropped although the original arrives is unnecessary all the same.
        unnecessary_retransmissions: u64,
        /// Retransmission timer expiries.
        timeouts: u64,
        /// Of them those of the SYN or SYN-ACK.
        syn_timeouts: u64,
        /// Of them, those where a copy of the first unacknowledged byte that had been sent before
        /// the expiry reached the receiver, before or after the expiry.
        spurious_timeouts: u64,
        /// Entries into fast recovery.
        fast_retransmits: u64,
        /// Tail loss probes (RFC 8985, section 7), with new data or old; `None` where the hosts' TCP does not tell.
        tail_loss_probes: Option<u64>,
        /// Reductions of the window that the sender found spurious and undid.
        undone: u64,
        /// Packets received by the sender that repeat the highest ACK number so far and carry no
        /// payload, whatever their window. The receiver's FIN is one, so a loss-free flow has 1.
        /// Repeated SYN-ACKs and resets are none.
        duplicate_acks: u64,
        /// Times that a third duplicate in a row came.
        triple_duplicate_acks: u64,
        /// ACKs with SACK information received by the sender (tcptrace's "sacks sent").
        sack_blocks: u64,
        /// Blocks in all of them together.
        sack_blocks_total: u64,
        /// Packets lost to a full router queue, data direction (SYN and handshake ACK included).
        data_drops_queue: u64,
        /// Packets dropped by RED, data direction.
        data_drops_red: u64,
        /// Packets that an ATM switch discarded early, data direction.
        data_drops_epd: u64,
        /// Packets that an ATM switch dropped because their flow had more than its share of the buffer, data
        /// direction.
        data_drops_selective: u64,
        /// Packets lost on the link (without ARQ, or given up by it), data direction.
        data_drops_error: u64,
        /// Packets that got the congestion-experienced mark, data direction.
        data_marks_ecn: u64,
        /// Packets lost to a full router queue, ACK direction.
        ack_drops_queue: u64,
        /// Packets dropped by RED, ACK direction.
        ack_drops_red: u64,
        /// Packets lost on the link, ACK direction.
        ack_drops_error: u64,
        /// Packets that got the congestion-experienced mark, ACK direction.
        ack_marks_ecn: u64,
        /// Least round-trip time the sender measured.
        rtt_min_s: Option<f64>,
        /// Its median.
        rtt_median_s: Option<f64>,
        /// Its 95 % quantile.
        rtt_p95_s: Option<f64>,
        /// Its greatest.
        rtt_max_s: Option<f64>,
        /// Least time in the router queue, data direction.
        queue_delay_min_s: Option<f64>,
        /// Its median.
        queue_delay_median_s: Option<f64>,
        /// Its 95 % quantile.
        queue_delay_p95_s: Option<f64>,
        /// Its greatest.
        queue_delay_max_s: Option<f64>,
        /// Greatest congestion window, in segments.
        cwnd_max: Option<u64>,
        /// UDP: mean time between the arrivals of two consecutively numbered datagrams; pairs with a loss
        /// between them are ignored.
        spacing_mean_ms: Option<f64>,
        /// UDP: median time between the arrivals of two consecutively numbered datagrams; pairs with
        /// a loss between them are ignored.
        spacing_p50_ms: Option<f64>,
        /// Its 75 % quantile.
        spacing_p75_ms: Option<f64>,
        /// Its 90 % quantile.
        spacing_p90_ms: Option<f64>,
        /// Its greatest.
        spacing_max_ms: Option<f64>,
        /// UDP: median of |spacing at the receiver - spacing at the sender| over the same pairs.
        jitter_p50_ms: Option<f64>,
        /// Its 75 % quantile.
        jitter_p75_ms: Option<f64>,
        /// Its 90 % quantile.
        jitter_p90_ms: Option<f64>,
        /// Its greatest.
        jitter_max_ms: Option<f64>,
    }
}

columnar! {
    /// One run. The bottleneck is the last hop in the data direction of the first flow.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct RunRecord {
        /// End of the last flow since the start of the run. A flow ends with the ACK of the sender's
        /// FIN, the abort, the last datagram's arrival; an unfinished one with the run.
        duration_s: f64,
        /// Packet events seen.
        events: u64,
        /// Packets sent, both directions and protocols.
        packets_sent: u64,
        /// Packets delivered.
        packets_delivered: u64,
        /// Packets dropped, whatever the cause.
        packets_dropped: u64,
        /// In-sequence TCP bytes that the receivers acknowledged, over the time from the first TCP
        /// flow's first packet to the last one's end, as a share of what the bottleneck could carry
        /// in full segments. This and both fairnesses are `None` with short flows.
        efficiency: Option<f64>,
        /// Jain's index over the throughput of the TCP flows that sent, cut ones included; `None` if one was
        /// aborted.
        fairness_jain: Option<f64>,
        /// Jain's index over x/e of the TCP flows that were offered anything: x the in-sequence bytes as in
        /// `efficiency`, e the max-min fair share of the same capacity given what the applications wrote.
        fairness_maxmin: Option<f64>,
        /// Bytes delivered over the bottleneck (IP length, both protocols) over its rate and
        /// `duration_s`.
        utilisation: Option<f64>,
        /// The part of `utilisation` that is not of short flows.
        background_share: Option<f64>,
        /// Longest router queue at the bottleneck; `None` without a router.
        queue_max_packets: Option<u64>,
        /// Its time average over `duration_s`; `None` without a router.
        queue_mean_packets: Option<f64>,
        /// Greatest average that RED computed there, in RED's unit; `None` without RED.
        red_average_max: Option<f64>,
    }
}

columnar! {
    /// The short flows of one run that have the same hosts, together: those that were started, also if the run's
    /// end cut them short.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct ShortRecord {
        /// Name of the hosts.
        application: String,
        /// Flows started.
        flows: u64,
        /// Flows whose client got the whole response.
        completed: u64,
        /// Mean flow completion time of these: the client's first SYN sent to the response's last byte there.
        fct_mean_s: Option<f64>,
        /// Its median.
        fct_median_s: Option<f64>,
        /// Its 95 % quantile.
        fct_p95_s: Option<f64>,
        /// Its greatest.
        fct_max_s: Option<f64>,
        /// Mean of the completed flows' throughput: bytes of the response over the completion time.
        throughput_mean_Bps: Option<f64>,
        /// Data segments sent by the servers, retransmissions included.
        sent_packets: u64,
        /// Of them those with bytes sent before.
        retransmitted_packets: u64,
        /// Of them those that need not have been sent, see the flows.
        unnecessary_retransmissions: u64,
        /// Packets towards the clients that were lost, whatever the cause.
        lost_packets: u64,
        /// Expiries of the servers' retransmission timers, without those of the SYN-ACK.
        timeouts: u64,
        /// Those of the SYN-ACK.
        syn_timeouts: u64,
        /// Entries into fast recovery.
        fast_retransmits: u64,
    }
}

columnar! {
    /// One page load of one run.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct PageRecord {
        /// Name of the page load.
        page: String,
        /// `Closed`: the browser got every object whole and the end of every connection. `Aborted`: not, and a
        /// connection was aborted by either end.
        outcome: Outcome,
        /// When the browser sent its first SYN; `None` if it did not.
        start_s: Option<f64>,
        /// From there to the arrival of the last connection's FIN in order, at the browser.
        response_time_s: Option<f64>,
        /// Objects of the page.
        objects: u64,
        /// Objects that the browser got whole.
        objects_received: u64,
        /// Connections that the browser opened.
        connections: u64,
        /// Connections that either end gave up.
        connections_aborted: u64,
    }
}
