//! The user's programs on the hosts.

use crate::clock::{Clock, Waiter};
use crate::emulator::{Emulator, tun_name, tun_named};
use crate::error::{Context, Error};
use crate::guest::{Outcome, User};
use crate::hop::{Hop, OneFlow, needs_single_packets};
use crate::namespace::acquire_rights;
use crate::priority::Priority;
use crate::program_hosts::{BetweenHosts, ProgramHosts};
use crate::programs::{Commands, HostProgram, Programs};
use crate::router::needs_no_router;
use crate::status::{Status, Style};
use crate::terminal::{Keys, Screen, Terminal};
use lasthop_core::{Direction, Duration, FlowId, Instant, Observer, Seed};
use lasthop_link::Schedule;
use lasthop_scenario::{SERVER, Scenario};
use lasthop_trace::CaptureTarget;
use nix::sys::epoll::EpollFlags;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellSpec {
    /// The last hop; its flows are not started.
    #[serde(deserialize_with = "Scenario::from_json")]
    pub scenario: Scenario,
    pub seed: u64,
    /// Mahimahi trace that replaces the rate of the link down.
    pub down: Option<PathBuf>,
    /// The same for the direction up.
    pub up: Option<PathBuf>,
    /// The main program and its arguments; if empty, all programs of hosts at the edge are awaited.
    pub command: Vec<String>,
    /// The host of the main program, if it is not the first at the edge.
    #[serde(default)]
    pub host: Option<String>,
    /// The servers; at least one.
    pub servers: Vec<HostProgram>,
    /// Programs of hosts at the edge.
    #[serde(default)]
    pub hosts: Vec<HostProgram>,
    pub status: Style,
    pub summary: bool,
    /// The time before a deadline that is spent in a busy loop, in microseconds.
    pub spin_us: u64,
    #[serde(default)]
    pub capture: Option<CaptureTarget>,
}

/// Additional parameters in a guest.
#[derive(Debug)]
pub struct Guest<'a> {
    pub user: &'a User,
    /// Source of signals to be passed on: one byte for each, its number.
    pub signals: &'a File,
    /// The standard streams of the client's program, if they are a terminal.
    pub terminal: Option<Terminal>,
}

const SIGNALS: u64 = 0;
const HOST_SIGNALS: u64 = 1;
const TERMINAL: u64 = 2;
/// Head start of the servers in a guest, in virtual time, in which computing takes no time.
const HEAD_START: std::time::Duration = std::time::Duration::from_secs(1);

/// Runs the client's program until it ends; returns its exit code. The calling process must have only one
/// thread, and is in other namespaces afterwards.
pub fn shell(spec: &ShellSpec) -> Result<i32, Error> {
    let had_foreground = tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == getpgrp());
    let outcome = run(spec, None)?;
    if had_foreground {
        // An interactive shell takes the foreground, and does not see our process group to return it.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        let _ = stop.thread_block();
        let _ = tcsetpgrp(std::io::stdin(), getpgrp());
    }
    Ok(outcome.code)
}

/// Runs the client's program until it ends, in a guest or, if there is none, on this machine.
pub fn run(spec: &ShellSpec, guest: Option<&Guest<'_>>) -> Result<Outcome, Error> {
    let seed = Seed { study: spec.seed, replication: 1 };
    let scenario = with_traces(spec)?;
    let scenario = &*scenario.drawn(seed);
    let priority = Priority::acquire();
    acquire_rights()?;
    let names: Vec<&str> = spec.servers.iter().map(|server| server.name.as_str()).collect();
    let hosts = ProgramHosts::create(scenario, &names)?;
    let user = guest.map(|guest| guest.user);
    let terminal = guest.and_then(|guest| guest.terminal.as_ref());
    let has_terminal = terminal.is_some();
    let commands = Commands {
        hosts: &hosts,
        main: &spec.command,
        host: spec.host.as_deref(),
        servers: &spec.servers,
        others: &spec.hosts,
        user,
        has_terminal,
        kept: None,
    };
    let (mut programs, clock, remark) = start(&commands, seed, None)?;
    if let Some(remark) = remark {
        eprintln!("Note: {remark}.");
    }
    let capture = spec.capture.as_ref().map(|target| target.open_for_real_packets(scenario, &hosts.network));
    let capture = capture.transpose().context("cannot write a capture")?;
    // In a tree, the route of a packet is that between its hosts.
    let flow = if scenario.names_hops() { FlowId::stranger(0) } else { FlowId(0) };
    let hop = Hop::new(&hosts.network, seed, hosts.carrying(OneFlow(flow)), capture);
    let mut emulator = Emulator::new(hop, hosts.tuns(), None, clock, scenario.mtu.0 as usize);
    let before_s = processor_time()?;
    let waiter =
        Waiter::new(clock, Duration::from_micros(spec.spin_us), priority.real_time && guest.is_none())?;
    let (code, end) = forward((spec, &hosts), &mut emulator, &mut programs, waiter, guest)?;
    let outcome = Outcome {
        code,
        elapsed_ns: end.as_nanos(),
        counters: *emulator.hop.counters(),
        lateness: emulator.lateness.summary(),
        not_taken: emulator.not_taken,
    };
    if spec.summary {
        let cpu_s = processor_time()? - before_s;
        eprintln!("{}", summary(&outcome, guest.is_none().then_some((priority, cpu_s))));
    }
    while terminal.map_or(Ok(false), Terminal::show)? {}
    if let Some(capture) = emulator.hop.into_observer() {
        capture.finish().context("cannot write a capture")?;
    }
    Ok(outcome)
}

/// Starts the servers' programs and, when all servers listen, the other programs and the clock of the run. Also
/// returns a remark on servers that do not listen. In a guest, the servers have a head start.
pub(crate) fn start(
    commands: &Commands<'_>,
    seed: Seed,
    kept: Option<&Programs>,
) -> Result<(Programs, Clock, Option<String>), Error> {
    let mut programs = Programs::start(commands)?;
    let in_guest = commands.user.is_some();
    if in_guest {
        // When memory is short, the kernel should end the programs, not the emulator. It is set after the
        // start of the programs, which would inherit it.
        fs::write("/proc/self/oom_score_adj", "-1000").context("cannot protect the emulator")?;
        std::thread::sleep(HEAD_START);
    }
    let remark = kept.unwrap_or(&programs).await_servers()?;
    let clock =
        if in_guest { Clock::start_at(Scenario::clock_phase(SERVER, seed))? } else { Clock::start()? };
    programs.start_awaited();
    Ok((programs, clock, remark))
}

/// Emulates until the client's program has ended. Returns its exit code, and the time of its end.
fn forward<O: Observer>(
    (spec, hosts): (&ShellSpec, &ProgramHosts),
    emulator: &mut Emulator<'_, BetweenHosts<OneFlow>, O>,
    programs: &mut Programs,
    mut waiter: Waiter,
    guest: Option<&Guest<'_>>,
) -> Result<(i32, Instant), Error> {
    for host in 0..hosts.namespaces.len() {
        waiter.watch(emulator.tun(host), EpollFlags::EPOLLIN, tun_name(host))?;
    }
    waiter.watch(programs.signals(), EpollFlags::EPOLLIN, SIGNALS)?;
    if let Some(guest) = guest {
        waiter.watch(guest.signals, EpollFlags::EPOLLIN, HOST_SIGNALS)?;
    }
    let terminal = guest.and_then(|guest| guest.terminal.as_ref());
    let mut screen = terminal.map(|terminal| Screen::new(terminal, &waiter, TERMINAL)).transpose()?;
    let mut keys = terminal.map(Keys::new);
    let mut status = Status::new(spec.status);
    let mut ready = Vec::new();
    loop {
        let of_keys = keys.as_ref().and_then(Keys::next_wakeup);
        let of_screen = screen.as_ref().and_then(Screen::next_wakeup);
        let dues = [emulator.hop.next_wakeup(), status.next_wakeup(), of_keys, of_screen];
        let due = dues.into_iter().flatten().min();
        let now = waiter.wait(due, &mut ready)?;
        emulator.deliver(now, None)?;
        for name in &ready {
            match *name {
                SIGNALS => {
                    if let Some(code) = programs.attend()? {
                        status.clear();
                        return Ok((code, now));
                    }
                }
                HOST_SIGNALS => guest.into_iter().try_for_each(|guest| pass_on(guest, programs))?,
                TERMINAL => {}
                tun => emulator.receive(now, tun_named(tun), None)?,
            }
        }
        let has_written = ready.contains(&TERMINAL);
        if let Some(screen) = &mut screen {
            screen.attend(now, &waiter, has_written)?;
        }
        if let Some(keys) = &mut keys
            && !keys.attend(now, has_written)?
        {
            programs.signal(Signal::SIGHUP);
        }
        let queues = [Direction::Down, Direction::Up].map(|way| emulator.hop.queue_depth(way).packets);
        status.show(now, emulator.hop.counters(), queues, || emulator.lateness.summary());
    }
}

fn pass_on(guest: &Guest<'_>, programs: &mut Programs) -> Result<(), Error> {
    let mut numbers = [0; 16];
    let mut signals = guest.signals;
    let count = signals.read(&mut numbers).context("cannot read the signals for the programs")?;
    for number in &numbers[..count] {
        match (Signal::try_from(i32::from(*number)), &guest.terminal) {
            (Ok(Signal::SIGWINCH), Some(terminal)) => terminal.resize()?,
            (Ok(signal), _) => programs.signal(signal),
            (Err(_), _) => {}
        }
    }
    Ok(())
}

/// The scenario, which must have a modelled network, with the traces instead of the rates of its links.
fn with_traces(spec: &ShellSpec) -> Result<Scenario, Error> {
    needs_no_router(&spec.scenario)?;
    needs_single_packets(&spec.scenario)?;
    let mut scenario = spec.scenario.clone();
    for (trace, direction) in [(&spec.down, Direction::Down), (&spec.up, Direction::Up)] {
        let (Some(trace), way) = (trace, direction.name()) else { continue };
        let Some(path) = scenario.only_link(direction) else {
            return Err(Error::new(format!(
                "--{way}: this scenario has no [down] for which to replace the trace; set hop.NAME.{way}.link.trace \
                 in the scenario, leave out --{way}, or use a scenario with [down]"
            )));
        };
        let own = [("change", !path.link.change.is_empty()), ("course", path.link.course.is_some())];
        if let Some((key, _)) = own.iter().find(|(_, is_stated)| *is_stated) {
            return Err(Error::new(format!(
                "--{way}: the scenario sets the changes of this link in {way}.link.{key}; leave out one of the \
                 two"
            )));
        }
        path.link.trace = Some(read_schedule(trace)?);
    }
    Ok(scenario)
}

fn read_schedule(path: &Path) -> Result<Schedule, Error> {
    let text = fs::read_to_string(path).context(&format!("cannot read the trace {}", path.display()))?;
    Schedule::parse(&text).context(&path.display().to_string())
}

/// Processor time of this process so far, in seconds.
fn processor_time() -> Result<f64, Error> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("cannot read the processor time")?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
}

/// The summary for the user; on this machine it includes priority and processor time.
fn summary(outcome: &Outcome, live: Option<(Priority, f64)>) -> String {
    let counters = &outcome.counters;
    let mut lines: Vec<String> = [("down", &counters.down), ("up", &counters.up)]
        .iter()
        .map(|(name, way)| {
            format!(
                "{name:<5} {} packets sent, {} delivered ({} bytes), dropped {} full {} red {} error, marked \
                 {}",
                way.sent,
                way.delivered,
                way.delivered_bytes,
                way.drops_queue,
                way.drops_red,
                way.drops_error,
                way.marks
            )
        })
        .collect();
    let others = [
        (counters.fragments, "fragments passed"),
        (counters.other_protocols, "packets neither TCP nor UDP passed"),
        (counters.malformed, "malformed packets refused"),
        (counters.oversized, "packets above the MTU refused"),
        (counters.link_local, "packets not for a router refused"),
        (outcome.not_taken, "packets not taken by their host"),
    ];
    let others: Vec<_> = others
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !others.is_empty() {
        lines.push(format!("      {}", others.join(", ")));
    }
    let late = &outcome.lateness;
    let lacks =
        |what, has: fn(Priority) -> bool| live.filter(|(priority, _)| !has(*priority)).map_or("", |_| what);
    lines.push(format!(
        "late  p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, max {:.0} us{}{}",
        late.p50_us,
        late.p99_us,
        late.p999_us,
        late.max_us,
        lacks("; no real-time priority", |priority| priority.real_time),
        lacks("; memory not locked", |priority| priority.memory_locked),
    ));
    lines.extend(live.map(|(_, cpu_s)| format!("cpu   {cpu_s:.3} s")));
    if !late.valid {
        lines.push(
            "INVALID: more than 0.1 % of the packets were over 1 ms late; this machine is too busy".into(),
        );
    }
    lines.join("\n")
}
