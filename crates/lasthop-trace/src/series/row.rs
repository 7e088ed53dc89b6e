//! Steps as rows of a table.

use super::{Known, Step};
use crate::analysis::jain;
use crate::columns::columnar;
use lasthop_core::{Direction, Duration, Instant};

columnar! {
    /// One step of one flow, or of one direction of the last hop, whose rows have no flow.
    #[allow(non_snake_case)]
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct SeriesRow {
        /// When the step began, since the start of the run.
        time_s: f64 = ("time", "s"),
        /// Name of the flow; missing in the rows of the hop.
        flow: String = ("flow", ""),
        /// Flow: the direction of its data. Hop: the direction that the row is of.
        direction: Direction = ("direction", ""),
        /// Payload that reached its receiver in the step for the first time, per second. Hop: of all flows
        /// whose data go that way.
        goodput_Bps: f64 = ("goodput", "B/s"),
        /// Packets that were lost in the step, whatever the cause. Flow: in the direction of its data. Hop:
        /// of all flows, data and ACKs.
        lost_packets: u64 = ("packets lost", "packets"),
        /// Packets that got the congestion-experienced mark in the step; which ones count, as for
        /// `lost_packets`.
        marks_ecn: u64 = ("ECN marks", "packets"),
        /// Mean number of packets in the router queue over the step. Flow: of its packets in the direction of
        /// its data.
        queue_mean_packets: f64 = ("mean queue", "packets"),
        /// Greatest number of packets in the router queue in the step; which ones count, as for
        /// `queue_mean_packets`.
        queue_max_packets: u64 = ("longest queue", "packets"),
        /// Flow: congestion window of its sender at the end of the step, in segments; missing for UDP.
        cwnd: Option<u64> = ("congestion window", ""),
        /// Flow: smoothed round-trip time at the end of the step (RFC 6298, section 2), from the samples that
        /// its sender took; missing before the first one.
        srtt_s: Option<f64> = ("smoothed round-trip time", "s"),
        /// Hop: flows that had data on the way, or to send again, in the step, and whose data go that way.
        sending_flows: Option<u64> = ("flows with data", ""),
        /// Hop: Jain's index over the goodput of these flows; missing if nothing arrived.
        fairness_jain: Option<f64> = ("Jain's index", "ratio"),
        /// Hop: what the direction could have carried in the step, in full IP packets, per second. It follows
        /// the link's changes and traces; missing in the direction of an ATM switch's way back.
        capacity_Bps: Option<f64> = ("capacity", "B/s"),
    }
}

impl Known {
    pub(super) fn rows<'a>(&'a self, steps: &'a [Step], length: Duration) -> impl Iterator<Item = SeriesRow> {
        let seconds = length.as_secs_f64();
        steps.iter().map(move |step| {
            let Step { number, direction, .. } = *step;
            let mut row = SeriesRow {
                time_s: start(number, length).as_secs_f64(),
                flow: step.flow.map_or_else(String::new, |flow| self.names[flow as usize].clone()),
                direction,
                goodput_Bps: step.fresh_bytes as f64 / seconds,
                lost_packets: step.lost_packets,
                marks_ecn: step.marks_ecn,
                queue_mean_packets: step.queue_area as f64 / length.as_nanos() as f64,
                queue_max_packets: step.queue_max.into(),
                cwnd: step.cwnd.map(u64::from),
                srtt_s: step.srtt_ns.map(|nanos| nanos as f64 / 1e9),
                ..SeriesRow::default()
            };
            if step.flow.is_none() {
                let own =
                    steps.iter().filter(|of| of.flow.is_some() && of.is_sending && of.direction == direction);
                let goodputs: Vec<f64> = own.map(|of| of.fresh_bytes as f64).collect();
                row.sending_flows = Some(goodputs.len() as u64);
                row.fairness_jain = jain(&goodputs);
                let capacity = self.bottlenecks.capacities[direction as usize].as_ref();
                let (from, to) = (start(number, length), start(number + 1, length));
                row.capacity_Bps = capacity.map(|capacity| capacity.bytes(from, to) / seconds);
            }
            row
        })
    }
}

pub(super) fn start(number: u64, length: Duration) -> Instant {
    Instant::from_nanos(number.saturating_mul(length.as_nanos()))
}
