//! The programs of the two hosts, in a PID namespace of their own: when its first process ends, the kernel ends all
//! others, wherever they have moved to.

use crate::error::{Context, Error};
use crate::namespace::{HostNamespace, addresses};
use caps::{CapSet, Capability};
use lasthop_core::Host;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, geteuid, pipe};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Exit codes of shells for a command that cannot be run, and one that is not there.
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;
/// What a shell adds to the number of the signal that ended a command.
const SIGNAL_BASE: i32 = 128;
/// What is left to the other programs to end by themselves, in milliseconds.
const GRACE_MS: u16 = 500;
/// Signals that are passed on.
const FORWARDED: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// What is run on the two hosts.
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    /// The client's program and its arguments; all ends with it.
    pub client: &'a [String],
    /// A line for the shell of the server.
    pub server: Option<&'a str>,
}

/// The running programs.
pub struct Programs {
    init: Pid,
    /// Closed by the end of this process, whatever ends it.
    _alive: OwnedFd,
    signals: SignalFd,
    stop_asked: bool,
}

impl Programs {
    /// Starts the commands. The calling process must have one thread only; it gets its signals by
    /// [`Programs::attend`] from then on.
    pub fn start(
        server: &HostNamespace,
        client: &HostNamespace,
        commands: &Commands<'_>,
    ) -> Result<Self, Error> {
        let signals = take_signals()?;
        let (watched, alive) = pipe().context("cannot make a pipe")?;
        unshare(CloneFlags::CLONE_NEWPID).context("cannot make a PID namespace")?;
        #[allow(unsafe_code)]
        // SAFETY: this process has one thread, as else making the namespaces would have failed.
        match unsafe { fork() }.context("cannot start a process")? {
            ForkResult::Parent { child } => {
                Ok(Self { init: child, _alive: alive, signals, stop_asked: false })
            }
            ForkResult::Child => {
                drop(alive);
                let code = Init { signals, watched }.run(server, client, commands).unwrap_or_else(|error| {
                    eprintln!("Error: {error}");
                    CANNOT_RUN
                });
                // SAFETY: nothing of the parent's is to be cleaned up by its copy.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Looks at the signals that have come: passes them on, and gives the exit code once the client's program has
    /// ended.
    pub fn attend(&mut self) -> Result<Option<i32>, Error> {
        while let Some(info) = self.signals.read_signal().context("cannot read a signal")? {
            // Those of the terminal reach the programs by themselves.
            let from_process = info.ssi_code <= 0;
            if let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed())
                && FORWARDED.contains(&signal)
                && from_process
            {
                // Who asks twice is not kept waiting.
                let again = std::mem::replace(&mut self.stop_asked, true);
                let _ = kill(self.init, if again { Signal::SIGKILL } else { signal });
            }
        }
        match waitpid(self.init, Some(WaitPidFlag::WNOHANG)).context("cannot wait for the programs")? {
            WaitStatus::Exited(_, code) => Ok(Some(code)),
            WaitStatus::Signaled(_, signal, _) => Ok(Some(SIGNAL_BASE + signal as i32)),
            _ => Ok(None),
        }
    }

    /// Ends all of them at once.
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

/// Lets a program have the signals that are read from a file here.
fn deaf_no_more(command: &mut Command) -> &mut Command {
    #[allow(unsafe_code)]
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(awaited().thread_unblock()?))
    }
}

/// Signals are read from a file from now on.
fn take_signals() -> Result<SignalFd, Error> {
    let set = awaited();
    set.thread_block().context("cannot block signals")?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .context("cannot receive signals by file")
}

/// The first process of the PID namespace.
struct Init {
    signals: SignalFd,
    /// Hangs up when the emulator is gone.
    watched: OwnedFd,
}

impl Init {
    /// Runs the commands until the client's has ended; its exit code.
    fn run(
        &self,
        server: &HostNamespace,
        client: &HostNamespace,
        commands: &Commands<'_>,
    ) -> Result<i32, Error> {
        set_pdeathsig(Signal::SIGKILL).context("cannot tie the programs to the emulator")?;
        // It may have ended before that.
        let mut emulator = [PollFd::new(self.watched.as_fd(), PollFlags::empty())];
        if poll(&mut emulator, PollTimeout::ZERO).context("cannot look after the emulator")? > 0 {
            return Ok(CANNOT_RUN);
        }
        mount_files()?;
        grant_network()?;
        if let Some(line) = commands.server {
            server.enter()?;
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", line]).stdin(Stdio::null());
            deaf_no_more(&mut shell).spawn().context("cannot start the server's command")?;
        }
        client.enter()?;
        let (program, arguments) = commands.client.split_first().expect("a client's command");
        match deaf_no_more(Command::new(program).args(arguments)).spawn() {
            Ok(child) => self.supervise(Pid::from_raw(child.id().cast_signed())),
            Err(error) => {
                eprintln!("Error: cannot run {program:?}: {error}");
                Ok(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN })
            }
        }
    }

    fn supervise(&self, main: Pid) -> Result<i32, Error> {
        let mut code = None;
        loop {
            let timeout = if code.is_some() { GRACE_MS.into() } else { PollTimeout::NONE };
            let mut files = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut files, timeout).context("cannot wait for the programs")?;
            while let Some(info) = self.signals.read_signal().context("cannot read a signal")? {
                if let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed())
                    && FORWARDED.contains(&signal)
                    && info.ssi_code <= 0
                {
                    let _ = kill(main, signal);
                }
            }
            let children_left = reap(main, &mut code);
            if let Some(code) = code
                && (ready == 0 || !children_left)
            {
                return Ok(code);
            }
        }
    }
}

/// Collects the children that have ended; notes the exit code of `main` and asks the others to end, too. False if none
/// is left.
fn reap(main: Pid, code: &mut Option<i32>) -> bool {
    loop {
        let (pid, ended) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, code),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, SIGNAL_BASE + signal as i32),
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) => continue,
            Err(_) => return false,
        };
        if pid == main {
            *code = Some(ended);
            let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
        }
    }
}

/// Processes as the namespace sees them; the hosts by their names; and no name server, as none can be reached.
fn mount_files() -> Result<(), Error> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).context("cannot make a mount namespace")?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .context("cannot keep mounts to the programs")?;
    let hosts: String = [(Host::Server, "server"), (Host::Client, "client")]
        .map(|(host, name)| {
            let (ipv4, ipv6) = addresses(host);
            format!("{ipv4} {name}\n{ipv6} {name}\n")
        })
        .concat();
    let hosts = hosts + &fs::read_to_string("/etc/hosts").unwrap_or_default();
    // A place for files that nobody else sees: /proc, before it gets its own.
    let cannot = "cannot prepare files for the programs";
    mount(NONE, "/proc", Some("tmpfs"), MsFlags::empty(), NONE).context(cannot)?;
    for (name, content) in [("hosts", hosts.as_str()), ("resolv.conf", "")] {
        let (source, target) = (format!("/proc/{name}"), format!("/etc/{name}"));
        fs::write(&source, content).context(cannot)?;
        if fs::exists(&target).unwrap_or(false) {
            mount(Some(source.as_str()), target.as_str(), NONE, MsFlags::MS_BIND, NONE).context(cannot)?;
        }
    }
    umount2("/proc", MntFlags::MNT_DETACH).context(cannot)?;
    mount(NONE, "/proc", Some("proc"), MsFlags::empty(), NONE).context(
        "cannot mount /proc for the programs; a container must let it be seen whole (docker: \
         --security-opt systempaths=unconfined)",
    )
}

/// An ordinary user's programs may change and watch the network of their namespaces, as root's may.
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
