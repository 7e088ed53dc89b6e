//! The programs of the hosts, in a separate PID namespace: when its first process ends, the kernel ends
//! all others, even if they have moved to other namespaces.

use crate::error::{Context, Error};
use crate::guest::User;
use crate::namespace::Address;
use crate::program_hosts::ProgramHosts;
use crate::servers::{SIGNAL_BASE, Servers, reap};
use crate::terminal::begin_session;
use caps::{CapSet, Capability};
use lasthop_scenario::SERVER;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, geteuid, pipe2};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Exit codes of shells for a command that cannot be run, and for one that does not exist.
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Time for the other programs to end by themselves.
const GRACE: Duration = Duration::from_millis(500);
/// Time for the servers to listen, and the interval of checks.
const LISTEN_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY_MS: u16 = 10;
/// Prefix of an error that the first process reports.
const ERROR: &str = "Error: ";
const FORWARDED: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProgram {
    pub name: String,
    /// A shell command line.
    pub command: Option<String>,
}

impl HostProgram {
    pub fn new(name: &str, command: &str) -> Self {
        Self { name: name.into(), command: Some(command.into()) }
    }
}

#[derive(Clone, Debug)]
pub struct Commands<'a> {
    pub hosts: &'a ProgramHosts,
    /// The program whose end ends the run, and its arguments; if empty, the run ends with the last of
    /// `others`.
    pub main: &'a [String],
    /// The host of that program, if it is not the first at the edge.
    pub host: Option<&'a str>,
    /// Programs of servers, which start first. Their output goes to standard error, after the server's
    /// name.
    pub servers: &'a [HostProgram],
    /// Programs of hosts at the edge.
    pub others: &'a [HostProgram],
    /// Owner of the programs, if different from the user of this process.
    pub user: Option<&'a User>,
    /// True if the standard streams are a terminal for the main program only.
    pub has_terminal: bool,
    /// Files for the output and the errors of the awaited programs; output of servers is then left out. If
    /// absent, the awaited programs have the standard streams.
    pub kept: Option<[&'a File; 2]>,
}

#[derive(Debug)]
pub struct Programs {
    init: Pid,
    /// Reports of the first process on the servers. It closes this pipe when they listen.
    reports: PipeReader,
    /// Pipe for the signal to start the programs of hosts at the edge.
    start: Option<OwnedFd>,
    /// Closed when this process ends, for any reason.
    _alive: OwnedFd,
    signals: SignalFd,
    stop_asked: bool,
}

impl Programs {
    /// Starts the servers' commands. The caller must have one thread; [`Programs::attend`] gets its signals.
    pub fn start(commands: &Commands<'_>) -> Result<Self, Error> {
        let awaited_signals = awaited();
        awaited_signals.thread_block().context("cannot block signals")?;
        let signals = SignalFd::with_flags(&awaited_signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .context("cannot create a signalfd")?;
        let (watched, alive) = pipe2(OFlag::O_CLOEXEC).context("cannot make a pipe")?;
        let (awaited, start) = pipe2(OFlag::O_CLOEXEC).context("cannot make a pipe")?;
        let (reports, tell) = pipe().context("cannot make a pipe")?;
        unshare(CloneFlags::CLONE_NEWPID).context("cannot make a PID namespace")?;
        #[allow(unsafe_code)]
        // SAFETY: this process has one thread; otherwise, making the namespaces would have failed.
        match unsafe { fork() }.context("cannot start a process")? {
            ForkResult::Parent { child } => Ok(Self {
                init: child,
                reports,
                start: Some(start),
                _alive: alive,
                signals,
                stop_asked: false,
            }),
            ForkResult::Child => {
                drop((alive, start, reports));
                let init = Init { signals, watched, start: awaited };
                let code = init.run(commands, tell).unwrap_or_else(|error| {
                    eprintln!("Error: {error}");
                    CANNOT_RUN
                });
                // SAFETY: the copy must not clean up anything of its parent.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Waits until the servers listen, for a limited time. Returns a remark on those that do not; an error if
    /// a server's command has failed.
    pub fn await_servers(&self) -> Result<Option<String>, Error> {
        let cannot = "cannot wait for the servers";
        loop {
            let files = [self.reports.as_fd(), self.signals.as_fd()];
            let mut files = files.map(|file| PollFd::new(file, PollFlags::POLLIN));
            poll(&mut files, PollTimeout::NONE).context(cannot)?;
            if files[0].any().unwrap_or(true) {
                break;
            }
            // It ends with a signal, but the end of the first process is left to `attend`.
            for (signal, _) in forwarded(&self.signals)? {
                let _ = kill(self.init, signal);
            }
        }
        let mut text = String::new();
        (&self.reports).read_to_string(&mut text).context(cannot)?;
        match text.strip_prefix(ERROR) {
            Some(error) => Err(Error::new(error)),
            None => Ok(Some(text).filter(|text| !text.is_empty())),
        }
    }

    /// Starts the programs of hosts at the edge.
    pub fn start_awaited(&mut self) {
        self.start = None;
    }

    /// Passes a signal on, or ends all programs if there was one before.
    pub fn signal(&mut self, signal: Signal) {
        if FORWARDED.contains(&signal) {
            // A second request ends them at once.
            let again = std::mem::replace(&mut self.stop_asked, true);
            let _ = kill(self.init, if again { Signal::SIGKILL } else { signal });
        }
    }

    /// Passes on the signals that have arrived; returns the exit code once the awaited programs have ended.
    pub fn attend(&mut self) -> Result<Option<i32>, Error> {
        for (signal, _) in forwarded(&self.signals)?.into_iter().filter(|(_, from_process)| *from_process) {
            self.signal(signal);
        }
        match waitpid(self.init, Some(WaitPidFlag::WNOHANG)).context("cannot wait for the programs")? {
            WaitStatus::Exited(_, code) => Ok(Some(code)),
            WaitStatus::Signaled(_, signal, _) => Ok(Some(SIGNAL_BASE + signal as i32)),
            _ => Ok(None),
        }
    }

    pub fn end(&self) -> Result<(), Error> {
        kill(self.init, Signal::SIGKILL).context("cannot end the programs")?;
        waitpid(self.init, None).context("cannot wait for the programs").map(|_| ())
    }

    /// Readable when [`Programs::attend`] has something to do.
    pub fn signals(&self) -> impl AsFd {
        self.signals.as_fd()
    }
}

fn awaited() -> SigSet {
    FORWARDED.into_iter().chain([Signal::SIGCHLD]).collect()
}

/// Unblocks, for a program, the signals that this process reads from a signalfd.
fn deaf_no_more(command: &mut Command) -> &mut Command {
    #[allow(unsafe_code)]
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(awaited().thread_unblock()?))
    }
}

/// The signals to pass on that have arrived, and whether each came from a process; those of the terminal
/// reach the programs by themselves.
fn forwarded(signals: &SignalFd) -> Result<Vec<(Signal, bool)>, Error> {
    let mut received = Vec::new();
    while let Some(info) = signals.read_signal().context("cannot read a signal")? {
        if let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed())
            && FORWARDED.contains(&signal)
        {
            received.push((signal, info.ssi_code <= 0));
        }
    }
    Ok(received)
}

type Environment<'a> = &'a [(String, String)];

/// The first process of the PID namespace.
struct Init {
    signals: SignalFd,
    /// Hangs up when the emulator has ended.
    watched: OwnedFd,
    /// Hangs up when the programs of hosts at the edge are to start.
    start: OwnedFd,
}

impl Init {
    /// Runs the commands until those awaited have ended; returns their exit code. Reports when servers listen.
    fn run(&self, commands: &Commands<'_>, mut tell: PipeWriter) -> Result<i32, Error> {
        set_pdeathsig(Signal::SIGKILL).context("cannot bind the programs to the emulator's lifetime")?;
        // It may have ended before that.
        let mut emulator = [PollFd::new(self.watched.as_fd(), PollFlags::empty())];
        if poll(&mut emulator, PollTimeout::ZERO).context("cannot monitor the emulator")? > 0 {
            return Ok(CANNOT_RUN);
        }
        let mut servers = Servers::new(commands.kept.is_none());
        let environment = match self.serve(commands, &mut servers) {
            Ok((_, Served::Stopped(signal))) => return Ok(SIGNAL_BASE + signal as i32),
            Ok((environment, served)) => {
                if let Served::Late(names) = served {
                    let seconds = LISTEN_WITHIN.as_secs();
                    let _ = write!(tell, "{} did not listen within {seconds} s", names.join(" and "));
                }
                environment
            }
            Err(error) => {
                let _ = write!(tell, "{ERROR}{error}");
                return Ok(CANNOT_RUN);
            }
        };
        drop(tell);
        while !servers.wait(&self.start, PollTimeout::NONE)? {}
        match start_awaited(commands, environment)? {
            Ok(awaited) => self.supervise(awaited, &mut servers),
            Err(code) => Ok(code),
        }
    }

    /// Starts the servers' programs, and waits until they listen. Returns the environment of programs, too.
    fn serve<'a>(
        &self,
        commands: &Commands<'a>,
        servers: &mut Servers<'a>,
    ) -> Result<(Option<Environment<'a>>, Served), Error> {
        mount_files(commands.hosts)?;
        let environment = commands.user.map(User::become_it).transpose()?;
        grant_network()?;
        for server in commands.servers {
            if let Some(mut shell) = shell(commands, environment, server)? {
                deaf_no_more(&mut shell);
                servers.start(&server.name, commands.hosts.named(Some(&server.name))?, shell)?;
            }
        }
        let limit = Instant::now() + LISTEN_WITHIN;
        let served = loop {
            let awaited = servers.awaited()?;
            if awaited.is_empty() {
                break Served::Listening;
            }
            if Instant::now() >= limit {
                break Served::Late(awaited.into_iter().map(str::to_owned).collect());
            }
            servers.wait(&self.signals, LOOK_EVERY_MS.into())?;
            if let Some((signal, _)) = forwarded(&self.signals)?.first() {
                break Served::Stopped(*signal);
            }
        };
        Ok((environment, served))
    }

    fn supervise(&self, mut awaited: Awaited, servers: &mut Servers<'_>) -> Result<i32, Error> {
        let mut limit = None;
        loop {
            let left = limit.map(|limit: Instant| limit.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                // Rounded up: in a guest, time stands still for a process that never waits.
                PollTimeout::try_from(left.as_nanos().div_ceil(1_000_000) as i32).unwrap_or(PollTimeout::MAX)
            });
            servers.wait(&self.signals, timeout)?;
            for (signal, _) in forwarded(&self.signals)?.into_iter().filter(|(_, from_process)| *from_process)
            {
                for program in &awaited.running {
                    let _ = kill(*program, signal);
                }
            }
            let children_left = awaited.reap();
            if awaited.is_over() {
                let limit = *limit.get_or_insert_with(|| Instant::now() + GRACE);
                if !children_left || Instant::now() >= limit {
                    servers.finish();
                    return Ok(awaited.code);
                }
            }
        }
    }
}

/// The outcome of waiting for the servers.
enum Served {
    Listening,
    /// These do not listen in time.
    Late(Vec<String>),
    Stopped(Signal),
}

/// A program with the environment of its user, if that is not the caller's.
fn program(name: &str, environment: Option<Environment<'_>>) -> Command {
    let mut command = Command::new(name);
    if let Some(environment) = environment {
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    }
    command
}

/// The shell for the command line of a host, if it has one. The caller is in the host's network afterwards.
fn shell(
    commands: &Commands<'_>,
    environment: Option<Environment<'_>>,
    HostProgram { name, command }: &HostProgram,
) -> Result<Option<Command>, Error> {
    let Some(line) = command else { return Ok(None) };
    commands.hosts.named(Some(name))?.enter()?;
    let mut shell = program("/bin/sh", environment);
    shell.args(["-c", line]).stdin(Stdio::null());
    Ok(Some(shell))
}

/// Starts the programs of hosts at the edge, those that are awaited; the exit code if the main one cannot
/// run.
fn start_awaited(
    commands: &Commands<'_>,
    environment: Option<Environment<'_>>,
) -> Result<Result<Awaited, i32>, Error> {
    let spawn = |mut command: Command| {
        if let Some([output, errors]) = commands.kept {
            let copy = |file: &File| file.try_clone().context("cannot store the output of a program");
            command.stdout(copy(output)?).stderr(copy(errors)?);
        }
        Ok::<_, Error>(deaf_no_more(&mut command).spawn())
    };
    let mut awaited = Awaited::default();
    for other in commands.others {
        let Some(shell) = shell(commands, environment, other)? else { continue };
        awaited.add(&spawn(shell)?.context("cannot start the command of a host")?);
    }
    let Some((name, arguments)) = commands.main.split_first() else { return Ok(Ok(awaited)) };
    commands.hosts.named(commands.host)?.enter()?;
    let mut command = program(name, environment);
    command.args(arguments);
    if commands.has_terminal {
        #[allow(unsafe_code)]
        // SAFETY: the function makes two system calls and allocates nothing.
        unsafe {
            command.pre_exec(begin_session);
        }
    }
    Ok(match spawn(command)? {
        Ok(child) => {
            // The others end with it.
            awaited = Awaited::default();
            awaited.add(&child);
            Ok(awaited)
        }
        Err(error) => {
            eprintln!("Error: cannot run {name:?}: {error}");
            Err(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN })
        }
    })
}

/// The programs with whose end the run ends.
#[derive(Default)]
struct Awaited {
    running: Vec<Pid>,
    /// The exit code of the first that failed.
    code: i32,
}

impl Awaited {
    fn add(&mut self, program: &Child) {
        self.running.push(Pid::from_raw(program.id().cast_signed()));
    }

    fn is_over(&self) -> bool {
        self.running.is_empty()
    }

    /// Reaps the children that have ended; after the last awaited one, ends the others. False if none is
    /// left.
    fn reap(&mut self) -> bool {
        reap(|process, code| {
            let Some(place) = self.running.iter().position(|program| *program == process) else { return };
            self.running.swap_remove(place);
            if self.code == 0 {
                self.code = code;
            }
            if self.is_over() {
                let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
            }
        })
    }
}

/// Sets up `/proc` for the namespace and the names of the hosts, without a name server, as none is reachable.
fn mount_files(of: &ProgramHosts) -> Result<(), Error> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).context("cannot create a mount namespace")?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .context("cannot make mounts private to the programs")?;
    let line =
        |(address, name): (Address, &str)| format!("{} {name}\n{} {name}\n", address.v4(), address.v6());
    let named = of.namespaces.iter().zip(&of.names).map(|(host, name)| (host.address, name.as_str()));
    // The first server has this name, too, if no other host has it.
    let is_free = !of.names.iter().any(|name| name == SERVER);
    let first = is_free.then_some((Address::server(0), SERVER));
    let hosts: String = named.chain(first).map(line).collect();
    let hosts = hosts + &fs::read_to_string("/etc/hosts").unwrap_or_default();
    // A private place for files: /proc, before the new one is mounted.
    let cannot = "cannot prepare files for the programs";
    mount(NONE, "/proc", Some("tmpfs"), MsFlags::empty(), NONE).context(cannot)?;
    for (name, content) in [("hosts", hosts.as_str()), ("resolv.conf", "")] {
        let (source, target) = (format!("/proc/{name}"), format!("/etc/{name}"));
        fs::write(&source, content).context(cannot)?;
        match mount(Some(source.as_str()), target.as_str(), NONE, MsFlags::MS_BIND, NONE) {
            Err(Errno::ENOENT) if name == "hosts" => {
                return Err(Error::new(
                    "this root file system has no /etc/hosts, where programs look up the names of the hosts; \
                     create it, empty if need be: touch /etc/hosts",
                ));
            }
            // Without the file, too, resolvers ask this host's own name server (resolv.conf(5)).
            Err(Errno::ENOENT) => {}
            mounted => mounted.context(cannot)?,
        }
    }
    umount2("/proc", MntFlags::MNT_DETACH).context(cannot)?;
    mount(NONE, "/proc", Some("proc"), MsFlags::empty(), NONE).context(
        "cannot mount /proc for the programs; a container must not mask parts of it (docker: \
         --security-opt systempaths=unconfined)",
    )
}

/// Lets an ordinary user's programs change and observe the network of their namespaces, as root's may.
fn grant_network() -> Result<(), Error> {
    if geteuid().is_root() {
        return Ok(());
    }
    for capability in [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW] {
        for set in [CapSet::Inheritable, CapSet::Ambient] {
            caps::raise(None, set, capability).context("cannot grant a capability")?;
        }
    }
    Ok(())
}
