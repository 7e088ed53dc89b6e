//! The records of a run. Field names are the column names of `flows.parquet` and `runs.parquet`, with
//! the unit last.

use crate::columns::{cells, columnar};
use crate::samples::Samples;
use lasthop_core::{Direction, Protocol};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// TCP: the sender saw both directions closed. UDP: everything offered was sent, and each datagram
    /// arrived or was dropped.
    Closed,
    /// The TCP sender gave up, or was reset.
    Aborted,
    /// Cut: still under way when the run reached its time limit.
    #[default]
    Unfinished,
}

cells! {
    Outcome => Text(|cell| match cell {
        Outcome::Closed => "closed".into(),
        Outcome::Aborted => "aborted".into(),
        Outcome::Unfinished => "unfinished".into(),
    });
}

columnar! {
    /// One flow of one run. "Sender" is the host that sends the flow's data, and the data direction is that
    /// of its packets. A data segment is one with payload; for UDP read datagram. Counts that make no sense
    /// for UDP are 0, measurements missing.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct FlowRecord {
        /// Name of the flow.
        flow: String = ("flow", ""),
        /// Name of the scenario's entry that the flow belongs to; a page load has several flows.
        application: String = ("application", ""),
        /// The host at the edge.
        host: String = ("host", ""),
        /// The host at the other end: `server` if that is a server of the flow's own.
        peer: String = ("peer", ""),
        /// The flow that it carries together with other connections, as a subflow of MPTCP does; missing for a
        /// flow by itself. The row of that flow has the sums of their counts, times from end to end, and no
        /// round-trip times, delays and windows. The columns of the run count the data once.
        part_of: String = ("part of", ""),
        /// Transport protocol.
        protocol: Protocol = ("protocol", ""),
        /// Which way its data go: `down` from the server, `up` from the client. With hosts that have
        /// names: from `peer` or from `host`.
        direction: Direction = ("direction", ""),
        /// How it ended: `closed`, `aborted` or, cut by the time limit, `unfinished`.
        outcome: Outcome = ("outcome", ""),
        /// When the sender sent or got its first packet; missing if there was none.
        start_s: Option<f64> = ("start", "s"),
        /// TCP: first SYN sent or received by the sender to the ACK of its FIN received; missing where the
        /// flow has a `duration`. UDP: first to last arrival, also missing then.
        elapsed_s: Option<f64> = ("elapsed time", "s"),
        /// First data segment sent to the ACK of the last application byte received.
        data_transmit_s: Option<f64> = ("data transmission time", "s"),
        /// TCP: bytes sent, each counted once, / `elapsed_s`. Of a flow with a `duration`, the bytes that the
        /// receiver acknowledged within it / the duration. Of a flow that was cut or aborted, the bytes that
        /// the receiver acknowledged / the time from `start_s` to then. UDP: received payload plus 8 per
        /// datagram / `elapsed_s` or the duration; with less than two arrivals / the time from `start_s` to the arrival or
        /// the run's end. Missing only if the flow sent nothing.
        throughput_Bps: Option<f64> = ("throughput", "B/s"),
        /// Data segments sent, retransmissions included.
        sent_packets: u64 = ("packets sent", "packets"),
        /// Data segments that reached the receiver, every copy counted.
        received_packets: u64 = ("packets received", "packets"),
        /// Payload of the data segments sent, retransmissions included.
        sent_bytes: u64 = ("bytes sent", "B"),
        /// Data segments that carry at least one byte sent before; of CoAP, requests sent again.
        retransmitted_packets: u64 = ("retransmissions", "packets"),
        /// Unnecessary retransmissions: every byte reached the receiver in copies sent earlier, before or
        /// after the retransmission was sent. So a retransmission of a lost segment is necessary, even if
        /// it is lost, too; a retransmission of a segment that arrives is unnecessary, even if it is dropped.
        /// Of CoAP: a response to an earlier copy of the request arrived.
        unnecessary_retransmissions: u64 = ("unnecessary retransmissions", "packets"),
        /// Retransmission timer expiries; of CoAP, also the last one, after which the client gives up.
        timeouts: u64 = ("timeouts", ""),
        /// Retransmission timer expiries of the SYN or SYN-ACK.
        syn_timeouts: u64 = ("SYN timeouts", ""),
        /// Retransmission timer expiries where a copy of the first unacknowledged byte that had been sent
        /// before the expiry reached the receiver, before or after the expiry. Of CoAP: where a response to a
        /// copy of the request that had been sent before the expiry arrived after it.
        spurious_timeouts: u64 = ("spurious timeouts", ""),
        /// Entries into fast recovery.
        fast_retransmits: u64 = ("fast retransmits", ""),
        /// Tail loss probes (RFC 8985, section 7), with new data or old; missing if the hosts' TCP does not
        /// report them.
        tail_loss_probes: Option<u64> = ("tail loss probes", ""),
        /// Reductions of the window that the sender detected as spurious and undid.
        undone: u64 = ("undone reductions", ""),
        /// Packets received by the sender that repeat the highest ACK number so far and carry no
        /// payload, whatever their window. The receiver's FIN is one, so a loss-free flow has 1.
        /// Repeated SYN-ACKs and resets do not count.
        duplicate_acks: u64 = ("duplicate ACKs", "acks"),
        /// Number of third duplicate ACKs in a row.
        triple_duplicate_acks: u64 = ("triple duplicate ACKs", "acks"),
        /// ACKs with SACK information received by the sender (tcptrace's "sacks sent").
        sack_blocks: u64 = ("ACKs with SACK", ""),
        /// SACK blocks in all ACKs together.
        sack_blocks_total: u64 = ("SACK blocks", ""),
        /// Packets lost to a full router queue, data direction (SYN and handshake ACK included).
        data_drops_queue: u64 = ("queue drops", "packets"),
        /// Packets dropped by RED, data direction.
        data_drops_red: u64 = ("RED drops", "packets"),
        /// Packets dropped by active queue management other than RED, such as CoDel, data direction.
        data_drops_aqm: u64 = ("AQM drops", "packets"),
        /// Packets that an ATM switch discarded early, data direction.
        data_drops_epd: u64 = ("early packet discards", "packets"),
        /// Packets that an ATM switch dropped because their flow had more than its share of the buffer, data
        /// direction.
        data_drops_selective: u64 = ("selective drops", "packets"),
        /// Packets lost on the link (without ARQ, or after its last attempt), data direction.
        data_drops_error: u64 = ("link losses", "packets"),
        /// Packets marked as congestion experienced, data direction.
        data_marks_ecn: u64 = ("ECN marks", "packets"),
        /// Packets lost to a full router queue, ACK direction.
        ack_drops_queue: u64 = ("queue drops of ACKs", "packets"),
        /// Packets dropped by RED, ACK direction.
        ack_drops_red: u64 = ("RED drops of ACKs", "packets"),
        /// Packets dropped by active queue management other than RED, ACK direction.
        ack_drops_aqm: u64 = ("AQM drops of ACKs", "packets"),
        /// Packets lost on the link, ACK direction.
        ack_drops_error: u64 = ("link losses of ACKs", "packets"),
        /// Packets marked as congestion experienced, ACK direction.
        ack_marks_ecn: u64 = ("ECN marks of ACKs", "packets"),
        /// Hops that dropped packets of the data direction, each with the number of drops, as in
        /// `cable 12, wifi 3`; empty if none were dropped.
        drop_hops: String = ("drops by hop", ""),
        /// Smallest round-trip time the sender measured.
        rtt_min_s: Option<f64> = ("least round-trip time", "s"),
        /// Median round-trip time the sender measured.
        rtt_median_s: Option<f64> = ("median round-trip time", "s"),
        /// 95 % quantile of the round-trip times the sender measured.
        rtt_p95_s: Option<f64> = ("p95 of round-trip time", "s"),
        /// Greatest round-trip time the sender measured.
        rtt_max_s: Option<f64> = ("largest round-trip time", "s"),
        /// Smallest time in the router queues along the route, data direction.
        queue_delay_min_s: Option<f64> = ("least queueing delay", "s"),
        /// Median time in the router queues along the route, data direction.
        queue_delay_median_s: Option<f64> = ("median queueing delay", "s"),
        /// 95 % quantile of the time in the router queues along the route, data direction.
        queue_delay_p95_s: Option<f64> = ("p95 of queueing delay", "s"),
        /// Greatest time in the router queues along the route, data direction.
        queue_delay_max_s: Option<f64> = ("largest queueing delay", "s"),
        /// Median one-way delay of the data packets that arrived: from the time the sender's host sent that
        /// copy to its arrival at the receiver's host.
        one_way_delay_p50_s: Option<f64> = ("median one-way delay", "s"),
        /// 95 % quantile of the one-way delay of the data packets that arrived, retransmissions included.
        one_way_delay_p95_s: Option<f64> = ("p95 of one-way delay", "s"),
        /// 99 % quantile of the one-way delay of the data packets that arrived, retransmissions included.
        one_way_delay_p99_s: Option<f64> = ("p99 of one-way delay", "s"),
        /// Greatest congestion window, in segments.
        cwnd_max: Option<u64> = ("largest congestion window", ""),
        /// UDP: mean time between the arrivals of two consecutively numbered datagrams; pairs with a loss
        /// between them are ignored.
        spacing_mean_ms: Option<f64> = ("mean packet spacing", "ms"),
        /// UDP: median time between the arrivals of two consecutively numbered datagrams; pairs with a loss
        /// between them are ignored.
        spacing_p50_ms: Option<f64> = ("median packet spacing", "ms"),
        /// UDP: 75 % quantile of the time between the arrivals of two consecutively numbered datagrams; pairs
        /// with a loss between them are ignored.
        spacing_p75_ms: Option<f64> = ("p75 of packet spacing", "ms"),
        /// UDP: 90 % quantile of the time between the arrivals of two consecutively numbered datagrams; pairs
        /// with a loss between them are ignored.
        spacing_p90_ms: Option<f64> = ("p90 of packet spacing", "ms"),
        /// UDP: greatest time between the arrivals of two consecutively numbered datagrams; pairs with a loss
        /// between them are ignored.
        spacing_max_ms: Option<f64> = ("largest packet spacing", "ms"),
        /// UDP: median of |spacing at the receiver - spacing at the sender|; pairs with a loss between them
        /// are ignored.
        jitter_p50_ms: Option<f64> = ("median jitter", "ms"),
        /// UDP: 75 % quantile of |spacing at the receiver - spacing at the sender|; pairs with a loss between
        /// them are ignored.
        jitter_p75_ms: Option<f64> = ("p75 of jitter", "ms"),
        /// UDP: 90 % quantile of |spacing at the receiver - spacing at the sender|; pairs with a loss between
        /// them are ignored.
        jitter_p90_ms: Option<f64> = ("p90 of jitter", "ms"),
        /// UDP: greatest |spacing at the receiver - spacing at the sender|; pairs with a loss between them
        /// are ignored.
        jitter_max_ms: Option<f64> = ("largest jitter", "ms"),
        /// Call: share of the frames that were lost in the network, or over QUIC dropped by the sender. Frames
        /// still in flight at the end are not counted.
        voice_loss: Option<f64> = ("speech frames lost", "ratio"),
        /// Call: share of the frames that arrived too late to be played: their delay exceeded that of the first
        /// arrival by more than `jitter_buffer`.
        voice_late: Option<f64> = ("jitter-buffer loss", "ratio"),
        /// Call: mouth-to-ear delay: that of the codec, the first arrival's one-way delay and `jitter_buffer`.
        /// Over QUIC, the one-way delay includes the wait at the sender.
        voice_delay_s: Option<f64> = ("mouth-to-ear delay", "s"),
        /// Call: mean opinion score from 1 (bad) to 4.5 by the E-model of ITU-T G.107, from `voice_loss`,
        /// `voice_late`, their burstiness, and `voice_delay_s`; all other parameters have the E-model's default
        /// values, without echo. 1 if no frame was played.
        mos: Option<f64> = ("speech quality", "MOS"),
        /// Requests made, if the application reports them.
        requests: Option<u64> = ("requests", ""),
        /// Requests with a complete response at the client.
        requests_completed: Option<u64> = ("requests completed", ""),
        /// Mean completion time, from the client's write of a request to the response's last byte there. It
        /// includes the handshake for the first request on a connection, and for CoAP the time until the request
        /// may be sent.
        completion_mean_s: Option<f64> = ("mean completion time", "s"),
        /// Median completion time.
        completion_p50_s: Option<f64> = ("median completion time", "s"),
        /// 95 % quantile of the completion times.
        completion_p95_s: Option<f64> = ("p95 of completion time", "s"),
        /// 99 % quantile of the completion times.
        completion_p99_s: Option<f64> = ("p99 of completion time", "s"),
        /// Greatest completion time.
        completion_max_s: Option<f64> = ("longest completion time", "s"),
        /// Video: time from the first packet to the first picture; missing if it never played.
        startup_delay_s: Option<f64> = ("start-up delay", "s"),
        /// Video: number of stalls, with an empty buffer.
        stalls: Option<u64> = ("stalls", ""),
        /// Video: time in stalls, start-up not included.
        stalled_s: Option<f64> = ("time stalled", "s"),
        /// Video: mean bitrate of the segments that arrived.
        bitrate_mean_bps: Option<f64> = ("mean bitrate", "bit/s"),
        /// Video: segments whose bitrate differed from that of the previous one.
        bitrate_switches: Option<u64> = ("bitrate switches", ""),
        /// Video: segments that arrived.
        segments: Option<u64> = ("segments", ""),
    }
}

impl FlowRecord {
    /// Data packets dropped, from any cause.
    pub(crate) fn data_drops(&self) -> u64 {
        self.data_drops_queue
            + self.data_drops_red
            + self.data_drops_aqm
            + self.data_drops_epd
            + self.data_drops_selective
            + self.data_drops_error
    }

    pub(crate) fn set_queue_delay(&mut self, delays: Samples) {
        let quantiles = delays.quantiles_s([0.0, 0.5, 0.95, 1.0]);
        [self.queue_delay_min_s, self.queue_delay_median_s, self.queue_delay_p95_s, self.queue_delay_max_s] =
            quantiles;
    }

    pub(crate) fn set_one_way_delay(&mut self, delays: Samples) {
        [self.one_way_delay_p50_s, self.one_way_delay_p95_s, self.one_way_delay_p99_s] =
            delays.quantiles_s([0.5, 0.95, 0.99]);
    }
}

columnar! {
    /// One run. The bottleneck is the last hop in the data direction of the first flow, or with several hops the
    /// hop named by `bottleneck`.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct RunRecord {
        /// Time from the start of the run to the end of the last flow. A flow ends with the ACK of the
        /// sender's FIN, the abort, the last datagram's arrival; an unfinished one with the run.
        duration_s: f64 = ("duration", "s"),
        /// Packet events seen.
        events: u64 = ("events", ""),
        /// Packets sent, both directions and protocols.
        packets_sent: u64 = ("packets sent", ""),
        /// Packets delivered.
        packets_delivered: u64 = ("packets delivered", ""),
        /// Packets dropped, from any cause.
        packets_dropped: u64 = ("packets dropped", ""),
        /// The hop that the columns from `efficiency` on describe: the one marked `bottleneck` in the
        /// scenario, or else the slowest in the data direction of the first flow.
        bottleneck: String = ("bottleneck", ""),
        /// In-sequence TCP bytes that the receivers acknowledged, over the time from the first TCP flow's
        /// first packet to the last one's end, as a share of what the last hop could carry in full segments,
        /// in each direction in which TCP flows send. Missing with short flows.
        efficiency: Option<f64> = ("efficiency", "ratio"),
        /// Jain's index over the throughput of the TCP flows that sent, cut ones included. Missing if one was
        /// aborted, and with short flows.
        fairness_jain: Option<f64> = ("fairness (Jain)", "ratio"),
        /// Jain's index over x/e of the TCP flows with offered data: x the in-sequence bytes as in
        /// `efficiency`, e the max-min fair share of the flow's direction of the same capacity given what the
        /// applications wrote. Missing with short flows.
        fairness_maxmin: Option<f64> = ("fairness (max-min)", "ratio"),
        /// Bytes delivered over the bottleneck (IP length, both protocols) over its rate and
        /// `duration_s`.
        utilisation: Option<f64> = ("link utilisation", "ratio"),
        /// The part of `utilisation` without short flows.
        background_share: Option<f64> = ("share of background traffic", "ratio"),
        /// Longest router queue at the bottleneck; missing without a router.
        queue_max_packets: Option<u64> = ("longest queue", "packets"),
        /// Time average of the router queue at the bottleneck, over `duration_s`; missing without a router.
        queue_mean_packets: Option<f64> = ("mean queue", "packets"),
        /// Greatest average that RED computed at the bottleneck, in RED's unit; missing without RED.
        red_average_max: Option<f64> = ("largest RED average", ""),
    }
}

columnar! {
    /// One direction of a hop in one run, of a scenario that has `[hop]`.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct HopRecord {
        /// Name of the hop.
        hop: String = ("hop", ""),
        /// `down`, from the root towards the hosts, or `up`.
        direction: Direction = ("direction", ""),
        /// Packets that arrived at its router, dropped ones included.
        packets_in: u64 = ("packets in", "packets"),
        /// Their IP bytes.
        bytes_in: u64 = ("bytes in", "B"),
        /// Packets that crossed it, copies made by the link included.
        packets_out: u64 = ("packets out", "packets"),
        /// Their IP bytes.
        bytes_out: u64 = ("bytes out", "B"),
        /// `bytes_out` / the time from the start to the end of the last flow.
        throughput_Bps: Option<f64> = ("throughput", "B/s"),
        /// Packets lost to a full router queue.
        drops_queue: u64 = ("queue drops", "packets"),
        /// Packets dropped by RED.
        drops_red: u64 = ("RED drops", "packets"),
        /// Packets dropped by active queue management other than RED.
        drops_aqm: u64 = ("AQM drops", "packets"),
        /// Packets lost on the link (without ARQ, or after its last attempt).
        drops_error: u64 = ("link losses", "packets"),
        /// Packets marked as congestion experienced.
        marks: u64 = ("ECN marks", "packets"),
        /// Median time in the router queue, of all packets.
        queue_delay_p50_s: Option<f64> = ("median queueing delay", "s"),
        /// 95 % quantile of the time in the router queue, of all packets.
        queue_delay_p95_s: Option<f64> = ("p95 of queueing delay", "s"),
        /// 99 % quantile of the time in the router queue, of all packets.
        queue_delay_p99_s: Option<f64> = ("p99 of queueing delay", "s"),
        /// Longest router queue.
        queue_depth_max: u64 = ("longest queue", "packets"),
        /// Bytes that crossed it over what its rate allowed from the start to the end of the last flow.
        utilisation: Option<f64> = ("link utilisation", "ratio"),
        /// Share of the same time in which a packet waited or was in transmission. On a recorded link, which has
        /// no rate, only waiting counts; on a medium, only frames of this direction on the air.
        busy_share: Option<f64> = ("busy share", "ratio"),
    }
}

columnar! {
    /// One direction of one station of a medium in one run.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct StationRecord {
        /// Name of the hop.
        hop: String = ("hop", ""),
        /// Name of the host.
        station: String = ("station", ""),
        /// `down`, from the access point or base station to the station, or `up`.
        direction: Direction = ("direction", ""),
        /// Share of the time from the start to the end of the last flow in which its frames were on the air,
        /// including preceding and answering frames.
        airtime_share: Option<f64> = ("share of airtime", "ratio"),
        /// Frames sent, including repeated ones.
        frames: u64 = ("frames", ""),
        /// Frames that collided with others.
        collisions: u64 = ("collisions", ""),
        /// Packets in its frames, including repeated ones.
        sent_packets: u64 = ("packets sent", "packets"),
        /// Those of them that did not arrive.
        failed_packets: u64 = ("failed packets", "packets"),
        /// Mean number of packets in a frame.
        frame_packets_mean: Option<f64> = ("packets in a frame", "packets"),
    }
}

columnar! {
    /// The short flows of one run that have the same hosts, together: those that were started, also if the
    /// run's end cut them short.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct ShortRecord {
        /// Name of the hosts.
        application: String = ("hosts", ""),
        /// Flows started.
        flows: u64 = ("flows", ""),
        /// Flows whose client received the complete response.
        completed: u64 = ("completed", ""),
        /// Mean flow completion time: the client's first SYN sent to the response's last byte there.
        fct_mean_s: Option<f64> = ("mean completion time", "s"),
        /// Median flow completion time.
        fct_median_s: Option<f64> = ("median completion time", "s"),
        /// 95 % quantile of the flow completion times.
        fct_p95_s: Option<f64> = ("p95 of completion time", "s"),
        /// Greatest flow completion time.
        fct_max_s: Option<f64> = ("longest completion time", "s"),
        /// Mean of the completed flows' throughput: bytes of the response over the completion time.
        throughput_mean_Bps: Option<f64> = ("mean throughput", "B/s"),
        /// Data segments sent by the servers, retransmissions included.
        sent_packets: u64 = ("packets sent", "packets"),
        /// Data segments of the servers that carry at least one byte sent before.
        retransmitted_packets: u64 = ("retransmissions", "packets"),
        /// Unnecessary retransmissions of the servers: every byte reached the client in copies sent earlier.
        unnecessary_retransmissions: u64 = ("unnecessary retransmissions", "packets"),
        /// Packets towards the clients that were lost, from any cause.
        lost_packets: u64 = ("packets lost", "packets"),
        /// Expiries of the servers' retransmission timers, without those of the SYN-ACK.
        timeouts: u64 = ("timeouts", ""),
        /// Expiries of the servers' timers for the SYN-ACK.
        syn_timeouts: u64 = ("SYN timeouts", ""),
        /// Entries of the servers into fast recovery.
        fast_retransmits: u64 = ("fast retransmits", ""),
    }
}

columnar! {
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct PageRecord {
        /// Name of the page load.
        page: String = ("page", ""),
        /// `closed`: the browser received every object and the end of every connection. `aborted`: it did not,
        /// and a connection was aborted by either end.
        outcome: Outcome = ("outcome", ""),
        /// When the browser sent its first SYN; missing if it did not.
        start_s: Option<f64> = ("start", "s"),
        /// Time from the browser's first SYN to the arrival of the last connection's FIN in order, at the
        /// browser; over QUIC from the browser's first packet to the end of the last stream.
        response_time_s: Option<f64> = ("response time", "s"),
        /// Objects of the page.
        objects: u64 = ("objects", ""),
        /// Objects that the browser received completely.
        objects_received: u64 = ("objects received", ""),
        /// Connections that the browser opened.
        connections: u64 = ("connections", ""),
        /// Connections that either end aborted.
        connections_aborted: u64 = ("connections aborted", ""),
    }
}
