//! A program of the user's behind the last hop.

use crate::clock::{Clock, Waiter};
use crate::emulator::Emulator;
use crate::error::{Context, Error};
use crate::hop::{Hop, OneFlow};
use crate::namespace::{HostConfig, HostNamespace, acquire_rights};
use crate::priority::Priority;
use crate::programs::{Commands, Programs};
use crate::router::needs_no_router;
use crate::status::{Status, Style};
use lasthop_core::{Direction, Duration, Host, Seed};
use lasthop_link::Schedule;
use lasthop_scenario::Scenario;
use nix::sys::epoll::EpollFlags;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What to run, over which last hop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellSpec {
    /// The last hop; its flows are not started.
    pub scenario: Scenario,
    /// Of the random streams.
    pub seed: u64,
    /// Mahimahi traces in place of the links' rates.
    pub down: Option<PathBuf>,
    /// The same, of the way up.
    pub up: Option<PathBuf>,
    /// The client's program and its arguments.
    pub command: Vec<String>,
    /// A shell command line for the server.
    pub server: Option<String>,
    /// How the status is shown.
    pub status: Style,
    /// Whether a summary is written to standard error.
    pub summary: bool,
    /// The last microseconds before a deadline that are spent in a busy loop.
    pub spin_us: u64,
}

const SERVER_TUN: u64 = 0;
const CLIENT_TUN: u64 = 1;
const SIGNALS: u64 = 2;

/// Runs the client's program until it ends; its exit code. The calling process must have one thread only, and is
/// in other namespaces afterwards.
pub fn shell(spec: &ShellSpec) -> Result<i32, Error> {
    let scenario = &with_traces(spec)?;
    let terminal = Terminal::take_note();
    let priority = Priority::acquire();
    acquire_rights()?;
    let mtu = spec.scenario.mtu.0 as u32;
    let server = HostNamespace::create(Host::Server, mtu, &HostConfig::default())?;
    let client = HostNamespace::create(Host::Client, mtu, &HostConfig::default())?;
    let commands = Commands { client: &spec.command, server: spec.server.as_deref() };
    let seed = Seed { study: spec.seed, replication: 1 };
    let clock = Clock::start()?;
    let mut programs = Programs::start(&server, &client, &commands)?;
    let hop = Hop::new(scenario, seed, OneFlow, ());
    let mut emulator = Emulator::new(hop, vec![[&server.tun, &client.tun]], None, clock, mtu as usize);
    let before_s = processor_time()?;
    let waiter = Waiter::new(clock, Duration::from_micros(spec.spin_us), priority.real_time)?;
    let code = forward(spec, &mut emulator, &mut programs, waiter)?;
    terminal.restore();
    if spec.summary {
        eprintln!("{}", summary(&emulator, priority, processor_time()? - before_s));
    }
    Ok(code)
}

fn forward(
    spec: &ShellSpec,
    emulator: &mut Emulator<'_, OneFlow, ()>,
    programs: &mut Programs,
    mut waiter: Waiter,
) -> Result<i32, Error> {
    waiter.watch(emulator.tun(Host::Server, 0), EpollFlags::EPOLLIN, SERVER_TUN)?;
    waiter.watch(emulator.tun(Host::Client, 0), EpollFlags::EPOLLIN, CLIENT_TUN)?;
    waiter.watch(programs.signals(), EpollFlags::EPOLLIN, SIGNALS)?;
    let mut status = Status::new(spec.status);
    let mut ready = Vec::new();
    loop {
        let due = emulator.hop.next_wakeup().into_iter().chain(status.next_wakeup()).min();
        let now = waiter.wait(due, &mut ready)?;
        emulator.deliver(now)?;
        for name in &ready {
            match *name {
                SERVER_TUN => emulator.receive(now, Host::Server, 0)?,
                CLIENT_TUN => emulator.receive(now, Host::Client, 0)?,
                _ => {
                    if let Some(code) = programs.attend()? {
                        status.clear();
                        return Ok(code);
                    }
                }
            }
        }
        let queues = [Direction::Down, Direction::Up].map(|way| emulator.hop.queue_depth(way).packets);
        status.show(now, emulator.hop.counters(), queues, || emulator.lateness.summary());
    }
}

/// The scenario, whose network is one of the models, with the traces in place of the rates of its links.
fn with_traces(spec: &ShellSpec) -> Result<Scenario, Error> {
    needs_no_router(&spec.scenario)?;
    let mut scenario = spec.scenario.clone();
    for (trace, path, way) in [(&spec.down, &mut scenario.down, "down"), (&spec.up, &mut scenario.up, "up")] {
        let Some(trace) = trace else { continue };
        let Some(path) = path else {
            return Err(Error::new(format!(
                "--{way}: an ATM switch has cells, no link that follows a trace; leave --{way} out, or use a scenario \
                 with [down]"
            )));
        };
        let own = [("change", !path.link.change.is_empty()), ("course", path.link.course.is_some())];
        if let Some((key, _)) = own.iter().find(|(_, is_stated)| *is_stated) {
            return Err(Error::new(format!(
                "--{way}: the scenario says itself how this link changes, in {way}.link.{key}; leave out one of the two"
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

fn summary(emulator: &Emulator<'_, OneFlow, ()>, priority: Priority, cpu_s: f64) -> String {
    let counters = emulator.hop.counters();
    let mut lines: Vec<String> = [("down", &counters.down), ("up", &counters.up)]
        .iter()
        .map(|(name, way)| {
            format!(
                "{name:<5} {} packets sent, {} delivered ({} bytes), dropped {} full {} red {} error, marked {}",
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
        (emulator.not_taken, "packets not taken by their host"),
    ];
    let others: Vec<_> = others
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !others.is_empty() {
        lines.push(format!("      {}", others.join(", ")));
    }
    let late = emulator.lateness.summary();
    lines.push(format!(
        "late  p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, max {:.0} us{}{}",
        late.p50_us,
        late.p99_us,
        late.p999_us,
        late.max_us,
        if priority.real_time { "" } else { "; no real-time priority" },
        if priority.memory_locked { "" } else { "; memory not locked" },
    ));
    lines.push(format!("cpu   {cpu_s:.3} s"));
    if !late.valid {
        lines.push(
            "INVALID: more than 0.1 % of the packets were over 1 ms late; this machine is too busy".into(),
        );
    }
    lines.join("\n")
}

/// The terminal, if this process is in its foreground: an interactive shell takes that for itself and cannot give it
/// back, because it does not see our process group.
struct Terminal {
    foreground: bool,
}

impl Terminal {
    fn take_note() -> Self {
        Self { foreground: tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == getpgrp()) }
    }

    fn restore(&self) {
        if self.foreground {
            let mut stop = SigSet::empty();
            stop.add(Signal::SIGTTOU);
            let _ = stop.thread_block();
            let _ = tcsetpgrp(std::io::stdin(), getpgrp());
        }
    }
}
