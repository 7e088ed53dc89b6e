//! Replications of a scenario with this machine's TCP.

use crate::clock::{Clock, NextWait, Waiter};
use crate::emulator::{Emulator, RunFacts, tun_name, tun_named};
use crate::error::{Context, Error};
use crate::features::{Difference, needs_linux};
use crate::hop::{Hop, needs_single_packets};
use crate::hosts::{Hosts, needs_hosts};
use crate::kept_servers::KeptServers;
use crate::mptcp::{needs_no_mptcp, needs_plain_mptcp};
use crate::namespace::{HostNamespace, acquire_rights};
use crate::priority::Priority;
use crate::program_hosts;
use crate::program_run::{self, ProgramFacts, ProgramSetup};
use crate::router::{LinuxRouter, needs_no_router};
use crate::shell::Guest;
use crate::workload::{Counts, Nginx, Turn, Workload, needs_plain_quic, needs_sockets};
use lasthop_core::{Body, Datagram, Duration, Host, Instant, Observer, Packet, PacketEvent, Protocol, Seed};
use lasthop_scenario::{SERVER, Scenario};
use lasthop_trace::{Analysis, Batch, Column, Kept, Records, Request};
use lasthop_traffic::ProgramConfig;
use nix::sys::epoll::EpollFlags;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use serde::Deserialize;
use std::io::Write;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    #[serde(deserialize_with = "Scenario::from_json")]
    pub scenario: Scenario,
    pub wanted: Request,
    /// The time before a deadline that is spent in a busy loop, in microseconds.
    pub spin_us: u64,
    /// The requesting process; the run ends with it. `None` in a guest.
    #[serde(default)]
    pub parent: Option<i32>,
}

#[derive(Debug)]
pub struct Runs {
    records: Batch,
    facts: Vec<RunFacts>,
    differences: Vec<Difference>,
    priority: Priority,
    kept: Option<Kept>,
    /// The outcome of the real program of each replication, if there is one.
    programs: Vec<ProgramFacts>,
}

impl Runs {
    /// The results as JSON: the tables of the records, columns by name; `trace`, the data kept of a
    /// replication, if any; and `facts` with `runs`, one for each replication, `differences`, the settings of
    /// TCP in which Linux differs from the scenario, and `priority`, the granted permissions.
    pub fn answer(&self) -> serde_json::Value {
        let mut answer = serde_json::Map::new();
        for (name, columns) in self.records.tables() {
            answer.insert(name.into(), table(&columns));
        }
        answer.insert("trace".into(), self.kept.as_ref().map(trace_json).into());
        let facts = serde_json::json!({
            "runs": self.facts,
            "differences": self.differences,
            "priority": self.priority,
            "programs": self.programs,
        });
        answer.insert("facts".into(), facts);
        answer.into()
    }
}

fn trace_json(kept: &Kept) -> serde_json::Value {
    let tables = kept.tables.iter().map(|(name, columns)| ((*name).to_owned(), table(columns)));
    let left_out = ("left_out".to_owned(), serde_json::json!(kept.left_out));
    serde_json::Value::Object(tables.chain([left_out]).collect())
}

fn table(columns: &[(&'static str, Column)]) -> serde_json::Value {
    let columns = columns.iter().map(|(name, column)| ((*name).to_owned(), serde_json::json!(column)));
    serde_json::Value::Object(columns.collect())
}

const ROUTER_TO_SERVER: u64 = 0;
const ROUTER_TO_CLIENT: u64 = 1;

/// The namespaces of the hosts, and a web server that is a separate program.
type HostsAndServer = (Vec<HostNamespace>, Option<Nginx>);

/// Checks that hosts with a real TCP can run a scenario; a Linux router requires lasthop's guest kernel.
pub fn needs_real_hosts(scenario: &Scenario, linux_router: bool) -> Result<(), Error> {
    needs_single_packets(scenario)?;
    if scenario.real_program().is_some() {
        return needs_no_router(scenario);
    }
    needs_plain_quic(scenario)?;
    scenario.tcps().try_for_each(needs_linux)?;
    needs_hosts(scenario)?;
    needs_plain_mptcp(scenario)?;
    needs_sockets(scenario)?;
    if linux_router {
        return Ok(());
    }
    needs_no_mptcp(scenario)?;
    needs_no_router(scenario)
}

/// Runs the replications. A requested time series goes to `series` instead of its file; `guest` is set if they run
/// in a guest with the user's programs. The calling process must have only one thread, and is in other namespaces
/// afterwards.
pub fn run(
    spec: &RunSpec,
    mut series: Option<Box<dyn Write>>,
    guest: Option<&Guest<'_>>,
) -> Result<Runs, Error> {
    let scenario = &spec.scenario;
    let in_guest = spec.parent.is_none();
    needs_real_hosts(scenario, in_guest)?;
    let hosts = Hosts::of(scenario);
    let priority = Priority::acquire();
    acquire_rights()?;
    spec.parent.map_or(Ok(()), tie_to)?;
    let create_hosts = || {
        let namespaces = hosts.create()?;
        let nginx = hosts.web_server().map(|server| Nginx::start(scenario, &namespaces[server]));
        Ok::<HostsAndServer, Error>((namespaces, nginx.transpose()?.flatten()))
    };
    // A guest does not need this: its clock stands still while it computes.
    let rests = priority.real_time && !in_guest;
    let program = scenario.real_program();
    let mut real_hosts = if program.is_none() { create_hosts()? } else { (Vec::new(), None) };
    let (mut records, mut facts, mut programs) = (Batch::of(scenario), Vec::new(), Vec::new());
    let (mut kept, mut kept_servers) = (None, None);
    for (index, replication) in (0..).zip(spec.wanted.numbers()) {
        // The hosts of a chain are kept, because they cache metrics of each other.
        let in_chain = if scenario.sequential() { index } else { 0 };
        if index > 0 && !scenario.sequential() && program.is_none() {
            real_hosts = create_hosts()?;
        }
        let seed = spec.wanted.seed_of(replication);
        let scenario = &*scenario.drawn(seed);
        let mut observation = spec.wanted.observations.get(&replication).cloned().unwrap_or_default();
        // A program's packets are captured at their source, because they may belong to no flow.
        let target = if program.is_some() { observation.capture.take() } else { None };
        let out = observation.series.as_ref().and_then(|_| series.take());
        // The connections of programs are flows between any two hosts.
        let with_ways =
            program.map(|program| program_hosts::network(scenario, &program_run::far_hosts(program)));
        let network = with_ways.as_ref().unwrap_or(scenario);
        let watch = observation.begin(network, out).context("cannot write the observations to make")?;
        let observer = KnownFlows((Analysis::of(network), watch), scenario.has_mptcp());
        let router = LinuxRouter::create(scenario, seed)?;
        let spin = Duration::from_micros(spec.spin_us);
        let mut unaccepted = Counts::default();
        let (end, KnownFlows((analysis, watch), _), of_run) = if let Some(program) = program {
            if let Some(guest) = guest.filter(|_| program.keep_servers.is_some()) {
                serve_again(&mut kept_servers, scenario, program, guest)?;
            }
            let kept = kept_servers.as_ref();
            let setting = ProgramSetup { guest, kept, rests, spin, capture: target.as_ref() };
            let ended = program_run::run(scenario, program, seed, &setting, observer)?;
            programs.push(ended.program);
            unaccepted = ended.unaccepted;
            (ended.at, ended.observer, ended.facts)
        } else {
            let clock =
                if in_guest { Clock::start_at(clock_phase(scenario, seed))? } else { Clock::start()? };
            let waiter = Waiter::new(clock, spin, rests)?;
            run_once(scenario, (seed, in_chain), (&real_hosts.0, &hosts), router, (clock, waiter), observer)?
        };
        let this = Kept::of(watch, (scenario, seed, end), remove_unreported)
            .context("cannot write the observations")?;
        kept = this.or(kept);
        let mut of_this = analysis.finish(end);
        remove_unreported(&mut of_this);
        of_this.run.events += unaccepted.events;
        of_this.run.packets_sent += unaccepted.sent;
        of_this.run.packets_delivered += unaccepted.delivered;
        of_this.run.packets_dropped += unaccepted.dropped;
        records.add(replication, of_this);
        facts.push(of_run);
    }
    let differences = if program.is_none() { hosts.differences() } else { Vec::new() };
    Ok(Runs { records, facts, differences, priority, kept, programs })
}

/// Starts the servers, or prepares running ones for the next replication.
fn serve_again(
    kept: &mut Option<KeptServers>,
    scenario: &Scenario,
    program: &ProgramConfig,
    guest: &Guest<'_>,
) -> Result<(), Error> {
    let names = program_run::far_hosts(program);
    let servers = if let Some(servers) = kept {
        servers
    } else {
        let servers = program_run::servers_of(program);
        kept.insert(KeptServers::start(scenario, &names, &servers, guest.user)?)
    };
    servers.prepare(scenario, &names)
}

/// Removes values that Linux does not report, such as probes with new data, which look like other segments.
fn remove_unreported(records: &mut Records) {
    let transfers = records.flows.iter_mut().filter(|flow| flow.protocol == Protocol::Tcp);
    transfers.for_each(|flow| flow.tail_loss_probes = None);
}

/// Binds the lifetime of this process to that of the requesting process.
fn tie_to(parent: i32) -> Result<(), Error> {
    set_pdeathsig(Signal::SIGKILL).context("cannot bind the run to the lifetime of its caller")?;
    if getppid() == Pid::from_raw(parent) {
        Ok(())
    } else {
        Err(Error::new("the caller of the run has exited"))
    }
}

/// The initial phase of the clock that both hosts of a guest share. It is that of the host that sends the
/// first flow's data, whose timers matter most.
fn clock_phase(scenario: &Scenario, seed: Seed) -> f64 {
    if scenario.tcp.common_clock {
        return 0.0;
    }
    let sender = scenario.flows().first().map_or(Host::Server, |info| info.sender);
    let name = scenario.flow.first().map_or(SERVER, |flow| scenario.host_of(flow, sender));
    Scenario::clock_phase(name, seed)
}

/// Runs one replication. Returns its end, and the observations.
fn run_once<O: Observer>(
    scenario: &Scenario,
    (seed, in_chain): (Seed, u32),
    (namespaces, hosts): (&[HostNamespace], &Hosts<'_>),
    router: Option<LinuxRouter>,
    (clock, mut waiter): (Clock, Waiter),
    mut observer: O,
) -> Result<(Instant, O, RunFacts), Error> {
    for info in scenario.flows() {
        observer.announce(&info);
    }
    let tuns: Vec<_> = namespaces.iter().map(|host| &host.tun).collect();
    let first_socket = tun_name(tuns.len());
    let run = (in_chain, observer.wants_qlog());
    let workload = Workload::new(scenario, seed, run, (namespaces, hosts), (&waiter, first_socket))?;
    let hop = Hop::new(scenario, seed, workload, observer);
    let mtu = scenario.mtu.0 as usize;
    for (host, tun) in tuns.iter().enumerate() {
        waiter.watch_device(tun, tun_name(host), mtu)?;
    }
    let mut emulator = Emulator::new(hop, tuns, router, clock, mtu);
    for (host, name) in [(Host::Server, ROUTER_TO_SERVER), (Host::Client, ROUTER_TO_CLIENT)] {
        if let Some(tun) = emulator.router_tun(host) {
            waiter.watch(tun, EpollFlags::EPOLLIN, name)?;
        }
    }
    let limit = Instant::ZERO + scenario.time_limit;
    let (mut now, mut ready) = (Instant::ZERO, Vec::new());
    let end = loop {
        let idle = emulator.hop.packets_inside() == 0 && emulator.hop.flows().0.is_done();
        let (workload, _) = emulator.hop.flows();
        let action = workload.next_wakeup();
        let due = emulator.hop.next_wakeup().into_iter().chain(action).fold(limit, Instant::min);
        // Packets that a host has just sent may still be in its device.
        let due = if idle { Instant::ZERO } else { due };
        let (workload, observer) = emulator.hop.flows();
        let Some(woken) = workload.wait((now, due), &mut waiter, &mut ready, observer)? else { continue };
        now = woken;
        if idle && ready.is_empty() {
            break now;
        }
        if now >= limit {
            emulator.deliver(limit, None)?;
            break limit;
        }
        let action = action.map_or(limit, |due| due.min(limit));
        let waits = ready.is_empty() && action > now;
        emulator.deliver(now, waits.then_some(NextWait { waiter: &mut waiter, due: action }))?;
        let (workload, observer) = emulator.hop.flows();
        workload.wake(&mut Turn { now, waiter: &waiter, observer }, ready.is_empty())?;
        for (left, name) in (0..ready.len()).rev().zip(&ready) {
            match *name {
                ROUTER_TO_SERVER => emulator.forward(now, Host::Server)?,
                ROUTER_TO_CLIENT => emulator.forward(now, Host::Client)?,
                tun if tun < first_socket => {
                    emulator.receive(now, tun_named(tun), waiter.read_ahead(tun))?;
                }
                socket => {
                    let (workload, observer) = emulator.hop.flows();
                    if left > 0 || !workload.postpone_reading(socket) {
                        workload.ready(&mut Turn { now, waiter: &waiter, observer }, socket)?;
                    }
                }
            }
        }
    };
    let facts = emulator.facts(seed.replication);
    Ok((end, emulator.hop.into_observer(), facts))
}

/// Passes on the events of the scenario's flows; and whether captures need the bytes of whole packets.
struct KnownFlows<O>(O, bool);

macro_rules! inside {
    ($observer:expr, $inner:ident => $call:expr) => {{
        let $inner = &mut $observer.0;
        $call;
    }};
}

impl<O: Observer> Observer for KnownFlows<O> {
    fn bytes(&mut self, packet: &Packet, bytes: &[u8]) {
        if self.1 {
            if !packet.flow.is_stranger() {
                self.0.bytes(packet, bytes);
            }
        // Only the bytes in QUIC datagrams are not known from the packet.
        } else if matches!(packet.body, Body::Quic(_)) {
            self.0.bytes(packet, &bytes[Datagram::HEADER_BYTES as usize..]);
        }
    }

    fn wants_qlog(&self) -> bool {
        self.0.wants_qlog()
    }

    fn packet(&mut self, now: Instant, event: PacketEvent, packet: &Packet) {
        if !packet.flow.is_stranger() {
            self.0.packet(now, event, packet);
        }
    }

    lasthop_core::pass_events_on! { inside }
}
