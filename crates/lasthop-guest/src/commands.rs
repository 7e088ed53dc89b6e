//! Commands of root, run one after the other, each in a separate network namespace.

use lasthop_host::namespace::lone_network;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::wait;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    command: Vec<String>,
    folder: PathBuf,
}

#[derive(Debug, Serialize)]
pub struct Ended {
    /// Exit code, or 128 and the signal that ended it.
    code: i32,
    /// Its output on both streams.
    output: String,
    /// Virtual time from its start to its end.
    elapsed_ns: u128,
}

/// Offset that shells add to the signal that ended a command.
const SIGNAL_BASE: i32 = 128;
/// A sleep ends when it is over, not up to 50 us later.
const NO_SLACK_NS: u64 = 1;

/// Runs the commands in this environment, and reports each outcome as soon as the command has ended.
pub fn run(
    commands: &[CommandSpec],
    environment: &[(String, String)],
    mut tell: impl FnMut(&Ended) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    set_timerslack(NO_SLACK_NS)?;
    commands.iter().try_for_each(|spec| tell(&run_one(spec, environment)?))
}

fn run_one(spec: &CommandSpec, environment: &[(String, String)]) -> Result<Ended, Box<dyn Error>> {
    lone_network()?;
    let (program, arguments) = spec.command.split_first().ok_or("a command without a program")?;
    let mut output = File::from(memfd_create("output", MFdFlags::MFD_CLOEXEC)?);
    let start = now()?;
    let status = Command::new(program)
        .args(arguments)
        .current_dir(&spec.folder)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .status()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let elapsed_ns = now()?.saturating_sub(start).as_nanos();
    end_all();
    let mut written = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut written)?;
    Ok(Ended {
        code: status.code().unwrap_or_else(|| SIGNAL_BASE + status.signal().unwrap_or_default()),
        output: String::from_utf8_lossy(&written).into_owned(),
        elapsed_ns,
    })
}

fn now() -> Result<Duration, Errno> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// Ends the processes that a command has left behind, before the next one begins.
fn end_all() {
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while wait().is_ok() {}
}
