//! The first process of a guest kernel in virtual time: it reads what to run from its file system, runs it as the
//! live engine does, sends the answer over a serial line and powers off.
//!
//! Whatever it waits for it waits for in epoll. The guest's clock stands still while anything computes, so a program
//! that polls would wait for ever.

use lasthop_host::run::RunSpec;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::convert::Infallible;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

/// What to run ([`RunSpec`]), put there by whoever made the initial file system.
const SPEC: &str = "/spec.json";
/// Captures are made here, a folder for each replication.
const CAPTURES: &str = "/captures";
/// The time series, if one was asked for.
const SERIES: &str = "/series.csv";
/// Where the answer goes, as a tar archive: `answer.json`, the captures and the time series.
const LINE: &str = "/dev/ttyS0";
/// Major and minor number of the TUN driver.
const TUN_DEVICE: (u64, u64) = (10, 200);
/// Pages for all TCP sockets together: enough never to be felt, and the same in every boot.
const TCP_MEMORY: &str = "98304 131072 196608";
/// Bytes sent at once.
const SEND_BYTES: usize = 1 << 16;

/// Runs what [`SPEC`] asks for, sends the answer and powers off; returns only if the guest cannot power off.
pub fn main() -> Result<Infallible, Errno> {
    let answer = run().unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }));
    if let Err(error) = send(&answer.to_string()) {
        // The console is all that is left.
        eprintln!("lasthop-guest: cannot send the answer: {error}");
    }
    reboot(RebootMode::RB_POWER_OFF)
}

fn run() -> Result<serde_json::Value, Box<dyn Error>> {
    set_up()?;
    let spec: RunSpec = serde_json::from_str(&fs::read_to_string(SPEC)?)?;
    for target in spec.captures.values() {
        fs::create_dir_all(&target.folder)?;
    }
    Ok(lasthop_host::run::run(&spec)?.answer())
}

/// The files and the settings that the engine needs.
fn set_up() -> Result<(), Box<dyn Error>> {
    let none: Option<&str> = None;
    for (kind, folder) in [("proc", "/proc"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(folder)?;
        mount(Some(kind), folder, Some(kind), MsFlags::empty(), none)?;
    }
    fs::create_dir_all("/dev/net")?;
    let (major, minor) = TUN_DEVICE;
    match mknod("/dev/net/tun", SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(major, minor)) {
        Err(Errno::EEXIST) => {}
        made => made?,
    }
    Ok(fs::write("/proc/sys/net/ipv4/tcp_mem", TCP_MEMORY)?)
}

/// Sends the answer, what was captured, and the time series.
fn send(answer: &str) -> Result<(), Box<dyn Error>> {
    let line = OpenOptions::new().read(true).write(true).open(LINE)?;
    // As it is: a terminal would change line ends.
    let mut settings = tcgetattr(&line)?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings)?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(SEND_BYTES, line));
    let mut header = tar::Header::new_gnu();
    header.set_size(answer.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, "answer.json", answer.as_bytes())?;
    if Path::new(CAPTURES).is_dir() {
        archive.append_dir_all("captures", CAPTURES)?;
    }
    if Path::new(SERIES).is_file() {
        archive.append_path_with_name(SERIES, "series.csv")?;
    }
    Ok(archive.into_inner()?.flush()?)
}
