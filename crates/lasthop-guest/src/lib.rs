//! The first process of a guest kernel in virtual time. It reads a specification from its file system, runs
//! it like the live engine, sends the answer to the host and powers off. It runs replications of a scenario,
//! or the user's programs.
//!
//! All waiting happens in epoll. The guest's clock stops while any process computes, so polling in a loop would
//! never end.

mod commands;
mod programs;

use lasthop_host::run::RunSpec;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use serde::Deserialize;
use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

/// The specification ([`Spec`]), placed there by the creator of the initial file system.
const SPEC: &str = "/spec.json";
/// Folder for captures, with a subfolder for each replication.
const CAPTURES: &str = "/captures";
/// The parts of the time series, if it was requested.
const SERIES: &str = "series.csv";
/// The serial line for the answer: a tar archive of the series' parts in order, `answer.json` and captures.
const LINE: &str = "/dev/ttyS0";
/// Major and minor number of the TUN driver.
const TUN_DEVICE: (u64, u64) = (10, 200);
/// Pages for all TCP sockets together: enough to have no effect, and the same in every boot.
const TCP_MEMORY: &str = "98304 131072 196608";
const SEND_BYTES: usize = 1 << 16;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Spec {
    Run(Box<RunSpec>),
    Programs(Box<programs::ProgramsSpec>),
}

type Archive = tar::Builder<BufWriter<File>>;

/// Sends written data as parts of the time series during the run, so that the guest need not store it.
struct SeriesParts(Rc<RefCell<Archive>>);

impl Write for SeriesParts {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        append(&mut self.0.borrow_mut(), SERIES, part).map(|()| part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the specification in [`SPEC`], sends the answer and powers off. Returns only if it cannot.
pub fn main() -> Result<Infallible, Errno> {
    if let Err(error) = answer() {
        // Only the console is left for the message.
        eprintln!("lasthop-guest: cannot send the answer: {error}");
    }
    reboot(RebootMode::RB_POWER_OFF)
}

fn answer() -> Result<(), Box<dyn Error>> {
    set_up()?;
    let spec = match serde_json::from_str(&fs::read_to_string(SPEC)?)? {
        Spec::Run(spec) => spec,
        Spec::Programs(spec) => {
            let answer = programs::run(&spec).and_then(|answer| Ok(serde_json::to_value(answer)?));
            let answer = answer.unwrap_or_else(failure).to_string();
            return programs::tell(&answer).map_err(|error| format!("{error}; it is {answer}").into());
        }
    };
    let archive = Rc::new(RefCell::new(tar::Builder::new(BufWriter::with_capacity(SEND_BYTES, line(LINE)?))));
    let answer = run(&spec, &archive).unwrap_or_else(failure);
    let mut archive = archive.borrow_mut();
    append(&mut archive, "answer.json", answer.to_string().as_bytes())?;
    if Path::new(CAPTURES).is_dir() {
        archive.append_dir_all("captures", CAPTURES)?;
    }
    archive.finish()?;
    Ok(archive.get_mut().flush()?)
}

#[allow(clippy::needless_pass_by_value, reason = "as `unwrap_or_else` wants it")]
fn failure(error: Box<dyn Error>) -> serde_json::Value {
    serde_json::json!({ "error": error.to_string() })
}

fn run(spec: &RunSpec, archive: &Rc<RefCell<Archive>>) -> Result<serde_json::Value, Box<dyn Error>> {
    for target in spec.wanted.observations.values().filter_map(|wanted| wanted.capture.as_ref()) {
        fs::create_dir_all(&target.folder)?;
    }
    let parts = BufWriter::with_capacity(SEND_BYTES, SeriesParts(Rc::clone(archive)));
    Ok(lasthop_host::run::run(spec, Some(Box::new(parts)), None)?.answer())
}

fn set_up() -> Result<(), Box<dyn Error>> {
    let none: Option<&str> = None;
    for (kind, folder) in [("proc", "/proc"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(folder)?;
        mount(Some(kind), folder, Some(kind), MsFlags::empty(), none)?;
    }
    make_tun()?;
    Ok(fs::write("/proc/sys/net/ipv4/tcp_mem", TCP_MEMORY)?)
}

fn make_tun() -> Result<(), Box<dyn Error>> {
    fs::create_dir_all("/dev/net")?;
    let (major, minor) = TUN_DEVICE;
    match mknod("/dev/net/tun", SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(major, minor)) {
        Err(Errno::EEXIST) => Ok(()),
        made => Ok(made?),
    }
}

/// A serial line in raw mode: a terminal would change line ends.
fn line(path: &str) -> io::Result<File> {
    let line = OpenOptions::new().read(true).write(true).open(path)?;
    let mut settings = tcgetattr(&line)?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings)?;
    Ok(line)
}

fn append(archive: &mut Archive, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content)
}
