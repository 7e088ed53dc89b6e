//! From the events of one run to its records.

mod bottleneck;
mod copies;
mod e_model;
mod events;
mod exchange;
mod fairness;
mod hops;
mod joint;
mod measure;
mod page;
mod playback;
mod relayed;
mod short;
mod stations;
mod tcp;
mod udp;
mod voice;

#[cfg(test)]
mod tests;

use crate::records::{FlowRecord, HopRecord, Outcome, PageRecord, RunRecord, ShortRecord, StationRecord};
use crate::samples::Samples;
use bottleneck::Bottleneck;
pub use e_model::Heard;
use exchange::Exchanges;
pub(crate) use fairness::jain;
use fairness::max_min_shares;
use hops::Hops;
use joint::Joint;
use lasthop_core::{
    AirEvent, Direction, Duration, ExchangeEvent, FlowId, FlowInfo, Host, HttpEvent, Instant, Observer,
    Packet, PacketEvent, Part, Place, PlaybackEvent, Protocol, TransportEvent,
};
use lasthop_link::Capacity;
use lasthop_scenario::{ONLY_HOP, Scenario};
use lasthop_traffic::Voice;
pub(crate) use measure::Measure;
use page::Page;
use playback::Playback;
use relayed::join_sides;
use short::Group;
use std::collections::VecDeque;
use tcp::TcpFlow;
use udp::UdpFlow;
use voice::Call;

#[derive(Clone, Debug)]
pub struct RunInfo {
    /// Capacity of the bottleneck according to its rates, down and up.
    pub capacities: [Capacity; 2],
    /// The places of the bottlenecks, down and up.
    pub places: [Place; 2],
    /// The names of their hops.
    pub bottlenecks: [String; 2],
    /// Payload of a full TCP segment.
    pub segment_bytes: u32,
    /// IP length of a full TCP segment, options included.
    pub packet_bytes: u32,
}

/// Properties of an entry of the scenario that are known before the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationInfo {
    pub name: String,
    /// The hosts at its ends: at the edge, and the peer.
    pub hosts: [String; 2],
    /// For each of its ways, whether its packets avoid the bottleneck, down and up.
    pub passes_by: Vec<[bool; 2]>,
    /// Objects of a page load; `None` for other applications.
    pub objects: Option<u32>,
    /// How the frames of a call become speech; `None` for other applications.
    pub voice: Option<Voice>,
    /// Whether it makes requests on its flow.
    pub asks: bool,
    pub plays: bool,
    /// For the host's side of a relay: the number of the whole.
    pub whole: Option<u32>,
}

impl ApplicationInfo {
    /// Whether a flow's data avoid the bottleneck of their direction.
    fn avoids(&self, info: &FlowInfo) -> bool {
        let of_way = self.passes_by.get(info.way()).or(self.passes_by.first());
        of_way.is_some_and(|ways| ways[Direction::from(info.sender) as usize])
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// In the order of their [`FlowId`]. Short flows are left out, unless every flow is to be kept.
    pub flows: Vec<FlowRecord>,
    /// In the order in which their first flow was announced.
    pub shorts: Vec<ShortRecord>,
    /// In the order of the scenario.
    pub pages: Vec<PageRecord>,
    /// Two for each hop, in the order of the tree; none with a single hop: its numbers are those of the run.
    pub hops: Vec<HopRecord>,
    /// Two for each station of a medium, hop by hop.
    pub stations: Vec<StationRecord>,
    pub run: RunRecord,
}

/// Observes one run and turns it into records.
///
/// Memory is that of the packets inside the network plus at most a few hundred kB of samples per flow,
/// however long the run. Each short flow leaves some bytes when it is over. An event of a flow that was not
/// announced causes a panic.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// By [`FlowId`]; `None` for short flows that are over.
    flows: Vec<Option<Box<Flow>>>,
    groups: Vec<Group>,
    keep_every_flow: bool,
    background_bytes: u64,
    applications: Vec<ApplicationInfo>,
    pages: Vec<Page>,
    info: RunInfo,
    record: RunRecord,
    bottleneck: Bottleneck,
    /// Present with several hops.
    hops: Option<Box<Hops>>,
    /// Whether flows have data in this direction: down, up.
    has_data: [bool; 2],
    /// The time of the next event that begins or ends the window that is measured.
    boundary: Instant,
    /// The start of what is counted, and its end if that is not the end of the last flow.
    from: Instant,
    until: Option<Instant>,
    measure: Option<Box<Measure>>,
}

/// One flow: the common part of all protocols, and the specific part. The fields that every packet reads or
/// changes come first, so that they lie in few cache lines.
#[repr(C)]
#[derive(Clone, Debug)]
struct Flow {
    /// Direction of its data.
    data: Direction,
    /// True if both ends have finished it.
    retired: bool,
    /// Index in the scenario of the application that it belongs to.
    application: u32,
    part: Part,
    /// Its packets inside the network.
    inside: u64,
    /// When the sender sent or received the first packet.
    started: Option<Instant>,
    /// When its first packet was sent, in either direction.
    first_packet: Option<Instant>,
    /// Index of the group that it is counted in.
    group: Option<usize>,
    id: FlowId,
    /// Whether its data avoid the bottleneck of their direction.
    passes_by: bool,
    queue_delay: Samples,
    transport: Transport,
    /// Counters that seldom change are kept in the record itself; the other fields are filled in at the end.
    record: FlowRecord,
    /// The values of [`FlowInfo`].
    offered: Option<u64>,
    sends_for: Option<Duration>,
    /// When the complete response had arrived.
    completed: Option<Instant>,
    /// Bytes that its application wrote, if it is TCP.
    offered_bytes: u64,
    /// For a flow on which requests are made.
    exchanges: Option<Exchanges>,
    playback: Option<Playback>,
}

#[derive(Clone, Debug)]
enum Transport {
    Tcp(TcpFlow),
    Udp(UdpFlow),
    /// Several connections, each a separate flow.
    Joint(Joint),
}

impl Analysis {
    /// An analysis of a run of these entries of a scenario over this bottleneck.
    pub fn new(applications: Vec<ApplicationInfo>, run: RunInfo) -> Self {
        let page = |(application, info): (u32, &ApplicationInfo)| {
            info.objects.map(|objects| Page::new(application, info.name.clone(), objects))
        };
        Self {
            flows: Vec::new(),
            groups: Vec::new(),
            keep_every_flow: false,
            background_bytes: 0,
            pages: (0..).zip(&applications).filter_map(page).collect(),
            applications,
            info: run,
            record: RunRecord::default(),
            bottleneck: Bottleneck::default(),
            hops: None,
            has_data: [false; 2],
            boundary: Instant::MAX,
            from: Instant::ZERO,
            until: None,
            measure: None,
        }
    }

    /// Notes what happens at each hop of `scenario`, if it has several.
    #[must_use]
    pub(crate) fn with_hops(mut self, scenario: &Scenario) -> Self {
        self.hops = Hops::of(scenario).map(Box::new);
        self
    }

    /// Counts only what happens in this window; see [`Measure`].
    #[must_use]
    pub(crate) fn within(mut self, measure: Option<Measure>) -> Self {
        if measure.is_some() {
            self.boundary = Instant::ZERO;
        }
        self.measure = measure.map(Box::new);
        self
    }

    /// Short flows have a record each too; a picture or a story of one needs it.
    #[must_use]
    pub fn keep_every_flow(mut self) -> Self {
        self.keep_every_flow = true;
        self
    }

    pub fn finish(mut self, end: Instant) -> Records {
        match self.end_window(end) {
            Some(measured) => self.records(end).measured(measured),
            None => self.records(end),
        }
    }

    fn records(mut self, end: Instant) -> Records {
        self.begin_joints();
        let mut run = self.record;
        let mut flows: Vec<Box<Flow>> = self.flows.into_iter().flatten().collect();
        join_sides(&mut flows);
        let wholes = flows.iter().filter(|flow| flow.part.is_whole());
        let last_end = wholes.map(|flow| flow.ended(end)).max().unwrap_or(end);
        run.duration_s = last_end.as_secs_f64();
        if self.groups.is_empty() {
            let loads = [Direction::Down, Direction::Up]
                .map(|way| TcpLoad::of(&flows, way, &self.info, self.from, end));
            run.efficiency = efficiency(&loads);
            run.fairness_maxmin = fairness_maxmin(&loads);
        }
        let counted = [self.from, self.until.unwrap_or(last_end)];
        let carried =
            self.info.capacities[self.bottleneck.direction() as usize].bytes(counted[0], counted[1]);
        self.bottleneck.finish(&self.info, counted, end, &mut run);
        run.background_share = (carried > 0.0).then(|| self.background_bytes as f64 / carried);
        let pages = self.pages.into_iter().map(Page::finish).collect();
        let mut records = Vec::with_capacity(flows.len());
        let mut wholes = joint::Wholes::default();
        for flow in flows {
            let (id, group, part) = (flow.id, flow.group, flow.part);
            let mut record = match group {
                // Short flows count in the window in which they end.
                Some(group) if self.until.is_none() => self.groups[group].take(*flow, end),
                _ => flow.finish(end),
            };
            if group.is_none() || self.keep_every_flow {
                if let Some(hops) = &mut self.hops {
                    hops.finish_flow(id, &mut record);
                }
                wholes.add(id, part, &mut record, &mut records);
                records.push(record);
            }
        }
        if self.groups.is_empty() {
            let wholes = records.iter().filter(|flow| flow.part_of.is_empty());
            let tcp = wholes.filter(|flow| flow.protocol.is_transfer());
            let whole = tcp.clone().all(|flow| flow.outcome != Outcome::Aborted);
            let throughputs: Vec<f64> = tcp.filter_map(|flow| flow.throughput_Bps).collect();
            run.fairness_jain = jain(&throughputs).filter(|_| whole);
        }
        let shorts = self.groups.into_iter().filter(|group| group.is_recorded).map(Group::finish).collect();
        let (hops, stations) = self.hops.map_or_else(Default::default, |hops| hops.finish(counted, end));
        Records { flows: records, shorts, pages, hops, stations, run }
    }

    /// Begins or ends the window that is measured, if that is due before an event other than a packet's.
    #[inline]
    fn arrive(&mut self, now: Instant) {
        if now >= self.boundary {
            self.cross(now, None);
        }
    }

    fn flow(&mut self, flow: FlowId) -> Option<&mut Flow> {
        self.flows[flow.0 as usize].as_deref_mut()
    }

    /// Adds a short flow to its group once no more events of it can occur.
    fn fold(&mut self, now: Instant, id: FlowId) {
        let over = |flow: &mut Box<Flow>| flow.retired && flow.inside == 0;
        if !self.keep_every_flow
            && let Some(flow) = self.flows[id.0 as usize].take_if(over)
            && let Some(group) = flow.group
        {
            self.groups[group].take(*flow, now);
        }
    }

    fn page_of(&mut self, flow: FlowId) -> Option<&mut Page> {
        let application = self.flows[flow.0 as usize].as_ref()?.application;
        self.pages.iter_mut().find(|page| page.application == application)
    }
}

impl Observer for Analysis {
    fn air(&mut self, now: Instant, place: Place, event: AirEvent) {
        self.arrive(now);
        if let Some(hops) = &mut self.hops {
            hops.air(place, event);
        }
    }

    fn announce(&mut self, info: &FlowInfo) {
        let application = &self.applications[info.application as usize];
        let data = Direction::from(info.sender);
        self.bottleneck.announce(data, self.info.places);
        // Of several queues, the delays are summed up elsewhere.
        self.has_data[data as usize] = self.hops.is_none();
        let group = info.group.as_deref().map(|name| group(&mut self.groups, name, !info.is_control));
        let is_kept = group.is_none() || self.keep_every_flow;
        if let Some(hops) = &mut self.hops {
            hops.announce(info, is_kept);
        }
        let id = FlowId(self.flows.len() as u32);
        self.flows.push(Some(Box::new(Flow::new(id, info, application, group, is_kept))));
        if let Part::Subflow { of, .. } = info.part
            && let Some(whole) = self.flow(of)
        {
            whole.joins(id);
        }
    }

    fn written(&mut self, now: Instant, flow: FlowId, host: Host, bytes: u64) {
        self.arrive(now);
        let Some(flow) = self.flow(flow) else { return };
        if host == flow.sender() {
            flow.offered_bytes += bytes;
            if let (Transport::Udp(udp), Protocol::QuicDatagrams) =
                (&mut flow.transport, flow.record.protocol)
            {
                udp.written(now);
            }
        }
    }

    fn read(&mut self, now: Instant, flow: FlowId, host: Host, bytes: u64, ended: bool) {
        self.arrive(now);
        self.joint_read(now, flow, host, bytes, ended);
    }

    fn datagram(&mut self, now: Instant, flow: FlowId, _host: Host, number: u64) {
        self.arrive(now);
        if let Some(flow) = self.flow(flow)
            && let Transport::Udp(udp) = &mut flow.transport
        {
            udp.understood(now, number);
        }
    }

    fn completed(&mut self, now: Instant, flow: FlowId) {
        self.arrive(now);
        if let Some(flow) = self.flow(flow) {
            flow.completed = Some(now);
        }
    }

    fn retired(&mut self, now: Instant, flow: FlowId) {
        self.arrive(now);
        if let Some(flow) = self.flow(flow) {
            flow.retired = true;
        }
        self.fold(now, flow);
    }

    // The caller knows which event it reports. Inlining therefore removes the match at the call, and each
    // event has a function that does only its own work.
    #[allow(clippy::inline_always, reason = "else it would be a function with a choice at every turn")]
    #[inline(always)]
    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if now >= self.boundary {
            self.cross(now, Some(packet.flow));
        }
        self.record.events += 1;
        if let Some(hops) = &mut self.hops {
            hops.packet(now, event, packet);
        }
        match event {
            PacketEvent::Sent => self.sent(now, packet),
            PacketEvent::Enqueued(depth) => self.bottleneck.queue(now, packet, depth),
            PacketEvent::Dequeued(depth) => {
                self.bottleneck.queue(now, packet, depth);
                self.dequeued(now, packet);
            }
            PacketEvent::Marked => self.marked(packet),
            PacketEvent::LinkRetry => {}
            PacketEvent::Forwarded => self.crossed(packet),
            PacketEvent::Dropped(cause) => self.dropped(now, packet, cause),
            PacketEvent::Delivered => self.delivered(now, packet),
            PacketEvent::Duplicated => self.duplicated(now, packet),
        }
    }

    #[allow(clippy::inline_always, reason = "as for packets: the two of nearly every ACK have little to do")]
    #[inline(always)]
    fn transport(&mut self, now: Instant, flow: FlowId, host: Host, event: TransportEvent) {
        self.arrive(now);
        match event {
            TransportEvent::Window { cwnd, .. } => self.window(flow, host, cwnd),
            TransportEvent::RttSample { rtt, .. } => self.round_trip(flow, host, rtt),
            _ => self.transport_event(now, flow, host, event),
        }
    }

    fn playback(&mut self, now: Instant, flow: FlowId, event: PlaybackEvent) {
        self.arrive(now);
        if let Some(playback) = self.flow(flow).and_then(|flow| flow.playback.as_mut()) {
            playback.note(now, event);
        }
    }

    fn exchange(&mut self, now: Instant, flow: FlowId, event: ExchangeEvent) {
        self.arrive(now);
        if let Some(flow) = self.flow(flow) {
            flow.exchanges.get_or_insert_default().event(now, event, &mut flow.record);
        }
    }

    fn http(&mut self, now: Instant, flow: FlowId, event: HttpEvent) {
        let has_streams = self.flow(flow).is_some_and(|flow| flow.record.protocol == Protocol::Quic);
        if let HttpEvent::LastByte { .. } = event
            && let Some(page) = self.page_of(flow)
        {
            page.object_received();
            if has_streams {
                page.stream_ended(now, flow);
            }
        }
    }
}

impl Flow {
    /// `is_kept`: the flow has its own record.
    fn new(
        id: FlowId,
        info: &FlowInfo,
        application: &ApplicationInfo,
        group: Option<usize>,
        is_kept: bool,
    ) -> Self {
        let name = |name: &str| if is_kept { name.to_owned() } else { String::new() };
        let record = FlowRecord {
            flow: name(&info.name),
            application: name(&application.name),
            host: name(&application.hosts[0]),
            peer: name(&application.hosts[1]),
            protocol: info.protocol,
            direction: Direction::from(info.sender),
            tail_loss_probes: Some(0),
            ..FlowRecord::default()
        };
        let transport = match info.protocol {
            Protocol::Tcp | Protocol::Quic if is_kept => Transport::Tcp(TcpFlow::default()),
            Protocol::Tcp | Protocol::Quic => Transport::Tcp(TcpFlow::without_times()),
            Protocol::Udp | Protocol::QuicDatagrams => {
                Transport::Udp(UdpFlow::of(application.voice.map(Call::new)))
            }
        };
        Self {
            data: record.direction,
            application: application.whole.unwrap_or(info.application),
            group,
            id,
            passes_by: application.avoids(info),
            part: info.part,
            offered: info.offered_bytes,
            sends_for: info.sends_for,
            record,
            started: None,
            first_packet: None,
            completed: None,
            retired: false,
            inside: 0,
            offered_bytes: 0,
            queue_delay: if is_kept { Samples::default() } else { Samples::Ignored },
            exchanges: (application.asks && info.part.is_whole()).then(Exchanges::default),
            playback: (application.plays && info.part.is_whole()).then(Playback::default),
            transport,
        }
    }

    fn is_data(&self, packet: &Packet) -> bool {
        packet.direction == self.data
    }

    fn sender(&self) -> Host {
        self.data.sender()
    }

    /// Payload that a stream has to send.
    fn offered(&self) -> Option<u64> {
        self.offered.filter(|_| self.completed.is_none())
    }

    /// When the flow ended, or the end of the run if it is unfinished.
    fn ended(&self, end: Instant) -> Instant {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.ended(),
            Transport::Udp(udp) => udp.ended(self.offered()),
            Transport::Joint(joint) => joint.ended(),
        }
        .unwrap_or(end)
    }

    fn finish(self, end: Instant) -> FlowRecord {
        let offered = self.offered();
        let mut record = self.record;
        record.start_s = self.started.map(Instant::as_secs_f64);
        record.set_queue_delay(self.queue_delay);
        let drops = record.data_drops();
        record.drop_hops = if drops == 0 { String::new() } else { format!("{ONLY_HOP} {drops}") };
        if let Some(exchanges) = self.exchanges {
            exchanges.finish(&mut record);
        }
        if let Some(playback) = self.playback {
            playback.finish(self.first_packet, end, &mut record);
        }
        match self.transport {
            Transport::Tcp(tcp) => tcp.finish(self.started, end, &mut record),
            Transport::Udp(udp) => udp.finish(self.started, end, offered, &mut record),
            Transport::Joint(joint) => joint.finish(end, &mut record),
        }
        record
    }
}

/// Index of the group with this name; the group is created if there is none.
fn group(groups: &mut Vec<Group>, name: &str, is_recorded: bool) -> usize {
    let index = groups.iter().position(|group| group.name() == name).unwrap_or(groups.len());
    if index == groups.len() {
        groups.push(Group::new(name, is_recorded));
    }
    index
}

/// Offered and delivered bytes of the TCP flows with data in one direction, and the last hop's capacity.
struct TcpLoad {
    /// For each flow, the bytes that its application wrote and those that its receiver acknowledged in order.
    flows: Vec<(f64, f64)>,
    /// In full segments, in bytes, from the first packet of the first flow to the end of the last flow.
    capacity: f64,
}

impl TcpLoad {
    fn of(flows: &[Box<Flow>], direction: Direction, info: &RunInfo, from: Instant, end: Instant) -> Self {
        let mut loads = Vec::new();
        let (mut first_start, mut last_end) = (Instant::MAX, Instant::ZERO);
        let counts = |flow: &Flow| flow.data == direction && !flow.passes_by && flow.part.is_whole();
        for flow in flows.iter().filter(|flow| counts(flow)) {
            if let (Transport::Tcp(tcp), Some(started)) = (&flow.transport, flow.started) {
                let before = tcp.bytes_before();
                let brought = tcp.in_sequence_bytes() - before;
                loads.push((flow.offered_bytes.saturating_sub(before) as f64, brought as f64));
                first_start = first_start.min(started.max(from));
                last_end = last_end.max(flow.ended(end));
            }
        }
        let share = f64::from(info.segment_bytes) / f64::from(info.packet_bytes);
        let capacity = info.capacities[direction as usize].bytes(first_start, last_end);
        Self { flows: loads, capacity: capacity * share }
    }

    /// For each flow with offered data, the delivered bytes over its max-min fair share.
    fn ratios(&self) -> impl Iterator<Item = f64> {
        let (offered, brought): (Vec<f64>, Vec<f64>) =
            self.flows.iter().filter(|(offered, _)| *offered > 0.0).copied().unzip();
        let shares = max_min_shares(&offered, self.capacity);
        brought.into_iter().zip(shares).map(|(brought, share)| brought / share)
    }
}

fn efficiency(loads: &[TcpLoad]) -> Option<f64> {
    let brought: f64 = loads.iter().flat_map(|load| &load.flows).map(|(_, brought)| brought).sum();
    let capacity: f64 = loads.iter().map(|load| load.capacity).sum();
    (capacity > 0.0).then(|| brought / capacity)
}

fn fairness_maxmin(loads: &[TcpLoad]) -> Option<f64> {
    let ratios: Vec<f64> =
        loads.iter().filter(|load| load.capacity > 0.0).flat_map(TcpLoad::ratios).collect();
    jain(&ratios)
}

/// Removes the entry with this number from a ring, and returns its time. Numbers rise in the ring. The entry
/// is nearly always the first; a packet that was dropped on arrival has none.
pub(crate) fn take(ring: &mut VecDeque<(u64, Instant)>, number: u64) -> Option<Instant> {
    if ring.front().is_some_and(|(first, _)| *first == number) {
        return ring.pop_front().map(|(_, at)| at);
    }
    let index = ring.binary_search_by_key(&number, |(other, _)| *other).ok()?;
    ring.remove(index).map(|(_, at)| at)
}

/// Bytes per second from one time to another; 0 if no time passed.
fn rate(bytes: u64, from: Instant, to: Instant) -> f64 {
    let seconds = to.saturating_since(from).as_secs_f64();
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

/// The same of a flow in the window that is measured; `None` if it was over before.
fn rate_within(bytes: u64, from: Instant, to: Instant) -> Option<f64> {
    (from < to).then(|| rate(bytes, from, to))
}

fn outcome(aborted: Option<Instant>, is_done: bool) -> Outcome {
    match aborted {
        Some(_) => Outcome::Aborted,
        None if is_done => Outcome::Closed,
        None => Outcome::Unfinished,
    }
}
