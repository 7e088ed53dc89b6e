//! From the events of one run to its records.

mod bottleneck;
mod copies;
mod page;
mod tcp;
mod udp;

#[cfg(test)]
mod tests;

use crate::records::{FlowRecord, Outcome, PageRecord, RunRecord};
use crate::samples::Samples;
use bottleneck::Bottleneck;
use lasthop_core::{
    Body, Direction, DropCause, FlowId, FlowInfo, Host, HttpEvent, Instant, Observer, Packet, PacketEvent,
    Protocol, TcpEvent,
};
use page::Page;
use std::collections::VecDeque;
use tcp::TcpFlow;
use udp::UdpFlow;

/// What is known of the bottleneck before the run.
#[allow(non_snake_case)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunInfo {
    /// Rate of the bottleneck in bytes of IP length per second.
    pub rate_Bps: f64,
    /// Payload of a full TCP segment.
    pub segment_bytes: u32,
    /// IP length of a full TCP segment, options included.
    pub packet_bytes: u32,
}

/// What is known of an entry of the scenario before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationInfo {
    /// Its name.
    pub name: String,
    /// Objects of a page load; `None` for other applications.
    pub objects: Option<u32>,
}

/// The records of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// In the order of their [`FlowId`].
    pub flows: Vec<FlowRecord>,
    /// In the order of the scenario.
    pub pages: Vec<PageRecord>,
    /// The run as a whole.
    pub run: RunRecord,
}

/// Observes one run and turns it into records.
///
/// Memory is that of the packets inside the network plus at most a few hundred kB of samples per
/// flow, however long the run. Events of flows that were not announced panic.
#[derive(Debug)]
pub struct Analysis {
    flows: Vec<Flow>,
    applications: Vec<ApplicationInfo>,
    pages: Vec<Page>,
    info: RunInfo,
    record: RunRecord,
    bottleneck: Bottleneck,
}

/// One flow: what is common to both protocols, and the part that is not.
#[derive(Debug)]
struct Flow {
    info: FlowInfo,
    /// Counters are kept in the record itself; the rest is filled in at the end.
    record: FlowRecord,
    /// When the sender sent or got the first packet.
    started: Option<Instant>,
    /// Data-direction packets in the router queue, and since when.
    waiting: VecDeque<(u64, Instant)>,
    queue_delay: Samples,
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    Tcp(TcpFlow),
    Udp(UdpFlow),
}

impl Analysis {
    /// An analysis of a run of these entries of a scenario over this bottleneck.
    pub fn new(applications: Vec<ApplicationInfo>, run: RunInfo) -> Self {
        let page = |(application, info): (u32, &ApplicationInfo)| {
            info.objects.map(|objects| Page::new(application, info.name.clone(), objects))
        };
        Self {
            flows: Vec::new(),
            pages: (0..).zip(&applications).filter_map(page).collect(),
            applications,
            info: run,
            record: RunRecord::default(),
            bottleneck: Bottleneck::default(),
        }
    }

    /// The records of a run that ended at `end`.
    pub fn finish(self, end: Instant) -> Records {
        let mut run = self.record;
        let last_end = self.flows.iter().map(|flow| flow.ended(end)).max().unwrap_or(end);
        run.duration_s = last_end.as_secs_f64();
        run.efficiency = efficiency(&self.flows, self.info, end);
        self.bottleneck.finish(self.info, end, last_end, &mut run);
        let pages = self.pages.into_iter().map(Page::finish).collect();
        let flows: Vec<FlowRecord> = self.flows.into_iter().map(Flow::finish).collect();
        let tcp = flows.iter().filter(|flow| flow.protocol == Protocol::Tcp);
        run.fairness_jain =
            tcp.map(|flow| flow.throughput_Bps).collect::<Option<Vec<f64>>>().and_then(|x| jain(&x));
        Records { flows, pages, run }
    }

    /// The page load that a flow is a connection of, if it is one.
    fn page_of(&mut self, flow: FlowId) -> Option<&mut Page> {
        let application = self.flows[flow.0 as usize].info.application;
        self.pages.iter_mut().find(|page| page.application == application)
    }
}

impl Observer for Analysis {
    fn announce(&mut self, info: &FlowInfo) {
        let application = self.applications[info.application as usize].name.clone();
        self.bottleneck.announce(Direction::from(info.sender));
        self.flows.push(Flow::new(info, application));
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        self.record.events += 1;
        match event {
            PacketEvent::Sent => self.record.packets_sent += 1,
            PacketEvent::Delivered => self.record.packets_delivered += 1,
            PacketEvent::Dropped(_) => self.record.packets_dropped += 1,
            _ => {}
        }
        self.bottleneck.packet(now, event, packet);
        self.flows[packet.flow.0 as usize].packet(now, event, packet);
        if !self.pages.is_empty()
            && let Some(page) = self.page_of(packet.flow)
        {
            page.packet(now, event, packet);
        }
    }

    fn tcp(&mut self, now: Instant, flow: FlowId, host: Host, event: TcpEvent) {
        if event == TcpEvent::Aborted
            && let Some(page) = self.page_of(flow)
        {
            page.aborted(flow);
        }
        let flow = &mut self.flows[flow.0 as usize];
        if host == flow.info.sender
            && let Transport::Tcp(tcp) = &mut flow.transport
        {
            tcp.event(now, event, &mut flow.record);
        }
    }

    fn http(&mut self, _now: Instant, flow: FlowId, event: HttpEvent) {
        if let HttpEvent::LastByte { .. } = event
            && let Some(page) = self.page_of(flow)
        {
            page.object_received();
        }
    }
}

impl Flow {
    fn new(info: &FlowInfo, application: String) -> Self {
        let record = FlowRecord {
            flow: info.name.clone(),
            application,
            protocol: info.protocol,
            ..FlowRecord::default()
        };
        let transport = match info.protocol {
            Protocol::Tcp => Transport::Tcp(TcpFlow::default()),
            Protocol::Udp => Transport::Udp(UdpFlow::default()),
        };
        Self {
            info: info.clone(),
            record,
            started: None,
            waiting: VecDeque::new(),
            queue_delay: Samples::default(),
            transport,
        }
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        let data = packet.direction == Direction::from(self.info.sender);
        match event {
            PacketEvent::Sent if data => {
                self.started.get_or_insert(now);
            }
            PacketEvent::Delivered if !data => {
                self.started.get_or_insert(now);
            }
            PacketEvent::Marked if data => self.record.data_marks_ecn += 1,
            PacketEvent::Marked => self.record.ack_marks_ecn += 1,
            PacketEvent::Enqueued(_) if data => self.waiting.push_back((packet.serial, now)),
            PacketEvent::Dequeued(_) if data => {
                if let Some(since) = self.leave_queue(packet.serial) {
                    self.queue_delay.record(now.saturating_since(since));
                }
            }
            PacketEvent::Dropped(cause) => {
                self.leave_queue(packet.serial);
                *self.drops(data, cause) += 1;
            }
            _ => {}
        }
        match (&mut self.transport, &packet.body) {
            (Transport::Tcp(tcp), Body::Tcp(segment)) if data => {
                tcp.data_packet(now, event, packet.serial, segment, &mut self.record);
            }
            (Transport::Tcp(tcp), Body::Tcp(segment)) => {
                tcp.ack_packet(now, event, segment, &mut self.record);
            }
            (Transport::Udp(udp), Body::Udp(datagram)) if data => {
                udp.packet(now, event, *datagram, &mut self.record);
            }
            _ => {}
        }
    }

    /// Forgets a packet in the router queue; when it came, if it was there.
    fn leave_queue(&mut self, serial: u64) -> Option<Instant> {
        let index = self.waiting.iter().position(|(waiting, _)| *waiting == serial)?;
        self.waiting.remove(index).map(|(_, since)| since)
    }

    fn drops(&mut self, data: bool, cause: DropCause) -> &mut u64 {
        let record = &mut self.record;
        match (cause, data) {
            (DropCause::QueueOverflow | DropCause::EarlyPacket | DropCause::Selective, true) => {
                &mut record.data_drops_queue
            }
            (DropCause::QueueOverflow | DropCause::EarlyPacket | DropCause::Selective, false) => {
                &mut record.ack_drops_queue
            }
            (DropCause::Red, true) => &mut record.data_drops_red,
            (DropCause::Red, false) => &mut record.ack_drops_red,
            (DropCause::LinkError | DropCause::ArqGivenUp, true) => &mut record.data_drops_error,
            (DropCause::LinkError | DropCause::ArqGivenUp, false) => &mut record.ack_drops_error,
        }
    }

    /// When the flow ended, or the run's end while it is unfinished.
    fn ended(&self, end: Instant) -> Instant {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.ended(),
            Transport::Udp(udp) => udp.ended(self.info.offered_bytes),
        }
        .unwrap_or(end)
    }

    fn finish(self) -> FlowRecord {
        let mut record = self.record;
        record.start_s = self.started.map(Instant::as_secs_f64);
        [
            record.queue_delay_min_s,
            record.queue_delay_median_s,
            record.queue_delay_p95_s,
            record.queue_delay_max_s,
        ] = self.queue_delay.quantiles_s([0.0, 0.5, 0.95, 1.0]);
        match self.transport {
            Transport::Tcp(tcp) => tcp.finish(self.started, &mut record),
            Transport::Udp(udp) => udp.finish(self.info.offered_bytes, &mut record),
        }
        record
    }
}

/// Jain, Chiu and Hawe (1984): (sum x)^2 / (n sum x^2); `None` without flows or without throughput.
fn jain(throughputs: &[f64]) -> Option<f64> {
    let sum: f64 = throughputs.iter().sum();
    let squares: f64 = throughputs.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (throughputs.len() as f64 * squares))
}

/// See [`RunRecord::efficiency`].
fn efficiency(flows: &[Flow], info: RunInfo, end: Instant) -> Option<f64> {
    let mut bytes = 0;
    let (mut first_start, mut last_end) = (Instant::MAX, Instant::ZERO);
    for flow in flows {
        if let (Transport::Tcp(tcp), Some(started)) = (&flow.transport, flow.started) {
            bytes += tcp.in_sequence_bytes();
            first_start = first_start.min(started);
            last_end = last_end.max(flow.ended(end));
        }
    }
    let capacity = info.rate_Bps * f64::from(info.segment_bytes) / f64::from(info.packet_bytes);
    let span_s = last_end.saturating_since(first_start).as_secs_f64();
    (span_s > 0.0).then(|| bytes as f64 / span_s / capacity)
}

/// The outcome of a flow that ran to its end or did not.
fn closed_if(done: bool) -> Outcome {
    if done { Outcome::Closed } else { Outcome::Unfinished }
}
