//! A flow of datagrams, of UDP or within QUIC: losses, spacing and jitter at the receiver.

mod quic;

use super::voice::Call;
use super::{outcome, rate, rate_within, take};
use crate::records::FlowRecord;
use crate::samples::Samples;
use lasthop_core::{Datagram, Duration, Instant, PacketEvent};
use std::collections::VecDeque;

/// The 8-byte UDP header counts as received data, as the studies count it.
const UDP_HEADER_BYTES: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    sent_at: Instant,
    at: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct UdpFlow {
    /// Numbers and send times of the datagrams in flight, in the order of sending.
    on_the_way: VecDeque<(u64, Instant)>,
    offered_bytes: u64,
    received_bytes: u64,
    first_arrival: Option<Instant>,
    last_arrival: Option<Arrival>,
    spacing: Samples,
    /// Sum and number of the spacings.
    spacing_sum: (Duration, u64),
    jitter: Samples,
    /// For a call: the frames at the receiver.
    call: Option<Call>,
    one_way_delay: Samples,
    /// Within QUIC: when each datagram was written, by number.
    written: Vec<Instant>,
    /// Within QUIC: the number after that of the last datagram sent.
    next: u64,
    /// Within QUIC: datagrams that have arrived but are not understood yet, with their send times.
    unread: Vec<(u64, Instant)>,
    /// When the connection that carries them was given up.
    aborted: Option<Instant>,
    /// When counting restarted.
    restarted: Option<Instant>,
    /// When the flow stops, if it sends for a given time. Later datagrams do not count.
    stop: Option<Instant>,
}

impl UdpFlow {
    pub(super) fn of(call: Option<Call>) -> Self {
        Self { call, ..Self::default() }
    }

    pub(super) fn packet(
        &mut self,
        now: Instant,
        event: PacketEvent,
        datagram: Datagram,
        record: &mut FlowRecord,
    ) {
        if self.stop.is_some_and(|stop| now > stop) {
            if matches!(event, PacketEvent::Delivered | PacketEvent::Dropped(_)) {
                self.settle(datagram.number);
            }
            return;
        }
        match event {
            PacketEvent::Sent => {
                record.sent_packets += 1;
                record.sent_bytes += u64::from(datagram.payload_bytes);
                self.offered_bytes += u64::from(datagram.payload_bytes);
                self.on_the_way.push_back((datagram.number, now));
            }
            PacketEvent::Dropped(_) => {
                if self.settle(datagram.number).is_some()
                    && let Some(call) = &mut self.call
                {
                    call.lost(datagram.number);
                }
            }
            PacketEvent::Delivered => {
                record.received_packets += 1;
                self.received_bytes += u64::from(datagram.payload_bytes) + UDP_HEADER_BYTES;
                if let Some(sent_at) = self.settle(datagram.number) {
                    if let Some(call) = &mut self.call {
                        call.arrived(datagram.number, now.saturating_since(sent_at));
                    }
                    self.one_way_delay.record(now.saturating_since(sent_at));
                    self.arrived(Arrival { number: datagram.number, sent_at, at: now });
                }
            }
            _ => {}
        }
    }

    pub(super) fn stops(&mut self, end: Instant) {
        self.stop = Some(end);
    }

    /// Forgets a datagram whose fate is known; returns its send time.
    fn settle(&mut self, number: u64) -> Option<Instant> {
        take(&mut self.on_the_way, number)
    }

    fn arrived(&mut self, arrival: Arrival) {
        self.first_arrival.get_or_insert(arrival.at);
        if let Some(last) = self.last_arrival.replace(arrival)
            && last.number + 1 == arrival.number
        {
            let spacing = arrival.at.saturating_since(last.at);
            let sent = arrival.sent_at.saturating_since(last.sent_at);
            self.spacing.record(spacing);
            self.spacing_sum = (self.spacing_sum.0 + spacing, self.spacing_sum.1 + 1);
            self.jitter.record(spacing.saturating_sub(sent).max(sent.saturating_sub(spacing)));
        }
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.restarted = Some(now);
        self.received_bytes = 0;
        self.spacing_sum = (Duration::ZERO, 0);
        for samples in [&mut self.spacing, &mut self.jitter, &mut self.one_way_delay] {
            samples.restart();
        }
        if let Some(call) = &mut self.call {
            call.restart();
        }
    }

    fn done(&self, offered: Option<u64>) -> bool {
        self.offered_bytes > 0
            && offered.is_none_or(|all| self.offered_bytes >= all)
            && self.on_the_way.is_empty()
    }

    /// When the last datagram arrived, if the fate of all is known; or when the connection was given up.
    pub(super) fn ended(&self, offered: Option<u64>) -> Option<Instant> {
        self.aborted.or(self.last_arrival.filter(|_| self.done(offered)).map(|last| last.at))
    }

    pub(super) fn finish(
        self,
        started: Option<Instant>,
        end: Instant,
        offered: Option<u64>,
        record: &mut FlowRecord,
    ) {
        record.outcome = outcome(self.aborted, self.done(offered));
        let (first, last) = (self.first_arrival, self.last_arrival.map(|last| last.at));
        let elapsed = first.zip(last).map(|(first, last)| last.saturating_since(first).as_secs_f64());
        record.elapsed_s = elapsed.filter(|_| self.stop.is_none());
        // Fewer than two arrivals span no time.
        let since = first.filter(|first| Some(*first) != last).or(started);
        record.throughput_Bps = match (self.restarted, self.stop) {
            (None, None) => since.map(|since| rate(self.received_bytes, since, last.unwrap_or(end))),
            (None, Some(stop)) => started.map(|started| rate(self.received_bytes, started, stop.min(end))),
            (Some(from), stop) => {
                let last = stop.or(self.ended(offered)).unwrap_or(end).min(end);
                started.and_then(|started| rate_within(self.received_bytes, from.max(started), last))
            }
        };
        let (sum, count) = self.spacing_sum;
        record.spacing_mean_ms = (count > 0).then(|| sum.as_secs_f64() * 1e3 / count as f64);
        [record.spacing_p50_ms, record.spacing_p75_ms, record.spacing_p90_ms, record.spacing_max_ms] =
            millis(self.spacing);
        [record.jitter_p50_ms, record.jitter_p75_ms, record.jitter_p90_ms, record.jitter_max_ms] =
            millis(self.jitter);
        if let Some(call) = self.call {
            call.finish(record);
        }
        record.set_one_way_delay(self.one_way_delay);
    }
}

fn millis(samples: Samples) -> [Option<f64>; 4] {
    samples.quantiles_s([0.5, 0.75, 0.9, 1.0]).map(|quantile| quantile.map(|seconds| seconds * 1e3))
}
