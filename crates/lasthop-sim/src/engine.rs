//! One run of a scenario: two hosts, a router, the last hop between them.
//!
//! ```text
//!          LAN              router queue    link
//! server ───────> router ──> [ down ] ══════════════> client
//!        <═══════════════════════ [ up ] <── router <─────── LAN
//! ```
//!
//! Instead of router and link there may be a tree of hops or an ATM switch (`network`).
//!
//! Events are handled in the total order (time, component); components rank the network, the applications in the
//! order of the scenario, then the flows as announced, each with its server and client.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lasthop_core::{
    Direction, Duration, Failure, FlowId, FlowInfo, Host, Instant, Observer, PacketArena, PacketEvent,
    PacketId, Part, Place, Seed, Transport,
};
use lasthop_scenario::Scenario;
use lasthop_tcp::CachedMetrics;
use lasthop_traffic::{Action, Application, Instance};

use crate::agenda::{Agenda, ComponentId, FIRST_APPLICATION, NETWORK};
use crate::flows::{Flow, Hosts, Metrics, Running, ScenarioHosts};
use crate::network::{Network, Wakeup};
use crate::relay::Relay;

#[cfg(test)]
mod tests;

/// State of the hosts that persists across replications, if the scenario allows it.
#[derive(Clone, Debug, Default)]
pub struct HostMemory {
    /// The metrics that each host caches about other hosts, by both names, its own first.
    pub metrics: BTreeMap<(String, String), CachedMetrics>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Time of the last event, or the time limit if that came before the next one.
    pub time: Instant,
    /// Packets still in a buffer or on a wire.
    pub packets_inside: usize,
}

/// Virtual time between two checkpoints, long enough for a negligible cost.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

struct Engine<'a, H: Hosts, A, O> {
    scenario: &'a Scenario,
    agenda: Agenda,
    arena: PacketArena,
    network: Network,
    hosts: H,
    applications: Vec<Running<'a, A>>,
    flows: Vec<Flow<H::End>>,
    /// The ends that an application has just acted on.
    touched: Vec<(FlowId, Host)>,
    next_serial: u64,
    observer: &'a mut O,
}

/// Runs `scenario` once. All randomness comes from named streams of `seed`; `memory` is read and
/// written if the scenario caches metrics. The run ends when no events are left, or at the time limit.
pub fn run(
    scenario: &Scenario,
    seed: Seed,
    memory: &mut HostMemory,
    mut observer: &mut dyn Observer,
) -> RunEnd {
    let mut clock = Instant::ZERO;
    run_by(&mut clock, scenario, seed, memory, &mut observer, &mut || ())
}

/// Runs a scenario with user code as [`run`] does, and reports when and how that code failed. `checkpoint` is
/// called once per second of virtual time; it may end the run by [`Failure::raise`], too.
pub fn try_run(
    scenario: &Scenario,
    seed: Seed,
    memory: &mut HostMemory,
    mut observer: &mut dyn Observer,
    checkpoint: &mut dyn FnMut(),
) -> Result<RunEnd, RunFailure> {
    try_run_for(scenario, seed, memory, &mut observer, checkpoint)
}

/// The same for one type of observer: faster, but each caller compiles another copy of the engine.
pub fn try_run_for<O: Observer>(
    scenario: &Scenario,
    seed: Seed,
    memory: &mut HostMemory,
    observer: &mut O,
    checkpoint: &mut dyn FnMut(),
) -> Result<RunEnd, RunFailure> {
    let mut clock = Instant::ZERO;
    // After a failure, nothing reads the incomplete state of the run.
    let run = AssertUnwindSafe(|| run_by(&mut clock, scenario, seed, memory, observer, checkpoint));
    catch_unwind(run).map_err(|payload| RunFailure { failure: Failure::caught(payload), at: clock })
}

/// How user code ended a run.
#[derive(Debug)]
pub struct RunFailure {
    /// The failure.
    pub failure: Failure,
    /// The virtual time.
    pub at: Instant,
}

/// Runs a scenario; `clock` shows the time.
fn run_by<O: Observer>(
    clock: &mut Instant,
    scenario: &Scenario,
    seed: Seed,
    memory: &mut HostMemory,
    observer: &mut O,
    checkpoint: &mut dyn FnMut(),
) -> RunEnd {
    let (scenario, metrics) = (&*scenario.drawn(seed), Metrics::remembered(&memory.metrics));
    let hosts = ScenarioHosts::new(scenario, seed, &metrics, observer.wants_qlog());
    let end = Engine::new(scenario, seed, hosts, scenario.programs(seed), observer).run(clock, checkpoint);
    memory.metrics = metrics.remember();
    end
}

impl<'a, H: Hosts, A: Application, O: Observer> Engine<'a, H, A, O> {
    /// An engine for the flows and the network of `scenario`, between these hosts, with one element of
    /// `programs` for each entry of the scenario.
    fn new(scenario: &'a Scenario, seed: Seed, hosts: H, programs: Vec<A>, observer: &'a mut O) -> Self {
        let applications = scenario.applications();
        let initial_flows = scenario.flows();
        let running = |(program, instance): (A, &Instance<'a>)| Running {
            program,
            config: instance.config,
            entry: instance.entry,
            flows: Vec::new(),
        };
        let components = programs.len() + 2 * initial_flows.len();
        let mut engine = Self {
            scenario,
            agenda: Agenda::new(components as ComponentId),
            arena: PacketArena::default(),
            network: Network::new(scenario, seed),
            hosts,
            applications: programs.into_iter().zip(&applications).map(running).collect(),
            flows: Vec::with_capacity(initial_flows.len()),
            touched: Vec::new(),
            next_serial: 0,
            observer,
        };
        for info in &initial_flows {
            if info.part != Part::Whole {
                engine.announce_relayed(info);
                continue;
            }
            engine.announce(info, None);
            if applications[info.application as usize].config.traffic().is_open_at_first() {
                let flow = engine.flows.last_mut().expect("just announced");
                for host in [Host::Server, Host::Client] {
                    flow.end(host).expect("no flow has gone yet").open(Instant::ZERO, engine.observer);
                }
            }
        }
        for index in 0..engine.applications.len() {
            engine.schedule_application(index);
        }
        engine
    }

    /// Never inlined: the engine would then be in the caller's stack frame, where loads of data that other
    /// functions have written through a pointer stall. This cost up to a fifth of the time (fourth-generation
    /// AMD EPYC).
    #[inline(never)]
    fn run(&mut self, clock: &mut Instant, checkpoint: &mut dyn FnMut()) -> RunEnd {
        let limit = Instant::ZERO + self.scenario.time_limit;
        let mut next_checkpoint = limit.min(Instant::ZERO + CHECKPOINT_EVERY);
        loop {
            let wakeup = self.network.next();
            let Some((now, component)) = self.agenda.pop(wakeup.at) else { break };
            if now > next_checkpoint {
                if now > limit {
                    *clock = limit;
                    break;
                }
                checkpoint();
                next_checkpoint = limit.min(now + CHECKPOINT_EVERY);
            }
            *clock = now;
            if component == NETWORK {
                self.wake_network(wakeup);
            } else {
                self.wake_host(now, component);
            }
        }
        RunEnd { time: *clock, packets_inside: self.arena.len() }
    }

    /// Announces a flow, with both its ends.
    fn announce(&mut self, info: &FlowInfo, later: Option<usize>) {
        self.observer.announce(info);
        self.network.announce(info.application, info.way());
        let id = FlowId(self.flows.len() as u32);
        let ends = self.hosts.ends(id, info, later);
        let flows = &mut self.applications[info.application as usize].flows;
        self.flows.push(Flow::new(info, flows.len() as u32, ends));
        flows.push(id);
    }

    /// Announces a flow that goes through a relay, or one of its sides, after it.
    fn announce_relayed(&mut self, info: &FlowInfo) {
        self.observer.announce(info);
        self.network.announce(info.application, info.way());
        let id = FlowId(self.flows.len() as u32);
        let Some(relay_end) = info.part.relay_end() else {
            let application = &mut self.applications[info.application as usize];
            let entry = &self.scenario.flow[application.entry];
            let buffer = entry.relay.as_ref().map_or(0, |relay| relay.buffer.0);
            let relay = Relay::new(buffer, application.config.traffic().caller(info.sender));
            self.flows.push(Flow::relayed(info, application.flows.len() as u32, relay));
            return application.flows.push(id);
        };
        let mut side = Flow::new(info, 0, self.hosts.ends(id, info, None));
        side.end(relay_end).expect("it has both ends").hold();
        self.flows.push(side.side_of(&self.flows[id.whole(relay_end).0 as usize]));
    }

    fn wake_network(&mut self, wakeup: Wakeup) {
        self.network.wake(wakeup, &mut self.arena, self.observer);
        while let Some(id) = self.network.poll_delivery(wakeup.at, &self.arena) {
            self.deliver(wakeup.at, id);
        }
    }

    /// The wakeup of an application, or a timer of a flow's end, is due.
    fn wake_host(&mut self, now: Instant, component: ComponentId) {
        let index = (component - FIRST_APPLICATION) as usize;
        if index < self.applications.len() {
            self.applications[index].program.handle_wakeup(now);
            return self.carry_out(now, index);
        }
        let index = index - self.applications.len();
        let flow = FlowId((index / 2) as u32);
        let host = if index.is_multiple_of(2) { Host::Server } else { Host::Client };
        let Some(end) = self.flows[flow.0 as usize].end(host) else { return };
        let wakeup = end.next_wakeup();
        if wakeup.is_none_or(|due| due > now) {
            // The wakeup has moved. The host must not be polled now, because QUIC's pacer would use the
            // opportunity to send.
            return self.agenda.schedule(component, wakeup);
        }
        end.handle_wakeup(now, self.observer);
        self.react(now, flow, host);
    }

    fn schedule_application(&mut self, index: usize) {
        let component = FIRST_APPLICATION + index as ComponentId;
        self.agenda.schedule(component, self.applications[index].program.next_wakeup());
    }

    /// A packet reached the host it was sent to.
    fn deliver(&mut self, now: Instant, id: PacketId) {
        let packet = self.arena.get(id);
        let (flow, host) = (packet.flow, packet.direction.sender().other());
        self.observer.packet(now, PacketEvent::arrival_of(packet), packet);
        let end = self.flows[flow.0 as usize].end(host);
        let is_heard = end.map(|end| end.handle_packet(now, packet, self.observer)).is_some();
        self.arena.remove(id);
        if is_heard {
            self.react(now, flow, host);
        }
    }

    /// Handles an event at one end of a flow: passes the news to the application, performs its actions, and
    /// sends the resulting packets.
    fn react(&mut self, now: Instant, id: FlowId, host: Host) {
        let flow = &mut self.flows[id.0 as usize];
        if flow.relay_end == Some(host) {
            return self.relay(now, id.whole(host));
        }
        let Some(end) = flow.end(host) else { return };
        let news = end.news();
        let (index, number) = (flow.application, flow.number);
        let program = &mut self.applications[index].program;
        if news.is_none() || (news.is_only_data() && !program.heeds_data()) {
            self.flush(now, id, host);
        } else {
            while let Some((stream, received)) = flow.end(host).and_then(Transport::poll_stream) {
                program.handle_stream(now, number, host, stream, received);
            }
            program.handle_news(now, number, host, news);
            self.touched.push((id, host));
            self.carry_out(now, index);
        }
        if self.flows[id.0 as usize].go() {
            self.observer.retired(now, id);
        }
    }

    /// Lets the relay of a flow act, and sends the resulting packets.
    fn relay(&mut self, now: Instant, whole: FlowId) {
        let sides = [Host::Server, Host::Client].map(|host| whole.side(host));
        let [flow, peer_side, host_side] = &mut self.flows[whole.0 as usize..][..3] else { return };
        let Some(relay) = &mut flow.relay else { return };
        let Some(ends) = peer_side.end(Host::Client).zip(host_side.end(Host::Server)) else { return };
        relay.run(now, [ends.0, ends.1], self.observer);
        self.flush(now, sides[0], Host::Client);
        self.flush(now, sides[1], Host::Server);
    }

    /// Performs the actions of an application, then sends the resulting packets. All actions come before any
    /// sending, so that a FIN can be sent with the last data. The ACK of the packet that brought the news
    /// leaves before the SYNs of further connections, as from a host whose TCP is faster than its browser.
    fn carry_out(&mut self, now: Instant, index: usize) {
        while let Some(action) = self.applications[index].program.poll_action() {
            self.act(now, index, action);
        }
        if let [(flow, host)] = self.touched[..] {
            self.touched.clear();
            self.flush(now, flow, host);
        } else {
            let mut touched = std::mem::take(&mut self.touched);
            touched.sort_unstable();
            touched.dedup();
            touched.drain(..).for_each(|(flow, host)| self.flush(now, flow, host));
            self.touched = touched;
        }
        self.schedule_application(index);
    }

    fn act(&mut self, now: Instant, index: usize, action: Action) {
        let id = |flow: u32| self.applications[index].flows[flow as usize];
        match action {
            Action::Open { hosts, is_control, .. } => {
                let later = &self.applications[index].config.traffic().later_flows()[hosts];
                let info = lasthop_traffic::later_flow(self.flows.len(), index as u32, later, is_control);
                self.agenda.grow(2);
                return self.announce(&info, Some(hosts));
            }
            Action::Report { flow, event } => return self.observer.http(now, id(flow), event),
            Action::Play { flow, event } => return self.observer.playback(now, id(flow), event),
            Action::Exchange { flow, event } => return self.observer.exchange(now, id(flow), event),
            Action::Transport { flow, host, event } => {
                return self.observer.transport(now, id(flow), host, event);
            }
            Action::Complete { flow } => return self.observer.completed(now, id(flow)),
            _ => {}
        }
        let Some((flow, host)) = action.end().map(|(flow, host)| (id(flow), host)) else { return };
        let written = flow;
        let flow = if self.flows[flow.0 as usize].relay.is_some() { flow.side(host) } else { flow };
        let Some(end) = self.flows[flow.0 as usize].end(host) else { return };
        if let Action::Write { bytes, .. } | Action::Send { bytes, .. } = action {
            self.observer.written(now, written, host, bytes);
        }
        action.act_on(end, now, self.observer);
        self.touched.push((flow, host));
    }

    /// Puts all packets that an end has to send on its LAN, and schedules its next timer.
    fn flush(&mut self, now: Instant, id: FlowId, host: Host) {
        let flow = &mut self.flows[id.0 as usize];
        let (dscp, server_port) = (flow.dscp, flow.server_port);
        let Some(end) = flow.end(host) else { return };
        while end.may_transmit() {
            let slot = self.arena.reserve();
            let packet = self.arena.get_mut(slot);
            if !end.poll_transmit(now, packet, self.observer) {
                self.arena.remove(slot);
                break;
            }
            (packet.serial, packet.flow, packet.direction) = (self.next_serial, id, Direction::from(host));
            (packet.dscp, packet.server_port, packet.is_copy) = (dscp, server_port, false);
            packet.place = Place::from(packet.direction);
            self.next_serial += 1;
            self.observer.packet(now, PacketEvent::Sent, packet);
            self.network.send(now, host, slot, &mut self.arena);
        }
        let side = u32::from(host == Host::Client);
        let component = FIRST_APPLICATION + self.applications.len() as ComponentId + 2 * id.0 + side;
        self.agenda.schedule(component, end.next_wakeup());
    }
}
