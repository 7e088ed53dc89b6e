//! One run of a real program, whose connections become flows.

use crate::clock::Waiter;
use crate::emulator::{Emulator, RunFacts, tun_name, tun_named};
use crate::error::{Context, Error};
use crate::hop::Hop;
use crate::kept_servers::KeptServers;
use crate::program_hosts::{BetweenHosts, ProgramHosts};
use crate::programs::{Commands, HostProgram, Programs};
use crate::shell::{self, Guest};
use crate::workload::{Connections, Counts, Tape};
use lasthop_core::{Duration, Instant, Observer, Seed};
use lasthop_scenario::Scenario;
use lasthop_trace::CaptureTarget;
use lasthop_traffic::{ProgramConfig, SERVER};
use nix::sys::epoll::EpollFlags;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Exit code of timeout(1) for a command that it had to end.
const TIMED_OUT: i32 = 124;
/// Maximum size of the kept output: the start of its standard output, and the end of its errors.
const PRINTED_BYTES: u64 = 1 << 24;
const ERRORS_BYTES: u64 = 1 << 12;
const SIGNALS: u64 = 0;
/// After this time without packets since the program's end, kept servers have closed their connections: computing
/// takes no time in a guest.
const REST: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, Serialize)]
pub struct ProgramFacts {
    /// Its exit code, as a shell reports it after a signal, or as timeout(1) does after the time limit.
    pub exit_code: i32,
    /// When it ended, in seconds since the start of the run.
    pub program_s: f64,
    pub printed: String,
    /// The end of its standard error, after a remark on servers that did not listen.
    pub errors: String,
}

/// Parameters of a program's run in addition to its scenario.
#[derive(Debug)]
pub struct ProgramSetup<'a> {
    pub guest: Option<&'a Guest<'a>>,
    /// Servers that are already running.
    pub kept: Option<&'a KeptServers>,
    /// True if the emulator has real-time priority, and so must rest.
    pub rests: bool,
    /// The time before a deadline that is spent in a busy loop.
    pub spin: Duration,
    pub capture: Option<&'a CaptureTarget>,
}

#[derive(Debug)]
pub struct Ended<O> {
    /// When the program had ended and all packets had arrived.
    pub at: Instant,
    pub observer: O,
    pub facts: RunFacts,
    pub program: ProgramFacts,
    /// Packets of connections that were never accepted.
    pub unaccepted: Counts,
}

/// Runs the program until it ends and all packets have arrived.
pub fn run<O: Observer>(
    scenario: &Scenario,
    program: &ProgramConfig,
    seed: Seed,
    setting: &ProgramSetup<'_>,
    mut observer: O,
) -> Result<Ended<O>, Error> {
    let (servers, made);
    let hosts = if let Some(kept) = setting.kept {
        servers = Vec::new();
        &kept.hosts
    } else {
        servers = servers_of(program);
        made = ProgramHosts::create(scenario, &far_hosts(program))?;
        &made
    };
    let connections = Connections::between(&hosts.namespaces)?;
    let flows = hosts.carrying(connections.of_transfers(hosts.servers(), &program.transfers));
    let flows = flows.behind_nats(&program.transfers);
    let kept = || memfd_create("printed", MFdFlags::MFD_CLOEXEC).map(File::from);
    let [output, errors] = [kept(), kept()].map(|file| file.context("cannot store the output of a program"));
    let (mut output, mut errors) = (output?, errors?);
    let user = setting.guest.map(|guest| guest.user);
    let others = program.hosts.iter().map(|other| HostProgram::new(&other.name, &other.command));
    let others: Vec<_> = others.collect();
    let own = scenario.flow.iter().find(|flow| flow.real_program().is_some());
    let commands = Commands {
        hosts,
        main: &program.command,
        host: own.and_then(|flow| flow.host.as_deref()),
        servers: &servers,
        others: &others,
        user,
        has_terminal: false,
        kept: Some([&output, &errors]),
    };
    let kept = setting.kept.map(|kept| &kept.programs);
    let (mut programs, clock, remark) = shell::start(&commands, seed, kept)?;
    let capture = setting.capture.map(|target| target.open_for_real_packets(scenario, &hosts.network));
    let capture = capture.transpose().context("cannot write a capture")?;
    let hop = Hop::new(&hosts.network, seed, flows, (Tape::default(), capture));
    let mut emulator = Emulator::new(hop, hosts.tuns(), None, clock, scenario.mtu.0 as usize);
    let mut waiter = Waiter::new(clock, setting.spin, setting.rests)?;
    for host in 0..hosts.namespaces.len() {
        waiter.watch(emulator.tun(host), EpollFlags::EPOLLIN, tun_name(host))?;
    }
    let rest = if setting.kept.is_some() { REST } else { Duration::ZERO };
    let (end, exit_code, ended) = forward((scenario, rest), &mut emulator, &mut programs, &mut waiter)?;
    let facts = emulator.facts(seed.replication);
    let BetweenHosts { flows, applications, .. } = &*emulator.hop.flows().0;
    let flows = flows.flows(applications);
    let (tape, capture) = emulator.hop.into_observer();
    let unaccepted = tape.play(&flows, &mut observer);
    if let Some(capture) = capture {
        capture.finish().context("cannot write a capture")?;
    }
    let cannot = "cannot read the output of a program";
    let printed = read(&mut output, 0).context(cannot)?;
    let length = errors.metadata().context(cannot)?.len();
    let errors = read(&mut errors, length.saturating_sub(ERRORS_BYTES)).context(cannot)?;
    let errors = remark.map(|remark| format!("lasthop: {remark}\n")).unwrap_or_default() + &errors;
    let program = ProgramFacts { exit_code, program_s: ended.as_secs_f64(), printed, errors };
    Ok(Ended { at: end, observer, facts, program, unaccepted })
}

/// The names of the hosts at the far end; at least one.
pub fn far_hosts(program: &ProgramConfig) -> Vec<&str> {
    if !program.transfers.is_empty() {
        return program.transfers.iter().map(|own| own.name.as_str()).collect();
    }
    if program.servers.is_empty() {
        return vec![SERVER];
    }
    program.servers.iter().map(|server| server.name.as_str()).collect()
}

/// The servers of a program; at least one.
pub fn servers_of(program: &ProgramConfig) -> Vec<HostProgram> {
    let servers = program.servers.iter().map(|server| HostProgram::new(&server.name, &server.command));
    let idle = program.servers.is_empty().then(|| HostProgram { name: SERVER.into(), command: None });
    servers.chain(idle).collect()
}

/// Carries packets until the program has ended and no packet has been in flight for this rest. Returns the
/// time of that, the exit code, and the time at which the program ended.
fn forward<O: Observer>(
    (scenario, rest): (&Scenario, Duration),
    emulator: &mut Emulator<'_, BetweenHosts<Connections>, O>,
    programs: &mut Programs,
    waiter: &mut Waiter,
) -> Result<(Instant, i32, Instant), Error> {
    waiter.watch(programs.signals(), EpollFlags::EPOLLIN, SIGNALS)?;
    let limit = Instant::ZERO + scenario.time_limit;
    let (mut ended, mut idle_since) = (None, None);
    let (mut now, mut ready) = (Instant::ZERO, Vec::new());
    loop {
        let idle = ended.is_some() && emulator.hop.packets_inside() == 0;
        let due = emulator.hop.next_wakeup().map_or(limit, |due| due.min(limit));
        // Packets that a host has just sent may still be in its device.
        idle_since = if idle { idle_since.or(Some(now)) } else { None };
        let due = idle_since.map_or(due, |since| since + rest);
        now = waiter.wait(Some(due), &mut ready)?;
        emulator.deliver(now.min(limit), None)?;
        if let Some((code, at)) = ended
            && ((idle && ready.is_empty()) || now >= limit)
        {
            let now = now.min(limit);
            let end = if idle { Instant::from_nanos(now.as_nanos() - rest.as_nanos()) } else { now };
            return Ok((end, code, at));
        }
        if now >= limit {
            programs.end()?;
            return Ok((limit, TIMED_OUT, limit));
        }
        for name in &ready {
            match *name {
                SIGNALS if ended.is_none() => ended = programs.attend()?.map(|code| (code, now)),
                SIGNALS => {}
                tun => emulator.receive(now, tun_named(tun), None)?,
            }
        }
    }
}

/// The text in a file from this offset on, up to the kept size.
fn read(file: &mut File, start: u64) -> io::Result<String> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(PRINTED_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
