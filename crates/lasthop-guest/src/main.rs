//! The first process of a guest kernel in virtual time: it reads what to run from its file system, runs it as the
//! live engine does, writes the answer to a serial line and powers off.
//!
//! Everything it waits for it waits for in epoll: the guest's clock stands still while anything computes, so that a
//! program that polls would stop time.

use lasthop_host::run::RunSpec;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::convert::Infallible;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// What to run, put there by whoever made the initial file system.
const SPEC: &str = "/spec.json";
/// Where the answer goes: the guest's first serial line.
const ANSWER: &str = "/dev/ttyS0";
/// Major and minor number of the TUN driver.
const TUN_DEVICE: (u64, u64) = (10, 200);

fn main() -> Result<Infallible, Errno> {
    let answer = match answer() {
        Ok(answer) => answer,
        Err(error) => serde_json::json!({ "error": error.to_string() }),
    };
    if let Err(error) = send(&answer.to_string()) {
        eprintln!("cannot send the answer: {error}");
    }
    reboot(RebootMode::RB_POWER_OFF)
}

fn answer() -> Result<serde_json::Value, Box<dyn Error>> {
    set_up()?;
    let spec: RunSpec = serde_json::from_str(&fs::read_to_string(SPEC)?)?;
    Ok(lasthop_host::run::run(&spec)?.answer())
}

/// The files that the engine needs.
fn set_up() -> Result<(), Box<dyn Error>> {
    let none: Option<&str> = None;
    for (kind, folder) in [("proc", "/proc"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(folder)?;
        mount(Some(kind), folder, Some(kind), MsFlags::empty(), none)?;
    }
    fs::create_dir_all("/dev/net")?;
    let (major, minor) = TUN_DEVICE;
    match mknod("/dev/net/tun", SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(major, minor)) {
        Err(Errno::EEXIST) => {}
        made => made?,
    }
    Ok(())
}

/// Sends text as it is: a terminal would change its line ends.
fn send(text: &str) -> Result<(), Box<dyn Error>> {
    let mut line: File = OpenOptions::new().read(true).write(true).open(ANSWER)?;
    let mut settings = tcgetattr(&line)?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings)?;
    Ok(line.write_all(text.as_bytes())?)
}
