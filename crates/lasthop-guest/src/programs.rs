//! The user's programs. They see this machine's root file system, read-only, under an overlay for their writes.

use crate::commands::{self, CommandSpec};
use lasthop_host::guest::{Outcome, User};
use lasthop_host::run::RunSpec;
use lasthop_host::shell::{Guest, ShellSpec};
use lasthop_host::terminal::{Settings, Terminal};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::statvfs::statvfs;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use nix::unistd::{chdir, chroot, dup2_stderr, dup2_stdin, dup2_stdout};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramsSpec {
    /// The programs, and the last hop between them; or replications of a scenario that has a program.
    what: What,
    user: User,
    /// When they start, in seconds since 1970.
    date_s: i64,
    /// Folders of this machine that the programs may write to.
    write: Vec<PathBuf>,
    /// Settings of the client program's terminal, if it has one.
    terminal: Option<Settings>,
    /// Devices in [`FILES`]: their names, and the host's files that they represent.
    files: Vec<(String, u64)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// One run, by the user.
    Shell(Box<ShellSpec>),
    /// Runs of a campaign.
    Run(Box<RunSpec>),
    /// Commands of root, without a last hop; each one's outcome is a line of the answer.
    Commands(Vec<CommandSpec>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content {
    Shell(Outcome),
    Run(serde_json::Value),
    Commands {},
}

#[derive(Debug, Serialize)]
pub struct Answer {
    #[serde(flatten)]
    content: Content,
    /// True if the overlay is full.
    overlay_full: bool,
}

/// The driver of `host_files.c`: its minor numbers are the host's files.
const HOST_FILES: u64 = 240;
/// Folder of the files that the specification names.
const FILES: &str = "/dev/lasthop";
/// Signals from the host arrive here.
const SIGNALS: &str = "/dev/ttyS1";
/// Mount points of the machine's root, and of the programs' writes.
const MACHINE: &str = "/machine";
const WRITTEN: &str = "/written";
const ROOT: &str = "/root";
const NONE: Option<&str> = None;

pub fn run(spec: &ProgramsSpec) -> Result<Answer, Box<dyn Error>> {
    make_root(&spec.write)?;
    make_devices(&spec.files)?;
    let terminal = take_streams(spec)?;
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::new(spec.date_s, 0))?;
    let signals = super::line(SIGNALS)?;
    let guest = Guest { user: &spec.user, signals: &signals, terminal };
    let content = match &spec.what {
        What::Shell(shell) => Content::Shell(lasthop_host::shell::run(shell, Some(&guest))?),
        What::Run(run) => Content::Run(lasthop_host::run::run(run, series()?, Some(&guest))?.answer()),
        What::Commands(commands) => {
            commands::run(commands, &spec.user.environment, |ended| {
                Ok(tell(&format!("{}\n", serde_json::to_string(ended)?))?)
            })?;
            Content::Commands {}
        }
    };
    let room = statvfs("/")?;
    let answer = Answer { content, overlay_full: room.blocks_available() == 0 };
    nix::unistd::sync();
    Ok(answer)
}

/// The host's file for a time series, if one is requested.
fn series() -> std::io::Result<Option<Box<dyn Write>>> {
    let file = Path::new(FILES).join("series");
    if !file.exists() {
        return Ok(None);
    }
    Ok(Some(Box::new(BufWriter::new(OpenOptions::new().write(true).open(file)?))))
}

/// Writes the answer into the host's file with that name.
pub fn tell(answer: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(Path::new(FILES).join("answer"))?.write_all(answer.as_bytes())
}

/// Makes the machine's root the root of this process, with the guest's file systems in the usual places.
fn make_root(write: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    for folder in [MACHINE, WRITTEN, ROOT] {
        fs::create_dir_all(folder)?;
    }
    mount(NONE, MACHINE, Some("hostfs"), MsFlags::MS_RDONLY, Some("/"))
        .map_err(|e| format!("hostfs: {e}"))?;
    mount(NONE, WRITTEN, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))?;
    let [upper, work] = ["upper", "work"].map(|name| format!("{WRITTEN}/{name}"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    let layers = format!("lowerdir={MACHINE},upperdir={upper},workdir={work}");
    mount(Some("overlay"), ROOT, Some("overlay"), MsFlags::empty(), Some(layers.as_str()))
        .map_err(|e| format!("overlay: {e}"))?;
    for (kind, folder, options) in [
        ("proc", "proc", NONE),
        ("sysfs", "sys", NONE),
        ("devtmpfs", "dev", NONE),
        ("devpts", "dev/pts", Some("ptmxmode=666,mode=620,gid=5")),
        ("tmpfs", "dev/shm", Some("mode=1777")),
        ("mqueue", "dev/mqueue", NONE),
    ] {
        let target = Path::new(ROOT).join(folder);
        fs::create_dir_all(&target)?;
        mount(Some(kind), &target, Some(kind), MsFlags::empty(), options)
            .map_err(|e| format!("{kind}: {e}"))?;
    }
    for folder in write {
        let target = Path::new(ROOT).join(folder.strip_prefix("/")?);
        mount(NONE, &target, Some("hostfs"), MsFlags::empty(), Some(folder.as_path()))
            .map_err(|error| format!("cannot mount the folder {} writable: {error}", folder.display()))?;
    }
    chdir(ROOT)?;
    mount(Some("."), "/", NONE, MsFlags::MS_MOVE, NONE)?;
    chroot(".")?;
    chdir("/")?;
    // The names of the hosts are mounted over it; a container's root file system may lack it.
    if !fs::exists("/etc/hosts")? {
        fs::create_dir_all("/etc")?;
        File::create("/etc/hosts")?;
    }
    Ok(())
}

/// Creates the devices that the kernel does not create by itself.
fn make_devices(files: &[(String, u64)]) -> Result<(), Box<dyn Error>> {
    super::make_tun()?;
    let everyone = Mode::from_bits_truncate(0o666);
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        symlink(target, Path::new("/dev").join(name))?;
    }
    for (name, number) in files {
        let file = Path::new(FILES).join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        mknod(&file, SFlag::S_IFCHR, everyone, makedev(HOST_FILES, *number))?;
    }
    Ok(())
}

/// Sets the standard streams of this process and all programs to the host's, or to a terminal connected to them.
fn take_streams(spec: &ProgramsSpec) -> Result<Option<Terminal>, Box<dyn Error>> {
    let open = |name| OpenOptions::new().read(true).write(true).open(Path::new(FILES).join(name));
    let [stdin, stdout, stderr]: [File; 3] = [open("stdin")?, open("stdout")?, open("stderr")?];
    if let Some(settings) = &spec.terminal {
        let terminal = Terminal::open(settings, spec.user.user, stdin, stdout)?;
        terminal.take_streams()?;
        return Ok(Some(terminal));
    }
    dup2_stdin(&stdin)?;
    dup2_stdout(&stdout)?;
    dup2_stderr(&stderr)?;
    Ok(None)
}
